// Launcher of the Hopper forward convolution for few channels: problem + config -> parameters and tensor map -> launch.
//
// The tensor map is made once for each plan, by the driver, with an address to be replaced at each launch.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/gemm/epilogue/is_of_rounding.hpp"
#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/sm90_launch.hpp"
#include "ops/conv/small_c/small_c_fwd_sm90_params.hpp"

namespace gpudnn::conv {
namespace {

namespace few = kernels::small_c_fwd;

using Prepared = Encoded<SmallCFwdPlan>;

// Words, whatever they hold; floats are rounded to TF32 on their way in.
bool encode(SmallCFwdPlan* plan) {
  const bool is_f32 = plan->type == few::ElementType::f32;
  return cuda::encode_boxes(plan->input,
                            {.type = is_f32 ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 : CU_TENSOR_MAP_DATA_TYPE_UINT32},
                            &plan->params.input);
}

std::shared_ptr<const void> prepare(const Problem& problem, const Config& config, const Device& device) {
  return encoded(small_c_fwd_plan(problem, config, device), device, &encode);
}

Status launch(const LaunchSite& site, const void* prepared, const Args& args) {
  const auto& known = *static_cast<const Prepared*>(prepared);
  GPUDNN_TRY(require_maps(known.encoded));
  few::Params p = known.plan.params;
  p.filter = args.w;
  p.out = args.out;
  set_epilogue(args, &p);
  const bool rounds = known.plan.type != few::ElementType::f32;
  p.is_common = !p.is_plain && kernels::gemm::is_common(p.activation, rounds);
  p.has_curve = !rounds || !kernels::gemm::is_of_rounding(p.activation);
  GPUDNN_TRY(replace_addresses(site, [&] { return cuda::replace_address(&p.input, args.x); }));
  few::launch(known.plan.shape, known.plan.type, p, known.plan.blocks, site.stream);
  return cuda::launch_status("small_c_fwd_sm90");
}

}  // namespace

extern const ConvEngine kSmallCFwdSm90 = {.name = "small_c_fwd_sm90",
                                          .math = GPUDNN_TENSOR_OP_MATH,
                                          .alignment = 16,
                                          .supports = &sm90_supports<&small_c_fwd_unsupported_reason>,
                                          .candidates = &small_c_fwd_candidates,
                                          .prepare = &prepare,
                                          .launch = &launch};

}  // namespace gpudnn::conv
