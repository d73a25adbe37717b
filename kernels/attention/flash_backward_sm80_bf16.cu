// flash_sm80's backward kernels for bf16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/flash_sm80_launch.cuh"

namespace gpudnn::kernels {

void launch_flash_backward_sm80(const FlashGatherBackwardParams& params, FlashGradient gradient, CUstream_st* stream) {
  if (params.problem.type == tile::ElementType::f16) {
    return flash_sm80::launch_backward_f16(params, gradient, stream);
  }
  flash_sm80::launch_backward_type<tile::BFloat16>(params, gradient, stream);
}

}  // namespace gpudnn::kernels
