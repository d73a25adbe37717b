// Relaxed loads and stores of eight bytes, at the scope of the device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gpudnn::ptx {

__device__ __forceinline__ std::uint64_t ld_relaxed_gpu_u64(const void* pointer) {
  std::uint64_t word;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(__cvta_generic_to_global(pointer)) : "memory");
  return word;
}
__device__ __forceinline__ void st_relaxed_gpu_u64(void* pointer, std::uint64_t word) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(pointer)), "l"(word) : "memory");
}

}  // namespace gpudnn::ptx
