// The parameters of the Hopper filter gradient by rows of patches: plain data, shared by the launcher and the kernel.
// See smem_im2col_wgrad_sm90.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/conv/wgrad_taps.hpp"
#include "kernels/tile/element_type.hpp"
#include "kernels/tile/fast_divmod.cuh"
#include "kernels/tile/tensor_map.hpp"

struct CUstream_st;

namespace gpudnn::kernels::smem_im2col_wgrad {

using kernels::kOctet;
using tile::ElementType;
using tile::FastDivmod;
using tile::TensorMap;

// Taps that a block multiplies with kFilters filters, in eights, and how many eights a filter row has; 0: any number.
struct Shape {
  int taps;
  int row_octets;
};
constexpr Shape kShapes[] = {{64, 0}, {168, 3}};
constexpr int kShapeCount = sizeof(kShapes) / sizeof(kShapes[0]);

constexpr int kFilters = 64;     // of a block
constexpr int kBoxBytes = 128;   // of a pixel in a box of dy
constexpr int kCoreBytes = 128;  // 8 taps of 8 pixels, or of 4 in TF32
constexpr int kMaxStages = 16;   // rows of dy under way, places in the rings
constexpr int kMaxBox = 256;     // pixels
constexpr int kExpanders = 7;    // warps
constexpr int kAlignment = 1024;
constexpr int kRingOffset = kAlignment;  // barriers lie before the rings
constexpr int kRawAlignment = 128;       // where TMA writes
constexpr std::uintptr_t kWorkspaceAlignment = 256;

constexpr int bytes_of(ElementType type) { return type == ElementType::f32 ? 4 : 2; }
// Pixels that one instruction adds up: 32 bytes of them.
constexpr int step_pixels(ElementType type) { return 32 / bytes_of(type); }

struct Params {
  TensorMap dy;  // filters, columns, rows, images
  TensorMap x;   // 8 bytes of a row, rows, images

  // --- the way to a block's rows
  FastDivmod parts;         // blocks that share their rows: of kFilters each
  std::uint32_t units = 0;  // rows of strips of dy, of all images
  std::uint32_t splits = 1;
  FastDivmod rows;    // of dy
  FastDivmod strips;  // of tile_w columns
  FastDivmod tile_w;
  std::uint32_t out_w = 0;

  // --- rings in shared memory
  std::uint32_t stages = 0;  // rows of dy
  std::uint32_t stage_bytes = 0;
  std::uint32_t raws = 0;  // groups of image rows, as they lie in memory
  std::uint32_t raw_bytes = 0;
  std::uint32_t raw_offset = 0;  // of the first one
  std::uint32_t slots = 0;       // groups of image rows, in patches
  std::uint32_t slot_bytes = 0;
  std::uint32_t slot_offset = 0;
  std::uint32_t shared_bytes = 0;

  // --- a group of image rows, as it comes
  std::uint32_t groups = 1;          // that a window covers
  std::uint32_t group_rows = 1;      // the vertical stride, or fewer where the filter is smaller
  std::uint32_t raw_row_words = 0;   // of 4 bytes
  std::uint32_t raw_copy_bytes = 0;  // that TMA brings
  std::int32_t first_vector = 0;     // where column 0's window begins: negative padding, rounded down to 16 bytes ...
  std::uint32_t first_shift = 0;     // ... and by how many elements
  std::uint32_t strip_vectors = 0;   // from a strip to the next
  std::int32_t stride_h = 1;
  std::int32_t pad_h = 0;
  std::uint32_t pixel_elements = 0;  // from the window of a pixel to the next

  // --- a group in patches: for each image row, for each octet of a filter row, the octet of each pixel
  std::uint32_t plane_bytes = 0;  // of an octet
  std::uint32_t row_octets = 0;   // that of the taps once more: one load brings both
  FastDivmod row_columns;         // taps of a row's octets
  FastDivmod tile_groups;         // of 8 pixels

  FilterTaps taps;

  // Filled in for each launch.
  float alpha = 1;
  float beta = 0;
  void* dw = nullptr;
  float* partials = nullptr;
};
static_assert(sizeof(Params) <= 4096, "parameters of a kernel");

// Four sums of a thread, which stay together, in a block.
constexpr std::uint32_t quads_of(const Shape& shape) { return static_cast<std::uint32_t>(shape.taps / 8 * 128); }

using LaunchShape = void (*)(const Params& params, CUstream_st* stream);
// The instances of a type, made in the file of the type.
template <class T>
LaunchShape launch_of(int shape);

// Launches instance `shape` on splits x filter blocks; with more than one split a second kernel adds up their sums.
void launch(int shape, ElementType type, const Params& params, CUstream_st* stream);

}  // namespace gpudnn::kernels::smem_im2col_wgrad
