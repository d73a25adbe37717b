// Instances of the convolution whose warps share a tile's reduction, and their launch.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/conv/sliced_k/sliced_k_sm80.cuh"

namespace gpudnn::kernels::sliced_k {

void launch(const Params& params, CUstream_st* stream) {
  const std::uint32_t rows = kTilePixels * (kWarps >> params.slice_shift);
  const dim3 blocks((params.pixels + rows - 1) / rows, (params.filters + kTileFilters - 1) / kTileFilters);
  cuda::launch_kernel(params.vectors ? &sliced_k_sm80<true> : &sliced_k_sm80<false>, {blocks, kThreads}, stream,
                      params);
}

}  // namespace gpudnn::kernels::sliced_k
