// Copies between a tensor of any strides and a packed channels-last one (rows of channels, one row a pixel, with zeros
// up to a padded count of channels): what the launch takes, and how blocks are laid over it. Plain data.
//
// Both tensors are [group][outer][pixel][channel]; outer is the image of a tensor or the output channel of a filter,
// the pixels of a filter are its taps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/tile/fast_divmod.cuh"

struct CUstream_st;

namespace gpudnn::kernels::channels_last {

constexpr int kThreads = 256;
constexpr int kMaxCopies = 6;  // of a launch
constexpr int kItems = 4;      // of a thread, in flight at once

// A tensor to copy. Steps are in elements.
struct Shape {
  int element_bytes = 2;         // 2 or 4
  std::uint32_t groups = 1;      // more than one only where each group is padded by itself
  std::uint32_t outer = 1;       // of a group, in the packed tensor ...
  std::uint32_t outer_kept = 1;  // ... and in the other: rows beyond are zero
  std::uint32_t channels = 1;    // of a group
  std::uint32_t channels_padded = 1;
  std::uint32_t pixels[3] = {1, 1, 1};
  std::int64_t base = 0;  // of the first element: a mirrored filter starts at its end
  std::int64_t span = 0;  // elements from the lowest to the highest, both included
  std::int64_t group_step = 0;
  std::int64_t outer_step = 0;
  std::int64_t channel_step = 0;
  std::int64_t pixel_step[3] = {};
  std::int64_t packed_group_step = 0;
  std::int64_t packed_outer_step = 0;
  std::int64_t packed_pixel_step = 0;
};

// tiles     Pixels are neighbours in the strided tensor: a block's tile of channels x pixels goes through shared
// memory,
//           and 16 bytes at a time move on both sides, at any alignment.
// elements  Any strides: a thread gathers or scatters the elements of 16 bytes of the packed side.
enum class Mode : std::int32_t { tiles, elements };

struct Task {
  // Filled in for each launch.
  void* strided = nullptr;
  void* packed = nullptr;
  std::uint32_t first_block = 0;

  // Fixed by the shape.
  Shape shape;
  Mode mode = Mode::elements;
  // Tiles whose lines are one run of memory (all pixels of some channels), so that images of an odd number of pixels
  // move in whole vectors.
  bool flat = false;
  // Packed rows are not whole vectors. Tiles then hold all channels, and the packed side of a tile is one run; elements
  // move one by one.
  bool tight = false;
  std::uint32_t all_pixels = 1;
  std::uint32_t tile_channels = 1;
  std::uint32_t tile_pixels = 1;
  std::uint32_t blocks = 0;
  tile::FastDivmod outer;
  tile::FastDivmod pixels[2];  // the two fastest spatial dimensions
  tile::FastDivmod channel_tiles;
  tile::FastDivmod pixel_tiles;   // of `elements`: blocks for each [group][outer]
  tile::FastDivmod line_vectors;  // that a line of a tile may touch
  tile::FastDivmod row_items;     // of a packed row in a tile: vectors, or elements where it is tight
  // Shared memory: line l starts at l * pitch + l / V * skew, V the elements of a vector.
  std::uint32_t pitch = 0;
  std::uint32_t skew = 0;
  std::uint32_t shared_bytes = 0;
};

[[nodiscard]] Task make_task(const Shape& shape);

// One tensor of a launch.
struct Copy {
  const Task* task = nullptr;  // but for the pointers
  void* strided = nullptr;
  void* packed = nullptr;
};
// strided -> packed, zeros in the padding: `count` tensors in one launch, all with elements of the same size.
void launch_pack(const Copy* copies, int count, CUstream_st* stream);
// packed -> strided. `overlaps`: on Hopper, its blocks may start while those of the kernel before leave.
void launch_unpack(const Copy& copy, bool overlaps, CUstream_st* stream);

}  // namespace gpudnn::kernels::channels_last
