// The parameters of the Hopper convolution of integers: plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/integer/integer.hpp"
#include "kernels/tile/tensor_map.hpp"

namespace gpudnn::kernels::integer {

// A tile of bm pixels and bn filters for the consumer warpgroups. Ping-pong: they take tiles in turn, one multiplying
// while the others store. Else they share each tile's rows. Cluster split: the blocks of a cluster share a tile's
// reduction, and the first of them adds up their sums.
struct Sm90Tile {
  int bm, bn;
  int k_bytes;  // channels of a tap in a k tile
  int stages;
  bool ping_pong;
  int consumers;
  double efficiency;  // share of the matrix rate in a long reduction
  bool cluster_split = false;
};
constexpr Sm90Tile kSm90Tiles[] = {
    // clang-format off
    {128, 128, 128,  6, true,  2, 0.80},
    {128,  64, 128,  9, true,  3, 0.60},
    { 64,  64, 128, 12, true,  3, 0.40},
    {128, 128,  64, 12, true,  2, 0.45},
    {128,  64,  64, 12, true,  3, 0.35},
    {256,  64,  64, 10, false, 2, 0.40},
    { 64,  64,  64, 16, true,  3, 0.25},
    { 64,  64, 128, 12, false, 1, 0.40, true},
    // clang-format on
};
constexpr int kSm90TileCount = sizeof(kSm90Tiles) / sizeof(kSm90Tiles[0]);
constexpr int kSm90MaxSplits = 8;  // blocks of a cluster on any device

struct Sm90Params {
  tile::TensorMap x_map;  // im2col boxes of bm pixels, or rows of a matrix
  tile::TensorMap w_map;  // boxes of bn filters, of one tap
  Params p;
  bool x_is_matrix = false;
  bool three_dimensional = false;
  bool y_is_even = false;  // all pixels of y are y_at.spatial[0] apart
  bool addend_is_even = false;
  std::uint32_t taps[3] = {1, 1, 1};
  std::int32_t first_tap = 0;  // number in the filter, and the step along an axis
  std::int32_t tap_step[3] = {};
  FastDivmod n_tiles;
  FastDivmod m_tiles;
  std::uint32_t tiles = 0;
  std::uint32_t k_tiles = 0;
  std::uint32_t splits = 1;
  std::uint32_t k_tiles_per_split = 0;
};

void launch_sm90(int tile, const Sm90Params& params, std::uint32_t blocks, CUstream_st* stream);

}  // namespace gpudnn::kernels::integer
