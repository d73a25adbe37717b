// flash_gather_sm90 for f16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/flash_gather_sm90_launch.cuh"

namespace gpudnn::kernels {

void flash_sm90::launch_gather_f16(const FlashGatherParams& params, int dim, int consumers, int multiprocessors,
                                   CUstream_st* stream) {
  launch_gather_type<tile::Half>(params, dim, consumers, multiprocessors, stream);
}

}  // namespace gpudnn::kernels
