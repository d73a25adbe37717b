// What the attention kernels are told, and the index arithmetic that host and device share. Plain data and functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/dropout/mask.hpp"
#include "kernels/tile/element_type.hpp"
#include "kernels/tile/fast_divmod.cuh"

namespace gpudnn::kernels {

// A tensor {batch, heads, rows, dim}. With ragged offsets, batch b starts offset_scale * offsets[b] elements in; with
// a page table, row r of batch b is row r % page_rows of page table[b * table_stride_batch + (r / page_rows) *
// table_stride_page], which the strides take in place of the batch.
struct AttentionTensor {
  void* data = nullptr;
  const void* offsets = nullptr;
  const std::int32_t* page_table = nullptr;
  std::int64_t strides[4] = {};
  std::int64_t offset_scale = 1;
  std::int64_t table_stride_batch = 0;
  std::int64_t table_stride_page = 0;
  std::int32_t offset_bits = 0;
  std::int32_t page_rows = 0;
};

// Bias and its gradient: strides are 0 along broadcast dimensions.
struct AttentionBias {
  void* data = nullptr;
  std::int64_t strides[4] = {};
  tile::ElementType type = tile::ElementType::f32;
};

// Bits of one generator block decide on 8 scores: rows r and r + 8, columns c, c + 1, c + 8 and c + 9 of a 16 x 16
// square, which is what one thread holds of two 8 x 8 accumulator fragments side by side and below each other.
struct AttentionDropout {
  const void* seed = nullptr;  // null: the values
  const void* offset = nullptr;
  std::uint64_t seed_value = 0;
  std::uint64_t offset_value = 0;
  std::int32_t bits = 64;       // of seed and offset in device memory
  std::uint32_t threshold = 0;  // a score is dropped where its 16 bits are below
  double scale = 1;             // of what is kept: 1 / (1 - p)
};

struct AttentionParams {
  tile::ElementType type = tile::ElementType::f32;
  std::int32_t batch = 0;
  std::int32_t heads_q = 0;
  std::int32_t heads_k = 0;
  std::int32_t heads_v = 0;
  std::int64_t length_q = 0;
  std::int64_t length_kv = 0;
  std::int32_t dim_qk = 0;
  std::int32_t dim_v = 0;

  AttentionTensor q, k, v, o, stats, max, sum_exp, d_o, dq, dk, dv, dropout_mask;
  AttentionBias bias, dbias;
  std::int64_t dbias_dims[4] = {};
  tile::ElementType dropout_mask_type = tile::ElementType::f32;

  const std::int32_t* lengths_q = nullptr;  // null: every sequence is length_q long
  const std::int32_t* lengths_kv = nullptr;
  const float* alibi_slopes = nullptr;
  const float* sink = nullptr;
  float* dsink = nullptr;
  const std::uint8_t* block_mask = nullptr;
  std::int64_t block_mask_strides[4] = {};

  bool has_left = false;
  bool has_right = false;
  bool bottom_right = false;
  std::int64_t left = 0;
  std::int64_t right = 0;
  double scale = 1;
  double soft_cap = 0;  // 0: none
  bool has_dropout = false;
  AttentionDropout dropout;

