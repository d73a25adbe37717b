// The fused Winograd convolution's launch.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/conv/winograd/winograd_fused_simt.cuh"

namespace gpudnn::kernels::winograd {

void launch_fused(const FusedParams& p, CUstream_st* stream) {
  const auto blocks = [](std::int64_t count, int size) { return static_cast<unsigned>((count + size - 1) / size); };
  const dim3 grid(blocks(p.data.tiles.count, kFusedTiles), blocks(p.filter.outer_count, kFusedChannels),
                  static_cast<unsigned>(p.filter.groups));
  cuda::launch_kernel(winograd_fused_simt, {.blocks = grid, .threads = dim3(FusedShape::kThreads)}, stream, p);
}

}  // namespace gpudnn::kernels::winograd
