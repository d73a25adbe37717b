// rcp.approx.ftz: 1 / x, off by one unit in the last place; subnormal numbers count as 0.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

namespace gpudnn::ptx {

__device__ __forceinline__ float rcp_approx_ftz(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

}  // namespace gpudnn::ptx
