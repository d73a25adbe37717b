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

// 1 KB, which the C library still keeps at hand for the next to ask.
constexpr std::size_t kUsualCandidates = 42;

bool serves(const ConvEngine& engine, const Problem& problem, const Device& device) {
  return engine.backend == device.backend && static_cast<bool>(engine.supports(problem, device));
}

// The engine's candidates; none if it does not take the problem.
void list(const ConvEngine& engine, bool lean, const Problem& problem, const Device& device,
          std::vector<Candidate>* candidates) {
  candidates->clear();
  if (serves(engine, problem, device)) (lean ? engine.lean_candidates : engine.candidates)(problem, device, candidates);
}

Choice choice_of(const ConvEngine& engine, const Candidate& candidate) {
  return {&engine, candidate.config, candidate.workspace, candidate.seconds, Source::model};
}

// Of equals the engine that stands first in the list wins, always the same one.
bool comes_first(const Choice& a, const Choice& b) {
  return a.seconds != b.seconds ? a.seconds < b.seconds : a.engine < b.engine;
}

bool names(const TunedRow& row, const Choice& choice) {
  return choice.config == row.config && row.engine == choice.engine->name;
}

// Moves the last element to its place among those before it, which are in order and few.
template <class Place, class Less>
void sink(Place first, Place last, Less less) {
  for (; last != first && less(*last, *(last - 1)); --last) std::swap(*last, *(last - 1));
}

// What a call may take of the choices that it was shown.
struct Reached {
  Choice best;
  Choice lean;                // the best without a workspace
  std::vector<Choice> named;  // by measurements
  bool names_lean = false;    // one of those without a workspace

  Reached() { best.seconds = lean.seconds = std::numeric_limits<double>::infinity(); }

  void show(const Choice& choice, std::span<const TunedRow> measured) {
    if (comes_first(choice, best)) best = choice;
    if (choice.workspace == 0 && comes_first(choice, lean)) lean = choice;
    for (const TunedRow& row : measured) {
      if (!names(row, choice)) continue;
      named.push_back(choice);
      names_lean |= choice.workspace == 0;
      break;
    }
  }

  // Each once, in order.
  [[nodiscard]] std::vector<Choice> ranking() {
    for (const Choice* const choice : {&best, &lean}) {
      bool there = choice->engine == nullptr;
      for (const Choice& c : named) there |= c.engine == choice->engine && c.config == choice->config;
      if (!there) named.push_back(*choice);
    }
    for (auto next = named.begin(); next != named.end(); ++next) sink(named.begin(), next, comes_first);
    return std::move(named);
  }
};

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
    list(engine, false, problem, device, &candidates);
    for (const Candidate& candidate : candidates) {
      if (candidate.workspace <= workspace_limit) choices.push_back(choice_of(engine, candidate));
    }
  }
  std::stable_sort(choices.begin(), choices.end(), comes_first);
  return choices;
}

// Small code as much as few steps: at a first query, most of the time goes into fetching what no cache holds. So loops
// are plain, which the standard library's unroll.
std::vector<Choice> rank_within_reach(std::span<const ConvEngine> engines, std::span<const TunedRow> measured,
                                      const Problem& problem, const Device& device, std::size_t workspace_limit) {
  struct Waiting {
    double least;
    const ConvEngine* engine;
  };
  std::vector<Waiting> waiting(engines.size());
  auto last = waiting.begin();
  std::vector<Candidate> candidates;
  candidates.reserve(kUsualCandidates);
  Reached reached;
  const auto ask = [&](const ConvEngine& engine, bool lean) {
    list(engine, lean, problem, device, &candidates);
    for (const Candidate& candidate : candidates) {
      if (candidate.workspace <= workspace_limit) reached.show(choice_of(engine, candidate), measured);
    }
  };
  for (const ConvEngine& engine : engines) {
    if (engine.backend != device.backend) continue;
    bool is_measured = false;
    for (const TunedRow& row : measured) is_measured |= row.engine == engine.name;
    if (is_measured) {
      ask(engine, false);
    } else {
      *last++ = {0, &engine};
    }
  }
  // A measured choice that every call can take leaves nothing to look for.
  if (reached.names_lean) return reached.ranking();
  for (auto next = waiting.begin(); next != last; ++next) {
    if (next->engine->least_seconds != nullptr) next->least = next->engine->least_seconds(problem, device);
    sink(waiting.begin(), next, [](const Waiting& a, const Waiting& b) { return a.least < b.least; });
  }
  for (auto next = waiting.begin(); next != last && next->least <= reached.lean.seconds; ++next) {
    ask(*next->engine, next->least > reached.best.seconds && next->engine->lean_candidates != nullptr);
  }
  return reached.ranking();
}

void put_measured_first(std::span<const TunedRow> rows, Source source, std::vector<Choice>* choices) {
  auto front = choices->begin();
  for (const TunedRow& row : rows) {
    auto found = front;
    while (found != choices->end() && !names(row, *found)) ++found;
    if (found == choices->end()) continue;
    found->seconds = 1e-6 * row.microseconds;
    found->source = source;
    for (; found != front; --found) std::swap(*found, *(found - 1));
    ++front;
  }
}

std::vector<Choice> rank(const Problem& problem, const Device& device) {
  std::vector<Choice> choices = rank_by_model(engines(), problem, device, library_workspace_limit());
  put_measured_first(table_rows(problem, device), Source::table, &choices);
  return choices;
}

Ranking rank_with_measurements(gpudnnHandle_t handle, const Problem& problem, Reach reach) {
  using Choices = std::vector<Choice>;
  struct Key {
    Problem problem;
    std::int64_t all;
  };
  const Device& device = *handle->device;
  const std::vector<TunedRow> found = tuning_cache().find(problem, device);
  // What was found may be any choice.
  const Key key{problem, reach == Reach::all || !found.empty() ? 1 : 0};
  Ranking ranking = handle->plans.find<Choices>(key);
  if (ranking == nullptr) {
    auto made = std::make_shared<Choices>();
    if (key.all != 0) {
      *made = rank(problem, device);
    } else {
      const std::span<const TunedRow> rows = table_rows(problem, device);
      *made = rank_within_reach(engines(), rows, problem, device, library_workspace_limit());
      put_measured_first(rows, Source::table, made.get());
    }
    ranking = handle->plans.keep(key, Ranking(std::move(made)));
  }
  if (found.empty()) return ranking;
  auto changed = std::make_shared<Choices>(*ranking);
  put_measured_first(found, Source::tuning_cache, changed.get());
  return changed;
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
