// Instances of the SIMT implicit GEMM: float, the large tiles (rows 0 to 2 of kTiles).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/implicit_gemm_simt.cuh"

namespace gpudnn::kernels::simt {

template <int kRow>
void launch_row(const Params& params, std::uint32_t blocks, CUstream_st* stream) {
  launch_with_fixed_modes<kRow>(params, blocks, stream, std::make_index_sequence<std::size(kFixedModes)>());
}

template void launch_row<0>(const Params&, std::uint32_t, CUstream_st*);
template void launch_row<1>(const Params&, std::uint32_t, CUstream_st*);
template void launch_row<2>(const Params&, std::uint32_t, CUstream_st*);

}  // namespace gpudnn::kernels::simt
