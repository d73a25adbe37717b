// Instances of the mma.sync implicit GEMM: float as TF32, part 0.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/implicit_gemm/implicit_gemm_sm80.cuh"

namespace gpudnn::kernels::sm80 {

template void launch_part<ElementType::f32, 0>(int, const Params&, std::uint32_t, CUstream_st*);

}  // namespace gpudnn::kernels::sm80
