// Depthwise filter gradient, channels last, 16 bits, on tensor cores.
//
//   dw[c, r, s] = sum over n, i, j of x[n, i + r - pad, j + s - pad, c] * dy[n, i, j, c]
//
// (with r * dilation and s * dilation where there is one). For one channel and one row i of dy, dw is the product of 16
// rows of x, from row i - pad on, and a matrix with dy[i, k + pad - s] for column k of x and column s of the filter: a
// Toeplitz matrix. m16n8k16 of mma.sync has rows of taps for m, columns of taps for n and columns of x for k, so that
// all of a filter of up to 16 x 16 taps has 8 sums a lane, which stay in registers over all rows and images.
//
// x and dy come as planes (depthwise_planes_sm90.cuh). Rows of x are fragments as they lie. Of dy a lane loads two
// neighbouring columns, and gets the words of its fragments by a shuffle each. A thread block has 32 channels of some
// images, or of some rows of one; each warp has four channels, one after the other, and leaves their sums in the
// workspace, a filter for each thread block. A second kernel, small_group_sm80's, adds those up in order.
//
// What does not exist counts as zero. Zero times an infinity is a NaN: a sum that is not finite is added up again,
// pixel by pixel.
//
// Limits: step 1, up to 31 taps in a row, with a dilation 8; rows of up to 64 columns, with 8 x 8 taps 32 (beyond,
// small_group_sm80 is faster).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "kernels/conv/depthwise/depthwise_planes_sm90.cuh"
#include "kernels/conv/depthwise/depthwise_toeplitz_wgrad_sm90.hpp"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/ldmatrix_x2.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/tile/dynamic_shared.cuh"
#include "kernels/tile/mma.cuh"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels::depthwise_toeplitz {

template <int kRow>
struct WgradInstance {
  static constexpr int kSteps = kWgradTiles[kRow].steps;
  static constexpr int kTaps = kWgradTiles[kRow].taps;
  // Of x's matrices, four each: 16 rows by 16 columns, or 8 rows by 32.
  static constexpr int kLoads = kTaps == 16 ? kSteps : (kSteps + 1) / 2;
  static constexpr int kRows = 4 / kSteps;  // of dy, whose loads are under way together
};

// A sum of the tile without elements of x that do not exist.
template <class T>
__device__ __noinline__ float exact_tap(const WgradParams& p, const Tile& at, const unsigned char* x,
                                        const unsigned char* dy, int r, int s) {
  float sum = 0;
#pragma unroll 1
  for (int image = 0; image < p.tile_images && at.n + image < p.images; ++image) {
#pragma unroll 1
    for (int i = 0; i < p.tile_rows && at.row + i < p.rows.height; ++i) {
      const int h = i + r * p.dilation_h - p.pad_h;
      if (static_cast<unsigned>(at.row + h) >= static_cast<unsigned>(p.image.height)) continue;
      const int x_row = image * static_cast<int>(p.image.image_pitch.divisor) + h - p.image.first_row;
      const int dy_row = image * static_cast<int>(p.rows.image_pitch.divisor) + i;
      const auto* const x_at = reinterpret_cast<const T*>(x + 16 * x_row * p.image.pitch);
      const auto* const dy_at = reinterpret_cast<const T*>(dy + 16 * dy_row * p.rows.pitch);
#pragma unroll 1
      for (int j = 0; j < p.rows.width; ++j) {
        const int w = j + s * p.dilation_w - p.pad_w;
        if (static_cast<unsigned>(w) < static_cast<unsigned>(p.image.width)) {
          sum += tile::widen<float>(x_at[w]) * tile::widen<float>(dy_at[j]);
        }
      }
    }
  }
  return sum;
}

// What a lane loads, and where.
template <class I>
struct WgradLane {
  std::uint32_t from[I::kLoads];  // its row of x's matrices
  std::uint32_t step[I::kLoads];  // to the next row; 0 where x has ended: a chunk of zeros
  const unsigned char* dy;        // its two neighbouring columns of a row, 16 more with each step
  int dy_step;
  std::uint32_t mask[I::kSteps];  // which of them exist
  // Who has the words of a step's first 8 columns of x and 8 columns of taps. The others lie 8 lanes further and
  // before.
  int source;
};

