// What the descriptors of engines, configs and plans stand for, and how a plan runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>

#include "graph/bag.hpp"
#include "graph/engine.hpp"

namespace gpudnn::graph {

// Of an OPERATIONGRAPH.
struct BoundGraph {
  GraphRef graph;    // as it was given
  GraphRef working;  // without dead operations
  DeviceRef device;  // of the handle; null without one
};

// Of an ENGINE.
struct BoundEngine {
  std::shared_ptr<const BoundGraph> graph;
  const Engine* engine = nullptr;
  DeviceRef device;
  std::vector<Config> configs;
};

// Of an ENGINECFG.
struct BoundConfig {
  std::shared_ptr<const BoundEngine> engine;
  Config config;
};

// Of an EXECUTION_PLAN.
struct Plan {
  GraphRef graph;
  const Engine* engine = nullptr;
  Knobs knobs;
  DeviceRef device;
  WorkRef work;
  // Tensors that need a pointer: places in graph->tensors.
  std::vector<int> pointers;
  // Where the last pack had them; a guess that is checked.
  std::unique_ptr<std::atomic<std::int32_t>[]> guesses;
};
using PlanRef = std::shared_ptr<const Plan>;

[[nodiscard]] Status make_plan(const GraphRef& graph, const Engine& engine, const DeviceRef& device, const Knobs& knobs,
                               PlanRef* plan);

// Of a workspace that a program gives, the part from a multiple of kWorkspaceAlignment on is used: clients put tensors
// of their own before it. What programs are told has room for that.
constexpr std::size_t kWorkspaceAlignment = 16;
[[nodiscard]] constexpr std::size_t told_workspace(std::size_t bytes) noexcept {
  return bytes == 0 ? 0 : bytes + kWorkspaceAlignment - 1;
}

// Of a VARIANT_PACK.
struct Pack {
  std::span<const std::int64_t> uids;
  std::span<const std::int64_t> pointers;
  void* workspace = nullptr;
  // For each uid of the override: its dims and strides.
  std::span<const std::int64_t> override_uids;
  std::vector<std::span<const std::int64_t>> override_dims;
  std::vector<std::span<const std::int64_t>> override_strides;
};
[[nodiscard]] Status make_pack(const Bag& bag, Pack* pack);

[[nodiscard]] Status execute(gpudnnHandle_t handle, const PlanRef& plan, const Pack& pack);

// Plans by engine, knobs and graph, that programs share between shapes and threads.
class PlanStore {
 public:
  [[nodiscard]] PlanRef find(const std::string& key) const;
  void keep(const std::string& key, const PlanRef& plan);
  [[nodiscard]] std::vector<PlanRef> all() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, PlanRef> plans_;
};
[[nodiscard]] std::string plan_key(const Graph& graph, const Engine& engine, const Knobs& knobs);

// --- saved forms ----------------------------------------------------------------------------------------------------

[[nodiscard]] std::string device_json(const Device& device);
[[nodiscard]] Status device_from_json(std::string_view text, DeviceRef* device);
[[nodiscard]] std::string plan_json(const Plan& plan);
// `device` is where it will run, or null: where it was made.
[[nodiscard]] Status plan_from_json(std::string_view text, const DeviceRef& device, PlanRef* plan);
[[nodiscard]] std::string store_json(const PlanStore& store);
[[nodiscard]] Status store_from_json(std::string_view text, PlanStore* store);

// Get, with the answers that are made when they are asked for: the saved forms.
[[nodiscard]] Status answer(const Bag& bag, AttributeName name, AttributeType type, std::int64_t requested,
                            std::int64_t* count, void* elements);

// Descriptors that the library answers with, and what it answers of an engine.
void put_engine_answers(const BoundEngine& bound, Bag* bag);
[[nodiscard]] BagRef engine_bag(const std::shared_ptr<const BoundEngine>& bound, const BagRef& graph);
// Makes the bag the config's: without memory for it the bag stays as it can be finalized again.
void fill_config(const std::shared_ptr<const BoundConfig>& bound, const BagRef& engine, Bag* bag);
[[nodiscard]] BagRef config_bag(const std::shared_ptr<const BoundConfig>& bound, const BagRef& engine);

}  // namespace gpudnn::graph
