// Instances of the SIMT implicit GEMM: float, 64 x 64 (row 3 of kTiles), A fetched along its rows, and the wide one
// (row 7). Small layers take this tile, so each half of its kernels is a module: all of them took 3.3 ms to load.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/implicit_gemm/implicit_gemm_simt_rows.cuh"

namespace gpudnn::kernels::simt {

void launch_64x64_along_k(const Params& params, std::uint32_t blocks, CUstream_st* stream);

template <>
void launch_row<3>(const Params& params, std::uint32_t blocks, CUstream_st* stream) {
  const LoadMode a = params.operand_a.mode;
  if (a == LoadMode::k_scalar || a == LoadMode::k_vector) return launch_64x64_along_k(params, blocks, stream);
  launch_with_fixed_modes<3>(params, blocks, stream, std::index_sequence<0, 1, 2, 3, 4, 5>());
}
template void launch_row<7>(const Params&, std::uint32_t, CUstream_st*);

}  // namespace gpudnn::kernels::simt
