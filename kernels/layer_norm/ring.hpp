// How long rows are cut for the ring of ring_backward_sm90.cuh. Plain data, from the shape
// and the device alone, as the workspace is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/tile/any_type.hpp"
#include "kernels/tile/loop_nest.hpp"

struct CUstream_st;

namespace gpudnn::kernels {

struct LayerNormBackwardArgs;

constexpr int kLnRingMaxThreads = 512;  // that compute; 32 more fill
constexpr int kLnRingResident = 768;    // threads of a multiprocessor, with 80 registers each
constexpr int kLnRingMinThreads = 64;
constexpr int kLnRingMaxStages = 4;
constexpr int kLnRingBytes = 227 * 1024;  // of shared memory that the blocks of a multiprocessor have
constexpr int kLnRingHeader = 4096;       // of a block's, at most, before its stages

struct LayerNormRing {
  std::int32_t cluster = 0;   // 0: the ring does not take it
  std::int32_t together = 0;  // blocks that a multiprocessor has
  std::int32_t threads = 0;   // that compute
  std::int32_t stages = 0;
  std::int32_t block_packs = 0;  // of a row, for each block but the last
  std::int32_t clusters = 0;     // of a sample, at most: parts of its dscale and dbias
};

// Rows of `packs` packs of 16 bytes cut for clusters of so many blocks; a thread has `each` packs of each tensor.
inline LayerNormRing layer_norm_ring_of(int cluster, std::int64_t packs, int each, int tensors) {
  LayerNormRing ring;
  const std::int64_t block_packs = (packs + cluster - 1) / cluster;
  const std::int64_t threads = ((block_packs + each - 1) / each + 31) / 32 * 32;
  if (threads > kLnRingMaxThreads || threads < kLnRingMinThreads) return ring;
  ring.together = static_cast<std::int32_t>(kLnRingResident / (threads + 32));
  const std::int64_t stages = (kLnRingBytes / ring.together - kLnRingHeader) / (block_packs * 16 * tensors);
  if (stages < 3) return ring;
  ring.cluster = cluster;
  ring.threads = static_cast<std::int32_t>(threads);
  ring.stages = static_cast<std::int32_t>(stages < kLnRingMaxStages ? stages : kLnRingMaxStages);
  ring.block_packs = static_cast<std::int32_t>(block_packs);
  return ring;
}

// As few clusters as go through `rows` in no more turns than `clusters` would: the last turn is as full as the others.
inline std::int64_t layer_norm_ring_clusters(std::int64_t rows, std::int64_t clusters) {
  const std::int64_t turns = (rows + clusters - 1) / clusters;
  return (rows + turns - 1) / turns;
}

// `rows` of each sample. The more of a row a multiprocessor's threads have at a time, the better: of larger clusters
// more blocks fit.
inline LayerNormRing layer_norm_ring(std::int64_t packs, int each, int tensors, std::int64_t rows, std::int64_t samples,
                                     int multiprocessors) {
  LayerNormRing ring;
  for (int cluster = 1; cluster <= 8; cluster *= 2) {
    const LayerNormRing trial = layer_norm_ring_of(cluster, packs, each, tensors);
    if (trial.cluster == 0) continue;
    const std::int64_t at_work = std::int64_t{trial.together} * trial.block_packs;
    if (ring.cluster == 0 || at_work * 4 > std::int64_t{ring.together} * ring.block_packs * 5) ring = trial;
  }
  if (ring.cluster == 0) return ring;
  // Clusters stay within a group of 16 to 18 multiprocessors.
  std::int64_t clusters = multiprocessors * std::int64_t{ring.together} / ring.cluster;
  if (ring.cluster > 2) {
    const std::int64_t fitting = std::int64_t{multiprocessors / 16} * (16 / ring.cluster) * ring.together;
    if (clusters > fitting) clusters = fitting;
  }
  if (clusters < 1) return {};
  ring.clusters =
      static_cast<std::int32_t>(layer_norm_ring_clusters(rows, clusters > samples ? clusters / samples : 1));
  return ring;
}

// Returns how many clusters each sample had: no more than the device runs side by side, where there is one sample.
int launch_layer_norm_ring_backward(const LayerNormRing& ring, tile::AnyType type, LayerNormBackwardArgs args,
                                    const tile::LoopNest<6>& rows, CUstream_st* stream);

// Rows of halves of so many packs have a warp each; the warps of a block share a ring.
inline bool layer_norm_warp_ring_takes(std::int64_t packs) { return packs > 32 && packs <= 96; }
// Blocks of a multiprocessor.
constexpr int layer_norm_warp_ring_blocks(std::int64_t packs) { return packs <= 64 ? 5 : 4; }
// Rows that a block works on at once.
inline int layer_norm_warp_ring_at_once(std::int64_t packs) { return packs <= 64 ? 8 : 4; }
void launch_layer_norm_warp_ring_backward(tile::AnyType type, const LayerNormBackwardArgs& args,
                                          const tile::LoopNest<6>& rows, CUstream_st* stream);

}  // namespace gpudnn::kernels
