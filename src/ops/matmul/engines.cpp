// The list of the engines of the matrix product.
// SPDX-License-Identifier: Apache-2.0
#include "ops/matmul/engine.hpp"
#include "ops/matmul/host.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/matmul/cublaslt.hpp"
#include "ops/matmul/gemm_padded_sm90.hpp"
#include "ops/matmul/gemm_simt.hpp"
#include "ops/matmul/gemm_sm80.hpp"
#include "ops/matmul/gemm_sm90.hpp"
#include "ops/matmul/gemm_split_sm90.hpp"
#include "ops/matmul/rows_split_sm90.hpp"
#endif

namespace gpudnn::matmul {

std::span<const MatmulEngine> engines() noexcept {
  static constexpr MatmulEngine kEngines[] = {
#ifdef GPUDNN_WITH_CUDA
      {.name = "gemm_sm90",
       .backend = GPUDNN_BACKEND_CUDA,
       .math = GPUDNN_TENSOR_OP_MATH,
       .alignment = 16,
       .supports = &gemm_sm90_supports,
       .candidates = &gemm_sm90_candidates,
       .workspace = &gemm_sm90_workspace,
       .takes_addresses = &gemm_sm90_takes_addresses,
       .prepare = &gemm_sm90_prepare,
       .launch = &gemm_sm90_launch},
      {.name = "gemm_padded_sm90",
       .backend = GPUDNN_BACKEND_CUDA,
       .math = GPUDNN_TENSOR_OP_MATH,
       .alignment = 16,
       .supports = &gemm_padded_sm90_supports,
       .candidates = &gemm_padded_sm90_candidates,
       .workspace = &gemm_padded_sm90_workspace,
       .takes_addresses = &gemm_padded_sm90_takes_addresses,
       .prepare = &gemm_padded_sm90_prepare,
       .launch = &gemm_padded_sm90_launch},
      {.name = "gemm_sm80",
       .backend = GPUDNN_BACKEND_CUDA,
       .math = GPUDNN_TENSOR_OP_MATH,
       .supports = &gemm_sm80_supports,
       .candidates = &gemm_sm80_candidates,
       .workspace = &gemm_sm80_workspace,
       .prepare = &gemm_sm80_prepare,
       .launch = &gemm_sm80_launch},
      {.name = "gemm_split_sm90",
       .backend = GPUDNN_BACKEND_CUDA,
       .math = GPUDNN_FMA_MATH,  // as accurate as products of floats
       .alignment = 16,
       .supports = &gemm_split_sm90_supports,
       .candidates = &gemm_split_sm90_candidates,
       .workspace = &gemm_split_sm90_workspace,
       .takes_addresses = &gemm_split_sm90_takes_addresses,
       .prepare = &gemm_split_sm90_prepare,
       .launch = &gemm_split_sm90_launch},
      {.name = "rows_split_sm90",
       .backend = GPUDNN_BACKEND_CUDA,
       .math = GPUDNN_FMA_MATH,
       .alignment = 16,
       .supports = &rows_split_sm90_supports,
       .candidates = &rows_split_sm90_candidates,
       .workspace = &rows_split_sm90_workspace,
       .takes_addresses = &rows_split_sm90_takes_addresses,
       .prepare = &rows_split_sm90_prepare,
       .launch = &rows_split_sm90_launch},
      {.name = "cublaslt",
       .backend = GPUDNN_BACKEND_CUDA,
       .math = GPUDNN_TENSOR_OP_MATH,
       .alignment = 16,
       .supports = &cublaslt_supports,
       .candidates = &cublaslt_candidates,
       .workspace = &cublaslt_workspace,
       .prepare = &cublaslt_prepare,
       .launch = &cublaslt_launch},
      {.name = "gemm_simt",
       .backend = GPUDNN_BACKEND_CUDA,
       .math = GPUDNN_FMA_MATH,
       .supports = &gemm_simt_supports,
       .candidates = &gemm_simt_candidates,
       .workspace = &gemm_simt_workspace,
       .prepare = &gemm_simt_prepare,
       .launch = &gemm_simt_launch},
#endif
      {.name = "host_gemm",
       .backend = GPUDNN_BACKEND_HOST,
       .supports = &host_supports,
       .candidates = &host_gemm_candidates,
       .workspace = &host_workspace,
       .prepare = &host_prepare,
       .launch = &host_gemm_launch},
      {.name = "host_reference",
       .backend = GPUDNN_BACKEND_HOST,
       .supports = &host_supports,
       .candidates = &host_reference_candidates,
       .workspace = &host_workspace,
       .prepare = &host_prepare,
       .launch = &host_reference_launch},
  };
  return kEngines;
}

}  // namespace gpudnn::matmul
