// What the warps of the gradients of weights share: the stages in shared memory, and which tile a block has.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/clusterid.cuh"
#include "kernels/rnn/weights_place.hpp"
#include "kernels/rnn/weights_sm90.hpp"

namespace gpudnn::kernels {
namespace rnn_weights {

constexpr int kBox = kRnnWeightsBox;
constexpr int kRowBytes = 2 * kBox;          // of a box in shared memory
constexpr int kBoxBytes = kBox * kRowBytes;  // of 64 rows of k
constexpr int kInstructionK = 16;            // rows of k of a wgmma
constexpr int kConsumers = 2;
constexpr int kConsumerWarps = 4 * kConsumers;
constexpr int kThreads = 128 * (1 + kConsumers);
constexpr int kPieceRows = 16;
constexpr int kPieceBytes = kPieceRows * kBox * 4;
constexpr int kVector = 8;  // elements of 16 bytes

enum Barrier : int { kConsumersBarrier = 1 };

template <class T_, int kWidth>
struct Instance {
  using T = T_;
  static constexpr int kBM = kRnnWeightsRows;
  static constexpr int kBN = kWidth;
  static constexpr int kMaxSplits = rnn_weights_max_splits(kBN);
  static constexpr int kBoxesOfA = kBM / kBox;
  static constexpr int kBoxesOfB = (kBN + kBox - 1) / kBox;
  static constexpr int kChunks = kBoxesOfB;  // of 64 columns, of which the last one may be half
  static constexpr int kStageBytes = (kBoxesOfA + kBoxesOfB) * kBoxBytes;
  static constexpr int kStages = 192 * 1024 / kStageBytes;
  static constexpr int kPieces = kBM / kPieceRows * kChunks;
};

template <class I>
struct alignas(1024) Shared {
  unsigned char stage[I::kStages][I::kStageBytes];
  unsigned char staging[kConsumerWarps][kPieceBytes];
  float total[I::kBM];  // of this block's share of the rows
  std::uint64_t full[I::kStages];
  std::uint64_t empty[I::kStages];
  std::uint64_t received;  // other blocks' sums
};

struct Tile {
  const RnnWeightsGroup* group;
  const RnnWeightsMatrix* matrix;
  std::int32_t m, n;            // the first row and column
  std::int32_t k_begin, k_end;  // k tiles
  bool sums;                    // the rows of a are added up
  bool divided;                 // the cluster's blocks have a part of the rows each
};

// A block has whole tiles, then perhaps its cluster a divided one.
__device__ __forceinline__ std::uint32_t first_tile(const RnnWeights& w) {
  return blockIdx.x < w.whole ? blockIdx.x : w.whole + ptx::clusterid();
}
__device__ __forceinline__ std::uint32_t tile_behind(const RnnWeights& w, std::uint32_t index) {
  if (index >= w.whole) return w.tiles;
  return index + gridDim.x < w.whole ? index + gridDim.x : w.whole + ptx::clusterid();
}

template <class I>
__device__ __forceinline__ Tile tile_at(const RnnWeights& w, std::uint32_t index, std::uint32_t rank) {
  const RnnWeightsPlace place = rnn_weights_place(w, index, I::kBM, I::kBN);
  Tile t;
  t.group = &w.group[place.group];
  t.matrix = &t.group->matrix[place.matrix];
  t.m = place.m, t.n = place.n;
  t.sums = place.sums && (t.group->bias != nullptr || t.group->bias2 != nullptr);
  const std::int32_t k_tiles = t.matrix->part[0].k_tiles + t.matrix->part[1].k_tiles;
  t.divided = index >= w.whole;
  t.k_begin = t.divided ? k_tiles * static_cast<std::int32_t>(rank) / w.splits : 0;
  t.k_end = t.divided ? k_tiles * (static_cast<std::int32_t>(rank) + 1) / w.splits : k_tiles;
  return t;
}

// Which part has k tile k, and its row in the part.
struct Depth {
  const RnnWeightsPart* part;
  std::int32_t row;
};
__device__ __forceinline__ Depth depth_of(const RnnWeightsMatrix& matrix, std::int32_t k) {
  const std::int32_t first = matrix.part[0].k_tiles;
  return k < first ? Depth{&matrix.part[0], k * kBox} : Depth{&matrix.part[1], (k - first) * kBox};
}

// Of a divided tile all threads of the cluster meet twice.
__device__ __forceinline__ void meet() {
  __syncwarp();
  ptx::cluster_arrive();
  ptx::cluster_wait();
}

}  // namespace rnn_weights
}  // namespace gpudnn::kernels
