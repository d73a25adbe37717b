// cp.async.bulk.prefetch.tensor: a tile of a tensor from global memory into the L2.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gpudnn::ptx {

__device__ __forceinline__ void prefetch_tile_3d(const void* map, std::int32_t x, std::int32_t y, std::int32_t z) {
  asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%0, {%1, %2, %3}];" ::"l"(map), "r"(x), "r"(y), "r"(z)
               : "memory");
}

}  // namespace gpudnn::ptx
