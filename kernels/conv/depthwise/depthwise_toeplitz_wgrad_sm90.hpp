// The parameters of the depthwise filter gradient by products of planes, shared by the launcher and the kernel: plain
// data. See depthwise_toeplitz_wgrad_sm90.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/depthwise/depthwise_toeplitz_sm90.hpp"

namespace gpudnn::kernels::depthwise_toeplitz {

// An instance: 16 columns of x, `products` times, meet `count` blocks of 8 columns of dy each, of which the first is
// `first` blocks away from the one under them.
struct WgradRow {
  int products;
  int first;
  int count;
  [[nodiscard]] constexpr int blocks() const { return 2 * products; }  // of dy
  // Columns of dy that a warp's scratch has products of; of 16 columns of x alone, zeros lie on either side.
  [[nodiscard]] constexpr int margin() const { return first == 0 ? 16 : 0; }
  [[nodiscard]] constexpr int scratch_columns() const { return 8 * count + 2 * margin(); }
};
constexpr WgradRow kWgradTiles[] = {{1, 0, 2}, {2, -1, 4}, {4, -1, 4}};
constexpr int kWgradTileCount = sizeof(kWgradTiles) / sizeof(kWgradTiles[0]);
constexpr int kRowsAtOnce = 3;     // of taps
constexpr int kScratchPitch = 20;  // floats of a column of dy, with its products with 16 of x

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
  std::int32_t groups = 1;  // of 8 rows of dy: of all images
  FastDivmod row_groups;    // of an image
  Planes image, rows;       // x and dy
  FastDivmod row_tiles;     // of an image
  FastDivmod channel_tiles;
  std::uint32_t thread_blocks = 0;
  std::uint32_t rows_at = 0, scratch_at = 0;  // in shared memory
  std::uint32_t shared_bytes = 0;
};

void launch_wgrad(int row, ElementType type, const WgradParams& params, CUstream_st* stream);

}  // namespace gpudnn::kernels::depthwise_toeplitz
