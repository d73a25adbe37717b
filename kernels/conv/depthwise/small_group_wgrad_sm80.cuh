// Filter gradient of groups of 1, 2, 4, 8, 16 or 32 channels on tensor cores, channels last:
//
//   dw[k, c, r, s] = sum over n, i, j of x[n, i * stride + r - pad, j * stride + s - pad, c] * dy[n, i, j, k]
//
// As in small_group_sm80.cuh eight neighbouring channels are whole groups, and a tile is 16 rows by 8 columns for each
// warp. The sum runs over the 16 pixels of a column: operand b is 16 pixels by 8 channels of x, a column shifted by r
// rows, and operand a the 8 channels of two columns of dy by 16 pixels, those that see this column of x by two
// different taps s, so that no row of a is empty. Both come from shared memory by transposing loads. A warp keeps the
// sums of all taps in registers while it goes over its tiles, leaves them in the workspace, and a second kernel adds
// them up in order. Of the 8 x 8 sums of a tap those within a group are dw; the others are left.
//
// Pixels that a tile has beyond dy, and the padding of x, are zeros, which would make a NaN of an infinity beside them.
// Whatever is not finite leaves sums that are not, so a thread block that ends with such a sum begins again without
// tensor cores.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/depthwise/small_group_sm80.cuh"
#include "kernels/tile/mma.cuh"

namespace gpudnn::kernels::small_group {

// kWide: the 16 rows of operand a are two neighbouring blocks of dy by one tap, in place of one block by two taps.
template <int kRow, bool kIsWide>
struct WgradInstance : Instance<kRow> {
  static constexpr bool kWide = kIsWide;
  static constexpr int kBlocks = kIsWide ? 2 : 1;  // of dy
};

// Taps s whose windows have their columns in the same places: with step 2 even and odd ones apart. A pair shares a
// product.
template <class I>
struct TapPairs {
  static constexpr int kOfPhase = (I::kTaps + I::kStride - 1) / I::kStride;  // taps of the first phase, the most
  static constexpr int kPerPhase = (kOfPhase + 1) / 2;
  static constexpr int kCount = I::kWide ? I::kTaps : kPerPhase * I::kStride;
  // Tap 0 or 1 of the pair; kTaps or more where there is none. Of wide products both are the same.
  static constexpr int tap(int pair, int which) {
    if (I::kWide) return pair;
    return pair / kPerPhase + (pair % kPerPhase * 2 + which) * I::kStride;
  }
};
template <class I>
using WgradSums = float[I::kTaps][TapPairs<I>::kCount][4];

template <class I>
__device__ __forceinline__ bool is_not_finite(const WgradSums<I>& sums) {
  float zero = 0;  // a NaN if any sum is not finite
#pragma unroll
  for (int r = 0; r < I::kTaps; ++r) {
#pragma unroll
    for (int pair = 0; pair < TapPairs<I>::kCount; ++pair) {
#pragma unroll
      for (int q = 0; q < 4; ++q) zero += 0.0f * sums[r][pair][q];
    }
  }
  return zero != zero;
}
template <class I>
__device__ __forceinline__ void clear(WgradSums<I>& sums) {
#pragma unroll
  for (int r = 0; r < I::kTaps; ++r) {
#pragma unroll
    for (int pair = 0; pair < TapPairs<I>::kCount; ++pair) {
#pragma unroll
      for (int q = 0; q < 4; ++q) sums[r][pair][q] = 0;
    }
  }
}

// image, rows: where the lane's rows of the fragments of the warp's first two columns lie. Columns from number `seen`
// on are beyond the image: zeros.
template <class T, class I>
__device__ __forceinline__ void add_tile(const Params& p, std::uint32_t image, std::uint32_t rows, int seen,
                                         WgradSums<I>& sums) {
  using Pairs = TapPairs<I>;
  const std::uint32_t pair_step = 32 * p.blocks_c.divisor;
  std::uint32_t dy[kWarpColumns][I::kBlocks][2];
#pragma unroll
  for (int j = 0; j < kWarpColumns; j += 2) {
#pragma unroll
    for (int block = 0; block < I::kBlocks; ++block) {
      std::uint32_t words[4];
      ptx::ldmatrix_x4_trans(
          rows + static_cast<std::uint32_t>(j / 2) * pair_step + 16 * static_cast<std::uint32_t>(block), words);
      dy[j][block][0] = words[0];
      dy[j][block][1] = words[1];
      dy[j + 1][block][0] = words[2];
      dy[j + 1][block][1] = words[3];
    }
  }
#pragma unroll
  for (int columns = 0; columns < I::kPairs; ++columns) {
    if (2 * columns >= seen) break;
#pragma unroll
    for (int r = 0; r < I::kTaps; ++r) {
      std::uint32_t b[4];
      ptx::ldmatrix_x4_trans(image + static_cast<std::uint32_t>(columns) * pair_step +
                                 16 * static_cast<std::uint32_t>(row_chunks<I>(p, r)),
                             b);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int pair = 0; pair < Pairs::kCount; ++pair) {
          std::uint32_t a[4] = {};
          bool any = false;
#pragma unroll
          for (int which = 0; which < 2; ++which) {
            const int s = Pairs::tap(pair, which);
            const int steps = columns * 2 + half - s;
            if (s >= I::kTaps || steps < 0 || steps % I::kStride != 0 || steps / I::kStride >= kWarpColumns) continue;
            const std::uint32_t(&words)[2] =
                dy[steps >= 0 ? steps / I::kStride % kWarpColumns : 0][I::kWide ? which : 0];
            a[which] = words[0];
            a[2 + which] = words[1];
            any = true;
          }
          if (any) tile::mma_m16n8k16<T>(sums[r][pair], a, b[2 * half], b[2 * half + 1]);
        }
      }
    }
  }
}

