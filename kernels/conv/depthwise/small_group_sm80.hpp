// The parameters of the convolution of groups of few channels on tensor cores, shared by the launcher and
// the kernel: plain data. See small_group_sm80.cuh.
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

namespace gpudnn::kernels::small_group {

using tile::ElementType;
using tile::FastDivmod;

constexpr int kBlock = 8;        // channels of the output in a product
constexpr int kMaxGroup = 32;    // of the filter gradient
constexpr int kTileRows = 16;    // of the output, of a product
constexpr int kWarpColumns = 8;  // of the output, of a warp
constexpr int kMaxWarps = 8;
constexpr int kMaxShared = 110 * 1024;

// The instances.
struct TileRow {
  int taps;  // height and width of the filter
  int stride;
  int min_blocks;         // of a multiprocessor: bounds the registers
  bool is_dgrad = false;  // the data gradient of step 2; that of step 1 is a forward convolution
  int depth = kBlock;     // channels of the image in a product: a multiple of kBlock
  // Of elements of so many bytes: the filter of floats takes twice the registers.
  [[nodiscard]] constexpr int min_blocks_of(int bytes) const { return bytes == 4 ? 2 : min_blocks; }
  // Floats have the filters of 3 x 3 alone, in groups that a block holds.
  [[nodiscard]] constexpr bool takes(int bytes) const { return bytes == 2 || (taps == 3 && depth == kBlock); }
  // How far the windows of neighbouring pixels of a tile are apart, and how many pixels of the image one is wide.
  [[nodiscard]] constexpr int step() const { return is_dgrad ? 1 : stride; }
  [[nodiscard]] constexpr int window() const { return is_dgrad ? (taps + 1) / 2 : taps; }
};
// clang-format off
constexpr TileRow kTiles[] = {{3, 1, 3}, {5, 1, 2}, {7, 1, 2}, {3, 2, 2}, {5, 2, 2}, {3, 2, 3, true},
                              {3, 2, 2, false, 16}, {3, 2, 2, true, 16}};
// clang-format on
constexpr int kTileCount = sizeof(kTiles) / sizeof(kTiles[0]);
// The same of the filter gradient: those that are not is_dgrad.
constexpr int kWgradMinBlocks[] = {2, 2, 1, 2, 2};
constexpr int kWgradCount = sizeof(kWgradMinBlocks) / sizeof(kWgradMinBlocks[0]);
constexpr int kMaxWgradShared = 200 * 1024;

struct Strides {
  std::int64_t n = 0;
  std::int32_t h = 0;
  std::int32_t w = 0;
};

// How a thread block goes over the 16-byte chunks of a staged tensor: all blocks of channels of a pixel, the pixels of
// a row, the rows (of both images, where a tile has two). The threads are a multiple of a pixel's chunks, so that a
// thread stays with its chunk and takes every (threads / chunks)-th pixel: `step_rows` rows and `step_columns`
// further.
struct Walk {
  FastDivmod columns;
  std::int32_t step_rows = 0;
  std::int32_t step_columns = 0;
};

struct Params : conv::EpilogueParams {
  // Filled in for each launch.
  const void* image = nullptr;
  const void* filter = nullptr;
  const void* rows = nullptr;  // dy, in the filter gradient, where out_steps are its strides
  float* partials = nullptr;   // of the filter gradient: a filter for each walker and part

  // Fixed by the problem.
  bool mirrored = false;    // the tap (r, s) of a window is the filter's last but (r, s)
  bool transposed = false;  // data gradient: the filter's first index is the image's channel
  std::int32_t images = 0, channels = 0;
  std::int32_t group = 1;  // channels
  std::int32_t image_h = 0, image_w = 0, out_h = 0, out_w = 0, pad_h = 0, pad_w = 0;
  // What tiles cover: the output or, in the data gradient of step 2, blocks of 2 x 2 of it, of which the first begins
  // odd_h rows and odd_w columns before the output.
  std::int32_t tiled_h = 0, tiled_w = 0, odd_h = 0, odd_w = 0;
  Strides image_steps, out_steps, addend_steps;
  std::int64_t filter_k = 0, filter_c = 0, filter_r = 0, filter_s = 0;

