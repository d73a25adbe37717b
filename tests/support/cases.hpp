// A test case: a problem, its scalars and the way its data are made; and how a result is judged.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/activation/problem.hpp"
#include "ops/bias_grad/problem.hpp"
#include "ops/conv/problem.hpp"
#include "ops/lrn/problem.hpp"
#include "ops/pooling/problem.hpp"
#include "ops/softmax/problem.hpp"
#include "ops/tensor/problem.hpp"
#include "support/random.hpp"

namespace gpudnn::test {

template <class Problem>
struct Case {
  Problem problem;
  double alpha = 1;
  double beta = 0;
  double alpha2 = 0;     // conv with z
  double coef = 0;       // conv with an activation; the others keep theirs in the problem
  double slope = 0;      // conv with ReLU: below 0
  double value = 0;      // tensor set
  bool integers = true;  // small integers, so that every sum is exact; else normally distributed
  std::uint64_t seed = 1;
};

using ConvCase = Case<conv::Problem>;
using PoolingCase = Case<pooling::Problem>;
using ActivationCase = Case<activation::Problem>;
using SoftmaxCase = Case<softmax::Problem>;
using TensorCase = Case<tensor::Problem>;
using BiasGradCase = Case<bias_grad::Problem>;
using LrnCase = Case<lrn::Problem>;

// Tensors as elements by row-major index, already rounded to their types. `out` is the output before the call; empty
// where the call must not read it.
struct Values {
  std::vector<double> x, w, y, dy, z, bias, scale, out;
};

// The exact result and how far the value before its last rounding may be off. docs/numerics.md derives the bounds.
struct Expected {
  std::vector<double> value;
  std::vector<double> slack;
};

[[nodiscard]] const TensorGeometry& output_of(const conv::Problem& problem);
[[nodiscard]] const TensorGeometry& output_of(const pooling::Problem& problem);
[[nodiscard]] const TensorGeometry& output_of(const activation::Problem& problem);
[[nodiscard]] const TensorGeometry& output_of(const softmax::Problem& problem);
[[nodiscard]] const TensorGeometry& output_of(const tensor::Problem& problem);
[[nodiscard]] const TensorGeometry& output_of(const bias_grad::Problem& problem);
[[nodiscard]] const TensorGeometry& output_of(const lrn::Problem& problem);

[[nodiscard]] Values make_values(const ConvCase& c);
[[nodiscard]] Values make_values(const PoolingCase& c);
[[nodiscard]] Values make_values(const ActivationCase& c);
[[nodiscard]] Values make_values(const SoftmaxCase& c);
[[nodiscard]] Values make_values(const TensorCase& c);
[[nodiscard]] Values make_values(const BiasGradCase& c);

// Terms of the sum behind one output element, at most.
[[nodiscard]] std::int64_t reduction_length(const conv::Problem& problem);
// Multiply-adds of the definition.
[[nodiscard]] double multiply_adds(const conv::Problem& problem);

// "problem string | alpha=.. beta=.. data=.. seed=..".
template <class Problem>
[[nodiscard]] std::string describe(const Case<Problem>& c) {
  std::string text = to_text(c.problem) + " | alpha=" + std::to_string(c.alpha) + " beta=" + std::to_string(c.beta);
  if (c.alpha2 != 0) text += " alpha2=" + std::to_string(c.alpha2);
  if (c.coef != 0) text += " coef=" + std::to_string(c.coef);
  return text + (c.integers ? " data=integers" : " data=normal") + " seed=" + std::to_string(c.seed);
}

// Empty if each element lies between the roundings of value - slack and value + slack (a NaN where a NaN is due), else
// how many do not and the first of them.
[[nodiscard]] std::string mismatch(const TensorGeometry& geometry, const std::vector<double>& actual,
                                   const Expected& expected);
// sqrt(sum (a - b)^2 / sum b^2); infinity if a NaN stands where the other has none.
[[nodiscard]] double normwise_error(const std::vector<double>& actual, const std::vector<double>& expected);

}  // namespace gpudnn::test
