// The sum and the sum of squares of each channel of C, on the fused epilogue of forward: of the values as they are
// rounded and stored, by products on the tensor cores. A block has few instructions left beside its stores: sums of a
// thread's values, with the shuffles behind them, would be five for each value, products are a quarter of one.
//
//   Y   16 pixels x 8 channels of C. With A = Y^T above rows of ones, A * Y holds on its diagonal the sums of squares,
//       and below the sums. The fragments of Y that ldmatrix gives are those of A and of B alike.
//   a warp adds up a quarter of each chunk's channels, for all of its pixels; totals stay in registers until the
//       channels change. They leave to rows of the workspace, of which finish_sums makes the sums in a fixed order.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_swap_ab.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/mma_sync.cuh"

namespace gpudnn::kernels::sm90 {

// Of the channels of a consumer. The four threads of channel lane / 4 of a block of 8 have its sum, its sum of squares
// and those of the same channel of the warp's next block: value_of_lane() tells which.
template <class I>
struct ChannelTotals {
  static constexpr int kBlocksOfChunk = I::kSwapped ? 2 : I::kChunkElements / 32;  // of 8 channels, of a warp
  static constexpr int kChunks = I::kSwapped ? 1 : I::kBN / I::kChunkElements;
  float value[kChunks] = {};
};

template <class I>
__device__ __forceinline__ bool wants_totals(const Params& p) {
  return kEpilogueOf<I> == Epilogue::any && has_channel_sums(I::kTile) && p.totals != nullptr;
}

// Two elements that are 1.
template <class T>
constexpr std::uint32_t kOnes = 0x3c003c00u;
template <>
inline constexpr std::uint32_t kOnes<tile::BFloat16> = 0x3f803f80u;

// Adds the products of 16 pixels, given as two fragments of 8, to a block's 8 channels.
template <class T>
__device__ __forceinline__ void multiply_by_itself(float (&products)[4], std::uint32_t first, std::uint32_t second) {
  const std::uint32_t a[4] = {first, kOnes<T>, second, kOnes<T>};
  if constexpr (std::is_same_v<T, tile::BFloat16>) {
    ptx::mma_m16n8k16_bf16(products, a, first, second);
  } else {
    ptx::mma_m16n8k16_f16(products, a, first, second);
  }
}

// Bit 0: the squares; bit 1: the second block. The thread that holds the diagonal's elements has value 0.
__device__ __forceinline__ unsigned value_of_lane() { return threadIdx.x % 4 ^ threadIdx.x % 32 / 8; }
template <int kBlocks>
__device__ __forceinline__ float value_of_products(const float (&products)[kBlocks][4]) {
  const bool odd = (threadIdx.x & 4u) != 0;
  const unsigned mine = value_of_lane();
  float value = odd ? products[0][3] : products[0][2];
#pragma unroll
  for (unsigned i = 1; i < 2 * kBlocks; ++i) {
    const float(&p)[4] = products[i / 2];
    const float at_diagonal = i % 2 != 0 ? (odd ? p[1] : p[0]) : (odd ? p[3] : p[2]);
    const float here = __shfl_xor_sync(~0u, at_diagonal, i);
    if (mine == i) value = here;
  }
  return value;
}

// 64 staged pixels of chunk number `chunk` of the tile's channels.
template <class I>
__device__ __forceinline__ void total_rows(unsigned char* staging, int chunk, ChannelTotals<I>* totals) {
  using T = typename I::T;
  constexpr int kBlocks = ChannelTotals<I>::kBlocksOfChunk;
  static_assert(kBlocks == 1 || kBlocks == 2, "a warp has 8 or 16 channels of a chunk");
  constexpr int kPixels = 32 / kBlocks;  // of a load
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x % 128 / 32);
  const std::uint32_t base = ptx::shared_address(staging);
  float products[kBlocks][4] = {};
#pragma unroll
  for (int first = 0; first < 64; first += kPixels) {
    std::uint32_t y[4];
    ptx::ldmatrix_x4_trans(base + static_cast<std::uint32_t>(
                                      staged<I::kChunkBytes>(first + lane % kPixels, warp * kBlocks + lane / kPixels)),
                           y);
    multiply_by_itself<T>(products[0], y[0], y[1]);
    multiply_by_itself<T>(products[kBlocks - 1], y[2], y[3]);
  }
  const float value = value_of_products(products);
  gemm::with_number<ChannelTotals<I>::kChunks>(chunk, [&](auto known) { totals->value[known] += value; });
}

