// The heuristic: every engine's candidates by expected time, after those that measurements put first. And the classic
// algorithm numbers that stand for them.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/select/heuristics.hpp"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <limits>

#include "core/environment.hpp"
#include "core/handle.hpp"
#include "ops/conv/select/tuning_cache.hpp"
#include "ops/conv/tensor_math.hpp"

namespace gpudnn::conv {
namespace {

[[gnu::hot]] std::size_t library_workspace_limit() {
  static const std::size_t limit = environment_workspace_limit();
  return limit;
}

// 1 KB, which the C library still keeps at hand for the next to ask.
constexpr std::size_t kUsualCandidates = 42;
constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

[[gnu::hot]] bool serves(const ConvEngine& engine, const Problem& problem, const Device& device) {
  return engine.backend == device.backend && static_cast<bool>(engine.supports(problem, device));
}

// The engine's candidates within the limits; none if it does not take the problem.
[[gnu::hot]] void list(const ConvEngine& engine, const Problem& problem, const Device& device, const Limits& limits,
                       std::vector<Candidate>* candidates) {
  candidates->clear();
  if (engine.alignment > limits.alignment || !may_take(engine.reach, problem) || !serves(engine, problem, device))
    return;
  const bool lean = limits.workspace == 0 && engine.lean_candidates != nullptr;
  (lean ? engine.lean_candidates : engine.candidates)(problem, device, candidates);
  if (limits.workspace == kNoLimit || lean) return;
  std::erase_if(*candidates, [&](const Candidate& candidate) { return candidate.workspace > limits.workspace; });
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

bool fits(const Choice& choice, const Limits& limits) {
  return choice.workspace <= limits.workspace &&
         (choice.engine == nullptr || choice.engine->alignment <= limits.alignment);
}

// Of the rankings that the handle keeps.
struct Key {
  Problem problem;
  std::int64_t all;  // tells it from keys that are problems alone
};

// Room for candidates, handed from one query to the next: a query calls no allocator.
constexpr std::size_t kSpares = 4;
std::atomic<std::vector<Candidate>*> spares[kSpares] = {};

// Measurements are of the plain product.
bool has_epilogue(const Problem& problem) {
  return problem.activation >= 0 || problem.has_bias != 0 || problem.has_z != 0;
}

bool offers(const Choice& choice, const Problem& problem, const Device& device, const Limits& limits) {
  const CandidateList list_of_candidates;
  list(*choice.engine, problem, device, limits, &list_of_candidates.get());
  for (const Candidate& candidate : list_of_candidates.get()) {
    if (candidate.config == choice.config) return true;
  }
  return false;
}

// The engine's first fastest candidate within the limits, which may be slower than `bound` seconds; false if it has
// none or, perhaps, if none is as fast as that.
[[gnu::hot]] bool find_fastest(const ConvEngine& engine, const Problem& problem, const Device& device,
                               const Limits& limits, double bound, Candidate* fastest) {
  if (engine.fastest != nullptr && limits.workspace == kNoLimit) {
    return engine.alignment <= limits.alignment && engine.fastest(problem, device, bound, fastest);
  }
  const CandidateList candidates;
  list(engine, problem, device, limits, &candidates.get());
  const auto first = std::ranges::min_element(candidates.get(), {}, &Candidate::seconds);
  if (first == candidates.get().end()) return false;
  *fastest = *first;
  return true;
}

}  // namespace

[[gnu::hot]] CandidateList::CandidateList() {
  for (std::atomic<std::vector<Candidate>*>& spare : spares) {
    if (spare.load(std::memory_order_relaxed) == nullptr) continue;
    if ((list_ = spare.exchange(nullptr, std::memory_order_acquire)) != nullptr) break;
  }
  if (list_ == nullptr) {
    list_ = new std::vector<Candidate>;
    list_->reserve(kUsualCandidates);
  }
  list_->clear();
}

[[gnu::hot]] CandidateList::~CandidateList() {
  for (std::atomic<std::vector<Candidate>*>& spare : spares) {
    std::vector<Candidate>* none = nullptr;
    if (spare.compare_exchange_strong(none, list_, std::memory_order_release, std::memory_order_relaxed)) return;
  }
  delete list_;
}

std::vector<Choice> rank_by_model(std::span<const ConvEngine> engines, const Problem& problem, const Device& device,
                                  std::size_t workspace_limit) {
  std::vector<Choice> choices;
  std::vector<Candidate> candidates;
  choices.reserve(kUsualCandidates);
  candidates.reserve(kUsualCandidates);
  for (const ConvEngine& engine : engines) {
    list(engine, problem, device, {workspace_limit, kMaxAlignment}, &candidates);
    for (const Candidate& candidate : candidates) choices.push_back(choice_of(engine, candidate));
  }
  std::stable_sort(choices.begin(), choices.end(), comes_first);
  return choices;
}

// Small code as much as few steps: at a first query, most of the time goes into fetching what no cache holds. So loops
// are plain, which the standard library's unroll.
[[gnu::hot]] bool find_best(std::span<const ConvEngine> engines, const Problem& problem, const Device& device,
                            const Limits& limits, bool inner, double more, Choice* best) {
  struct Waiting {
    double least;
    const ConvEngine* engine;
    bool is_close;
  };
  Waiting waiting[kMaxEngines];
  Waiting* last = waiting;
  const bool takes_tensor_cores = tensor_math_unsupported_reason(problem) == nullptr;
  for (const ConvEngine& engine : engines) {
    if (engine.backend != device.backend || !may_take(engine.reach, problem) || last == std::end(waiting)) continue;
    if (engine.math == GPUDNN_TENSOR_OP_MATH ? !takes_tensor_cores || (inner && engine.copies) : inner) continue;
    *last = {engine.least_seconds != nullptr ? engine.least_seconds(problem, device) : 0, &engine,
             engine.closer_seconds == nullptr};
    for (Waiting* next = last++; next != waiting && next->least < (next - 1)->least; --next) {
      std::swap(*next, *(next - 1));
    }
  }
  bool found = false;
  for (Waiting* next = waiting; next != last && next->least + more <= best->seconds;) {
    const ConvEngine& engine = *next->engine;
    if (!next->is_close && (next->least > 0 || best->seconds < std::numeric_limits<double>::infinity())) {
      next->is_close = true;
      next->least = engine.closer_seconds(problem, device);
      for (Waiting* later = next; later + 1 != last && (later + 1)->least < later->least; ++later) {
        std::swap(*later, *(later + 1));
      }
      continue;
    }
    ++next;
    Candidate candidate;
    const double bound = (best->seconds - more) * (1 + 1e-9);  // the difference is rounded
    if (!find_fastest(engine, problem, device, limits, bound, &candidate)) continue;
    Choice choice = choice_of(engine, candidate);
    choice.seconds += more;
    const bool ties = choice.seconds == best->seconds && (!found || choice.engine < best->engine);
    if (choice.seconds >= best->seconds && !ties) continue;
    *best = choice;
    found = true;
  }
  return found;
}

[[gnu::hot]] Choice best_within(std::span<const ConvEngine> engines, std::span<const Choice> measured,
                                const Problem& problem, const Device& device, const Limits& limits) {
  for (const Choice& choice : measured) {
    if (!fits(choice, limits)) continue;
    if (!has_epilogue(problem) || offers(choice, problem, device, limits)) return choice;
  }
  Choice best;
  best.seconds = std::numeric_limits<double>::infinity();
  (void)find_best(engines, problem, device, limits, false, 0, &best);
  return best;
}

TunedRow row_of(const Choice& choice) { return {choice.engine->name, choice.config, 1e6 * choice.seconds}; }

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
  std::vector<TunedRow> rows;
  for (const Choice& choice : measured_choices(problem, device)) rows.push_back(row_of(choice));
  put_measured_first(rows, Source::table, &choices);
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

[[gnu::hot]] Choice choose(gpudnnHandle_t handle, const Problem& problem, const Limits& limits) {
  const Device& device = *handle->device;
  // What was found may be any choice.
  if (!tuning_cache().find(problem, device).empty()) {
    const Ranking all = rank_with_measurements(handle, problem);
    for (const Choice& choice : *all) {
      if (fits(choice, limits)) return choice;
    }
    return {};
  }
  const std::size_t most = library_workspace_limit();
  const auto best_of = [&](const Limits& within) {
    return best_within(engines(), measured_choices(problem, device), problem, device, within);
  };
  const std::uint64_t hash = hash_bytes({reinterpret_cast<const char*>(&problem), sizeof problem});
  Choice best;
  if (!handle->choices.find(hash, problem, &best)) {
    best = best_of({most, kMaxAlignment});
    handle->choices.keep(hash, problem, best);
  }
  return fits(best, limits) ? best : best_of({std::min(limits.workspace, most), limits.alignment});
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

[[gnu::hot]] int algorithm_count(Direction direction) noexcept {
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

}  // namespace gpudnn::conv
