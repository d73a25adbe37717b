// Instances of the SIMT implicit GEMM: float, 64 x 64 (row 3 of kTiles), and the wide one (row 7).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/implicit_gemm/implicit_gemm_simt_rows.cuh"

namespace gpudnn::kernels::simt {

template void launch_row<3>(const Params&, std::uint32_t, CUstream_st*);
template void launch_row<7>(const Params&, std::uint32_t, CUstream_st*);

}  // namespace gpudnn::kernels::simt
