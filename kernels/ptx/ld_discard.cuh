// A load whose value nobody takes, so nobody waits for it: it brings what lies there to the first level of cache.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gpudnn::ptx {

__device__ __forceinline__ void ld_discard_ca(const void* pointer) {
  [[maybe_unused]] std::uint32_t word;
  asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(word) : "l"(__cvta_generic_to_global(pointer)));
}

}  // namespace gpudnn::ptx
