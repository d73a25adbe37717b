// Loads, stores and additions in global memory that order a thread's other accesses for the threads of other blocks.
// sm_70 and later.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gpudnn::ptx {

__device__ __forceinline__ std::uint32_t ld_acquire_gpu(const std::uint32_t* pointer) {
  std::uint32_t value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(__cvta_generic_to_global(pointer)) : "memory");
  return value;
}

__device__ __forceinline__ void st_release_gpu(std::uint32_t* pointer, std::uint32_t value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(pointer)), "r"(value) : "memory");
}

__device__ __forceinline__ void red_release_gpu_add(std::uint32_t* pointer, std::uint32_t value) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(pointer)), "r"(value)
               : "memory");
}

// Of floats by their bits as integers: orders those that are not negative, and puts NaNs above infinity.
__device__ __forceinline__ void red_relaxed_gpu_max(std::uint32_t* pointer, std::uint32_t value) {
  asm volatile("red.relaxed.gpu.global.max.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(pointer)), "r"(value)
               : "memory");
}

}  // namespace gpudnn::ptx
