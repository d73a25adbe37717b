// flash_sm90's backward kernels for f16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/flash_sm90_backward_launch.cuh"

namespace gpudnn::kernels::flash_sm90 {

void launch_backward_f16(const FlashBackwardParams& params, int dim, bool of_keys, CUstream_st* stream) {
  launch_backward_type<tile::Half>(params, dim, of_keys, stream);
}

void launch_delta_f16(const FlashDeltaParams& params, CUstream_st* stream) {
  launch_delta_type<tile::Half>(params, stream);
}

}  // namespace gpudnn::kernels::flash_sm90
