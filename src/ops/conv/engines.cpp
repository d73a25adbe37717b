// The list of the convolution engines.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/engine.hpp"
#include "ops/conv/host_direct.hpp"
#include "ops/conv/host_gemm.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/conv/few_channels_data_sm90.hpp"
#include "ops/conv/few_channels_filter_sm90.hpp"
#include "ops/conv/few_channels_forward_sm90.hpp"
#include "ops/conv/few_channels_sm80.hpp"
#include "ops/conv/halo_filter_sm90.hpp"
#include "ops/conv/halo_sm90.hpp"
#include "ops/conv/implicit_gemm_simt.hpp"
#include "ops/conv/implicit_gemm_sm80.hpp"
#include "ops/conv/implicit_gemm_sm90.hpp"
#include "ops/conv/patch_rows_filter_sm90.hpp"
#include "ops/conv/pointwise_few_channels_sm80.hpp"
#include "ops/conv/pointwise_planes_sm90.hpp"
#include "ops/conv/via_nhwc_cuda.hpp"
#endif

namespace gpudnn::conv {

namespace {

constexpr std::uint8_t bit(Direction direction) { return static_cast<std::uint8_t>(1 << static_cast<int>(direction)); }
#ifdef GPUDNN_WITH_CUDA
constexpr std::uint8_t kForward = bit(Direction::forward);
constexpr std::uint8_t kData = bit(Direction::backward_data);
constexpr std::uint8_t kFilter = bit(Direction::backward_filter);
constexpr std::uint8_t kAll = kForward | kData | kFilter;
constexpr std::int16_t kFew = 8;  // channels of x
constexpr Reach kOfImages = {kForward | kData};
constexpr Reach kOfFilters = {kFilter};
constexpr Reach kPointwise = {kAll, true};
constexpr Reach kPointwiseFew = {kForward | kData, true, Reach::kNoLimit, 64};
constexpr Reach kFewChannels = {kAll, false, kFew};
constexpr Reach kFewForward = {kForward, false, kFew};
constexpr Reach kFewData = {kData, false, kFew};
constexpr Reach kFewFilter = {kFilter, false, kFew};
#endif

}  // namespace

[[gnu::hot]] bool may_take(const Reach& reach, const Problem& problem) noexcept {
  if ((reach.directions & bit(problem.direction)) == 0) return false;
  if (reach.channels < Reach::kNoLimit && problem.x.dims[1] > reach.channels) return false;
  const TensorGeometry& summed = problem.direction == Direction::backward_data ? problem.y : problem.x;
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
      {.name = "few_channels_sm80",
       .backend = GPUDNN_BACKEND_CUDA,
       .math = GPUDNN_TENSOR_OP_MATH,
       .reach = kFewChannels,
       .supports = &few_channels_sm80_supports,
       .least_seconds = &few_channels_sm80_least_seconds,
       .fastest = &few_channels_sm80_fastest,
       .candidates = &few_channels_sm80_candidates,
       .workspace = &few_channels_sm80_workspace,
       .prepare = &few_channels_sm80_prepare,
       .launch = &few_channels_sm80_launch},
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
      {.name = "via_nhwc",
       .backend = GPUDNN_BACKEND_CUDA,
       .math = GPUDNN_TENSOR_OP_MATH,
       .alignment = 16,
       .copies = true,
       .supports = &via_nhwc_supports,
       .least_seconds = &via_nhwc_least_seconds,
       .fastest = &via_nhwc_fastest,
       .candidates = &via_nhwc_candidates,
       .lean_candidates = &via_nhwc_lean_candidates,
       .workspace = &via_nhwc_workspace,
       .prepare = &via_nhwc_prepare,
       .launch = &via_nhwc_launch},
      // Behind via_nhwc, whose measured configs name their inner engine by its place in this list; new ones come before
      // the last, which is none of these.
      {.name = "halo_sm90",
       .backend = GPUDNN_BACKEND_CUDA,
       .math = GPUDNN_TENSOR_OP_MATH,
       .alignment = 16,
       .reach = kOfImages,
       .supports = &halo_sm90_supports,
       .fastest = &halo_sm90_fastest,
       .candidates = &halo_sm90_candidates,
       .workspace = &halo_sm90_workspace,
       .prepare = &halo_sm90_prepare,
       .launch = &halo_sm90_launch},
      {.name = "pointwise_planes_sm90",
       .backend = GPUDNN_BACKEND_CUDA,
       .math = GPUDNN_TENSOR_OP_MATH,
       .alignment = 16,
       .reach = kPointwise,
       .supports = &pointwise_planes_sm90_supports,
       .candidates = &pointwise_planes_sm90_candidates,
       .workspace = &pointwise_planes_sm90_workspace,
       .prepare = &pointwise_planes_sm90_prepare,
       .launch = &pointwise_planes_sm90_launch},
      {.name = "few_channels_forward_sm90",
       .backend = GPUDNN_BACKEND_CUDA,
       .math = GPUDNN_TENSOR_OP_MATH,
       .alignment = 16,
       .reach = kFewForward,
       .supports = &few_channels_forward_sm90_supports,
       .least_seconds = &few_channels_forward_sm90_least_seconds,
       .fastest = &few_channels_forward_sm90_fastest,
       .candidates = &few_channels_forward_sm90_candidates,
       .workspace = &few_channels_forward_sm90_workspace,
       .prepare = &few_channels_forward_sm90_prepare,
       .launch = &few_channels_forward_sm90_launch},
      {.name = "few_channels_data_sm90",
       .backend = GPUDNN_BACKEND_CUDA,
       .math = GPUDNN_TENSOR_OP_MATH,
       .alignment = 16,
       .reach = kFewData,
       .supports = &few_channels_data_sm90_supports,
       .fastest = &few_channels_data_sm90_fastest,
       .candidates = &few_channels_data_sm90_candidates,
       .workspace = &few_channels_data_sm90_workspace,
       .prepare = &few_channels_data_sm90_prepare,
       .launch = &few_channels_data_sm90_launch},
      {.name = "few_channels_filter_sm90",
       .backend = GPUDNN_BACKEND_CUDA,
       .math = GPUDNN_TENSOR_OP_MATH,
       .alignment = 16,
       .reach = kFewFilter,
       .supports = &few_channels_filter_sm90_supports,
       .least_seconds = &few_channels_filter_sm90_least_seconds,
       .fastest = &few_channels_filter_sm90_fastest,
       .candidates = &few_channels_filter_sm90_candidates,
       .workspace = &few_channels_filter_sm90_workspace,
       .prepare = &few_channels_filter_sm90_prepare,
       .launch = &few_channels_filter_sm90_launch},
      {.name = "halo_filter_sm90",
       .backend = GPUDNN_BACKEND_CUDA,
       .math = GPUDNN_TENSOR_OP_MATH,
       .alignment = 16,
       .reach = kOfFilters,
       .supports = &halo_filter_sm90_supports,
       .candidates = &halo_filter_sm90_candidates,
       .workspace = &halo_filter_sm90_workspace,
       .prepare = &halo_filter_sm90_prepare,
       .launch = &halo_filter_sm90_launch},
      {.name = "pointwise_few_channels_sm80",
       .backend = GPUDNN_BACKEND_CUDA,
       .math = GPUDNN_TENSOR_OP_MATH,
       .alignment = 16,
       .reach = kPointwiseFew,
       .supports = &pointwise_few_channels_sm80_supports,
       .candidates = &pointwise_few_channels_sm80_candidates,
       .workspace = &pointwise_few_channels_sm80_workspace,
       .prepare = &pointwise_few_channels_sm80_prepare,
       .launch = &pointwise_few_channels_sm80_launch},
      {.name = "patch_rows_filter_sm90",
       .backend = GPUDNN_BACKEND_CUDA,
       .math = GPUDNN_TENSOR_OP_MATH,
       .alignment = 16,
       .reach = kFewFilter,
       .supports = &patch_rows_filter_sm90_supports,
       .least_seconds = &patch_rows_filter_sm90_least_seconds,
       .fastest = &patch_rows_filter_sm90_fastest,
       .candidates = &patch_rows_filter_sm90_candidates,
       .workspace = &patch_rows_filter_sm90_workspace,
       .prepare = &patch_rows_filter_sm90_prepare,
       .launch = &patch_rows_filter_sm90_launch},
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
      {.name = "host_gemm",
       .backend = GPUDNN_BACKEND_HOST,
       .supports = &host_gemm_supports,
       .candidates = &host_gemm_candidates,
       .workspace = &host_gemm_workspace,
       .prepare = &host_gemm_prepare,
       .launch = &host_gemm_launch},
      {.name = "host_direct",
       .backend = GPUDNN_BACKEND_HOST,
       .supports = &host_direct_supports,
       .candidates = &host_direct_candidates,
       .workspace = &host_direct_workspace,
       .prepare = &host_direct_prepare,
       .launch = &host_direct_launch},
  };
  static_assert(std::size(kEngines) <= kMostEngines);
  return kEngines;
}

}  // namespace gpudnn::conv
