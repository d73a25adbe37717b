// Launcher of the mma.sync implicit GEMM: problem + config -> parameters -> launch.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/implicit_gemm/implicit_gemm_sm80.hpp"

#include "ops/conv/implicit_gemm/implicit_gemm_sm80_params.hpp"
#include "ops/conv/launch_workspace.hpp"
#include "ops/conv/tensor_math.hpp"

namespace gpudnn::conv {
namespace {

namespace simt = kernels::simt;
namespace sm80 = kernels::sm80;

// What a launch needs beyond pointers and scalars.
struct Sm80Plan {
  sm80::Params params;
  tile::ElementType type;
  Direction direction;
  int row;
  std::uint32_t blocks;
  std::size_t workspace;
};

std::size_t workspace_of(const Config& config, std::uint32_t blocks) {
  return config.split_k > 1 ? sm80::partial_bytes(sm80::kTiles[config.tile], blocks) : 0;
}

}  // namespace

[[gnu::hot]] Support implicit_gemm_sm80_supports(const Problem& problem, const Device& device) {
  if (device.compute_capability() < 80) return Support::no("mma.sync of these types came with sm_80");
  if (const char* const reason = tensor_math_unsupported_reason(problem)) return Support::no(reason);
  if (const char* const reason = sm80_index_unsupported_reason(problem)) return Support::no(reason);
  static const bool available = sm80::available();
  return available ? Support::yes() : Support::no("this build has no code of sm_80 or later that the device runs");
}

[[gnu::hot]] void implicit_gemm_sm80_candidates(const Problem& problem, const Device& device,
                                                std::vector<Candidate>* candidates) {
  sm80_candidates(problem, device.multiprocessors, true, candidates);
}

void implicit_gemm_sm80_lean_candidates(const Problem& problem, const Device& device,
                                        std::vector<Candidate>* candidates) {
  sm80_candidates(problem, device.multiprocessors, false, candidates);
}

bool implicit_gemm_sm80_fastest(const Problem& problem, const Device& device, double bound, Candidate* fastest) {
  return implicit_gemm_sm80_supports(problem, device) && sm80_fastest(problem, device.multiprocessors, bound, fastest);
}

[[gnu::hot]] double implicit_gemm_sm80_least_seconds(const Problem& problem, const Device& device) {
  return sm80_least_seconds(problem, device.multiprocessors);
}

double implicit_gemm_sm80_closer_seconds(const Problem& problem, const Device& device) {
  return sm80_closer_seconds(problem, device.multiprocessors);
}

std::size_t implicit_gemm_sm80_workspace(const Problem& problem, const Config& config) {
  if (config.split_k <= 1) return 0;
  simt::Params params = simt_params(problem);
  return workspace_of(config, set_sm80_config(config, tile_type(problem), &params));
}

std::shared_ptr<const void> implicit_gemm_sm80_prepare(const Problem& problem, const Config& config, const Device&) {
  auto plan = std::make_shared<Sm80Plan>();
  plan->params = sm80_params(problem);
  plan->type = tile_type(problem);
  plan->direction = problem.direction;
  plan->row = config.tile;
  plan->blocks = set_sm80_config(config, plan->type, &plan->params.gemm);
  plan->workspace = workspace_of(config, plan->blocks);
  return plan;
}

Status implicit_gemm_sm80_launch(const LaunchSite& site, const void* prepared, const Args& args) {
  const auto& plan = *static_cast<const Sm80Plan*>(prepared);
  GPUDNN_TRY(require_workspace(site, plan.workspace));
  sm80::Params params = plan.params;
  set_simt_pointers(plan.direction, args, &params.gemm);
  restrict_sm80_to_alignment(plan.type, &params);
  params.gemm.workspace = align_up(site.workspace, simt::kWorkspaceAlignment);
  // Pointers at odd elements, which the plan could not know of: an instance for halves, and no split, whose workspace
  // would be another.
  const int row = sm80_row_for_loads(plan.row, params);
  const std::uint32_t blocks = row == plan.row ? plan.blocks : set_sm80_config({row, 1}, plan.type, &params.gemm);
  sm80::launch(row, plan.type, params, blocks, site.stream);
  return cuda::launch_status("implicit_gemm_sm80");
}

}  // namespace gpudnn::conv
