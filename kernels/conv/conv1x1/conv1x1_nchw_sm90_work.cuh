// The Hopper pointwise convolution on planes: its instances and what a work item is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/conv1x1/conv1x1_nchw_sm90.hpp"
#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_work.cuh"

namespace gpudnn::kernels::sm90::planes {

// Has the members that the implicit GEMM's multiplications (implicit_gemm_sm90_multiply.cuh) ask of an instance.
template <class Element, Direction kDir, int kShape>
struct Instance {
  using T = Element;
  static constexpr TileShape kTile = kTileShapes[kShape];
  static constexpr Kind kKind = kTile.kind;
  static constexpr Direction kDirection = kDir;
  static constexpr int kBM = kTile.bm;
  static constexpr int kBN = kTile.bn;
  static constexpr int kStages = kTile.stages;
  static constexpr int kCluster = kTile.cluster;
  static constexpr bool kPingPong = kTile.ping_pong;
  static constexpr bool kClusterSplitK = false;
  static constexpr int kConsumers = kTile.consumers;  // warpgroups
  static constexpr int kThreads = 128 * (1 + kConsumers);
  static constexpr bool kByThreads = kTile.by_threads;
  static constexpr int kRegistersOfProducer = kByThreads ? 72 : kProducerRegisters;
  static constexpr int kShareOfRegisters = (65536 / 128 - kRegistersOfProducer) / kConsumers / 8 * 8;
  static constexpr int kConsumerRegisters = kShareOfRegisters > 232 ? 232 : kShareOfRegisters;
  // Pixels are contiguous, planes are not; the filter's channels are, and it is a row for each written plane forward.
  static constexpr bool kAIsMnMajor = kKind == Kind::across && kDir == Direction::data_gradient;
  static constexpr bool kBIsMnMajor = kKind == Kind::across;
  static constexpr int kRowElements = kRowBytes / static_cast<int>(sizeof(T));  // a chunk of pixels
  static constexpr int kKBytes = kRowBytes;
  static constexpr int kBK = kRowElements;
  static constexpr int kInstructionK = 32 / static_cast<int>(sizeof(T));
  // Of 64 rows, of a warpgroup.
  static constexpr int kRowBlocks = kKind == Kind::across_tf32 ? 2 : kPingPong ? kBM / 64 : 1;
  static constexpr int kABytes = kBM * kRowBytes;
  static constexpr int kBBytes = kBN * kRowBytes;
  static constexpr int kBoxBytes = kBK * kRowBytes;  // of an MN-major operand: a chunk, all k
  static constexpr int kTileWarps = kPingPong ? 4 : 4 * kConsumers;
  static constexpr int kChunks = (kKind == Kind::across ? kBN : kBM) / kRowElements;  // across: of a tile
  static_assert(kCluster == 1 || (kKind == Kind::across && kCluster == 2 && kChunks % 2 == 0 && !kByThreads),
                "two blocks share chunks");
  static_assert(kPingPong || kBM == 64 * kRowBlocks * kConsumers, "cooperating warpgroups take equal rows");
  static_assert((kKind == Kind::across_tf32) == (sizeof(T) == 4 && kKind != Kind::along), "TF32 is K-major");
  static_assert(kKind != Kind::across_tf32 || !kPingPong || kBM == 128, "a chunk of pixels for each warp");
  static_assert(kRowBlocks * kBN / 2 <= 128, "accumulators fit the registers");
};

// Whether a type and direction have an instance of a shape.
template <class T>
constexpr bool exists(Direction direction, int shape) {
  const Kind kind = kTileShapes[shape].kind;
  if (sizeof(T) == 4 && kTileShapes[shape].by_threads) return false;
  if (direction == Direction::filter_gradient) return kind == Kind::along;
  return kind == (sizeof(T) == 4 ? Kind::across_tf32 : Kind::across);
}

// Neighbouring work items share what they read of the image tensors; splits are slowest.
template <class I>
__device__ __forceinline__ Work work_item(const Params& p, std::uint32_t index, std::uint32_t rank) {
  Work work = {};
  work.split = p.works.divmod(index, &work.tile);
  std::uint32_t inner = 0;
  const std::uint32_t outer = p.inner_tiles.divmod(work.tile, &inner);
  work.m = I::kKind == Kind::across ? inner * I::kCluster + rank : outer;
  work.n = I::kKind == Kind::across ? outer : inner;
  work.k_begin = min(work.split * p.k_blocks_per_split, p.k_blocks);
  work.k_end = min(work.k_begin + p.k_blocks_per_split, p.k_blocks);
  return work;
}

// A chunk of 128 bytes of pixels. Beyond the last one of all images, `image` does not exist.
struct Chunk {
  std::int32_t pixel, image;
};
template <class I>
__device__ __forceinline__ Chunk chunk_at(const Params& p, std::uint32_t index) {
  std::uint32_t inside = 0;
  const std::uint32_t image = p.chunks_of_image.divmod(index, &inside);
  return {static_cast<std::int32_t>(inside * I::kRowElements), static_cast<std::int32_t>(image)};
}

}  // namespace gpudnn::kernels::sm90::planes
