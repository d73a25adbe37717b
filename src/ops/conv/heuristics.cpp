// The heuristic: every engine's candidates by expected time, after those that measurements put first. And the classic
// algorithm numbers that stand for them.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/heuristics.hpp"

#include <algorithm>
#include <limits>

#include "core/environment.hpp"
#include "core/handle.hpp"
#include "ops/conv/tuning_cache.hpp"

namespace gpudnn::conv {
namespace {

std::size_t library_workspace_limit() {
  static const std::size_t limit = environment_workspace_limit();
  return limit;
}

constexpr std::size_t kUsualCandidates = 64;

bool serves(const ConvEngine& engine, const Problem& problem, const Device& device) {
  return engine.backend == device.backend && static_cast<bool>(engine.supports(problem, device));
}

// The engine's choices that fit; none if it does not take the problem.
void add_choices(const ConvEngine& engine, bool lean, const Problem& problem, const Device& device,
                 std::size_t workspace_limit, std::vector<Candidate>* candidates, std::vector<Choice>* choices) {
  if (!serves(engine, problem, device)) return;
  candidates->clear();
  (lean ? engine.lean_candidates : engine.candidates)(problem, device, candidates);
  for (const Candidate& candidate : *candidates) {
    if (candidate.workspace > workspace_limit) continue;
    choices->push_back({&engine, candidate.config, candidate.workspace, candidate.seconds, Source::model});
  }
}

// Of equals the engine that stands first in the list wins, always the same one.
void sort_by_seconds(std::vector<Choice>* choices) {
  std::stable_sort(choices->begin(), choices->end(), [](const Choice& a, const Choice& b) {
    return a.seconds != b.seconds ? a.seconds < b.seconds : a.engine < b.engine;
  });
}

bool names(const TunedRow& row, const Choice& choice) {
  return choice.config == row.config && row.engine == choice.engine->name;
}

// Whether one of the rows' choices is there that every call can take.
bool holds_measured_without_workspace(std::span<const TunedRow> rows, const std::vector<Choice>& choices) {
  return std::any_of(rows.begin(), rows.end(), [&](const TunedRow& row) {
    return std::any_of(choices.begin(), choices.end(),
                       [&](const Choice& choice) { return choice.workspace == 0 && names(row, choice); });
  });
}

// The times of the best choice, and of the best one without a workspace.
struct BestSeconds {
  double any = std::numeric_limits<double>::infinity();
  double lean = std::numeric_limits<double>::infinity();
};
BestSeconds best_seconds(const std::vector<Choice>& choices) {
  BestSeconds best;
  for (const Choice& choice : choices) {
    best.any = std::min(best.any, choice.seconds);
    if (choice.workspace == 0) best.lean = std::min(best.lean, choice.seconds);
  }
  return best;
}

std::span<const TunedRow> table_rows(const Problem& problem, const Device& device) {
  const TunedRows* const table = tuned_table(device);
  const std::vector<TunedRow>* const rows = table != nullptr ? table->find(problem) : nullptr;
  return rows != nullptr ? std::span<const TunedRow>(*rows) : std::span<const TunedRow>();
}

}  // namespace

std::vector<Choice> rank_by_model(std::span<const ConvEngine> engines, const Problem& problem, const Device& device,
                                  std::size_t workspace_limit) {
  std::vector<Choice> choices;
  std::vector<Candidate> candidates;
  choices.reserve(kUsualCandidates);
  candidates.reserve(kUsualCandidates);
  for (const ConvEngine& engine : engines) {
    add_choices(engine, false, problem, device, workspace_limit, &candidates, &choices);
  }
  sort_by_seconds(&choices);
  return choices;
}

std::vector<Choice> rank_within_reach(std::span<const ConvEngine> engines, std::span<const TunedRow> measured,
                                      const Problem& problem, const Device& device, std::size_t workspace_limit) {
  struct Waiting {
    double least;
    const ConvEngine* engine;
  };
  std::vector<Waiting> waiting;
  std::vector<Choice> choices;
  std::vector<Candidate> candidates;
  waiting.reserve(engines.size());
  choices.reserve(kUsualCandidates);
  candidates.reserve(kUsualCandidates);
  for (const ConvEngine& engine : engines) {
    if (engine.backend != device.backend) continue;
    if (std::any_of(measured.begin(), measured.end(), [&](const TunedRow& row) { return row.engine == engine.name; })) {
      add_choices(engine, false, problem, device, workspace_limit, &candidates, &choices);
    } else {
      waiting.push_back({0, &engine});
    }
  }
  if (!holds_measured_without_workspace(measured, choices)) {
    for (Waiting& w : waiting) {
      if (w.engine->least_seconds != nullptr) w.least = w.engine->least_seconds(problem, device);
    }
    std::stable_sort(waiting.begin(), waiting.end(),
                     [](const Waiting& a, const Waiting& b) { return a.least < b.least; });
    for (const Waiting& w : waiting) {
      const BestSeconds best = best_seconds(choices);
      if (w.least > best.lean) break;
      const bool lean = w.least > best.any && w.engine->lean_candidates != nullptr;
      add_choices(*w.engine, lean, problem, device, workspace_limit, &candidates, &choices);
    }
  }
  sort_by_seconds(&choices);
  return choices;
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

std::vector<Choice> rank(const Problem& problem, const Device& device) {
  std::vector<Choice> choices = rank_by_model(engines(), problem, device, library_workspace_limit());
  put_measured_first(table_rows(problem, device), Source::table, &choices);
  return choices;
}

std::vector<Choice> rank_with_measurements(gpudnnHandle_t handle, const Problem& problem, Reach reach) {
  using Ranking = std::vector<Choice>;
  struct Key {
    Problem problem;
    std::int64_t all;
  };
  const Device& device = *handle->device;
  const std::vector<TunedRow> found = tuning_cache().find(problem, device);
  // What was found may be any choice.
  const Key key{problem, reach == Reach::all || !found.empty() ? 1 : 0};
  auto ranking = handle->plans.find<Ranking>(key);
  if (ranking == nullptr) {
    Ranking made;
    if (key.all != 0) {
      made = rank(problem, device);
    } else {
      const std::span<const TunedRow> rows = table_rows(problem, device);
      made = rank_within_reach(engines(), rows, problem, device, library_workspace_limit());
      put_measured_first(rows, Source::table, &made);
    }
    ranking = handle->plans.keep(key, std::make_shared<const Ranking>(std::move(made)));
  }
  Ranking choices = *ranking;
  put_measured_first(found, Source::tuning_cache, &choices);
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
