// What flash_sm90's kernels are told, and their launch functions. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/attention/attention.hpp"
#include "kernels/attention/flash_mask.hpp"
#include "kernels/attention/flash_sections.hpp"
#include "kernels/tile/element_type.hpp"
#include "kernels/tile/fast_divmod.cuh"
#include "kernels/tile/tensor_map.hpp"

struct CUstream_st;

namespace gpudnn::kernels {

// An f32 tensor {batch, heads, rows, 1}.
struct FlashRowValues {
  float* data = nullptr;
  std::int64_t strides[3] = {};
};

struct FlashForwardParams {
  tile::TensorMap q, k, v, o;  // boxes of 64 elements x rows
  FlashMask mask;
  FlashRowValues stats, max, sum_exp;
  const float* sink = nullptr;
  // ALiBi and a bias of {batch, heads, 1, columns}, for shapes that add; null: there is none.
  const float* alibi_slopes = nullptr;
  const void* bias = nullptr;         // of the tensors' type
  std::int64_t bias_strides[3] = {};  // of batch, head and column
  float slope_scale = 0;              // 1 / scale
  float bias_parts[3] = {};           // the same in three positive parts that the type holds
  void* o_data = nullptr;
  std::int64_t o_strides[4] = {};
  FlashSections sections;    // the longest tiles of each go first
  tile::FastDivmod group_k;  // query heads that share a head of k
  tile::FastDivmod group_v;
  std::int32_t dim_v = 0;
  std::int32_t row_tiles = 0;
  std::int32_t tiles = 0;             // of all heads and batches, and parts of those that are shared
  std::int32_t whole_tiles = 0;       // those behind are shared: each is as many as it has warpgroups
  std::int32_t* next_tile = nullptr;  // starts at 0: tiles go to whoever is free; null: in turn
  float scale_log2 = 0;               // |scale| log2(e)
  float scale = 0;                    // |scale|
  float slack = 0;       // how far, in log2, a row may outgrow its maximum before what was summed is rescaled
  bool negates = false;  // the scale is negative
};

// One tile shape of the kernel. `dim_qk` and `dim_v` are what it is built for; smaller ones are filled with zeros.
// Those with several blocks of a multiprocessor are for short sequences: one block multiplies while others start or
// store.
struct FlashForwardShape {
  std::int32_t dim_qk, dim_v, rows, columns, blocks;
  bool adds = false;  // ALiBi, or a bias that all rows share
};
constexpr FlashForwardShape kFlashForwardShapes[] = {
    {64, 64, 64, 64, 3},     {64, 64, 64, 80, 3},   {128, 128, 64, 64, 2},         {64, 64, 192, 128, 1, true},
    {64, 64, 192, 128, 1},   {96, 96, 128, 128, 1}, {128, 128, 128, 128, 1, true}, {128, 128, 128, 128, 1},
    {192, 128, 128, 128, 1}, {256, 256, 128, 80, 1}};
constexpr int kFlashForwardWide = 4;  // the one of long sequences and up to 64 columns of o
constexpr int kFlashForwardShapeCount = static_cast<int>(sizeof kFlashForwardShapes / sizeof *kFlashForwardShapes);

// Sets next_tile to 0 first.
void launch_flash_forward_sm90(const FlashForwardParams& params, tile::ElementType type, int shape, int multiprocessors,
                               CUstream_st* stream);

// lse and delta of all rows, from o, dO and stats.
struct FlashDeltaParams {
  AttentionTensor o, d_o, stats;
  FlashMask mask;
  float* lse = nullptr;    // {batch heads, pitch}: stats log2(e); infinity where the row sees nothing
  float* delta = nullptr;  // the same of the sums of dO o; 0 beyond the sequence
  std::int64_t pitch = 0;
  std::int32_t heads = 0;
  std::int32_t batch_heads = 0;
  std::int32_t dim_v = 0;
  // With ALiBi, lse has what its slope, of each head, adds within a tile of so many rows.
  const float* alibi_slopes = nullptr;
  std::int32_t tile_rows = 1;
  // What the next kernel counts in starts at 0: no more words than 2 for each row of lse.
  std::uint32_t* zeroed = nullptr;
  std::int64_t zeroed_words = 0;
};

void launch_flash_delta_sm90(const FlashDeltaParams& params, tile::ElementType type, CUstream_st* stream);

}  // namespace gpudnn::kernels
