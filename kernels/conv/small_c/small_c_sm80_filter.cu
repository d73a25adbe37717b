// Instances of the filter gradient of images with few channels.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/small_c/small_c_sm80_filter.cuh"

namespace gpudnn::kernels::small_c {

template <int kRow>
void launch_row(const Params& params, CUstream_st* stream) {
  launch_filter_row<kRow>(params, stream);
}

template void launch_row<12>(const Params&, CUstream_st*);
template void launch_row<13>(const Params&, CUstream_st*);
template void launch_row<14>(const Params&, CUstream_st*);
template void launch_row<15>(const Params&, CUstream_st*);
template void launch_row<16>(const Params&, CUstream_st*);
template void launch_row<17>(const Params&, CUstream_st*);
template void launch_row<18>(const Params&, CUstream_st*);
template void launch_row<19>(const Params&, CUstream_st*);
template void launch_row<20>(const Params&, CUstream_st*);

}  // namespace gpudnn::kernels::small_c
