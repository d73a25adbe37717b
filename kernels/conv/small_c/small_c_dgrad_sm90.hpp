// The parameters of the Hopper data gradient for images of few channels: plain data, shared by the launcher and the
// kernel. See small_c_dgrad_sm90.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/conv/small_c/small_c_sm80.hpp"
#include "kernels/tile/element_type.hpp"
#include "kernels/tile/fast_divmod.cuh"
#include "kernels/tile/tensor_map.hpp"

struct CUstream_st;

namespace gpudnn::kernels::small_c_dgrad {

using small_c::Strides;
using tile::ElementType;
using tile::FastDivmod;
using tile::TensorMap;

// What a warpgroup multiplies at once: blocks of 64 rows (slot, stride phase, channel), positions along w.
struct Shape {
  int row_blocks;
  int positions;
  int most_warpgroups;  // of a block of threads: bounds the registers
};
constexpr Shape kShapes[] = {{1, 120, 3}, {1, 32, 3}, {2, 120, 2}};
constexpr int kShapeCount = sizeof(kShapes) / sizeof(kShapes[0]);

constexpr int kMaxWarpgroups = 3;
constexpr int kMaxStages = 8;  // rows of dy under way, of a warpgroup
constexpr int kAlignment = 1024;
constexpr int kBarrierBytes = kAlignment;  // the barriers' place before the stages
constexpr int kRowBytes = 128;             // a dy pixel's filters of one block of filters
constexpr int kWarpgroup = 128;

// Filters of a block, and of one instruction.
constexpr int filters_of_block(ElementType type) { return kRowBytes / tile::element_bytes(type); }
constexpr int filters_of_step(ElementType type) { return 32 / tile::element_bytes(type); }

// An octet of rows of sums on its epilogue, by positions: rounded, or as floats, see the kernel's staged_at().
constexpr int kGuard = 8;
constexpr std::uint32_t halves_octet_bytes(int positions) {
  return static_cast<std::uint32_t>((positions + 31) / 32 * 32 + 2 * kGuard) * 16;
}
constexpr std::uint32_t floats_octet_bytes(int positions) {
  return static_cast<std::uint32_t>(positions + 2 * kGuard) * 5 / 4 * 32;
}

struct Params {
  TensorMap dy_map;  // filter, column, row, 1, image

  // Filled in for each launch.
  const void* dy = nullptr;
  const void* w = nullptr;
  void* dx = nullptr;
  float alpha = 1, beta = 0;
  bool vectors = false;  // dx is written by vectors of 16 bytes
  bool rounded = false;  // sums are what dx gets, but for their type of 16 bits

  // --- the problem
  std::int32_t channels = 0, filters = 0;
  std::int32_t image_h = 0, image_w = 0;  // of dx
  std::int32_t out_h = 0, out_w = 0;      // of dy
  std::int32_t taps_h = 0, taps_w = 0;
  std::int32_t pad_h = 0, pad_w = 0, stride_h = 1, stride_w = 1;
  Strides xs, ws, ys;
  std::int64_t w_base = 0;  // of the first tap: a mirrored filter begins at its end

  // --- positions: (pixel + pad) / stride, from first_i, first_j on
  std::int32_t first_i = 0, first_j = 0;
  std::int32_t taps_u = 0, taps_v = 0;  // of a stride phase
  FastDivmod class_row;                 // rows of the product for a row of pixels: stride_w * channels
  std::uint32_t class_pitch = 0;        // in whole octets
  std::int32_t group = 0;               // those of a row of positions: stride_h times as many
  FastDivmod rows;                      // rows of positions of an image
  FastDivmod column_tiles;
  std::int32_t tile_w = 0;       // positions
  std::uint32_t all_rows = 0;    // of all images and column tiles
  std::uint32_t warpgroups = 0;  // of a block of threads

  // --- shared memory
  std::uint32_t stages = 0;  // of a warpgroup
  std::uint32_t stage_bytes = 0, load_bytes = 0;
  std::int32_t filters_of_block = 0;
  std::uint32_t filter_blocks = 0;  // of 128 bytes
  std::uint32_t last_steps = 0;     // instructions of the last one, up to 4
  std::uint32_t filter_offset = 0;
  std::uint32_t panel_bytes = 0;  // the filter's part for a block of filters and a column v
  std::uint32_t staging_offset = 0;
  std::uint32_t staging_bytes = 0;  // of a warpgroup
  FastDivmod row_vectors;           // of 16 bytes that a tile's row of dx may touch
  std::uint32_t shared_bytes = 0;

  // --- the filter's elements: channel fastest, then s, r, filter
  std::uint32_t filter_taps = 0;  // elements of a filter
  std::uint32_t raw_filters = 0;  // filters that the staging areas hold on their way
  bool filter_is_packed = false;  // in that order
  FastDivmod channel_div, taps_w_div, taps_h_div, stride_h_div, stride_w_div;
};

using LaunchShape = void (*)(const Params& params, std::uint32_t blocks, CUstream_st* stream);
// The instances of a type, made in the file of the type.
template <class T>
LaunchShape launch_of(int shape);

void launch(int shape, ElementType type, const Params& params, std::uint32_t blocks, CUstream_st* stream);

}  // namespace gpudnn::kernels::small_c_dgrad