// Adds up kCount rows of dy.
template <class T, class I, int kCount>
__device__ __forceinline__ void multiply_rows(WgradLane<I>& lane, float (&sums)[I::kTaps / 8][4]) {
  std::uint32_t x[kCount][I::kLoads][4] = {};
  std::uint32_t dy[kCount][I::kSteps];
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
#pragma unroll
    for (int n = 0; n < I::kSteps; ++n) {
      const auto* const columns = reinterpret_cast<const T*>(lane.dy) + 16 * n;
      dy[i][n] = tile::word_of(columns[0], columns[1]);
    }
#pragma unroll
    for (int u = 0; u < I::kLoads; ++u) {
      if constexpr (I::kTaps == 8 && I::kSteps == 1) {
        ptx::ldmatrix_x2(lane.from[u], x[i][u][0], x[i][u][1]);
      } else {
        ptx::ldmatrix_x4(lane.from[u], x[i][u]);
      }
      lane.from[u] += lane.step[u];
    }
    lane.dy += lane.dy_step;
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
#pragma unroll
    for (int n = 0; n < I::kSteps; ++n) {
      const std::uint32_t pair = dy[i][n] & lane.mask[n];
      const std::uint32_t here = __shfl_sync(0xffffffffu, pair, lane.source);
      const std::uint32_t right = __shfl_sync(0xffffffffu, pair, lane.source + 8);
      if constexpr (I::kTaps == 16) {
        tile::mma_m16n8k16<T>(sums[0], x[i][n], here, right);
        tile::mma_m16n8k16<T>(sums[1], x[i][n], __shfl_sync(0xffffffffu, pair, lane.source - 8), here);
      } else {
        const std::uint32_t rows[4] = {x[i][n / 2][n % 2 * 2], 0, x[i][n / 2][n % 2 * 2 + 1], 0};
        tile::mma_m16n8k16<T>(sums[0], rows, here, right);
      }
    }
  }
}

