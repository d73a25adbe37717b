// Launches of the convolution of small groups for one type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/conv/depthwise/small_group_sm80.cuh"
#include "kernels/tile/instances.hpp"

namespace gpudnn::kernels::small_group {

using LaunchRow = void (*)(const Params&, CUstream_st*);

template <class T, int kRow>
void launch_row(const Params& params, CUstream_st* stream) {
  constexpr auto kKernel = &small_group_kernel<T, kRow>;
  cuda::allow_shared_memory<kKernel>(kMaxShared);
  cuda::launch_kernel(kKernel,
                      {.blocks = params.channel_tiles.divisor * params.walkers,
                       .threads = params.threads,
                       .shared_bytes = shared_bytes(params)},
                      stream, params);
}

template <class T>
void launch_of_type(int row, const Params& params, CUstream_st* stream) {
  tile::entry_at<kTileCount>(row, [](auto tile_row) -> LaunchRow {
    if constexpr (kTiles[tile_row()].takes(sizeof(T))) return &launch_row<T, tile_row()>;
    return nullptr;
  })(params, stream);
}

}  // namespace gpudnn::kernels::small_group
