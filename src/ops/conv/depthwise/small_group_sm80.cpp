// Launcher of the convolution of small groups: problem -> parameters -> launch.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/depthwise/small_group_sm80_params.hpp"
#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/launch_workspace.hpp"
#include "ops/conv/padding.hpp"
#include "ops/element_type.hpp"

namespace gpudnn::conv {
namespace {

namespace small_group = kernels::small_group;

struct Prepared {
  small_group::Params params;
  int row = 0;
  tile::ElementType type = tile::ElementType::f16;
  Direction direction = Direction::forward;
  std::size_t workspace = 0;
};

Support supports(const Problem& problem, const Device& device) {
  if (const char* const against = integer_unsupported_reason(problem)) return Support::no(against);
  if (const char* const against = uneven_padding_unsupported_reason(problem)) return Support::no(against);
  if (device.compute_capability() < 80) return Support::no("it needs compute capability 8.0");
  const char* const reason = small_group_unsupported_reason(problem);
  if (reason != nullptr) return Support::no(reason);
  const small_group::Params p = small_group_params(problem, {}, device.multiprocessors);
  const auto most = static_cast<std::size_t>(problem.direction == Direction::wgrad ? small_group::kMaxWgradShared
                                                                                   : small_group::kMaxShared);
  return shared_bytes(p) <= most && most <= device.shared_memory_per_block
             ? Support::yes()
             : Support::no("shared memory does not hold a tile");
}

std::shared_ptr<const void> prepare(const Problem& problem, const Config& config, const Device& device) {
  auto prepared = std::make_shared<Prepared>();
  prepared->params = small_group_params(problem, config, device.multiprocessors);
  prepared->row = small_group_row(problem);
  prepared->type = element_type(problem.x.type);
  prepared->direction = problem.direction;
  prepared->workspace = small_group_workspace(problem, prepared->params);
  return prepared;
}

Status launch(const LaunchSite& site, const void* state, const Args& args) {
  const auto& prepared = *static_cast<const Prepared*>(state);
  GPUDNN_TRY(require_workspace(site, prepared.workspace));
  small_group::Params p = prepared.params;
  p.image = prepared.direction == Direction::dgrad ? args.y : args.x;
  p.rows = args.y;
  p.filter = args.w;
  p.out = args.out;
  p.partials = static_cast<float*>(site.workspace);
  set_epilogue(args, &p);
  if (prepared.direction == Direction::wgrad) {
    small_group::launch_wgrad(prepared.row, prepared.type, p, site.stream);
  } else {
    small_group::launch(prepared.row, prepared.type, p, site.stream);
  }
  return cuda::launch_status("small_group_sm80");
}

}  // namespace

extern const ConvEngine kSmallGroupSm80 = {.name = "small_group_sm80",
                                           .math = GPUDNN_TENSOR_OP_MATH,
                                           .alignment = 16,
                                           .supports = &supports,
                                           .candidates = &small_group_candidates,
                                           .prepare = &prepare,
                                           .launch = &launch};

}  // namespace gpudnn::conv
