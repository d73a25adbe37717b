// cp.async.bulk.tensor of a box of four dimensions, from global to shared memory. See tma.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/ptx/mbarrier.cuh"

namespace gpudnn::ptx {

__device__ __forceinline__ void tma_tile_4d(void* shared, const void* map, std::uint64_t* barrier, std::int32_t c,
                                            std::int32_t w, std::int32_t h, std::int32_t n) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(shared_address(shared)),
      "l"(map), "r"(shared_address(barrier)), "r"(c), "r"(w), "r"(h), "r"(n)
      : "memory");
}

}  // namespace gpudnn::ptx
