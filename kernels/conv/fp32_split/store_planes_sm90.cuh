// The epilogue of the split implicit GEMM where C's channels are not neighbours in memory, as in NCHW: no kernel need
// turn the output around afterwards.
//
// 64 rows (pixels) x 32 columns (channels) of a consumer's sums go to its staging area, column by column. A warp then
// takes 8 columns, in each of which its lanes have neighbouring pixels: 128 bytes of C where pixels are contiguous.
// Strides are any.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/fp32_split/fp32_split_sm90.hpp"
#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_epilogue.cuh"

namespace gpudnn::kernels::fp32_split {

// f(alpha * scale * sum + addend_scale * addend + bias) but for the function; `value` is alpha * sum.
template <class I>
__device__ __forceinline__ float combined(const Params& params, std::int64_t channel, std::int64_t addend_row,
                                          float value) {
  const sm90::Params& p = params.gemm;
  if constexpr (sm90::kHasActivation<I>) {
    if (p.has_scale) value *= gemm::channel_value<float>(p.scale, channel * p.scale_step, p.float_vectors);
  }
  if (p.addend_scale != 0.0f) {
    const char* const at = static_cast<const char*>(p.addend) + addend_row + channel * params.addend_column_step;
    value += p.addend_scale * *reinterpret_cast<const float*>(at);
  }
  if constexpr (sm90::kHasActivation<I>) {
    if (p.has_bias) value += gemm::channel_value<float>(p.bias, channel * p.bias_step, p.float_vectors);
  }
  return value;
}

template <class I>
__device__ __forceinline__ void store_planes(const Params& params, sm90::Shared<I>& shared, const sm90::Work& work,
                                             int consumer, const float (&sum)[1][I::kBN / 2]) {
  constexpr int kPitch = 68;  // rows of a column: lanes then meet all banks, writing and reading
  constexpr int kChunks = I::kBN / I::kChunkElements;
  constexpr int kColumnsOfWarp = I::kChunkElements / 4;
  static_assert(sizeof(shared.staging[0]) >= sizeof(float) * kPitch * I::kChunkElements, "a chunk is staged");
  const sm90::Params& p = params.gemm;
  const int thread = static_cast<int>(threadIdx.x % 128);
  const int warp = thread / 32;
  const int lane = thread % 32;
  auto* const staging = reinterpret_cast<float*>(shared.staging[consumer][0]);
  std::int64_t row[2];
  std::int64_t addend_row[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::uint32_t m = work.m * I::kBM + static_cast<std::uint32_t>(consumer * 64 + lane + 32 * half);
    row[half] = sm90::row_offset<I>(p, work, m, p.c_step, p.c_is_even);
    addend_row[half] =
        p.addend_scale != 0.0f ? sm90::row_offset<I>(p, work, m, p.addend_step, p.addend_is_even) : std::int64_t{0};
  }
#pragma unroll 1
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    const sm90::ColumnChunk columns = sm90::column_chunk<I>(p, work, chunk);
    if (columns.valid <= 0) break;
    float v[I::kChunkElements / 2];
    sm90::take_chunk<kChunks>(p.alpha, sum, chunk, v);
    float* const mine = staging + lane % 4 * 2 * kPitch + warp * 16 + lane / 4;
#pragma unroll
    for (int j = 0; j < I::kChunkElements / 8; ++j) {
      mine[(8 * j) * kPitch] = v[4 * j];
      mine[(8 * j + 1) * kPitch] = v[4 * j + 1];
      mine[(8 * j) * kPitch + 8] = v[4 * j + 2];
      mine[(8 * j + 1) * kPitch + 8] = v[4 * j + 3];
    }
    ptx::barrier_sync(sm90::kStagingBarrier + consumer, 128);
    const int first = warp * kColumnsOfWarp;
    const std::int64_t channel = static_cast<std::int64_t>(work.group) * p.group_columns + columns.first + first;
#pragma unroll
    for (int i = 0; i < kColumnsOfWarp; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        v[2 * i + half] = staging[(first + i) * kPitch + lane + 32 * half];
        if (first + i >= columns.valid || row[half] < 0) continue;
        v[2 * i + half] = combined<I>(params, channel + i, addend_row[half], v[2 * i + half]);
      }
    }
    if constexpr (sm90::kHasActivation<I>) gemm::activate(p.activation, false, v);
#pragma unroll
    for (int i = 0; i < kColumnsOfWarp; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (first + i >= columns.valid || row[half] < 0) continue;
        char* const at = static_cast<char*>(p.c) + row[half] + (channel + i) * params.c_column_step;
        *reinterpret_cast<float*>(at) = v[2 * i + half];
      }
    }
    ptx::barrier_sync(sm90::kStagingBarrier + consumer, 128);
  }
}

// The second kernel of a split reduction.
template <class I>
__global__ void __launch_bounds__(sm90::kReduceThreads)
    reduce_planes(const __grid_constant__ Params params, int lanes) {
  constexpr std::uint32_t kTileQuads = I::kBM * I::kBN / 4;
  const sm90::Params& p = params.gemm;
  const std::size_t count = static_cast<std::size_t>(p.works.divisor) * kTileQuads;
  const sm90::QuadOfTiles mine = sm90::sum_quad(p.partials, count, p.splits, lanes);
  if (!mine.stores) return;
  const sm90::Work work = sm90::work_item<I>(p, static_cast<std::uint32_t>(mine.quad / kTileQuads));
  const sm90::QuadPlace place = sm90::place_of_quad<I>(p, work, static_cast<std::uint32_t>(mine.quad % kTileQuads));
  const std::int64_t channel =
      static_cast<std::int64_t>(work.group) * p.group_columns + place.columns.first + place.column;
  float v[4] = {mine.sum.x, mine.sum.y, mine.sum.z, mine.sum.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (place.row[i / 2] < 0 || place.column + i % 2 >= place.columns.valid) continue;
    v[i] = combined<I>(params, channel + i % 2, place.addend_row[i / 2], p.alpha * v[i]);
  }
  if constexpr (sm90::kHasActivation<I>) gemm::activate<1>(p.activation, false, v);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (place.row[i / 2] < 0 || place.column + i % 2 >= place.columns.valid) continue;
    char* const at = static_cast<char*>(p.c) + place.row[i / 2] + (channel + i % 2) * params.c_column_step;
    *reinterpret_cast<float*>(at) = v[i];
  }
}

template <class I>
void launch_reduction_of_planes(const Params& params, CUstream_st* stream) {
  const auto [lanes, config] = sm90::reduction_launch(params.gemm.works.divisor, I::kBM * I::kBN, params.gemm.splits);
  cuda::launch_kernel(&reduce_planes<I>, config, stream, params, lanes);
}

}  // namespace gpudnn::kernels::fp32_split
