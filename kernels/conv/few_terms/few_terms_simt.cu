// Instances of the float convolution of few terms, and their launch.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/conv/few_terms/few_terms_simt.cuh"

namespace gpudnn::kernels::few_terms {
void launch(int tile, const Params& params, CUstream_st* stream) {
  const TileRow& row = kTiles[tile];
  const auto width = static_cast<std::uint32_t>(kThreads / row.slices);
  const auto outputs = static_cast<std::uint32_t>(row.outputs);
  const std::size_t terms = std::size_t{params.channels} * params.taps[0].divisor * params.taps[1].divisor;
  const std::size_t shared = shared_bytes(row, terms);
  if (row.rows > 1) {
    cuda::launch_kernel(&few_rows_simt, {dim3(params.pixels, params.outputs), kThreads, shared}, stream, params);
    return;
  }
  const dim3 blocks((params.pixels + width - 1) / width, (params.outputs + outputs - 1) / outputs);
  const auto kernel = params.taps[0].divisor == 1 ? &few_terms_simt<4, 1>
                      : row.outputs == 4          ? &few_terms_simt<4, 5>
                                                  : &few_terms_simt<1, 5>;
  cuda::launch_kernel(kernel, {blocks, kThreads, shared}, stream, params, row.slices);
}

}  // namespace gpudnn::kernels::few_terms
