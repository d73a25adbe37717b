// Attention forward in 8-bit floats on any device, for any shape and option.
//
//   P = round(exp(s - maximum) * greatest of its type);  o = P v / sum, what scales its operands undone
//
// As P is rounded by its row's maximum over all columns, a block goes over them twice: for the maximum and the sum,
// then for the product. No workspace, one order of sums; the tiles are those of attention_simt_forward.cuh.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/attention/attention_simt_float8_tile.cuh"
#include "kernels/attention/attention_simt_forward.cuh"

namespace gpudnn::kernels {
namespace {

using namespace attention_simt;

__global__ void __launch_bounds__(kThreads) attention_clear_amax(const __grid_constant__ AttentionFloat8 numbers) {
  float* const all[] = {numbers.amax_s,  numbers.amax_o,  numbers.amax_ds,
                        numbers.amax_dq, numbers.amax_dk, numbers.amax_dv};
  if (threadIdx.x != 0) return;
#pragma unroll
  for (int i = 0; i < 6; ++i) {
    if (all[i] != nullptr) *all[i] = 0.0F;
  }
}

// The maximum and the sum of a row, with its sink; the greatest score and its probability.
struct Softmax {
  float max, sum, top, greatest;
};
__device__ __forceinline__ Softmax with_sink(const AttentionParams& p, std::int64_t head, SoftmaxRow<float> row) {
  if (p.sink == nullptr) return {row.max, row.sum, row.max, row.sum == 0.0F ? 0.0F : 1.0F / row.sum};
  const float sink = p.sink[head];
  const float most = fmaxf(row.max, sink);
  const float base = most == minus_infinity<float>() ? 0.0F : most;
  const float factor = expf(row.max - base);
  const float sum = row.sum * factor + expf(sink - base);
  return {most, sum, row.max, sum == 0.0F ? 0.0F : factor / sum};
}

// What the greatest p of a row becomes.
__device__ __forceinline__ float greatest_of(tile::AnyType type) {
  return type == tile::AnyType::e4m3 ? kGreatestE4M3 : type == tile::AnyType::e5m2 ? kGreatestE5M2 : 1.0F;
}

__device__ __forceinline__ void write_statistics(const AttentionParams& p, const ForwardBlock& block, std::int64_t row,
                                                 bool inside, const Softmax& softmax) {
  const float stats = !inside || softmax.sum == 0.0F ? minus_infinity<float>() : softmax.max + logf(softmax.sum);
  if (inside || p.stats.offset_bits == 0) write_row_value(p.stats, block, row, stats);
  if (inside || p.max.offset_bits == 0) {
    write_row_value(p.max, block, row, inside ? softmax.max : minus_infinity<float>());
  }
  if (inside || p.sum_exp.offset_bits == 0) write_row_value(p.sum_exp, block, row, inside ? softmax.sum : 0.0F);
}

__global__ void __launch_bounds__(kThreads)
    attention_forward_float8_simt(const __grid_constant__ Float8SimtParams p, std::int64_t row_tiles, int slices) {
  __shared__ TileShared<float> shared;
  const ForwardBlock block = forward_block(p, row_tiles, slices);
  ScoreTile tile{block.batch, block.head, sequence_lengths(p, block.batch), {}};
  if (p.has_dropout) tile.key = dropout_key(p.dropout);
  const int x = static_cast<int>(threadIdx.x) % 16;
  const int y = static_cast<int>(threadIdx.x) / 16;
  const Source q{p.q, p.q_type}, k{p.k, p.k_type}, v{p.v, p.v_type}, o{p.o, p.o_type};
  const float descale = product_of(p.numbers.scores);
  const float greatest = greatest_of(p.p_type);
  float out[4][kOutSteps] = {};
  SoftmaxRow<float> rows[4];
  Softmax softmax[4];
  Greatest amax_s, amax_o;

  const std::int64_t end_row = block.first_row + kTile < tile.lengths.q ? block.first_row + kTile : tile.lengths.q;
  ColumnRange all;
  if (block.first_row < end_row) {
    list_rows(p.q, block.batch, block.head, block.first_row, end_row, &shared.a);
    all = columns_of_rows(p, tile.lengths, block.first_row, end_row);
  }
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
#pragma unroll 1
    for (std::int64_t first = all.first / kTile * kTile; first < all.end; first += kTile) {
      __syncthreads();
      list_rows(p.k, block.batch, block.head / (p.heads_q / p.heads_k), first, tile.lengths.kv, &shared.b);
      list_rows(p.v, block.batch, block.head / (p.heads_q / p.heads_v), first, tile.lengths.kv, &shared.c);
      float scores[4][4];
      multiply_sources(q, shared.a, k, shared.b, p.dim_qk, shared.staging, scores);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const std::int64_t row = block.first_row + 4 * y + i;
        const ColumnRange visible = columns_of_row(p, tile.lengths, row);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          scores[i][j] = score_of(p, tile, scores[i][j] * descale, row, first + x + 16 * j, visible).value;
        }
      }
      if (pass == 0) {
        update_softmax(scores, rows, out);
        continue;
      }
#pragma unroll
      for (int e = 0; e < 16; ++e) {
        const std::int64_t row = block.first_row + 4 * y + e / 4;
        const std::int64_t column = first + x + 16 * (e % 4);
        const Softmax& its = softmax[e / 4];
        const float score = scores[e / 4][e % 4];
        const float kept = kept_scale<float>(p, tile, row, column);
        float share = 0.0F;
        if (score != minus_infinity<float>()) share = expf(score - its.top);
        amax_s.meet(share * its.greatest * kept);
        shared.weights[4 * y + e / 4][x + 16 * (e % 4)] = rounded_to(p.p_type, share * greatest) * kept;
      }
      accumulate_source(shared.weights, v, shared.c, block.first_column, p.dim_v, shared.staging, out);
    }
    if (pass == 0) {
#pragma unroll
      for (int i = 0; i < 4; ++i) softmax[i] = with_sink(p, block.head, rows[i]);
    }
  }
  const float undone = product_of(p.numbers.output) * number_or_one(p.numbers.scale_s) / greatest;
  const float scale_o = number_or_one(p.numbers.scale_o);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::int64_t row = block.first_row + 4 * y + i;
    const bool inside = row < tile.lengths.q;
    if (row >= p.length_q) continue;
    if (x == 0 && block.first_column == 0) write_statistics(p, block, row, inside, softmax[i]);
    if (!inside && p.o.offset_bits != 0) continue;
    const std::int64_t offset = row_offset(p.o, block.batch, block.head, row);