// Channel k of a block of dy and n of one of x in its group, or in the one of which both are a part.
__device__ __forceinline__ bool is_same_group(const Params& p, int k, int n) {
  return p.group >= kBlock || k / p.group == n / p.group;
}

// The sum over a tile of tap (r, s), channel k of a block of dy and n of the warp's of x, of pixels that exist.
template <class T, class I>
__device__ __noinline__ float exact_tile_sum(const Params& p, const Tile& at, const WarpPlace& place, int rows_block,
                                             const unsigned char* image, const unsigned char* rows, int r, int s, int k,
                                             int n) {
  float sum = 0;
#pragma unroll 1
  for (int i = 0; i < kTileRows * kWarpColumns; ++i) {
    const int m = i / kWarpColumns;
    const int column = place.part * kWarpColumns + i % kWarpColumns;
    const int part = m >= p.part_rows ? 1 : 0;
    const int h = at.row + m - part * p.part_rows;
    const int w = at.column + column;
    if (at.n + part >= p.images || h >= p.out_h || w >= p.out_w) continue;
    const int x_row = h * I::kStride + r - p.pad_h;
    const int x_column = w * I::kStride + s - p.pad_w;
    if (static_cast<unsigned>(x_row) >= static_cast<unsigned>(p.image_h) ||
        static_cast<unsigned>(x_column) >= static_cast<unsigned>(p.image_w)) {
      continue;
    }
    const auto blocks = static_cast<int>(p.blocks_c.divisor);
    const int x_chunk =
        staged_row(p, m) * p.in_pitch + row_chunks<I>(p, r) + (column * I::kStride + s) * blocks + place.block;
    const int dy_chunk = m * p.out_pitch + column * blocks + rows_block;
    sum += tile::widen<float>(reinterpret_cast<const T*>(image + 16 * x_chunk)[n]) *
           tile::widen<float>(reinterpret_cast<const T*>(rows + 16 * dy_chunk)[k]);
  }
  return sum;
}
template <class T, class I>
__device__ __forceinline__ void add_exact_tile(const Params& p, const Tile& at, const WarpPlace& place, int rows_block,
                                               const unsigned char* image, const unsigned char* rows,
                                               WgradSums<I>& sums) {
  const int k = static_cast<int>(threadIdx.x) % 32 / 4;
#pragma unroll
  for (int r = 0; r < I::kTaps; ++r) {
#pragma unroll
    for (int pair = 0; pair < TapPairs<I>::kCount; ++pair) {
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        const int s = TapPairs<I>::tap(pair, q / 2);
        const int n = lane_channel() + q % 2;
        if (s >= I::kTaps || !is_same_group(p, k, n)) continue;
        const int block = rows_block + (I::kWide ? q / 2 : 0);
        sums[r][pair][q] += exact_tile_sum<T, I>(p, at, place, block, image, rows, r, s, k, n);
      }
    }
  }
}

