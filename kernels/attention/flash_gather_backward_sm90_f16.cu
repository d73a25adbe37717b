// flash_gather_backward_sm90 for f16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/flash_gather_backward_sm90_launch.cuh"

namespace gpudnn::kernels::flash_sm90 {

void launch_gather_backward_f16(const FlashGatherBackwardParams& params, FlashGradient gradient, CUstream_st* stream) {
  launch_gather_backward_type<tile::Half>(params, gradient, stream);
}

}  // namespace gpudnn::kernels::flash_sm90
