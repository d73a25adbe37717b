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
constexpr int kLnRingResident = 672;    // threads of a multiprocessor, with 96 registers each
constexpr int kLnRingMinThreads = 96;
constexpr int kLnRingMaxStages = 4;
constexpr int kLnRingBytes = 227 * 1024;  // of shared memory that the blocks of a multiprocessor have
constexpr int kLnRingHeader = 4096;       // of a block's, at most, before its stages

struct LayerNormRing {
  std::int32_t cluster = 0;  // 0: the ring does not take it
  std::int32_t threads = 0;  // that compute
  std::int32_t stages = 0;
  std::int32_t block_packs = 0;  // of a row, for each block but the last
  std::int32_t clusters = 0;     // of a sample: parts of its dscale and dbias
};

// `packs` of 16 bytes a row, `each` of them a thread, of so many tensors; `rows` of each sample.
inline LayerNormRing layer_norm_ring(std::int64_t packs, int each, int tensors, std::int64_t rows, std::int64_t samples,
                                     int multiprocessors) {
  LayerNormRing ring;
  int cluster = 1;
  while (cluster < 8 && packs > std::int64_t{each} * kLnRingMaxThreads * cluster) cluster *= 2;
  const std::int64_t block_packs = (packs + cluster - 1) / cluster;
  const std::int64_t threads = ((block_packs + each - 1) / each + 31) / 32 * 32;
  if (threads > kLnRingMaxThreads || threads < kLnRingMinThreads) return ring;
  const int together = static_cast<int>(kLnRingResident / (threads + 32));
  const std::int64_t room = kLnRingBytes / together - kLnRingHeader;
  const std::int64_t stages = room / (block_packs * 16 * tensors);
  if (stages < 3) return ring;
  // Clusters stay within a group of 16 to 18 multiprocessors.
  std::int64_t clusters = multiprocessors * std::int64_t{together} / cluster;
  if (cluster > 2 && clusters > multiprocessors / 16 * (16 / cluster)) clusters = multiprocessors / 16 * (16 / cluster);
  if (clusters < 1) return ring;
  clusters = clusters > samples ? clusters / samples : 1;
  // As few as take no more turns, so that the last turn is as full as the others.
  const std::int64_t turns = (rows + clusters - 1) / clusters;
  ring.cluster = cluster;
  ring.threads = static_cast<std::int32_t>(threads);
  ring.stages = static_cast<std::int32_t>(stages < kLnRingMaxStages ? stages : kLnRingMaxStages);
  ring.block_packs = static_cast<std::int32_t>(block_packs);
  ring.clusters = static_cast<std::int32_t>((rows + turns - 1) / turns);
  return ring;
}

void launch_layer_norm_ring_backward(const LayerNormRing& ring, tile::AnyType type, const LayerNormBackwardArgs& args,
                                     const tile::LoopNest<6>& rows, CUstream_st* stream);

}  // namespace gpudnn::kernels
