// The algorithm queries (by the heuristic) and searches (by measurement). What a search finds goes to the tuning cache,
// so that later calls take it.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/select/find.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>

#include "gpudnn/ext.h"
#include "ops/conv/plan.hpp"
#include "ops/conv/select/heuristics.hpp"
#include "ops/conv/select/tuning_cache.hpp"

namespace gpudnn::conv {
namespace {

// Two classic numbers stand for all that the direct engines can do: 0 promises no workspace, 1 takes what pays. The
// other families have a number each.
constexpr int kNoWorkspace = 0;
constexpr int kBest = 1;

// A search ends at the first of these. The least it measures is one choice, and one that needs no workspace.
constexpr std::size_t kMaxMeasured = 30;
constexpr double kMaxSeconds = 0.1;
// A search on memory of its own allocates no more workspace than this.
constexpr std::size_t kMaxOwnWorkspace = std::size_t{1} << 30;

const Choice* first_of(Family family, const std::vector<Choice>& choices) {
  const auto found = std::ranges::find_if(choices, [&](const Choice& c) { return c.engine->family == family; });
  return found == choices.end() ? nullptr : &*found;
}

const Choice* first_without_workspace(const std::vector<Choice>& choices) {
  const auto found = std::ranges::find_if(
      choices, [](const Choice& c) { return c.engine->family == Family::direct && c.workspace == 0; });
  return found == choices.end() ? nullptr : &*found;
}

// Numbers without an engine of their own; they still run, as an equivalent, when a program asks for them by number.
template <class Rows>
void add_unserved(Direction direction, const std::vector<Choice>& choices, Rows* rows) {
  for (int algorithm = kBest + 1; algorithm < algorithm_count(direction); ++algorithm) {
    const Family family = family_of(direction, algorithm);
    if (family != Family::direct && first_of(family, choices) != nullptr) continue;
    rows->push_back({algorithm, GPUDNN_STATUS_NOT_SUPPORTED, -1, 0, GPUDNN_DEFAULT_MATH});
  }
}

Performance describe(int algorithm, const Choice& choice) {
  Performance row;
  row.algorithm = algorithm;
  row.milliseconds = static_cast<float>(choice.seconds * 1e3);
  row.memory = choice.workspace;
  row.math = choice.config.inner != nullptr ? choice.config.inner->math : choice.engine->math;
  return row;
}

// What a launch of one choice takes, and the clock that times it on the host.
struct Work {
  const LaunchSite& site;
  const Plan& plan;
  const Args& args;
  Clock seconds_now;
};

// Seconds of one of `repeats` runs. On a device a run before them warms up; the host has no need of that.
Status time_runs(const Work& work, int repeats, double* seconds) {
  if (work.site.device.backend == GPUDNN_BACKEND_HOST) {
    const double start = work.seconds_now();
    for (int i = 0; i < repeats; ++i) GPUDNN_TRY(launch_plan(work.site, work.plan, work.args));
    *seconds = (work.seconds_now() - start) / repeats;
    return GPUDNN_STATUS_SUCCESS;
  }
  float milliseconds = 0;
  GPUDNN_TRY(cuda::time_on_stream(
      work.site.device, work.site.stream, repeats,
      [](void* context) {
        const Work& w = *static_cast<const Work*>(context);
        return launch_plan(w.site, w.plan, w.args);
      },
      const_cast<Work*>(&work), &milliseconds));
  *seconds = 1e-3 * static_cast<double>(milliseconds);
  return GPUDNN_STATUS_SUCCESS;
}

// The median of a few batches; of one that is far behind the best so far, a first impression is enough.
Status time_choice(const Work& work, double best_so_far, double* seconds) {
  constexpr double kHopeless = 2;
  constexpr double kBatchSeconds = 0.5e-3;
  constexpr double kLongRun = 5e-3;  // one run of so long varies little, and five would take the whole search's time
  constexpr int kMaxBatches = 5;
  GPUDNN_TRY(time_runs(work, 1, seconds));
  if (*seconds > kLongRun || *seconds > kHopeless * best_so_far) return GPUDNN_STATUS_SUCCESS;
  const int repeats = static_cast<int>(std::clamp(kBatchSeconds / std::max(*seconds, 1e-7), 1.0, 20.0));
  const int batches = repeats > 1 ? kMaxBatches : 3;
  double times[kMaxBatches] = {};
  for (int i = 0; i < batches; ++i) GPUDNN_TRY(time_runs(work, repeats, &times[i]));
  std::sort(times, times + batches);
  *seconds = times[batches / 2];
  return GPUDNN_STATUS_SUCCESS;
}

// A clock that was idle speeds up within milliseconds, which the first choice measured would pay for.
Status wake_device(const Work& work) {
  constexpr double kWakeSeconds = 5e-3;
  const double expected = std::max(work.plan.choice.seconds, 1e-6);
  if (work.site.device.backend == GPUDNN_BACKEND_HOST || expected > kWakeSeconds) return GPUDNN_STATUS_SUCCESS;
  double seconds = 0;
  return time_runs(work, static_cast<int>(std::min(kWakeSeconds / expected, 200.0)), &seconds);
}

// Forgets a refusal that the call goes on after.
void clear_error() noexcept {
  if (!call_context().refused) return;
  call_context().refused = false;
  clear_last_error();
}

// Times the choices in turn; their `seconds` become the measured ones. One that fails is left out; the status is a
// failure only if all do.
Status measure_choices(const LaunchSite& site, const Problem& problem, const Args& args,
                       const std::vector<Choice>& order, Clock seconds_now, std::vector<Choice>* measured) {
  const double start = seconds_now();
  double best = std::numeric_limits<double>::infinity();
  bool zero_workspace = false;
  Status failure = GPUDNN_STATUS_NOT_SUPPORTED;
  for (const Choice& choice : order) {
    const bool late = seconds_now() - start > kMaxSeconds;
    if (late && zero_workspace) break;
    if (late && !measured->empty() && choice.workspace > 0) continue;
    const std::shared_ptr<const Plan> plan = prepare_plan(choice, problem, site.device);
    const Work work{site, *plan, args, seconds_now};
    Choice timed = choice;
    Status status = measured->empty() ? wake_device(work) : GPUDNN_STATUS_SUCCESS;
    if (status == GPUDNN_STATUS_SUCCESS) status = time_choice(work, best, &timed.seconds);
    if (status != GPUDNN_STATUS_SUCCESS) {
      failure = status;
      continue;
    }
    zero_workspace = zero_workspace || (choice.workspace == 0 && choice.engine->family == Family::direct);
    best = std::min(best, timed.seconds);
    measured->push_back(timed);
  }
  if (measured->empty()) return failure;
  clear_error();  // one that failed on the way has left a text
  std::stable_sort(measured->begin(), measured->end(),
                   [](const Choice& a, const Choice& b) { return a.seconds < b.seconds; });
  return GPUDNN_STATUS_SUCCESS;
}

// Puts the winners of each family, for each amount of workspace, into the tuning cache, and has the handle choose anew:
// a call with less workspace than the fastest wants takes what was the fastest within it. Earlier winners stay only if
// they need more workspace than this search had. (Another thread that is just ranking this problem may still keep what
// it ranked before: it then runs as if it had called first.)
void keep_winners(gpudnnHandle_t handle, const Problem& problem, const std::vector<Choice>& ranked,
                  const std::vector<Choice>& measured, std::size_t workspace_limit) {
  const Device& device = *handle->device;
  std::vector<TunedRow> rows;
  std::map<Family, std::size_t> least_workspace;  // of those before, which are faster
  for (const Choice& choice : measured) {
    const auto [least, is_first] = least_workspace.try_emplace(choice.engine->family, choice.workspace);
    if (!is_first && choice.workspace >= least->second) continue;
    least->second = choice.workspace;
    rows.push_back(row_of(choice));
  }
  for (const TunedRow& earlier : tuning_cache().find(problem, device)) {
    const bool out_of_reach = std::any_of(ranked.begin(), ranked.end(), [&](const Choice& c) {
      return names(earlier, c) && c.workspace > workspace_limit;
    });
    if (out_of_reach) rows.push_back(earlier);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const TunedRow& a, const TunedRow& b) { return a.microseconds < b.microseconds; });
  tuning_cache().record(problem, device, std::move(rows));
  forget_plans(handle, problem);
}

// Memory of the handle's backend, freed at the scope's end.
class Scratch {
 public:
  explicit Scratch(gpudnnHandle_t handle) : device_(*handle->device), stream_(launch_site(handle).stream) {}
  ~Scratch() {
    for (void* pointer : pointers_) {
      if (device_.backend == GPUDNN_BACKEND_CUDA) {
        (void)cuda::release(device_, pointer);
      } else {
        std::free(pointer);
      }
    }
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // Filled with 0x3c, a small number in every floating type: a device is faster at zeros. Null for no bytes.
  [[nodiscard]] Status allocate(std::size_t bytes, void** pointer) {
    *pointer = nullptr;
    if (bytes == 0) return GPUDNN_STATUS_SUCCESS;
    pointers_.reserve(pointers_.size() + 1);
    if (device_.backend == GPUDNN_BACKEND_CUDA) {
      GPUDNN_TRY(cuda::allocate(device_, pointer, bytes));
      pointers_.push_back(*pointer);
      return cuda::fill(device_, stream_, *pointer, kFill, bytes);
    }
    *pointer = std::malloc(bytes);
    GPUDNN_REQUIRE(*pointer != nullptr, GPUDNN_STATUS_ALLOC_FAILED, "the host is out of memory: %zu bytes needed",
                   bytes);
    pointers_.push_back(*pointer);
    std::memset(*pointer, kFill, bytes);
    return GPUDNN_STATUS_SUCCESS;
  }

 private:
  static constexpr int kFill = 0x3c;

  const Device& device_;
  cudaStream_t stream_;
  std::vector<void*> pointers_;
};

// The numbers with their choices of the list, in its order. (Not by `seconds`: those of a model and of a measurement do
// not compare.) Where one choice serves both direct numbers, the one that promises more comes first.
template <class Rows>
void add_served(Direction direction, const std::vector<Choice>& choices, Rows* rows) {
  const Choice* const best = first_of(Family::direct, choices);
  const Choice* const zero_workspace = first_without_workspace(choices);
  for (const Choice& choice : choices) {
    if (&choice == zero_workspace) rows->push_back(describe(kNoWorkspace, choice));
    if (&choice == best) rows->push_back(describe(kBest, choice));
    const Family family = choice.engine->family;
    if (family == Family::direct || &choice != first_of(family, choices)) continue;
    for (int algorithm = kBest + 1; algorithm < algorithm_count(direction); ++algorithm) {
      if (family_of(direction, algorithm) == family) rows->push_back(describe(algorithm, choice));
    }
  }
}

Status ranked_choices(gpudnnHandle_t handle, const Problem& problem, Ranking* choices) {
  note_problem_lazily([&] { return to_text(problem); });
  *choices = rank_with_measurements(handle, problem);
  GPUDNN_REQUIRE(!(*choices)->empty(), GPUDNN_STATUS_NOT_SUPPORTED, "no convolution engine takes %s",
                 to_text(problem).c_str());
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace

double seconds_of_steady_clock() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<Choice> search_order(const std::vector<Choice>& choices, std::size_t workspace_limit) {
  std::vector<Choice> order;
  std::vector<Choice> others;
  for (const Choice& choice : choices) {
    if (choice.workspace > workspace_limit) continue;
    const bool known =
        std::any_of(order.begin(), order.end(), [&](const Choice& c) { return c.engine == choice.engine; });
    (known ? others : order).push_back(choice);
  }
  order.insert(order.end(), others.begin(), others.end());
  // Number 0 wants one without a workspace.
  const auto zero_workspace = std::find_if(order.begin(), order.end(), [](const Choice& c) {
    return c.workspace == 0 && c.engine->family == Family::direct;
  });
  if (zero_workspace != order.end() && zero_workspace - order.begin() >= static_cast<std::ptrdiff_t>(kMaxMeasured)) {
    std::rotate(order.begin() + kMaxMeasured - 1, zero_workspace, zero_workspace + 1);
  }
  if (order.size() > kMaxMeasured) order.resize(kMaxMeasured);
  return order;
}

Status query_algorithms(gpudnnHandle_t handle, const Problem& problem, Performances* performances) {
  Ranking choices;
  GPUDNN_TRY(ranked_choices(handle, problem, &choices));
  performances->count = 0;
  add_served(problem.direction, *choices, performances);
  for (Performance& row : performances->rows) row.milliseconds = -1;  // the model ranks; it is no measurement
  add_unserved(problem.direction, *choices, performances);
  return GPUDNN_STATUS_SUCCESS;
}

Status measure_algorithms_among(const std::vector<Choice>& ranked, gpudnnHandle_t handle, const Problem& problem,
                                const Args& args, void* workspace, std::size_t workspace_bytes,
                                std::vector<Performance>* rows, Clock seconds_now) {
  const std::size_t limit = usable_workspace(workspace, workspace_bytes);
  std::vector<Choice> order = search_order(ranked, limit);
  GPUDNN_REQUIRE(!order.empty(), GPUDNN_STATUS_NOT_SUPPORTED,
                 "no convolution engine runs in %zu bytes of workspace: %s", limit, to_text(problem).c_str());
  if (element_count(problem.x) == 0 || element_count(problem.y) == 0) {
    for (Choice& choice : order) choice.seconds = 0;  // nothing to measure
    add_served(problem.direction, order, rows);
    add_unserved(problem.direction, order, rows);
  } else {
    std::vector<Choice> measured;
    const LaunchSite site = launch_site(handle, workspace, limit);
    GPUDNN_TRY(measure_choices(site, problem, args, order, seconds_now, &measured));
    // What odd addresses leave to choose from is no rule for other calls.
    if (alignment_of(args) == kMaxAlignment) keep_winners(handle, problem, ranked, measured, limit);
    add_served(problem.direction, measured, rows);
    add_unserved(problem.direction, measured, rows);
  }
  return GPUDNN_STATUS_SUCCESS;
}

Status measure_algorithms(gpudnnHandle_t handle, const Problem& problem, const Args& args, void* workspace,
                          std::size_t workspace_bytes, std::vector<Performance>* rows) {
  Ranking known;
  GPUDNN_TRY(ranked_choices(handle, problem, &known));
  std::vector<Choice> ranked = *known;
  std::erase_if(ranked, [&](const Choice& c) { return c.engine->alignment > alignment_of(args); });
  return measure_algorithms_among(ranked, handle, problem, args, workspace, workspace_bytes, rows);
}

Status measure_algorithms_on_own_memory(gpudnnHandle_t handle, const Problem& problem, std::vector<Performance>* rows) {
  Ranking ranked;
  GPUDNN_TRY(ranked_choices(handle, problem, &ranked));
  std::size_t workspace_bytes = 0;
  for (const Choice& choice : search_order(*ranked, kMaxOwnWorkspace))
    workspace_bytes = std::max(workspace_bytes, choice.workspace);
  Scratch scratch(handle);
  void* x = nullptr;
  void* w = nullptr;
  void* y = nullptr;
  void* workspace = nullptr;
  GPUDNN_TRY(scratch.allocate(size_in_bytes(problem.x), &x));
  GPUDNN_TRY(scratch.allocate(size_in_bytes(problem.w), &w));
  GPUDNN_TRY(scratch.allocate(size_in_bytes(problem.y), &y));
  if (scratch.allocate(workspace_bytes, &workspace) != GPUDNN_STATUS_SUCCESS) {
    clear_error();  // what runs without a workspace is measured all the same
    workspace_bytes = 0;
  }
  Args args;
  args.x = x;
  args.w = w;
  args.y = y;
  args.out = problem.direction == Direction::forward ? y : problem.direction == Direction::dgrad ? x : w;
  return measure_algorithms_among(*ranked, handle, problem, args, workspace, workspace_bytes, rows);
}

}  // namespace gpudnn::conv
