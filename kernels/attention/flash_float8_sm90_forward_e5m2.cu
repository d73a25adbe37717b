// flash_float8_sm90's forward kernel for e5m2.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/flash_float8_sm90_forward_launch.cuh"

namespace gpudnn::kernels {

void flash_sm90::launch_float8_e5m2(const FlashFloat8Params& params, int shape, int multiprocessors,
                                    CUstream_st* stream) {
  launch_float8_type<tile::Float8E5M2>(params, shape, multiprocessors, stream);
}

}  // namespace gpudnn::kernels
