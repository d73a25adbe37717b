// Launcher of the Hopper filter gradient of images with few channels: problem + config -> parameters and a tensor map
// -> launch.
//
// The map is made once for each plan, by the driver, with an address to be replaced at each launch.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/few_channels_filter_sm90.hpp"

#include <algorithm>

#include "core/tensor_map_cuda.hpp"
#include "ops/conv/few_channels_filter_sm90_params.hpp"
#include "ops/conv/launch_workspace.hpp"

namespace gpudnn::conv {
namespace {

namespace few = kernels::few_channels_filter;

bool encode(const FewChannelsFilterMap& tensor, few::ElementType type, few::TensorMap* map) {
  return cuda::encode_boxes({.extent = tensor.extent,
                             .step = tensor.step,
                             .box = tensor.box,
                             .type = cuda::map_type(type),
                             .swizzle = cuda::swizzle_of_rows(tensor.box[0] * tile::element_bytes(type))},
                            map);
}

struct Prepared {
  FewChannelsFilterPlan plan;
  bool encoded = false;
};

}  // namespace

Support few_channels_filter_sm90_supports(const Problem& problem, const Device& device) {
  if (device.compute_capability() != 90) return Support::no("it needs compute capability 9.0");
  if (const char* obstacle = few_channels_filter_obstacle(problem)) return Support::no(obstacle);
  return cuda::makes_tensor_maps() ? Support::yes() : Support::no("the driver does not make tensor maps");
}

void few_channels_filter_sm90_candidates(const Problem& problem, const Device& device,
                                         std::vector<Candidate>* candidates) {
  few_channels_filter_candidates(problem, device.multiprocessors, candidates);
}

double few_channels_filter_sm90_least_seconds(const Problem& problem, const Device& device) {
  return few_channels_filter_least_seconds(problem, std::max(device.multiprocessors, 1));
}

std::size_t few_channels_filter_sm90_workspace(const Problem& problem, const Config& config) {
  return few_channels_filter_workspace(problem, config);
}

std::shared_ptr<const void> few_channels_filter_sm90_prepare(const Problem& problem, const Config& config,
                                                             const Device& device) {
  auto prepared = std::make_shared<Prepared>();
  const std::optional<FewChannelsFilterPlan> plan = few_channels_filter_plan(problem, config, device.multiprocessors);
  if (!plan) return prepared;
  prepared->plan = *plan;
  prepared->encoded =
      cuda::with_context(device.ordinal, [&] { return encode(plan->dy, plan->type, &prepared->plan.params.dy); });
  return prepared;
}

Status few_channels_filter_sm90_launch(const LaunchSite& site, const void* prepared, const Args& args) {
  const auto& known = *static_cast<const Prepared*>(prepared);
  GPUDNN_REQUIRE(known.encoded, GPUDNN_STATUS_INTERNAL_ERROR,
                 "the driver refused a tensor map for this problem; please report it with the problem's line");
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
