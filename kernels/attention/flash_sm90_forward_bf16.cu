// flash_sm90's forward kernel for bf16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/flash_sm90_forward_launch.cuh"

namespace gpudnn::kernels {

void flash_sm90::launch_forward_bf16(const FlashForwardParams& params, int shape, int multiprocessors,
                                     CUstream_st* stream) {
  launch_forward_type<tile::BFloat16>(params, shape, multiprocessors, stream);
}

void launch_flash_forward_sm90(const FlashForwardParams& params, tile::ElementType type, int shape, int multiprocessors,
                               CUstream_st* stream) {
  if (type == tile::ElementType::f16) return flash_sm90::launch_forward_f16(params, shape, multiprocessors, stream);
  flash_sm90::launch_forward_bf16(params, shape, multiprocessors, stream);
}

}  // namespace gpudnn::kernels