  void* delta = nullptr;  // workspace of backward: {batch, heads_q, length_q}, f32 (f64 with f64 tensors)
};

// The lengths of one sequence pair, cut to what the tensors hold.
struct SequenceLengths {
  std::int64_t q = 0;
  std::int64_t kv = 0;
};
GPUDNN_HOST_DEVICE std::int64_t cut_length(std::int64_t length, std::int64_t most) {
  return length < 0 ? 0 : length < most ? length : most;
}
GPUDNN_HOST_DEVICE SequenceLengths sequence_lengths(const AttentionParams& p, std::int64_t batch) {
  return {p.lengths_q == nullptr ? p.length_q : cut_length(p.lengths_q[batch], p.length_q),
          p.lengths_kv == nullptr ? p.length_kv : cut_length(p.lengths_kv[batch], p.length_kv)};
}

// The visible columns of a row by bounds and lengths: [first, end).
struct ColumnRange {
  std::int64_t first = 0;
  std::int64_t end = 0;
};
GPUDNN_HOST_DEVICE ColumnRange visible_columns(const AttentionParams& p, const SequenceLengths& lengths,
                                               std::int64_t row) {
  const std::int64_t diagonal = row + (p.bottom_right ? lengths.kv - lengths.q : 0);
  ColumnRange range{0, lengths.kv};
  if (p.has_right && diagonal + p.right + 1 < range.end) range.end = diagonal + p.right + 1;
  if (p.has_left && diagonal - p.left + 1 > range.first) range.first = diagonal - p.left + 1;
  if (range.end < range.first) range.end = range.first;
  return range;
}

// The columns that any row of [row, end_row) sees; both ends grow with the row.
GPUDNN_HOST_DEVICE ColumnRange visible_columns_of_rows(const AttentionParams& p, const SequenceLengths& lengths,
                                                       std::int64_t row, std::int64_t end_row) {
  ColumnRange range{visible_columns(p, lengths, row).first, visible_columns(p, lengths, end_row - 1).end};
  if (range.first < 0) range.first = 0;
  if (range.end < range.first) range.end = range.first;
  return range;
}

// The rows that see any column of [column, end_column).
GPUDNN_HOST_DEVICE ColumnRange rows_that_see(const AttentionParams& p, const SequenceLengths& lengths,
                                             std::int64_t column, std::int64_t end_column) {
  const std::int64_t shift = p.bottom_right ? lengths.kv - lengths.q : 0;
  ColumnRange range{0, lengths.q};
  if (p.has_right && column - p.right - shift > range.first) range.first = column - p.right - shift;
  if (p.has_left && end_column - 1 + p.left - shift < range.end) range.end = end_column - 1 + p.left - shift;
  if (range.end < range.first) range.end = range.first;
  return range;
}

// Whether the block mask keeps a 128 x 128 tile of scores.
GPUDNN_HOST_DEVICE bool is_tile_kept(const AttentionParams& p, std::int64_t batch, std::int64_t head, std::int64_t row,
                                     std::int64_t column) {
  const std::int64_t tile = column / 128;
  const std::uint8_t bits = p.block_mask[batch * p.block_mask_strides[0] + head * p.block_mask_strides[1] +
                                         row / 128 * p.block_mask_strides[2] + tile / 8 * p.block_mask_strides[3]];
  return (bits >> (tile % 8) & 1) != 0;
}

GPUDNN_HOST_DEVICE std::int64_t ragged_start(const AttentionTensor& tensor, std::int64_t batch) {
  if (tensor.offset_bits == 0) return batch * tensor.strides[0];
  const std::int64_t offset = tensor.offset_bits == 32 ? static_cast<const std::int32_t*>(tensor.offsets)[batch]
                                                       : static_cast<const std::int64_t*>(tensor.offsets)[batch];
  return offset * tensor.offset_scale;
}

// The offset, in elements, of the first element of a row.
GPUDNN_HOST_DEVICE std::int64_t row_offset(const AttentionTensor& tensor, std::int64_t batch, std::int64_t head,
                                           std::int64_t row) {
  if (tensor.page_rows != 0) {
    const std::int64_t page =
        tensor.page_table[batch * tensor.table_stride_batch + row / tensor.page_rows * tensor.table_stride_page];
    return page * tensor.strides[0] + head * tensor.strides[1] + row % tensor.page_rows * tensor.strides[2];
  }
  return ragged_start(tensor, batch) + head * tensor.strides[1] + row * tensor.strides[2];
}

GPUDNN_HOST_DEVICE std::int64_t bias_offset(const AttentionBias& bias, std::int64_t batch, std::int64_t head,
                                            std::int64_t row, std::int64_t column) {
  return batch * bias.strides[0] + head * bias.strides[1] + row * bias.strides[2] + column * bias.strides[3];
}

// The generator's state of a call. Counter: column group, row group, batch and head, offset; the offset's upper half
// is mixed into the key.
struct DropoutKey {
  std::uint32_t key0 = 0;
  std::uint32_t key1 = 0;
  std::uint32_t offset = 0;
};
GPUDNN_HOST_DEVICE DropoutKey dropout_key(const AttentionDropout& d) {
  const auto read = [&](const void* memory, std::uint64_t value) -> std::uint64_t {
    if (memory == nullptr) return value;
    if (d.bits == 64) return *static_cast<const std::uint64_t*>(memory);
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(*static_cast<const std::int32_t*>(memory)));
  };
  const std::uint64_t seed = read(d.seed, d.seed_value);
  const std::uint64_t offset = read(d.offset, d.offset_value);
  return {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32 ^ offset >> 32),
          static_cast<std::uint32_t>(offset)};
}
GPUDNN_HOST_DEVICE PhiloxBlock dropout_block(const DropoutKey& key, std::uint32_t batch_head, std::uint32_t row,
                                             std::uint32_t column) {
  PhiloxBlock block[1] = {{{column / 16 * 4 + column % 8 / 2, row / 16 * 8 + row % 8, batch_head, key.offset}}};
  philox(block, key.key0, key.key1);
  return block[0];
}
GPUDNN_HOST_DEVICE bool is_score_kept(const DropoutKey& key, std::uint32_t threshold, std::uint32_t batch_head,
                                      std::uint32_t row, std::uint32_t column) {
  const int index = static_cast<int>(row / 8 % 2 * 4 + column / 8 % 2 * 2 + column % 2);
  return is_kept(dropout_block(key, batch_head, row, column), index, threshold);
}

}  // namespace gpudnn::kernels
