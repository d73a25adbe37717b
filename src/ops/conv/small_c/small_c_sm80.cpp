// Launcher of the convolution of images with few channels: problem + config -> parameters -> launch.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/small_c/small_c_sm80.hpp"

#include <algorithm>

#include "ops/conv/launch_workspace.hpp"
#include "ops/conv/select/taker.hpp"
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

bool row_matches(int row, const Problem& problem) {
  return few::kTiles[row].kernel == small_c_kernel(problem.direction) && few::kTiles[row].type == small_c_type(problem);
}

bool aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

double bytes_moved(const Problem& problem) {
  return bytes_of_tensors(problem) + (problem.has_z != 0 ? static_cast<double>(size_in_bytes(problem.z)) : 0.0);
}

// Of the row, whose tile is set, in `splits` parts; 0 leave the number to the row.
Candidate candidate_of(const Problem& problem, const Device& device, int row, int splits, few::Params* params) {
  set_small_c_splits(row, splits, device, params);
  const auto parts = static_cast<std::int32_t>(params->splits);
  return {{row, parts},
          small_c_seconds(row, *params, bytes_moved(problem), std::max(device.multiprocessors, 1)),
          small_c_workspace_bytes(row, *params, parts)};
}

void offer_candidates(const Problem& problem, const Device& device, Taker* taker) {
  constexpr std::size_t kModestWorkspace = std::size_t{8} << 20;
  const few::Params base = small_c_params(problem);
  for (int row = 0; row < few::kTileCount; ++row) {
    if (!row_matches(row, problem)) continue;
    const double processors = std::max(device.multiprocessors, 1);
    if (!taker->has_use_for(small_c_least_seconds(problem, processors, {&few::kTiles[row], 1}))) continue;
    few::Params params = base;
    if (!draft_small_c_tile(row, device, &params)) continue;
    const Candidate best = candidate_of(problem, device, row, 0, &params);
    taker->take(best);
    if (best.config.split_k <= 1) continue;
    taker->take(candidate_of(problem, device, row, 1, &params));
    if (best.workspace <= kModestWorkspace) continue;
    const auto modest =
        static_cast<int>(kModestWorkspace * static_cast<std::size_t>(best.config.split_k) / best.workspace);
    if (modest > 1) taker->take(candidate_of(problem, device, row, modest, &params));
  }
}

// Null, or what is against it but for shared memory.
const char* unsupported_reason_of(const Problem& problem, const Device& device) {
  if (device.compute_capability() < 80) return "it needs compute capability 8.0";
  if (const char* const reason = tensor_math_unsupported_reason(problem)) return reason;
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
  p->activation_coef = static_cast<float>(args.activation_coef);
  p->propagate_nan = args.propagate_nan;
  p->out_vectors = plan.out_vectors && aligned(args.out) && (!p->has_z || aligned(args.z));
  p->dy_vectors = plan.dy_vectors && aligned(args.y);
  set_small_c_patch(plan.row, plan.image_vectors && aligned(args.x), p);
}

}  // namespace

Support small_c_sm80_supports(const Problem& problem, const Device& device) {
  if (const char* const reason = unsupported_reason_of(problem, device)) return Support::no(reason);
  few::Params params = small_c_params(problem);
  for (int row = 0; row < few::kTileCount; ++row) {
    if (row_matches(row, problem) && draft_small_c_tile(row, device, &params)) return Support::yes();
  }
  return Support::no("shared memory does not hold the filter and the least part of the image");
}

void small_c_sm80_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  Taker taker{.all = candidates};
  offer_candidates(problem, device, &taker);
}

bool small_c_sm80_fastest(const Problem& problem, const Device& device, double bound, Candidate* fastest) {
  if (unsupported_reason_of(problem, device) != nullptr) return false;
  Taker taker{.fastest = fastest, .bound = bound};
  offer_candidates(problem, device, &taker);
  return taker.found;
}

[[gnu::hot]] double small_c_sm80_least_seconds(const Problem& problem, const Device& device) {
  return small_c_least_seconds(problem, std::max(device.multiprocessors, 1));
}

std::size_t small_c_sm80_workspace(const Problem& problem, const Config& config) {
  if (config.split_k <= 1) return 0;
  return small_c_workspace_bytes(config.tile, small_c_params(problem), config.split_k);
}

std::shared_ptr<const void> small_c_sm80_prepare(const Problem& problem, const Config& config, const Device& device) {
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

Status small_c_sm80_launch(const LaunchSite& site, const void* prepared, const Args& args) {
  const auto& plan = *static_cast<const SmallCPlan*>(prepared);
  GPUDNN_TRY(require_workspace(site, plan.workspace));
  few::Params params = plan.params;
  set_pointers(plan, args, &params);
  params.workspace = static_cast<float*>(align_up(site.workspace, few::kWorkspaceAlignment));
  few::launch(plan.row, params, site.stream);
  return cuda::launch_status("small_c_sm80");
}

}  // namespace gpudnn::conv
