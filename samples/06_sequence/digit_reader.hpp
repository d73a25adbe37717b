// A reader of written numbers: lines of one to four drawn digits, which a network reads from left to right without
// being told where one digit ends and the next begins. That is what the CTC loss is for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <gpudnn/gpudnn.hpp>
#include <string>

struct DigitOptions {
  int iterations = 600;
  int batch = 32;
  int hidden = 48;  // in each direction
  double rate = 0.006;
  int test = 500;  // lines
  uint64_t seed = 1;
  std::string curve;  // file, or empty
};

// Trains, reads lines that the training has not seen, and returns the share of those read without a mistake, in
// percent.
double read_digits(const gpudnn::Handle& handle, const DigitOptions& options);
