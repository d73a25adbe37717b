// The list of the convolution engines.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/engine.hpp"
#include "ops/conv/host_direct.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/conv/implicit_gemm_simt.hpp"
#endif

namespace gpudnn::conv {

std::span<const ConvEngine> engines() noexcept {
  static constexpr ConvEngine kEngines[] = {
#ifdef GPUDNN_WITH_CUDA
      {"implicit_gemm_simt", GPUDNN_BACKEND_CUDA, true, GPUDNN_FMA_MATH, &implicit_gemm_simt_supports,
       &implicit_gemm_simt_candidates, &implicit_gemm_simt_workspace, &implicit_gemm_simt_prepare,
       &implicit_gemm_simt_launch},
#endif
      {"host_direct", GPUDNN_BACKEND_HOST, true, GPUDNN_FMA_MATH, &host_direct_supports, &host_direct_candidates,
       &host_direct_workspace, &host_direct_prepare, &host_direct_launch},
  };
  return kEngines;
}

}  // namespace gpudnn::conv
