// Instances of the convolution whose warps share a tile's reduction, and their launch.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/conv/sliced_k/sliced_k_planes_sm80.cuh"
#include "kernels/conv/sliced_k/sliced_k_rows_sm80.cuh"

namespace gpudnn::kernels::sliced_k {

namespace {

template <bool kIsBf16, bool kHalves>
void launch_rows(const Params& params, CUstream_st* stream) {
  const std::uint32_t warps = warps_of_rows(params.slice_shift);
  const std::uint32_t rows = kTilePixels * (warps >> params.slice_shift);
  const dim3 blocks((params.pixels + rows - 1) / rows, (params.filters + kTileFilters - 1) / kTileFilters);
  // Two chunks at once take half of the registers of four, so that a multiprocessor has more of the blocks.
  constexpr std::uint32_t kMost = kHalves ? 2 : 4;
  const bool few = params.chunks <= 2u << params.slice_shift;
  cuda::launch_kernel(few ? &sliced_k_rows_sm80<kIsBf16, 2, kHalves> : &sliced_k_rows_sm80<kIsBf16, kMost, kHalves>,
                      {blocks, warps * 32}, stream, params);
}

}  // namespace

void launch(const Params& params, CUstream_st* stream) {
  if (params.rows && params.row_halves) {
    return params.is_bf16 ? launch_rows<true, true>(params, stream) : launch_rows<false, true>(params, stream);
  }
  if (params.rows) {
    return params.is_bf16 ? launch_rows<true, false>(params, stream) : launch_rows<false, false>(params, stream);
  }
  const std::uint32_t filter_tiles = (params.filters + kTileFilters - 1) / kTileFilters;
  if (params.planes) {
    const dim3 blocks(params.pixels / params.plane_pixels * params.plane_tiles.divisor, filter_tiles);
    cuda::launch_kernel(params.is_bf16 ? &sliced_k_planes_sm80<true> : &sliced_k_planes_sm80<false>, {blocks, kThreads},
                        stream, params);
    return;
  }
  const std::uint32_t rows = kTilePixels * (kWarps >> params.slice_shift);
  const dim3 blocks((params.pixels + rows - 1) / rows, filter_tiles);
  cuda::launch_kernel(params.vectors ? &sliced_k_sm80<true> : &sliced_k_sm80<false>, {blocks, kThreads}, stream,
                      params);
}

}  // namespace gpudnn::kernels::sliced_k
