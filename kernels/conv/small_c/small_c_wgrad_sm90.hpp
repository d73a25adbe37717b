// The parameters of the Hopper filter gradient of images with few channels: plain data, shared by the launcher and the
// kernel. See small_c_wgrad_sm90.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/conv/wgrad_taps.hpp"
#include "kernels/tile/element_type.hpp"
#include "kernels/tile/fast_divmod.cuh"
#include "kernels/tile/tensor_map.hpp"

struct CUstream_st;

namespace gpudnn::kernels::small_c_wgrad {

using kernels::kOctet;
using tile::ElementType;
using tile::FastDivmod;
using tile::TensorMap;

// What a block computes: 64 `blocks` rows of taps by `filters`; the warpgroups that share its pixels, and whether they
// load a step's fragments while the products of the one before are under way.
struct Shape {
  int blocks;
  int filters;
  int consumers;
  bool ahead = false;
};
constexpr Shape kShapes[] = {
    {2, 32, 2}, {3, 32, 2}, {2, 64, 2}, {3, 64, 2, true}, {4, 64, 2, true}, {1, 96, 2}, {2, 96, 2},
};
constexpr int kShapeCount = sizeof(kShapes) / sizeof(kShapes[0]);

constexpr int kStepPixels = 16;  // that one instruction adds up
constexpr int kMaxStages = 16;   // rows of dy under way
constexpr int kMaxCopies = 8;
constexpr int kMaxBox = 256;   // pixels
constexpr int kExpanders = 7;  // warps
// Rows that they may be ahead of the consumers. There are at least as many stages, so that no wait for a row's phase
// takes a later one for it.
constexpr int kRowsAhead = 3;
constexpr int kAlignment = 1024;
constexpr int kRingOffset = kAlignment;  // barriers and zeros lie before the rings
constexpr int kZeroOffset = 512;
constexpr std::uintptr_t kWorkspaceAlignment = 256;

struct Params {
  TensorMap dy;  // filters, columns, rows, images

  // --- the way to a block's rows
  FastDivmod parts;         // blocks that share their rows: octet parts x filter blocks
  FastDivmod octet_parts;   // of 8 * Shape::blocks octets each
  std::uint32_t units = 0;  // rows of strips of dy, of all images
  std::uint32_t splits = 1;
  FastDivmod rows;    // of dy
  FastDivmod strips;  // of tile_w columns
  std::uint32_t tile_w = 0;
  std::uint32_t out_w = 0;

  // --- rings in shared memory
  FastDivmod stages;  // rows of dy
  std::uint32_t stage_bytes = 0;
  std::uint32_t raws = 0;  // groups of image rows, as they lie in memory
  std::uint32_t raw_bytes = 0;
  std::uint32_t raw_offset = 0;  // of the first one
  std::uint32_t slots = 0;       // groups of image rows, in copies
  std::uint32_t slot_bytes = 0;
  std::uint32_t slot_offset = 0;
  std::uint32_t shared_bytes = 0;

  // --- image rows in vectors of 16 bytes
  FastDivmod strip_vectors;       // that a strip's windows touch
  std::int32_t first_vector = 0;  // where column 0's window begins: negative padding, rounded down ...
  std::uint32_t first_shift = 0;  // ... and by how many elements
  std::int32_t row_vectors = 0;   // of the image
  std::int32_t image_rows = 0;
  std::int64_t row_step = 0;  // bytes
  std::int64_t image_step = 0;

  // --- a group: for each copy, for each image row, vectors
  std::uint32_t groups = 1;      // that a window covers
  std::uint32_t group_rows = 1;  // the vertical stride, or fewer where the filter is smaller
  std::uint32_t copies = 1;
  std::uint32_t copy_bytes = 0;
  std::uint32_t copy_vectors = 0;  // of a row
  std::int32_t stride_h = 1;
  std::int32_t pad_h = 0;
  std::uint32_t pixel_elements = 0;  // from the window of a pixel to the next

  FilterTaps taps;

  // Filled in for each launch.
  float alpha = 1;
  float beta = 0;
  void* dw = nullptr;
  const void* x = nullptr;
  float* partials = nullptr;
};
static_assert(sizeof(Params) <= 4096, "parameters of a kernel");

// dy comes in boxes of up to 64 filters: 128 bytes of a pixel.
constexpr int box_filters(int filters) { return filters < 64 ? filters : 64; }
constexpr int dy_boxes(int filters) { return (filters + 63) / 64; }

// Four sums of a thread, which stay together, in a block.
constexpr std::uint32_t quads_of(const Shape& shape) {
  return static_cast<std::uint32_t>(shape.blocks * shape.filters / 8 * 128);
}

using LaunchShape = void (*)(const Params& params, CUstream_st* stream);
// The instances of a type, made in the file of the type.
template <class T>
LaunchShape launch_of(int shape);

// Launches instance `shape` on splits x parts blocks; with more than one split a second kernel adds up their sums.
void launch(int shape, ElementType type, const Params& params, CUstream_st* stream);

}  // namespace gpudnn::kernels::small_c_wgrad
