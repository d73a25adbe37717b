// The batched product of transformed tensors: C[b][m][n] = sum over k of A[b][k][m] * B[b][k][n] in floats. Winograd's
// and the Fourier convolution's kernels meet here alone, so a product on other units replaces this one function.
// Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/tile/fast_divmod.cuh"

struct CUstream_st;

namespace gpudnn::kernels::winograd {

// A tile of C for a block: bm x bn, a thread computes tm x tn of it.
struct ProductRow {
  int bm, bn, tm, tn;
  int lanes_m;        // lanes of a warp along m; the others lie along n
  int min_blocks;     // per multiprocessor: bounds the registers
  double efficiency;  // share of the multiply-add rate in a long reduction with full multiprocessors

  [[nodiscard]] constexpr int threads() const { return bm * bn / (tm * tn); }
};
constexpr int kProductTileK = 8;
constexpr ProductRow kProductTiles[] = {
    {128, 128, 16, 8, 8, 2, 0.92},
    {64, 128, 8, 8, 8, 4, 0.85},
    {64, 64, 8, 8, 8, 6, 0.75},
    {32, 128, 8, 8, 4, 6, 0.70},
};
constexpr int kProductTileCount = sizeof(kProductTiles) / sizeof(kProductTiles[0]);

// Rows of A, B and C begin at multiples of 16 bytes and have room up to a whole vector of four floats; what stands
// behind m and n may be anything.
struct BatchedProduct {
  const float* a = nullptr;
  const float* b = nullptr;
  float* c = nullptr;
  std::int64_t a_batch = 0, b_batch = 0, c_batch = 0, c_split = 0;  // floats from one batch to the next
  std::int32_t a_pitch = 0, b_pitch = 0, c_pitch = 0;               // floats from one row to the next
  std::int32_t m = 0, n = 0, k = 0;
  std::int32_t k_per_split = 0;  // split s sums k from s * k_per_split on and has a C of its own
  std::int32_t splits = 1;
  std::int32_t batches = 1;
  tile::FastDivmod tiles_m, tiles_n, batch_count;
};

// Blocks of a launch on kProductTiles[row], which also sets the divisors.
inline std::int64_t set_product_tiles(int row, BatchedProduct* p) {
  const ProductRow& tile = kProductTiles[row];
  const std::int64_t tiles_m = (p->m + tile.bm - 1) / tile.bm;
  const std::int64_t tiles_n = (p->n + tile.bn - 1) / tile.bn;
  p->tiles_m = tile::FastDivmod(static_cast<std::uint32_t>(tiles_m));
  p->tiles_n = tile::FastDivmod(static_cast<std::uint32_t>(tiles_n));
  p->batch_count = tile::FastDivmod(static_cast<std::uint32_t>(p->batches));
  return tiles_m * tiles_n * p->batches * p->splits;
}

void launch_product(int row, const BatchedProduct& product, std::uint32_t blocks, CUstream_st* stream);

}  // namespace gpudnn::kernels::winograd
