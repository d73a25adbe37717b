// Launcher of the Hopper direct convolution: problem + config -> parameters and tensor maps -> launch.
//
// Tensor maps are made once for each plan, by the driver, with an address to be replaced at each launch.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/conv/direct/direct_sm90_params.hpp"
#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/sm90_launch.hpp"

namespace gpudnn::conv {
namespace {

namespace direct = kernels::direct;

bool encode(DirectPlan* plan) {
  direct::Params& p = plan->params;
  constexpr CUtensorMapL2promotion kPromotion = CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
  if (!encode_rows(plan->input, plan->type, &p.input, kPromotion)) return false;
  if (plan->adds_z && !encode_rows(plan->addend, plan->type, &p.addend_map, kPromotion)) return false;
  return plan->type == direct::ElementType::f32 ? encode_rows(plan->filter, plan->type, &p.filter_map, kPromotion)
                                                : encode_rows(plan->output, plan->type, &p.output, kPromotion);
}

struct Prepared {
  DirectPlan plan;
  std::uint32_t blocks = 0;
  bool encoded = false;
};

std::shared_ptr<const void> prepare(const Problem& problem, const Config& config, const Device& device) {
  auto prepared = std::make_shared<Prepared>();
  const std::optional<DirectPlan> plan = direct_plan(problem, config, device);
  if (!plan) return prepared;
  prepared->plan = *plan;
  const std::uint32_t row_blocks = plan->params.row_blocks.divisor;
  const std::uint32_t slots = std::max(1u, static_cast<std::uint32_t>(device.rates.multiprocessors) / row_blocks);
  prepared->blocks = std::min(slots, plan->params.tiles) * row_blocks;
  prepared->encoded = cuda::with_context(device.ordinal, [&] { return encode(&prepared->plan); });
  return prepared;
}

// The addend's map: z's, or the output's.
bool set_addend_map(const DirectPlan& plan, const Args& args, direct::Params* p) {
  if (!p->is_common || p->addend_scale == 0.0f) return true;
  if (args.z != nullptr) return plan.adds_z && cuda::replace_address(&p->addend_map, args.z);
  p->addend_map = p->output;
  return true;
}

Status launch(const LaunchSite& site, const void* prepared, const Args& args) {
  const auto& known = *static_cast<const Prepared*>(prepared);
  GPUDNN_TRY(require_maps(known.encoded));
  direct::Params p = known.plan.params;
  const void* const input = p.transposed ? args.y : args.x;
  p.filter = args.w;
  p.out = args.out;
  set_epilogue(args, &p);
  p.is_common =
      !p.is_plain && known.plan.type != direct::ElementType::f32 && kernels::gemm::is_common(p.activation, true);
  GPUDNN_TRY(replace_addresses(site, [&] {
    return cuda::replace_address(&p.input, input) &&
           (known.plan.type == direct::ElementType::f32 ? cuda::replace_address(&p.filter_map, args.w)
                                                        : cuda::replace_address(&p.output, args.out)) &&
           set_addend_map(known.plan, args, &p);
  }));
  direct::launch(known.plan.shape, known.plan.type, p, known.blocks, site.stream);
  return cuda::launch_status("direct_sm90");
}

}  // namespace

extern const ConvEngine kDirectSm90 = {.name = "direct_sm90",
                                       .math = GPUDNN_TENSOR_OP_MATH,
                                       .alignment = 16,
                                       .supports = &sm90_supports<&direct_unsupported_reason>,
                                       .candidates = &direct_candidates,
                                       .prepare = &prepare,
                                       .launch = &launch};

}  // namespace gpudnn::conv
