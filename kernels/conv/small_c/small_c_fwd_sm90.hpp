// The parameters of the Hopper forward convolution for few channels, and its index maps: plain data, shared by the
// launcher, the kernel and the test. See small_c_fwd_sm90.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gemm/epilogue/activation.hpp"
#include "kernels/tile/element_type.hpp"
#include "kernels/tile/fast_divmod.cuh"
#include "kernels/tile/tensor_map.hpp"

struct CUstream_st;

namespace gpudnn::kernels::small_c_fwd {

using tile::ElementType;
using tile::FastDivmod;
using tile::TensorMap;

// The instances: filters of a block, and warpgroups, each with tiles of its own.
struct Shape {
  int filters;
  int warpgroups;
};
constexpr Shape kShapes[] = {{64, 4}, {32, 4}, {96, 4}};
constexpr int kShapeCount = sizeof(kShapes) / sizeof(kShapes[0]);

constexpr int kMaxWarpgroups = 6;
constexpr int kStages = 2;  // patches of a warpgroup
constexpr int kAlignment = 128;
constexpr int kBarrierBytes = kAlignment;  // the barriers' place before the patches
constexpr int kUnit = 64;                  // pixels of a product
constexpr int kQuadBytes = 16;             // four words

constexpr int elements_of_word(ElementType type) { return type == ElementType::f32 ? 1 : 2; }

// Which reductions have code of their own: quads of a row of taps, and rows.
enum class Taps : std::int32_t { any, quads_1_rows_3, quads_2_rows_3, quads_3_rows_3, quads_3_rows_7, quads_6_rows_7 };

struct Params {
  TensorMap input;  // words of a row of pixels, rows, images

  // --- tiles: tile_h x tile_w pixels of y; w is fastest, then h, the image
  FastDivmod tiles_w, tiles_h;
  std::uint32_t tiles = 0;
  FastDivmod row_blocks;  // parts of the filters; a block has one for ever
  std::int32_t tile_w = 0, tile_h = 0;
  std::int32_t out_w = 0, out_h = 0;

  // --- units: pixels of a product, whole rows of a tile. By parity, units 2i and 2i + 1 are the even and the odd
  // columns of twice as many rows.
  std::uint32_t units = 0;  // of a tile
  bool by_parity = false;
  std::int32_t unit_rows = 0;
  FastDivmod tile_w_div;
  std::uint32_t warp_step = 0;   // positions from a warp to the next
  std::uint32_t row_step = 0;    // from row g of a fragment to row g + 1 ...
  std::uint32_t half_step = 0;   // ... and to row g + 8
  std::uint32_t unit_bytes = 0;  // in the patch from a unit, or a pair of them, to the next
  std::uint32_t odd_bytes = 0;   // from even to odd units

  // --- patches
  std::uint32_t stage_bytes = 0;
  std::uint32_t load_bytes = 0;
  std::uint32_t pitch = 0;          // bytes from a row to the next
  std::uint32_t tile_row_step = 0;  // bytes from a pixel's window to that of the pixel below
  std::int32_t pixel_elements = 0;  // elements from a pixel's window to the next one's
  std::int32_t lead = 0;            // elements before the first window in the patch
  std::int32_t shift = 0;           // and in the window's first word
  std::int32_t corner_w = 0;        // words: whole quads, as boxes begin at multiples of 16 bytes
  std::int32_t corner_h = 0;
  std::int32_t tile_words = 0;  // from a tile to the next
  std::int32_t tile_rows = 0;

  // --- the reduction: quads of words, `row_quads` to a row of taps, then the next row
  Taps taps = Taps::any;
  std::uint32_t rows = 0;
  std::uint32_t row_elements = 0;
  FastDivmod row_quads;
  FastDivmod filter_words;          // of a column, all versions: what threads share out
  std::uint32_t filter_lanes = 1;   // columns that they load at once
  FastDivmod quads;                 // with those of zeros that make whole steps
  std::uint32_t versions = 1;       // of the filter: two by parity, the second one element later
  std::uint32_t version_bytes = 0;  // in shared memory
  std::uint32_t filter_offset = 0;
  std::uint32_t bias_offset = 0;
  std::uint32_t shared_bytes = 0;

  // --- the filter in memory, elements
  std::int64_t filter_base = 0;  // of the first tap: a mirrored filter begins at its end
  std::int64_t filter_step = 0;
  std::int64_t tap_step_h = 0, tap_step_w = 0, channel_step = 0;
  FastDivmod channels;
  std::uint32_t filters = 0;

