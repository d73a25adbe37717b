// Splits of a tile, joined by the blocks of a cluster. Two: each gives the other half of its sums and finishes the
// other half of the tile. The sums travel into the other block's staging area, which nobody needs before, as soon as
// they are there: nobody is asked, and nothing is fetched. More: each leaves its sums where its stages were and
// fetches.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_epilogue.cuh"
#include "kernels/ptx/ld_shared_cluster.cuh"
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
  float half[1][kHalfOfSums<I>];
  exchange_sums<I>(shared, consumer, rank, sum[0], half[0]);
  constexpr int kChunks = I::kBN / 2 / I::kRowElements;
  const int first_chunk = static_cast<int>(rank) * kChunks;
  if (p.is_plain && p.stores_boxes) {
    store_plain<I, kChunks>(p, shared, work, consumer, consumer, first_chunk, half[0], area);
  } else {
    store_combined<I, 1, kChunks>(p, shared, work, consumer, consumer, first_chunk, half, area);
  }
}

// --- more than two ---------------------------------------------------------------------------------------------------

// Each block leaves its sums where its stages were; when all blocks have met (see the kernel) ...
template <class I>
__device__ __forceinline__ void keep_sums(Shared<I>& shared, int consumer,
                                          const float (&sum)[I::kRowBlocks][I::kBN / 2]) {
  static_assert(I::kBM * I::kBN * sizeof(float) <= sizeof(shared.a) + sizeof(shared.b), "sums fit in the stages");
  ptx::barrier_sync(kStagingBarrier, 128 * I::kConsumers);  // the others have multiplied their last stage
  store_quads<I>(reinterpret_cast<float4*>(&shared), consumer, sum);
}

// ... it adds up its share of the tile over all of them, in the order of the splits.
template <class I>
__device__ __forceinline__ void join_sums(const Params& p, Shared<I>& shared) {
  constexpr std::uint32_t kTileQuads = I::kBM * I::kBN / 4;
  const std::uint32_t rank = blockIdx.x % p.splits;
  const Work work = work_item<I>(p, blockIdx.x / p.splits);
  const std::uint32_t base = ptx::shared_address(&shared);
  const std::uint32_t end = kTileQuads * (rank + 1) / p.splits;
  // A load from another block takes as long as one from the L2: many at a time. But little code, which a block meets
  // for the first time here.
  constexpr std::uint32_t kBatch = 2;
  constexpr std::uint32_t kThreads = 128 * I::kConsumers;
#pragma unroll 1
  for (std::uint32_t first = kTileQuads * rank / p.splits + threadIdx.x - 128; first < end;
       first += kBatch * kThreads) {
    float4 part[kMaxClusterSplits][kBatch];
#pragma unroll
    for (std::uint32_t s = 0; s < kMaxClusterSplits; ++s) {
      if (s >= p.splits) break;
      const std::uint32_t from = ptx::mapa(base, s);
#pragma unroll
      for (std::uint32_t i = 0; i < kBatch; ++i) {
        // Beyond the share lies another's, or the last quad of the tile: read in vain.
        const std::uint32_t quad = min(first + i * kThreads, kTileQuads - 1);
        part[s][i] = ptx::ld_shared_cluster(from + quad * 16);
      }
    }
    // Worked out while the loads are under way.
    QuadPlace place[kBatch];
#pragma unroll
    for (std::uint32_t i = 0; i < kBatch; ++i) {
      place[i] = place_of_quad<I>(p, work, min(first + i * kThreads, kTileQuads - 1));
    }
#pragma unroll
    for (std::uint32_t s = 1; s < kMaxClusterSplits; ++s) {
      if (s >= p.splits) break;
#pragma unroll
      for (std::uint32_t i = 0; i < kBatch; ++i) {
        part[0][i].x += part[s][i].x;
        part[0][i].y += part[s][i].y;
        part[0][i].z += part[s][i].z;
        part[0][i].w += part[s][i].w;
      }
    }
#pragma unroll
    for (std::uint32_t i = 0; i < kBatch; ++i) {
      if (first + i * kThreads < end) finish_quad<I>(p, work, place[i], part[0][i]);
    }
  }
}

}  // namespace gpudnn::kernels::sm90
