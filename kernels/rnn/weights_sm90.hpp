// The gradients of a recurrent network's weights on Hopper: what the host gives the kernel, and the choice of its tile.
// Plain data.
//
//   d[m, n] (+)= the sum over the rows of a[row, m] b[row, n]        for each matrix of a list
//   bias[m] (+)= the sum over the rows of a[row, m]
//
// a is a range of columns of the gradients of a layer's gates, b its inputs or its states one step back. The matrices
// of all layers and directions, and the biases, are one launch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/rnn/weights_place.hpp"
#include "kernels/tile/tensor_map.hpp"

struct CUstream_st;

namespace gpudnn::kernels {

constexpr int kRnnWeightsMaps = 44;
constexpr int kRnnWeightsGroups = 24;
constexpr int kRnnWeightsBox = 64;  // columns and rows of a box of all maps

// Where b lies: k tiles of 64 rows of one map. From the row in the part to the rows of b and of a lead shifts; what a
// tile reaches beyond a matrix is zeros of both.
struct RnnWeightsPart {
  std::int32_t map = 0;
  std::int32_t k_tiles = 0;
  std::int32_t shift = 0;
  std::int32_t shift_of_a = 0;
};
// One matrix: its b may be all steps but one, and the first state.
struct RnnWeightsMatrix {
  void* d = nullptr;   // T [m, n], packed, of row 0
  std::int32_t n = 0;  // 0: there is none
  RnnWeightsPart part[2];
};
// Matrices that have a in common: W and R of a layer, or what of them has gates of its own. TMA takes columns of a from
// multiples of 16 bytes on, so the first `skipped` rows of the matrices may not exist; m counts them.
struct RnnWeightsGroup {
  std::int32_t map = 0;     // of a
  std::int32_t column = 0;  // of a in its map
  std::int32_t m = 0;
  std::int32_t skipped = 0;
  void* bias = nullptr;   // T, of row 0, or null
  void* bias2 = nullptr;  // the same for rows below `bias2_m`
  std::int32_t bias2_m = 0;
  RnnWeightsOrder order;
  RnnWeightsMatrix matrix[2];
};

struct RnnWeights {
  // Set by plan_rnn_weights.
  std::uint32_t tiles = 0;
  std::uint32_t whole = 0;  // tiles before this one are a block's each, the others a cluster's
  std::uint32_t clusters = 0;
  std::int32_t splits = 1;  // blocks of a cluster, which share the rows of a tile
  std::int32_t width = 0;   // of a tile
  std::uint32_t first_tile[kRnnWeightsGroups] = {};

  std::int32_t groups = 0;
  bool adds = false;
  RnnWeightsGroup group[kRnnWeightsGroups];
  tile::TensorMap map[kRnnWeightsMaps];
};

constexpr int kRnnWeightsRows = 128;  // m of a tile
constexpr int kRnnWeightsWidths[] = {128, 160, 192, 224, 256};
// Blocks that may share the rows of a tile of so many columns: those whose sums shared memory holds.
constexpr int rnn_weights_max_splits(int width) { return width == 128 ? 8 : width == 256 ? 2 : 1; }

// A part of `rows` rows of b for those of a, of which there are `rows_of_a`, from `row_of_a` on. Only the last ones of
// a may be left out behind it, only the first ones before it.
[[nodiscard]] RnnWeightsPart rnn_weights_part(std::int64_t rows_of_a, std::int64_t row_of_a,
                                              std::int64_t rows) noexcept;

// Chooses the tile and the splits, and numbers the tiles.
void plan_rnn_weights(RnnWeights* weights, int multiprocessors) noexcept;

// On the current device; the maps have their addresses.
void launch_rnn_weights_f16(const RnnWeights& weights, CUstream_st* stream);
void launch_rnn_weights_bf16(const RnnWeights& weights, CUstream_st* stream);

}  // namespace gpudnn::kernels
