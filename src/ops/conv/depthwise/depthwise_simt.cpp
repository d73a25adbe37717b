// Launcher of the depthwise convolution: problem + config -> parameters -> launch.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/depthwise/depthwise_simt_params.hpp"
#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/launch_workspace.hpp"
#include "ops/conv/supports.hpp"
#include "ops/element_type.hpp"

namespace gpudnn::conv {
namespace {

namespace depthwise = kernels::depthwise;

struct Prepared {
  DepthwiseLaunch vectors;  // several channels a thread, or packs of a line, where layout and pointers allow it
  DepthwiseLaunch single;
  tile::ElementType type = tile::ElementType::f32;
  Direction direction = Direction::forward;
  std::size_t workspace = 0;
};

std::shared_ptr<const void> prepare(const Problem& problem, const Config& config, const Device& device) {
  auto prepared = std::make_shared<Prepared>();
  prepared->single = depthwise_launch(problem, kDepthwiseSingle, config.split_k, device.multiprocessors);
  if (config.tile != kDepthwiseSingle) {
    prepared->vectors = depthwise_launch(problem, config.tile, config.split_k, device.multiprocessors);
  }
  prepared->type = element_type(problem.x.type);
  prepared->direction = problem.direction;
  prepared->workspace = depthwise_workspace(problem, config.split_k);
  return prepared;
}

bool takes_vectors(const Prepared& prepared, const Args& args) {
  if (prepared.vectors.row < 0) return false;
  const auto bytes = static_cast<std::uintptr_t>(prepared.vectors.alignment);
  const auto is_aligned = [&](const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0; };
  return is_aligned(args.x) && is_aligned(args.y) && is_aligned(args.z) &&
         (prepared.direction == Direction::wgrad || is_aligned(args.out));
}

Status launch(const LaunchSite& site, const void* state, const Args& args) {
  const auto& prepared = *static_cast<const Prepared*>(state);
  GPUDNN_TRY(require_workspace(site, prepared.workspace));
  const DepthwiseLaunch& chosen = takes_vectors(prepared, args) ? prepared.vectors : prepared.single;
  depthwise::Params p = chosen.params;
  p.image = prepared.direction == Direction::dgrad ? args.y : args.x;
  p.rows = args.y;
  p.filter = args.w;
  p.out = args.out;
  p.partials = static_cast<float*>(site.workspace);
  set_epilogue(args, &p);
  depthwise::launch(chosen.row, prepared.type, p, site.stream);
  return cuda::launch_status("depthwise_simt");
}

}  // namespace

extern const ConvEngine kDepthwiseSimt = {.name = "depthwise_simt",
                                          .supports = &float_supports<&depthwise_unsupported_reason>,
                                          .candidates = &depthwise_candidates,
                                          .prepare = &prepare,
                                          .launch = &launch};

}  // namespace gpudnn::conv
