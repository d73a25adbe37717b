// The parameters of the convolution kernels for images of few channels, and what their launchers need to know of them.
// Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gemm/epilogue/activation.hpp"
#include "kernels/tile/element_type.hpp"
#include "kernels/tile/fast_divmod.cuh"

struct CUstream_st;

namespace gpudnn::kernels::small_c {

using tile::ElementType;
using tile::FastDivmod;

enum class Kernel : std::int32_t { forward, dgrad, wgrad };

// The instances of the kernels. `columns` is what a block computes of the side that is not pixels: filters forward,
// (stride phase, channel) in the data gradient, (tap, channel) in the filter gradient.
struct TileRow {
  Kernel kernel;
  ElementType type;
  int columns;
  int min_blocks;  // per multiprocessor: bounds the registers
};
constexpr TileRow kTiles[] = {
    // clang-format off
    {Kernel::forward,         ElementType::f16,   64, 4},
    {Kernel::forward,         ElementType::f16,   32, 6},
    {Kernel::forward,         ElementType::bf16,  64, 4},
    {Kernel::forward,         ElementType::bf16,  32, 6},
    {Kernel::forward,         ElementType::f32,   64, 4},
    {Kernel::forward,         ElementType::f32,   32, 6},
    {Kernel::dgrad,   ElementType::f16,   16, 2},
    {Kernel::dgrad,   ElementType::f16,    8, 2},
    {Kernel::dgrad,   ElementType::bf16,  16, 2},
    {Kernel::dgrad,   ElementType::bf16,   8, 2},
    {Kernel::dgrad,   ElementType::f32,   16, 2},
    {Kernel::dgrad,   ElementType::f32,    8, 2},
    {Kernel::wgrad, ElementType::f16,  160, 3},
    {Kernel::wgrad, ElementType::f16,   96, 3},
    {Kernel::wgrad, ElementType::f16,   32, 3},
    {Kernel::wgrad, ElementType::bf16, 160, 3},
    {Kernel::wgrad, ElementType::bf16,  96, 3},
    {Kernel::wgrad, ElementType::bf16,  32, 3},
    {Kernel::wgrad, ElementType::f32,  160, 3},
    {Kernel::wgrad, ElementType::f32,   96, 3},
    {Kernel::wgrad, ElementType::f32,   32, 3},
    // clang-format on
};
constexpr int kTileCount = sizeof(kTiles) / sizeof(kTiles[0]);

constexpr int kForwardThreads = 128;
constexpr int kForwardPixels = 128;  // at most, of a block's tile
constexpr int kFilterThreads = 128;
constexpr int kFilterRows = 64;  // filters of a block's tile in the filter gradient
constexpr int kDataThreads = 256;
constexpr int kDataRowsOfWarp = 8;  // a warp of the data gradient takes 8 x 16 positions ...
constexpr int kDataColumnsOfWarp = 16;
constexpr int kDataTapGroup = 4;                               // ... and goes through the filter's rows four at a time
constexpr int kDataScratchBytes = kDataColumnsOfWarp * 8 * 4;  // of a warp for 8 columns of a row of its positions

// Pixels of a block's tile in the filter gradient, and of one step of its reduction.
constexpr int filter_pixels(ElementType type) { return type == ElementType::f32 ? 64 : 128; }
constexpr int pixels_of_step(ElementType type) { return type == ElementType::f32 ? 8 : 16; }
constexpr int elements_of_word(ElementType type) { return type == ElementType::f32 ? 1 : 2; }
// Bytes between the pixels of dy in shared memory in the filter gradient: 8 elements of padding spread the banks.
constexpr int gradient_pitch(ElementType type) { return (kFilterRows + 8) * tile::element_bytes(type); }

constexpr std::size_t kWorkspaceAlignment = 16;

// Between neighbours, in elements. `n` steps from image to image, in the filter from filter to filter.
struct Strides {
  std::int64_t n = 0;
  std::int32_t c = 0, h = 0, w = 0;
};

// How the part of x that a tile needs lies in shared memory: rows of (pixel, channel), zeros where the image ends.
struct Patch {
  std::int32_t rows = 0;
  std::int32_t pitch = 0;       // bytes from row to row
  std::int32_t bytes = 0;       // of one buffer, with the second copy
  std::int32_t copy_bytes = 0;  // where the second copy begins, which lies one element earlier; 0 without one
  std::int32_t lead = 0;        // elements before the first one that the tile needs
  bool vectors = false;         // loaded 16 bytes at a time, in the background
  bool planar = false;          // x runs along w in memory: load in that order
  FastDivmod items;             // of a row: vectors or elements
  FastDivmod inner;             // the faster one of (pixel, channel) in the order of loading
};

struct Params {
  // Filled in for each launch.
  const void* x = nullptr;
  const void* w = nullptr;
  const void* y = nullptr;
  void* out = nullptr;
  float* workspace = nullptr;
  const void* z = nullptr;
  const void* bias = nullptr;
  float alpha = 1, beta = 0, alpha2 = 0;
  gemm::ActivationArgs<float> activation;
  bool out_vectors = false;  // y, and z, can be stored and read 16 bytes at a time
  bool dy_vectors = false;   // dy can be loaded 16 bytes at a time
  bool dx_rows = false;      // a block has all that lies between two positions of dx, and it lies in one piece
  Patch patch;

