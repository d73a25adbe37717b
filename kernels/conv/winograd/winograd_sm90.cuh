// The transforms around Winograd's products on bfloat16 tensor cores (winograd_sm90.hpp): image, filter, result.
//
// Data flow. A thread has one tile of one channel in registers, a block 8 tiles of 32 channels. Rows of the transform
// are contiguous along channels, so a warp has a tile and its lanes neighbouring channels: 128 bytes for each point.
// Where the image has its rows contiguous, a warp loads (or stores) 8 neighbouring tiles of 4 channels, and the block
// exchanges points (or results) through shared memory. Blocks of a tile's channels run side by side: they fill whole
// rows of the transform, and find the image in the L2.
//
// A filter's thread has two neighbouring channels of a row, one word of each plane of terms; the 16 words of a row and
// the next row are 128 bytes.
//
// Limits: those of winograd_simt.cuh; a filter that is not finite gives NaN or infinities in all its results.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/fp32_split/bf16_terms.cuh"
#include "kernels/conv/fp32_split/split_filter_sm90.hpp"
#include "kernels/conv/winograd/winograd_simt.cuh"
#include "kernels/conv/winograd/winograd_sm90.hpp"
#include "kernels/ptx/griddepcontrol.cuh"

namespace gpudnn::kernels::winograd {

constexpr int kRowThreads = kTilesOfBlock * kChannelsOfBlock;
constexpr int kFilterThreads = 128;
// Of a tile's channels in shared memory: lanes of 8 tiles and 4 channels meet all banks.
constexpr int kExchangePitch = kChannelsOfBlock + 4;

// A thread's tile and channel, as rows of the transform have them, or as rows of the image.
struct RowsOrder {
  int tile, channel;
};
__device__ __forceinline__ RowsOrder transform_order() {
  const auto thread = static_cast<int>(threadIdx.x);
  return {thread / kChannelsOfBlock, thread % kChannelsOfBlock};
}
__device__ __forceinline__ RowsOrder image_order() {
  const auto thread = static_cast<int>(threadIdx.x);
  return {thread % kTilesOfBlock, thread / kTilesOfBlock};
}

// The block's first tile and channel.
__device__ __forceinline__ RowsOrder first_of_block(const Tiles& tiles) {
  std::uint32_t channels = 0;
  const std::uint32_t block = tiles.channel_blocks.divmod(blockIdx.x, &channels);
  return {static_cast<int>(block) * kTilesOfBlock, static_cast<int>(channels) * kChannelsOfBlock};
}

// The tile's input where each of its rows is a vector of 4 pixels and, of an image that windows read, one pixel on
// either side.
template <int kIn>
__device__ __forceinline__ void load_tile_vectors(const DataParams& p, const Place& at, float (&tile)[kIn][kIn]) {
  static_assert(kIn == 4 || kIn == 6, "a vector, with or without neighbours");
  constexpr int kSide = (kIn - 4) / 2;
  const int h0 = p.origin_h + static_cast<int>(at.row) * p.step;
  const int w = static_cast<int>(at.column) * 4;
  const float* const from = p.in + at.image * p.image.n + at.all_channels * p.image.c + w;
#pragma unroll
  for (int i = 0; i < kIn; ++i) {
    const bool inside = static_cast<unsigned>(h0 + i) < static_cast<unsigned>(p.image.height);
    const float* const row = from + (h0 + i) * p.image.h;
    const float4 v = inside ? __ldg(reinterpret_cast<const float4*>(row)) : make_float4(0, 0, 0, 0);
    tile[i][kSide] = v.x;
    tile[i][kSide + 1] = v.y;
    tile[i][kSide + 2] = v.z;
    tile[i][kSide + 3] = v.w;
    if constexpr (kSide == 1) {
      tile[i][0] = inside && w > 0 ? __ldg(row - 1) : 0.0f;
      tile[i][5] = inside && w + 4 < p.image.width ? __ldg(row + 4) : 0.0f;
    }
  }
}

template <int kIn>
__device__ __forceinline__ void load_any_tile(const DataParams& p, const Place& at, float (&tile)[kIn][kIn]) {
  if constexpr (kIn == 4 || kIn == 6) {
    if (p.vectors) return load_tile_vectors<kIn>(p, at, tile);
  }
  load_tile<kIn>(p, at, tile);
}

template <class M, bool kExchanges>
__global__ void __launch_bounds__(kRowThreads) winograd_data_sm90(const __grid_constant__ DataParams p) {
  constexpr int kIn = M::kColumns;
  constexpr int kOut = M::kRows;
  const RowsOrder first = first_of_block(p.tiles);
  const RowsOrder from = kExchanges ? image_order() : transform_order();
  const RowsOrder to = transform_order();
  const Place at(p.tiles, first.tile + from.tile, first.channel + from.channel);
  float transformed[kOut][kOut] = {};
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();  // behind the wait: the filter's kernel relies on it
  if (at.inside) {
    float tile[kIn][kIn];
    load_any_tile<kIn>(p, at, tile);
    apply_on_both_sides<M>(tile, transformed);
  }
  if constexpr (kExchanges) {
    __shared__ float exchanged[kOut * kOut][kTilesOfBlock][kExchangePitch];
#pragma unroll
    for (int t = 0; t < kOut * kOut; ++t) exchanged[t][from.tile][from.channel] = transformed[t / kOut][t % kOut];
    __syncthreads();
#pragma unroll
    for (int t = 0; t < kOut * kOut; ++t) transformed[t / kOut][t % kOut] = exchanged[t][to.tile][to.channel];
  }
  // Zeros where there is room for tiles that do not exist.
  const int tile = first.tile + to.tile;
  const int all_channels = first.channel + to.channel;
  if (tile >= p.tiles.padded || all_channels >= p.tiles.channels) return;
  std::uint32_t channel = 0;
  const std::uint32_t group = p.tiles.group_channels.divmod(static_cast<std::uint32_t>(all_channels), &channel);
  float* const out = p.out + group * p.transformed.group + channel + tile * p.transformed.tile;
#pragma unroll
  for (int t = 0; t < kOut * kOut; ++t) out[t * p.transformed.point] = transformed[t / kOut][t % kOut];
}

template <int kPoints, int kM, bool kExchanges>
__global__ void __launch_bounds__(kRowThreads) winograd_output_sm90(const __grid_constant__ OutputParams p) {
  const RowsOrder first = first_of_block(p.tiles);
  const RowsOrder from = transform_order();
  const RowsOrder to = kExchanges ? image_order() : transform_order();
  const Place at(p.tiles, first.tile + from.tile, first.channel + from.channel);
  float result[kM][kM] = {};
  ptx::griddepcontrol_wait();
  if (at.inside) {
    float products[kPoints][kPoints];
    const float* const in = p.in + at.offset(p.transformed);
#pragma unroll
    for (int t = 0; t < kPoints * kPoints; ++t)
      products[t / kPoints][t % kPoints] = __ldg(in + t * p.transformed.point);
    apply_on_both_sides<OutputMatrix<kPoints, kM>>(products, result);
  }
  if constexpr (kExchanges) {
    __shared__ float exchanged[kM * kM][kTilesOfBlock][kExchangePitch];
#pragma unroll
    for (int t = 0; t < kM * kM; ++t) exchanged[t][from.tile][from.channel] = result[t / kM][t % kM];
    __syncthreads();
#pragma unroll
    for (int t = 0; t < kM * kM; ++t) result[t / kM][t % kM] = exchanged[t][to.tile][to.channel];
    const Place there(p.tiles, first.tile + to.tile, first.channel + to.channel);
    if (there.inside) store_result<kM>(p, there, result);
  } else {
    if (at.inside) store_result<kM>(p, at, result);
  }
}

// The transforms of two neighbouring channels.
template <int kPoints>
__device__ __forceinline__ void load_filters(const FilterTermsParams& p, const float* from, std::uint32_t channel,
                                             float (&transformed)[2][kPoints][kPoints]) {
#pragma unroll
  for (std::uint32_t i = 0; i < 2; ++i) {
    float taps[kFilter][kFilter];
#pragma unroll
    for (int r = 0; r < kFilter; ++r) {
#pragma unroll
      for (int s = 0; s < kFilter; ++s) {
        taps[r][s] = channel + i < p.inner_count ? __ldg(from + i * p.inner + r * p.r + s * p.s) : 0.0f;
      }
    }
    apply_on_both_sides<FilterMatrix<kPoints, kFilter>>(taps, transformed[i]);
  }
}

// It begins when all blocks of the image's transform have: those wait for what came before, which the filter may come
// from. It ends behind them, so that the product, which waits for this kernel, finds both transforms.
template <int kPoints>
__global__ void __launch_bounds__(kFilterThreads)
    winograd_filter_terms_sm90(const __grid_constant__ FilterTermsParams p) {
  constexpr std::uint32_t kWords = fp32_split::kChunkBytes / 4;
  const std::uint32_t item = blockIdx.x * kFilterThreads + threadIdx.x;
  const std::uint32_t word = item % kWords;
  std::uint32_t row = 0;
  std::uint32_t chunk = 0;
  const std::uint32_t group = p.chunks.divmod(p.outer_count.divmod(item / kWords, &row), &chunk);
  if (group >= p.groups) {
    ptx::griddepcontrol_wait();
    return;
  }
  const auto vector = static_cast<int>(word / 4);
  const auto channel = chunk * fp32_split::kChunkChannels +
                       static_cast<std::uint32_t>(fp32_split::channel_at(vector, static_cast<int>(word % 4) * 2));
  float transformed[2][kPoints][kPoints];
  load_filters<kPoints>(p, p.in + group * p.group + row * p.outer + channel * p.inner, channel, transformed);

  const std::size_t rows = std::size_t{p.outer_count.divisor} * p.groups;  // of a point
  const std::size_t plane = rows * kPoints * kPoints * kWords;
  auto* const out = static_cast<std::uint32_t*>(p.terms) + chunk * fp32_split::kPlanes * plane +
                    (std::size_t{group} * p.outer_count.divisor + row) * kWords + word;
#pragma unroll
  for (int t = 0; t < kPoints * kPoints; ++t) {
    const fp32_split::Terms terms =
        fp32_split::terms_of_pair(transformed[0][t / kPoints][t % kPoints], transformed[1][t / kPoints][t % kPoints]);
    std::uint32_t* const to = out + static_cast<std::size_t>(t) * rows * kWords;
    to[0] = terms.top;
    to[plane] = terms.middle;
    to[2 * plane] = terms.low;
  }
  ptx::griddepcontrol_wait();
}

}  // namespace gpudnn::kernels::winograd
