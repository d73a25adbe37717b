// The second kernel of the Hopper direct filter gradient: adds up what the blocks left, in order, and stores it. See
// direct_wgrad_sm90.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/conv/direct/direct_wgrad_sm90.hpp"
#include "kernels/conv/wgrad_sums.cuh"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/tile/launch.hpp"

namespace gpudnn::kernels::direct_wgrad {

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
        combine_and_store(p, sums[k][c], static_cast<T*>(p.dw) + (at + 8 * k * p.step_k + c * p.step_c));
      }
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kSumThreads) direct_wgrad_sum(const __grid_constant__ Params p, int lanes) {
  const std::uint32_t quads = quads_of(p.part_channels);
  const SumPlace place = sum_place(quads, lanes);
  const PartPlace part = part_place(p, place.part / p.part_rows);
  const std::uint32_t row = place.part % p.part_rows;
  if (row >= part.taps_h) return;
  ptx::griddepcontrol_wait();
  const float4 sum = sum_over_splits(p.partials, quads, p.splits * p.shares, place);
  if (place.lane == 0) store_quad<T>(p, part, row, place.quad, sum);
}

constexpr int kLoads = 8;  // of a lane, at least, where there are as many

template <class T>
void launch_sum(const Params& params, CUstream_st* stream) {
  const int lanes = sum_lanes(params.splits * params.shares / kLoads);
  const std::uint32_t blocks =
      sum_blocks(params.parts.divisor * params.part_rows, quads_of(params.part_channels), lanes);
  tile::launch_kernel(&direct_wgrad_sum<T>, {.blocks = blocks, .threads = kSumThreads, .overlaps = true}, stream,
                      params, lanes);
}

}  // namespace gpudnn::kernels::direct_wgrad
