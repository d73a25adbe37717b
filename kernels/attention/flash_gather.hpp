// What the kernels of the gather engines (flash_gather_sm90, decode_sm90, flash_sm80) are told forward, and their
// launch functions. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/attention/attention.hpp"
#include "kernels/attention/flash_mask.hpp"
#include "kernels/attention/flash_sections.hpp"
#include "kernels/tile/tensor_map.hpp"

struct CUstream_st;

namespace gpudnn::kernels {

// Tensors whose elements are copied one by one: not all are neighbours at multiples of 16 bytes. flash_sm80 alone.
struct FlashElementwise {
  bool q = false, k = false, v = false, o = false, d_o = false, dq = false, dk = false, dv = false;
};

// Tiles of 128 x 128 have instances for few options: `plain` for none that modifies scores, `biased` for bias by TMA
// without dropout.
enum class FlashGatherKind { general, plain, biased };

// `packed` heads of q that share a head of k and v lie side by side in a tile: row r of a head of the grid is row
// r / packed of q, head r % packed of the group. The grid's heads are those of q over `packed`.
struct FlashGatherParams {
  tile::TensorMap k_map, v_map;  // boxes of 64 elements x k_box or v_box rows, of {pages or batches, heads, rows}
  AttentionParams problem;
  FlashMask mask;
  tile::FastDivmod packed;
  tile::FastDivmod page_rows_k;
  tile::FastDivmod page_rows_v;
  std::int32_t heads = 0;  // of the grid
  FlashSections sections;  // of its heads
  tile::FastDivmod by_splits;
  tile::FastDivmod group_k;  // heads of the grid that share a head of k
  tile::FastDivmod group_v;
  std::int32_t rows = 0;  // of a head of the grid
  std::int32_t row_tiles = 0;
  std::int32_t batch_heads = 0;
  std::int32_t splits = 1;  // blocks that share the columns of a tile
  std::int32_t k_box = 0;   // 0: TMA cannot take the rows
  std::int32_t v_box = 0;
  bool modifies = false;         // scores change before softmax: soft cap, bias, ALiBi, or a scale that is not positive
  float scale = 0;               // what a sum of products is multiplied by
  float softmax_scale_log2 = 0;  // log2(e), times the scale where nothing modifies the scores
  float max_scale = 0;           // of the maximum, to natural units
  float cap = 0;                 // soft cap; 0: none
  float scale_by_cap = 0;        // scale / soft cap
  bool bias_in_eights = false;   // 8 columns of bias are one aligned load of 16-bit elements
  FlashElementwise elementwise;
  FlashGatherKind kind = FlashGatherKind::general;  // flash_gather_sm90 alone
  // flash_gather_sm90 alone: more tiles than blocks go round, or are handed out by a counter that starts at 0.
  std::int32_t* next_tile = nullptr;
  // Rows of bias's boxes: a tile's (of kind biased 64), or 1 where all rows have one; 0: TMA cannot take them.
  std::int32_t bias_box = 0;
  tile::TensorMap bias_map;
  float* partial_o = nullptr;     // {splits, batch heads, rows, dim_v}
  float* partial_sums = nullptr;  // {splits, batch heads, rows, 2}: maximum, sum
};

// Rows of a tile: 64 or 128; columns of a tile by the head dimension that the kernel is built for.
constexpr std::int32_t kFlashGatherDims[] = {64, 128, 256};
constexpr std::int32_t flash_gather_columns(int dim) { return dim == 256 ? 64 : 128; }
constexpr std::int32_t kFlashGatherMaxSplits = 128;
// The same of flash_decode_sm90, and its blocks of a multiprocessor.
constexpr std::int32_t flash_decode_columns(int dim) { return 8192 / dim; }
constexpr std::int32_t flash_decode_blocks(int dim) { return dim == 256 ? 1 : 2; }

// dim is one of kFlashGatherDims, consumers 1 or 2: 64 rows each.
void launch_flash_gather_sm90(const FlashGatherParams& params, tile::ElementType type, int dim, int consumers,
                              int multiprocessors, CUstream_st* stream);
// Tiles of 64 rows without options, of k and v that TMA takes in boxes of at most flash_decode_columns rows.
void launch_flash_decode_sm90(const FlashGatherParams& params, tile::ElementType type, int dim, CUstream_st* stream);
// Of splits, behind the launch of the kernel that made them, which calls it.
void launch_flash_combine(const FlashGatherParams& params, CUstream_st* stream);

}  // namespace gpudnn::kernels
