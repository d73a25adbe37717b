// Scores far from 0, as those of a row that sees nothing but a bias of -1e9 or of its type's least number.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_tile.cuh"

namespace gpudnn::kernels::flash {

constexpr float kLn2 = 0.6931471805599453F;

// 2^(scale (s - base)) is made as 2^(scale s - rounded(scale base)). Where the base is so great that its rounding
// counts, or it is no float, the scores of that half of a fragment become what they are less the base, and it 0.
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
