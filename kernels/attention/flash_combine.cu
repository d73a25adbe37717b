// The launch of the kernel that combines the splits of the gather engines.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/attention/flash_combine.cuh"

namespace gpudnn::kernels {

void launch_flash_combine(const FlashGatherParams& params, CUstream_st* stream) {
  const std::int64_t rows = std::int64_t{params.batch_heads} * params.rows;
  constexpr int kWarps = flash::kCombineWarps;
  const int row_warps = params.splits >= 4 && rows <= 4096 ? kWarps : 1;
  const int block_rows = kWarps / row_warps;
  cuda::LaunchConfig config{static_cast<unsigned>((rows + block_rows - 1) / block_rows), kWarps * 32};
  config.overlaps = true;
  const auto launch = [&]<class T>(T /*type*/) {
    const auto kernel = params.problem.dim_v <= 128 ? &flash::flash_combine<T, 1> : &flash::flash_combine<T, 2>;
    cuda::launch_kernel(kernel, config, stream, params, row_warps);
  };
  if (params.problem.type == tile::ElementType::f16) {
    launch(tile::Half{});
  } else {
    launch(tile::BFloat16{});
  }
}

}  // namespace gpudnn::kernels
