// tensormap.replace of one extent of a tensor map in global memory, and the fences between it and TMA. sm_90a.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gpudnn::ptx {

// The extent of the dimension next to the innermost one.
__device__ __forceinline__ void tensormap_replace_extent_1(void* map, std::uint32_t extent) {
  asm volatile("tensormap.replace.tile.global_dim.global.b1024.b32 [%0], 1, %1;" ::"l"(__cvta_generic_to_global(map)),
               "r"(extent)
               : "memory");
}

// Behind the stores that made a map.
__device__ __forceinline__ void fence_tensormap_release() {
  asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
}
// Before the TMA instructions of this thread that use it.
__device__ __forceinline__ void fence_tensormap_acquire(const void* map) {
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
}

}  // namespace gpudnn::ptx
