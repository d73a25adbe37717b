// flash_sm90's forward kernel for f16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/flash_sm90_forward_launch.cuh"

namespace gpudnn::kernels {

void flash_sm90::launch_forward_f16(const FlashForwardParams& params, int shape, int multiprocessors,
                                    CUstream_st* stream) {
  launch_forward_type<tile::Half>(params, shape, multiprocessors, stream);
}

}  // namespace gpudnn::kernels
