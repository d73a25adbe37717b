// Launcher of the pointwise convolution of few channels: problem -> parameters -> launch.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/conv1x1/conv1x1_small_c_sm80_params.hpp"
#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/supports.hpp"
#include "ops/element_type.hpp"

namespace gpudnn::conv {
namespace {

namespace few = kernels::conv1x1_small_c;

struct Prepared {
  few::Params params;
  few::ElementType type = few::ElementType::f16;
  std::uint32_t blocks = 0;
  bool forward = true;
};

std::shared_ptr<const void> prepare(const Problem& problem, const Config&, const Device& device) {
  auto prepared = std::make_shared<Prepared>();
  prepared->params = conv1x1_small_c_params(problem);
  prepared->type = element_type(problem.x.type);
  prepared->forward = problem.direction == Direction::forward;
  prepared->blocks = conv1x1_small_c_blocks(prepared->params, device.multiprocessors);
  return prepared;
}

Status launch(const LaunchSite& site, const void* prepared, const Args& args) {
  const auto& known = *static_cast<const Prepared*>(prepared);
  few::Params p = known.params;
  p.input = known.forward ? args.x : args.y;
  p.filter = args.w;
  p.out = args.out;
  set_epilogue(args, &p);
  few::launch(known.type, p, known.blocks, site.stream);
  return cuda::launch_status("conv1x1_small_c_sm80");
}

}  // namespace

extern const ConvEngine kConv1x1SmallCSm80 = {
    .name = "conv1x1_small_c_sm80",
    .math = GPUDNN_TENSOR_OP_MATH,
    .alignment = 16,
    .supports = &float_supports<&conv1x1_small_c_unsupported_reason, 80, false>,
    .candidates = &conv1x1_small_c_candidates,
    .prepare = &prepare,
    .launch = &launch};

}  // namespace gpudnn::conv
