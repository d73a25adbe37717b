// stmatrix of one or two matrices, and .trans: transposed matrix fragments from registers to shared memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gpudnn::ptx {

// An 8 x 8 matrix of 16-bit elements; lanes 0 to 7 hold the addresses of its rows.
__device__ __forceinline__ void stmatrix_x1(std::uint32_t address, std::uint32_t a) {
  asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(address), "r"(a) : "memory");
}

// Two 8 x 8 matrices of 16-bit elements; lanes 8i to 8i + 7 hold the addresses of matrix i's rows.
__device__ __forceinline__ void stmatrix_x2(std::uint32_t address, std::uint32_t a, std::uint32_t b) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(address), "r"(a), "r"(b) : "memory");
}

// Four 8 x 8 matrices of 16-bit elements; lanes 8i to 8i + 7 hold the addresses of matrix i's transposed rows: the lane
// with elements (r, 2t) and (r, 2t + 1) of a matrix writes them to place r of rows 2t and 2t + 1.
__device__ __forceinline__ void stmatrix_x4_trans(std::uint32_t address, std::uint32_t a, std::uint32_t b,
                                                  std::uint32_t c, std::uint32_t d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b),
               "r"(c), "r"(d)
               : "memory");
}

// The same of two, whose addresses lanes 0 to 15 hold.
__device__ __forceinline__ void stmatrix_x2_trans(std::uint32_t address, std::uint32_t a, std::uint32_t b) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(address), "r"(a), "r"(b)
               : "memory");
}

}  // namespace gpudnn::ptx
