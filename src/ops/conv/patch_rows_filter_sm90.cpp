// Launcher of the Hopper filter gradient by rows of patches: problem + config -> parameters and tensor maps -> launch.
//
// The maps are made once for each plan, by the driver, with addresses to be replaced at each launch.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/patch_rows_filter_sm90.hpp"

#include "core/tensor_map_cuda.hpp"
#include "ops/conv/launch_workspace.hpp"
#include "ops/conv/patch_rows_filter_sm90_params.hpp"

namespace gpudnn::conv {
namespace {

namespace rows = kernels::patch_rows_filter;

struct Prepared {
  PatchRowsFilterPlan plan;
  bool encoded = false;
};

bool encode(PatchRowsFilterPlan* plan) {
  rows::Params& p = plan->params;
  // The copy engine has no element wider than 8 bytes, and boxes of 256 of them.
  return cuda::encode_boxes({.extent = plan->dy.extent,
                             .step = plan->dy.step,
                             .box = plan->dy.box,
                             .type = cuda::map_type(plan->type),
                             .swizzle = CU_TENSOR_MAP_SWIZZLE_128B},
                            &p.dy) &&
         cuda::encode_boxes({.extent = plan->x.extent,
                             .step = plan->x.step,
                             .box = plan->x.box,
                             .type = CU_TENSOR_MAP_DATA_TYPE_FLOAT64},
                            &p.x);
}

}  // namespace

Support patch_rows_filter_sm90_supports(const Problem& problem, const Device& device) {
  if (device.compute_capability() != 90) return Support::no("it needs compute capability 9.0");
  if (const char* obstacle = patch_rows_filter_obstacle(problem)) return Support::no(obstacle);
  return cuda::makes_tensor_maps() ? Support::yes() : Support::no("the driver does not make tensor maps");
}

void patch_rows_filter_sm90_candidates(const Problem& problem, const Device& device,
                                       std::vector<Candidate>* candidates) {
  patch_rows_filter_candidates(problem, device.multiprocessors, candidates);
}

std::size_t patch_rows_filter_sm90_workspace(const Problem& problem, const Config& config) {
  return patch_rows_filter_workspace(problem, config);
}

std::shared_ptr<const void> patch_rows_filter_sm90_prepare(const Problem& problem, const Config& config,
                                                           const Device& device) {
  auto prepared = std::make_shared<Prepared>();
  const std::optional<PatchRowsFilterPlan> plan = patch_rows_filter_plan(problem, config, device.multiprocessors);
  if (!plan) return prepared;
  prepared->plan = *plan;
  prepared->encoded = cuda::with_context(device.ordinal, [&] { return encode(&prepared->plan); });
  return prepared;
}

Status patch_rows_filter_sm90_launch(const LaunchSite& site, const void* prepared, const Args& args) {
  const auto& known = *static_cast<const Prepared*>(prepared);
  GPUDNN_REQUIRE(known.encoded, GPUDNN_STATUS_INTERNAL_ERROR,
                 "the driver refused a tensor map for this problem; please report it with the problem's line");
  GPUDNN_TRY(require_workspace(site, known.plan.workspace));
  rows::Params p = known.plan.params;
  p.alpha = static_cast<float>(args.alpha);
  p.beta = static_cast<float>(args.beta);
  p.dw = args.out;
  p.partials = static_cast<float*>(align_up(site.workspace, rows::kWorkspaceAlignment));
  const bool replaced = cuda::with_context(
      site.device.ordinal, [&] { return cuda::replace_address(&p.dy, args.y) && cuda::replace_address(&p.x, args.x); });
  GPUDNN_REQUIRE(replaced, GPUDNN_STATUS_BAD_PARAM, "x or dy does not begin at a multiple of 16 bytes");
  rows::launch(known.plan.shape, known.plan.type, p, site.stream);
  return cuda::launch_status("patch_rows_filter_sm90");
}

}  // namespace gpudnn::conv