// Adds up the taps from (first_r, first_s) on of a plane of the tile.
template <class T, class I>
__device__ __forceinline__ void multiply_plane(const WgradParams& p, const Tile& at, unsigned char* shared, int x_at,
                                               int dy_at, int first_r, int first_s, float (&sums)[I::kTaps / 8][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int x_pitch = 16 * p.image.pitch;
  WgradLane<I> at_lane;
  at_lane.dy_step = 16 * p.rows.pitch;
  const int row = first_r + lane % 8 + (I::kTaps == 16 ? lane / 8 % 2 * 8 : 0);
  const int row_offset = min(row, p.taps_h - 1) * p.dilation_h * x_pitch;
  int offset[I::kLoads];
#pragma unroll
  for (int u = 0; u < I::kLoads; ++u) {
    const int block = I::kTaps == 16 ? 2 * u + lane / 16 : 4 * u + lane / 8;
    at_lane.step[u] = block < static_cast<int>(p.image.blocks.divisor) ? static_cast<std::uint32_t>(x_pitch) : 0u;
    offset[u] = row_offset + 16 * block;
  }
  const int last_s = min(first_s + I::kTaps, p.taps_w) - 1;
  const int first = p.pad_w - last_s * p.dilation_w + lane;
#pragma unroll
  for (int n = 0; n < I::kSteps; ++n) {
    const auto width = static_cast<unsigned>(p.rows.width);
    at_lane.mask[n] = (static_cast<unsigned>(first + 16 * n) < width ? 0xffffu : 0u) |
                      (static_cast<unsigned>(first + 16 * n + 1) < width ? 0xffff0000u : 0u);
  }
  at_lane.source = lane % 4 * 2 + (last_s - first_s - lane / 4) * p.dilation_w;

  const int images = min(p.tile_images, p.images - at.n);
  const int rows = min(p.tile_rows, p.rows.height - at.row);
#pragma unroll 1
  for (int image = 0; image < images; ++image) {
    const int x_row = image * static_cast<int>(p.image.image_pitch.divisor) - p.pad_h - p.image.first_row;
    const int x_from = x_at + x_row * x_pitch;
#pragma unroll
    for (int u = 0; u < I::kLoads; ++u) {
      at_lane.from[u] =
          ptx::shared_address(shared) + static_cast<std::uint32_t>(at_lane.step[u] != 0 ? x_from + offset[u] : 0);
    }
    at_lane.dy = shared + (dy_at + image * p.tile_rows * at_lane.dy_step + 2 * first);
    int i = 0;
#pragma unroll 1
    for (; i + I::kRows <= rows; i += I::kRows) multiply_rows<T, I, I::kRows>(at_lane, sums);
    if constexpr (I::kRows > 1) {
#pragma unroll 1
      for (; i < rows; ++i) multiply_rows<T, I, 1>(at_lane, sums);
    }
  }
}

template <class T, int kRow>
__global__ void __launch_bounds__(32 * kWarps, kWgradTiles[kRow].min_blocks)
    depthwise_toeplitz_wgrad_kernel(const __grid_constant__ WgradParams p) {
  using I = WgradInstance<kRow>;
  constexpr int kPlanesOfWarp = kChannels / kWarps;
  unsigned char* const shared = tile::dynamic_shared();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  // A chunk of zeros, those above the first plane of x, the planes of x, those of dy.
  const std::uint32_t zero = ptx::shared_address(shared);
  const int top_bytes = 16 * p.image.top * p.image.pitch;
  for (int i = static_cast<int>(threadIdx.x); i < 1 + top_bytes / 16; i += 32 * kWarps) {
    *reinterpret_cast<uint4*>(shared + 16 * i) = {};
  }
  Tile at;
  {
    std::uint32_t channel = 0;
    std::uint32_t row = 0;
    const std::uint32_t n = p.row_tiles.divmod(p.channel_tiles.divmod(blockIdx.x, &channel), &row);
    at = {static_cast<int>(n) * p.tile_images, static_cast<int>(row) * p.tile_rows,
          static_cast<int>(channel) * kChannels};
  }
  const int x_at = 16 + top_bytes;
  load_planes<T, 2 * I::kSteps>(p.image, p.x, at, at.row + p.image.first_row, p.tile_images, p.images, p.channels,
                                zero + static_cast<std::uint32_t>(x_at));
  load_planes<T, 2 * I::kSteps>(p.rows, p.dy, at, at.row, p.tile_images, p.images, p.channels, zero + p.rows_at);
  const std::size_t part = p.channel_tiles.quotient(blockIdx.x);
  __syncthreads();

#pragma unroll 1
  for (int i = 0; i < kPlanesOfWarp; ++i) {
    const int plane = warp * kPlanesOfWarp + i;
    const int channel = at.channel + channel_of_plane(plane);
    if (channel >= p.channels) continue;
    const int x_base = x_at + 16 * plane * p.image.plane_chunks();
    const int dy_base = static_cast<int>(p.rows_at) + 16 * plane * p.rows.plane_chunks();
    float* const to = p.partials + (part * static_cast<std::size_t>(p.channels) + static_cast<std::size_t>(channel)) *
                                       static_cast<std::size_t>(p.taps_h * p.taps_w);
#pragma unroll 1
    for (int first_r = 0; first_r < p.taps_h; first_r += I::kTaps) {
#pragma unroll 1
      for (int first_s = 0; first_s < p.taps_w; first_s += I::kTaps) {
        float sums[I::kTaps / 8][4] = {};
        multiply_plane<T, I>(p, at, shared, x_base, dy_base, first_r, first_s, sums);
#pragma unroll
        for (int k = 0; k < I::kTaps / 2; ++k) {
          if (I::kTaps == 8 && k >= 2) continue;  // rows that no tap has
          const int r = first_r + lane / 4 + k % 4 / 2 * 8;
          const int s = first_s + lane % 4 * 2 + k / 4 * 8 + k % 2;
          if (r >= p.taps_h || s >= p.taps_w) continue;
          float sum = sums[k / 4][k % 4];
          if (0.0f * sum != 0.0f) sum = exact_tap<T>(p, at, shared + x_base, shared + dy_base, r, s);
          to[r * p.taps_w + s] = sum;
        }
      }
    }
  }
}

}  // namespace gpudnn::kernels::depthwise_toeplitz
