// From a problem to an engine ready to launch; plans are kept in the handle's cache.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/environment.hpp"
#include "ops/matmul/engine.hpp"

namespace gpudnn::matmul {
namespace {

struct PlanKey {
  Problem problem;
  std::uint64_t workspace_limit;
  std::uint64_t alignment;  // of a, b and d, a byte each
};

// A workspace at an odd address is not used.
std::size_t usable_workspace(const void* workspace, std::size_t bytes) noexcept {
  const bool usable = workspace != nullptr && reinterpret_cast<std::uintptr_t>(workspace) % kMaxAlignment == 0;
  return usable ? std::min(bytes, environment_workspace_limit()) : 0;
}

void log_choices(gpudnnHandle_t handle, const Problem& problem, const std::vector<Choice>& choices,
                 const Choice& taken) {
  constexpr std::size_t kMaxLines = 8;
  const std::string text = to_text(problem);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const bool is_taken = choices[i].engine == taken.engine && choices[i].config == taken.config;
    if (i >= kMaxLines && !is_taken) continue;
    log_line(GPUDNN_SEV_INFO, handle, GPUDNN_STATUS_SUCCESS,
             "%s | %s | choice %zu of %zu: engine=%s config=%s expected=%.1f us%s",
             call_context().function != nullptr ? call_context().function : "", text.c_str(), i + 1, choices.size(),
             choices[i].engine->name, choices[i].config.c_str(), 1e6 * choices[i].seconds, is_taken ? " <- taken" : "");
  }
}

// The first choice that fits and that its engine really takes.
Status choose(gpudnnHandle_t handle, const Problem& problem, std::size_t workspace_limit, const Alignment& alignment,
              std::shared_ptr<const Plan>* plan) {
  const std::vector<Choice> choices = rank(problem, *handle->device);
  for (const Choice& choice : choices) {
    if (!takes_addresses(choice, problem, alignment)) continue;
    if (choice.engine->workspace(problem, choice.config, *handle->device) > workspace_limit) continue;
    if (make_plan(choice, problem, *handle->device, plan) != GPUDNN_STATUS_SUCCESS) continue;
    clear_last_error();
    if (log_enabled(GPUDNN_SEV_INFO)) log_choices(handle, problem, choices, choice);
    return GPUDNN_STATUS_SUCCESS;
  }
  return GPUDNN_REFUSE(GPUDNN_STATUS_NOT_SUPPORTED, "no engine takes %s with %zu bytes of workspace",
                       to_text(problem).c_str(), workspace_limit);
}

}  // namespace

std::vector<Choice> rank(const Problem& problem, const Device& device) {
  std::vector<Choice> choices;
  std::vector<Candidate> candidates;
  const EngineFilter filter(engines(), device.backend);
  for (const MatmulEngine& engine : engines()) {
    if (filter.reason_against(engine.name) != nullptr) continue;
    if (engine.backend != device.backend || !engine.deterministic) continue;
    if (!engine.supports(problem, device)) continue;
    candidates.clear();
    engine.candidates(problem, device, &candidates);
    for (Candidate& candidate : candidates) {
      choices.push_back({&engine, std::move(candidate.config), candidate.seconds});
    }
  }
  std::ranges::stable_sort(choices, {}, &Choice::seconds);
  return choices;
}

Alignment alignment_of(const Args& args) noexcept {
  const auto of = [](std::initializer_list<const void*> pointers) {
    std::uintptr_t bits = kMaxAlignment;
    for (const void* pointer : pointers) bits |= reinterpret_cast<std::uintptr_t>(pointer);
    return static_cast<std::uint32_t>(bits & (~bits + 1));
  };
  return {of({args.a}), of({args.b}), of({args.d, args.c})};
}

bool takes_addresses(const Choice& choice, const Problem& problem, const Alignment& alignment) {
  const MatmulEngine& engine = *choice.engine;
  if (engine.takes_addresses != nullptr) return engine.takes_addresses(problem, choice.config, alignment);
  return std::min({alignment.a, alignment.b, alignment.d}) >= engine.alignment;
}

Status make_plan(const Choice& choice, const Problem& problem, const Device& device,
                 std::shared_ptr<const Plan>* plan) {
  const cuda::DeviceScope scope(device);
  auto made = std::make_shared<Plan>();
  made->choice = choice;
  made->workspace = choice.engine->workspace(problem, choice.config, device);
  made->prepared = choice.engine->prepare(problem, choice.config, device);
  GPUDNN_REQUIRE(made->prepared != nullptr, GPUDNN_STATUS_NOT_SUPPORTED,
                 "the engine %s has no config '%s', or the driver refused its tensor maps: %s", choice.engine->name,
                 choice.config.c_str(), to_text(problem).c_str());
  *plan = std::move(made);
  return GPUDNN_STATUS_SUCCESS;
}

Status find_plan(gpudnnHandle_t handle, const Problem& problem, std::size_t workspace_limit, const Alignment& alignment,
                 std::shared_ptr<const Plan>* plan) {
  const PlanKey key{problem, workspace_limit, alignment.a | alignment.b << 8 | alignment.d << 16};
  *plan = handle->plans.find<Plan>(key);
  if (*plan != nullptr) return GPUDNN_STATUS_SUCCESS;
  std::shared_ptr<const Plan> made;
  GPUDNN_TRY(choose(handle, problem, workspace_limit, alignment, &made));
  *plan = handle->plans.keep(key, made);
  return GPUDNN_STATUS_SUCCESS;
}

Status workspace_size(gpudnnHandle_t handle, const Problem& problem, std::size_t* bytes) {
  note_problem_lazily([&] { return to_text(problem); });
  *bytes = 0;
  if (element_count(problem.d) == 0) return GPUDNN_STATUS_SUCCESS;
  std::shared_ptr<const Plan> plan;
  GPUDNN_TRY(find_plan(handle, problem, environment_workspace_limit(), Alignment(), &plan));
  *bytes = plan->workspace;
  return GPUDNN_STATUS_SUCCESS;
}

Status launch_plan(const LaunchSite& site, const Plan& plan, const Args& args) {
  call_context().engine = plan.choice.engine->name;
  if (site.device.backend == GPUDNN_BACKEND_HOST) return plan.choice.engine->launch(site, plan.prepared.get(), args);
  const cuda::DeviceScope scope(site.device);
  return plan.choice.engine->launch(site, plan.prepared.get(), args);
}

Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args, void* workspace,
           std::size_t workspace_bytes) {
  note_problem_lazily([&] { return to_text(problem); });
  note_scalars(args);
  if (element_count(problem.d) == 0) return GPUDNN_STATUS_SUCCESS;
  const std::size_t usable = usable_workspace(workspace, workspace_bytes);
  std::shared_ptr<const Plan> plan;
  GPUDNN_TRY(find_plan(handle, problem, usable, alignment_of(args), &plan));
  return launch_verified(handle, problem, *plan, args, workspace, usable);
}

}  // namespace gpudnn::matmul
