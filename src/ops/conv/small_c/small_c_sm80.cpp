// Launcher of the convolution of images with few channels: problem + config -> parameters -> launch.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/launch_workspace.hpp"
#include "ops/conv/padding.hpp"
#include "ops/conv/small_c/small_c_sm80_params.hpp"
#include "ops/conv/tensor_math.hpp"

namespace gpudnn::conv {
namespace {

namespace few = kernels::small_c;

// What a launch needs beyond pointers and scalars.
struct SmallCPlan {
  few::Params params;
  int row;
  std::size_t workspace;
  bool image_vectors, out_vectors, dy_vectors;  // the layouts allow them
};

bool aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

// Null, or what is against it but for shared memory.
const char* unsupported_reason_of(const Problem& problem, const Device& device) {
  if (device.compute_capability() < 80) return "it needs compute capability 8.0";
  if (const char* const reason = tensor_math_unsupported_reason(problem)) return reason;
  if (const char* const reason = channel_scale_unsupported_reason(problem)) return reason;
  return small_c_shape_unsupported_reason(problem);
}

void set_pointers(const SmallCPlan& plan, const Args& args, few::Params* p) {
  p->x = args.x;
  p->w = args.w;
  p->y = args.y;
  p->out = args.out;
  p->z = args.z;
  p->bias = args.bias;
  p->alpha = static_cast<float>(args.alpha);
  p->beta = static_cast<float>(args.beta);
  p->alpha2 = static_cast<float>(args.alpha2);
  set_activation_numbers(args, &p->activation);
  p->out_vectors = plan.out_vectors && aligned(args.out) && (!p->has_z || aligned(args.z));
  p->dy_vectors = plan.dy_vectors && aligned(args.y);
  set_small_c_patch(plan.row, plan.image_vectors && aligned(args.x), p);
}

Support supports(const Problem& problem, const Device& device) {
  if (const char* const against = integer_unsupported_reason(problem)) return Support::no(against);
  if (const char* const against = uneven_padding_unsupported_reason(problem)) return Support::no(against);
  if (const char* const reason = unsupported_reason_of(problem, device)) return Support::no(reason);
  few::Params params = small_c_params(problem);
  for (int row = 0; row < few::kTileCount; ++row) {
    if (small_c_row_matches(row, problem) && set_small_c_tile(row, 0, device, &params)) return Support::yes();
  }
  return Support::no("shared memory does not hold the filter and the least part of the image");
}

std::shared_ptr<const void> prepare(const Problem& problem, const Config& config, const Device& device) {
  const tile::ElementType type = small_c_type(problem);
  auto plan = std::make_shared<SmallCPlan>();
  plan->params = small_c_params(problem);
  plan->row = config.tile;
  // It fits, or the engine had not offered the row.
  (void)set_small_c_tile(config.tile, config.split_k, device, &plan->params);
  plan->workspace = small_c_workspace_bytes(config.tile, plan->params, config.split_k);
  plan->image_vectors = image_allows_vectors(plan->params, type, few::kTiles[config.tile].kernel);
  plan->out_vectors = problem.direction == Direction::forward &&
                      filters_allow_vectors(plan->params, plan->params.ys, type) &&
                      (!plan->params.has_z || filters_allow_vectors(plan->params, plan->params.zs, type));
  plan->dy_vectors = filters_allow_vectors(plan->params, plan->params.ys, type);
  return plan;
}

Status launch(const LaunchSite& site, const void* prepared, const Args& args) {
  const auto& plan = *static_cast<const SmallCPlan*>(prepared);
  GPUDNN_TRY(require_workspace(site, plan.workspace));
  few::Params params = plan.params;
  set_pointers(plan, args, &params);
  params.workspace = static_cast<float*>(align_up(site.workspace, few::kWorkspaceAlignment));
  few::launch(plan.row, params, site.stream);
  return cuda::launch_status("small_c_sm80");
}

}  // namespace

extern const ConvEngine kSmallCSm80 = {.name = "small_c_sm80",
                                       .math = GPUDNN_TENSOR_OP_MATH,
                                       .supports = &supports,
                                       .candidates = &small_c_candidates,
                                       .prepare = &prepare,
                                       .launch = &launch};

}  // namespace gpudnn::conv
