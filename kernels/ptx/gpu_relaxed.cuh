// Loads and stores that other blocks of the device see, without an order among them: each word is whole, and comes from
// L2. sm_70 and later.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gpudnn::ptx {

__device__ __forceinline__ uint4 ld_relaxed_gpu_v4(const void* pointer) {
  uint4 words;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "l"(__cvta_generic_to_global(pointer))
               : "memory");
  return words;
}

__device__ __forceinline__ std::uint32_t ld_relaxed_gpu(const void* pointer) {
  std::uint32_t word;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(word) : "l"(__cvta_generic_to_global(pointer)) : "memory");
  return word;
}

// Two words of 8 bytes, each whole, at a multiple of 16.
__device__ __forceinline__ ulonglong2 ld_relaxed_gpu_v2(const void* pointer) {
  ulonglong2 words;
  asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(words.x), "=l"(words.y)
               : "l"(__cvta_generic_to_global(pointer))
               : "memory");
  return words;
}

__device__ __forceinline__ void st_relaxed_gpu_v2(void* pointer, ulonglong2 words) {
  asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(pointer)), "l"(words.x),
               "l"(words.y)
               : "memory");
}

__device__ __forceinline__ void st_relaxed_gpu(void* pointer, std::uint32_t word) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(pointer)), "r"(word) : "memory");
}

}  // namespace gpudnn::ptx
