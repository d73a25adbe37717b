// cp.async.bulk.tensor of a box of four dimensions, between global and shared memory. See tma.cuh.
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

__device__ __forceinline__ void tma_tile_4d_multicast(void* shared, const void* map, std::uint64_t* barrier,
                                                      std::int32_t c, std::int32_t w, std::int32_t h, std::int32_t n,
                                                      std::uint16_t mask) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(shared_address(shared)),
      "l"(map), "r"(shared_address(barrier)), "r"(c), "r"(w), "r"(h), "r"(n), "h"(mask)
      : "memory");
}

__device__ __forceinline__ void tma_store_tile_4d(const void* map, const void* shared, std::int32_t c, std::int32_t w,
                                                  std::int32_t h, std::int32_t n) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
               "r"(shared_address(shared)), "r"(c), "r"(w), "r"(h), "r"(n)
               : "memory");
}

}  // namespace gpudnn::ptx
