// Instances of the SIMT implicit GEMM: float, 64 x 64 (row 3 of kTiles), A fetched along k.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/implicit_gemm/implicit_gemm_simt_rows.cuh"

namespace gpudnn::kernels::simt {

void launch_64x64_along_k(const Params& params, std::uint32_t blocks, CUstream_st* stream);

void launch_64x64_along_k(const Params& params, std::uint32_t blocks, CUstream_st* stream) {
  launch_with_fixed_modes<3>(params, blocks, stream, std::index_sequence<6, 7, 8, 9>());
}

}  // namespace gpudnn::kernels::simt
