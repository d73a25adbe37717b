// Instances of the forward convolution of images with few channels.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/small_c/small_c_sm80_forward.cuh"

namespace gpudnn::kernels::small_c {

template <int kRow>
void launch_row(const Params& params, CUstream_st* stream) {
  launch_forward_row<kRow>(params, stream);
}

template void launch_row<0>(const Params&, CUstream_st*);
template void launch_row<1>(const Params&, CUstream_st*);
template void launch_row<2>(const Params&, CUstream_st*);
template void launch_row<3>(const Params&, CUstream_st*);
template void launch_row<4>(const Params&, CUstream_st*);
template void launch_row<5>(const Params&, CUstream_st*);

}  // namespace gpudnn::kernels::small_c
