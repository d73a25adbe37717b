// Launcher of the mma.sync implicit GEMM: problem + config -> parameters -> launch.
// SPDX-License-Identifier: Apache-2.0
#include <atomic>

#include "core/device.hpp"
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

// Whether this build has code of sm_80 or later that the device runs; asked once for each device. One that is only
// described counts as one that does.
bool has_code_for(const Device& device) {
  if (!device.is_present()) return true;
  enum class Answer : signed char { unknown, no, yes };
  constexpr std::size_t kDevices = 64;  // those beyond are asked about every time
  static std::atomic<Answer> known[kDevices];
  const auto slot = static_cast<std::size_t>(device.ordinal + 1);
  const Answer answer = slot < kDevices ? known[slot].load(std::memory_order_relaxed) : Answer::unknown;
  if (answer != Answer::unknown) return answer == Answer::yes;
  const cuda::DeviceScope scope(device);
  const bool available = sm80::available();
  if (slot < kDevices) known[slot].store(available ? Answer::yes : Answer::no, std::memory_order_relaxed);
  return available;
}

Support supports(const Problem& problem, const Device& device) {
  if (const char* const against = integer_unsupported_reason(problem)) return Support::no(against);
  if (device.compute_capability() < 80) return Support::no("mma.sync of these types came with sm_80");
  if (const char* const reason = tensor_math_unsupported_reason(problem)) return Support::no(reason);
  if (const char* const reason = sm80_index_unsupported_reason(problem)) return Support::no(reason);
  return has_code_for(device) ? Support::yes()
                              : Support::no("this build has no code of sm_80 or later that the device runs");
}

std::shared_ptr<const void> prepare(const Problem& problem, const Config& config, const Device&) {
  auto plan = std::make_shared<Sm80Plan>();
  plan->params = sm80_params(problem);
  plan->type = tile_type(problem);
  plan->direction = problem.direction;
  plan->row = config.tile;
  plan->blocks = set_sm80_config(config, plan->type, &plan->params.gemm);
  plan->workspace = workspace_of(config, plan->blocks);
  return plan;
}

Status launch(const LaunchSite& site, const void* prepared, const Args& args) {
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

}  // namespace

extern const ConvEngine kImplicitGemmSm80 = {.name = "implicit_gemm_sm80",
                                             .math = GPUDNN_TENSOR_OP_MATH,
                                             .supports = &supports,
                                             .candidates = &sm80_candidates,
                                             .prepare = &prepare,
                                             .launch = &launch};

}  // namespace gpudnn::conv
