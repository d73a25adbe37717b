// Instances of the SIMT implicit GEMM: float, 256 x 4 (row 6 of kTiles). One instance for all load modes: most problems
// of so few columns go to few_terms_simt.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/implicit_gemm/implicit_gemm_simt.cuh"

namespace gpudnn::kernels::simt {

template <>
void launch_row<6>(const Params& params, std::uint32_t blocks, CUstream_st* stream) {
  launch_instance<Instance<6>>(params, blocks, stream);
}

}  // namespace gpudnn::kernels::simt
