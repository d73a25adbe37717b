// out = alpha * in + beta * out where the two run fastest along different loops: in along i, out along j. (NCHW to
// NHWC: i is the pixel, j the channel, the image is an outer loop.)
//
// transpose_registers   A thread takes a square of V x V elements (V elements are 16 bytes): V loads of 16 bytes along
//                       i, V stores of 16 bytes along j, and between them a shuffle among its own registers. A warp
//                       covers 4 squares along i by 8 along j, so it reads 64-byte and writes 128-byte runs; the 8
//                       warps stand 4 by 2, which makes a block's square 256 bytes wide both ways. V loads in flight
//                       for each thread.
// transpose_shared      Any extents, alignment and pair of types: a tile of 32 x 32 elements goes through shared
//                       memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/tensor/tensor.hpp"
#include "kernels/tensor/transpose_grid.hpp"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels {

constexpr unsigned kFewBlocks = 128;

template <class T>
struct TransposeArgs {
  const T* in;
  T* out;
  tile::Compute<T> alpha;
  tile::Compute<T> beta;
  bool plain;  // alpha is 1 and beta is 0: the bits move as they are
};

template <class T>
__global__ void __launch_bounds__(kTransposeThreads) transpose_registers(TransposeArgs<T> args, TransposeGrid grid) {
  using C = tile::Compute<T>;
  constexpr int V = tile::kPackWidth<T>;
  std::uint32_t tile_i, tile_j;
  std::int64_t offset[2];
  grid.locate(blockIdx.x, &tile_i, &tile_j, offset);
  // Who is launched behind a small grid starts beside it. A large one fills the device: there the other's blocks would
  // take the multiprocessors in the disorder in which they become free.
  if (gridDim.x < kFewBlocks) ptx::griddepcontrol_launch_dependents();
  int square_i, square_j;
  transpose_square(static_cast<int>(threadIdx.x), &square_i, &square_j);
  const std::uint32_t i = (tile_i * kSquares + square_i) * V;
  const std::uint32_t j = (tile_j * kSquares + square_j) * V;
  if (i >= grid.extent_i || j >= grid.extent_j) return;
  const T* in = args.in + offset[0] + j * grid.in_step_j + i;
  T* out = args.out + offset[1] + i * grid.out_step_i + j;
  tile::Pack<T, V> rows[V];
#pragma unroll
  for (int k = 0; k < V; ++k) rows[k] = tile::load_pack<T, V>(in + k * grid.in_step_j);
  if (args.plain) {
#pragma unroll
    for (int m = 0; m < V; ++m) {
      tile::Pack<T, V> column;
      if constexpr (tile::kPackHasWords<T, V>) {
        // Halves m of two rows make a word of the column.
#pragma unroll
        for (int k = 0; k < V; k += 2) {
          column.words[k / 2] =
              __byte_perm(rows[k].words[m / 2], rows[k + 1].words[m / 2], m % 2 == 0 ? 0x5410 : 0x7632);
        }
      } else {
#pragma unroll
        for (int k = 0; k < V; ++k) column.data[k] = rows[k].data[m];
      }
      tile::store_pack<T, V>(out + m * grid.out_step_i, column);
    }
    return;
  }
#pragma unroll
  for (int m = 0; m < V; ++m) {
    C column[V];
#pragma unroll
    for (int k = 0; k < V; ++k) column[k] = args.alpha * tile::widen<C>(rows[k].get(m));
    T* const target = out + m * grid.out_step_i;
    if (args.beta != C(0)) {
      const tile::Pack<T, V> old = tile::load_pack<T, V>(target);
#pragma unroll
      for (int k = 0; k < V; ++k) column[k] += args.beta * tile::widen<C>(old.get(k));
    }
    tile::store_pack<T, V>(target, tile::narrow_pack<T>(column));
  }
}

template <class A, class B, class C>
__global__ void __launch_bounds__(kTransposeThreads)
    transpose_shared(const A* in, B* out, C alpha, C beta, TransposeGrid grid) {
  __shared__ C tile_values[kTile][kTile + 1];  // by j, then i; the odd pitch keeps columns free of bank conflicts
  std::uint32_t tile_i, tile_j;
  std::int64_t offset[2];
  grid.locate(blockIdx.x, &tile_i, &tile_j, offset);
  const int column = static_cast<int>(threadIdx.x) % kTile;
  const int row = static_cast<int>(threadIdx.x) / kTile;
  constexpr int kRowsAtOnce = kTransposeThreads / kTile;
  const std::uint32_t first_i = tile_i * kTile;
  const std::uint32_t first_j = tile_j * kTile;
#pragma unroll
  for (int r = row; r < kTile; r += kRowsAtOnce) {
    if (first_i + column < grid.extent_i && first_j + r < grid.extent_j) {
      tile_values[r][column] = tile::widen<C>(in[offset[0] + (first_j + r) * grid.in_step_j + first_i + column]);
    }
  }
  __syncthreads();
#pragma unroll
  for (int r = row; r < kTile; r += kRowsAtOnce) {
    if (first_i + r < grid.extent_i && first_j + column < grid.extent_j) {
      B* const target = out + offset[1] + (first_i + r) * grid.out_step_i + first_j + column;
      C value = alpha * tile_values[column][r];
      if (beta != C(0)) value += beta * tile::widen<C>(*target);
      *target = tile::narrow<B>(value);
    }
  }
}

}  // namespace gpudnn::kernels
