// Launcher of the Hopper halo filter gradient: problem + config -> parameters and tensor maps -> launch.
//
// The maps are made once for each plan, by the driver, with addresses to be replaced at each launch.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/halo_filter_sm90.hpp"

#include "ops/conv/halo_filter_sm90_params.hpp"
#include "ops/conv/launch_workspace.hpp"
#include "ops/conv/sm90_launch.hpp"

namespace gpudnn::conv {
namespace {

namespace halo = kernels::halo_filter;

bool encode(HaloFilterPlan* plan) {
  halo::Params& p = plan->params;
  return encode_rows(plan->x, plan->type, &p.x) && encode_rows(plan->dy, plan->type, &p.dy) &&
         (!plan->has_rest || encode_rows(plan->x_rest, plan->type, &p.x_rest));
}

using Prepared = Encoded<HaloFilterPlan>;

}  // namespace

[[gnu::hot]] Support halo_filter_sm90_supports(const Problem& problem, const Device& device) {
  return sm90_supports(problem, device, &halo_filter_obstacle);
}

[[gnu::hot]] void halo_filter_sm90_candidates(const Problem& problem, const Device& device,
                                              std::vector<Candidate>* candidates) {
  halo_filter_candidates(problem, device.multiprocessors, candidates);
}

std::size_t halo_filter_sm90_workspace(const Problem& problem, const Config& config) {
  return halo_filter_workspace(problem, config);
}

std::shared_ptr<const void> halo_filter_sm90_prepare(const Problem& problem, const Config& config,
                                                     const Device& device) {
  return encoded(halo_filter_plan(problem, config, device.multiprocessors), device, &encode);
}

Status halo_filter_sm90_launch(const LaunchSite& site, const void* prepared, const Args& args) {
  const auto& known = *static_cast<const Prepared*>(prepared);
  GPUDNN_TRY(require_maps(known.encoded));
  GPUDNN_TRY(require_workspace(site, known.plan.workspace));
  halo::Params p = known.plan.params;
  p.alpha = static_cast<float>(args.alpha);
  p.beta = static_cast<float>(args.beta);
  p.dw = args.out;
  p.partials = static_cast<float*>(align_up(site.workspace, halo::kWorkspaceAlignment));
  const bool replaced = cuda::with_context(site.device.ordinal, [&] {
    return cuda::replace_address(&p.x, args.x) && cuda::replace_address(&p.dy, args.y) &&
           (!known.plan.has_rest || cuda::replace_address(&p.x_rest, args.x));
  });
  GPUDNN_REQUIRE(replaced, GPUDNN_STATUS_BAD_PARAM, "x or dy does not begin at a multiple of 16 bytes");
  halo::launch(known.plan.type, p, site.stream);
  return cuda::launch_status("halo_filter_sm90");
}

}  // namespace gpudnn::conv
