// The parameters of the depthwise convolution (one input channel a group), shared by the launcher and the kernels:
// plain data. See depthwise_sweep_simt.cuh.
//
// "Image" is what a direction reads by windows: x, or dy in the data gradient. "Rows" of the other tensor, which has
// one element for each window, are y, dx, and dy in the filter gradient. Sizes and strides are in elements.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/conv/epilogue_params.hpp"
#include "kernels/tile/element_type.hpp"
#include "kernels/tile/fast_divmod.cuh"

struct CUstream_st;

namespace gpudnn::kernels::depthwise {

using tile::ElementType;
using tile::FastDivmod;

constexpr int kMaxThreads = 256;
constexpr int kLineTurns = 2;  // of two packs of a line that a thread has

enum class Kernel : std::int32_t {
  sweep,        // forward, and the data gradient of step 1: filter and sums in registers
  sweep_dgrad,  // the data gradient of step 2
  rows,         // forward and data gradient of any filter and step
  line,         // forward and the data gradient of step 1 along contiguous lines
  wgrad,        // the filter gradient: its sums in registers
  line_wgrad,   // the same along contiguous lines
};

// An instance: a thread has `vector` channels and `columns` neighbouring columns, and goes down the rows. Along lines a
// thread has packs of 16 bytes of a channel, and the columns are not used.
struct TileRow {
  Kernel kernel;
  int height, width;  // of the filter, or of the taps that a thread has at once; 0: any
  int stride;         // 0: any
  int vector;
  int columns;
  int min_blocks;  // of 256 threads on a multiprocessor: bounds the registers
};
// clang-format off
constexpr TileRow kTiles[] = {
    {Kernel::sweep, 3, 3, 1, 2, 4, 3}, {Kernel::sweep, 3, 3, 2, 2, 4, 2},
    {Kernel::sweep, 5, 5, 1, 2, 4, 2}, {Kernel::sweep, 5, 5, 2, 2, 4, 2},
    {Kernel::sweep, 7, 7, 1, 2, 4, 1}, {Kernel::sweep, 7, 7, 2, 2, 2, 1},
    {Kernel::sweep, 1, 3, 1, 4, 8, 2}, {Kernel::sweep, 1, 4, 1, 4, 8, 2},
    {Kernel::sweep, 3, 3, 1, 1, 2, 4}, {Kernel::sweep, 3, 3, 2, 1, 1, 4},
    {Kernel::sweep, 5, 5, 1, 1, 2, 3}, {Kernel::sweep, 5, 5, 2, 1, 1, 4},
    {Kernel::sweep, 7, 7, 1, 1, 1, 2}, {Kernel::sweep, 7, 7, 2, 1, 1, 2},
    {Kernel::sweep_dgrad, 3, 3, 2, 2, 2, 2}, {Kernel::sweep_dgrad, 5, 5, 2, 2, 1, 2},
    {Kernel::sweep_dgrad, 3, 3, 2, 1, 1, 4}, {Kernel::sweep_dgrad, 5, 5, 2, 1, 1, 2},
    {Kernel::rows, 0, 0, 1, 2, 8, 3}, {Kernel::rows, 0, 0, 1, 1, 4, 4},
    {Kernel::rows, 0, 0, 0, 2, 1, 4}, {Kernel::rows, 0, 0, 0, 1, 1, 4},
    {Kernel::wgrad, 3, 3, 1, 2, 4, 2}, {Kernel::wgrad, 3, 3, 2, 2, 4, 2},
    {Kernel::wgrad, 5, 5, 1, 2, 4, 2}, {Kernel::wgrad, 5, 5, 2, 2, 4, 2},
    {Kernel::wgrad, 7, 7, 1, 2, 4, 1}, {Kernel::wgrad, 7, 7, 2, 2, 2, 1},
    {Kernel::wgrad, 1, 3, 1, 4, 4, 2}, {Kernel::wgrad, 1, 4, 1, 4, 4, 2},
    {Kernel::wgrad, 3, 3, 1, 1, 2, 4}, {Kernel::wgrad, 3, 3, 2, 1, 1, 4},
    {Kernel::wgrad, 5, 5, 1, 1, 4, 2}, {Kernel::wgrad, 5, 5, 2, 1, 1, 3},
    {Kernel::wgrad, 7, 7, 1, 1, 1, 2}, {Kernel::wgrad, 7, 7, 2, 1, 1, 2},
    {Kernel::wgrad, 1, 8, 1, 2, 4, 3}, {Kernel::wgrad, 1, 8, 1, 1, 1, 4},
    {Kernel::wgrad, 1, 1, 0, 2, 1, 4}, {Kernel::wgrad, 1, 1, 0, 1, 1, 4},
    {Kernel::line, 1, 4, 1, 1, 1, 4}, {Kernel::line, 1, 8, 1, 1, 1, 2},
    {Kernel::line_wgrad, 1, 4, 1, 1, 1, 3}, {Kernel::line_wgrad, 1, 8, 1, 1, 1, 2},
};
// clang-format on
constexpr int kTileCount = sizeof(kTiles) / sizeof(kTiles[0]);

constexpr bool is_wgrad(Kernel kernel) { return kernel == Kernel::wgrad || kernel == Kernel::line_wgrad; }
constexpr bool is_line(Kernel kernel) { return kernel == Kernel::line || kernel == Kernel::line_wgrad; }

struct Strides {
  std::int64_t n = 0;
  std::int64_t c = 0;
  std::int32_t h = 0;
  std::int32_t w = 0;
  std::int32_t d = 0;
};

// One spatial direction of the windows, and how threads share the rows or columns.
struct Axis {
  std::int32_t image = 1;     // extent of the image
  std::int32_t rows = 1;      // of the other tensor
  std::int32_t windows = 1;   // as many as rows; of sweep_dgrad pairs of rows
  std::int32_t taps = 1;      // of the filter
  std::int32_t pad = 0;       // may be negative
  std::int32_t stride = 1;    // between windows
  std::int32_t dilation = 1;  // between taps
  // Windows that are `step` apart share image elements: with a dilation those of one phase of it.
  std::int32_t step = 1;
  std::int32_t chunk = 1;  // windows of a thread
  FastDivmod chunks;       // of a phase
};

struct Params : conv::EpilogueParams {
  // Filled in for each launch.
  const void* image = nullptr;
  const void* filter = nullptr;
  const void* rows = nullptr;  // the filter gradient reads it
  float* partials = nullptr;

