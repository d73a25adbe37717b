// Launcher of the Hopper halo convolution: problem + config -> parameters and tensor maps -> launch.
//
// Tensor maps are made once for each plan, by the driver, with an address to be replaced at each launch.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/halo_sm90.hpp"

#include <algorithm>

#include "core/tensor_map_cuda.hpp"
#include "ops/conv/halo_sm90_params.hpp"

namespace gpudnn::conv {
namespace {

namespace halo = kernels::halo;

static_assert(sizeof(CUtensorMap) == sizeof(halo::TensorMap) && alignof(CUtensorMap) <= alignof(halo::TensorMap),
              "the driver's tensor map");

bool encode(const HaloMap& tensor, halo::ElementType type, halo::TensorMap* map) {
  return cuda::encode_boxes({.extent = tensor.extent,
                             .step = tensor.step,
                             .box = tensor.box,
                             .type = cuda::map_type(type),
                             .swizzle = cuda::swizzle_of_rows(tensor.box[0] * tile::element_bytes(type)),
                             .promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_128B},
                            map);
}

bool encode(const HaloFilterMap& tensor, halo::TensorMap* map) {
  constexpr std::int32_t kBox[3] = {32, 1, 32};
  return cuda::encode_boxes({.extent = tensor.extent,
                             .step = tensor.step,
                             .box = kBox,
                             .type = CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
                             .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
                             .promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_128B},
                            map);
}

bool encode(HaloPlan* plan) {
  halo::Params& p = plan->params;
  if (!encode(plan->input, plan->type, &p.input)) return false;
  return plan->type == halo::ElementType::f32 ? encode(plan->filter, &p.filter_map)
                                              : encode(plan->output, plan->type, &p.output);
}

struct Prepared {
  HaloPlan plan;
  std::uint32_t blocks = 0;
  bool encoded = false;
};

}  // namespace

[[gnu::hot]] Support halo_sm90_supports(const Problem& problem, const Device& device) {
  if (device.compute_capability() != 90) return Support::no("it needs compute capability 9.0");
  if (const char* obstacle = halo_obstacle(problem)) return Support::no(obstacle);
  return cuda::makes_tensor_maps() ? Support::yes() : Support::no("the driver does not make tensor maps");
}

[[gnu::hot]] void halo_sm90_candidates(const Problem& problem, const Device& device,
                                       std::vector<Candidate>* candidates) {
  halo_candidates(problem, device.multiprocessors, candidates);
}

bool halo_sm90_fastest(const Problem& problem, const Device& device, double bound, Candidate* fastest) {
  return halo_sm90_supports(problem, device) && halo_fastest(problem, device.multiprocessors, bound, fastest);
}

std::size_t halo_sm90_workspace(const Problem&, const Config&) { return 0; }

std::shared_ptr<const void> halo_sm90_prepare(const Problem& problem, const Config& config, const Device& device) {
  auto prepared = std::make_shared<Prepared>();
  const std::optional<HaloPlan> plan = halo_plan(problem, config, device.multiprocessors);
  if (!plan) return prepared;
  prepared->plan = *plan;
  const std::uint32_t row_blocks = plan->params.row_blocks.divisor;
  const std::uint32_t slots = std::max(1u, static_cast<std::uint32_t>(device.multiprocessors) / row_blocks);
  prepared->blocks = std::min(slots, plan->params.tiles) * row_blocks;
  prepared->encoded = cuda::with_context(device.ordinal, [&] { return encode(&prepared->plan); });
  return prepared;
}

Status halo_sm90_launch(const LaunchSite& site, const void* prepared, const Args& args) {
  const auto& known = *static_cast<const Prepared*>(prepared);
  GPUDNN_REQUIRE(known.encoded, GPUDNN_STATUS_INTERNAL_ERROR,
                 "the driver refused a tensor map for this problem; please report it with the problem's line");
  halo::Params p = known.plan.params;
  const void* const input = p.transposed ? args.y : args.x;
  p.filter = args.w;
  p.out = args.out;
  p.bias = args.bias;
  p.alpha = static_cast<float>(args.alpha);
  const bool adds_z = args.z != nullptr;
  p.addend = adds_z ? args.z : args.out;
  p.addend_scale = static_cast<float>(adds_z ? args.alpha2 : args.beta);
  p.ceiling = static_cast<float>(args.activation_coef);
  p.propagate_nan = args.propagate_nan;
  p.is_plain = p.alpha == 1.0f && p.addend_scale == 0.0f && !p.has_bias && !p.relu;
  const bool replaced = cuda::with_context(site.device.ordinal, [&] {
    return cuda::replace_address(&p.input, input) &&
           (known.plan.type == halo::ElementType::f32 ? cuda::replace_address(&p.filter_map, args.w)
                                                      : cuda::replace_address(&p.output, args.out));
  });
  GPUDNN_REQUIRE(replaced, GPUDNN_STATUS_BAD_PARAM, "a tensor does not begin at a multiple of 16 bytes");
  halo::launch(known.plan.shape, known.plan.type, p, known.blocks, site.stream);
  return cuda::launch_status("halo_sm90");
}

}  // namespace gpudnn::conv
