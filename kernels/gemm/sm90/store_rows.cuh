// From the accumulators of a consumer warpgroup to D along its rows, for any epilogue, strides and types: 64 x 64 sums
// at a time are staged as floats, and each thread takes 8 neighbours of a row through the chain (epilogue/chain.cuh),
// with vector loads and stores. Where the blocks of a cluster have a share of k each, all stage their whole tile in the
// shared memory of the stages, and share the rows; sums of a row are added in the order of the splits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm/epilogue/chain.cuh"
#include "kernels/gemm/sm90/mainloop.cuh"
#include "kernels/ptx/ld_shared_cluster.cuh"

namespace gpudnn::kernels::gemm::sm90 {

// 64 x 64 floats: byte of the first (0) or second (1) four of the 8 columns number `group` of a row. Fragments are
// written and groups read without bank conflicts.
__device__ __forceinline__ int chunk_place(int row, int group, int half) {
  return row * 256 + half * 128 + ((group ^ (half << 2) ^ (row & 7)) << 4);
}

__device__ __forceinline__ void stage_sums(unsigned char* chunk, const float* sum) {
  const int thread = static_cast<int>(threadIdx.x % 128);
  const int lane = thread % 32;
  const int row = thread / 32 * 16 + lane / 4;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      *reinterpret_cast<float2*>(chunk + chunk_place(row + 8 * half, j, lane % 4 / 2) + lane % 2 * 8) =
          make_float2(sum[4 * j + 2 * half], sum[4 * j + 2 * half + 1]);
    }
  }
}

__device__ __forceinline__ void add8(const float4& low, const float4& high, float (&v)[8]) {
  v[0] += low.x;
  v[1] += low.y;
  v[2] += low.z;
  v[3] += low.w;
  v[4] += high.x;
  v[5] += high.y;
  v[6] += high.z;
  v[7] += high.w;
}

// `count` of 8 sums of row m, from column n on.
template <class I>
__device__ __forceinline__ void finish_row(const Params& p, EpilogueState* state, const WorkTile& work, std::uint32_t m,
                                           std::uint32_t n, int count, float (&v)[8]) {
  if constexpr (I::kPlain) {
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] *= state->alpha;
    store8(p.epilogue.d, element_at(p.epilogue.d, work.batch, m, n), count, v);
  } else {
    finish8(p.epilogue, state, work.batch, m, n, count, v);
  }
}

// All of a tile's sums, in the stages, which all consumers have read by then; and then those of the cluster's other
// blocks.
template <class I>
__device__ __forceinline__ void stage_splits(Shared<I>& shared, std::uint32_t rows, int consumer, const Sums<I>& sum) {
  static_assert(I::kBM * I::kBN * 4 <= I::kStages * (I::kABytes + I::kBBytes), "the stages hold a tile's sums");
  ptx::barrier_sync(kConsumersBarrier, 128 * I::kConsumers);
  if (!I::kPingPong || consumer == 0) {
#pragma unroll
    for (int i = 0; i < I::kRowBlocks * I::kChunks; ++i) {
      const int row_block = i / I::kChunks + (I::kPingPong ? 0 : consumer * I::kRowBlocks);
      if (row_block * 64 + threadIdx.x % 128 / 32 * 16 < rows) {
        stage_sums(&shared.a[0][0] + (row_block * I::kChunks + i % I::kChunks) * kStagingBytes,
                   sum[i / I::kChunks] + i % I::kChunks * 32);
      }
    }
  }
  __syncwarp();
  ptx::cluster_arrive();
  ptx::cluster_wait();
}

// Works through pieces of 16 rows x 64 columns: without splits those of this warpgroup, 64 x 64 at a time; with splits
// the tile's, which all warpgroups of the cluster share. One copy of the chain's code serves both.
template <class I>
__device__ __forceinline__ void store_rows(const Params& p, Shared<I>& shared, const WorkTile& work, int consumer,
                                           const Sums<I>& sum, EpilogueState* state) {
  const std::uint32_t thread = threadIdx.x % 128;
  const bool splits = p.splits > 1;
  const std::uint32_t rank = ptx::cluster_ctarank();
  const std::uint32_t first_row = splits || I::kPingPong ? 0 : consumer * I::kRowBlocks * 64;
  // None in the second tile of a pair that has but one.
  const std::uint32_t rows = work.m < p.m ? min(static_cast<std::uint32_t>(I::kBM), p.m - work.m) : 0;
  // Pieces along m: the rows of the warpgroup (64 at a time, all of them), or the tile's that exist.
  const std::uint32_t pieces_m = splits ? (rows + 15) / 16 : 4;
  const std::uint32_t end = splits ? pieces_m * I::kChunks : 4 * I::kRowBlocks * I::kChunks;
  const std::uint32_t step = splits ? p.splits * I::kConsumers : 1;
  const std::uint32_t staged = ptx::shared_address(splits ? &shared.a[0][0] : shared.staging[consumer]);
  if (splits) stage_splits<I>(shared, rows, consumer, sum);
#pragma unroll 1
  for (std::uint32_t piece = splits ? rank * I::kConsumers + consumer : 0; piece < end; piece += step) {
    const std::uint32_t chunk = piece / pieces_m;  // of 64 x 64; with splits, of 64 columns
    if (!splits && piece % 4 == 0) {
      if (piece > 0) ptx::barrier_sync(kStagingBarrier + consumer, 128);
#pragma unroll
      for (int i = 0; i < I::kRowBlocks * I::kChunks; ++i) {
        if (chunk == i) stage_sums(shared.staging[consumer], sum[i / I::kChunks] + i % I::kChunks * 32);
      }
      ptx::barrier_sync(kStagingBarrier + consumer, 128);
    }
    const std::uint32_t row = piece % pieces_m * 16 + thread / 8;  // in the chunk, or the tile
    const std::uint32_t m = first_row + row + (splits ? 0 : chunk / I::kChunks * 64);
    const std::uint32_t n = work.n + chunk % I::kChunks * 64 + thread % 8 * 8;
    const int count = min(8, static_cast<int>(p.n) - static_cast<int>(n));
    if (m >= rows || count <= 0) continue;
    const std::uint32_t base = staged + (splits ? (row / 64 * I::kChunks + chunk) * kStagingBytes : 0);
    const int in_chunk = static_cast<int>(row % 64);
    const std::uint32_t low = base + chunk_place(in_chunk, static_cast<int>(thread % 8), 0);
    const std::uint32_t high = base + chunk_place(in_chunk, static_cast<int>(thread % 8), 1);
    float v[8] = {};
    for (std::uint32_t split = 0; split < p.splits; ++split) {
      const std::uint32_t from = splits ? split : rank;
      add8(ptx::ld_shared_cluster(ptx::mapa(low, from)), ptx::ld_shared_cluster(ptx::mapa(high, from)), v);
    }
    finish_row<I>(p, state, work, work.m + m, n, count, v);
  }
  if (!splits) ptx::barrier_sync(kStagingBarrier + consumer, 128);
}

}  // namespace gpudnn::kernels::gemm::sm90
