// Convolutions of 8-bit integers: cases, random ones, and the oracle, which knows nothing of the library's kernels.
// Results are compared bit by bit: the sums are exact, and each step of the epilogue is one rounding to float.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "ops/conv/problem.hpp"
#include "support/random.hpp"

namespace gpudnn::test {

// From 0 on, below `end`.
[[nodiscard]] inline int below(Random& random, int end) { return static_cast<int>(random.between(0, end - 1)); }

struct IntegerCase {
  conv::Problem problem;
  float alpha = 1;
  float beta = 0;   // alpha2 where the problem has a z
  double coef = 0;  // of clipped ReLU
};

// Tensors as they lie in memory.
struct IntegerData {
  std::vector<unsigned char> x, w, y, z;
  std::vector<float> bias, scale;
};

[[nodiscard]] IntegerCase random_integer_case(Random& random);
[[nodiscard]] IntegerData random_integer_data(const IntegerCase& c, Random& random);

// The output's bytes: those of data.y with every element replaced.
[[nodiscard]] std::vector<unsigned char> naive_integer_conv(const IntegerCase& c, const IntegerData& data);

[[nodiscard]] std::string case_text(const IntegerCase& c);

}  // namespace gpudnn::test
