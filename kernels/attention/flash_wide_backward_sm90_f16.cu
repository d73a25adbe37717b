// flash_wide_backward_sm90 for f16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/flash_wide_backward_sm90_launch.cuh"

namespace gpudnn::kernels::flash_sm90 {

void launch_wide_f16(const FlashWideBackwardParams& params, const FlashWideDqParams& dq, CUstream_st* stream) {
  launch_wide_type<tile::Half>(params, dq, stream);
}

void launch_wide_sums_f16(const FlashWideSumParams& params, CUstream_st* stream) {
  launch_wide_sums<tile::Half>(params, stream);
}

}  // namespace gpudnn::kernels::flash_sm90
