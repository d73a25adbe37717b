// Instances of the SIMT implicit GEMM: float, 256 x 4 (row 6 of kTiles).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/implicit_gemm/implicit_gemm_simt_rows.cuh"

namespace gpudnn::kernels::simt {

template void launch_row<6>(const Params&, std::uint32_t, CUstream_st*);

}  // namespace gpudnn::kernels::simt
