// The list of the engines of the matrix product.
// SPDX-License-Identifier: Apache-2.0
#include "ops/matmul/engine.hpp"
#include "ops/matmul/host_reference.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/matmul/gemm_simt.hpp"
#endif

namespace gpudnn::matmul {

std::span<const MatmulEngine> engines() noexcept {
  static constexpr MatmulEngine kEngines[] = {
#ifdef GPUDNN_WITH_CUDA
      {.name = "gemm_simt",
       .backend = GPUDNN_BACKEND_CUDA,
       .math = GPUDNN_FMA_MATH,
       .supports = &gemm_simt_supports,
       .candidates = &gemm_simt_candidates,
       .workspace = &gemm_simt_workspace,
       .prepare = &gemm_simt_prepare,
       .launch = &gemm_simt_launch},
#endif
      {.name = "host_reference",
       .backend = GPUDNN_BACKEND_HOST,
       .supports = &host_reference_supports,
       .candidates = &host_reference_candidates,
       .workspace = &host_reference_workspace,
       .prepare = &host_reference_prepare,
       .launch = &host_reference_launch},
  };
  return kEngines;
}

}  // namespace gpudnn::matmul
