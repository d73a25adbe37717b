// The sums of the gather engines' splits to o, stats, max and sum_exp: a warp makes one row; a block does where there
// are many splits and few rows, whose warps take the splits in turn and are added up in their order.
//
//   M = max of the splits' maxima and the sink;  o = sum of e^(max_i - M) o_i over sum of e^(max_i - M) sum_i [+ sink]
//
// in one order. Launched behind the kernel that it reads from, it waits for that one's writes. What it takes is
// latency, cold that of its own code: so it goes through all of it once, for no splits, before it waits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_gather.hpp"
#include "kernels/attention/flash_row_sums.cuh"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels::flash {

constexpr int kCombineWarps = 4;

// `row_warps` warps of a block make a row: 1 or all. kLaneQuads: of 128 columns, that v has at most.
template <class T, int kLaneQuads>
__global__ void __launch_bounds__(kCombineWarps * 32)
    flash_combine(const __grid_constant__ FlashGatherParams p, int row_warps) {
  constexpr int kLaneSplits = kFlashGatherMaxSplits / 32;
  constexpr int kAtOnce = 8;
  __shared__ float4 shares[kCombineWarps][kLaneQuads * 32];
  __shared__ float weights[kCombineWarps][kFlashGatherMaxSplits];
  const AttentionParams& a = p.problem;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int its = warp % row_warps;
  const auto rows = static_cast<unsigned>(p.batch_heads) * static_cast<unsigned>(p.rows);
  const unsigned number =
      blockIdx.x * static_cast<unsigned>(kCombineWarps / row_warps) + static_cast<unsigned>(warp / row_warps);
  if (number >= rows) return;  // all warps of a row
  const auto batch_head = static_cast<int>(number / static_cast<unsigned>(p.rows));
  std::uint32_t member;
  const auto row = static_cast<int>(
      p.packed.divmod(number - static_cast<unsigned>(batch_head) * static_cast<unsigned>(p.rows), &member));
  const int batch = batch_head / p.heads;
  const int head = batch_head % p.heads * static_cast<int>(p.packed.divisor) + static_cast<int>(member);
  const float* const first_sums = p.partial_sums + 2 * (lane * std::int64_t{rows} + number);
  const float* const first_values = p.partial_o + (its * std::int64_t{rows} + number) * a.dim_v + 4 * lane;
  const std::int64_t to_next = row_warps * std::int64_t{rows} * a.dim_v;  // split that this warp adds
  T* const o = static_cast<T*>(a.o.data) + row_offset(a.o, batch, head, row) + 4 * lane;

#pragma unroll 1
  for (int splits = 0;; splits = p.splits) {
    if (splits != 0) ptx::griddepcontrol_wait();
    float2 sums[kLaneSplits];
#pragma unroll
    for (int i = 0; i < kLaneSplits; ++i) {
      sums[i] = {-INFINITY, 0.0F};
      if (32 * i + lane < splits) sums[i] = *reinterpret_cast<const float2*>(first_sums + 64 * i * std::int64_t{rows});
    }
    float4 out[kLaneQuads] = {};
    float most = -INFINITY;
    float sum = 0.0F;
    const float* from = first_values;
    int split = its;
#pragma unroll 1
    do {
      // All loads of a round are under way at once, those of the first one before the sums have come.
      float4 values[kAtOnce][kLaneQuads];
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
#pragma unroll
        for (int quad = 0; quad < kLaneQuads; ++quad) {
          const bool exists = split + u * row_warps < splits && 128 * quad + 4 * lane < a.dim_v;
          values[u][quad] = float4{};
          if (exists) values[u][quad] = *reinterpret_cast<const float4*>(from + 128 * quad);
        }
        from += to_next;
      }
      if (split == its) {
#pragma unroll
        for (int i = 0; i < kLaneSplits; ++i) most = fmaxf(most, sums[i].x);
#pragma unroll
        for (int lanes = 16; lanes > 0; lanes /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, lanes));
#pragma unroll
        for (int i = 0; i < kLaneSplits; ++i) {
          const float weight = sums[i].y == 0.0F ? 0.0F : expf(sums[i].x - most);
          weights[warp][32 * i + lane] = weight;
          sum += weight * sums[i].y;
        }
#pragma unroll
        for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
        __syncwarp();
      }
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        const float weight = weights[warp][(split + u * row_warps) % kFlashGatherMaxSplits];
#pragma unroll
        for (int quad = 0; quad < kLaneQuads; ++quad) {
          // A split without columns has left nothing to read.
          const float4 value = weight == 0.0F ? float4{} : values[u][quad];
          out[quad].x = fmaf(weight, value.x, out[quad].x);
          out[quad].y = fmaf(weight, value.y, out[quad].y);
          out[quad].z = fmaf(weight, value.z, out[quad].z);
          out[quad].w = fmaf(weight, value.w, out[quad].w);
        }
      }
      split += kAtOnce * row_warps;
    } while (split < splits);
    if (row_warps > 1) {
#pragma unroll
      for (int quad = 0; quad < kLaneQuads; ++quad) shares[warp][32 * quad + lane] = out[quad];
      __syncthreads();
#pragma unroll
      for (int other = 1; other < kCombineWarps; ++other) {
#pragma unroll
        for (int quad = 0; quad < kLaneQuads; ++quad) {
          const float4 value = shares[other][32 * quad + lane];
          out[quad] = {out[quad].x + value.x, out[quad].y + value.y, out[quad].z + value.z, out[quad].w + value.w};
        }
      }
      __syncthreads();
    }

    const bool inside = row < sequence_of(p.mask, batch).length_q;
    float factor;
    const RowSums total = add_sink(a, head, inside ? RowSums{most, sum} : RowSums{-INFINITY, 0.0F}, &factor);
    const bool writes = splits != 0 && its == 0;
    if (writes && lane == 0) write_sums(a, batch, head, row, inside, total);
    const int columns = writes && (inside || a.o.offset_bits == 0) ? a.dim_v : 0;
    const bool is_zero = !inside || sum == 0.0F;
#pragma unroll
    for (int quad = 0; quad < kLaneQuads; ++quad) {
      const float4 value = out[quad];
      const auto narrow = [&](float x) { return tile::narrow<T>(is_zero ? 0.0F : x * factor); };
      const T its_columns[4] = {narrow(value.x), narrow(value.y), narrow(value.z), narrow(value.w)};
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (128 * quad + 4 * lane < columns) o[128 * quad + e] = its_columns[e];
      }
    }
    if (splits != 0) return;
  }
}

}  // namespace gpudnn::kernels::flash
