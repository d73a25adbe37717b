// A relaxed load of two bytes, at the scope of the device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gpudnn::ptx {

__device__ __forceinline__ std::uint32_t ld_relaxed_gpu_u16(const void* pointer) {
  std::uint16_t word;
  asm volatile("ld.relaxed.gpu.global.u16 %0, [%1];" : "=h"(word) : "l"(__cvta_generic_to_global(pointer)) : "memory");
  return word;
}

}  // namespace gpudnn::ptx
