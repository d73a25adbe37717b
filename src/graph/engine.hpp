// Engines of the graph interface: rows that turn a whole graph into work on existing operations, or say why they do
// not.
//
// An engine's global index is part of the interface: programs store it and come back with it. Indices are never reused
// or reordered, and mean the same on every device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/device.hpp"
#include "core/handle.hpp"
#include "graph/graph.hpp"

namespace gpudnn::graph {

using DeviceRef = std::shared_ptr<const Device>;
using GraphRef = std::shared_ptr<const Graph>;

struct Knob {
  int type = 0;  // a gpudnnBackendKnobType_t
  std::int64_t value = 0;
  bool operator==(const Knob&) const = default;
};
using Knobs = std::vector<Knob>;  // by type, each once

// Values that a knob takes for a graph.
struct KnobRange {
  int type = 0;
  std::int64_t least = 0;
  std::int64_t most = 0;
};

// What a plan does. Immutable, used by many threads at once.
class Work {
 public:
  Work() = default;
  virtual ~Work() = default;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  // Bytes of the workspace, which lies at a multiple of 16.
  [[nodiscard]] virtual std::size_t workspace() const noexcept = 0;
  // data[i] is the pointer of tensor i of the graph: to a host number for a tensor by value, null for a virtual one.
  [[nodiscard]] virtual Status run(gpudnnHandle_t handle, void* const* data, void* workspace) const = 0;
};
using WorkRef = std::shared_ptr<const Work>;

struct Config {
  Knobs knobs;
  std::size_t workspace = 0;
  double seconds = 0;  // expected; of no meaning across engines that do not tell
};

struct Engine {
  std::int64_t index = 0;
  const char* name = nullptr;
  gpudnnBackend_t backend = GPUDNN_BACKEND_HOST;
  bool any_backend = false;     // its operation has engines of both backends
  bool tensor_cores = false;    // NUMERICAL_NOTE_TENSOR_CORE
  bool is_winograd = false;     // NUMERICAL_NOTE_WINOGRAD; never the first of its kind in a list
  bool general = false;         // listed in mode FALLBACK: takes whatever its operation can be
  bool last_resort = false;     // listed in mode A only where no other engine takes the graph
  const char* inner = nullptr;  // the engine of an operation that it stands for

  // The configs for a graph without dead operations, best first; none, and the reason in *why, if it does not take it.
  std::vector<Config> (*configs)(const Engine&, const Graph&, const Device&, std::string* why) = nullptr;
  // The work of one of them. Cannot fail but for memory.
  Status (*prepare)(const Engine&, const GraphRef&, const Device&, const Knobs&, WorkRef*) = nullptr;
};

[[nodiscard]] inline bool runs_on(const Engine& engine, const Device& device) noexcept {
  return engine.any_backend || engine.backend == device.backend;
}

// In the order in which ties are ranked.
[[nodiscard]] std::span<const Engine> engines();
[[nodiscard]] const Engine* engine_of_index(std::int64_t index);
// The highest index and one.
[[nodiscard]] std::int64_t engine_count();

// An engine that takes the graph, with one of its configs.
struct Choice {
  const Engine* engine = nullptr;
  Config config;
};
// The list of a heuristic mode, best first. Empty, and a sentence for each engine asked in *why, if none takes the
// graph.
[[nodiscard]] std::vector<Choice> rank(const Graph& graph, const Device& device, int mode, std::string* why);

// The span of each knob over all configs.
[[nodiscard]] std::vector<KnobRange> knob_ranges(std::span<const Config> configs);

// The config that has the values given; of knobs left out or set to -1, the best one's. Null if there is none.
[[nodiscard]] const Config* find_config(std::span<const Config> configs, const Knobs& wanted);

// The device that an unbound graph is planned for: the current CUDA device, else the host.
[[nodiscard]] Status default_device(DeviceRef* device);

}  // namespace gpudnn::graph
