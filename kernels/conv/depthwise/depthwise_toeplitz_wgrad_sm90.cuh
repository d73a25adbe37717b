// Depthwise filter gradient, channels last, 16 bits, on tensor cores.
//
//   dw[c, r, s] = sum over n, i, j of x[n, i + r - pad, j + s - pad, c] * dy[n, i, j, c]
//
// (with r * dilation and s * dilation where there is one). For one channel and one r, the sums over rows of the
// products of every column m of x with every column j of dy are a matrix, x's columns times dy's: m16n8k16 of mma.sync,
// with x's columns for m, dy's for n and 16 rows for k. What belongs to s lies on its diagonal m = j + s -
// pad. So blocks far from the diagonal are left out, blocks at the same distance from it share their sums, and the
// diagonals are added up once, at the end, through shared memory.
//
// x and dy come as planes (depthwise_planes_sm90.cuh); rows lie along k, so fragments of both are transposing loads. A
// thread block has 32 channels of some images, or of some rows of one; each warp has four channels, one after the
// other, with three rows of taps at once, and leaves their sums in the workspace, a filter for each thread block. A
// second kernel, small_group_sm80's, adds those up in order.
//
// Elements of x beyond the image are zeros. Zero times an infinity of dy is a NaN: a warp that finds a sum that is not
// finite adds up its row of taps again, pixel by pixel.
//
// Limits: step 1, rows of up to 64 columns.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "kernels/conv/depthwise/depthwise_planes_sm90.cuh"
#include "kernels/conv/depthwise/depthwise_toeplitz_wgrad_sm90.hpp"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/mma_sync.cuh"
#include "kernels/tile/dynamic_shared.cuh"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels::depthwise_toeplitz {

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

