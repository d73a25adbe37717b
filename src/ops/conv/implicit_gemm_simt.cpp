// Launcher of the SIMT implicit GEMM: problem + config -> parameters -> launch.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/implicit_gemm_simt.hpp"

#include <bit>

#include "ops/conv/implicit_gemm_simt_params.hpp"

namespace gpudnn::conv {
namespace {

namespace simt = kernels::simt;

// What a launch needs beyond pointers and scalars.
struct SimtPlan {
  simt::Params params;
  tile::ElementType type;
  Direction direction;
  int row;
  std::uint32_t blocks;
  std::size_t workspace;
};

std::size_t workspace_of(const Config& config, std::uint32_t blocks) {
  return config.split_k > 1 ? simt::partial_bytes(simt::kTiles[config.tile], blocks) : 0;
}

void set_pointers(Direction direction, const Args& args, simt::Params* p) {
  switch (direction) {
    case Direction::forward:
      p->a = args.x;
      p->b = args.w;
      break;
    case Direction::backward_data:
      p->a = args.y;
      p->b = args.w;
      break;
    case Direction::backward_filter:
      p->a = args.x;
      p->b = args.y;
      break;
  }
  p->c = args.out;
  p->z = args.z;
  p->bias = args.bias;
  p->alpha = args.alpha;
  p->beta = args.beta;
  p->alpha2 = args.alpha2;
  p->activation_coef = args.activation_coef;
  p->propagate_nan = args.propagate_nan;
}

void* align(void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  return reinterpret_cast<void*>((address + simt::kWorkspaceAlignment - 1) & ~(simt::kWorkspaceAlignment - 1));
}

}  // namespace

Support implicit_gemm_simt_supports(const Problem& problem, const Device&) {
  const char* const obstacle = simt_index_obstacle(problem);
  return obstacle == nullptr ? Support::yes() : Support::no(obstacle);
}

void implicit_gemm_simt_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  simt_candidates(problem, device.multiprocessors, candidates);
}

std::size_t implicit_gemm_simt_workspace(const Problem& problem, const Config& config) {
  if (config.split_k <= 1) return 0;
  simt::Params params = simt_params(problem);
  return workspace_of(config, set_simt_config(config, &params));
}

std::shared_ptr<const void> implicit_gemm_simt_prepare(const Problem& problem, const Config& config, const Device&) {
  auto plan = std::make_shared<SimtPlan>();
  plan->params = simt_params(problem);
  plan->type = tile_type(problem);
  plan->direction = problem.direction;
  plan->row = config.tile;
  plan->blocks = set_simt_config(config, &plan->params);
  plan->workspace = workspace_of(config, plan->blocks);
  return plan;
}

Status implicit_gemm_simt_launch(const LaunchSite& site, const void* prepared, const Args& args) {
  const auto& plan = *static_cast<const SimtPlan*>(prepared);
  GPUDNN_REQUIRE(site.workspace_bytes >= plan.workspace && (plan.workspace == 0 || site.workspace != nullptr),
                 GPUDNN_STATUS_BAD_PARAM, "the workspace has %zu bytes; this plan needs %zu", site.workspace_bytes,
                 plan.workspace);
  simt::Params params = plan.params;
  set_pointers(plan.direction, args, &params);
  restrict_to_alignment(params.a, params.b, params.c, params.z, plan.type, &params);
  params.workspace = align(site.workspace);
  simt::launch(plan.row, params, plan.blocks, site.stream);
  return cuda::launch_status("implicit_gemm_simt");
}

}  // namespace gpudnn::conv
