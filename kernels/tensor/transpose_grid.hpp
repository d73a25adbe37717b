// How the blocks and threads of the transpose kernels are laid over the tensors. Plain data and index arithmetic.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/tile/loop_nest.hpp"

namespace gpudnn::kernels {

constexpr int kTransposeThreads = 256;
constexpr int kSquares = 16;  // of V elements, both ways, for a block of transpose_registers
constexpr int kTile = 32;     // elements, both ways, for a block of transpose_shared

// How blocks and threads are laid over the two loops and the outer ones.
struct TransposeGrid {
  std::uint32_t extent_i = 0;
  std::uint32_t extent_j = 0;
  std::int64_t in_step_j = 0;
  std::int64_t out_step_i = 0;
  tile::FastDivmod tiles_i;
  tile::FastDivmod tiles_j;
  tile::LoopNest<2> outer;  // in, out

  // Block -> tile coordinates and the outer loops' offsets.
  GPUDNN_HOST_DEVICE void locate(std::uint32_t block, std::uint32_t* tile_i, std::uint32_t* tile_j,
                                 std::int64_t (&offset)[2]) const {
    block = tiles_i.divmod(block, tile_i);
    block = tiles_j.divmod(block, tile_j);
    outer.offsets(block, offset);
  }
};

// The square of a thread, in squares from the corner of the block's tile.
GPUDNN_HOST_DEVICE void transpose_square(int thread, int* square_i, int* square_j) {
  const int lane = thread % 32;
  const int warp = thread / 32;
  *square_i = warp % 4 * 4 + lane % 4;
  *square_j = warp / 4 * 8 + lane / 4;
}

// The grid over a nest of the tensors in and out, with tiles of `edge` elements both ways; returns the number of
// blocks.
[[nodiscard]] inline std::int64_t make_transpose_grid(const tile::HostNest& nest, int in_loop, int edge,
                                                      TransposeGrid* grid) {
  const int last = nest.rank - 1;
  grid->extent_i = static_cast<std::uint32_t>(nest.dims[in_loop]);
  grid->extent_j = static_cast<std::uint32_t>(nest.dims[last]);
  grid->in_step_j = nest.strides[0][last];
  grid->out_step_i = nest.strides[1][in_loop];
  const std::int64_t tiles_i = (nest.dims[in_loop] + edge - 1) / edge;
  const std::int64_t tiles_j = (nest.dims[last] + edge - 1) / edge;
  grid->tiles_i = tile::FastDivmod(static_cast<std::uint32_t>(tiles_i));
  grid->tiles_j = tile::FastDivmod(static_cast<std::uint32_t>(tiles_j));
  tile::HostNest outer;
  outer.tensors = 2;
  for (int i = 0; i < last; ++i) {
    if (i == in_loop) continue;
    outer.dims[outer.rank] = nest.dims[i];
    for (int t = 0; t < 2; ++t) outer.strides[t][outer.rank] = nest.strides[t][i];
    ++outer.rank;
  }
  grid->outer = tile::LoopNest<2>(outer);
  return tiles_i * tiles_j * outer.count();
}

}  // namespace gpudnn::kernels
