// The sums of the gather engines' splits to o, stats, max and sum_exp: a warp makes one row; a block does where there
// are many splits and few rows, whose warps take the splits in turn and are added up in their order.
//
//   M = max of the splits' maxima and the sink;  o = sum of e^(max_i - M) o_i over sum of e^(max_i - M) sum_i [+ sink]
//
// in one order. Launched behind the kernel that it reads from, it waits for that one's writes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_gather.hpp"
#include "kernels/attention/flash_row_sums.cuh"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels::flash {

constexpr int kCombineWarps = 4;

// `row_warps` warps of a block make a row: 1 or all.
template <class T>
__global__ void __launch_bounds__(kCombineWarps * 32)
    flash_combine(const __grid_constant__ FlashGatherParams p, int row_warps) {
  constexpr int kLaneSplits = kFlashGatherMaxSplits / 32;
  constexpr int kLaneQuads = 2;  // of 128 columns each
  constexpr int kAtOnce = 8;
  __shared__ float4 shares[kCombineWarps][kLaneQuads * 32];
  const AttentionParams& a = p.problem;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int its = warp % row_warps;
  const std::int64_t rows = static_cast<std::int64_t>(p.batch_heads) * p.rows;
  const std::int64_t number = static_cast<std::int64_t>(blockIdx.x) * (kCombineWarps / row_warps) + warp / row_warps;
  ptx::griddepcontrol_wait();
  if (number >= rows) return;  // all warps of a row
  const auto batch_head = static_cast<int>(number / p.rows);
  std::uint32_t member;
  const auto row = static_cast<int>(
      p.packed.divmod(static_cast<std::uint32_t>(number - std::int64_t{batch_head} * p.rows), &member));
  const int batch = batch_head / p.heads;
  const int head = batch_head % p.heads * static_cast<int>(p.packed.divisor) + static_cast<int>(member);
  const bool inside = row < sequence_of(p.mask, batch).length_q;

  float2 sums[kLaneSplits];
  float most = -INFINITY;
#pragma unroll
  for (int i = 0; i < kLaneSplits; ++i) {
    const int split = 32 * i + lane;
    sums[i] = {-INFINITY, 0.0F};
    if (split < p.splits) sums[i] = *reinterpret_cast<const float2*>(p.partial_sums + 2 * (split * rows + number));
    most = fmaxf(most, sums[i].x);
  }
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, lanes));
  float weights[kLaneSplits];
  float sum = 0.0F;
#pragma unroll
  for (int i = 0; i < kLaneSplits; ++i) {
    weights[i] = sums[i].y == 0.0F ? 0.0F : expf(sums[i].x - most);
    sum += weights[i] * sums[i].y;
  }
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);

  float4 out[kLaneQuads] = {};
#pragma unroll
  for (int i = 0; i < kLaneSplits; ++i) {
    if (32 * i >= p.splits) break;
#pragma unroll 1
    for (int first = its; first < 32; first += kAtOnce * row_warps) {
      // All loads of a round are under way at once; a split without columns has left nothing to read.
      float weight[kAtOnce];
      float4 values[kAtOnce][kLaneQuads] = {};
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        const int split = first + u * row_warps;
        weight[u] = __shfl_sync(0xffffffffu, weights[i], split);
        const float* const from = p.partial_o + ((32 * i + split) * rows + number) * a.dim_v + 4 * lane;
#pragma unroll
        for (int quad = 0; quad < kLaneQuads; ++quad) {
          const bool exists = weight[u] != 0.0F && 128 * quad + 4 * lane < a.dim_v;
          if (exists) values[u][quad] = *reinterpret_cast<const float4*>(from + 128 * quad);
        }
      }
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
#pragma unroll
        for (int quad = 0; quad < kLaneQuads; ++quad) {
          out[quad].x = fmaf(weight[u], values[u][quad].x, out[quad].x);
          out[quad].y = fmaf(weight[u], values[u][quad].y, out[quad].y);
          out[quad].z = fmaf(weight[u], values[u][quad].z, out[quad].z);
          out[quad].w = fmaf(weight[u], values[u][quad].w, out[quad].w);
        }
      }
    }
  }
  if (row_warps > 1) {
#pragma unroll
    for (int quad = 0; quad < kLaneQuads; ++quad) shares[warp][32 * quad + lane] = out[quad];
    __syncthreads();
    if (its != 0) return;
#pragma unroll
    for (int other = 1; other < kCombineWarps; ++other) {
#pragma unroll
      for (int quad = 0; quad < kLaneQuads; ++quad) {
        const float4 value = shares[other][32 * quad + lane];
        out[quad] = {out[quad].x + value.x, out[quad].y + value.y, out[quad].z + value.z, out[quad].w + value.w};
      }
    }
  }

  float factor;
  const RowSums total = add_sink(a, head, inside ? RowSums{most, sum} : RowSums{-INFINITY, 0.0F}, &factor);
  if (lane == 0) write_sums(a, batch, head, row, inside, total);
  if (!inside && a.o.offset_bits != 0) return;
  const bool is_zero = !inside || sum == 0.0F;
  T* const o = static_cast<T*>(a.o.data) + row_offset(a.o, batch, head, row);
#pragma unroll
  for (int quad = 0; quad < kLaneQuads; ++quad) {
    const int column = 128 * quad + 4 * lane;
    if (column >= a.dim_v) break;
    o[column] = tile::narrow<T>(is_zero ? 0.0F : out[quad].x * factor);
    o[column + 1] = tile::narrow<T>(is_zero ? 0.0F : out[quad].y * factor);
    o[column + 2] = tile::narrow<T>(is_zero ? 0.0F : out[quad].z * factor);
    o[column + 3] = tile::narrow<T>(is_zero ? 0.0F : out[quad].w * factor);
  }
}

}  // namespace gpudnn::kernels::flash
