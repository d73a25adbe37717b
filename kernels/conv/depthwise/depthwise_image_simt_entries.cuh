// Launches of the depthwise convolution's forward and data gradient for one type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/launch/launch.hpp"
#include "kernels/conv/depthwise/depthwise_line_simt.cuh"
#include "kernels/conv/depthwise/depthwise_rows_simt.cuh"
#include "kernels/conv/depthwise/depthwise_sweep_simt.cuh"
#include "kernels/tile/instances.hpp"

namespace gpudnn::kernels::depthwise {

using ImageKernel = void (*)(Params);

// Null for the rows of the filter gradient.
template <class T, int kRow>
constexpr ImageKernel image_kernel() {
  constexpr Kernel kKernel = kTiles[kRow].kernel;
  if constexpr (kKernel == Kernel::sweep) {
    return &sweep_kernel<T, kRow>;
  } else if constexpr (kKernel == Kernel::sweep_dgrad) {
    return &sweep_dgrad_kernel<T, kRow>;
  } else if constexpr (kKernel == Kernel::rows) {
    return &rows_kernel<T, kRow>;
  } else if constexpr (kKernel == Kernel::line) {
    return &line_kernel<T, kRow>;
  } else {
    return nullptr;
  }
}

template <class T>
void launch_image(int row, const Params& params, CUstream_st* stream) {
  const ImageKernel kernel =
      tile::entry_at<kTileCount>(row, [](auto tile_row) -> ImageKernel { return image_kernel<T, tile_row()>(); });
  cuda::launch_kernel(kernel, {.blocks = params.blocks, .threads = params.threads, .shared_bytes = params.shared_bytes},
                      stream, params);
}

}  // namespace gpudnn::kernels::depthwise
