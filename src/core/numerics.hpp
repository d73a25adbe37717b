// The error bounds of docs/numerics.md, for the verify mode and the tests alike. `u` is the unit roundoff of the type
// that an operation computes in.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/data_type.hpp"
#include "core/math_type.hpp"

namespace gpudnn::numerics {

// The type that operations on `type` compute in: double for double, else float.
[[nodiscard]] constexpr DataType compute_type(DataType type) noexcept {
  return type == GPUDNN_DATA_DOUBLE ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT;
}

// Half the distance from 1 to the next number: the relative error of one rounding; 0 of an integer.
[[nodiscard]] constexpr double unit_roundoff(DataType type) noexcept {
  switch (type) {
    case GPUDNN_DATA_DOUBLE:
      return 0x1p-53;
    case GPUDNN_DATA_FLOAT:
      return 0x1p-24;
    case GPUDNN_DATA_HALF:
      return 0x1p-11;
    case GPUDNN_DATA_BFLOAT16:
      return 0x1p-8;
    case GPUDNN_DATA_FP8_E4M3:
      return 0x1p-4;
    case GPUDNN_DATA_FP8_E5M2:
      return 0x1p-3;
    default:
      return 0;
  }
}

// A result of a smaller size may be flushed to 0.
[[nodiscard]] constexpr double least_normal(DataType type) noexcept {
  return type == GPUDNN_DATA_DOUBLE ? std::numeric_limits<double>::min()
                                    : static_cast<double>(std::numeric_limits<float>::min());
}

// Of a sum of `terms` products or terms, for a sum of absolute values of 1. `type`: of the data.
[[nodiscard]] inline double sum_bound(DataType type, double terms) noexcept {
  return unit_roundoff(compute_type(type)) * (4 + 4 * std::sqrt(terms));
}

// How much more than the sum of the products as defined a transform's result may be off, for a sum whose terms all are
// the greatest data times the greatest filter value. F(4x4, 3x3): the root mean square of what the matrices make of the
// roundings of the products, F(2x2, 3x3) being 1.7.
constexpr double kWinogradGrowth = 4.8;
// By transforms of up to 64 x 64, 12 stages of a relative error of u each, whose errors spread over the whole tile: of
// `taps` terms a row of the product has the norm sqrt(64 * 64 / taps) times theirs at the most.
[[nodiscard]] inline double fourier_growth(double taps) noexcept { return 12 * std::sqrt(4096 / taps) / 4; }

// What TF32, where it is allowed, adds to it: two factors cut to 11 bits, at worst without rounding.
[[nodiscard]] constexpr double tf32_bound(DataType type, gpudnnMathType_t math) noexcept {
  return type == GPUDNN_DATA_FLOAT && allows_tf32(math) ? 0x1p-9 : 0;
}

// Of a curved activation f(x), `change` being x f'(x).
[[nodiscard]] inline double curve_slack(double u, double f, double change) noexcept {
  return 8 * u * (std::fabs(f) + std::fabs(change));
}

// What GELU, swish, sigmoid and tanh of a convolution or matrix product may be off besides where their results are
// rounded to 16 or 8 bits (kernels/tile/rounded_math.cuh).
[[nodiscard]] inline double rounded_curve_slack(double f, double x) noexcept {
  return 0x1p-13 * std::fabs(f) + 0x1p-24 * std::fabs(x);
}

// Of one of n values of a softmax, `below` being the distance from the greatest input.
[[nodiscard]] inline double softmax_slack(double u, double n, double below, double value) noexcept {
  return u * (2 * below + 16 + 4 * std::sqrt(n)) * value;
}
// Of its logarithm, `below` and `log_sum` making the result.
[[nodiscard]] inline double log_softmax_slack(double u, double n, double below, double log_sum) noexcept {
  return u * (2 * below + 2 * log_sum + 16 + 4 * std::sqrt(n));
}

// Of a whole tensor, |a - b| / |b| in the Euclidean norm; `type` is the one of the fewest bits on the way.
[[nodiscard]] constexpr double normwise_bound(DataType type, bool tf32 = false) noexcept {
  switch (type) {
    case GPUDNN_DATA_DOUBLE:
      return 1e-11;
    case GPUDNN_DATA_HALF:
      return 5e-3;
    case GPUDNN_DATA_BFLOAT16:
    case GPUDNN_DATA_FP8_E4M3:
    case GPUDNN_DATA_FP8_E5M2:
      return 3e-2;
    default:
      return tf32 ? 3e-3 : 1e-4;
  }
}

}  // namespace gpudnn::numerics
