// Launcher of the pointwise convolution of few channels: problem -> parameters -> launch.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/pointwise_few_channels_sm80.hpp"

#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/pointwise_few_channels_sm80_params.hpp"
#include "ops/element_type.hpp"

namespace gpudnn::conv {
namespace {

namespace few = kernels::pointwise_few;

struct Prepared {
  few::Params params;
  few::ElementType type = few::ElementType::f16;
  std::uint32_t blocks = 0;
  bool forward = true;
};

}  // namespace

Support pointwise_few_channels_sm80_supports(const Problem& problem, const Device& device) {
  if (device.compute_capability() < 80) return Support::no("it needs compute capability 8.0");
  const char* const obstacle = pointwise_few_channels_obstacle(problem);
  return obstacle != nullptr ? Support::no(obstacle) : Support::yes();
}

void pointwise_few_channels_sm80_candidates(const Problem& problem, const Device& device,
                                            std::vector<Candidate>* candidates) {
  candidates->push_back({{0, 1}, pointwise_few_channels_seconds(problem, device.multiprocessors), 0});
}

std::size_t pointwise_few_channels_sm80_workspace(const Problem&, const Config&) { return 0; }

std::shared_ptr<const void> pointwise_few_channels_sm80_prepare(const Problem& problem, const Config&,
                                                                const Device& device) {
  auto prepared = std::make_shared<Prepared>();
  prepared->params = pointwise_few_channels_params(problem);
  prepared->type = element_type(problem.x.type);
  prepared->forward = problem.direction == Direction::forward;
  prepared->blocks = pointwise_few_channels_blocks(prepared->params, device.multiprocessors);
  return prepared;
}

Status pointwise_few_channels_sm80_launch(const LaunchSite& site, const void* prepared, const Args& args) {
  const auto& known = *static_cast<const Prepared*>(prepared);
  few::Params p = known.params;
  p.input = known.forward ? args.x : args.y;
  p.filter = args.w;
  p.out = args.out;
  set_epilogue(args, &p);
  few::launch(known.type, p, known.blocks, site.stream);
  return cuda::launch_status("pointwise_few_channels_sm80");
}

}  // namespace gpudnn::conv
