// The list of the convolution engines.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/engine.hpp"
#include "ops/conv/host_direct.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/conv/conv1x1/conv1x1_nchw_sm90.hpp"
#include "ops/conv/conv1x1/conv1x1_small_c_sm80.hpp"
#include "ops/conv/direct/direct_sm90.hpp"
#include "ops/conv/direct/direct_wgrad_sm90.hpp"
#include "ops/conv/implicit_gemm/implicit_gemm_simt.hpp"
#include "ops/conv/implicit_gemm/implicit_gemm_sm80.hpp"
#include "ops/conv/implicit_gemm/implicit_gemm_sm90.hpp"
#include "ops/conv/small_c/small_c_dgrad_sm90.hpp"
#include "ops/conv/small_c/small_c_fwd_sm90.hpp"
#include "ops/conv/small_c/small_c_sm80.hpp"
#include "ops/conv/small_c/small_c_wgrad_sm90.hpp"
#include "ops/conv/small_c/smem_im2col_wgrad_sm90.hpp"
#include "ops/conv/transpose/nhwc_transpose_cuda.hpp"
#endif

namespace gpudnn::conv {

namespace {

constexpr std::uint8_t bit(Direction direction) { return static_cast<std::uint8_t>(1 << static_cast<int>(direction)); }
#ifdef GPUDNN_WITH_CUDA
constexpr std::uint8_t kForward = bit(Direction::forward);
constexpr std::uint8_t kData = bit(Direction::dgrad);
constexpr std::uint8_t kFilter = bit(Direction::wgrad);
constexpr std::uint8_t kAll = kForward | kData | kFilter;
constexpr std::int16_t kFew = 8;  // channels of x
constexpr Reach kOfImages = {kForward | kData};
constexpr Reach kOfFilters = {kFilter};
constexpr Reach kPointwise = {kAll, true};
constexpr Reach kConv1x1SmallC = {kForward | kData, true, Reach::kNoLimit, 64};
constexpr Reach kSmallC = {kAll, false, kFew};
constexpr Reach kFewForward = {kForward, false, kFew};
constexpr Reach kFewData = {kData, false, kFew};
constexpr Reach kFewFilter = {kFilter, false, kFew};
#endif

}  // namespace

[[gnu::hot]] bool may_take(const Reach& reach, const Problem& problem) noexcept {
  if ((reach.directions & bit(problem.direction)) == 0) return false;
  if (reach.channels < Reach::kNoLimit && problem.x.dims[1] > reach.channels) return false;
  const TensorGeometry& summed = problem.direction == Direction::dgrad ? problem.y : problem.x;
  if (reach.summed < Reach::kNoLimit && summed.dims[1] > reach.summed) return false;
  for (int i = 0; reach.pointwise && i < problem.spatial; ++i) {
    if (problem.w.dims[2 + i] != 1) return false;
  }
  return true;
}

[[gnu::hot]] std::span<const ConvEngine> engines() noexcept {
  static constexpr ConvEngine kEngines[] = {
#ifdef GPUDNN_WITH_CUDA
      {.name = "implicit_gemm_sm90",
       .backend = GPUDNN_BACKEND_CUDA,
       .math = GPUDNN_TENSOR_OP_MATH,
       .alignment = 16,
       .supports = &implicit_gemm_sm90_supports,
       .least_seconds = &implicit_gemm_sm90_least_seconds,
       .closer_seconds = &implicit_gemm_sm90_closer_seconds,
       .fastest = &implicit_gemm_sm90_fastest,
       .candidates = &implicit_gemm_sm90_candidates,
       .workspace = &implicit_gemm_sm90_workspace,
       .prepare = &implicit_gemm_sm90_prepare,
       .launch = &implicit_gemm_sm90_launch},
      {.name = "small_c_sm80",
       .backend = GPUDNN_BACKEND_CUDA,
       .math = GPUDNN_TENSOR_OP_MATH,
       .reach = kSmallC,
       .supports = &small_c_sm80_supports,
       .least_seconds = &small_c_sm80_least_seconds,
       .fastest = &small_c_sm80_fastest,
       .candidates = &small_c_sm80_candidates,
       .workspace = &small_c_sm80_workspace,
       .prepare = &small_c_sm80_prepare,
       .launch = &small_c_sm80_launch},
      {.name = "implicit_gemm_sm80",
       .backend = GPUDNN_BACKEND_CUDA,
       .math = GPUDNN_TENSOR_OP_MATH,
       .supports = &implicit_gemm_sm80_supports,
       .least_seconds = &implicit_gemm_sm80_least_seconds,
       .closer_seconds = &implicit_gemm_sm80_closer_seconds,
       .fastest = &implicit_gemm_sm80_fastest,
       .candidates = &implicit_gemm_sm80_candidates,
       .lean_candidates = &implicit_gemm_sm80_lean_candidates,
       .workspace = &implicit_gemm_sm80_workspace,
       .prepare = &implicit_gemm_sm80_prepare,
       .launch = &implicit_gemm_sm80_launch},
      {.name = "nhwc_transpose",
       .backend = GPUDNN_BACKEND_CUDA,
       .math = GPUDNN_TENSOR_OP_MATH,
       .alignment = 16,
       .copies = true,
       .supports = &nhwc_transpose_supports,
       .least_seconds = &nhwc_transpose_least_seconds,
       .fastest = &nhwc_transpose_fastest,
       .candidates = &nhwc_transpose_candidates,
       .lean_candidates = &nhwc_transpose_lean_candidates,
       .workspace = &nhwc_transpose_workspace,
       .prepare = &nhwc_transpose_prepare,
       .launch = &nhwc_transpose_launch},
      // Behind nhwc_transpose, whose measured configs name their inner engine by its place in this list; new ones come
      // before the last, which is none of these.
      {.name = "direct_sm90",
       .backend = GPUDNN_BACKEND_CUDA,
       .math = GPUDNN_TENSOR_OP_MATH,
       .alignment = 16,
       .reach = kOfImages,
       .supports = &direct_sm90_supports,
       .fastest = &direct_sm90_fastest,
       .candidates = &direct_sm90_candidates,
       .workspace = &direct_sm90_workspace,
       .prepare = &direct_sm90_prepare,
       .launch = &direct_sm90_launch},
      {.name = "conv1x1_nchw_sm90",
       .backend = GPUDNN_BACKEND_CUDA,
       .math = GPUDNN_TENSOR_OP_MATH,
       .alignment = 16,
       .reach = kPointwise,
       .supports = &conv1x1_nchw_sm90_supports,
       .candidates = &conv1x1_nchw_sm90_candidates,
       .workspace = &conv1x1_nchw_sm90_workspace,
       .prepare = &conv1x1_nchw_sm90_prepare,
       .launch = &conv1x1_nchw_sm90_launch},
      {.name = "small_c_fwd_sm90",
       .backend = GPUDNN_BACKEND_CUDA,
       .math = GPUDNN_TENSOR_OP_MATH,
       .alignment = 16,
       .reach = kFewForward,
       .supports = &small_c_fwd_sm90_supports,
       .least_seconds = &small_c_fwd_sm90_least_seconds,
       .fastest = &small_c_fwd_sm90_fastest,
       .candidates = &small_c_fwd_sm90_candidates,
       .workspace = &small_c_fwd_sm90_workspace,
       .prepare = &small_c_fwd_sm90_prepare,
       .launch = &small_c_fwd_sm90_launch},
      {.name = "small_c_dgrad_sm90",
       .backend = GPUDNN_BACKEND_CUDA,
       .math = GPUDNN_TENSOR_OP_MATH,
       .alignment = 16,
       .reach = kFewData,
       .supports = &small_c_dgrad_sm90_supports,
       .fastest = &small_c_dgrad_sm90_fastest,
       .candidates = &small_c_dgrad_sm90_candidates,
       .workspace = &small_c_dgrad_sm90_workspace,
       .prepare = &small_c_dgrad_sm90_prepare,
       .launch = &small_c_dgrad_sm90_launch},
      {.name = "small_c_wgrad_sm90",
       .backend = GPUDNN_BACKEND_CUDA,
       .math = GPUDNN_TENSOR_OP_MATH,
       .alignment = 16,
       .reach = kFewFilter,
       .supports = &small_c_wgrad_sm90_supports,
       .least_seconds = &small_c_wgrad_sm90_least_seconds,
       .fastest = &small_c_wgrad_sm90_fastest,
       .candidates = &small_c_wgrad_sm90_candidates,
       .workspace = &small_c_wgrad_sm90_workspace,
       .prepare = &small_c_wgrad_sm90_prepare,
       .launch = &small_c_wgrad_sm90_launch},
      {.name = "direct_wgrad_sm90",
       .backend = GPUDNN_BACKEND_CUDA,
       .math = GPUDNN_TENSOR_OP_MATH,
       .alignment = 16,
       .reach = kOfFilters,
       .supports = &direct_wgrad_sm90_supports,
       .candidates = &direct_wgrad_sm90_candidates,
       .workspace = &direct_wgrad_sm90_workspace,
       .prepare = &direct_wgrad_sm90_prepare,
       .launch = &direct_wgrad_sm90_launch},
      {.name = "conv1x1_small_c_sm80",
       .backend = GPUDNN_BACKEND_CUDA,
       .math = GPUDNN_TENSOR_OP_MATH,
       .alignment = 16,
       .reach = kConv1x1SmallC,
       .supports = &conv1x1_small_c_sm80_supports,
       .candidates = &conv1x1_small_c_sm80_candidates,
       .workspace = &conv1x1_small_c_sm80_workspace,
       .prepare = &conv1x1_small_c_sm80_prepare,
       .launch = &conv1x1_small_c_sm80_launch},
      {.name = "smem_im2col_wgrad_sm90",
       .backend = GPUDNN_BACKEND_CUDA,
       .math = GPUDNN_TENSOR_OP_MATH,
       .alignment = 16,
       .reach = kFewFilter,
       .supports = &smem_im2col_wgrad_sm90_supports,
       .least_seconds = &smem_im2col_wgrad_sm90_least_seconds,
       .fastest = &smem_im2col_wgrad_sm90_fastest,
       .candidates = &smem_im2col_wgrad_sm90_candidates,
       .workspace = &smem_im2col_wgrad_sm90_workspace,
       .prepare = &smem_im2col_wgrad_sm90_prepare,
       .launch = &smem_im2col_wgrad_sm90_launch},
      {.name = "implicit_gemm_simt",
       .backend = GPUDNN_BACKEND_CUDA,
       .math = GPUDNN_FMA_MATH,
       .supports = &implicit_gemm_simt_supports,
       .least_seconds = &implicit_gemm_simt_least_seconds,
       .fastest = &implicit_gemm_simt_fastest,
       .candidates = &implicit_gemm_simt_candidates,
       .lean_candidates = &implicit_gemm_simt_lean_candidates,
       .workspace = &implicit_gemm_simt_workspace,
       .prepare = &implicit_gemm_simt_prepare,
       .launch = &implicit_gemm_simt_launch},
#endif
      {.name = "host_direct",
       .backend = GPUDNN_BACKEND_HOST,
       .supports = &host_direct_supports,
       .candidates = &host_direct_candidates,
       .workspace = &host_direct_workspace,
       .prepare = &host_direct_prepare,
       .launch = &host_direct_launch},
  };
  static_assert(std::size(kEngines) <= kMaxEngines);
  return kEngines;
}

}  // namespace gpudnn::conv
