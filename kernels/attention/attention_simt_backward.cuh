// Attention backward on any device, for any type, shape and option: the general engine.
//
//   p  = exp(scores - stats);  dp = dO v^T;  ds = p (dropout(dp) - delta), delta = sum of dO o
//   dq = scale ds' k;  dk = scale ds'^T q;  dv = dropout(p)^T dO;  ds' = ds times the slope of the soft cap
//   dbias = ds summed over broadcast dimensions;  dsink = -sum exp(sink - stats) delta
//
// Each gradient has a kernel that computes the scores again and sums in registers: dq over the columns that a row tile
// sees; dk and dv over the rows that see a column tile, of all heads that share the key's; dbias over what its element
// is broadcast to. So no sum crosses blocks: one order, no atomics, and workspace for delta alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/attention_simt_tile.cuh"
#include "kernels/attention/score_range.hpp"

namespace gpudnn::kernels::attention_simt {

enum class Gradient { dq, dk, dv, dbias };

// p and ds of one tile; what dk and dq multiply is in `weights`, what dv does likewise.
template <class T>
struct TileGradient {
  using C = tile::Compute<T>;
  C probability[4][4];  // after dropout
  C gradient[4][4];     // ds
  C slope[4][4];
};

template <class T>
__device__ __forceinline__ void tile_gradient(const SimtParams& p, const ScoreTile& tile, std::int64_t first_row,
                                              std::int64_t first_column, bool wants_gradient,
                                              TileShared<tile::Compute<T>>& shared, RowList& v_rows, RowList& d_o_rows,
                                              TileGradient<T>* result) {
  using C = tile::Compute<T>;
  const int x = static_cast<int>(threadIdx.x) % 16;
  const int y = static_cast<int>(threadIdx.x) / 16;
  multiply_rows<T>(p.q, shared.a, p.k, shared.b, p.dim_qk, shared.staging, result->probability);
  if (wants_gradient) multiply_rows<T>(p.d_o, d_o_rows, p.v, v_rows, p.dim_v, shared.staging, result->gradient);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::int64_t row = first_row + 4 * y + i;
    const bool inside = row < tile.lengths.q;
    const ColumnRange visible = columns_of_row(p, tile.lengths, row);
    C stats = minus_infinity<C>();
    C delta = C(0);
    if (inside) {
      stats = static_cast<const C*>(p.stats.data)[row_offset(p.stats, tile.batch, tile.head, row)];
      delta = static_cast<const C*>(p.delta)[(tile.batch * p.heads_q + tile.head) * p.length_q + row];
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const std::int64_t column = first_column + x + 16 * j;
      const Score<C> score = score_of(p, tile, result->probability[i][j], row, column, visible);
      const bool hidden = score.value == minus_infinity<C>() || !holds_sum(stats);
      const C probability = hidden ? C(0) : exp(score.value - stats);
      const C kept = kept_scale<C>(p, tile, row, column);
      result->probability[i][j] = probability * kept;
      result->slope[i][j] = score.slope;
      if (wants_gradient) {
        result->gradient[i][j] = probability == C(0) ? C(0) : probability * (result->gradient[i][j] * kept - delta);
      }
    }
  }
}

// Lists the rows of a tile of all four operands. `shared.c` and `more` take v and dO.
__device__ __forceinline__ void list_row_operands(const AttentionParams& p, const ScoreTile& tile, std::int64_t first,
                                                  RowList* q, RowList* d_o) {
  list_rows(p.q, tile.batch, tile.head, first, tile.lengths.q, q);
  list_rows(p.d_o, tile.batch, tile.head, first, tile.lengths.q, d_o);
}
__device__ __forceinline__ void list_column_operands(const AttentionParams& p, const ScoreTile& tile,
                                                     std::int64_t first, RowList* k, RowList* v) {
  list_rows(p.k, tile.batch, tile.head / (p.heads_q / p.heads_k), first, tile.lengths.kv, k);
  list_rows(p.v, tile.batch, tile.head / (p.heads_q / p.heads_v), first, tile.lengths.kv, v);
}

template <class T>
__device__ __forceinline__ void write_gradient(const AttentionTensor& tensor, std::int64_t batch, std::int64_t head,
                                               std::int64_t first_row, std::int64_t rows, int first_column, int columns,
                                               const tile::Compute<T> (&out)[4][kOutSteps]) {
  const int x = static_cast<int>(threadIdx.x) % 16;
  const int y = static_cast<int>(threadIdx.x) / 16;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::int64_t row = first_row + 4 * y + i;
    if (row >= rows) continue;
    T* const data = static_cast<T*>(tensor.data) + row_offset(tensor, batch, head, row);
#pragma unroll
    for (int j = 0; j < kOutSteps; ++j) {
      const int column = first_column + x + 16 * j;
      if (column < columns) data[column * tensor.strides[3]] = tile::narrow<T>(out[i][j]);
    }
  }
}

