// What flash_float8_sm90's kernels are told, and their launch functions. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/attention_float8.hpp"
#include "kernels/attention/flash_sm90.hpp"
#include "kernels/tile/any_type.hpp"

namespace gpudnn::kernels {

// Of the forward parameters: maps of bytes, v that of its turned copy, no map of o; the scale is that of the call, with
// its sign, and scale_log2, slack and negates are not used.
struct FlashFloat8Params : FlashForwardParams {
  AttentionFloat8 numbers;
  tile::AnyType o_type = tile::AnyType::e4m3;
  // The tiles behind `whole_tiles` are in two parts, of half of the keys each. Of a warpgroup's rows in both, the sums
  // of the one that comes first go to `sums`; `turns` has two words for each, 0 at first.
  float* sums = nullptr;
  std::uint32_t* turns = nullptr;
};

struct FlashFloat8Shape {
  std::int32_t dim_qk, dim_v, rows, columns;
};
constexpr FlashFloat8Shape kFlashFloat8Shapes[] = {{64, 64, 192, 256}, {128, 128, 192, 192}, {256, 256, 128, 192}};

constexpr std::int32_t kFlashFloat8RowValues = 6;  // of a thread's two rows, beside the sums of o, in `sums`

// Bytes of a row of q and k that lie side by side in shared memory, and of keys of the turned v: TMA's swizzle.
constexpr std::int32_t flash_float8_panel(std::int32_t extent) { return extent % 128 == 0 ? 128 : 64; }

// v {batch, heads, keys, dim} -> {batch, heads, dim, padded}: rows of one element each, of `padded` keys, those beyond
// a sequence's length 0. Within 16 keys, place 4 t + 2 g + e is of key 8 g + 2 t + e, and within 16 elements, row 8 g +
// 2 t + e is of element 4 t + 2 g + e; t below 4, g and e below 2.
struct FlashFloat8TurnParams {
  const void* v = nullptr;
  void* turned = nullptr;
  std::int64_t strides[3] = {};  // of batch, heads, keys
  const std::int32_t* lengths_kv = nullptr;
  std::int32_t length_kv = 0;
  std::int32_t padded = 0;  // a multiple of kFlashFloat8Keys
  std::int32_t heads = 0;
  std::int32_t batch_heads = 0;
  std::int32_t dim = 0;      // a multiple of 16 up to 256
  bool is_straight = false;  // elements in their order; else so that a thread of forward has four neighbours
  bool is_paired = false;    // of 16 keys, 8 apart are neighbours; else as a thread holds them
  // What the next kernel adds to starts at 0.
  std::uint32_t* counters = nullptr;
  std::int32_t counter_words = 0;
  AttentionFloat8 numbers;
};
constexpr std::int32_t kFlashFloat8Keys = 128;

// A tensor {batch, heads, rows, dim} of 8-bit or wider floats, and its packed copy in bf16.
struct FlashFloat8Copy {
  void* data = nullptr;
  void* copy = nullptr;  // null: there is none
  std::int64_t strides[3] = {};
  std::int32_t heads = 0;
  std::int32_t rows = 0;
  std::int32_t dim = 0;  // a multiple of 16
  tile::AnyType type = tile::AnyType::e4m3;
};
// q, k, v and dO to their copies; and what the kernels after this one add to starts at 0.
struct FlashFloat8WidenParams {
  FlashFloat8Copy tensors[4];
  std::int64_t chunks[4] = {};  // of 16 elements
  AttentionFloat8 numbers;
};
// lse and delta as FlashDeltaParams has them; delta in units of dp's factors.
struct FlashFloat8DeltaParams {
  FlashFloat8Copy o, d_o;
  FlashRowValues stats;
  FlashMask mask;
  AttentionFloat8 numbers;
  float* lse = nullptr;
  float* delta = nullptr;
  std::int64_t pitch = 0;
  std::int32_t heads = 0;
  std::int32_t batch_heads = 0;
};
// dq, dk and dv from their copies, scaled.
struct FlashFloat8NarrowParams {
  FlashFloat8Copy tensors[3];
  std::int64_t chunks[3] = {};
  bool has_factors = false;  // P and dS had their scales
  AttentionFloat8 numbers;
};

void launch_flash_float8_widen_sm90(const FlashFloat8WidenParams& params, CUstream_st* stream);
void launch_flash_float8_delta_sm90(const FlashFloat8DeltaParams& params, CUstream_st* stream);
void launch_flash_float8_narrow_sm90(const FlashFloat8NarrowParams& params, CUstream_st* stream);
// dim is 64 or 128.

void launch_flash_float8_turn_sm90(const FlashFloat8TurnParams& params, CUstream_st* stream);
void launch_flash_float8_forward_sm90(const FlashFloat8Params& params, int shape, int multiprocessors,
                                      CUstream_st* stream);

}  // namespace gpudnn::kernels
