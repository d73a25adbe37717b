// Attention forward on any device, for any type, shape and option: the general engine.
//
//   o = dropout(softmax(scores)) v, by online softmax: the maximum and the sum of a row are kept in registers of the 16
//   lanes that share the row, and what was summed so far is rescaled when the maximum grows.
//
// A block makes 64 rows x 128 columns of o; a value dimension beyond 128 makes further blocks, which compute the scores
// again. Only column tiles that the bounds and lengths leave visible are visited. No workspace, one order of sums.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/attention_simt_tile.cuh"

namespace gpudnn::kernels::attention_simt {

// Which piece of the work a block has.
struct ForwardBlock {
  std::int64_t batch, head, first_row;
  int first_column;  // of o
};
__device__ __forceinline__ ForwardBlock forward_block(const AttentionParams& p, std::int64_t row_tiles, int slices) {
  std::int64_t index = blockIdx.x;
  ForwardBlock block{};
  block.first_column = static_cast<int>(index % slices) * kOutColumns;
  index /= slices;
  block.first_row = index % row_tiles * kTile;
  index /= row_tiles;
  block.head = index % p.heads_q;
  block.batch = index / p.heads_q;
  return block;
}

template <class C>
struct SoftmaxRow {
  C max = minus_infinity<C>();
  C sum = C(0);
};

template <class C>
__device__ __forceinline__ void write_row_value(const AttentionTensor& tensor, const ForwardBlock& block,
                                                std::int64_t row, C value) {
  if (tensor.data != nullptr) {
    static_cast<C*>(tensor.data)[row_offset(tensor, block.batch, block.head, row)] = value;
  }
}

// One tile of scores into probabilities by the rows' maxima so far; what was made by the old maxima is rescaled.
template <class C>
__device__ __forceinline__ void update_softmax(C (&scores)[4][4], SoftmaxRow<C> (&rows)[4], C (&out)[4][kOutSteps]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    C most = rows[i].max;
#pragma unroll
    for (int j = 0; j < 4; ++j) most = tile::Max{}(most, scores[i][j]);
    most = tile::warp_reduce<16>(most, tile::Max{});
    const C base = most == minus_infinity<C>() ? C(0) : most;
    const C correction = exp(rows[i].max - base);
    C sum = C(0);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      scores[i][j] = exp(scores[i][j] - base);
      sum += scores[i][j];
    }
    rows[i].sum = rows[i].sum * correction + tile::warp_reduce<16>(sum, tile::Sum{});
    rows[i].max = most;
#pragma unroll
    for (int j = 0; j < kOutSteps; ++j) out[i][j] *= correction;
  }
}

template <class T>
__device__ __forceinline__ void finish_row(const AttentionParams& p, const ForwardBlock& block, std::int64_t row,
                                           std::int64_t length, SoftmaxRow<tile::Compute<T>> state,
                                           const tile::Compute<T> (&out)[kOutSteps]) {
  using C = tile::Compute<T>;
  const int x = static_cast<int>(threadIdx.x) % 16;
  if (row >= p.length_q) return;
  const bool inside = row < length;
  C factor = C(0);
  if (inside) {
    if (p.sink != nullptr) {
      const C sink = static_cast<C>(p.sink[block.head]);
      const C most = tile::Max{}(state.max, sink);
      const C base = most == minus_infinity<C>() ? C(0) : most;
      const C correction = exp(state.max - base);
      factor = correction;
      state.sum = state.sum * correction + exp(sink - base);
      state.max = most;
    } else {
      factor = C(1);
    }
    factor = state.sum == C(0) ? C(0) : factor / state.sum;
  }
  if (x == 0 && block.first_column == 0) {
    const C stats = !inside || state.sum == C(0) ? minus_infinity<C>() : state.max + log(state.sum);
    if (inside || p.stats.offset_bits == 0) write_row_value(p.stats, block, row, stats);
    if (inside || p.max.offset_bits == 0) {
      write_row_value(p.max, block, row, inside ? state.max : minus_infinity<C>());
    }
    if (inside || p.sum_exp.offset_bits == 0) write_row_value(p.sum_exp, block, row, inside ? state.sum : C(0));
  }
  if (!inside && p.o.offset_bits != 0) return;
  T* const o = static_cast<T*>(p.o.data) + row_offset(p.o, block.batch, block.head, row);
#pragma unroll
  for (int j = 0; j < kOutSteps; ++j) {
    const int column = block.first_column + x + 16 * j;
    if (column < p.dim_v) o[column * p.o.strides[3]] = tile::narrow<T>(inside ? out[j] * factor : C(0));
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    attention_forward_simt(const __grid_constant__ SimtParams p, std::int64_t row_tiles, int slices) {
  using C = tile::Compute<T>;
  __shared__ TileShared<C> shared;
  const ForwardBlock block = forward_block(p, row_tiles, slices);
  ScoreTile tile{block.batch, block.head, sequence_lengths(p, block.batch), {}};
  if (p.has_dropout) tile.key = dropout_key(p.dropout);
  const int x = static_cast<int>(threadIdx.x) % 16;
  const int y = static_cast<int>(threadIdx.x) / 16;
  C out[4][kOutSteps] = {};
  SoftmaxRow<C> rows[4];

  const std::int64_t end_row = block.first_row + kTile < tile.lengths.q ? block.first_row + kTile : tile.lengths.q;
  if (block.first_row < end_row) {
    list_rows(p.q, block.batch, block.head, block.first_row, end_row, &shared.a);
    const ColumnRange all = columns_of_rows(p, tile.lengths, block.first_row, end_row);
    for (std::int64_t first = all.first / kTile * kTile; first < all.end; first += kTile) {
      __syncthreads();
      list_rows(p.k, block.batch, block.head / (p.heads_q / p.heads_k), first, tile.lengths.kv, &shared.b);
      list_rows(p.v, block.batch, block.head / (p.heads_q / p.heads_v), first, tile.lengths.kv, &shared.c);
      C scores[4][4];
      multiply_rows<T>(p.q, shared.a, p.k, shared.b, p.dim_qk, shared.staging, scores);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const std::int64_t row = block.first_row + 4 * y + i;
        const ColumnRange visible = columns_of_row(p, tile.lengths, row);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          scores[i][j] = score_of(p, tile, scores[i][j], row, first + x + 16 * j, visible).value;
        }
      }
      update_softmax(scores, rows, out);
#pragma unroll
      for (int e = 0; e < 16; ++e) {
        const std::int64_t row = block.first_row + 4 * y + e / 4;
        const std::int64_t column = first + x + 16 * (e % 4);
        shared.weights[4 * y + e / 4][x + 16 * (e % 4)] = scores[e / 4][e % 4] * kept_scale<C>(p, tile, row, column);
      }
      accumulate<T>(shared.weights, p.v, shared.c, block.first_column, p.dim_v, shared.staging, out);
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    finish_row<T>(p, block, block.first_row + 4 * y + i, tile.lengths.q, rows[i], out[i]);
  }
}

}  // namespace gpudnn::kernels::attention_simt
