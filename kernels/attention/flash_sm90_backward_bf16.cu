// flash_sm90's backward kernels for bf16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/flash_sm90_backward_launch.cuh"

namespace gpudnn::kernels {

void launch_flash_delta_sm90(const FlashDeltaParams& params, tile::ElementType type, CUstream_st* stream) {
  if (type == tile::ElementType::f16) return flash_sm90::launch_delta_f16(params, stream);
  flash_sm90::launch_delta_type<tile::BFloat16>(params, stream);
}

void launch_flash_backward_sm90(const FlashBackwardParams& params, tile::ElementType type, int dim, bool of_keys,
                                CUstream_st* stream) {
  if (type == tile::ElementType::f16) return flash_sm90::launch_backward_f16(params, dim, of_keys, stream);
  flash_sm90::launch_backward_type<tile::BFloat16>(params, dim, of_keys, stream);
}

}  // namespace gpudnn::kernels
