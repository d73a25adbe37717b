// flash_fused_backward_sm90 for f16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/flash_fused_backward_sm90_launch.cuh"

namespace gpudnn::kernels::flash_sm90 {

void launch_fused_f16(const FlashFusedBackwardParams& params, const FlashFusedDqParams& dq, int dim,
                      CUstream_st* stream) {
  launch_fused_type<tile::Half>(params, dq, dim, stream);
}

}  // namespace gpudnn::kernels::flash_sm90
