// flash_gather_sm90 for bf16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/flash_gather_sm90_launch.cuh"

namespace gpudnn::kernels {

void flash_sm90::launch_gather_bf16(const FlashGatherParams& params, int dim, int consumers, int multiprocessors,
                                    CUstream_st* stream) {
  launch_gather_type<tile::BFloat16>(params, dim, consumers, multiprocessors, stream);
}

void launch_flash_gather_sm90(const FlashGatherParams& params, tile::ElementType type, int dim, int consumers,
                              int multiprocessors, CUstream_st* stream) {
  if (type == tile::ElementType::f16)
    return flash_sm90::launch_gather_f16(params, dim, consumers, multiprocessors, stream);
  flash_sm90::launch_gather_bf16(params, dim, consumers, multiprocessors, stream);
}

}  // namespace gpudnn::kernels
