// Launches of the filter gradient of small groups for one type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/conv/depthwise/small_group_wgrad_sm80.cuh"
#include "kernels/tile/instances.hpp"

namespace gpudnn::kernels::small_group {

using LaunchWgradRow = void (*)(const Params&, CUstream_st*);

template <class T, int kRow, bool kWide>
void launch_wgrad_row(const Params& params, CUstream_st* stream) {
  constexpr auto kKernel = &small_group_wgrad_kernel<T, kRow, kWide>;
  cuda::allow_shared_memory<kKernel>(kMaxWgradShared);
  cuda::launch_kernel(kKernel,
                      {.blocks = params.channel_tiles.divisor * params.walkers,
                       .threads = params.threads,
                       .shared_bytes = shared_bytes(params)},
                      stream, params);
}

template <class T>
void launch_sums(const Params& params, const SumShape& sum, CUstream_st* stream) {
  const std::uint32_t columns = kSumThreads / sum.lanes;
  cuda::launch_kernel(&small_group_sum_kernel<T>,
                      {.blocks = (sum.count + columns - 1) / columns, .threads = kSumThreads}, stream, params, sum);
}

template <class T>
void launch_wgrad_of_type(int row, const Params& params, CUstream_st* stream) {
  const auto narrow = tile::entry_at<kWgradCount>(
      row, [](auto tile_row) -> LaunchWgradRow { return &launch_wgrad_row<T, tile_row(), false>; });
  (params.wide ? &launch_wgrad_row<T, 0, true> : narrow)(params, stream);
  const int taps = kTiles[row].taps;
  launch_sums<T>(
      params,
      sum_shape(params.channels, params.group, taps, taps, params.walkers * static_cast<std::uint32_t>(params.parts)),
      stream);
}

}  // namespace gpudnn::kernels::small_group
