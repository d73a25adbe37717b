// Two blocks of a cluster that have half of k each: each finishes half of the tile's columns. A thread sends the other
// half of its sums to the thread of its place in the other block and adds what it gets from there. Both lie in the
// order of registers, 16 bytes a message: the network between the blocks moves some 14 bytes a cycle of them, and half
// as much in messages of 8 bytes. The place is the warp's own boxes, which no k tile has, so nobody waits for the other
// block's last k tile.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm/sm90/mainloop.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/st_async.cuh"

namespace gpudnn::kernels::gemm::sm90 {

// The block's half comes first in `sum` then.
template <class I>
__device__ __forceinline__ void exchange_halves(Shared<I>& shared, std::uint32_t rank, int consumer, Sums<I>& sum) {
  constexpr int kShare = I::kBN / 4;  // of a thread's sums
  constexpr int kBytesOfWarp = kShare * 32 * 4;
  static_assert(4 * kBytesOfWarp <= I::kStaging, "each warp's share lies where its boxes are");
  const std::uint32_t thread = threadIdx.x % 128;
  unsigned char* const area = shared.staging[consumer] + thread / 32 * kBytesOfWarp + thread % 32 * 16;
  __syncwarp();
  ptx::cluster_wait();  // the other block has begun
  const std::uint32_t there = ptx::mapa(ptx::shared_address(area), rank ^ 1);
  const std::uint32_t counts = ptx::mapa(ptx::shared_address(&shared.sums), rank ^ 1);
#pragma unroll
  for (int i = 0; i < kShare; i += 4) {
    float4 sent;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float& low = sum[0][i + j];
      const float high = sum[0][kShare + i + j];
      reinterpret_cast<float*>(&sent)[j] = rank == 0 ? high : low;
      low = rank == 0 ? low : high;
    }
    ptx::st_async(there + static_cast<std::uint32_t>(i / 4 * 512), sent, counts);
  }
  while (!ptx::mbarrier_try_wait_acquire_cluster(&shared.sums, 0)) {
  }
#pragma unroll
  for (int i = 0; i < kShare; i += 4) {
    const float4 other = *reinterpret_cast<const float4*>(area + i / 4 * 512);
    sum[0][i] += other.x;
    sum[0][i + 1] += other.y;
    sum[0][i + 2] += other.z;
    sum[0][i + 3] += other.w;
  }
}

}  // namespace gpudnn::kernels::gemm::sm90