template <class T, int kRow>
__global__ void __launch_bounds__(32 * kWarps, 2)
    depthwise_toeplitz_wgrad_kernel(const __grid_constant__ WgradParams p) {
  constexpr WgradRow kTile = kWgradTiles[kRow];
  constexpr int kBlocks = kTile.blocks();
  constexpr int kLoads = kBlocks / 2;
  constexpr int kPlanesOfWarp = kChannels / kWarps;
  unsigned char* const shared = tile::dynamic_shared();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int matrix = lane / 8;
  const std::uint32_t x_pitch = 16 * static_cast<std::uint32_t>(p.image.pitch);
  const std::uint32_t dy_pitch = 16 * static_cast<std::uint32_t>(p.rows.pitch);
  // A chunk of zeros, those above the first plane of x, the planes of x, those of dy, the warps' scratch.
  const std::uint32_t zero = ptx::shared_address(shared);
  const std::uint32_t top_bytes = static_cast<std::uint32_t>(p.image.top) * x_pitch;
  for (std::uint32_t i = threadIdx.x; i < 1 + top_bytes / 16; i += 32 * kWarps) {
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
  const std::uint32_t x_at = 16 + top_bytes;
  load_planes<T, 2 * kTile.products>(p.image, p.x, at, at.row + p.image.first_row, p.tile_images, p.images, p.channels,
                                     zero + x_at);
  load_planes<T, kBlocks>(p.rows, p.dy, at, at.row, p.tile_images, p.images, p.channels, zero + p.rows_at);
  constexpr int kScratch = kTile.scratch_columns() * kScratchPitch;
  auto* const scratch = reinterpret_cast<float*>(shared + p.scratch_at) + warp * kScratch;
  for (int i = lane; i < kScratch; i += 32) scratch[i] = 0.0f;
  // Lane s adds up the diagonal m = y + begin, where y is a column of the scratch.
  const int tap = lane * p.dilation_w - p.pad_w;
  const int begin = tap + 8 * kTile.first;
  const int first_y = -begin;
  const bool has_diagonal = lane < p.taps_w && (kTile.first != 0 || (tap >= -16 && tap <= 16));
  constexpr int kDiagonalStep = kScratchPitch + 1;
  const float* const diagonal =
      scratch + (has_diagonal ? kTile.margin() * kScratchPitch + first_y * kDiagonalStep + begin : 0);
  const std::size_t part = p.channel_tiles.quotient(blockIdx.x);
  const int x_blocks = static_cast<int>(p.image.blocks.divisor) - matrix % 2;  // as the lane's addresses see them
  __syncthreads();

#pragma unroll 1
  for (int i = 0; i < kPlanesOfWarp; ++i) {
    const int plane = warp * kPlanesOfWarp + i;
    const int channel = at.channel + channel_of_plane(plane);
    if (channel >= p.channels) continue;
    const std::uint32_t x_base = x_at + 16 * static_cast<std::uint32_t>(plane * p.image.plane_chunks());
    const std::uint32_t dy_base = p.rows_at + 16 * static_cast<std::uint32_t>(plane * p.rows.plane_chunks());
    float* const to = p.partials + (part * static_cast<std::size_t>(p.channels) + static_cast<std::size_t>(channel)) *
                                       static_cast<std::size_t>(p.taps_h * p.taps_w);
#pragma unroll 1
    for (int first_row = 0; first_row < p.taps_h; first_row += kRowsAtOnce) {
      float sums[kRowsAtOnce][kTile.count][4] = {};
#pragma unroll 1
      for (int first = 0; first < p.groups; first += 2) {
        const int group = first + matrix / 2;
        const bool exists = group < p.groups;
        std::uint32_t in_image = 0;
        const auto image = static_cast<int>(p.row_groups.divmod(static_cast<std::uint32_t>(group), &in_image));
        const int row = static_cast<int>(in_image) * 8 + lane % 8;
        const int dy_row = image * static_cast<int>(p.rows.image_pitch.divisor) + row;
        const int x_row = image * static_cast<int>(p.image.image_pitch.divisor) + row - p.pad_h - p.image.first_row +
                          first_row * p.dilation_h;
        std::uint32_t dy[kLoads][4];
#pragma unroll
        for (int u = 0; u < kLoads; ++u) {
          const int block = 2 * u + matrix % 2;
          const bool any = exists && block < static_cast<int>(p.rows.blocks.divisor);
          ptx::ldmatrix_x4_trans(zero + (any ? dy_base + static_cast<std::uint32_t>(dy_row) * dy_pitch +
                                                   16 * static_cast<std::uint32_t>(block)
                                             : 0),
                                 dy[u]);
        }
        std::uint32_t from =
            zero + x_base + static_cast<std::uint32_t>(x_row) * x_pitch + 16 * static_cast<std::uint32_t>(matrix % 2);
#pragma unroll
        for (int r = 0; r < kRowsAtOnce; ++r) {
          if (first_row + r >= p.taps_h) break;
#pragma unroll
          for (int product = 0; product < kTile.products; ++product) {
            const bool any = exists && 2 * product < x_blocks;
            std::uint32_t x[4];
            ptx::ldmatrix_x4_trans(any ? from + 32 * static_cast<std::uint32_t>(product) : zero, x);
#pragma unroll
            for (int e = 0; e < kTile.count; ++e) {
              const int block = 2 * product + kTile.first + e;
              if (block < 0 || block >= kBlocks) continue;
              const std::uint32_t(&b)[4] = dy[block >= 0 && block < kBlocks ? block / 2 : 0];
              if constexpr (std::is_same_v<T, tile::Half>) {
                ptx::mma_m16n8k16_f16(sums[r][e], x, b[block & 1], b[2 + (block & 1)]);
              } else {
                ptx::mma_m16n8k16_bf16(sums[r][e], x, b[block & 1], b[2 + (block & 1)]);
              }
            }
          }
          from += static_cast<std::uint32_t>(p.dilation_h) * x_pitch;
        }
      }
#pragma unroll
      for (int r = 0; r < kRowsAtOnce; ++r) {
        if (first_row + r >= p.taps_h) break;
        __syncwarp();
#pragma unroll
        for (int e = 0; e < kTile.count; ++e) {
#pragma unroll
          for (int q = 0; q < 4; ++q) {
            scratch[(kTile.margin() + 8 * e + lane % 4 * 2 + q % 2) * kScratchPitch + lane / 4 + q / 2 * 8] =
                sums[r][e][q];
          }
        }
        __syncwarp();
        float total = 0;
        if (has_diagonal) {
          float halves[2] = {};
#pragma unroll
          for (int k = 0; k < 16; ++k) halves[k % 2] += diagonal[k * kDiagonalStep];
          total = halves[0] + halves[1];
        }
        if (__any_sync(0xffffffffu, 0.0f * total != 0.0f) && lane < p.taps_w) {
          total = exact_tap<T>(p, at, shared + x_base, shared + dy_base, first_row + r, lane);
        }
        if (lane < p.taps_w) to[(first_row + r) * p.taps_w + lane] = total;
      }
    }
  }
}

}  // namespace gpudnn::kernels::depthwise_toeplitz
