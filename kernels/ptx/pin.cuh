// No instruction: values that are worked out here, although their first use comes later, and not read before here,
// although they were named earlier.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gpudnn::ptx {

__device__ __forceinline__ void pin(std::int64_t* value) { asm volatile("" : "+l"(*value)); }
__device__ __forceinline__ void pin(float* value) { asm volatile("" : "+f"(*value)); }

// Registers that wgmma reads or writes while other instructions run: to the compiler it is done at once.
__device__ __forceinline__ void pin(float& value) { asm volatile("" : "+f"(value)::"memory"); }
__device__ __forceinline__ void pin(std::uint32_t& value) { asm volatile("" : "+r"(value)::"memory"); }
template <class T, int N>
__device__ __forceinline__ void pin(T (&values)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) pin(values[i]);
}

}  // namespace gpudnn::ptx
