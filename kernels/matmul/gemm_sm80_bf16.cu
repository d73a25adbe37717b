// Instances of the matrix product by mma.sync: operands of bf16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul/gemm_sm80.cuh"

namespace gpudnn::kernels::matmul {

template void launch_gemm_sm80_type<tile::BFloat16, float>(const GemmParams&, int, unsigned, cudaStream_t);

}  // namespace gpudnn::kernels::matmul
