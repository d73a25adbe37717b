// movmatrix: a warp transposes an 8x8 matrix of 16-bit elements that lies in its registers. sm_75 and later.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gpudnn::ptx {

// Lane 4g + t has the elements (g, 2t) and (g, 2t + 1), and gets (2t, g) and (2t + 1, g).
__device__ __forceinline__ std::uint32_t movmatrix_trans(std::uint32_t word) {
  std::uint32_t result;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(word));
  return result;
}

}  // namespace gpudnn::ptx
