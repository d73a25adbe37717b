// Instances of the mma.sync implicit GEMM: bfloat16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/implicit_gemm/implicit_gemm_sm80.cuh"

namespace gpudnn::kernels::sm80 {

template <>
void launch_type<ElementType::bf16>(int row, const Params& params, std::uint32_t blocks, CUstream_st* stream) {
  launch_rows<ElementType::bf16>(row, params, blocks, stream, std::make_index_sequence<kTileCount>());
}

}  // namespace gpudnn::kernels::sm80
