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
  if (params.problem.type == tile::ElementType::f16) {
    cuda::launch_kernel(flash::flash_combine<tile::Half>, config, stream, params, row_warps);
  } else {
    cuda::launch_kernel(flash::flash_combine<tile::BFloat16>, config, stream, params, row_warps);
  }
}

}  // namespace gpudnn::kernels
