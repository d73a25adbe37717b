// Launcher of the convolution whose warps share a tile's reduction: problem + config -> parameters -> launch.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/sliced_k/sliced_k_sm80_params.hpp"
#include "ops/conv/supports.hpp"

namespace gpudnn::conv {
namespace {

namespace sliced = kernels::sliced_k;

std::shared_ptr<const void> prepare(const Problem& problem, const Config& config, const Device&) {
  return std::make_shared<const sliced::Params>(sliced_k_params(problem, config));
}

Status launch(const LaunchSite& site, const void* prepared, const Args& args) {
  sliced::Params p = *static_cast<const sliced::Params*>(prepared);
  p.x = args.x;
  p.w = args.w;
  p.y = args.out;
  set_epilogue(args, &p);
  sliced::launch(p, site.stream);
  return cuda::launch_status("sliced_k_sm80");
}

}  // namespace

extern const ConvEngine kSlicedKSm80 = {.name = "sliced_k_sm80",
                                        .math = GPUDNN_TENSOR_OP_MATH,
                                        .alignment = 16,
                                        .supports = &float_supports<&sliced_k_unsupported_reason, 80>,
                                        .candidates = &sliced_k_candidates,
                                        .prepare = &prepare,
                                        .launch = &launch};

}  // namespace gpudnn::conv
