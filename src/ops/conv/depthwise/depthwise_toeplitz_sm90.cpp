// Launcher of the depthwise convolution by Toeplitz matrices: problem + config -> parameters -> launch.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/depthwise/depthwise_toeplitz_sm90_params.hpp"
#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/padding.hpp"
#include "ops/element_type.hpp"

namespace gpudnn::conv {
namespace {

namespace depthwise_toeplitz = kernels::depthwise_toeplitz;

struct Prepared {
  depthwise_toeplitz::Params params;
  int row = 0;
  tile::ElementType type = tile::ElementType::f16;
  Direction direction = Direction::forward;
};

Support supports(const Problem& problem, const Device& device) {
  if (device.compute_capability() != 90) return Support::no("it needs compute capability 9.0");
  if (const char* const against = integer_unsupported_reason(problem)) return Support::no(against);
  if (const char* const against = uneven_padding_unsupported_reason(problem)) return Support::no(against);
  const char* const reason = depthwise_toeplitz_unsupported_reason(problem);
  return reason == nullptr ? Support::yes() : Support::no(reason);
}

std::shared_ptr<const void> prepare(const Problem& problem, const Config& config, const Device& /*device*/) {
  auto prepared = std::make_shared<Prepared>();
  prepared->params = depthwise_toeplitz_params(problem, config.tile).value();
  prepared->row = config.tile;
  prepared->type = element_type(problem.x.type);
  prepared->direction = problem.direction;
  return prepared;
}

Status launch(const LaunchSite& site, const void* state, const Args& args) {
  const auto& prepared = *static_cast<const Prepared*>(state);
  depthwise_toeplitz::Params p = prepared.params;
  p.image_data = prepared.direction == Direction::dgrad ? args.y : args.x;
  p.filter = args.w;
  p.out = args.out;
  set_epilogue(args, &p);
  depthwise_toeplitz::launch(prepared.row, prepared.type, p, site.stream);
  return cuda::launch_status("depthwise_toeplitz_sm90");
}

}  // namespace

extern const ConvEngine kDepthwiseToeplitzSm90 = {.name = "depthwise_toeplitz_sm90",
                                                  .math = GPUDNN_TENSOR_OP_MATH,
                                                  .alignment = 16,
                                                  .supports = &supports,
                                                  .candidates = &depthwise_toeplitz_candidates,
                                                  .prepare = &prepare,
                                                  .launch = &launch};

}  // namespace gpudnn::conv
