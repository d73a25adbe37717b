// lg2.approx: a logarithm to base 2, off by at most 2^-22 between 1/2 and 2 and by 2^-22 of itself elsewhere; numbers
// below the normal ones count as 0.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

namespace gpudnn::ptx {

__device__ __forceinline__ float lg2_approx_ftz(float value) {
  float result;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
}

}  // namespace gpudnn::ptx
