// The heuristic: every engine's candidates by expected time, after those that measurements put first. And the classic
// algorithm numbers that stand for them.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/heuristics.hpp"

#include <algorithm>

#include "core/environment.hpp"
#include "core/handle.hpp"
#include "ops/conv/tuning_cache.hpp"

namespace gpudnn::conv {
namespace {

std::size_t library_workspace_limit() {
  static const std::size_t limit = environment_workspace_limit();
  return limit;
}

}  // namespace

std::vector<Choice> rank_by_model(std::span<const ConvEngine> engines, const Problem& problem, const Device& device,
                                  std::size_t workspace_limit) {
  constexpr std::size_t kUsualCandidates = 64;
  std::vector<Choice> choices;
  std::vector<Candidate> candidates;
  choices.reserve(kUsualCandidates);
  candidates.reserve(kUsualCandidates);
  for (const ConvEngine& engine : engines) {
    if (engine.backend != device.backend || !engine.supports(problem, device)) continue;
    candidates.clear();
    engine.candidates(problem, device, &candidates);
    for (const Candidate& candidate : candidates) {
      if (candidate.workspace > workspace_limit) continue;
      choices.push_back({&engine, candidate.config, candidate.workspace, candidate.seconds, Source::model});
    }
  }
  // Stable, so that of equals the engine that stands first in the list wins, always the same one.
  std::stable_sort(choices.begin(), choices.end(),
                   [](const Choice& a, const Choice& b) { return a.seconds < b.seconds; });
  return choices;
}

void put_measured_first(std::span<const TunedRow> rows, Source source, std::vector<Choice>* choices) {
  auto front = choices->begin();
  for (const TunedRow& row : rows) {
    const auto found = std::find_if(front, choices->end(), [&](const Choice& choice) {
      return choice.config == row.config && row.engine == choice.engine->name;
    });
    if (found == choices->end()) continue;
    found->seconds = 1e-6 * row.microseconds;
    found->source = source;
    std::rotate(front, found, found + 1);
    ++front;
  }
}

std::vector<Choice> rank(const Problem& problem, const Device& device) {
  std::vector<Choice> choices = rank_by_model(engines(), problem, device, library_workspace_limit());
  const TunedRows* const table = tuned_table(device);
  const std::vector<TunedRow>* const rows = table != nullptr ? table->find(problem) : nullptr;
  if (rows != nullptr) put_measured_first(*rows, Source::table, &choices);
  return choices;
}

std::vector<Choice> rank_with_measurements(gpudnnHandle_t handle, const Problem& problem) {
  using Ranking = std::vector<Choice>;
  auto ranking = handle->plans.find<Ranking>(problem);
  if (ranking == nullptr) {
    ranking = handle->plans.keep(problem, std::make_shared<const Ranking>(rank(problem, *handle->device)));
  }
  Ranking choices = *ranking;
  put_measured_first(tuning_cache().find(problem, *handle->device), Source::tuning_cache, &choices);
  return choices;
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
    case Direction::backward_data:
      return GPUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT;
    case Direction::backward_filter:
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

}  // namespace gpudnn::conv
