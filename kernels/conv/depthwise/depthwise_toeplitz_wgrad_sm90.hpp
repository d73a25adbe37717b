// The parameters of the depthwise filter gradient by products of planes, shared by the launcher and the kernel: plain
// data. See depthwise_toeplitz_wgrad_sm90.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/depthwise/depthwise_toeplitz_sm90.hpp"

namespace gpudnn::kernels::depthwise_toeplitz {

// An instance: rows of up to 16 * `steps` columns; `taps` x `taps` of the filter at once, 8 or 16.
struct WgradRow {
  int steps;
  int taps;
  int min_blocks;  // of a multiprocessor: bounds the registers
};
constexpr WgradRow kWgradTiles[] = {{1, 8, 4}, {2, 8, 3}, {1, 16, 3}, {2, 16, 3}, {4, 16, 3}};
constexpr int kWgradTileCount = sizeof(kWgradTiles) / sizeof(kWgradTiles[0]);
constexpr int kWgradSlack = 512;  // bytes behind dy's planes that are read and not used

struct WgradParams {
  // Filled in for each launch.
  const void* x = nullptr;
  const void* dy = nullptr;
  float* partials = nullptr;  // a filter for each thread block of a channel tile

  // Fixed by the problem.
  std::int32_t images = 0, channels = 0;
  std::int32_t taps_h = 1, taps_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1;

  // Fixed by the config: a thread block has `tile_images` images, or `tile_rows` rows of dy of one.
  std::int32_t tile_images = 1;
  std::int32_t tile_rows = 0;
  Planes image, rows;    // x and dy
  FastDivmod row_tiles;  // of an image
  FastDivmod channel_tiles;
  std::uint32_t thread_blocks = 0;
  std::uint32_t rows_at = 0;  // in shared memory
  std::uint32_t shared_bytes = 0;
};

void launch_wgrad(int row, ElementType type, const WgradParams& params, CUstream_st* stream);

}  // namespace gpudnn::kernels::depthwise_toeplitz
