// ldmatrix: a warp loads four 8x8 matrices of 16-bit elements from shared memory, spread as mma.sync wants them. sm_75
// and later.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gpudnn::ptx {

// Lane 8j + r gives the shared address of row r (16 bytes, aligned) of matrix j. Lane 4g + t gets in word j the
// elements (g, 2t) and (g, 2t + 1) of matrix j.
__device__ __forceinline__ void ldmatrix_x4(std::uint32_t shared, std::uint32_t (&words)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(shared)
               : "memory");
}

// The same of the transposed matrices: lane 4g + t gets the elements (2t, g) and (2t + 1, g).
__device__ __forceinline__ void ldmatrix_x4_trans(std::uint32_t shared, std::uint32_t (&words)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(shared)
               : "memory");
}

}  // namespace gpudnn::ptx
