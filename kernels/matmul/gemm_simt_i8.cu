// Instances of the general matrix product: operands of i8.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul/gemm_simt.cuh"

namespace gpudnn::kernels::matmul {

template void launch_gemm_simt_type<std::int8_t, std::int32_t>(const GemmParams&, int, unsigned, cudaStream_t);

}  // namespace gpudnn::kernels::matmul
