// Attention backward in 8-bit floats on any device, for any shape and option but dBias.
//
//   P  = round(p scale_s);  dS = round(p (dropout(dp) - delta) scale scale_ds);  dv = P^T dO;  dk = dS^T q;  dq = dS k
//
// Each gradient has a kernel that computes the scores again and sums in registers, as in attention_simt_backward.cuh:
// one order of sums, workspace for delta alone.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/attention/attention_simt.hpp"
#include "kernels/attention/attention_simt_backward.cuh"
#include "kernels/attention/attention_simt_float8_tile.cuh"

namespace gpudnn::kernels {
namespace {

using namespace attention_simt;

// A warp for each row of dO and o.
__global__ void __launch_bounds__(kThreads) attention_delta_float8_simt(const __grid_constant__ Float8SimtParams p) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
  if (index >= p.length_q * p.heads_q * p.batch) return;
  const std::int64_t row = index % p.length_q;
  const std::int64_t head = index / p.length_q % p.heads_q;
  const std::int64_t batch = index / p.length_q / p.heads_q;
  if (row >= sequence_lengths(p, batch).q) return;
  const Source o{p.o, p.o_type}, d_o{p.d_o, p.d_o_type};
  const std::int64_t o_row = row_offset(p.o, batch, head, row);
  const std::int64_t d_o_row = row_offset(p.d_o, batch, head, row);
  float sum = 0.0F;
  for (int d = static_cast<int>(threadIdx.x % 32); d < p.dim_v; d += 32) sum += o.load(o_row, d) * d_o.load(d_o_row, d);
  sum = tile::warp_reduce(sum, tile::Sum{});
  if (threadIdx.x % 32 == 0) static_cast<float*>(p.delta)[index] = sum * product_of(p.numbers.delta);
}

// What one tile gives to the product: P for dv, dS for dk and dq, rounded.
template <Gradient kGradient>
__device__ __forceinline__ void tile_weights(const Float8SimtParams& p, const ScoreTile& tile, std::int64_t first_row,
                                             std::int64_t first_column, TileShared<float>& shared,
                                             const RowList& d_o_rows, float (&weights)[4][4], Greatest* amax) {
  const int x = static_cast<int>(threadIdx.x) % 16;
  const int y = static_cast<int>(threadIdx.x) / 16;
  float dp[4][4];
  multiply_sources({p.q, p.q_type}, shared.a, {p.k, p.k_type}, shared.b, p.dim_qk, shared.staging, weights);
  if constexpr (kGradient != Gradient::dv) {
    multiply_sources({p.d_o, p.d_o_type}, d_o_rows, {p.v, p.v_type}, shared.c, p.dim_v, shared.staging, dp);
  }
  const float descale = product_of(p.numbers.scores);
  const float dp_factor = product_of(p.numbers.dp);
  const float scale_s = number_or_one(p.numbers.scale_s);
  const float scale_ds = number_or_one(p.numbers.scale_ds);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::int64_t row = first_row + 4 * y + i;
    const ColumnRange visible = columns_of_row(p, tile.lengths, row);
    float stats = minus_infinity<float>();
    float delta = 0.0F;
    if (row < tile.lengths.q) {
      stats = static_cast<const float*>(p.stats.data)[row_offset(p.stats, tile.batch, tile.head, row)];
      delta = static_cast<const float*>(p.delta)[(tile.batch * p.heads_q + tile.head) * p.length_q + row];
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const std::int64_t column = first_column + x + 16 * j;
      const Score<float> score = score_of(p, tile, weights[i][j] * descale, row, column, visible);
      const bool hidden = score.value == minus_infinity<float>() || !holds_sum(stats);
      const float probability = hidden ? 0.0F : expf(score.value - stats);
      const float kept = kept_scale<float>(p, tile, row, column);
      if constexpr (kGradient == Gradient::dv) {
        weights[i][j] = rounded_to(p.p_type, probability * kept * scale_s);
      } else {
        float gradient = probability == 0.0F ? 0.0F : probability * (dp[i][j] * dp_factor * kept - delta);
        gradient *= score.slope * static_cast<float>(p.scale);
        amax->meet(gradient);
        weights[i][j] = rounded_to(p.ds_type, gradient * scale_ds);
      }
    }
  }
}

