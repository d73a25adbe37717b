// flash_sm80's forward kernels for bf16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/flash_sm80_launch.cuh"

namespace gpudnn::kernels {

void launch_flash_forward_sm80(const FlashGatherParams& params, tile::ElementType type, int dim, CUstream_st* stream) {
  if (type == tile::ElementType::f16) return flash_sm80::launch_forward_f16(params, dim, stream);
  flash_sm80::launch_forward_type<tile::BFloat16>(params, dim, stream);
}

}  // namespace gpudnn::kernels
