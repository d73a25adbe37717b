// flash_wide_backward_sm90 for bf16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/flash_wide_backward_sm90_launch.cuh"

namespace gpudnn::kernels {

void launch_flash_wide_backward_sm90(const FlashWideBackwardParams& params, const FlashWideDqParams& dq,
                                     tile::ElementType type, CUstream_st* stream) {
  if (type == tile::ElementType::f16) return flash_sm90::launch_wide_f16(params, dq, stream);
  flash_sm90::launch_wide_type<tile::BFloat16>(params, dq, stream);
}

void launch_flash_wide_sums_sm90(const FlashWideSumParams& params, tile::ElementType type, CUstream_st* stream) {
  if (type == tile::ElementType::f16) return flash_sm90::launch_wide_sums_f16(params, stream);
  flash_sm90::launch_wide_sums<tile::BFloat16>(params, stream);
}

}  // namespace gpudnn::kernels
