// flash_gather_backward_sm90 for bf16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/flash_gather_backward_sm90_launch.cuh"

namespace gpudnn::kernels {

void launch_flash_gather_backward_sm90(const FlashGatherBackwardParams& params, FlashGradient gradient,
                                       CUstream_st* stream) {
  if (params.problem.type == tile::ElementType::f16) {
    return flash_sm90::launch_gather_backward_f16(params, gradient, stream);
  }
  flash_sm90::launch_gather_backward_type<tile::BFloat16>(params, gradient, stream);
}

}  // namespace gpudnn::kernels
