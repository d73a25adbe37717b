// What flash_sm90's kernels are told, and their launch functions. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

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

// Lengths and bounds in 32 bits: rows and columns are below 2^30.
struct FlashMask {
  const std::int32_t* lengths_q = nullptr;
  const std::int32_t* lengths_kv = nullptr;
  std::int32_t length_q = 0;
  std::int32_t length_kv = 0;
  std::int32_t left = 0;
  std::int32_t right = 0;
  bool has_left = false;
  bool has_right = false;
  bool bottom_right = false;
};

struct FlashForwardParams {
  tile::TensorMap q, k, v, o;  // boxes of 64 elements x rows
  FlashMask mask;
  FlashRowValues stats, max, sum_exp;
  const float* sink = nullptr;
  void* o_data = nullptr;
  std::int64_t o_strides[4] = {};
  std::int32_t heads = 0;
  std::int32_t group_k = 1;  // query heads that share a head of k
  std::int32_t group_v = 1;
  std::int32_t dim_v = 0;
  std::int32_t row_tiles = 0;
  std::int32_t tiles = 0;             // of all heads and batches
  std::int32_t heads_of_section = 1;  // whose k and v the L2 holds: their tiles go together, the longest first
  std::int32_t batch_heads = 0;
  float scale_log2 = 0;  // |scale| log2(e)
  float scale = 0;       // |scale|
  bool negates = false;  // the scale is negative
};

// One tile shape of the kernel. `dim_qk` and `dim_v` are what it is built for; smaller ones are filled with zeros.
struct FlashForwardShape {
  std::int32_t dim_qk, dim_v, rows, columns;
};
constexpr FlashForwardShape kFlashForwardShapes[] = {
    {64, 64, 192, 128}, {128, 128, 128, 128}, {192, 128, 128, 128}, {256, 256, 128, 80}};

void launch_flash_forward_sm90(const FlashForwardParams& params, tile::ElementType type, int shape, int multiprocessors,
                               CUstream_st* stream);

}  // namespace gpudnn::kernels
