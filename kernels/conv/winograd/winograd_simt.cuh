// The transforms of the Winograd convolution: image, filter, result. The mathematics is in winograd_simt.hpp, the
// matrices are in winograd_matrices.cuh.
//
// Data flow. A thread has one tile of one channel in registers, all its points. Its loads and stores lie, for each
// point, beside those of the other lanes: along neighbouring tiles, or along neighbouring channels where those are
// innermost. Where the image and its transform are contiguous along different ones, a block of 32 x 8 exchanges its
// points through shared memory and stores whole sectors of 32 bytes. Each byte moves once; the overlap of neighbouring
// tiles comes from the L1.
//
// Limits: an infinity or a NaN reaches all results of the tiles that hold it, and so does a finite value whose
// transform exceeds the largest float: beyond 2^120.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/winograd/winograd_matrices.cuh"
#include "kernels/conv/winograd/winograd_simt.hpp"
#include "kernels/gemm/epilogue/activation.cuh"
#include "kernels/gemm/epilogue/channel_value.cuh"

namespace gpudnn::kernels::winograd {

constexpr int kLanes = 32;
constexpr int kRowsOfBlock = 8;

// The tile and channel of a thread.
struct Place {
  std::uint32_t image = 0, row = 0, column = 0, group = 0, channel = 0;
  std::int32_t tile, all_channels;
  bool inside = false;

