// Launcher of the Hopper direct filter gradient: problem + config -> parameters and tensor maps -> launch.
//
// The maps are made once for each plan, by the driver, with addresses to be replaced at each launch.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/direct/direct_wgrad_sm90_params.hpp"
#include "ops/conv/launch_workspace.hpp"
#include "ops/conv/sm90_launch.hpp"

namespace gpudnn::conv {
namespace {

namespace direct = kernels::direct_wgrad;

bool encode(DirectWgradPlan* plan) {
  direct::Params& p = plan->params;
  return encode_rows(plan->x, plan->type, &p.x) && encode_rows(plan->dy, plan->type, &p.dy) &&
         (!plan->has_rest || encode_rows(plan->x_rest, plan->type, &p.x_rest));
}

using Prepared = Encoded<DirectWgradPlan>;

std::shared_ptr<const void> prepare(const Problem& problem, const Config& config, const Device& device) {
  return encoded(direct_wgrad_plan(problem, config, device), device, &encode);
}

Status launch(const LaunchSite& site, const void* prepared, const Args& args) {
  const auto& known = *static_cast<const Prepared*>(prepared);
  GPUDNN_TRY(require_maps(known.encoded));
  GPUDNN_TRY(require_workspace(site, known.plan.workspace));
  direct::Params p = known.plan.params;
  p.alpha = static_cast<float>(args.alpha);
  p.beta = static_cast<float>(args.beta);
  p.dw = args.out;
  p.partials = static_cast<float*>(align_up(site.workspace, direct::kWorkspaceAlignment));
  GPUDNN_TRY(replace_addresses(site, [&] {
    return cuda::replace_address(&p.x, args.x) && cuda::replace_address(&p.dy, args.y) &&
           (!known.plan.has_rest || cuda::replace_address(&p.x_rest, args.x));
  }));
  direct::launch(known.plan.type, p, site.stream);
  return cuda::launch_status("direct_wgrad_sm90");
}

}  // namespace

extern const ConvEngine kDirectWgradSm90 = {.name = "direct_wgrad_sm90",
                                            .math = GPUDNN_TENSOR_OP_MATH,
                                            .alignment = 16,
                                            .supports = &sm90_supports<&direct_wgrad_unsupported_reason>,
                                            .candidates = &direct_wgrad_candidates,
                                            .prepare = &prepare,
                                            .launch = &launch};

}  // namespace gpudnn::conv
