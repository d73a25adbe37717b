// Activations whose results are rounded to 16 or 8 bits at once, for epilogues: float in, float out. For the device,
// and for the host that tests them.
//
// An epilogue of a convolution has some 10 to 20 instructions for each element before it takes longer than the memory
// or the products. One approximate instruction of the special function unit takes as long as 8 others (16 lanes a clock
// for each multiprocessor), so each function takes one of them and a short polynomial.
//
//   gelu, gelu_tanh   f(x) = max(x, 0) - t F(-t) with t = |x|: F(-t) is between 0 and 1/2 and has no cancellation.
//                     log2 F(-t) is smooth; a polynomial of degree 6 (7) stands for it.
//   swish             f(x) = max(x, 0) - t s(-beta t): s(-v) = e / (1 + e) with e = exp(-v), 1 / (1 + e) by degree 5
//   tanh              x N(x^2) / D(x^2), N and D of degree 2, |x| cut at 4.6
//
// Errors, all polynomials being minimax in the relative error of f, arithmetic included (tests/unit checks them):
//   gelu, gelu_tanh   2^-13.3 |f|, for |x| > 4.2 2^-13 |f| + 2^-30 |x|
//   swish             2^-14.2 |f| + 2^-126 |x|
//   tanh              2^-14.8 |f|, for |x| > 4.6 2^-12.5, where f16 and bf16 round both to 1
// Half a unit of f16 is 2^-12 at the least. A NaN gives a NaN; of f(-inf) and f(inf) the limits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "kernels/tile/fast_divmod.cuh"
#ifdef __CUDACC__
#include "kernels/ptx/ex2.cuh"
#include "kernels/ptx/max_nan.cuh"
#include "kernels/ptx/min_nan.cuh"
#include "kernels/ptx/rcp.cuh"
#endif

namespace gpudnn::tile::rounded {

// 2^v, and 0 below 2^-126.
GPUDNN_HOST_DEVICE float power_of_two(float v) {
#ifdef __CUDA_ARCH__
  return ptx::ex2_approx_ftz(v);
#else
  return v < -126.0f ? 0.0f : std::exp2(v);
#endif
}

GPUDNN_HOST_DEVICE float reciprocal(float x) {
#ifdef __CUDA_ARCH__
  return ptx::rcp_approx_ftz(x);
#else
  return 1.0f / x;
#endif
}

// A NaN stays one.
GPUDNN_HOST_DEVICE float positive_part(float x) {
#ifdef __CUDA_ARCH__
  return ptx::max_nan(x, 0.0f);
#else
  return x < 0.0f ? 0.0f : x;
#endif
}
GPUDNN_HOST_DEVICE float between(float x, float low, float high) {
#ifdef __CUDA_ARCH__
  return ptx::max_nan(ptx::min_nan(x, high), low);
#else
  return x < low ? low : x > high ? high : x;
#endif
}

template <int N>
GPUDNN_HOST_DEVICE float polynomial(const float (&coefficients)[N], float x) {
  float sum = coefficients[N - 1];
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
  for (int i = N - 2; i >= 0; --i) sum = std::fma(sum, x, coefficients[i]);
  return sum;
}

// From `kZero` on the polynomial's power of two is 0; a NaN counts as it.
GPUDNN_HOST_DEVICE float gelu(float x) {
  constexpr float kLog2[] = {-1.00013304f,   -1.14918458f,     -0.463593215f,  -0.0492032208f,
                             0.00643594563f, -0.000478345086f, 1.44261385e-05f};
  constexpr float kZero = 16.0f;
  const float t = std::fmin(std::fabs(x), kZero);
  return std::fma(-t, power_of_two(polynomial(kLog2, t)), positive_part(x));
}

GPUDNN_HOST_DEVICE float gelu_tanh(float x) {
  constexpr float kLog2[] = {-0.999934673f, -1.1540159f,     -0.444319874f,  -0.0788454637f,
                             0.030941464f,  -0.00960619934f, 0.00115529366f, -5.14093954e-05f};
  constexpr float kZero = 11.0f;
  const float t = std::fmin(std::fabs(x), kZero);
  return std::fma(-t, power_of_two(polynomial(kLog2, t)), positive_part(x));
}

// For beta > 0 whose product with log2(e) is finite.
GPUDNN_HOST_DEVICE float swish(float x, float beta) {
  constexpr float kQuotient[] = {0.999948978f, -0.996275783f, 0.953421056f, -0.770573497f, 0.417938232f, -0.104484551f};
  constexpr float kLargest = 3.4028235e38f;
  const float t = std::fmin(std::fabs(x), kLargest);
  const float e = power_of_two(t * (-1.44269504f * beta));
  return std::fma(-(t * e), polynomial(kQuotient, e), positive_part(x));
}

GPUDNN_HOST_DEVICE float tanh(float x) {
  constexpr float kNumerator[] = {0.999967933f, 0.103624828f, 0.00070958602f};
  constexpr float kDenominator[] = {1.0f, 0.436747313f, 0.0131970821f};
  constexpr float kCut = 4.6f;
  const float t = between(x, -kCut, kCut);
  const float square = t * t;
  return t * polynomial(kNumerator, square) * reciprocal(polynomial(kDenominator, square));
}

}  // namespace gpudnn::tile::rounded
