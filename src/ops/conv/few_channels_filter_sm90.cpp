// Launcher of the Hopper filter gradient of images with few channels: problem + config -> parameters and a tensor map
// -> launch.
//
// The map is made once for each plan, by the driver, with an address to be replaced at each launch.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/few_channels_filter_sm90.hpp"

#include <algorithm>

#include "ops/conv/few_channels_filter_sm90_params.hpp"
#include "ops/conv/launch_workspace.hpp"
#include "ops/conv/sm90_launch.hpp"

namespace gpudnn::conv {
namespace {

namespace few = kernels::few_channels_filter;

using Prepared = Encoded<FewChannelsFilterPlan>;

}  // namespace

Support few_channels_filter_sm90_supports(const Problem& problem, const Device& device) {
  return sm90_supports(problem, device, &few_channels_filter_obstacle);
}

void few_channels_filter_sm90_candidates(const Problem& problem, const Device& device,
                                         std::vector<Candidate>* candidates) {
  few_channels_filter_candidates(problem, device.multiprocessors, candidates);
}

double few_channels_filter_sm90_least_seconds(const Problem& problem, const Device& device) {
  return few_channels_filter_least_seconds(problem, std::max(device.multiprocessors, 1));
}

bool few_channels_filter_sm90_fastest(const Problem& problem, const Device& device, double bound, Candidate* fastest) {
  return sm90_runs_on(device) && few_channels_filter_fastest(problem, device.multiprocessors, bound, fastest);
}

std::size_t few_channels_filter_sm90_workspace(const Problem& problem, const Config& config) {
  return few_channels_filter_workspace(problem, config);
}

std::shared_ptr<const void> few_channels_filter_sm90_prepare(const Problem& problem, const Config& config,
                                                             const Device& device) {
  return encoded(few_channels_filter_plan(problem, config, device.multiprocessors), device,
                 [](FewChannelsFilterPlan* plan) { return encode_rows(plan->dy, plan->type, &plan->params.dy); });
}

Status few_channels_filter_sm90_launch(const LaunchSite& site, const void* prepared, const Args& args) {
  const auto& known = *static_cast<const Prepared*>(prepared);
  GPUDNN_TRY(require_maps(known.encoded));
  GPUDNN_TRY(require_workspace(site, known.plan.workspace));
  few::Params p = known.plan.params;
  p.alpha = static_cast<float>(args.alpha);
  p.beta = static_cast<float>(args.beta);
  p.dw = args.out;
  p.partials = static_cast<float*>(align_up(site.workspace, few::kWorkspaceAlignment));
  p.x = args.x;
  const bool replaced = cuda::with_context(site.device.ordinal, [&] { return cuda::replace_address(&p.dy, args.y); });
  GPUDNN_REQUIRE(replaced, GPUDNN_STATUS_BAD_PARAM, "dy does not begin at a multiple of 16 bytes");
  few::launch(known.plan.shape, known.plan.type, p, site.stream);
  return cuda::launch_status("few_channels_filter_sm90");
}

}  // namespace gpudnn::conv