  // A thread block has `blocks_c` blocks of channels and `parts` times 8 columns, a warp for each pair of those, and
  // goes over tiles of 16 rows: of one image, or 8 rows of each of two images.
  // In the filter gradient there is a warp for each of `cross` blocks of dy in the group of one of x; where a group has
  // more, `cross_parts` thread blocks share them.
  FastDivmod blocks_c;
  FastDivmod chunks_c;  // of 16 bytes: those of the blocks
  std::int32_t parts = 1;
  std::int32_t cross = 1;
  std::int32_t group_blocks = 1;
  bool wide = false;  // a warp has two of dy's blocks
  FastDivmod cross_parts;
  std::int32_t part_rows = kTileRows;  // output rows of an image in a tile
  std::int32_t in_rows = 0;            // that a tile sees of an image
  // With step 2 the even ones of a tile's images come first in shared memory, then the odd ones, phase_chunks of 16
  // bytes further; each image has phase_rows there.
  std::int32_t phase_rows = 0, phase_chunks = 0;
  Walk in_walk, out_walk;
  std::int32_t in_pitch = 0;  // 16-byte chunks from one row in shared memory to the next: 1 modulo 8
  std::int32_t out_pitch = 0;
  std::int32_t rows_offset = 0;  // of dy behind the image, in a stage of the filter gradient
  FastDivmod column_tiles, row_tiles;
  std::uint32_t tiles = 0;
  FastDivmod channel_tiles;   // times the cross_parts
  std::uint32_t walkers = 1;  // thread blocks that share the tiles of a channel tile
  std::int32_t stages = 1;    // 2: the next tile is loaded while this one is multiplied
  std::int32_t stage_bytes = 0;
  std::int32_t result_bytes = 0;  // behind the stages; the filter gradient has none
  std::uint32_t threads = 0;
};

// Floats of a warp of the filter gradient.
[[nodiscard]] GPUDNN_HOST_DEVICE constexpr int wgrad_sums_of_warp(int group, int taps) {
  return kBlock * (group < kBlock ? group : kBlock) * taps * taps;
}

// The second kernel of the filter gradient: `count` sums of `parts` terms.
constexpr std::uint32_t kSumThreads = 256;
struct SumShape {
  std::uint32_t count = 0;
  std::uint32_t parts = 0;
  std::uint32_t lanes = 1;  // threads that share a sum: a power of 2
  FastDivmod taps_w, taps_h, group;
};
// As many threads share a sum as make one wave of a large device, and no more than there are terms.
[[nodiscard]] inline SumShape sum_shape(int channels, int group, int taps_h, int taps_w, std::uint32_t parts) {
  constexpr std::uint64_t kThreads = 1 << 18;
  constexpr std::uint32_t kMaxLanes = 32;
  SumShape sum;
  sum.count = static_cast<std::uint32_t>(channels * group * taps_h * taps_w);
  sum.parts = parts;
  while (sum.lanes < kMaxLanes && 2 * sum.lanes <= sum.parts && std::uint64_t{sum.count} * 2 * sum.lanes <= kThreads) {
    sum.lanes *= 2;
  }
  sum.taps_w = FastDivmod(static_cast<std::uint32_t>(taps_w));
  sum.taps_h = FastDivmod(static_cast<std::uint32_t>(taps_h));
  sum.group = FastDivmod(static_cast<std::uint32_t>(group));
  return sum;
}

// Of a thread block.
[[nodiscard]] inline std::size_t shared_bytes(const Params& p) {
  return static_cast<std::size_t>(p.stages) * static_cast<std::size_t>(p.stage_bytes) +
         static_cast<std::size_t>(p.result_bytes);
}

void launch(int row, ElementType type, const Params& params, CUstream_st* stream);
template <class T>
void launch_of_type(int row, const Params& params, CUstream_st* stream);

// The filter gradient: two kernels.
void launch_wgrad(int row, ElementType type, const Params& params, CUstream_st* stream);
template <class T>
void launch_wgrad_of_type(int row, const Params& params, CUstream_st* stream);
// Its second kernel alone: of Params what says where the sums are and go, and how dw combines them.
template <class T>
void launch_sums(const Params& params, const SumShape& sum, CUstream_st* stream);

}  // namespace gpudnn::kernels::small_group
