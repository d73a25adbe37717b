// flash_sm80's forward kernels for f16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/flash_sm80_launch.cuh"

namespace gpudnn::kernels {

void flash_sm80::launch_forward_f16(const FlashGatherParams& params, int dim, CUstream_st* stream) {
  launch_forward_type<tile::Half>(params, dim, stream);
}

}  // namespace gpudnn::kernels
