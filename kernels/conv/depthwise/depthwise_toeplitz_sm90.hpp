// The parameters of the depthwise convolution by Toeplitz matrices, shared by the launcher and the kernel: plain data.
// See depthwise_toeplitz_sm90.cuh.
//
// "Image" is x, or dy in the data gradient; "out" is y or dx. Strides are in elements.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/conv/epilogue_params.hpp"
#include "kernels/tile/element_type.hpp"
#include "kernels/tile/fast_divmod.cuh"

struct CUstream_st;

namespace gpudnn::kernels::depthwise_toeplitz {

using tile::ElementType;
using tile::FastDivmod;

constexpr int kChannels = 32;  // of a thread block
constexpr int kWarps = 8;
constexpr int kMaxTaps = 31;  // of a row of the filter: a warp has one in its lanes
constexpr int kMaxShared = 220 * 1024;
// Shared memory: a chunk of zeros, and where rows go that the output does not have, a chunk for each thread.
constexpr std::uint32_t kPlanesAt = 16 + 16 * 32 * kWarps;

// An instance: a warp has the sums of `products` x `groups` products of 16 output columns by 8 output rows of a
// channel.
struct TileRow {
  int products;    // beside each other: images of up to 16 times as many columns
  int groups;      // of 8 rows, below each other or of several images
  int reach;       // a row of taps fills blocks of 8 x 8 on 2 * reach + 1 diagonals
  int min_blocks;  // of a multiprocessor: bounds the registers
};
// clang-format off
constexpr TileRow kTiles[] = {{1, 4, 1, 3}, {1, 8, 1, 2}, {2, 4, 1, 2}, {4, 2, 1, 2},
                              {1, 4, 2, 2}, {2, 2, 2, 2}, {4, 2, 2, 2}};
// clang-format on
constexpr int kTileCount = sizeof(kTiles) / sizeof(kTiles[0]);

struct Strides {
  std::int64_t n = 0;
  std::int32_t h = 0;
  std::int32_t w = 0;
};

// A sequence is an image: row h of it has the columns from h * row_step + first_column on, those that the tensor has.
struct Sequence {
  std::int32_t length = 0;  // 0: an image
  std::int32_t row_step = 0;
  std::int32_t first_column = 0;
  std::int32_t first_block = 0;  // of 8 columns of a row; those before are another row's
};

// A tensor's part of a tile in shared memory: a plane for each channel, of image_pitch rows of `pitch` 16-byte chunks
// for each image, of which in_rows are the image's, from row `first_row` on as seen from the tile's first row of the
// output. The others are zeros; `top` more lie above the first plane.
struct Planes {
  std::int32_t height = 0, width = 0;  // of the tensor
  Strides steps;
  Sequence sequence;
  std::int32_t in_rows = 0;
  std::int32_t first_row = 0;
  std::int32_t top = 0;
  std::int32_t pitch = 1;       // odd
  std::int32_t plane_rows = 1;  // odd
  FastDivmod image_pitch;
  FastDivmod blocks;  // of 8 columns
  [[nodiscard]] GPUDNN_HOST_DEVICE std::int32_t plane_chunks() const { return plane_rows * pitch; }
};

struct Params : conv::EpilogueParams {
  // Filled in for each launch.
  const void* image_data = nullptr;
  const void* filter = nullptr;

  // Fixed by the problem.
  bool mirrored = false;  // the tap (r, s) of a window is the filter's last but (r, s)
  std::int32_t images = 0, channels = 0;
  std::int32_t out_h = 0, out_w = 0, pad_h = 0, pad_w = 0, taps_h = 1, taps_w = 1;
  Strides out_steps, addend_steps;
  Sequence out_sequence;
  std::int64_t filter_k = 0, filter_r = 0, filter_s = 0;

  // Fixed by the config. A thread block has `tile_images` images, or `tile_rows` rows of the output of one.
  std::int32_t tile_images = 1;
  std::int32_t tile_rows = 0;
  bool whole_planes = false;  // planes have all of an image, whichever rows of the output are the block's
  FastDivmod row_groups;      // products of 8 rows of an image
  Planes image;               // results take the place of what the image has in a plane
  FastDivmod out_blocks;      // of 8 columns
  FastDivmod rows;            // of the output, of an image of the tile: tile_rows
  FastDivmod row_tiles;       // of an image
  FastDivmod channel_tiles;
  std::uint32_t thread_blocks = 0;
  FastDivmod filter_rows;       // taps_h
  bool stages_filter = true;    // to shared memory; else a warp reads rows of 18 to 31 taps where they lie
  std::uint32_t filter_at = 0;  // in shared memory
  std::uint32_t shared_bytes = 0;
};

void launch(int row, ElementType type, const Params& params, CUstream_st* stream);

}  // namespace gpudnn::kernels::depthwise_toeplitz
