// Launcher of the SIMT implicit GEMM: problem + config -> parameters -> launch.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/implicit_gemm/implicit_gemm_simt_params.hpp"
#include "ops/conv/launch_workspace.hpp"
#include "ops/conv/supports.hpp"

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

const char* unsupported_reason(const Problem& problem) { return simt_index_unsupported_reason(problem); }

std::shared_ptr<const void> prepare(const Problem& problem, const Config& config, const Device&) {
  auto plan = std::make_shared<SimtPlan>();
  plan->params = simt_params(problem);
  plan->type = tile_type(problem);
  plan->direction = problem.direction;
  plan->row = config.tile;
  plan->blocks = set_simt_config(config, &plan->params);
  plan->workspace = workspace_of(config, plan->blocks);
  return plan;
}

Status launch(const LaunchSite& site, const void* prepared, const Args& args) {
  const auto& plan = *static_cast<const SimtPlan*>(prepared);
  GPUDNN_TRY(require_workspace(site, plan.workspace));
  simt::Params params = plan.params;
  set_simt_pointers(plan.direction, args, &params);
  restrict_to_alignment(params.a, params.b, params.c, params.z, plan.type, &params);
  params.workspace = align_up(site.workspace, simt::kWorkspaceAlignment);
  simt::launch(plan.row, params, plan.blocks, site.stream);
  return cuda::launch_status("implicit_gemm_simt");
}

}  // namespace

extern const ConvEngine kImplicitGemmSimt = {.name = "implicit_gemm_simt",
                                             .supports = &float_supports<&unsupported_reason>,
                                             .candidates = &simt_candidates,
                                             .prepare = &prepare,
                                             .launch = &launch};

}  // namespace gpudnn::conv
