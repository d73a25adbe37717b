// Launcher of the Hopper filter gradient of images with few channels: problem + config -> parameters and a tensor map
// -> launch.
//
// The map is made once for each plan, by the driver, with an address to be replaced at each launch.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/conv/launch_workspace.hpp"
#include "ops/conv/sm90_launch.hpp"
#include "ops/conv/small_c/small_c_wgrad_sm90_params.hpp"

namespace gpudnn::conv {
namespace {

namespace few = kernels::small_c_wgrad;

using Prepared = Encoded<SmallCWgradPlan>;

std::shared_ptr<const void> prepare(const Problem& problem, const Config& config, const Device& device) {
  return encoded(small_c_wgrad_plan(problem, config, device), device,
                 [](SmallCWgradPlan* plan) { return encode_rows(plan->dy, plan->type, &plan->params.dy); });
}

Status launch(const LaunchSite& site, const void* prepared, const Args& args) {
  const auto& known = *static_cast<const Prepared*>(prepared);
  GPUDNN_TRY(require_maps(known.encoded));
  GPUDNN_TRY(require_workspace(site, known.plan.workspace));
  few::Params p = known.plan.params;
  p.alpha = static_cast<float>(args.alpha);
  p.beta = static_cast<float>(args.beta);
  p.dw = args.out;
  p.partials = static_cast<float*>(align_up(site.workspace, few::kWorkspaceAlignment));
  p.x = args.x;
  GPUDNN_TRY(replace_addresses(site, [&] { return cuda::replace_address(&p.dy, args.y); }));
  few::launch(known.plan.shape, known.plan.type, p, site.stream);
  return cuda::launch_status("small_c_wgrad_sm90");
}

}  // namespace

extern const ConvEngine kSmallCWgradSm90 = {.name = "small_c_wgrad_sm90",
                                            .math = GPUDNN_TENSOR_OP_MATH,
                                            .alignment = 16,
                                            .supports = &sm90_supports<&small_c_wgrad_unsupported_reason>,
                                            .candidates = &small_c_wgrad_candidates,
                                            .prepare = &prepare,
                                            .launch = &launch};

}  // namespace gpudnn::conv
