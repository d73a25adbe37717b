// Products of a warp by mma.sync on the tiles of the flash kernels: 16-bit elements in shared memory, in panels of 64
// that are swizzled (flash_tile.cuh), sums in fragments of 16 rows: element 4 i + e of a row block is that of the
// instruction's i-th 8 columns.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "kernels/attention/flash_tile.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/mma_sync.cuh"
#include "kernels/tile/dynamic_shared.cuh"

namespace gpudnn::kernels::flash_sm80 {

using namespace flash;  // NOLINT: the part of these kernels that is no architecture's

__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

// The block's dynamic shared memory from the first multiple of 128 bytes on, by which panels' rows lie.
template <class Shared>
__device__ __forceinline__ Shared* aligned_shared() {
  unsigned char* const memory = tile::dynamic_shared();
  return reinterpret_cast<Shared*>(memory + (kPanelBytes - shared_address(memory) % kPanelBytes) % kPanelBytes);
}

// kBlocks objects, made by make(0), make(1), ...
template <class R, int kBlocks>
class RowBlocks {
 public:
  template <class Make>
  __device__ __forceinline__ explicit RowBlocks(const Make& make)
      : RowBlocks(make, std::make_integer_sequence<int, kBlocks>{}) {}
  __device__ __forceinline__ R& operator[](int i) { return blocks_[i]; }

 private:
  template <class Make, int... kNumbers>
  __device__ __forceinline__ RowBlocks(const Make& make, std::integer_sequence<int, kNumbers...>)
      : blocks_{make(kNumbers)...} {}

  R blocks_[kBlocks];
};

template <class T>
__device__ __forceinline__ void multiply_add(float* sums, const std::uint32_t (&a)[4], std::uint32_t b0,
                                             std::uint32_t b1) {
  float(&four)[4] = *reinterpret_cast<float(*)[4]>(sums);
  if constexpr (std::is_same_v<T, tile::Half>) {
    ptx::mma_m16n8k16_f16(four, a, b0, b1);
  } else {
    ptx::mma_m16n8k16_bf16(four, a, b0, b1);
  }
}

// The 16 bytes that a lane hands to ldmatrix, of a tile of kRows rows at a multiple of 128 bytes: those of its row,
// chunk 2 `pair` + `odd`, and of rows that lie a multiple of 8 below.
template <int kRows>
class LaneChunks {
 public:
  __device__ __forceinline__ LaneChunks(std::uint32_t tile, int row, int odd)
      : base_(tile + swizzled_chunk<kRows>(row, odd)) {}
  [[nodiscard]] __device__ __forceinline__ std::uint32_t at(int pair, int rows_below) const {
    return (base_ ^ static_cast<std::uint32_t>(pair % 4 * 32)) +
           static_cast<std::uint32_t>((pair / 4 * kRows + rows_below) * kPanelBytes);
  }

 private:
  std::uint32_t base_;
};

// How many loads of b are under way beside products: what one brings is worth two instructions for each row block, and
// takes longer than two do.
template <int kBlocks>
inline constexpr int kLoadsAhead = kBlocks == 1 ? 2 : 1;

// sums += a b^T over kDepth elements: a's rows from `a_row` on, 16 for each of the kBlocks, b's rows from `b_row` on.
// Tiles have kARows and kBRows rows.
template <class T, int kBlocks, int kColumns, int kDepth, int kARows, int kBRows>
__device__ __forceinline__ void add_row_products(std::uint32_t a, int a_row, std::uint32_t b, int b_row,
                                                 float (&sums)[kBlocks][kColumns / 2]) {
  constexpr int kPairs = kColumns / 16;
  constexpr int kLoads = kDepth / 16 * kPairs;
  constexpr int kAhead = kLoadsAhead<kBlocks>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const LaneChunks<kARows> a_chunks(a, a_row + lane % 16, lane / 16);
  const LaneChunks<kBRows> b_chunks(b, b_row + lane % 8 + lane / 16 * 8, lane / 8 % 2);
  std::uint32_t of_a[2][kBlocks][4];
  std::uint32_t of_b[kAhead + 1][4];
  const auto load_a = [&](int step) {
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) ptx::ldmatrix_x4(a_chunks.at(step, 16 * m), of_a[step % 2][m]);
  };
  const auto load_b = [&](int n) {
    ptx::ldmatrix_x4(b_chunks.at(n / kPairs, n % kPairs * 16), of_b[n % (kAhead + 1)]);
  };
  load_a(0);
#pragma unroll
  for (int n = 0; n < kAhead && n < kLoads; ++n) load_b(n);
#pragma unroll
  for (int n = 0; n < kLoads; ++n) {
    const int step = n / kPairs;
    const int i = n % kPairs;
    if (n + kAhead < kLoads) load_b(n + kAhead);
    if (i == 0 && (step + 1) * kPairs < kLoads) load_a(step + 1);
    const std::uint32_t(&its)[4] = of_b[n % (kAhead + 1)];
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
      multiply_add<T>(&sums[m][8 * i], of_a[step % 2][m], its[0], its[1]);
      multiply_add<T>(&sums[m][8 * i + 4], of_a[step % 2][m], its[2], its[3]);
    }
  }
}

// sums += weights b: b's rows are the summed dimension, kDim its elements.
template <class T, int kBlocks, int kDim, int kDepth>
__device__ __forceinline__ void add_weighted_rows(const std::uint32_t (&weights)[kBlocks][kDepth / 16][4],
                                                  std::uint32_t b, float (&sums)[kBlocks][kDim / 2]) {
  constexpr int kPairs = kDim / 16;
  constexpr int kLoads = kDepth / 16 * kPairs;
  constexpr int kAhead = kLoadsAhead<kBlocks>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const LaneChunks<kDepth> b_chunks(b, lane % 16, lane / 16);
  std::uint32_t of_b[kAhead + 1][4];
  const auto load_b = [&](int n) {
    ptx::ldmatrix_x4_trans(b_chunks.at(n % kPairs, n / kPairs * 16), of_b[n % (kAhead + 1)]);
  };
#pragma unroll
  for (int n = 0; n < kAhead; ++n) load_b(n);
#pragma unroll
  for (int n = 0; n < kLoads; ++n) {
    const int step = n / kPairs;
    const int i = n % kPairs;
    if (n + kAhead < kLoads) load_b(n + kAhead);
    const std::uint32_t(&its)[4] = of_b[n % (kAhead + 1)];
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
      multiply_add<T>(&sums[m][8 * i], weights[m][step], its[0], its[1]);
      multiply_add<T>(&sums[m][8 * i + 4], weights[m][step], its[2], its[3]);
    }
  }
}

// 16 rows of sums times `factor` to the rows from `row` on of a tile of kRows.
template <class T, int kDim, int kRows>
__device__ __forceinline__ void stage_rows(unsigned char* tile, int row, float factor, const float (&sums)[kDim / 2]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int i = 0; i < kDim / 8; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      *reinterpret_cast<std::uint32_t*>(tile + swizzled_chunk<kRows>(row + lane / 4 + 8 * half, i) + lane % 4 * 4) =
          pack_halves<T>(sums[4 * i + 2 * half] * factor, sums[4 * i + 2 * half + 1] * factor);
    }
  }
}

}  // namespace gpudnn::kernels::flash_sm80
