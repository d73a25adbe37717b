// A language model of characters: an LSTM that learns to tell the next character of a text, and then writes by itself.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <gpudnn/gpudnn.hpp>
#include <string>

struct TextOptions {
  std::string file;  // empty: a text of the program's own
  int iterations = 600;
  int batch = 16;   // places in the text that are read at once
  int length = 32;  // characters from one update to the next
  int hidden = 64;
  int layers = 1;
  double rate = 0.005;
  int sample = 400;  // characters to write at the end
  double temperature = 0.7;
  uint64_t seed = 1;
  std::string curve;  // file, or empty
};

// Trains, writes, and returns the mean loss of the last tenth of the training: -log of the probability that the model
// gave to the character that came, in nats. Guessing gives log(number of characters).
double model_text(const gpudnn::Handle& handle, const TextOptions& options);
