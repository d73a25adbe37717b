// The instances of the Hopper convolution of integers: their shapes, their shared memory, and what a block works on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/conv/integer/integer_sm90.hpp"
#include "kernels/ptx/barrier.cuh"

namespace gpudnn::kernels::integer {

template <int kTile>
struct Sm90Shape {
  static constexpr Sm90Tile kRow = kSm90Tiles[kTile];
  static constexpr int kBM = kRow.bm;
  static constexpr int kBN = kRow.bn;
  static constexpr int kKBytes = kRow.k_bytes;
  static constexpr int kStages = kRow.stages;
  static constexpr int kConsumers = kRow.consumers;
  static constexpr int kThreads = 128 * (1 + kConsumers);
  static constexpr bool kPingPong = kRow.ping_pong;
  static constexpr bool kClusterSplit = kRow.cluster_split;
  static constexpr int kRowBlocks = kBM / 64 / (kPingPong ? 1 : kConsumers);  // of a consumer
  static constexpr int kReleases = kPingPong ? 4 : 4 * kConsumers;            // warps that release a stage
  static constexpr int kABytes = kBM * kKBytes;
  static constexpr int kBBytes = kBN * kKBytes;
  static constexpr int kSteps = kKBytes / 32;
  // What the producer leaves, in the steps that a warpgroup can ask for.
  static constexpr int kLeft = (65536 / 128 - 40) / kConsumers / 8 * 8;
  static constexpr int kConsumerRegisters = kLeft > 232 ? 232 : kLeft;
  static_assert(kRowBlocks * kBN / 2 + 48 <= kConsumerRegisters, "sums leave room for the rest");
};
constexpr int kSm90ProducerRegisters = 40;
constexpr int kSm90SumsBarrier = 1;

template <class S>
struct alignas(1024) Sm90Shared {
  unsigned char a[S::kStages][S::kABytes];
  unsigned char b[S::kStages][S::kBBytes];
  std::uint64_t full[S::kStages];
  std::uint64_t empty[S::kStages];
  std::uint64_t fetched[S::kConsumers];  // the consumer has seen all of its tile's stages filled
};

// A tile and the k tiles of it that the block has.
struct Sm90Work {
  std::uint32_t group, m, n;
  std::uint32_t k_begin, k_end;
};
template <class S>
__device__ __forceinline__ Sm90Work sm90_work(const Sm90Params& params, std::uint32_t index) {
  Sm90Work work;
  work.group = params.m_tiles.divmod(params.n_tiles.divmod(index, &work.n), &work.m);
  work.k_begin = S::kClusterSplit ? ptx::cluster_ctarank() * params.k_tiles_per_split : 0u;
  work.k_end = S::kClusterSplit ? min(work.k_begin + params.k_tiles_per_split, params.k_tiles) : params.k_tiles;
  return work;
}
// The block's tiles: the first, and how far it is to the next.
template <class S>
__device__ __forceinline__ std::uint32_t first_tile(const Sm90Params& params) {
  return S::kClusterSplit ? blockIdx.x / params.splits : blockIdx.x;
}
template <class S>
__device__ __forceinline__ std::uint32_t tile_step(const Sm90Params& params) {
  return S::kClusterSplit ? params.tiles : gridDim.x;  // of a cluster: one tile
}

template <class S>
using Sm90Sums = std::int32_t[S::kRowBlocks][S::kBN / 2];

}  // namespace gpudnn::kernels::integer