// A warp's sums to its part of the workspace, which is a filter as if it were packed: k, c, r, s. Through shared memory
// of its own, so that neighbours of the filter leave together. `x_first`, `dy_first`: channels of the warp's blocks.
template <class I>
__device__ __forceinline__ void store_partials(const Params& p, std::size_t part, int x_first, int dy_first,
                                               const WgradSums<I>& sums, float* own) {
  constexpr int kFilterTaps = I::kTaps * I::kTaps;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int k = lane / 4;
  const int channels = min(p.group, kBlock);  // of x, of a filter
#pragma unroll
  for (int q = 0; q < 4; ++q) {
    const int n = lane_channel() + q % 2;
    if (!is_same_group(p, k, n)) continue;
    float* const at = own + ((k + (I::kWide ? q / 2 * kBlock : 0)) * channels + n % channels) * kFilterTaps;
#pragma unroll
    for (int r = 0; r < I::kTaps; ++r) {
#pragma unroll
      for (int pair = 0; pair < TapPairs<I>::kCount; ++pair) {
        const int s = TapPairs<I>::tap(pair, q / 2);
        if (s < I::kTaps) at[r * I::kTaps + s] = sums[r][pair][q];
      }
    }
  }
  __syncwarp();
  // The block's filters lie in a row; where a group has two blocks of x, halves of them.
  const int step = p.group * kFilterTaps;
  const int rows = p.group > kBlock ? I::kBlocks * kBlock : 1;
  const int width = I::kBlocks * kBlock * channels * kFilterTaps / rows;
  float* const to = p.partials + part * static_cast<std::size_t>(p.channels) * static_cast<std::size_t>(step) +
                    dy_first * step + x_first % p.group * kFilterTaps;
  for (int row = 0; row < rows; ++row) {
    for (int i = lane; i < width; i += 32) to[row * step + i] = own[row * width + i];
  }
}

