// A float as the sum of three bfloat16 terms: x = x0 + x1 + x2, each the rest before it rounded to nearest.
//
//   x0 = bf16(x)    x1 = bf16(x - x0)    x2 = x - x0 - x1
//
// A term has 8 significant bits and |x1| <= 2^-8 |x|, |x2| <= 2^-17 |x|, so that the three hold all 24 bits of x,
// exactly, as long as none of them falls below 2^-133, the least bfloat16: for |x| >= 2^-110. Below, the sum is within
// 2^-134 of x.
//
// A product of two floats is six products of terms, those left out are at most 2^-24 of it together:
//
//   a b = a0 b0 + (a0 b1 + a1 b0) + (a0 b2 + a1 b1 + a2 b0)
//
// Each product of two bfloat16 is exact in float. What is not finite needs care, for infinity times a lower term of a
// finite number may be NaN, or an infinity of the wrong sign: products with lower terms take `finite`, which is x0 but
// a finite number of the same sign for what is not finite (1 for an infinity), whose lower terms are finite too. The
// result is infinite or NaN by x0 alone then, and the finite products beside it change nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/ptx/cvt_bf16.cuh"
#include "kernels/ptx/cvt_satfinite_bf16.cuh"

namespace gpudnn::kernels::fp32_split {

// Bits of bfloat16 of two floats, the first in the lower half.
struct Terms {
  std::uint32_t top;     // x0
  std::uint32_t finite;  // x0 of products with lower terms
  std::uint32_t middle;  // x1
  std::uint32_t low;     // x2
};

__device__ __forceinline__ float low_float(std::uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high_float(std::uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }

// false for NaN
__device__ __forceinline__ bool is_finite(float x) { return fabsf(x) <= 3.402823466e+38f; }

// Without a branch: one between products that are under way would make the compiler wait for them.
__device__ __forceinline__ Terms terms_of_pair(float first, float second) {
  const float x[2] = {first, second};
  float ordinary[2];  // without the exponent's highest bit, infinity is 1
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    ordinary[i] = is_finite(x[i]) ? x[i] : __uint_as_float(__float_as_uint(x[i]) & 0xbfffffffu);
  }
  Terms terms;
  // The largest floats would be rounded to infinity. Cut, they leave a rest of at most 2^-8 of them too.
  terms.finite = ptx::cvt_rn_satfinite_bf16x2_f32(ordinary[1], ordinary[0]);
  const float finite[2] = {low_float(terms.finite), high_float(terms.finite)};
  std::uint32_t top[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) top[i] = __float_as_uint(is_finite(x[i]) ? finite[i] : x[i] + x[i]);  // a quiet NaN
  terms.top = __byte_perm(top[0], top[1], 0x7632);
  // What is not finite has the rest of another number, or none.
  const float rest[2] = {ordinary[0] - finite[0], ordinary[1] - finite[1]};
  terms.middle = ptx::cvt_rn_bf16x2_f32(rest[1], rest[0]);
  terms.low = ptx::cvt_rn_bf16x2_f32(rest[1] - high_float(terms.middle), rest[0] - low_float(terms.middle));
  return terms;
}

}  // namespace gpudnn::kernels::fp32_split