#pragma unroll
    for (int j = 0; j < kOutSteps; ++j) {
      const int column = block.first_column + x + 16 * j;
      if (column >= p.dim_v) continue;
      const float value = inside ? out[i][j] * (softmax[i].greatest * undone) : 0.0F;
      amax_o.meet(value);
      o.store(offset, column, value * scale_o);
    }
  }
  amax_s.write(p.numbers.amax_s);
  amax_o.write(p.numbers.amax_o);
}

}  // namespace

void launch_attention_clear_amax(const AttentionFloat8& numbers, CUstream_st* stream) {
  const bool any = numbers.amax_s != nullptr || numbers.amax_o != nullptr || numbers.amax_ds != nullptr ||
                   numbers.amax_dq != nullptr || numbers.amax_dk != nullptr || numbers.amax_dv != nullptr;
  if (any) cuda::launch_kernel(attention_clear_amax, {1, 32}, stream, numbers);
}

void launch_attention_forward_float8_simt(const AttentionFloat8Params& params, CUstream_st* stream) {
  const std::int64_t row_tiles = (params.length_q + kTile - 1) / kTile;
  const int slices = (params.dim_v + kOutColumns - 1) / kOutColumns;
  const auto blocks = static_cast<unsigned>(row_tiles * slices * params.heads_q * params.batch);
  cuda::launch_kernel(attention_forward_float8_simt, {blocks, kThreads}, stream, float8_simt_params(params), row_tiles,
                      slices);
}

}  // namespace gpudnn::kernels
