// cp.async.bulk.tensor of a box of five dimensions to several blocks of a cluster. See tma.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/ptx/mbarrier.cuh"

namespace gpudnn::ptx {

__device__ __forceinline__ void tma_tile_5d_multicast(void* shared, const void* map, std::uint64_t* barrier,
                                                      std::int32_t c, std::int32_t w, std::int32_t h, std::int32_t d,
                                                      std::int32_t n, std::uint16_t mask) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1, {%3, %4, %5, %6, %7}], [%2], %8;" ::"r"(shared_address(shared)),
      "l"(map), "r"(shared_address(barrier)), "r"(c), "r"(w), "r"(h), "r"(d), "r"(n), "h"(mask)
      : "memory");
}

}  // namespace gpudnn::ptx
