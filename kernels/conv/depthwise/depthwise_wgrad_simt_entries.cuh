// Launches of the depthwise convolution's filter gradient for one type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/launch/launch.hpp"
#include "kernels/conv/depthwise/depthwise_wgrad_simt.cuh"
#include "kernels/tile/instances.hpp"

namespace gpudnn::kernels::depthwise {

using WgradKernel = void (*)(Params);

// Null for the rows of other directions.
template <class T, int kRow>
constexpr WgradKernel wgrad_kernel_of() {
  if constexpr (is_wgrad(kTiles[kRow].kernel)) {
    return &wgrad_kernel<T, kRow>;
  } else {
    return nullptr;
  }
}

template <class T>
void launch_wgrad(int row, const Params& params, CUstream_st* stream) {
  const WgradKernel kernel =
      tile::entry_at<kTileCount>(row, [](auto tile_row) -> WgradKernel { return wgrad_kernel_of<T, tile_row()>(); });
  cuda::launch_kernel(
      kernel,
      {.blocks = dim3(params.blocks, params.tap_tiles), .threads = params.threads, .shared_bytes = params.shared_bytes},
      stream, params);
  if (params.splits == 1) return;
  const std::size_t count = static_cast<std::size_t>(params.channels) *
                            static_cast<std::size_t>(params.d.taps * params.h.taps) *
                            static_cast<std::size_t>(params.w.taps);
  cuda::launch_kernel(
      &sum_splits_kernel<T>,
      {.blocks = static_cast<unsigned>((count + kSumColumns - 1) / kSumColumns), .threads = kSumLanes * kSumColumns},
      stream, params);
}

}  // namespace gpudnn::kernels::depthwise
