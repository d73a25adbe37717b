// st.shared at an address that is a number: it may be kept in a register.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gpudnn::ptx {

__device__ __forceinline__ void st_shared(std::uint32_t address, const uint4& words) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(words.x), "r"(words.y), "r"(words.z),
               "r"(words.w)
               : "memory");
}

__device__ __forceinline__ void st_shared(std::uint32_t address, std::uint64_t word) {
  asm volatile("st.shared.u64 [%0], %1;" ::"r"(address), "l"(word) : "memory");
}

}  // namespace gpudnn::ptx
