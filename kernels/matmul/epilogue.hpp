// What a matrix product does with its sums, as launchers tell kernels. Plain data.
//
//   v = alpha * sum + beta * c + bias      alpha holds the factors of descale_a and descale_b as well
//   v = f(v)                               the activation
//   amax = max(amax, |v|)                  before the scale of d
//   d = convert(scale_d * v)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gpudnn::kernels::matmul {

//   relu        x > lower ? min(x, upper) : lower + slope * (x - lower)
//   gelu        x * Phi(x), Phi the normal distribution
//   gelu_tanh   x / 2 * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
//   swish       x / (1 + exp(-beta x))
//   elu         x > 0 ? x : alpha (exp(x) - 1)
//   softplus    log(1 + exp(beta x)) / beta
enum class Activation : std::int32_t { identity, relu, gelu, gelu_tanh, swish, tanh, sigmoid, elu, softplus };
constexpr int kActivations = 9;

constexpr double kNoUpperClip = 1.7976931348623157e308;  // the greatest double; no finite float is above

// Of the activation that the problem has; the others do not look at them.
struct ActivationParams {
  double lower = 0;
  double upper = kNoUpperClip;
  double slope = 0;
  double alpha = 1;
  double beta = 1;
};

// What elements may be, told at run time.
enum class Element : std::int32_t { f32, f64, f16, bf16, e4m3, e5m2, i8, i32 };
constexpr int element_bytes(Element type) {
  return type == Element::f64                            ? 8
         : type == Element::f32 || type == Element::i32  ? 4
         : type == Element::f16 || type == Element::bf16 ? 2
                                                         : 1;
}

}  // namespace gpudnn::kernels::matmul
