// Scores far from 0, as those of a row that sees nothing but a bias of -1e9 or of its type's least number.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_tile.cuh"
#include "kernels/ptx/ex2.cuh"

namespace gpudnn::kernels::flash {

constexpr float kLn2 = 0.6931471805599453F;

// The exponents of a row's scores s, scale s - base, and what was summed under the base before is multiplied by.
struct RowExponents {
  float scale, base, correction;
};
// For weights that hold 2^-64, as those of bf16 do. The base is rounded up, so that no exponent is above 0, and the
// correction goes from one rounded base to the next. Where the base would be 2^30 or more, or no float, floats lie so
// far apart that any score but the greatest has a weight of at most 2^-32, by the scale and by the power of two below
// it: the latter takes its place, with which the greatest one's exponent is exactly 0.
__device__ __forceinline__ RowExponents exponents_of(float scale, float before, float most) {
  constexpr float kFar = 0x1p30F;
  const float base = __fmul_ru(most, scale);
  const bool far = !(fabsf(base) < kFar);
  const float power = __uint_as_float(__float_as_uint(scale) & 0x7f800000U);
  const float growth = far ? (most - before) * scale : base - __fmul_ru(before, scale);
  return {far ? power : scale, far ? most * power : base, ptx::ex2_approx_ftz(-growth)};
}
// What sums under `most` itself are of those under the base.
__device__ __forceinline__ float of_rounded_base(float scale, float most) {
  const RowExponents its = exponents_of(scale, most, most);
  return ptx::ex2_approx_ftz(-fmaf(most, its.scale, -its.base));
}

// Elsewhere: 2^(scale (s - base)) is made as 2^(scale s - rounded(scale base)). Where the base is so great that its
// rounding counts, or it is no float, the scores of that half of a fragment become what they are less the base, and the
// base 0.
template <int kColumns>
__device__ __forceinline__ void subtract_far(float scale, float (&bases)[2], float (&s)[kColumns / 2]) {
  constexpr float kFar = 8192.0F;
  const bool far[2] = {fabsf(bases[0]) * scale > kFar, fabsf(bases[1]) * scale > kFar};
  if (!__any_sync(0xffffffffu, far[0] || far[1])) return;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float base = far[half] ? bases[half] : 0.0F;
#pragma unroll
    for (int i = 0; i < kColumns / 8; ++i) {
      s[4 * i + 2 * half] -= base;
      s[4 * i + 2 * half + 1] -= base;
    }
    bases[half] -= base;
  }
}

}  // namespace gpudnn::kernels::flash
