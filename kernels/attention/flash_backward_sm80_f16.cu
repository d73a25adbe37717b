// flash_sm80's backward kernels for f16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/flash_sm80_launch.cuh"

namespace gpudnn::kernels {

void flash_sm80::launch_backward_f16(const FlashGatherBackwardParams& params, FlashGradient gradient,
                                     CUstream_st* stream) {
  launch_backward_type<tile::Half>(params, gradient, stream);
}

}  // namespace gpudnn::kernels
