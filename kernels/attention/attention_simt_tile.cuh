// What the kernels of the general attention engine share: a tile of scores, and a product with a tile of weights.
//
// A block of 256 threads works on tiles of 64 rows x 64 columns of scores. Thread (y, x) of 16 x 16 holds rows 4 y + i
// and columns x + 16 j of a tile, so 16 neighbouring lanes share rows. Operands of a product are staged in shared
// memory, kDepth of the summed dimension at a time; rows beyond a sequence are never read and count as 0.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/attention.hpp"
#include "kernels/tile/numeric.cuh"
#include "kernels/tile/reduce.cuh"

namespace gpudnn::kernels::attention_simt {

// An element whose type is told at run time: bias, its gradient, the dropout mask.
template <class C>
__device__ __forceinline__ C load_element(tile::ElementType type, const void* data, std::int64_t at) {
  switch (type) {
    case tile::ElementType::f64:
      return static_cast<C>(static_cast<const double*>(data)[at]);
    case tile::ElementType::f16:
      return tile::widen<C>(static_cast<const tile::Half*>(data)[at]);
    case tile::ElementType::bf16:
      return tile::widen<C>(static_cast<const tile::BFloat16*>(data)[at]);
    default:
      return static_cast<C>(static_cast<const float*>(data)[at]);
  }
}
template <class C>
__device__ __forceinline__ void store_element(tile::ElementType type, void* data, std::int64_t at, C value) {
  switch (type) {
    case tile::ElementType::f64:
      static_cast<double*>(data)[at] = static_cast<double>(value);
      break;
    case tile::ElementType::f16:
      static_cast<tile::Half*>(data)[at] = tile::narrow<tile::Half>(value);
      break;
    case tile::ElementType::bf16:
      static_cast<tile::BFloat16*>(data)[at] = tile::narrow<tile::BFloat16>(value);
      break;
    default:
      static_cast<float*>(data)[at] = static_cast<float>(value);
      break;
  }
}

constexpr int kTile = 64;
constexpr int kThreads = 256;
constexpr int kOutColumns = 128;  // of the output that one block makes
constexpr int kOutSteps = kOutColumns / 16;

template <class C>
inline constexpr int kDepth = sizeof(C) == 8 ? 8 : 16;

template <class C>
__device__ __forceinline__ C minus_infinity() {
  return -static_cast<C>(INFINITY);
}

// 64 rows of a tensor: where each starts, and how many there are.
struct RowList {
  std::int64_t offset[kTile];
};

template <class C>
struct TileShared {
  C weights[kTile][kTile + 1];
  C staging[2 * kDepth<C> * (kTile + 1)];
  RowList a, b, c;
};

// The offsets of rows [first, end) of one head, end - first at most 64. The caller synchronises.
__device__ __forceinline__ void list_rows(const AttentionTensor& tensor, std::int64_t batch, std::int64_t head,
                                          std::int64_t first, std::int64_t end, RowList* rows) {
  const int t = static_cast<int>(threadIdx.x);
  if (t < kTile) rows->offset[t] = first + t < end ? row_offset(tensor, batch, head, first + t) : -1;
}

// A chunk of up to 64 rows and kDepth columns from `column` on: staged[d][row].
template <class T>
__device__ __forceinline__ void stage_rows(const AttentionTensor& tensor, const RowList& rows, int column, int columns,
                                           tile::Compute<T>* staged) {
  using C = tile::Compute<T>;
  const auto* const data = static_cast<const T*>(tensor.data);
#pragma unroll
  for (int e = static_cast<int>(threadIdx.x); e < kTile * kDepth<C>; e += kThreads) {
    const int row = e / kDepth<C>;
    const int d = column + e % kDepth<C>;
    const std::int64_t offset = rows.offset[row];
    const bool inside = offset >= 0 && d < columns;
    staged[e % kDepth<C> * (kTile + 1) + row] = inside ? tile::widen<C>(data[offset + d * tensor.strides[3]]) : C(0);
  }
}

// sums[i][j] = sum over the columns of a's row 4 y + i times b's row x + 16 j.
template <class T>
__device__ __forceinline__ void multiply_rows(const AttentionTensor& a, const RowList& a_rows, const AttentionTensor& b,
                                              const RowList& b_rows, int columns, tile::Compute<T>* staging,
                                              tile::Compute<T> (&sums)[4][4]) {
  using C = tile::Compute<T>;
  const int x = static_cast<int>(threadIdx.x) % 16;
  const int y = static_cast<int>(threadIdx.x) / 16;
  C* const a_staged = staging;
  C* const b_staged = staging + kDepth<C> * (kTile + 1);
#pragma unroll
  for (int i = 0; i < 16; ++i) sums[i / 4][i % 4] = C(0);
  for (int column = 0; column < columns; column += kDepth<C>) {
    __syncthreads();
    stage_rows<T>(a, a_rows, column, columns, a_staged);
    stage_rows<T>(b, b_rows, column, columns, b_staged);
    __syncthreads();
#pragma unroll 4
    for (int d = 0; d < kDepth<C>; ++d) {
      C left[4];
      C right[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) left[i] = a_staged[d * (kTile + 1) + 4 * y + i];
#pragma unroll
      for (int j = 0; j < 4; ++j) right[j] = b_staged[d * (kTile + 1) + x + 16 * j];
#pragma unroll
      for (int i = 0; i < 16; ++i) sums[i / 4][i % 4] += left[i / 4] * right[i % 4];
    }
  }
}

// out[i][j] += sum over k of weights[4 y + i][k] times element (k, first_column + x + 16 j) of the listed rows. Begins
// and ends with the weights in use.
template <class T>
__device__ __forceinline__ void accumulate(const tile::Compute<T> (&weights)[kTile][kTile + 1],
                                           const AttentionTensor& tensor, const RowList& rows, int first_column,
                                           int columns, tile::Compute<T>* staging,
                                           tile::Compute<T> (&out)[4][kOutSteps]) {
  using C = tile::Compute<T>;
  // 128 columns of k rows fill the staging area.
  constexpr int kRows = 2 * kDepth<C> * (kTile + 1) / kOutColumns;
  const int x = static_cast<int>(threadIdx.x) % 16;
  const int y = static_cast<int>(threadIdx.x) / 16;
  const auto* const data = static_cast<const T*>(tensor.data);
  const int present = columns - first_column < kOutColumns ? columns - first_column : kOutColumns;
  for (int first = 0; first < kTile; first += kRows) {
    __syncthreads();
#pragma unroll
    for (int e = static_cast<int>(threadIdx.x); e < kRows * kOutColumns; e += kThreads) {
      const int column = e % kOutColumns;
      const std::int64_t offset = first + e / kOutColumns < kTile ? rows.offset[first + e / kOutColumns] : -1;
      const bool inside = offset >= 0 && column < present;
      staging[e] = inside ? tile::widen<C>(data[offset + (first_column + column) * tensor.strides[3]]) : C(0);
    }
    __syncthreads();
    for (int k = 0; k < kRows && first + k < kTile; ++k) {
      C weight[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) weight[i] = weights[4 * y + i][first + k];
#pragma unroll
      for (int j = 0; j < kOutSteps; ++j) {
        if (16 * j >= present) break;
        const C value = staging[k * kOutColumns + x + 16 * j];
#pragma unroll
        for (int i = 0; i < 4; ++i) out[i][j] += weight[i] * value;
      }
    }
  }
}

// What this engine's kernels are told: a window for each row, too.
struct SimtParams : AttentionParams {
  const std::int32_t* row_windows = nullptr;  // {first, end} of each row; null: no such bounds
};

// The columns that a row sees, its own window included.
__device__ __forceinline__ ColumnRange columns_of_row(const SimtParams& p, const SequenceLengths& lengths,
                                                      std::int64_t row) {
  ColumnRange range = visible_columns(p, lengths, row);
  if (p.row_windows == nullptr || row >= lengths.q) return range;
  if (p.row_windows[2 * row] > range.first) range.first = p.row_windows[2 * row];
  if (p.row_windows[2 * row + 1] < range.end) range.end = p.row_windows[2 * row + 1];
  if (range.end < range.first) range.end = range.first;
  return range;
}

// Columns beyond which no row of [row, end_row) sees any.
__device__ __forceinline__ ColumnRange columns_of_rows(const SimtParams& p, const SequenceLengths& lengths,
                                                       std::int64_t row, std::int64_t end_row) {
  if (p.row_windows == nullptr) return visible_columns_of_rows(p, lengths, row, end_row);
  ColumnRange range{lengths.kv, 0};
  for (; row < end_row; ++row) {
    const ColumnRange one = columns_of_row(p, lengths, row);
    if (one.first == one.end) continue;
    if (one.first < range.first) range.first = one.first;
    if (one.end > range.end) range.end = one.end;
  }
  if (range.end < range.first) range.end = range.first;
  return range;
}

// Rows beyond which none sees any column of [column, end_column).
__device__ __forceinline__ ColumnRange rows_of_columns(const SimtParams& p, const SequenceLengths& lengths,
                                                       std::int64_t column, std::int64_t end_column) {
  if (p.row_windows == nullptr) return rows_that_see(p, lengths, column, end_column);
  return {0, lengths.q};
}

// What a block needs to know to turn products into scores.
struct ScoreTile {
  std::int64_t batch;
  std::int64_t head;
  SequenceLengths lengths;
  DropoutKey key;
};

template <class C>
struct Score {
  C value;  // -inf where hidden
  C slope;  // of the soft cap
};

template <class C>
__device__ __forceinline__ Score<C> score_of(const AttentionParams& p, const ScoreTile& tile, C product,
                                             std::int64_t row, std::int64_t column, const ColumnRange& visible) {
  Score<C> score{static_cast<C>(p.scale) * product, C(1)};
  if (column < visible.first || column >= visible.end || row >= tile.lengths.q ||
      (p.block_mask != nullptr && !is_tile_kept(p, tile.batch, tile.head, row, column))) {
    return {minus_infinity<C>(), C(1)};
  }
  if (p.soft_cap > 0) {
    const C t = tanh(score.value / static_cast<C>(p.soft_cap));
    score = {static_cast<C>(p.soft_cap) * t, C(1) - t * t};
  }
  if (p.bias.data != nullptr) {
    const std::int64_t offset = bias_offset(p.bias, tile.batch, tile.head, row, column);
    score.value += load_element<C>(p.bias.type, p.bias.data, offset);
  }
  if (p.alibi_slopes != nullptr)
    score.value += static_cast<C>(p.alibi_slopes[tile.head]) * static_cast<C>(column - row);
  return score;
}

// What dropout multiplies a probability by.
template <class C>
__device__ __forceinline__ C kept_scale(const AttentionParams& p, const ScoreTile& tile, std::int64_t row,
                                        std::int64_t column) {
  if (!p.has_dropout) return C(1);
  const auto batch_head = static_cast<std::uint32_t>(tile.batch * p.heads_q + tile.head);
  const bool kept = is_score_kept(tile.key, p.dropout.threshold, batch_head, static_cast<std::uint32_t>(row),
                                  static_cast<std::uint32_t>(column));
  return kept ? static_cast<C>(p.dropout.scale) : C(0);
}

}  // namespace gpudnn::kernels::attention_simt
