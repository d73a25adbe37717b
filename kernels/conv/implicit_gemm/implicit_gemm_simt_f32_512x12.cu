// Instances of the SIMT implicit GEMM: float, 512 x 12 (row 16 of kTiles).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/implicit_gemm/implicit_gemm_simt_rows.cuh"

namespace gpudnn::kernels::simt {

template void launch_row<16>(const Params&, std::uint32_t, CUstream_st*);

}  // namespace gpudnn::kernels::simt
