// Launcher of the Hopper filter gradient by rows of patches: problem + config -> parameters and tensor maps -> launch.
//
// The maps are made once for each plan, by the driver, with addresses to be replaced at each launch.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/conv/launch_workspace.hpp"
#include "ops/conv/sm90_launch.hpp"
#include "ops/conv/small_c/smem_im2col_wgrad_sm90_params.hpp"

namespace gpudnn::conv {
namespace {

namespace rows = kernels::smem_im2col_wgrad;

using Prepared = Encoded<SmemIm2colWgradPlan>;

bool encode(SmemIm2colWgradPlan* plan) {
  rows::Params& p = plan->params;
  // TMA has no element wider than 8 bytes, and boxes of 256 of them.
  return encode_rows(plan->dy, plan->type, &p.dy) &&
         cuda::encode_boxes(plan->x, {.type = CU_TENSOR_MAP_DATA_TYPE_FLOAT64}, &p.x);
}

std::shared_ptr<const void> prepare(const Problem& problem, const Config& config, const Device& device) {
  return encoded(smem_im2col_wgrad_plan(problem, config, device), device, &encode);
}

Status launch(const LaunchSite& site, const void* prepared, const Args& args) {
  const auto& known = *static_cast<const Prepared*>(prepared);
  GPUDNN_TRY(require_maps(known.encoded));
  GPUDNN_TRY(require_workspace(site, known.plan.workspace));
  rows::Params p = known.plan.params;
  p.alpha = static_cast<float>(args.alpha);
  p.beta = static_cast<float>(args.beta);
  p.dw = args.out;
  p.partials = static_cast<float*>(align_up(site.workspace, rows::kWorkspaceAlignment));
  GPUDNN_TRY(replace_addresses(
      site, [&] { return cuda::replace_address(&p.dy, args.y) && cuda::replace_address(&p.x, args.x); }));
  rows::launch(known.plan.shape, known.plan.type, p, site.stream);
  return cuda::launch_status("smem_im2col_wgrad_sm90");
}

}  // namespace

extern const ConvEngine kSmemIm2colWgradSm90 = {.name = "smem_im2col_wgrad_sm90",
                                                .math = GPUDNN_TENSOR_OP_MATH,
                                                .alignment = 16,
                                                .supports = &sm90_supports<&smem_im2col_wgrad_unsupported_reason>,
                                                .candidates = &smem_im2col_wgrad_candidates,
                                                .prepare = &prepare,
                                                .launch = &launch};

}  // namespace gpudnn::conv
