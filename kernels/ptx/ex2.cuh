// ex2.approx: 2 to a power, its relative error at most 2^-22; results below the normal numbers are 0.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

namespace gpudnn::ptx {

__device__ __forceinline__ float ex2_approx_ftz(float power) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(power));
  return result;
}

}  // namespace gpudnn::ptx
