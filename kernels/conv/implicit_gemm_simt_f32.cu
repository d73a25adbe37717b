// The float instances of the SIMT implicit GEMM: rows 0 to 7 of kTiles.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/implicit_gemm_simt.cuh"

namespace gpudnn::kernels::simt {

template <int kRow>
void launch_row(const Params& params, std::uint32_t blocks, CUstream_st* stream) {
  implicit_gemm_simt<kRow><<<blocks, Instance<kRow>::kThreads, 0, stream>>>(params);
}

template void launch_row<0>(const Params&, std::uint32_t, CUstream_st*);
template void launch_row<1>(const Params&, std::uint32_t, CUstream_st*);
template void launch_row<2>(const Params&, std::uint32_t, CUstream_st*);
template void launch_row<3>(const Params&, std::uint32_t, CUstream_st*);
template void launch_row<4>(const Params&, std::uint32_t, CUstream_st*);
template void launch_row<5>(const Params&, std::uint32_t, CUstream_st*);
template void launch_row<6>(const Params&, std::uint32_t, CUstream_st*);
template void launch_row<7>(const Params&, std::uint32_t, CUstream_st*);

}  // namespace gpudnn::kernels::simt