// Blocks: slices of the gradient's columns, tiles of its rows, heads, batch.
template <class T, Gradient kGradient>
__global__ void __launch_bounds__(kThreads)
    attention_gradient_simt(const __grid_constant__ SimtParams p, std::int64_t tiles, int slices) {
  using C = tile::Compute<T>;
  constexpr bool kOfRows = kGradient == Gradient::dq;
  __shared__ TileShared<C> shared;
  __shared__ RowList d_o_rows;
  const AttentionTensor& target = kOfRows ? p.dq : kGradient == Gradient::dk ? p.dk : p.dv;
  const int heads = kOfRows ? p.heads_q : kGradient == Gradient::dk ? p.heads_k : p.heads_v;
  const int columns = kGradient == Gradient::dv ? p.dim_v : p.dim_qk;
  std::int64_t index = blockIdx.x;
  const int first_column = static_cast<int>(index % slices) * kOutColumns;
  index /= slices;
  const std::int64_t first = index % tiles * kTile;
  index /= tiles;
  const std::int64_t head = index % heads;
  const std::int64_t batch = index / heads;
  ScoreTile tile{batch, head, sequence_lengths(p, batch), {}};
  if (p.has_dropout) tile.key = dropout_key(p.dropout);
  const int x = static_cast<int>(threadIdx.x) % 16;
  const int y = static_cast<int>(threadIdx.x) / 16;

  const std::int64_t length = kOfRows ? tile.lengths.q : tile.lengths.kv;
  const std::int64_t end = first + kTile < length ? first + kTile : length;
  const int group = kOfRows ? 1 : p.heads_q / heads;
  C out[4][kOutSteps] = {};
  for (int member = 0; member < group && first < end; ++member) {
    tile.head = head * group + member;
    const ColumnRange others =
        kOfRows ? columns_of_rows(p, tile.lengths, first, end) : rows_of_columns(p, tile.lengths, first, end);
    for (std::int64_t other = others.first / kTile * kTile; other < others.end; other += kTile) {
      const std::int64_t first_row = kOfRows ? first : other;
      const std::int64_t first_key = kOfRows ? other : first;
      __syncthreads();
      list_row_operands(p, tile, first_row, &shared.a, &d_o_rows);
      list_column_operands(p, tile, first_key, &shared.b, &shared.c);
      TileGradient<T> gradient;
      tile_gradient<T>(p, tile, first_row, first_key, kGradient != Gradient::dv, shared, shared.c, d_o_rows, &gradient);
#pragma unroll
      for (int e = 0; e < 16; ++e) {
        const int i = e / 4, j = e % 4;
        const C weight = kGradient == Gradient::dv
                             ? gradient.probability[i][j]
                             : static_cast<C>(p.scale) * gradient.gradient[i][j] * gradient.slope[i][j];
        if constexpr (kOfRows) {
          shared.weights[4 * y + i][x + 16 * j] = weight;
        } else {
          shared.weights[x + 16 * j][4 * y + i] = weight;
        }
      }
      const AttentionTensor& factor = kOfRows ? p.k : kGradient == Gradient::dk ? p.q : p.d_o;
      const RowList& rows = kOfRows ? shared.b : kGradient == Gradient::dk ? shared.a : d_o_rows;
      accumulate<T>(shared.weights, factor, rows, first_column, columns, shared.staging, out);
    }
  }
  const std::int64_t written = target.offset_bits != 0 ? length : kOfRows ? p.length_q : p.length_kv;
  write_gradient<T>(target, batch, head, first, written, first_column, columns, out);
}

