// The heuristic: every engine's candidates by expected time, after those that measurements put first. And the classic
// algorithm numbers that stand for them.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/select/heuristics.hpp"

#include <algorithm>

#include "core/environment.hpp"
#include "core/handle.hpp"
#include "ops/conv/select/tuning_cache.hpp"

namespace gpudnn::conv {
namespace {

std::size_t library_workspace_limit() {
  static const std::size_t limit = environment_workspace_limit();
  return limit;
}

// Of equals the engine that stands first in the list wins, always the same one.
bool comes_first(const Choice& a, const Choice& b) {
  return a.seconds != b.seconds ? a.seconds < b.seconds : a.engine < b.engine;
}

// Of the rankings that the handle keeps.
struct Key {
  Problem problem;
  std::int64_t all;  // tells it from keys that are problems alone
};

}  // namespace

std::vector<Choice> rank_by_model(std::span<const ConvEngine> engines, const Problem& problem, const Device& device,
                                  std::size_t workspace_limit, EnginePredicate wanted) {
  std::vector<Choice> choices;
  std::vector<Candidate> candidates;
  const EngineFilter filter(engines, device.backend);
  for (const ConvEngine& engine : engines) {
    if (engine.backend != device.backend || (wanted != nullptr && !wanted(engine))) continue;
    if (filter.reason_against(engine.name) != nullptr) continue;
    if (!engine.supports(problem, device)) continue;
    candidates.clear();
    engine.candidates(problem, device, &candidates);
    for (const Candidate& c : candidates) {
      if (c.workspace <= workspace_limit) choices.push_back({&engine, c.config, c.workspace, c.seconds, Source::model});
    }
  }
  std::stable_sort(choices.begin(), choices.end(), comes_first);
  return choices;
}

TunedRow row_of(const Choice& choice) { return {choice_text(*choice.engine, choice.config), 1e6 * choice.seconds}; }

bool names(const TunedRow& row, const Choice& choice) {
  if (row.choice.find(" tile=") != std::string::npos) return row.choice == old_choice_text(choice);
  return row.choice.starts_with(choice.engine->name) && row.choice == choice_text(*choice.engine, choice.config);
}

void put_measured_first(std::span<const TunedRow> rows, Source source, std::vector<Choice>* choices) {
  auto front = choices->begin();
  for (const TunedRow& row : rows) {
    const auto found = std::find_if(front, choices->end(), [&](const Choice& choice) { return names(row, choice); });
    if (found == choices->end()) continue;
    found->seconds = 1e-6 * row.microseconds;
    found->source = source;
    std::rotate(front, found, found + 1);
    ++front;
  }
}

std::vector<Choice> rank(const Problem& problem, const Device& device, EnginePredicate wanted) {
  std::vector<Choice> choices = rank_by_model(engines(), problem, device, library_workspace_limit(), wanted);
  put_measured_first(measured_rows(problem, device), Source::table, &choices);
  return choices;
}

std::vector<Choice> rank_with_measurements(const Problem& problem, const Device& device, EnginePredicate wanted) {
  std::vector<Choice> choices = rank(problem, device, wanted);
  put_measured_first(tuning_cache().find(problem, device), Source::tuning_cache, &choices);
  return choices;
}

Ranking rank_with_measurements(gpudnnHandle_t handle, const Problem& problem) {
  using Choices = std::vector<Choice>;
  const Key key{problem, 1};
  Ranking ranking = handle->plans.find<Choices>(key);
  if (ranking == nullptr) {
    ranking = handle->plans.keep(key, std::make_shared<const Choices>(rank(problem, *handle->device)));
  }
  const std::vector<TunedRow> found = tuning_cache().find(problem, *handle->device);
  if (found.empty()) return ranking;
  auto changed = std::make_shared<Choices>(*ranking);
  put_measured_first(found, Source::tuning_cache, changed.get());
  return changed;
}

Choice choose(gpudnnHandle_t handle, const Problem& problem, const Limits& limits) {
  const Ranking ranking = rank_with_measurements(handle, problem);
  for (const Family family : {limits.family, Family::direct}) {
    for (const Choice& choice : *ranking) {
      const bool fits = choice.workspace <= limits.workspace && choice.engine->alignment <= limits.alignment;
      if (fits && choice.engine->family == family) return choice;
    }
  }
  return {};
}

const char* source_name(Source source) noexcept {
  switch (source) {
    case Source::model:
      return "model";
    case Source::table:
      return "table";
    case Source::tuning_cache:
      return "tuning_cache";
  }
  return "";
}

int algorithm_count(Direction direction) noexcept {
  switch (direction) {
    case Direction::forward:
      return GPUDNN_CONVOLUTION_FWD_ALGO_COUNT;
    case Direction::dgrad:
      return GPUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT;
    case Direction::wgrad:
      return GPUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT;
  }
  return 0;
}

// The numbers that programs pick when they have no memory to spare: IMPLICIT_GEMM and DIRECT forward, ALGO_0 backward.
bool algorithm_needs_no_workspace(Direction direction, int algorithm) noexcept {
  if (direction == Direction::forward) {
    return algorithm == GPUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM || algorithm == GPUDNN_CONVOLUTION_FWD_ALGO_DIRECT;
  }
  return algorithm == 0;
}

Family family_of(Direction direction, int algorithm) noexcept {
  // clang-format off
  constexpr Family kForward[] = {Family::direct, Family::direct, Family::direct, Family::direct,
                                 Family::fft, Family::fft_tiling, Family::winograd, Family::winograd_nonfused};
  constexpr Family kData[] = {Family::direct, Family::direct, Family::fft, Family::fft_tiling,
                              Family::winograd, Family::winograd_nonfused};
  constexpr Family kFilter[] = {Family::direct, Family::direct, Family::fft, Family::direct,
                                Family::winograd, Family::winograd_nonfused, Family::fft_tiling};
  // clang-format on
  static_assert(std::size(kForward) == GPUDNN_CONVOLUTION_FWD_ALGO_COUNT, "a family for each number");
  static_assert(std::size(kData) == GPUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT, "a family for each number");
  static_assert(std::size(kFilter) == GPUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT, "a family for each number");
  if (algorithm < 0 || algorithm >= algorithm_count(direction)) return Family::direct;
  return direction == Direction::forward ? kForward[algorithm]
         : direction == Direction::dgrad ? kData[algorithm]
                                         : kFilter[algorithm];
}

}  // namespace gpudnn::conv