// The fragments of swap-AB: two rows of channels, pixels along them.
template <class I>
__device__ __forceinline__ void total_columns(const float (&v)[I::kBN / 2], ChannelTotals<I>* totals) {
  using T = typename I::T;
  float products[2][4] = {};
#pragma unroll
  for (int j = 0; j < I::kBN / 8; j += 2) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      multiply_by_itself<T>(products[half], pack_pair<T>(v[4 * j + 2 * half], v[4 * j + 2 * half + 1]),
                            pack_pair<T>(v[4 * j + 2 * half + 4], v[4 * j + 2 * half + 5]));
    }
  }
  totals->value[0] += value_of_products(products);
}

// Row number `slot` of the workspace gets the totals of the channels of column tile `n`, which begin anew.
template <class I>
__device__ __forceinline__ void store_totals(const Params& p, std::uint32_t group, std::uint32_t n, std::uint32_t slot,
                                             int consumer, ChannelTotals<I>* totals) {
  using Totals = ChannelTotals<I>;
  constexpr unsigned kOfWarp = 8 * Totals::kBlocksOfChunk;
  const unsigned value = value_of_lane();
  const unsigned in_tile = (I::kSwapped ? static_cast<unsigned>(consumer) * 64 : 0) + threadIdx.x % 128 / 32 * kOfWarp +
                           value / 2 * 8 + threadIdx.x % 32 / 4;
  const unsigned first = n * I::kColumnsOfC + in_tile;
  ChannelTotal* const row = p.totals + static_cast<std::size_t>(slot) * p.total_channels + group * p.group_columns;
  if (value < 2 * Totals::kBlocksOfChunk) {
#pragma unroll
    for (unsigned chunk = 0; chunk < Totals::kChunks; ++chunk) {
      const unsigned column = first + chunk * I::kChunkElements;
      if (column < p.n_count) (value % 2 != 0 ? row[column].squares : row[column].sum) = totals->value[chunk];
    }
  }
  *totals = {};
}

// Consumers that have rows of their own: those that take whole tiles, or rows of all columns.
template <class I>
constexpr std::uint32_t kSlotsOfTile = I::kPingPong || I::kSwapped ? 1 : I::kConsumers;
template <class I>
constexpr std::uint32_t kSlotsOfBlock = I::kSwapped ? 1 : I::kConsumers;

// After each tile, and after a consumer's last one.
template <class I>
__device__ __forceinline__ void store_totals_of_tile(const Params& p, const Work& work, int consumer,
                                                     ChannelTotals<I>* totals) {
  if (!wants_totals<I>(p) || p.totals_of_blocks) return;
  const std::uint32_t slot =
      work.m * kSlotsOfTile<I> + (kSlotsOfTile<I> > 1 ? static_cast<std::uint32_t>(consumer) : 0);
  store_totals<I>(p, work.group, work.n, slot, consumer, totals);
}
template <class I>
__device__ __forceinline__ void store_totals_of_block(const Params& p, int consumer, ChannelTotals<I>* totals) {
  if (!wants_totals<I>(p) || !p.totals_of_blocks) return;
  std::uint32_t n = 0;
  const std::uint32_t block = p.n_tiles.divmod(blockIdx.x, &n);
  const std::uint32_t slot =
      block * kSlotsOfBlock<I> + (kSlotsOfBlock<I> > 1 ? static_cast<std::uint32_t>(consumer) : 0);
  store_totals<I>(p, 0, n, slot, consumer, totals);
}

}  // namespace gpudnn::kernels::sm90