// Blocks: slices of the gradient's columns, tiles of its rows, heads, batch.
template <Gradient kGradient>
__global__ void __launch_bounds__(kThreads)
    attention_gradient_float8_simt(const __grid_constant__ Float8SimtParams p, std::int64_t tiles, int slices) {
  constexpr bool kOfRows = kGradient == Gradient::dq;
  __shared__ TileShared<float> shared;
  __shared__ RowList d_o_rows;
  const Source target = kOfRows                     ? Source{p.dq, p.dq_type}
                        : kGradient == Gradient::dk ? Source{p.dk, p.dk_type}
                                                    : Source{p.dv, p.dv_type};
  const Source factor = kOfRows                     ? Source{p.k, p.k_type}
                        : kGradient == Gradient::dk ? Source{p.q, p.q_type}
                                                    : Source{p.d_o, p.d_o_type};
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
  float out[4][kOutSteps] = {};
  Greatest amax_ds, amax;
#pragma unroll 1
  for (int member = 0; member < group && first < end; ++member) {
    tile.head = head * group + member;
    const ColumnRange others =
        kOfRows ? columns_of_rows(p, tile.lengths, first, end) : rows_of_columns(p, tile.lengths, first, end);
#pragma unroll 1
    for (std::int64_t other = others.first / kTile * kTile; other < others.end; other += kTile) {
      const std::int64_t first_row = kOfRows ? first : other;
      const std::int64_t first_key = kOfRows ? other : first;
      __syncthreads();
      list_row_operands(p, tile, first_row, &shared.a, &d_o_rows);
      list_column_operands(p, tile, first_key, &shared.b, &shared.c);
      float weights[4][4];
      tile_weights<kGradient>(p, tile, first_row, first_key, shared, d_o_rows, weights, &amax_ds);
#pragma unroll
      for (int e = 0; e < 16; ++e) {
        const int i = e / 4, j = e % 4;
        if constexpr (kOfRows) {
          shared.weights[4 * y + i][x + 16 * j] = weights[i][j];
        } else {
          shared.weights[x + 16 * j][4 * y + i] = weights[i][j];
        }
      }
      const RowList& rows = kOfRows ? shared.b : kGradient == Gradient::dk ? shared.a : d_o_rows;
      accumulate_source(shared.weights, factor, rows, first_column, columns, shared.staging, out);
    }
  }
  const AttentionFloat8& n = p.numbers;
  const float undone = product_of(kOfRows ? n.dq : kGradient == Gradient::dk ? n.dk : n.dv);
  const float scale = number_or_one(kOfRows ? n.scale_dq : kGradient == Gradient::dk ? n.scale_dk : n.scale_dv);
  const std::int64_t written = target.tensor.offset_bits != 0 ? length : kOfRows ? p.length_q : p.length_kv;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::int64_t row = first + 4 * y + i;
    if (row >= written) continue;
    const std::int64_t offset = row_offset(target.tensor, batch, head, row);
#pragma unroll
    for (int j = 0; j < kOutSteps; ++j) {
      const int column = first_column + x + 16 * j;
      if (column >= columns) continue;
      const float value = out[i][j] * undone;
      amax.meet(value);
      target.store(offset, column, value * scale);
    }
  }
  if constexpr (kGradient != Gradient::dv) amax_ds.write(n.amax_ds);
  amax.write(kOfRows ? n.amax_dq : kGradient == Gradient::dk ? n.amax_dk : n.amax_dv);
}

template <Gradient kGradient>
void launch_gradient(const Float8SimtParams& p, std::int64_t length, int heads, int dim, CUstream_st* stream) {
  const std::int64_t tiles = (length + kTile - 1) / kTile;
  const int slices = (dim + kOutColumns - 1) / kOutColumns;
  const auto blocks = static_cast<unsigned>(tiles * slices * heads * p.batch);
  cuda::launch_kernel(attention_gradient_float8_simt<kGradient>, {blocks, kThreads}, stream, p, tiles, slices);
}

}  // namespace

void launch_attention_backward_float8_simt(const AttentionFloat8Params& params, CUstream_st* stream) {
  const Float8SimtParams p = float8_simt_params(params);
  const std::int64_t rows = p.length_q * p.heads_q * p.batch;
  const auto blocks = static_cast<unsigned>((rows + kThreads / 32 - 1) / (kThreads / 32));
  cuda::launch_kernel(attention_delta_float8_simt, {blocks, kThreads}, stream, p);
  if (p.dq.data != nullptr) launch_gradient<Gradient::dq>(p, p.length_q, p.heads_q, p.dim_qk, stream);
  if (p.dk.data != nullptr) launch_gradient<Gradient::dk>(p, p.length_kv, p.heads_k, p.dim_qk, stream);
  if (p.dv.data != nullptr) launch_gradient<Gradient::dv>(p, p.length_kv, p.heads_v, p.dim_v, stream);
  // dSink needs delta and stats alone, which are floats.
  if (p.dsink != nullptr) launch_attention_dsink_simt(p, p.length_q, stream);
}

}  // namespace gpudnn::kernels
