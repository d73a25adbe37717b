// The activations of pointwise programs in float by short series, without a branch for a value: memory-bound kernels
// have some 25 instructions for an element, and libm's functions take 25 to 50 of two branches that a warp walks
// through both. For the device, and for the host that tests them; the interpreter and the compiled programs both take
// these, so the bits are equal node by node.
//
//   Phi(-t), t >= 0   2^P(t), P of degree 8 for log2 Phi(-t), minimax in the absolute error of Phi up to 5.7; 0 beyond
//   gelu              max(x, 0) - |x| Phi(-|x|)
//   log1p(e)          e Q(e), 0 <= e <= 1, Q of degree 8, minimax in the relative error
//   tanh              x + x^3 R(x^2) below 0.6, R of degree 4; 1 - 2 / (1 + 2^(2 log2(e) |x|)) above
//   gelu_tanh         max(x, 0) - |x| s, s = e / (1 + e), e = 2^-|w|, w = log2(e) 2 sqrt(2 / pi) (x + 0.044715 x^3)
//   sigmoid           as pointwise_math.cuh, but without what a quotient does for tiny denominators
//
// Errors with u = 2^-24: Phi 2 u absolute, so gelu 2 u |x| + 2 u |f|; its gradient 8 u |dy| (1 + |x|); softplus 8 u
// |f|; tanh and sigmoid 4 u |f|; gelu_tanh 4 u |x| + 2 u |f|. A NaN gives a NaN; of infinities the limits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "kernels/tile/pointwise_math.cuh"
#include "kernels/tile/rounded_math.cuh"

namespace gpudnn::tile::series {

constexpr float kTailEnd = 5.7f;

// Phi(-t), t being |x|; a NaN gives what some number gives.
GPUDNN_HOST_DEVICE float tail(float t) {
  constexpr float kLog2[] = {-1.0f,           -1.15110576f,     -0.459204882f,    -0.0525050610f,
                             0.00707551045f,  -0.000145897924f, -0.000182536183f, 3.86182801e-05f,
                             -2.77183426e-06f};
  const float within = std::fmin(t, kTailEnd);
  return t > kTailEnd ? 0.0f : rounded::power_of_two(rounded::polynomial(kLog2, within));
}

GPUDNN_HOST_DEVICE float gelu(float x) {
  const float t = std::fabs(x);
  return std::fma(-std::fmin(t, kTailEnd), tail(t), rounded::positive_part(x));
}

// dy (Phi(x) + x phi(x)).
GPUDNN_HOST_DEVICE float gelu_gradient(float x, float dy) {
  constexpr float kDensityEnd = 13.5f;  // 0 from there on
  const float below = tail(std::fabs(x));
  const float near = rounded::between(x, -kDensityEnd, kDensityEnd);
  const float density = 0.398942280f * rounded::power_of_two(near * near * -0.721347520f);
  return dy * std::fma(near, density, x > 0.0f ? 1.0f - below : below);
}

GPUDNN_HOST_DEVICE float softplus(float x, float beta) {
  constexpr float kQuotient[] = {0.999999940f,  -0.499994934f, 0.333190948f,   -0.248429775f, 0.191059887f,
                                 -0.136632085f, 0.0782255158f, -0.0295049697f, 0.00523262753f};
  const float z = beta * x;
  const float e = std::exp(z < 0.0f ? z : -z);
  return std::fma(e, rounded::polynomial(kQuotient, e), z < 0.0f ? 0.0f : z) * (1.0f / beta);
}

GPUDNN_HOST_DEVICE float tanh(float x) {
  constexpr float kCube[] = {-0.333332986f, 0.133319572f, -0.0537866540f, 0.0208052881f, -0.00590576092f};
  const float square = x * x;
  const float small = std::fma(x * square, rounded::polynomial(kCube, square), x);
  const float t = std::fabs(x);
  const float e = rounded::power_of_two(2.88539008f * t);
  const float large = std::copysign(std::fma(-2.0f, rounded::reciprocal(1.0f + e), 1.0f), x);
  return t < 0.6f ? small : large;
}

GPUDNN_HOST_DEVICE float gelu_tanh(float x) {
  constexpr float kEnd = 13.0f;  // e is 0 from there on
  const float near = rounded::between(x, -kEnd, kEnd);
  const float w = near * std::fma(0.102943240f, near * near, 2.30220819f);
  const float e = rounded::power_of_two(-std::fabs(w));
  return std::fma(-std::fabs(near), e * rounded::reciprocal(1.0f + e), rounded::positive_part(x));
}

GPUDNN_HOST_DEVICE float sigmoid(float x) {
  const float e = std::exp(x < 0.0f ? x : -x);
  return (x < 0.0f ? e : 1.0f) * rounded::reciprocal(1.0f + e);
}

// Whether evaluate has the operation.
constexpr bool has(PointwiseOp op) {
  using Op = PointwiseOp;
  return op == Op::gelu || op == Op::gelu_bwd || op == Op::softplus || op == Op::tanh || op == Op::gelu_tanh ||
         op == Op::sigmoid;
}
template <PointwiseOp kOp>
GPUDNN_HOST_DEVICE float evaluate(float x, float b, const PointwiseParams<float>& p) {
  static_assert(has(kOp), "an operation of this file");
  if constexpr (kOp == PointwiseOp::gelu) return gelu(x);
  if constexpr (kOp == PointwiseOp::gelu_bwd) return gelu_gradient(x, b);
  if constexpr (kOp == PointwiseOp::softplus) return softplus(x, p.p[0]);
  if constexpr (kOp == PointwiseOp::gelu_tanh) return gelu_tanh(x);
  if constexpr (kOp == PointwiseOp::sigmoid) return sigmoid(x);
  return tanh(x);
}

// An operation told at run time, as programs in C evaluate it.
template <class C>
GPUDNN_HOST_DEVICE C evaluate_any(PointwiseOp op, C x, C b, C t, const PointwiseParams<C>& p) {
  if constexpr (sizeof(C) == 4) {
    if (op == PointwiseOp::gelu) return gelu(x);
    if (op == PointwiseOp::gelu_bwd) return gelu_gradient(x, b);
    if (op == PointwiseOp::softplus) return softplus(x, p.p[0]);
    if (op == PointwiseOp::tanh) return tanh(x);
    if (op == PointwiseOp::gelu_tanh) return gelu_tanh(x);
    if (op == PointwiseOp::sigmoid) return sigmoid(x);
  }
  return pointwise::evaluate(op, x, b, t, p);
}

}  // namespace gpudnn::tile::series
