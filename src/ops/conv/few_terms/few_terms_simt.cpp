// Launcher of the float convolution of few terms: problem + config -> parameters -> launch.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/few_terms/few_terms_simt_params.hpp"
#include "ops/conv/supports.hpp"

namespace gpudnn::conv {
namespace {

namespace few = kernels::few_terms;

std::shared_ptr<const void> prepare(const Problem& problem, const Config& config, const Device&) {
  return std::make_shared<const FewTermsPlan>(few_terms_plan(problem, config));
}

Status launch(const LaunchSite& site, const void* prepared, const Args& args) {
  const auto& plan = *static_cast<const FewTermsPlan*>(prepared);
  few::Params p = plan.params;
  p.in = static_cast<const float*>(plan.forward ? args.x : args.y);
  p.filter = static_cast<const float*>(args.w) + plan.first_tap;
  p.out = args.out;
  set_epilogue(args, &p);
  few::launch(plan.tile, p, site.stream);
  return cuda::launch_status("few_terms_simt");
}

}  // namespace

extern const ConvEngine kFewTermsSimt = {.name = "few_terms_simt",
                                         .alignment = 4,
                                         .supports = &float_supports<&few_terms_unsupported_reason>,
                                         .candidates = &few_terms_candidates,
                                         .prepare = &prepare,
                                         .launch = &launch};

}  // namespace gpudnn::conv
