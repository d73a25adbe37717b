// The convolution engines: a visible list, ranked for a problem by their own cost models.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "core/engine.hpp"
#include "ops/conv/problem.hpp"

namespace gpudnn::conv {

// An engine's tunable numbers.
struct Config {
  std::int32_t tile = 0;     // a row of the engine's tile list
  std::int32_t split_k = 1;  // parts that the reduction is cut into, each by blocks of its own
  bool operator==(const Config&) const = default;
};

// One way to do the work, with the time that the engine's model expects.
struct Candidate {
  Config config;
  double seconds = 0;
  std::size_t workspace = 0;  // what the engine's workspace() says of it
};

// What an engine takes at the most, told without asking it: most queries pass it over by these numbers alone.
struct Reach {
  static constexpr std::int16_t kNoLimit = std::numeric_limits<std::int16_t>::max();
  std::uint8_t directions = 7;       // a bit for each, in the order of Direction
  bool pointwise = false;            // filters of one tap only
  std::int16_t channels = kNoLimit;  // of x
  std::int16_t summed = kNoLimit;    // channels that a pixel of the output sums over
};

// The first query of a shape fetches all that it reads from memory, so what every query looks at comes first, in one
// line of the cache.
struct alignas(64) ConvEngine {
  const char* name = nullptr;
  gpudnnBackend_t backend = GPUDNN_BACKEND_HOST;
  gpudnnMathType_t math = GPUDNN_FMA_MATH;  // what it computes with: this, or GPUDNN_TENSOR_OP_MATH
  std::uint32_t alignment = 1;              // of the tensors' addresses that it needs, in bytes
  bool deterministic = true;
  bool copies = false;  // launches another engine of the list, on packed copies
  Reach reach = {};
  Support (*supports)(const Problem&, const Device&) = nullptr;
  // Seconds that none of its candidates stays below, in a fraction of the time that candidates() takes. Null: unknown.
  double (*least_seconds)(const Problem&, const Device&) = nullptr;
  // A bound closer than least_seconds, for as much more time: asked for where another engine has a time already that
  // does not rule this one out, or where least_seconds says anything.
  double (*closer_seconds)(const Problem&, const Device&) = nullptr;
  // The first of the fastest of candidates(), in less time, and what supports() says with it: false if it does not take
  // the problem, or if none is faster than `bound` seconds or as fast. Null: supports() and candidates() have to tell.
  bool (*fastest)(const Problem&, const Device&, double bound, Candidate*) = nullptr;

  // The engine's configs for the problem with their expected times, in any order; at least one has no workspace.
  void (*candidates)(const Problem&, const Device&, std::vector<Candidate>*) = nullptr;
  // Those of candidates() that need no workspace, in less time. Null: candidates() has to tell.
  void (*lean_candidates)(const Problem&, const Device&, std::vector<Candidate>*) = nullptr;
  std::size_t (*workspace)(const Problem&, const Config&) = nullptr;
  // Everything that does not depend on pointers; the launch gets it back.
  std::shared_ptr<const void> (*prepare)(const Problem&, const Config&, const Device&) = nullptr;
  Status (*launch)(const LaunchSite&, const void* prepared, const Args&) = nullptr;
};
static_assert(offsetof(ConvEngine, candidates) <= 64);

// False if the engine's reach rules the problem out. If true, supports() tells.
[[nodiscard]] bool may_take(const Reach& reach, const Problem& problem) noexcept;

constexpr std::size_t kMaxEngines = 24;

// An empty list with room for the usual number of candidates.
class CandidateList {
 public:
  CandidateList();
  ~CandidateList();
  CandidateList(const CandidateList&) = delete;
  CandidateList& operator=(const CandidateList&) = delete;
  [[nodiscard]] std::vector<Candidate>& get() const noexcept { return *list_; }

 private:
  std::vector<Candidate>* list_ = nullptr;
};

// Best first; the last of each backend supports everything.
[[nodiscard]] std::span<const ConvEngine> engines() noexcept;

// Who says how long a choice takes.
enum class Source : std::int32_t { model = 0, table = 1, tuning_cache = 2 };

// An engine and config, as the heuristic ranks them.
struct Choice {
  const ConvEngine* engine = nullptr;
  Config config;
  std::size_t workspace = 0;
  double seconds = 0;  // expected or, where the source is not the model, measured
  Source source = Source::model;
};

// All choices for the problem on the device, best first: those of the measured table, then the others by their models.
// Pure.
[[nodiscard]] std::vector<Choice> rank(const Problem& problem, const Device& device);

// engine + config + what the engine prepared. Immutable.
struct Plan {
  Choice choice;
  std::shared_ptr<const void> prepared;
};

// The classic algorithm numbers. `algorithm` restricts the choice: the ones that promise no workspace get an engine
// without one, the others the best that fits `workspace_limit` bytes.
[[nodiscard]] int algorithm_count(Direction direction) noexcept;
[[nodiscard]] bool algorithm_needs_no_workspace(Direction direction, int algorithm) noexcept;

// The plan for the problem under the caller's algorithm, workspace and alignment of addresses, from the handle's cache
// or made now.
[[nodiscard]] Status find_plan(gpudnnHandle_t handle, const Problem& problem, int algorithm,
                               std::size_t workspace_bytes, std::size_t alignment, std::shared_ptr<const Plan>* plan);
// Bytes of workspace with which `algorithm` runs at its best.
[[nodiscard]] Status workspace_size(gpudnnHandle_t handle, const Problem& problem, int algorithm, std::size_t* bytes);

// Validates nothing: the problem was validated. Runs it.
[[nodiscard]] Status run(gpudnnHandle_t handle, const Problem& problem, int algorithm, void* workspace,
                         std::size_t workspace_bytes, const Args& args);

// What the algorithm queries and searches report of one classic algorithm.
struct Performance {
  int algorithm = 0;
  Status status = GPUDNN_STATUS_SUCCESS;
  float milliseconds = -1;
  std::size_t memory = 0;
  bool deterministic = true;
  gpudnnMathType_t math = GPUDNN_FMA_MATH;
};
// Of all algorithms of a direction.
struct Performances {
  Performance rows[8];
  std::size_t count = 0;
  void push_back(const Performance& row) { rows[count++] = row; }
};
// By the heuristic, best first; algorithms without an engine of their own come last with NOT_SUPPORTED.
[[nodiscard]] Status query_algorithms(gpudnnHandle_t handle, const Problem& problem, Performances* performances);
// By measurement on the pointers given, best first.
[[nodiscard]] Status measure_algorithms(gpudnnHandle_t handle, const Problem& problem, const Args& args,
                                        void* workspace, std::size_t workspace_bytes, std::vector<Performance>* rows);
// The same on tensors and a workspace allocated for it and freed again.
[[nodiscard]] Status measure_algorithms_on_own_memory(gpudnnHandle_t handle, const Problem& problem,
                                                      std::vector<Performance>* rows);

}  // namespace gpudnn::conv
