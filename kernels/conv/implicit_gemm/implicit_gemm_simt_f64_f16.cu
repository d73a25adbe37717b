// Instances of the SIMT implicit GEMM: double, half and bfloat16 (rows 8 to 15 of kTiles).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/implicit_gemm/implicit_gemm_simt_rows.cuh"

namespace gpudnn::kernels::simt {

template void launch_row<8>(const Params&, std::uint32_t, CUstream_st*);
template void launch_row<9>(const Params&, std::uint32_t, CUstream_st*);
template void launch_row<10>(const Params&, std::uint32_t, CUstream_st*);
template void launch_row<11>(const Params&, std::uint32_t, CUstream_st*);
template void launch_row<12>(const Params&, std::uint32_t, CUstream_st*);
template void launch_row<13>(const Params&, std::uint32_t, CUstream_st*);
template void launch_row<14>(const Params&, std::uint32_t, CUstream_st*);
template void launch_row<15>(const Params&, std::uint32_t, CUstream_st*);

}  // namespace gpudnn::kernels::simt
