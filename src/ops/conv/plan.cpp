// Plans: from a problem, the caller's algorithm and workspace to an engine ready to launch; kept in the handle's cache.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <limits>

#include "ops/conv/engine.hpp"
#include "ops/tensor/problem.hpp"

namespace gpudnn::conv {
namespace {

// Workspaces at odd addresses are not used: split sums are stored as vectors.
constexpr std::uintptr_t kWorkspaceAlignment = 16;

struct PlanKey {
  Problem problem;
  std::uint64_t workspace_limit;
};

std::size_t usable_workspace(const void* workspace, std::size_t bytes) noexcept {
  const bool usable = workspace != nullptr && reinterpret_cast<std::uintptr_t>(workspace) % kWorkspaceAlignment == 0;
  return usable ? bytes : 0;
}

Status best_choice(const Problem& problem, const Device& device, std::size_t workspace_limit, Choice* best) {
  const char* reason = "no engine of this backend";
  for (const Choice& choice : rank(problem, device)) {
    if (choice.workspace > workspace_limit) {
      reason = "every engine that takes it needs more workspace";
      continue;
    }
    *best = choice;
    return GPUDNN_STATUS_SUCCESS;
  }
  return GPUDNN_REFUSE(GPUDNN_STATUS_NOT_SUPPORTED, "no convolution engine fits (%s): %s", reason,
                       to_text(problem).c_str());
}

Status make_plan(const Problem& problem, const Device& device, std::size_t workspace_limit,
                 std::shared_ptr<const Plan>* plan) {
  auto made = std::make_shared<Plan>();
  GPUDNN_TRY(best_choice(problem, device, workspace_limit, &made->choice));
  made->prepared = made->choice.engine->prepare(problem, made->choice.config, device);
  *plan = std::move(made);
  return GPUDNN_STATUS_SUCCESS;
}

// Nothing to sum over: out = beta * out.
Status scale_output(gpudnnHandle_t handle, const Problem& problem, const Args& args) {
  GPUDNN_REQUIRE(problem.activation < 0, GPUDNN_STATUS_NOT_SUPPORTED,
                 "xDesc is empty; the fused epilogue needs an image of at least one pixel");
  tensor::Problem scaling;
  scaling.c = output(problem);
  tensor::Args arguments;
  arguments.c = args.out;
  const double zero = 0;  // all bits zero: the zero of every type
  if (args.beta == 0) {
    scaling.operation = tensor::Operation::set;
    arguments.value = &zero;
  } else {
    scaling.operation = tensor::Operation::scale;
    arguments.alpha = args.beta;
  }
  return tensor::run(handle, scaling, arguments);
}

Status launch(const LaunchSite& site, const Plan& plan, const Args& args) {
  call_context().engine = plan.choice.engine->name;
  if (site.device.backend == GPUDNN_BACKEND_HOST) return plan.choice.engine->launch(site, plan.prepared.get(), args);
  const cuda::DeviceScope scope(site.device);
  return plan.choice.engine->launch(site, plan.prepared.get(), args);
}

}  // namespace

Status find_plan(gpudnnHandle_t handle, const Problem& problem, int algorithm, std::size_t workspace_bytes,
                 std::shared_ptr<const Plan>* plan) {
  const std::size_t limit = algorithm_needs_no_workspace(problem.direction, algorithm) ? 0 : workspace_bytes;
  const PlanKey key{problem, limit};
  *plan = handle->plans.find<Plan>(key);
  if (*plan != nullptr) return GPUDNN_STATUS_SUCCESS;
  std::shared_ptr<const Plan> made;
  GPUDNN_TRY(make_plan(problem, *handle->device, limit, &made));
  *plan = handle->plans.keep(key, std::move(made));
  return GPUDNN_STATUS_SUCCESS;
}

Status workspace_size(gpudnnHandle_t handle, const Problem& problem, int algorithm, std::size_t* bytes) {
  note_problem_lazily([&] { return to_text(problem); });
  *bytes = 0;
  if (element_count(problem.x) == 0 || algorithm_needs_no_workspace(problem.direction, algorithm))
    return GPUDNN_STATUS_SUCCESS;
  Choice best;
  GPUDNN_TRY(best_choice(problem, *handle->device, std::numeric_limits<std::size_t>::max(), &best));
  *bytes = best.workspace;
  return GPUDNN_STATUS_SUCCESS;
}

Status run(gpudnnHandle_t handle, const Problem& problem, int algorithm, void* workspace, std::size_t workspace_bytes,
           const Args& args) {
  note_problem_lazily([&] { return to_text(problem); });
  if (element_count(output(problem)) == 0) return GPUDNN_STATUS_SUCCESS;
  if (element_count(problem.x) == 0 || element_count(problem.y) == 0) return scale_output(handle, problem, args);
  const std::size_t usable = usable_workspace(workspace, workspace_bytes);
  std::shared_ptr<const Plan> plan;
  GPUDNN_TRY(find_plan(handle, problem, algorithm, usable, &plan));
  return launch(launch_site(handle, workspace, usable), *plan, args);
}

}  // namespace gpudnn::conv
