// Instances of the dp4a convolution, and its launch.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/conv/integer/integer_simt.cuh"

namespace gpudnn::kernels::integer {

void launch_simt(const Params& params, bool whole_words, CUstream_st* stream) {
  constexpr std::uint32_t kMaxRows = 65535;  // of a grid, along y and z
  const std::uint32_t n_tiles = (params.filters + kSimtTile - 1) / kSimtTile;
  const std::uint32_t groups_of_y = kMaxRows / n_tiles > 0 ? kMaxRows / n_tiles : 1;
  const std::uint32_t along_y = params.groups < groups_of_y ? params.groups : groups_of_y;
  const dim3 grid((params.pixels + kSimtTile - 1) / kSimtTile, n_tiles * along_y,
                  (params.groups + along_y - 1) / along_y);
  const auto kernel = params.x_is_unsigned ? (whole_words ? &integer_simt<true, true> : &integer_simt<true, false>)
                                           : (whole_words ? &integer_simt<false, true> : &integer_simt<false, false>);
  const cuda::LaunchConfig config = {grid, kSimtThreads};
  cuda::launch_kernel(kernel, config, stream, params);
}

}  // namespace gpudnn::kernels::integer