template <class T, int kRow, bool kWide>
__global__ void __launch_bounds__(32 * kMaxWarps, kWgradMinBlocks[kRow])
    small_group_wgrad_kernel(const __grid_constant__ Params p) {
  using I = WgradInstance<kRow, kWide>;
  unsigned char* const shared = tile::dynamic_shared();
  std::uint32_t channel_tile = 0;
  const std::uint32_t walker = p.channel_tiles.divmod(blockIdx.x, &channel_tile);
  std::uint32_t cross_part = 0;
  const int first_channel =
      static_cast<int>(p.cross_parts.divmod(channel_tile, &cross_part) * p.blocks_c.divisor) * kBlock;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  WarpPlace place;
  std::uint32_t block = 0;
  const auto rest = static_cast<int>(p.blocks_c.divmod(threadIdx.x / 32, &block));
  place.part = rest / p.cross;
  place.block = static_cast<int>(block);
  place.first = first_channel + place.block * kBlock;
  const int rows_block = place.block / p.group_blocks * p.group_blocks +
                         (static_cast<int>(cross_part) * p.cross + rest % p.cross) * I::kBlocks;

  const auto blocks = static_cast<int>(p.blocks_c.divisor);
  const int image_chunk = staged_row(p, lane % 16) * p.in_pitch +
                          (place.part * kWarpColumns * I::kStride + lane / 16) * blocks + place.block;
  const int rows_chunk = lane % 16 * p.out_pitch + (place.part * kWarpColumns + lane / 16) * blocks + rows_block;
  const auto stage_tile = [&](std::uint32_t index, int stage) {
    const std::uint32_t to = ptx::shared_address(shared + stage * p.stage_bytes);
    const Tile at = tile_at(p, index);
    stage_tensor<T, 1>(p, p.rows, p.out_steps, p.out_walk, p.out_pitch, at, p.part_rows, 0, p.out_h, p.out_w,
                       first_channel, to + static_cast<std::uint32_t>(p.rows_offset));
    stage_image<T, I>(p, at, first_channel, to);
  };

  WgradSums<I> sums = {};
  int stage = 0;
  stage_tile(walker, 0);
  for (std::uint32_t index = walker; index < p.tiles; index += p.walkers) {
    const unsigned char* const image = shared + stage * p.stage_bytes;
    const unsigned char* const rows = image + p.rows_offset;
    ptx::cp_async_wait_group<0>();
    __syncthreads();
    const std::uint32_t next = index + p.walkers;
    if (p.stages == 2 && next < p.tiles) stage_tile(next, stage ^ 1);
    std::uint32_t column_tile = 0;
    p.column_tiles.divmod(index, &column_tile);
    const int first_column =
        (static_cast<int>(column_tile) * p.parts + place.part) * kWarpColumns * I::kStride - p.pad_w;
    add_tile<T, I>(p, ptx::shared_address(image) + 16 * static_cast<std::uint32_t>(image_chunk),
                   ptx::shared_address(rows) + 16 * static_cast<std::uint32_t>(rows_chunk), p.image_w - first_column,
                   sums);
    if (p.stages == 2) {
      stage ^= 1;
    } else if (next < p.tiles) {
      __syncthreads();
      stage_tile(next, 0);
    }
  }
  if (__syncthreads_or(static_cast<int>(is_not_finite<I>(sums))) != 0) {
    clear<I>(sums);
    for (std::uint32_t index = walker; index < p.tiles; index += p.walkers) {
      stage_tile(index, 0);
      ptx::cp_async_wait_group<0>();
      __syncthreads();
      add_exact_tile<T, I>(p, tile_at(p, index), place, rows_block, shared, shared + p.rows_offset, sums);
      __syncthreads();
    }
  }

  if (place.first < p.channels) {
    auto* const own =
        reinterpret_cast<float*>(shared) + threadIdx.x / 32 * wgrad_sums_of_warp(p.group, I::kTaps) * I::kBlocks;
    const auto part =
        static_cast<std::size_t>(walker) * static_cast<std::size_t>(p.parts) + static_cast<std::size_t>(place.part);
    store_partials<I>(p, part, place.first, first_channel + rows_block * kBlock, sums, own);
  }
}

// dw = alpha * the sum over the parts, in order, + addend_scale * addend. `sum.lanes` threads share a sum.
template <class T>
__global__ void __launch_bounds__(kSumThreads)
    small_group_sum_kernel(const __grid_constant__ Params p, const __grid_constant__ SumShape sum) {
  __shared__ float sums[kSumThreads];
  const std::uint32_t columns = kSumThreads / sum.lanes;
  const std::uint32_t column = threadIdx.x & (columns - 1);
  const std::uint32_t at = blockIdx.x * columns + column;
  float total = 0;
  if (at < sum.count) {
    const float* const from = p.partials + at;
#pragma unroll 8
    for (std::uint32_t part = threadIdx.x / columns; part < sum.parts; part += sum.lanes) {
      total += from[std::uint64_t{part} * sum.count];
    }
  }
  sums[threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.x >= columns || at >= sum.count) return;
#pragma unroll 8
  for (std::uint32_t i = 1; i < sum.lanes; ++i) total += sums[i * columns + column];
  std::uint32_t r = 0;
  std::uint32_t s = 0;
  std::uint32_t c = 0;
  const std::uint32_t k = sum.group.divmod(sum.taps_h.divmod(sum.taps_w.divmod(at, &s), &r), &c);
  if (p.mirrored) {
    s = sum.taps_w.divisor - 1 - s;
    r = sum.taps_h.divisor - 1 - r;
  }
  const std::int64_t to = k * p.filter_k + c * p.filter_c + r * p.filter_r + s * p.filter_s;
  float value = p.alpha * total;
  if (p.addend_scale != 0.0f) value += p.addend_scale * tile::widen<float>(static_cast<const T*>(p.addend)[to]);
  static_cast<T*>(p.out)[to] = tile::narrow<T>(value);
}

}  // namespace gpudnn::kernels::small_group
