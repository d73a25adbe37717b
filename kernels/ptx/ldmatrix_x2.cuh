// ldmatrix of two matrices, as ldmatrix.cuh has it of four. sm_75 and later.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gpudnn::ptx {

// Lanes 0 to 15 give the addresses of the rows.
__device__ __forceinline__ void ldmatrix_x2(std::uint32_t shared, std::uint32_t& first, std::uint32_t& second) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(first), "=r"(second)
               : "r"(shared)
               : "memory");
}

}  // namespace gpudnn::ptx
