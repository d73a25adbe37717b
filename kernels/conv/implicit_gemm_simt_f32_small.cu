// Instances of the SIMT implicit GEMM: float, the small tiles (rows 3 to 6 of kTiles), the wide one (row 7) and the one
// for 12 columns (row 16).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/implicit_gemm_simt.cuh"

namespace gpudnn::kernels::simt {

template <int kRow>
void launch_row(const Params& params, std::uint32_t blocks, CUstream_st* stream) {
  if constexpr (kTiles[kRow].wide) {
    launch_instance<Instance<kRow>>(params, blocks, stream);
  } else {
    launch_with_fixed_modes<kRow>(params, blocks, stream, std::make_index_sequence<std::size(kFixedModes)>());
  }
}

template void launch_row<3>(const Params&, std::uint32_t, CUstream_st*);
template void launch_row<4>(const Params&, std::uint32_t, CUstream_st*);
template void launch_row<5>(const Params&, std::uint32_t, CUstream_st*);
template void launch_row<6>(const Params&, std::uint32_t, CUstream_st*);
template void launch_row<7>(const Params&, std::uint32_t, CUstream_st*);
template void launch_row<16>(const Params&, std::uint32_t, CUstream_st*);

}  // namespace gpudnn::kernels::simt
