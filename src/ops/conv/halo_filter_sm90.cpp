// Launcher of the Hopper halo filter gradient: problem + config -> parameters and tensor maps -> launch.
//
// The maps are made once for each plan, by the driver, with addresses to be replaced at each launch.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/halo_filter_sm90.hpp"

#include "core/tensor_map_cuda.hpp"
#include "ops/conv/halo_filter_sm90_params.hpp"
#include "ops/conv/launch_workspace.hpp"

namespace gpudnn::conv {
namespace {

namespace halo = kernels::halo_filter;

bool encode(const HaloFilterTensor& tensor, std::int32_t channels, std::int32_t pixels, halo::ElementType type,
            halo::TensorMap* map) {
  const std::int32_t box[5] = {channels, pixels, 1, 1, 1};
  return cuda::encode_boxes({.extent = tensor.extent,
                             .step = tensor.step,
                             .box = box,
                             .type = cuda::map_type(type),
                             .swizzle = cuda::swizzle_of_rows(channels * tile::element_bytes(type))},
                            map);
}

bool encode(HaloFilterPlan* plan) {
  halo::Params& p = plan->params;
  const auto channels = static_cast<std::int32_t>(p.part_channels);
  return encode(plan->x, channels, plan->x_pixels, plan->type, &p.x) &&
         encode(plan->dy, halo::kFilters, plan->dy_pixels, plan->type, &p.dy) &&
         (plan->rest_pixels == 0 || encode(plan->x, channels, plan->rest_pixels, plan->type, &p.x_rest));
}

struct Prepared {
  HaloFilterPlan plan;
  bool encoded = false;
};

}  // namespace

[[gnu::hot]] Support halo_filter_sm90_supports(const Problem& problem, const Device& device) {
  if (device.compute_capability() != 90) return Support::no("it needs compute capability 9.0");
  if (const char* obstacle = halo_filter_obstacle(problem)) return Support::no(obstacle);
  return cuda::makes_tensor_maps() ? Support::yes() : Support::no("the driver does not make tensor maps");
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
  auto prepared = std::make_shared<Prepared>();
  const std::optional<HaloFilterPlan> plan = halo_filter_plan(problem, config, device.multiprocessors);
  if (!plan) return prepared;
  prepared->plan = *plan;
  prepared->encoded = cuda::with_context(device.ordinal, [&] { return encode(&prepared->plan); });
  return prepared;
}

Status halo_filter_sm90_launch(const LaunchSite& site, const void* prepared, const Args& args) {
  const auto& known = *static_cast<const Prepared*>(prepared);
  GPUDNN_REQUIRE(known.encoded, GPUDNN_STATUS_INTERNAL_ERROR,
                 "the driver refused a tensor map for this problem; please report it with the problem's line");
  GPUDNN_TRY(require_workspace(site, known.plan.workspace));
  halo::Params p = known.plan.params;
  p.alpha = static_cast<float>(args.alpha);
  p.beta = static_cast<float>(args.beta);
  p.dw = args.out;
  p.partials = static_cast<float*>(align_up(site.workspace, halo::kWorkspaceAlignment));
  const bool replaced = cuda::with_context(site.device.ordinal, [&] {
    return cuda::replace_address(&p.x, args.x) && cuda::replace_address(&p.dy, args.y) &&
           (known.plan.rest_pixels == 0 || cuda::replace_address(&p.x_rest, args.x));
  });
  GPUDNN_REQUIRE(replaced, GPUDNN_STATUS_BAD_PARAM, "x or dy does not begin at a multiple of 16 bytes");
  halo::launch(known.plan.type, p, site.stream);
  return cuda::launch_status("halo_filter_sm90");
}

}  // namespace gpudnn::conv
