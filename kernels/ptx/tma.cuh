// cp.async.bulk.tensor: tiles of a tensor from global to shared memory through a tensor map, by TMA.
//
// `im2col` walks output pixels: `coordinates` name the first pixel's corner of the window (channel, w, h, d, image) and
// `offset` the filter tap. `tile` is a plain box. With a mask the copy lands at the same address in each block of the
// cluster whose bit is set, and signals the barrier there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/ptx/mbarrier.cuh"

namespace gpudnn::ptx {

__device__ __forceinline__ void prefetch_tensormap(const void* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

__device__ __forceinline__ void tma_tile_3d(void* shared, const void* map, std::uint64_t* barrier, std::int32_t x,
                                            std::int32_t y, std::int32_t z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
      "[%2];" ::"r"(shared_address(shared)),
      "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z)
      : "memory");
}

__device__ __forceinline__ void tma_tile_3d_multicast(void* shared, const void* map, std::uint64_t* barrier,
                                                      std::int32_t x, std::int32_t y, std::int32_t z,
                                                      std::uint16_t mask) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1, {%3, %4, %5}], [%2], %6;" ::"r"(shared_address(shared)),
      "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z), "h"(mask)
      : "memory");
}

__device__ __forceinline__ void tma_im2col_4d(void* shared, const void* map, std::uint64_t* barrier, std::int32_t c,
                                              std::int32_t w, std::int32_t h, std::int32_t n, std::uint16_t offset_w,
                                              std::uint16_t offset_h) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(shared_address(shared)),
      "l"(map), "r"(shared_address(barrier)), "r"(c), "r"(w), "r"(h), "r"(n), "h"(offset_w), "h"(offset_h)
      : "memory");
}

__device__ __forceinline__ void tma_im2col_5d(void* shared, const void* map, std::uint64_t* barrier, std::int32_t c,
                                              std::int32_t w, std::int32_t h, std::int32_t d, std::int32_t n,
                                              std::uint16_t offset_w, std::uint16_t offset_h, std::uint16_t offset_d) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%3, %4, %5, %6, %7}], [%2], {%8, %9, %10};" ::"r"(shared_address(shared)),
      "l"(map), "r"(shared_address(barrier)), "r"(c), "r"(w), "r"(h), "r"(d), "r"(n), "h"(offset_w), "h"(offset_h),
      "h"(offset_d)
      : "memory");
}

// From shared to global memory; what lies outside of the tensor is left out.
__device__ __forceinline__ void tma_store_tile_3d(const void* map, const void* shared, std::int32_t x, std::int32_t y,
                                                  std::int32_t z) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
               "r"(shared_address(shared)), "r"(x), "r"(y), "r"(z)
               : "memory");
}
__device__ __forceinline__ void bulk_commit_group() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Waits until at most kPending of the thread's groups have still to read shared memory.
template <int kPending>
__device__ __forceinline__ void bulk_wait_group_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}
// Makes ordinary writes to shared memory visible to TMA.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

}  // namespace gpudnn::ptx
