// Instances of the general matrix product: operands of f32.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul/gemm_simt.cuh"

namespace gpudnn::kernels::matmul {

template void launch_gemm_simt_type<float, float>(const GemmParams&, int, unsigned, cudaStream_t);

}  // namespace gpudnn::kernels::matmul
