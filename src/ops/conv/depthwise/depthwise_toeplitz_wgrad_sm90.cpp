// Launcher of the depthwise filter gradient by products of planes: problem + config -> parameters -> launch.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/depthwise/depthwise_toeplitz_wgrad_sm90_params.hpp"
#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/launch_workspace.hpp"
#include "ops/conv/padding.hpp"
#include "ops/element_type.hpp"

namespace gpudnn::conv {
namespace {

struct Prepared {
  DepthwiseToeplitzWgrad plan;
  tile::ElementType type = tile::ElementType::f16;
};

Support supports(const Problem& problem, const Device& device) {
  if (device.compute_capability() != 90) return Support::no("it needs compute capability 9.0");
  if (const char* const against = integer_unsupported_reason(problem)) return Support::no(against);
  if (const char* const against = uneven_padding_unsupported_reason(problem)) return Support::no(against);
  const char* const reason = depthwise_toeplitz_wgrad_unsupported_reason(problem);
  return reason == nullptr ? Support::yes() : Support::no(reason);
}

std::shared_ptr<const void> prepare(const Problem& problem, const Config& config, const Device& /*device*/) {
  auto prepared = std::make_shared<Prepared>();
  prepared->plan = depthwise_toeplitz_wgrad(problem, depthwise_toeplitz_wgrad_rows(config)).value();
  prepared->type = element_type(problem.x.type);
  return prepared;
}

Status launch(const LaunchSite& site, const void* state, const Args& args) {
  const auto& prepared = *static_cast<const Prepared*>(state);
  GPUDNN_TRY(require_workspace(site, prepared.plan.workspace));
  kernels::depthwise_toeplitz::WgradParams p = prepared.plan.params;
  p.x = args.x;
  p.dy = args.y;
  p.partials = static_cast<float*>(site.workspace);
  kernels::depthwise_toeplitz::launch_wgrad(prepared.plan.row, prepared.type, p, site.stream);
  kernels::small_group::Params sums = prepared.plan.sums;
  sums.partials = p.partials;
  sums.out = args.out;
  set_epilogue(args, &sums);
  if (prepared.type == tile::ElementType::f16) {
    kernels::small_group::launch_sums<tile::Half>(sums, prepared.plan.sum_shape, site.stream);
  } else {
    kernels::small_group::launch_sums<tile::BFloat16>(sums, prepared.plan.sum_shape, site.stream);
  }
  return cuda::launch_status("depthwise_toeplitz_wgrad_sm90");
}

}  // namespace

extern const ConvEngine kDepthwiseToeplitzWgradSm90 = {.name = "depthwise_toeplitz_wgrad_sm90",
                                                       .math = GPUDNN_TENSOR_OP_MATH,
                                                       .alignment = 16,
                                                       .supports = &supports,
                                                       .candidates = &depthwise_toeplitz_wgrad_candidates,
                                                       .prepare = &prepare,
                                                       .launch = &launch};

}  // namespace gpudnn::conv
