// Instances of the data gradient of images with few channels.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/small_c/small_c_sm80_data.cuh"

namespace gpudnn::kernels::small_c {

template <int kRow>
void launch_row(const Params& params, CUstream_st* stream) {
  launch_data_row<kRow>(params, stream);
}

template void launch_row<6>(const Params&, CUstream_st*);
template void launch_row<7>(const Params&, CUstream_st*);
template void launch_row<8>(const Params&, CUstream_st*);
template void launch_row<9>(const Params&, CUstream_st*);
template void launch_row<10>(const Params&, CUstream_st*);
template void launch_row<11>(const Params&, CUstream_st*);

}  // namespace gpudnn::kernels::small_c