  __device__ __forceinline__ Place(const Tiles& tiles, std::int32_t tile_of_launch, std::int32_t channel_of_all)
      : tile(tile_of_launch), all_channels(channel_of_all) {
    inside = tile < tiles.count && all_channels < tiles.channels;
    if (!inside) return;
    const auto global = static_cast<std::uint32_t>(tiles.first) + static_cast<std::uint32_t>(tile);
    image = tiles.per_column.divmod(tiles.per_row.divmod(global, &column), &row);
    group = tiles.group_channels.divmod(static_cast<std::uint32_t>(all_channels), &channel);
  }
  __device__ __forceinline__ std::int64_t offset(const Transformed& t) const {
    return group * t.group + channel * t.channel + tile * t.tile;
  }
};

// `slow` of the block's 8, `fast` of its 32 lanes.
__device__ __forceinline__ Place place_of(const Tiles& tiles, bool along_channels, int slow, int fast) {
  const int x = static_cast<int>(blockIdx.x);
  const int y = static_cast<int>(blockIdx.y);
  return along_channels ? Place(tiles, x * kRowsOfBlock + slow, y * kLanes + fast)
                        : Place(tiles, x * kLanes + fast, y * kRowsOfBlock + slow);
}

// The tile's input; what lies outside of the image is zero.
template <int kIn>
__device__ __forceinline__ void load_tile(const DataParams& p, const Place& at, float (&tile)[kIn][kIn]) {
  const int h0 = p.origin_h + static_cast<int>(at.row) * p.step;
  const int w0 = p.origin_w + static_cast<int>(at.column) * p.step;
  const float* const from = p.in + at.image * p.image.n + at.all_channels * p.image.c;
#pragma unroll
  for (int i = 0; i < kIn; ++i) {
    const bool row_inside = static_cast<unsigned>(h0 + i) < static_cast<unsigned>(p.image.height);
    const float* const row = from + (h0 + i) * p.image.h + w0 * p.image.w;
#pragma unroll
    for (int j = 0; j < kIn; ++j) {
      const bool inside = row_inside && static_cast<unsigned>(w0 + j) < static_cast<unsigned>(p.image.width);
      tile[i][j] = inside ? __ldg(row + j * p.image.w) : 0.0f;
    }
  }
}

template <class M, bool kStaged>
__global__ void __launch_bounds__(256) winograd_data_simt(const DataParams p) {
  constexpr int kIn = M::kColumns;
  constexpr int kOut = M::kRows;
  const int fast = static_cast<int>(threadIdx.x) % kLanes;
  const int slow = static_cast<int>(threadIdx.x) / kLanes;
  const Place at = place_of(p.tiles, p.along_channels, slow, fast);
  float transformed[kOut][kOut] = {};
  if (at.inside) {
    float tile[kIn][kIn];
    load_tile<kIn>(p, at, tile);
    apply_on_both_sides<M>(tile, transformed);
  }
  if constexpr (kStaged) {
    __shared__ float staged[kOut * kOut][kRowsOfBlock][kLanes + 1];
#pragma unroll
    for (int t = 0; t < kOut * kOut; ++t) staged[t][slow][fast] = transformed[t / kOut][t % kOut];
    __syncthreads();
    const int other_slow = static_cast<int>(threadIdx.x) % kRowsOfBlock;
    const int other_fast = static_cast<int>(threadIdx.x) / kRowsOfBlock;
    const Place to = place_of(p.tiles, p.along_channels, other_slow, other_fast);
    if (!to.inside) return;
    float* const out = p.out + to.offset(p.transformed);
#pragma unroll
    for (int t = 0; t < kOut * kOut; ++t) out[t * p.transformed.point] = staged[t][other_slow][other_fast];
  } else {
    if (!at.inside) return;
    float* const out = p.out + at.offset(p.transformed);
#pragma unroll
    for (int t = 0; t < kOut * kOut; ++t) out[t * p.transformed.point] = transformed[t / kOut][t % kOut];
  }
}

// A thread has one filter: lanes along the channels of the result.
template <int kPoints>
__global__ void __launch_bounds__(256) winograd_filter_simt(const FilterParams p) {
  using M = FilterMatrix<kPoints, kFilter>;
  const int outer = static_cast<int>(blockIdx.x) * kLanes + static_cast<int>(threadIdx.x) % kLanes;
  const int inner = static_cast<int>(blockIdx.y) * kRowsOfBlock + static_cast<int>(threadIdx.x) / kLanes;
  if (outer >= p.outer_count || inner >= p.inner_count) return;
  const std::int64_t group = blockIdx.z;
  const float* const from = p.in + group * p.group + outer * p.outer + inner * p.inner;
  float taps[kFilter][kFilter];
#pragma unroll
  for (int r = 0; r < kFilter; ++r) {
#pragma unroll
    for (int s = 0; s < kFilter; ++s) taps[r][s] = __ldg(from + r * p.r + s * p.s);
  }
  float transformed[kPoints][kPoints];
  apply_on_both_sides<M>(taps, transformed);
  float* const out = p.out + group * p.out_group + inner * p.out_inner + outer;
#pragma unroll
  for (int t = 0; t < kPoints * kPoints; ++t) out[t * p.point] = transformed[t / kPoints][t % kPoints];
}

// f(alpha * scale * sum + addend_scale * addend + bias) of a row of a tile; the addend has `valid` elements.
template <int kN>
__device__ __forceinline__ void finish_row(const OutputParams& p, std::int32_t channel, const float* addend, int valid,
                                           float (&v)[kN]) {
  float factor = p.alpha;
  if (p.has_scale) factor *= gemm::channel_value<float>(p.scale, channel * p.scale_step, true);
  const float bias = p.has_bias ? gemm::channel_value<float>(p.bias, channel * p.bias_step, true) : 0.0f;
#pragma unroll
  for (int j = 0; j < kN; ++j) {
    v[j] *= factor;
    if (p.addend_scale != 0.0f && j < valid) v[j] += p.addend_scale * addend[j * p.addend_image.w];
    v[j] += bias;
  }
  gemm::activate_by_call(p.activation, v);
}

// A tile of the result, stored through the epilogue.
template <int kM>
__device__ __forceinline__ void store_result(const OutputParams& p, const Place& at, float (&result)[kM][kM]) {
  const int h0 = static_cast<int>(at.row) * kM;
  const int w0 = static_cast<int>(at.column) * kM;
  float* const out = static_cast<float*>(p.out) + at.image * p.image.n + at.all_channels * p.image.c;
  const float* const addend =
      static_cast<const float*>(p.addend) + at.image * p.addend_image.n + at.all_channels * p.addend_image.c;
  const int valid = min(kM, p.image.width - w0);
#pragma unroll
  for (int i = 0; i < kM; ++i) {
    if (h0 + i >= p.image.height) continue;
    if (!p.is_plain) {
      finish_row(p, at.all_channels, addend + (h0 + i) * p.addend_image.h + w0 * p.addend_image.w, valid, result[i]);
    }
    float* const row = out + (h0 + i) * p.image.h + w0 * p.image.w;
    if (p.vectors) {
      if constexpr (kM == 4) {
        *reinterpret_cast<float4*>(row) = make_float4(result[i][0], result[i][1], result[i][2], result[i][3]);
      } else {
        *reinterpret_cast<float2*>(row) = make_float2(result[i][0], result[i][1]);
      }
    } else {
#pragma unroll
      for (int j = 0; j < kM; ++j) {
        if (j < valid) row[j * p.image.w] = result[i][j];
      }
    }
  }
}

// The result of a tile's products, stored the same way.
template <int kPoints, int kM>
__device__ __forceinline__ void store_tile(const OutputParams& p, const Place& at,
                                           const float (&products)[kPoints][kPoints]) {
  float result[kM][kM];
  apply_on_both_sides<OutputMatrix<kPoints, kM>>(products, result);
  store_result<kM>(p, at, result);
}

template <int kPoints, int kM>
__global__ void __launch_bounds__(256) winograd_output_simt(const __grid_constant__ OutputParams p) {
  const Place at = place_of(p.tiles, p.along_channels, static_cast<int>(threadIdx.x) / kLanes,
                            static_cast<int>(threadIdx.x) % kLanes);
  if (!at.inside) return;
  float products[kPoints][kPoints];
  const float* const from = p.in + at.offset(p.transformed);
#pragma unroll
  for (int t = 0; t < kPoints * kPoints; ++t)
    products[t / kPoints][t % kPoints] = __ldg(from + t * p.transformed.point);
  store_tile<kPoints, kM>(p, at, products);
}

// A thread has one filter: lanes along the input channels. The splits' products are summed in their order.
template <int kPoints>
__global__ void __launch_bounds__(256) winograd_filter_output_simt(const FilterOutputParams p) {
  using M = OutputMatrix<kPoints, kFilter>;
  const int c = static_cast<int>(blockIdx.x) * kLanes + static_cast<int>(threadIdx.x) % kLanes;
  const int k = static_cast<int>(blockIdx.y) * kRowsOfBlock + static_cast<int>(threadIdx.x) / kLanes;
  if (c >= p.group_inputs || k >= p.group_outputs) return;
  const std::int64_t group = blockIdx.z;
  const float* const from = p.in + group * p.group + k * p.row + c;
  float products[kPoints][kPoints] = {};
#pragma unroll 1
  for (int split = 0; split < p.splits; ++split) {
#pragma unroll
    for (int t = 0; t < kPoints * kPoints; ++t) {
      products[t / kPoints][t % kPoints] += __ldg(from + split * p.split + t * p.point);
    }
  }
  float result[kFilter][kFilter];
  apply_on_both_sides<M>(products, result);
  float* const out = p.out + (group * p.group_outputs + k) * p.k + c * p.c;
#pragma unroll
  for (int r = 0; r < kFilter; ++r) {
#pragma unroll
    for (int s = 0; s < kFilter; ++s) {
      float* const to = out + r * p.r + s * p.s;
      float value = p.alpha * result[r][s];
      if (p.beta != 0.0f) value += p.beta * *to;
      *to = value;
    }
  }
}

}  // namespace gpudnn::kernels::winograd
