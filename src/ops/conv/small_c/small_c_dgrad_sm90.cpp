// Launcher of the Hopper data gradient for images of few channels: problem + config -> parameters and tensor map ->
// launch.
//
// The tensor map is made once for each plan, by the driver, with an address to be replaced at each launch.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/sm90_launch.hpp"
#include "ops/conv/small_c/small_c_dgrad_sm90_params.hpp"

namespace gpudnn::conv {
namespace {

namespace data = kernels::small_c_dgrad;

using Prepared = Encoded<SmallCDgradPlan>;

std::shared_ptr<const void> prepare(const Problem& problem, const Config& config, const Device& device) {
  return encoded(small_c_dgrad_plan(problem, config, device), device,
                 [](SmallCDgradPlan* plan) { return encode_rows(plan->dy, plan->type, &plan->params.dy_map); });
}

Status launch(const LaunchSite& site, const void* prepared, const Args& args) {
  const auto& known = *static_cast<const Prepared*>(prepared);
  GPUDNN_TRY(require_maps(known.encoded));
  data::Params p = known.plan.params;
  p.dy = args.y;
  p.w = args.w;
  p.dx = args.out;
  p.alpha = static_cast<float>(args.alpha);
  p.beta = static_cast<float>(args.beta);
  p.vectors = known.plan.dx_allows_vectors && p.beta == 0.0f && reinterpret_cast<std::uintptr_t>(args.out) % 16 == 0;
  p.rounded = p.vectors && p.alpha == 1.0f && known.plan.type != tile::ElementType::f32;
  GPUDNN_TRY(replace_addresses(site, [&] { return cuda::replace_address(&p.dy_map, args.y); }));
  data::launch(known.plan.shape, known.plan.type, p, known.plan.blocks, site.stream);
  return cuda::launch_status("small_c_dgrad_sm90");
}

}  // namespace

extern const ConvEngine kSmallCDgradSm90 = {.name = "small_c_dgrad_sm90",
                                            .math = GPUDNN_TENSOR_OP_MATH,
                                            .alignment = 16,
                                            .supports = &sm90_supports<&small_c_dgrad_unsupported_reason>,
                                            .candidates = &small_c_dgrad_candidates,
                                            .prepare = &prepare,
                                            .launch = &launch};

}  // namespace gpudnn::conv
