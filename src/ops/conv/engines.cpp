// The list of the convolution engines.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/engine.hpp"
#include "ops/conv/host_direct.hpp"
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
constexpr Reach kAnything;
#ifdef GPUDNN_WITH_CUDA
constexpr std::uint8_t kForward = bit(Direction::forward);
constexpr std::uint8_t kData = bit(Direction::backward_data);
constexpr std::uint8_t kFilter = bit(Direction::backward_filter);
constexpr std::uint8_t kAll = kForward | kData | kFilter;
constexpr std::int32_t kFew = 8;  // channels of x
constexpr Reach kOfImages = {kForward | kData};
constexpr Reach kOfFilters = {kFilter};
constexpr Reach kPointwise = {kAll, true};
constexpr Reach kPointwiseFew = {kForward | kData, true, kAnything.channels, 64};
constexpr Reach kFewChannels = {kAll, false, kFew};
constexpr Reach kFewForward = {kForward, false, kFew};
constexpr Reach kFewData = {kData, false, kFew};
constexpr Reach kFewFilter = {kFilter, false, kFew};
#endif

}  // namespace

[[gnu::hot]] bool may_take(const Reach& reach, const Problem& problem) noexcept {
  if ((reach.directions & bit(problem.direction)) == 0) return false;
  if (reach.channels < kAnything.channels && problem.x.dims[1] > reach.channels) return false;
  const TensorGeometry& summed = problem.direction == Direction::backward_data ? problem.y : problem.x;
  if (reach.summed < kAnything.summed && summed.dims[1] > reach.summed) return false;
  for (int i = 0; reach.pointwise && i < problem.spatial; ++i) {
    if (problem.w.dims[2 + i] != 1) return false;
  }
  return true;
}

