// The convolution engines: a visible list, ranked for a problem by their own cost models.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "core/engine.hpp"
#include "ops/conv/problem.hpp"

namespace gpudnn::conv {

struct ConvEngine;

// How a result comes about. Each family but the first has an algorithm number of its own, and only a caller who names
// that number, or takes it from a list that Find or Get gave, gets it: transforms lose digits that a sum of the
// products as defined keeps (docs/numerics.md).
enum class Family : std::int32_t { direct = 0, winograd, winograd_nonfused, fft, fft_tiling };

// An engine's tunable numbers.
struct Config {
  std::int32_t tile = 0;              // a row of the engine's tile list
  std::int32_t split_k = 1;           // splits of the reduction, each of which has thread blocks of its own
  const ConvEngine* inner = nullptr;  // nhwc_transpose: the engine that tile and split are of
  bool padded = false;                // nhwc_transpose: channels are padded to whole vectors of 16 bytes
  const char* tile_name = "";         // the row's name, static
  // Bytes of workspace, beside the candidate's, with which a launch of forward also makes the sums by channel that args
  // name; 0: not with this config. Null: none of the engine's makes them.
  std::size_t (*sums_workspace)(const Problem&, const Config&, const Device&) = nullptr;
  friend bool operator==(const Config& a, const Config& b) noexcept {
    return a.tile == b.tile && a.split_k == b.split_k && a.inner == b.inner && a.padded == b.padded;
  }
};

// One way to do the work, with the time that the model expects.
struct Candidate {
  Config config;
  double seconds = 0;
  std::size_t workspace = 0;  // bytes
};

// A stateless row of the list of engines.
struct ConvEngine {
  const char* name = nullptr;
  gpudnnBackend_t backend = GPUDNN_BACKEND_CUDA;
  gpudnnMathType_t math = GPUDNN_FMA_MATH;  // what it computes with: this, or GPUDNN_TENSOR_OP_MATH
  std::uint32_t alignment = 1;              // of the tensors' addresses that it needs, in bytes
  Family family = Family::direct;
  Support (*supports)(const Problem&, const Device&) = nullptr;
  // The configs for a problem that it supports, with their expected times and their workspaces, in any order.
  void (*candidates)(const Problem&, const Device&, std::vector<Candidate>*) = nullptr;
  // Everything that does not depend on pointers; the launch gets it back.
  std::shared_ptr<const void> (*prepare)(const Problem&, const Config&, const Device&) = nullptr;
  Status (*launch)(const LaunchSite&, const void* prepared, const Args&) = nullptr;
};

// Best first; the last of each backend supports everything. Two runs of any of them give the same bits.
[[nodiscard]] std::span<const ConvEngine> engines() noexcept;

// The same of any config, 0 where none makes them.
[[nodiscard]] inline std::size_t sums_workspace(const Problem& problem, const Config& config, const Device& device) {
  return config.sums_workspace == nullptr ? 0 : config.sums_workspace(problem, config, device);
}

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
// Pure. `wanted`, if given, leaves out the engines for which it is false.
using EnginePredicate = bool (*)(const ConvEngine&);
[[nodiscard]] std::vector<Choice> rank(const Problem& problem, const Device& device, EnginePredicate wanted = nullptr);

// "implicit_gemm_sm90 bm128_bn256_s4 split=2", "nhwc_transpose(implicit_gemm_sm90 bm128_bn128_s6)": the one form in
// which tables, tuning caches and logs hold a choice. It does not change when an engine's tile list grows.
[[nodiscard]] std::string choice_text(const ConvEngine& engine, const Config& config);

// engine + config + what the engine prepared. Immutable.
struct Plan {
  Choice choice;
  std::shared_ptr<const void> prepared;
};

// The classic algorithm numbers. `algorithm` restricts the choice: the ones that promise no workspace get an engine
// without one, those of a family one of that family where one takes the problem and fits the workspace, and the others
// the best of the direct ones that fits.
[[nodiscard]] int algorithm_count(Direction direction) noexcept;
[[nodiscard]] bool algorithm_needs_no_workspace(Direction direction, int algorithm) noexcept;
[[nodiscard]] Family family_of(Direction direction, int algorithm) noexcept;

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
