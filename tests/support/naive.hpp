// The tests' oracle: each operation by its definition, in nested loops over logical indices, in double. Written apart
// from the library's host backend, and for small problems only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/cases.hpp"

namespace gpudnn::test {

[[nodiscard]] Expected naive(const ConvCase& c, const Values& values);
[[nodiscard]] Expected naive(const BiasGradCase& c, const Values& values);
[[nodiscard]] Expected naive(const PoolingCase& c, const Values& values);
[[nodiscard]] Expected naive(const ActivationCase& c, const Values& values);
[[nodiscard]] Expected naive(const SoftmaxCase& c, const Values& values);
[[nodiscard]] Expected naive(const TensorCase& c, const Values& values);

// f(x) and f'(x) of the activations.
struct Derivative {
  double f;
  double slope;
};
// `mode`: a gpudnnActivationMode_t, or one of those that convolutions have beside them.
[[nodiscard]] Derivative activation_at(std::int32_t mode, double coef, double x);
// Whether f is exact on exact numbers (ReLU and its like).
[[nodiscard]] bool activation_is_exact(std::int32_t mode);

// Error bound of a sum of `terms` products in the compute type of `type`, for a sum of absolute values of 1.
[[nodiscard]] double sum_bound(gpudnnDataType_t type, double terms);

}  // namespace gpudnn::test
