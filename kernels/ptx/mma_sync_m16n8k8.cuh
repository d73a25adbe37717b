// mma.sync of 16-bit elements with k = 8: a warp multiplies a 16 x 8 by an 8 x 8 matrix and adds the product to 16 x 8
// sums of float. sm_80 and later.
//
// With g = lane / 4 and t = lane % 4, a lane holds
//   sums  (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1)
//   a     in pairs of k: (g, 2t), (g + 8, 2t)
//   b     (2t, g)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gpudnn::ptx {

__device__ __forceinline__ void mma_m16n8k8_f16(float (&sums)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
               : "r"(a0), "r"(a1), "r"(b));
#else
  __trap();
#endif
}

__device__ __forceinline__ void mma_m16n8k8_bf16(float (&sums)[4], std::uint32_t a0, std::uint32_t a1,
                                                 std::uint32_t b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
               : "r"(a0), "r"(a1), "r"(b));
#else
  __trap();
#endif
}

}  // namespace gpudnn::ptx
