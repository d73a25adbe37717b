// The launch of the kernel that combines the splits of flash_gather_sm90.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/attention/flash_combine_sm90.cuh"

namespace gpudnn::kernels {

void launch_flash_combine_sm90(const FlashGatherParams& params, CUstream_st* stream) {
  const std::int64_t rows = std::int64_t{params.batch_heads} * params.rows;
  constexpr int kWarps = flash_sm90::kCombineWarps;
  cuda::LaunchConfig config{static_cast<unsigned>((rows + kWarps - 1) / kWarps), kWarps * 32};
  config.overlaps = true;
  if (params.problem.type == tile::ElementType::f16) {
    cuda::launch_kernel(flash_sm90::flash_combine_sm90<tile::Half>, config, stream, params);
  } else {
    cuda::launch_kernel(flash_sm90::flash_combine_sm90<tile::BFloat16>, config, stream, params);
  }
}

}  // namespace gpudnn::kernels
