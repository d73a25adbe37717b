// The second kernel of the Hopper halo filter gradient: adds up what the blocks left, in order, and stores it. See
// halo_filter_sm90.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/conv/halo_filter_sm90.hpp"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/tile/launch.hpp"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels::halo_filter {

// A part of dw: its first filter and channel in the tensors, first taps, and how many there are.
struct PartPlace {
  std::uint32_t filter, channel;    // of the tensors y and x
  std::uint32_t in_group;           // the channel in its group
  std::uint32_t filters, channels;  // up to 64
  std::uint32_t t, r, s;
  std::uint32_t taps_h, taps_w;
};
__device__ __forceinline__ PartPlace part_place(const Params& p, std::uint32_t part) {
  PartPlace place;
  std::uint32_t tap_part_w = 0, tap_part_h = 0, channel_part = 0, filter_part = 0;
  part = p.tap_parts_w.divmod(part, &tap_part_w);
  part = p.tap_parts_h.divmod(part, &tap_part_h);
  part = p.taps_d.divmod(part, &place.t);
  part = p.channel_parts.divmod(part, &channel_part);
  const std::uint32_t group = p.filter_parts.divmod(part, &filter_part);
  place.in_group = channel_part * p.part_channels;
  place.channel = group * p.group_channels + place.in_group;
  place.filter = group * p.group_filters + filter_part * kFilters;
  place.channels = min(p.part_channels, p.group_channels - place.in_group);
  place.filters = min(static_cast<std::uint32_t>(kFilters), p.group_filters - filter_part * kFilters);
  place.s = tap_part_w * kTaps;
  place.r = tap_part_h * p.part_rows;
  place.taps_w = min(static_cast<std::uint32_t>(kTaps), p.taps[0] - place.s);
  place.taps_h = min(p.part_rows, p.taps[1] - place.r);
  return place;
}

constexpr int kSumThreads = 256;
constexpr int kMostLanes = 32;  // that share four sums
constexpr int kLoads = 8;       // of a lane, at least, where there are as many

__device__ __forceinline__ void add_to(float4* sum, const float4& more) {
  sum->x += more.x;
  sum->y += more.y;
  sum->z += more.z;
  sum->w += more.w;
}

template <class T>
__device__ __forceinline__ void store_sum(const Params& p, std::int64_t index, float sum) {
  T* const to = static_cast<T*>(p.dw) + index;
  float value = p.alpha * sum;
  if (p.beta != 0) value += p.beta * tile::widen<float>(*to);
  *to = tile::narrow<T>(value);
}

// Four sums in the order in which wgmma leaves them: two neighbouring channels, and the same 8 filters further.
template <class T>
__device__ __forceinline__ void store_quad(const Params& p, const PartPlace& part, std::uint32_t row,
                                           std::uint32_t quad, const float4& sum) {
  const std::uint32_t thread = quad % 128;
  const std::uint32_t filter = thread / 32 * 16 + thread % 32 / 4;
  const std::uint32_t column = quad / 128 * 8 + thread % 4 * 2;
  const bool is_wide = p.part_channels == 64;
  std::uint32_t s = is_wide ? column / 64 : column / 32;
  const std::uint32_t channel = column - s * p.part_channels;
  if (s >= part.taps_w) return;
  s += part.s;
  std::uint32_t r = part.r + row;
  std::uint32_t t = part.t;
  if (p.mirrored) {
    s = p.taps[0] - 1 - s;
    r = p.taps[1] - 1 - r;
    t = p.taps[2] - 1 - t;
  }
  const std::int64_t at = (part.filter + filter) * p.step_k + (part.in_group + channel) * p.step_c + s * p.step_tap[0] +
                          r * p.step_tap[1] + t * p.step_tap[2];
  const float sums[2][2] = {{sum.x, sum.y}, {sum.z, sum.w}};
#pragma unroll
  for (std::uint32_t k = 0; k < 2; ++k) {
#pragma unroll
    for (std::uint32_t c = 0; c < 2; ++c) {
      if (filter + 8 * k < part.filters && channel + c < part.channels) {
        store_sum<T>(p, at + 8 * k * p.step_k + c * p.step_c, sums[k][c]);
      }
    }
  }
}

// Lane l adds partial sums l, l + lanes and so on; then the lanes are added up as a tree.
template <class T>
__global__ void __launch_bounds__(kSumThreads) halo_filter_sum(const __grid_constant__ Params p, int lanes) {
  __shared__ float4 partial[kSumThreads];
  const int columns = kSumThreads / lanes;
  const int column = static_cast<int>(threadIdx.x) % columns;
  const int lane = static_cast<int>(threadIdx.x) / columns;
  const std::uint32_t quads = quads_of(p.part_channels);
  const std::uint32_t blocks_of_row = quads / static_cast<std::uint32_t>(columns);
  const std::uint32_t index = blockIdx.x / blocks_of_row;
  const std::uint32_t part_number = index / p.part_rows;
  const std::uint32_t row = index % p.part_rows;
  const std::uint32_t quad =
      blockIdx.x % blocks_of_row * static_cast<std::uint32_t>(columns) + static_cast<std::uint32_t>(column);
  const PartPlace part = part_place(p, part_number);
  if (row >= part.taps_h) return;
  const std::uint32_t sums = p.splits * p.shares;
  const auto* const from =
      reinterpret_cast<const float4*>(p.partials) + static_cast<std::size_t>(index) * sums * quads + quad;
  ptx::griddepcontrol_wait();
  float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll kLoads
  for (auto s = static_cast<std::uint32_t>(lane); s < sums; s += static_cast<std::uint32_t>(lanes)) {
    add_to(&sum, from[static_cast<std::size_t>(s) * quads]);
  }
  for (int half = lanes / 2; half > 0; half /= 2) {
    partial[threadIdx.x] = sum;
    __syncthreads();
    if (lane < half) add_to(&sum, partial[threadIdx.x + static_cast<unsigned>(half * columns)]);
    __syncthreads();
  }
  if (lane == 0) store_quad<T>(p, part, row, quad, sum);
}

template <class T>
void launch_sum(const Params& params, CUstream_st* stream) {
  int lanes = 1;
  const std::uint32_t sums = params.splits * params.shares;
  while (lanes < kMostLanes && static_cast<std::uint32_t>(2 * lanes * kLoads) <= sums) lanes *= 2;
  const std::uint32_t blocks = params.parts.divisor * params.part_rows *
                               (quads_of(params.part_channels) * static_cast<std::uint32_t>(lanes) / kSumThreads);
  tile::launch_kernel(&halo_filter_sum<T>, {blocks, kSumThreads, 0, 1, true}, stream, params, lanes);
}

}  // namespace gpudnn::kernels::halo_filter