  // --- the epilogue
  std::int64_t out_step[3] = {};     // bytes along w, h, n
  std::int64_t addend_step[3] = {};  // bytes
  std::int64_t bias_step = 0;        // bytes
  bool has_bias = false;
  bool float_vectors = false;  // the bias is of floats, else of the data's type
  // Filled in for each launch.
  bool is_plain = false;
  bool is_common = false;  // combine_sums has the epilogue ...
  bool has_curve = false;  // ... with an activation that the rounding does not have
  float alpha = 1;
  float addend_scale = 0;  // 0: the addend is not read
  gemm::ActivationArgs<float> activation;
  const void* addend = nullptr;
  const void* bias = nullptr;
  const void* filter = nullptr;
  void* out = nullptr;
};

// The pixel, row by row, in row 16 * warp + g + 8 * half of unit 0.
GPUDNN_HOST_DEVICE std::uint32_t position_in_unit(const Params& p, std::uint32_t warp, std::uint32_t g,
                                                  std::uint32_t half) {
  return warp * p.warp_step + g * p.row_step + half * p.half_step;
}

// Where a unit lies.
struct Unit {
  std::int32_t row, column;  // of its first pixel in the tile
  std::uint32_t bytes;       // of its windows in the patch, from those of unit 0
  std::uint32_t shift;       // elements before its windows in their first words
};
GPUDNN_HOST_DEVICE Unit unit_at(const Params& p, std::uint32_t unit) {
  const std::uint32_t odd = p.by_parity ? unit % 2 : 0;
  const std::uint32_t number = p.by_parity ? unit / 2 : unit;
  return {static_cast<std::int32_t>(number) * p.unit_rows, static_cast<std::int32_t>(odd),
          number * p.unit_bytes + odd * p.odd_bytes, (static_cast<std::uint32_t>(p.shift) + odd) % 2};
}
GPUDNN_HOST_DEVICE std::uint32_t shift_of_version(const Params& p, std::uint32_t version) {
  return p.by_parity ? version : static_cast<std::uint32_t>(p.shift);
}

// Bytes from the patch's begin to the first word of the window of unit 0's pixel in `row` and `column`.
GPUDNN_HOST_DEVICE std::uint32_t window_offset(const Params& p, int elements_of_word, std::uint32_t row,
                                               std::uint32_t column) {
  const auto element = column * static_cast<std::uint32_t>(p.pixel_elements) + static_cast<std::uint32_t>(p.lead);
  return row * p.tile_row_step + element / static_cast<std::uint32_t>(elements_of_word) * 4;
}

// The number of the element in the row of taps that is element `i` of a word of it.
GPUDNN_HOST_DEVICE std::int32_t element_of_word(int elements_of_word, std::uint32_t word, int i, std::uint32_t shift) {
  return static_cast<std::int32_t>(word) * elements_of_word + i - static_cast<std::int32_t>(shift);
}

// The bits of a word that belong to the row of taps. The others must not meet even a zero of the filter: they may be
// infinite.
GPUDNN_HOST_DEVICE std::uint32_t word_mask(const Params& p, int elements_of_word, std::uint32_t word,
                                           std::uint32_t shift) {
  std::uint32_t mask = 0;
  for (int i = 0; i < elements_of_word; ++i) {
    const std::int32_t e = element_of_word(elements_of_word, word, i, shift);
    const std::uint32_t bits = elements_of_word == 1 ? 0xffffffffu : 0xffffu << (16 * i);
    if (e >= 0 && e < static_cast<std::int32_t>(p.row_elements)) mask |= bits;
  }
  return mask;
}

// The filter of the block that column n of the products stands for: such that a lane's sums are 16 bytes in y.
GPUDNN_HOST_DEVICE std::uint32_t filter_of_column(int elements_of_word, std::uint32_t n) {
  const std::uint32_t vector = elements_of_word == 1 ? 4 : 8;
  const std::uint32_t octets = vector / 2;  // whose sums make a vector
  const std::uint32_t octet = n / 8;
  return octet / octets * (8 * octets) + n % 8 / 2 * vector + octet % octets * 2 + n % 2;
}

// Where word t of a quad of column n lies in a version of the filter: core matrices of 8 columns by a quad.
GPUDNN_HOST_DEVICE std::uint32_t filter_word_offset(std::uint32_t columns, std::uint32_t quad, std::uint32_t n,
                                                    std::uint32_t t) {
  return (quad * columns + n) * kQuadBytes + t * 4;
}

using LaunchShape = void (*)(const Params& params, std::uint32_t blocks, CUstream_st* stream);
// The instances of a type, made in the file of the type.
template <class T>
LaunchShape launch_of(int shape);

// Launches instance `shape` on `blocks` blocks, a multiple of the row blocks.
void launch(int shape, ElementType type, const Params& params, std::uint32_t blocks, CUstream_st* stream);

}  // namespace gpudnn::kernels::small_c_fwd
