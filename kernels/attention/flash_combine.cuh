// The sums of the gather engines' splits to o, stats, max and sum_exp: a warp makes one row.
//
//   M = max of the splits' maxima and the sink;  o = sum of e^(max_i - M) o_i over sum of e^(max_i - M) sum_i [+ sink]
//
// in the order of the splits. Launched behind the kernel that it reads from, it waits for that one's writes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_gather.hpp"
#include "kernels/attention/flash_row_sums.cuh"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels::flash {

constexpr int kCombineWarps = 4;

template <class T>
__global__ void __launch_bounds__(kCombineWarps * 32) flash_combine(const __grid_constant__ FlashGatherParams p) {
  constexpr int kLaneSplits = kFlashGatherMaxSplits / 32;
  constexpr int kLanePairs = 4;  // of 64 columns each
  ptx::griddepcontrol_wait();
  const AttentionParams& a = p.problem;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t rows = static_cast<std::int64_t>(p.batch_heads) * p.rows;
  const std::int64_t number = static_cast<std::int64_t>(blockIdx.x) * kCombineWarps + threadIdx.x / 32;
  if (number >= rows) return;
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

  float2 out[kLanePairs] = {};
#pragma unroll
  for (int i = 0; i < kLaneSplits; ++i) {
    const int end = min(p.splits - 32 * i, 32);
    // All loads of a round are under way at once; a split without columns has left nothing to read but any bits.
#pragma unroll 8
    for (int split = 0; split < end; ++split) {
      const float weight = __shfl_sync(0xffffffffu, weights[i], split);
      const float* const from = p.partial_o + ((32 * i + split) * rows + number) * a.dim_v;
#pragma unroll
      for (int pair = 0; pair < kLanePairs; ++pair) {
        const int column = 64 * pair + 2 * lane;
        float2 value{};
        if (column < a.dim_v) value = *reinterpret_cast<const float2*>(from + column);
        out[pair].x = weight == 0.0F ? out[pair].x : fmaf(weight, value.x, out[pair].x);
        out[pair].y = weight == 0.0F ? out[pair].y : fmaf(weight, value.y, out[pair].y);
      }
    }
  }

  float factor;
  const RowSums total = add_sink(a, head, inside ? RowSums{most, sum} : RowSums{-INFINITY, 0.0F}, &factor);
  if (lane == 0) write_sums(a, batch, head, row, inside, total);
  if (!inside && a.o.offset_bits != 0) return;
  T* const o = static_cast<T*>(a.o.data) + row_offset(a.o, batch, head, row);
#pragma unroll
  for (int pair = 0; pair < kLanePairs; ++pair) {
    const int column = 64 * pair + 2 * lane;
    if (column >= a.dim_v) break;
    o[column] = tile::narrow<T>(inside && sum != 0.0F ? out[pair].x * factor : 0.0F);
    o[column + 1] = tile::narrow<T>(inside && sum != 0.0F ? out[pair].y * factor : 0.0F);
  }
}

}  // namespace gpudnn::kernels::flash
