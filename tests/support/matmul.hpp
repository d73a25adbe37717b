// Matrix products for the tests: random problems, their data, an oracle of nested loops, and runs of one plan.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/matmul/engine.hpp"
#include "support/api_run.hpp"
#include "support/random.hpp"

namespace gpudnn::test {

struct MatmulCase {
  matmul::Problem problem;
  double alpha = 1;
  double beta = 0;
  matmul::ActivationParams activation;
  double padding = 0;
  float descale_a = 1;
  float descale_b = 1;
  float scale_d = 1;
  std::vector<std::int64_t> m, n, k;  // overrides
  bool in_place = false;              // c is d
  bool integers = true;               // small integers, so that every sum is exact; else normally distributed
  std::uint64_t seed = 1;
};

[[nodiscard]] std::string describe(const MatmulCase& c);

// Any types, layouts and options; edges around the tiles of kernels.
[[nodiscard]] MatmulCase random_matmul(Random& random);
// Scalars, overrides and data for the problem of a line.
[[nodiscard]] MatmulCase matmul_case(const std::string& line, bool integers, std::uint64_t seed);

struct MatmulValues {
  std::vector<double> a, b, c, bias;
};
[[nodiscard]] MatmulValues make_values(const MatmulCase& c);

struct MatmulExpected {
  Expected d;
  double amax = 0;
  double amax_slack = 0;
};
// Loops over the definition, in long sums of doubles (exact for small integers).
[[nodiscard]] MatmulExpected naive(const MatmulCase& c, const MatmulValues& values);

// The matrices and scalars in memory of the backend, between guards, and d poisoned.
class MatmulRun {
 public:
  MatmulRun(const Backend& backend, const MatmulCase& c, const MatmulValues& values, bool misaligned = false);

  [[nodiscard]] const matmul::Args& args() const { return args_; }
  [[nodiscard]] std::vector<unsigned char> output_bytes() const { return d_->image(); }
  // What is wrong with the results of a launch that returned `status`; empty if nothing. `expected` is the same each
  // time.
  [[nodiscard]] std::string judge(gpudnnStatus_t status, const MatmulExpected& expected);
  // The results as they were before the launch.
  void restore();

 private:
  const MatmulCase& case_;
  std::vector<std::unique_ptr<DeviceTensor>> inputs_;
  std::vector<std::unique_ptr<GuardedBuffer>> scalars_;
  std::unique_ptr<GuardedBuffer> amax_;
  std::unique_ptr<DeviceTensor> d_;
  std::vector<unsigned char> right_;  // bytes of d that were found right: the same bytes again are right again
  matmul::Args args_;
};

// Runs the plan in a workspace of exactly its bytes, and judges. Empty if all is well.
[[nodiscard]] std::string check_plan(const Backend& backend, const matmul::Plan& plan, MatmulRun* run,
                                     const MatmulExpected& expected);

}  // namespace gpudnn::test