// Blocks: column tiles, row tiles, heads and batch of dbias; a dimension that is broadcast has one block, which visits
// all of it.
template <class T>
__global__ void __launch_bounds__(kThreads)
    attention_dbias_simt(const __grid_constant__ SimtParams p, std::int64_t row_tiles, std::int64_t column_tiles) {
  using C = tile::Compute<T>;
  __shared__ TileShared<C> shared;
  __shared__ RowList d_o_rows;
  std::int64_t index = blockIdx.x;
  const std::int64_t column_tile = index % column_tiles;
  index /= column_tiles;
  const std::int64_t row_tile = index % row_tiles;
  index /= row_tiles;
  const std::int64_t bias_head = index % p.dbias_dims[1];
  const std::int64_t bias_batch = index / p.dbias_dims[1];
  const int x = static_cast<int>(threadIdx.x) % 16;
  const int y = static_cast<int>(threadIdx.x) / 16;
  const bool one_row = p.dbias_dims[2] == 1;
  const bool one_column = p.dbias_dims[3] == 1;
  C sums[4][4] = {};
  const std::int64_t end_batch = p.dbias_dims[0] == 1 ? p.batch : bias_batch + 1;
  const std::int64_t end_head = p.dbias_dims[1] == 1 ? p.heads_q : bias_head + 1;
  const std::int64_t end_row = one_row ? p.length_q : row_tile * kTile + kTile;
  const std::int64_t end_column = one_column ? p.length_kv : column_tile * kTile + kTile;
  for (std::int64_t batch = bias_batch; batch < end_batch; ++batch) {
    ScoreTile tile{batch, 0, sequence_lengths(p, batch), {}};
    if (p.has_dropout) tile.key = dropout_key(p.dropout);
    for (tile.head = bias_head; tile.head < end_head; ++tile.head) {
      for (std::int64_t row = row_tile * kTile; row < end_row && row < tile.lengths.q; row += kTile) {
        for (std::int64_t column = column_tile * kTile; column < end_column && column < tile.lengths.kv;
             column += kTile) {
          __syncthreads();
          list_row_operands(p, tile, row, &shared.a, &d_o_rows);
          list_column_operands(p, tile, column, &shared.b, &shared.c);
          TileGradient<T> gradient;
          tile_gradient<T>(p, tile, row, column, true, shared, shared.c, d_o_rows, &gradient);
#pragma unroll
          for (int e = 0; e < 16; ++e) sums[e / 4][e % 4] += gradient.gradient[e / 4][e % 4];
        }
      }
    }
  }
  __syncthreads();
#pragma unroll
  for (int e = 0; e < 16; ++e) shared.weights[4 * y + e / 4][x + 16 * (e % 4)] = sums[e / 4][e % 4];
  __syncthreads();
  // An element that stands for all rows or columns of the tile is the sum of them, in their order.
  const int rows = one_row ? 1 : kTile;
  const int columns = one_column ? 1 : kTile;
  for (int e = static_cast<int>(threadIdx.x); e < rows * columns; e += kThreads) {
    const std::int64_t row = one_row ? 0 : row_tile * kTile + e / columns;
    const std::int64_t column = one_column ? 0 : column_tile * kTile + e % columns;
    if (row >= p.dbias_dims[2] || column >= p.dbias_dims[3]) continue;
    C sum = C(0);
    for (int i = 0; i < (one_row ? kTile : 1); ++i) {
      for (int j = 0; j < (one_column ? kTile : 1); ++j) sum += shared.weights[e / columns + i][e % columns + j];
    }
    store_element(p.dbias.type, p.dbias.data, bias_offset(p.dbias, bias_batch, bias_head, row, column), sum);
  }
}

// A warp for each row of dO and o.
template <class T>
__global__ void __launch_bounds__(kThreads) attention_delta_simt(const __grid_constant__ AttentionParams p) {
  using C = tile::Compute<T>;
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
  if (index >= p.length_q * p.heads_q * p.batch) return;
  const std::int64_t row = index % p.length_q;
  const std::int64_t head = index / p.length_q % p.heads_q;
  const std::int64_t batch = index / p.length_q / p.heads_q;
  if (row >= sequence_lengths(p, batch).q) return;
  const T* const o = static_cast<const T*>(p.o.data) + row_offset(p.o, batch, head, row);
  const T* const d_o = static_cast<const T*>(p.d_o.data) + row_offset(p.d_o, batch, head, row);
  C sum = C(0);
  for (int d = static_cast<int>(threadIdx.x % 32); d < p.dim_v; d += 32) {
    sum += tile::widen<C>(o[d * p.o.strides[3]]) * tile::widen<C>(d_o[d * p.d_o.strides[3]]);
  }
  sum = tile::warp_reduce(sum, tile::Sum{});
  if (threadIdx.x % 32 == 0) static_cast<C*>(p.delta)[index] = sum;
}

// A block for each head. `pitch`: rows of a head in delta.
template <class T>
__global__ void __launch_bounds__(kThreads)
    attention_dsink_simt(const __grid_constant__ AttentionParams p, std::int64_t pitch) {
  using C = tile::Compute<T>;
  __shared__ C scratch[32];
  const std::int64_t head = blockIdx.x;
  const C sink = static_cast<C>(p.sink[head]);
  C sum = C(0);
  for (std::int64_t batch = 0; batch < p.batch; ++batch) {
    const std::int64_t length = sequence_lengths(p, batch).q;
    for (std::int64_t row = threadIdx.x; row < length; row += kThreads) {
      const C stats = static_cast<const C*>(p.stats.data)[row_offset(p.stats, batch, head, row)];
      const C delta = static_cast<const C*>(p.delta)[(batch * p.heads_q + head) * pitch + row];
      if (holds_sum(stats)) sum -= exp(sink - stats) * delta;
    }
  }
  sum = tile::block_reduce(sum, C(0), tile::Sum{}, scratch);
  if (threadIdx.x == 0) p.dsink[head] = static_cast<float>(sum);
}

}  // namespace gpudnn::kernels::attention_simt