[[gnu::hot]] std::span<const ConvEngine> engines() noexcept {
  static constexpr ConvEngine kEngines[] = {
#ifdef GPUDNN_WITH_CUDA
      {"implicit_gemm_sm90", GPUDNN_BACKEND_CUDA, true, 16, GPUDNN_TENSOR_OP_MATH, &implicit_gemm_sm90_supports,
       &implicit_gemm_sm90_candidates, &implicit_gemm_sm90_workspace, &implicit_gemm_sm90_prepare,
       &implicit_gemm_sm90_launch, &implicit_gemm_sm90_least_seconds, nullptr, kAnything, &implicit_gemm_sm90_fastest,
       &implicit_gemm_sm90_closer_seconds},
      {"few_channels_sm80", GPUDNN_BACKEND_CUDA, true, 1, GPUDNN_TENSOR_OP_MATH, &few_channels_sm80_supports,
       &few_channels_sm80_candidates, &few_channels_sm80_workspace, &few_channels_sm80_prepare,
       &few_channels_sm80_launch, &few_channels_sm80_least_seconds, nullptr, kFewChannels, &few_channels_sm80_fastest},
      {"implicit_gemm_sm80", GPUDNN_BACKEND_CUDA, true, 1, GPUDNN_TENSOR_OP_MATH, &implicit_gemm_sm80_supports,
       &implicit_gemm_sm80_candidates, &implicit_gemm_sm80_workspace, &implicit_gemm_sm80_prepare,
       &implicit_gemm_sm80_launch, &implicit_gemm_sm80_least_seconds, &implicit_gemm_sm80_lean_candidates, kAnything,
       &implicit_gemm_sm80_fastest, &implicit_gemm_sm80_closer_seconds},
      {"via_nhwc", GPUDNN_BACKEND_CUDA, true, 16, GPUDNN_TENSOR_OP_MATH, &via_nhwc_supports, &via_nhwc_candidates,
       &via_nhwc_workspace, &via_nhwc_prepare, &via_nhwc_launch, &via_nhwc_least_seconds, &via_nhwc_lean_candidates,
       kAnything, &via_nhwc_fastest, nullptr, true},
      // Behind via_nhwc, whose measured configs name their inner engine by its place in this list; new ones come before
      // the last, which is none of these.
      {"halo_sm90", GPUDNN_BACKEND_CUDA, true, 16, GPUDNN_TENSOR_OP_MATH, &halo_sm90_supports, &halo_sm90_candidates,
       &halo_sm90_workspace, &halo_sm90_prepare, &halo_sm90_launch, nullptr, nullptr, kOfImages, &halo_sm90_fastest},
      {"pointwise_planes_sm90", GPUDNN_BACKEND_CUDA, true, 16, GPUDNN_TENSOR_OP_MATH, &pointwise_planes_sm90_supports,
       &pointwise_planes_sm90_candidates, &pointwise_planes_sm90_workspace, &pointwise_planes_sm90_prepare,
       &pointwise_planes_sm90_launch, nullptr, nullptr, kPointwise},
      {"few_channels_forward_sm90", GPUDNN_BACKEND_CUDA, true, 16, GPUDNN_TENSOR_OP_MATH,
       &few_channels_forward_sm90_supports, &few_channels_forward_sm90_candidates, &few_channels_forward_sm90_workspace,
       &few_channels_forward_sm90_prepare, &few_channels_forward_sm90_launch, &few_channels_forward_sm90_least_seconds,
       nullptr, kFewForward, &few_channels_forward_sm90_fastest},
      {"few_channels_data_sm90", GPUDNN_BACKEND_CUDA, true, 16, GPUDNN_TENSOR_OP_MATH, &few_channels_data_sm90_supports,
       &few_channels_data_sm90_candidates, &few_channels_data_sm90_workspace, &few_channels_data_sm90_prepare,
       &few_channels_data_sm90_launch, nullptr, nullptr, kFewData, &few_channels_data_sm90_fastest},
      {"few_channels_filter_sm90", GPUDNN_BACKEND_CUDA, true, 16, GPUDNN_TENSOR_OP_MATH,
       &few_channels_filter_sm90_supports, &few_channels_filter_sm90_candidates, &few_channels_filter_sm90_workspace,
       &few_channels_filter_sm90_prepare, &few_channels_filter_sm90_launch, &few_channels_filter_sm90_least_seconds,
       nullptr, kFewFilter, &few_channels_filter_sm90_fastest},
      {"halo_filter_sm90", GPUDNN_BACKEND_CUDA, true, 16, GPUDNN_TENSOR_OP_MATH, &halo_filter_sm90_supports,
       &halo_filter_sm90_candidates, &halo_filter_sm90_workspace, &halo_filter_sm90_prepare, &halo_filter_sm90_launch,
       nullptr, nullptr, kOfFilters},
      {"pointwise_few_channels_sm80", GPUDNN_BACKEND_CUDA, true, 16, GPUDNN_TENSOR_OP_MATH,
       &pointwise_few_channels_sm80_supports, &pointwise_few_channels_sm80_candidates,
       &pointwise_few_channels_sm80_workspace, &pointwise_few_channels_sm80_prepare,
       &pointwise_few_channels_sm80_launch, nullptr, nullptr, kPointwiseFew},
      {"patch_rows_filter_sm90", GPUDNN_BACKEND_CUDA, true, 16, GPUDNN_TENSOR_OP_MATH, &patch_rows_filter_sm90_supports,
       &patch_rows_filter_sm90_candidates, &patch_rows_filter_sm90_workspace, &patch_rows_filter_sm90_prepare,
       &patch_rows_filter_sm90_launch, &patch_rows_filter_sm90_least_seconds, nullptr, kFewFilter,
       &patch_rows_filter_sm90_fastest},
      {"implicit_gemm_simt", GPUDNN_BACKEND_CUDA, true, 1, GPUDNN_FMA_MATH, &implicit_gemm_simt_supports,
       &implicit_gemm_simt_candidates, &implicit_gemm_simt_workspace, &implicit_gemm_simt_prepare,
       &implicit_gemm_simt_launch, &implicit_gemm_simt_least_seconds, &implicit_gemm_simt_lean_candidates, kAnything,
       &implicit_gemm_simt_fastest},
#endif
      {"host_direct", GPUDNN_BACKEND_HOST, true, 1, GPUDNN_FMA_MATH, &host_direct_supports, &host_direct_candidates,
       &host_direct_workspace, &host_direct_prepare, &host_direct_launch},
  };
  static_assert(std::size(kEngines) <= kMostEngines);
  return kEngines;
}

}  // namespace gpudnn::conv
