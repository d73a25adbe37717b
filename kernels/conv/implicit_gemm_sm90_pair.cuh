// Two splits of a tile, joined by the two blocks of a cluster: each gives the other half of its sums and finishes the
// other half of the tile. The sums travel into the other block's staging area, which nobody needs before, as soon as
// they are there: nobody is asked, and nothing is fetched.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/implicit_gemm_sm90_epilogue.cuh"
#include "kernels/ptx/st_async.cuh"
#include "kernels/tile/stage_ring.cuh"

namespace gpudnn::kernels::sm90 {

// Sums of a thread that it gives away, and those that it keeps: half of its columns.
template <class I>
constexpr int kHalfOfSums = I::kBN / 4;

template <class I>
constexpr int kBytesOfPair = kHalfOfSums<I> * 128 * static_cast<int>(sizeof(float));  // for a warpgroup

// What the other block's warpgroup will send, announced before it can.
template <class I>
__device__ __forceinline__ void expect_pair(Shared<I>& shared, unsigned consumer) {
  static_assert(kBytesOfPair<I> <= sizeof(shared.staging[0]), "half of the sums fit in the staging areas");
  ptx::mbarrier_arrive_expect_tx(&shared.paired[consumer], kBytesOfPair<I>);
}

// Gives the other half away, adds what comes to `half`, and leaves the staging areas free.
template <class I>
__device__ __forceinline__ void exchange_sums(Shared<I>& shared, int consumer, std::uint32_t rank,
                                              const float (&sum)[I::kBN / 2], float (&half)[kHalfOfSums<I>]) {
  constexpr int kHalf = kHalfOfSums<I>;
  auto* const area = reinterpret_cast<float4*>(&shared.staging[consumer]) + threadIdx.x % 128;
  const std::uint32_t there = ptx::mapa(ptx::shared_address(area), rank ^ 1);
  const std::uint32_t barrier = ptx::mapa(ptx::shared_address(&shared.paired[consumer]), rank ^ 1);
#pragma unroll
  for (int i = 0; i < kHalf; i += 4) {
    float give[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      give[j] = rank == 0 ? sum[kHalf + i + j] : sum[i + j];
      half[i + j] = rank == 0 ? sum[i + j] : sum[kHalf + i + j];
    }
    ptx::st_async(there + static_cast<std::uint32_t>(i * 128 * 4), make_float4(give[0], give[1], give[2], give[3]),
                  barrier);
  }
  while (!ptx::mbarrier_try_wait_acquire_cluster(&shared.paired[consumer], 0)) {
  }
#pragma unroll
  for (int i = 0; i < kHalf; i += 4) {
    const float4 other = area[i / 4 * 128];
    half[i] += other.x;
    half[i + 1] += other.y;
    half[i + 2] += other.z;
    half[i + 3] += other.w;
  }
  ptx::barrier_sync(kStagingBarrier + consumer, 128);
}

template <class I>
__device__ __forceinline__ void finish_pair(const Params& p, Shared<I>& shared, const Work& work, int consumer,
                                            const float (&sum)[1][I::kBN / 2], int* area) {
  const std::uint32_t rank = work.split;
  float half[kHalfOfSums<I>];
  exchange_sums<I>(shared, consumer, rank, sum[0], half);
  constexpr int kChunks = I::kBN / 2 / I::kRowElements;
  const int first_chunk = static_cast<int>(rank) * kChunks;
  if (p.is_plain) {
    store_plain<I, kChunks>(p, shared, work, consumer, consumer, first_chunk, half, area);
  } else {
    store_blended<I, kChunks>(p, shared, work, consumer, consumer, first_chunk, half, area);
  }
}

}  // namespace gpudnn::kernels::sm90