  // Fixed by the problem.
  bool mirrored = false;       // the tap (r, s) of a window is the filter's last but (r, s)
  bool transposed = false;     // Kernel::rows: data gradient, windows of the image by output pixels
  bool channels_last = false;  // which index of a block's threads is the faster one
  Axis h, w;
  Axis d;  // of volumes, which Kernel::rows and Kernel::wgrad take: one slice of the other tensor a unit
  Strides image_steps, rows_steps, addend_steps;
  std::int64_t image_count = 0, rows_count = 0;  // elements from the first to the last one: where lines are packs
  std::int64_t filter_k = 0, filter_r = 0, filter_s = 0, filter_t = 0;
  std::uint32_t channels = 0;     // of y
  FastDivmod multiplier;          // channels of y for each of x
  bool image_multiplied = false;  // the image has fewer channels than the other tensor

  // Fixed by the config. A block has lanes_c vectors of channels by lanes_s units, where a unit is what one thread does
  // at a time: a strip of columns of a chunk of rows of an image.
  FastDivmod lanes_c, lanes_s;
  FastDivmod channel_blocks;
  FastDivmod col_units, row_units;  // of an image: phases times chunks
  FastDivmod depth;                 // slices of the other tensor
  std::uint32_t units = 0;
  std::uint32_t threads = 0;
  std::uint32_t blocks = 0;
  std::uint32_t shared_bytes = 0;
  std::uint32_t splits = 1;  // filter gradient: blocks that share a channel block
  FastDivmod tap_tiles_w;    // filter gradient: tiles of taps in a row of the filter ...
  FastDivmod tap_tiles_h;    // ... and of rows in a slice
  std::uint32_t tap_tiles = 1;
};

// Launches kTiles[row].
void launch(int row, ElementType type, const Params& params, CUstream_st* stream);

// The same for the instances that a file of a type makes: all but the filter gradient, and the filter gradient with the
// sum over its splits.
template <class T>
void launch_image(int row, const Params& params, CUstream_st* stream);
template <class T>
void launch_wgrad(int row, const Params& params, CUstream_st* stream);

}  // namespace gpudnn::kernels::depthwise
