// Plans: from a problem, the caller's algorithm and workspace to an engine ready to launch; kept in the handle's cache.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/plan.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>

#include "ops/conv/select/heuristics.hpp"
#include "ops/tensor/problem.hpp"

namespace gpudnn::conv {
namespace {

// Workspaces at odd addresses are not used: split sums are stored as vectors.
constexpr std::uintptr_t kWorkspaceAlignment = 16;

struct PlanKey {
  Problem problem;
  std::uint64_t workspace_limit;
  std::uint64_t alignment;
  std::int64_t family;
};

// A line for each engine of the backend that is not in the ranking.
void log_passed_over(gpudnnHandle_t handle, const Problem& problem) {
  const EngineFilter filter(engines(), handle->device->backend);
  for (const ConvEngine& engine : engines()) {
    if (engine.backend != handle->device->backend) continue;
    const char* reason = filter.reason_against(engine.name);
    if (reason == nullptr) reason = engine.supports(problem, *handle->device).reason_against;
    if (reason == nullptr) continue;
    log_line(GPUDNN_SEV_INFO, handle, GPUDNN_STATUS_SUCCESS, "%s | %s | passed over: %s: %s",
             call_context().function != nullptr ? call_context().function : "", to_text(problem).c_str(), engine.name,
             reason);
  }
}

// The ranking as the log shows it, a line for each choice; `taken` is the one that the plan is made of.
void log_choices(gpudnnHandle_t handle, const Problem& problem, const std::vector<Choice>& choices,
                 std::size_t workspace_limit, const Choice& taken) {
  constexpr std::size_t kMaxLines = 8;
  const std::string text = to_text(problem);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const Choice& c = choices[i];
    const bool is_taken = c.engine == taken.engine && c.config == taken.config;
    if (i >= kMaxLines && !is_taken) continue;
    const char* const note = is_taken ? " <- taken" : c.workspace > workspace_limit ? " (no room)" : "";
    log_line(GPUDNN_SEV_INFO, handle, GPUDNN_STATUS_SUCCESS,
             "%s | %s | choice %zu of %zu: %s workspace=%zu expected=%.1f us source=%s%s",
             call_context().function != nullptr ? call_context().function : "", text.c_str(), i + 1, choices.size(),
             choice_text(*c.engine, c.config).c_str(), c.workspace, 1e6 * c.seconds, source_name(c.source), note);
  }
}

Status choose_one(gpudnnHandle_t handle, const Problem& problem, const Limits& limits, Choice* choice) {
  *choice = choose(handle, problem, limits);
  GPUDNN_REQUIRE(
      choice->engine != nullptr, GPUDNN_STATUS_NOT_SUPPORTED, "no convolution engine fits (%s): %s",
      rank_with_measurements(handle, problem)->empty()
          ? engine_wishes().empty() ? "no engine of this backend takes it" : "none that GPUDNN_ENGINES leaves takes it"
          : "every engine that takes it needs more workspace or tensors at multiples of 16 bytes",
      to_text(problem).c_str());
  return GPUDNN_STATUS_SUCCESS;
}

Status make_plan(gpudnnHandle_t handle, const Problem& problem, const Limits& limits,
                 std::shared_ptr<const Plan>* plan) {
  Choice choice;
  GPUDNN_TRY(choose_one(handle, problem, limits, &choice));
  if (log_enabled(GPUDNN_SEV_INFO)) {
    log_passed_over(handle, problem);
    log_choices(handle, problem, *rank_with_measurements(handle, problem), limits.workspace, choice);
  }
  *plan = prepare_plan(choice, problem, *handle->device);
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

}  // namespace

std::size_t alignment_of(const Args& args) noexcept {
  std::uintptr_t bits = kMaxAlignment;
  for (const void* pointer : {args.x, args.w, args.y, args.z, static_cast<const void*>(args.out)}) {
    bits |= reinterpret_cast<std::uintptr_t>(pointer);
  }
  return static_cast<std::size_t>(bits & (~bits + 1));
}

std::size_t usable_workspace(const void* workspace, std::size_t bytes) noexcept {
  const bool usable = workspace != nullptr && reinterpret_cast<std::uintptr_t>(workspace) % kWorkspaceAlignment == 0;
  return usable ? bytes : 0;
}

std::shared_ptr<const Plan> prepare_plan(const Choice& choice, const Problem& problem, const Device& device) {
  auto plan = std::make_shared<Plan>();
  plan->choice = choice;
  const cuda::DeviceScope scope(device);
  plan->prepared = choice.engine->prepare(problem, choice.config, device);
  return plan;
}

Status launch_plan(const LaunchSite& site, const Plan& plan, const Args& args) {
  call_context().engine = plan.choice.engine->name;
  const cuda::DeviceScope scope(site.device);
  return plan.choice.engine->launch(site, plan.prepared.get(), args);
}

void forget_plans(gpudnnHandle_t handle, const Problem& problem) {
  const Problem wanted = tuning_key_without_epilogue(problem);
  handle->plans.forget<PlanKey>([&](const PlanKey& key) {
    return key.problem.tag == wanted.tag && tuning_key_without_epilogue(key.problem) == wanted;
  });
}

Status find_plan(gpudnnHandle_t handle, const Problem& problem, int algorithm, std::size_t workspace_bytes,
                 std::size_t alignment, std::shared_ptr<const Plan>* plan) {
  const std::size_t limit = algorithm_needs_no_workspace(problem.direction, algorithm) ? 0 : workspace_bytes;
  const Family family = family_of(problem.direction, algorithm);
  const PlanKey key{problem, limit, alignment, static_cast<std::int64_t>(family)};
  *plan = handle->plans.find<Plan>(key);
  if (*plan != nullptr) return GPUDNN_STATUS_SUCCESS;
  std::shared_ptr<const Plan> made;
  GPUDNN_TRY(make_plan(handle, problem, {limit, alignment, family}, &made));
  *plan = handle->plans.keep(key, made);
  return GPUDNN_STATUS_SUCCESS;
}

Status workspace_size(gpudnnHandle_t handle, const Problem& problem, int algorithm, std::size_t* bytes) {
  note_problem_lazily([&] { return to_text(problem); });
  *bytes = 0;
  if (element_count(problem.x) == 0 || algorithm_needs_no_workspace(problem.direction, algorithm))
    return GPUDNN_STATUS_SUCCESS;
  Choice best;
  const Limits limits = {std::numeric_limits<std::size_t>::max(), kMaxAlignment,
                         family_of(problem.direction, algorithm)};
  GPUDNN_TRY(choose_one(handle, problem, limits, &best));
  *bytes = best.workspace;
  return GPUDNN_STATUS_SUCCESS;
}

Status run(gpudnnHandle_t handle, const Problem& problem, int algorithm, void* workspace, std::size_t workspace_bytes,
           const Args& args) {
  note_problem_lazily([&] { return to_text(problem); });
  if (log_enabled(GPUDNN_SEV_INFO)) {
    char second[32] = "";
    if (problem.has_z != 0) std::snprintf(second, sizeof second, " alpha2=%g", args.alpha2);
    note_arguments("alpha=%g beta=%g%s algo=%d workspace=%zu", args.alpha, args.beta, second, algorithm,
                   workspace_bytes);
  }
  if (element_count(output(problem)) == 0) return GPUDNN_STATUS_SUCCESS;
  if (element_count(problem.x) == 0 || element_count(problem.y) == 0) return scale_output(handle, problem, args);
  const std::size_t usable = usable_workspace(workspace, workspace_bytes);
  std::shared_ptr<const Plan> plan;
  GPUDNN_TRY(find_plan(handle, problem, algorithm, usable, alignment_of(args), &plan));
  const Status status = launch_verified(handle, problem, *plan, args, workspace, usable);
  // What the driver refused when the plan was made, it may grant the next time.
  if (status != GPUDNN_STATUS_SUCCESS) forget_plans(handle, problem);
  return status;
}

}  // namespace gpudnn::conv
