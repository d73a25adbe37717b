// Launcher of the Hopper forward convolution for few channels: problem + config -> parameters and tensor map -> launch.
//
// The tensor map is made once for each plan, by the driver, with an address to be replaced at each launch.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/few_channels_forward_sm90.hpp"

#include "core/tensor_map_cuda.hpp"
#include "ops/conv/few_channels_forward_sm90_params.hpp"

namespace gpudnn::conv {
namespace {

namespace few = kernels::few_channels_forward;

struct Prepared {
  FewChannelsForwardPlan plan;
  bool encoded = false;
};

// Words, whatever they hold; floats are rounded to TF32 on their way in.
bool encode(const FewChannelsForwardMap& tensor, few::ElementType type, few::TensorMap* map) {
  return cuda::encode_boxes(
      {.extent = tensor.extent,
       .step = tensor.step,
       .box = tensor.box,
       .type = type == few::ElementType::f32 ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 : CU_TENSOR_MAP_DATA_TYPE_UINT32},
      map);
}

}  // namespace

Support few_channels_forward_sm90_supports(const Problem& problem, const Device& device) {
  if (device.compute_capability() != 90) return Support::no("it needs compute capability 9.0");
  if (const char* obstacle = few_channels_forward_obstacle(problem)) return Support::no(obstacle);
  return cuda::makes_tensor_maps() ? Support::yes() : Support::no("the driver does not make tensor maps");
}

void few_channels_forward_sm90_candidates(const Problem& problem, const Device& device,
                                          std::vector<Candidate>* candidates) {
  few_channels_forward_candidates(problem, device.multiprocessors, candidates);
}

std::size_t few_channels_forward_sm90_workspace(const Problem&, const Config&) { return 0; }

std::shared_ptr<const void> few_channels_forward_sm90_prepare(const Problem& problem, const Config& config,
                                                              const Device& device) {
  auto prepared = std::make_shared<Prepared>();
  const auto plan = few_channels_forward_plan(problem, config, device.multiprocessors);
  if (!plan) return prepared;
  prepared->plan = *plan;
  prepared->encoded =
      cuda::with_context(device.ordinal, [&] { return encode(plan->input, plan->type, &prepared->plan.params.input); });
  return prepared;
}

Status few_channels_forward_sm90_launch(const LaunchSite& site, const void* prepared, const Args& args) {
  const auto& known = *static_cast<const Prepared*>(prepared);
  GPUDNN_REQUIRE(known.encoded, GPUDNN_STATUS_INTERNAL_ERROR,
                 "the driver refused a tensor map for this problem; please report it with the problem's line");
  few::Params p = known.plan.params;
  p.filter = args.w;
  p.bias = args.bias;
  p.out = args.out;
  p.alpha = static_cast<float>(args.alpha);
  const bool adds_z = args.z != nullptr;
  p.addend = adds_z ? args.z : args.out;
  p.addend_scale = static_cast<float>(adds_z ? args.alpha2 : args.beta);
  p.ceiling = static_cast<float>(args.activation_coef);
  p.propagate_nan = args.propagate_nan;
  p.is_plain = p.alpha == 1.0f && p.addend_scale == 0.0f && !p.has_bias && !p.relu;
  const bool replaced =
      cuda::with_context(site.device.ordinal, [&] { return cuda::replace_address(&p.input, args.x); });
  GPUDNN_REQUIRE(replaced, GPUDNN_STATUS_BAD_PARAM, "x does not begin at a multiple of 16 bytes");
  few::launch(known.plan.shape, known.plan.type, p, known.plan.blocks, site.stream);
  return cuda::launch_status("few_channels_forward_sm90");
}

}  // namespace gpudnn::conv