  // Fixed by the problem.
  bool has_bias = false;
  bool float_vectors = false;  // the bias is of floats, else of the data's type
  bool has_z = false;
  std::int64_t bias_step = 0;  // bytes
  std::int32_t images = 0, channels = 0, filters = 0;
  std::int32_t image_h = 0, image_w = 0;
  std::int32_t out_h = 0, out_w = 0;
  std::int32_t taps_h = 0, taps_w = 0;
  std::int32_t pad_h = 0, pad_w = 0, stride_h = 1, stride_w = 1;
  Strides xs, ws, ys, zs;
  std::int64_t w_base = 0;  // of the first tap: a mirrored filter begins at its end

  // Fixed by the config.
  std::int32_t tile_h = 0, tile_w = 0;  // positions of a tile: pixels of y; of dx over the stride in the data gradient
  FastDivmod tile_w_div;
  FastDivmod tiles_w, tiles_h;
  std::uint32_t tiles = 0;  // of positions, over all images
  std::uint32_t n_tiles = 1, m_tiles = 1;
  std::uint32_t splits = 1;
  std::uint32_t blocks = 1;
  std::int32_t k_steps = 0;
  std::uint32_t shared_bytes = 0;

  // Forward: the words of one row of taps in the reduction.
  FastDivmod run_words;
  FastDivmod channel_div;
  std::int32_t run_shift = 0;  // elements that a run begins before its first tap, 0 or 1

  // Filter gradient.
  FastDivmod taps_w_div;

  // Data gradient.
  std::int32_t first_i = 0, first_j = 0;  // positions are (pixel + pad) / stride, from these on
  std::int32_t taps_u = 0, taps_v = 0;    // rows of taps of a stride phase, in whole groups; columns
  std::int32_t warps_j = 1;               // of the block's warps, side by side
  std::int32_t dy_rows = 0, dy_columns = 0;
  FastDivmod dy_columns_div, taps_u_div, taps_v_div, class_w_div;
  bool filter_resident = true;  // all of the filter fits into shared memory
};

// Forward, where the words of the reduction lie. Word `word` is word j of the run of a row of taps: an offset in bytes
// from where a pixel's window begins, and a mask of what belongs to the run.
struct Word {
  std::uint32_t offset;
  std::uint32_t mask;
};
GPUDNN_HOST_DEVICE Word word_of_window(const Params& p, int elements_of_word, int word) {
  std::uint32_t j = 0;
  const std::uint32_t r = p.run_words.divmod(static_cast<std::uint32_t>(word), &j);
  Word result = {0, 0};
  if (r >= static_cast<std::uint32_t>(p.taps_h)) return result;
  result.offset = r * static_cast<std::uint32_t>(p.patch.pitch) + j * 4;
  for (int half = 0; half < elements_of_word; ++half) {
    const int e = static_cast<int>(j) * elements_of_word + half - p.run_shift;
    const std::uint32_t bits = elements_of_word == 1 ? 0xffffffffu : 0xffffu << (16 * half);
    if (e >= 0 && e < p.taps_w * p.channels) result.mask |= bits;
  }
  return result;
}

// Where the window of the tile's pixel m begins in the patch, in bytes. 0 for what is no pixel of the tile.
GPUDNN_HOST_DEVICE int window_begin(const Params& p, int elements_of_word, int m) {
  std::uint32_t column = 0;
  const int row = static_cast<int>(p.tile_w_div.divmod(static_cast<std::uint32_t>(m), &column));
  if (row >= p.tile_h) return 0;
  const int e = static_cast<int>(column) * p.stride_w * p.channels + p.patch.lead - p.run_shift;
  const int first = row * p.stride_h * p.patch.pitch;
  if (elements_of_word == 1) return first + e * 4;
  return first + e / 2 * 4 + (e % 2 != 0 ? p.patch.copy_bytes : 0);
}

using LaunchRow = void (*)(const Params& params, CUstream_st* stream);
// A row's instance, made in the file of its kernel.
template <int kRow>
void launch_row(const Params& params, CUstream_st* stream);

void launch(int row, const Params& params, CUstream_st* stream);

}  // namespace gpudnn::kernels::small_c
