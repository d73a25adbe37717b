// The launch of the kernel of lse and delta of the gather engines' backward.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/attention/flash_delta.cuh"

namespace gpudnn::kernels {

void launch_flash_gather_delta(const FlashGatherBackwardParams& params, CUstream_st* stream) {
  const std::int64_t rows = params.pitch * params.problem.heads_q * params.problem.batch;
  const cuda::LaunchConfig config{static_cast<unsigned>((rows + 7) / 8), 256};
  if (params.problem.type == tile::ElementType::f16) {
    cuda::launch_kernel(flash::flash_delta<tile::Half>, config, stream, params);
  } else {
    cuda::launch_kernel(flash::flash_delta<tile::BFloat16>, config, stream, params);
  }
}

}  // namespace gpudnn::kernels
