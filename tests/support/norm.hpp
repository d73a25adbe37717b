// Batch normalization under test: random cases, the oracle, and the calls through the public interface.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/norm/problem.hpp"
#include "support/api_run.hpp"

namespace gpudnn::test {

// A forward problem and what goes with it. Backward works on the same x with the layouts of dy, dx and dz.
struct NormCase {
  norm::Problem forward;   // train
  norm::Problem backward;  // of it
  norm::Problem infer;     // the same without running and saved statistics
  double alpha = 1, beta = 0;
  double alpha_param = 1, beta_param = 0;
  double factor = 0.1;
  double mean = 0;  // of x, and its deviation
  double deviation = 1;
  bool plain = false;  // the calls without Ex where there is no activation
  bool without_workspace = false;
  bool misaligned = false;
  std::uint64_t seed = 1;
};

[[nodiscard]] std::string describe(const NormCase& c);
[[nodiscard]] NormCase norm_case(const std::string& train_line);
[[nodiscard]] NormCase random_norm(Random& random);

// Elements by row-major index, rounded to their types.
struct NormValues {
  std::vector<double> x, z, dy, scale, bias, mean, variance;  // the last two: running ones before, or estimated ones
  std::vector<double> y, dx, dscale, dbias;                   // before the call, where they are read
};
[[nodiscard]] NormValues make_values(const NormCase& c);

struct ForwardExpected {
  Expected y, running_mean, running_variance, saved_mean, saved_inverse;
  std::vector<char> passes;  // where the activation's slope is 1
  bool doubtful = false;     // some element lies so near a kink that rounding decides its slope
};
[[nodiscard]] ForwardExpected naive_forward(const NormCase& c, const NormValues& values, bool infer);

// With statistics as forward stored them; empty ones are computed.
struct BackwardExpected {
  Expected dx, dz, dscale, dbias;
};
[[nodiscard]] BackwardExpected naive_backward(const NormCase& c, const NormValues& values,
                                              const std::vector<char>& passes, const std::vector<double>& mean,
                                              const std::vector<double>& inverse);

// Runs forward, inference and backward and compares all that they write. Empty if all is well.
[[nodiscard]] std::string check(const Backend& backend, const NormCase& c);

}  // namespace gpudnn::test
