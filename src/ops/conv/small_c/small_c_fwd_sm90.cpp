// Launcher of the Hopper forward convolution for few channels: problem + config -> parameters and tensor map -> launch.
//
// The tensor map is made once for each plan, by the driver, with an address to be replaced at each launch.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/small_c/small_c_fwd_sm90.hpp"

#include <algorithm>

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

}  // namespace

Support small_c_fwd_sm90_supports(const Problem& problem, const Device& device) {
  return sm90_supports(problem, device, &small_c_fwd_unsupported_reason);
}

void small_c_fwd_sm90_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  small_c_fwd_candidates(problem, device.multiprocessors, candidates);
}

double small_c_fwd_sm90_least_seconds(const Problem& problem, const Device& device) {
  return small_c_fwd_least_seconds(problem, std::max(device.multiprocessors, 1));
}

bool small_c_fwd_sm90_fastest(const Problem& problem, const Device& device, double bound, Candidate* fastest) {
  return sm90_runs_on(device) && small_c_fwd_fastest(problem, device.multiprocessors, bound, fastest);
}

std::size_t small_c_fwd_sm90_workspace(const Problem&, const Config&) { return 0; }

std::shared_ptr<const void> small_c_fwd_sm90_prepare(const Problem& problem, const Config& config,
                                                     const Device& device) {
  return encoded(small_c_fwd_plan(problem, config, device.multiprocessors), device, &encode);
}

Status small_c_fwd_sm90_launch(const LaunchSite& site, const void* prepared, const Args& args) {
  const auto& known = *static_cast<const Prepared*>(prepared);
  GPUDNN_TRY(require_maps(known.encoded));
  few::Params p = known.plan.params;
  p.filter = args.w;
  p.out = args.out;
  set_epilogue(args, &p);
  const bool replaced =
      cuda::with_context(site.device.ordinal, [&] { return cuda::replace_address(&p.input, args.x); });
  GPUDNN_REQUIRE(replaced, GPUDNN_STATUS_BAD_PARAM, "x does not begin at a multiple of 16 bytes");
  few::launch(known.plan.shape, known.plan.type, p, known.plan.blocks, site.stream);
  return cuda::launch_status("small_c_fwd_sm90");
}

}  // namespace gpudnn::conv
