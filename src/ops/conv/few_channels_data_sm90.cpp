// Launcher of the Hopper data gradient for images of few channels: problem + config -> parameters and tensor map ->
// launch.
//
// The tensor map is made once for each plan, by the driver, with an address to be replaced at each launch.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/few_channels_data_sm90.hpp"

#include "core/tensor_map_cuda.hpp"
#include "ops/conv/few_channels_data_sm90_params.hpp"

namespace gpudnn::conv {
namespace {

namespace data = kernels::few_channels_data;

bool encode(const FewChannelsDataMap& tensor, tile::ElementType type, data::TensorMap* map) {
  return cuda::encode_boxes({.extent = tensor.extent,
                             .step = tensor.step,
                             .box = tensor.box,
                             .type = cuda::map_type(type),
                             .swizzle = CU_TENSOR_MAP_SWIZZLE_128B},
                            map);
}

struct Prepared {
  FewChannelsDataPlan plan;
  bool encoded = false;
};

}  // namespace

Support few_channels_data_sm90_supports(const Problem& problem, const Device& device) {
  if (device.compute_capability() != 90) return Support::no("it needs compute capability 9.0");
  if (const char* obstacle = few_channels_data_obstacle(problem)) return Support::no(obstacle);
  return cuda::makes_tensor_maps() ? Support::yes() : Support::no("the driver does not make tensor maps");
}

void few_channels_data_sm90_candidates(const Problem& problem, const Device& device,
                                       std::vector<Candidate>* candidates) {
  few_channels_data_candidates(problem, device.multiprocessors, candidates);
}

std::size_t few_channels_data_sm90_workspace(const Problem&, const Config&) { return 0; }

std::shared_ptr<const void> few_channels_data_sm90_prepare(const Problem& problem, const Config& config,
                                                           const Device& device) {
  auto prepared = std::make_shared<Prepared>();
  const std::optional<FewChannelsDataPlan> plan = few_channels_data_plan(problem, config, device.multiprocessors);
  if (!plan) return prepared;
  prepared->plan = *plan;
  prepared->encoded =
      cuda::with_context(device.ordinal, [&] { return encode(plan->dy, plan->type, &prepared->plan.params.dy_map); });
  return prepared;
}

Status few_channels_data_sm90_launch(const LaunchSite& site, const void* prepared, const Args& args) {
  const auto& known = *static_cast<const Prepared*>(prepared);
  GPUDNN_REQUIRE(known.encoded, GPUDNN_STATUS_INTERNAL_ERROR,
                 "the driver refused a tensor map for this problem; please report it with the problem's line");
  data::Params p = known.plan.params;
  p.dy = args.y;
  p.w = args.w;
  p.dx = args.out;
  p.alpha = static_cast<float>(args.alpha);
  p.beta = static_cast<float>(args.beta);
  p.vectors = known.plan.dx_allows_vectors && p.beta == 0.0f && reinterpret_cast<std::uintptr_t>(args.out) % 16 == 0;
  p.rounded = p.vectors && p.alpha == 1.0f && known.plan.type != tile::ElementType::f32;
  const bool replaced =
      cuda::with_context(site.device.ordinal, [&] { return cuda::replace_address(&p.dy_map, args.y); });
  GPUDNN_REQUIRE(replaced, GPUDNN_STATUS_BAD_PARAM, "dy does not begin at a multiple of 16 bytes");
  data::launch(known.plan.shape, known.plan.type, p, known.plan.blocks, site.stream);
  return cuda::launch_status("few_channels_data_sm90");
}

}  // namespace gpudnn::conv
