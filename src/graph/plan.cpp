// Plans and their execution.
// SPDX-License-Identifier: Apache-2.0
#include "graph/plan.hpp"

#include <algorithm>
#include <array>

#include "core/guard.hpp"

namespace gpudnn::graph {

Status make_plan(const GraphRef& graph, const Engine& engine, const DeviceRef& device, const Knobs& knobs,
                 PlanRef* plan) {
  auto made = std::make_shared<Plan>();
  made->graph = graph;
  made->engine = &engine;
  made->device = device;
  made->knobs = knobs;
  GPUDNN_TRY(engine.prepare(engine, graph, *device, knobs, &made->work));
  for (std::size_t i = 0; i < graph->tensors.size(); ++i)
    if (!graph->tensors[i].is_virtual) made->pointers.push_back(static_cast<int>(i));
  made->guesses = std::make_unique<std::atomic<std::int32_t>[]>(made->pointers.size());
  *plan = std::move(made);
  return GPUDNN_STATUS_SUCCESS;
}

std::string plan_key(const Graph& graph, const Engine& engine, const Knobs& knobs) {
  std::string key = std::to_string(engine.index);
  for (const Knob& knob : knobs) key += " " + std::to_string(knob.type) + "=" + std::to_string(knob.value);
  return key + "\n" + to_text(graph);
}

PlanRef PlanStore::find(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = plans_.find(key);
  return found == plans_.end() ? nullptr : found->second;
}

void PlanStore::keep(const std::string& key, const PlanRef& plan) {
  const std::lock_guard lock(mutex_);
  plans_.try_emplace(key, plan);
}

std::vector<PlanRef> PlanStore::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<PlanRef> plans;
  plans.reserve(plans_.size());
  for (const auto& [key, plan] : plans_) plans.push_back(plan);
  return plans;
}

// --- variant packs --------------------------------------------------------------------------------------------------

namespace {

Status split_vectors(const Bag& bag, AttributeName name, std::size_t count,
                     std::vector<std::span<const std::int64_t>>* out) {
  const auto value = bag.find(name);
  if (!value) return GPUDNN_STATUS_SUCCESS;
  const std::span<const std::int64_t> words = value->words;
  for (std::size_t at = 0; at < words.size(); at += static_cast<std::size_t>(words[at]) + 1)
    out->push_back(words.subspan(at + 1, static_cast<std::size_t>(words[at])));
  GPUDNN_REQUIRE(out->size() == count, GPUDNN_STATUS_BAD_PARAM,
                 "the override has %zu unique ids, but %zu shapes or strides; they must be as many", count,
                 out->size());
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace

Status make_pack(const Bag& bag, Pack* pack) {
  const auto uids = bag.find(GPUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = bag.find(GPUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  GPUDNN_REQUIRE(
      uids.has_value() == pointers.has_value() && (!uids || uids->words.size() == pointers->words.size()),
      GPUDNN_STATUS_BAD_PARAM, "the pack has %lld unique ids and %lld data pointers; it must have as many of both",
      static_cast<long long>(uids ? uids->count() : 0), static_cast<long long>(pointers ? pointers->count() : 0));
  if (uids) {
    pack->uids = uids->words;
    pack->pointers = pointers->words;
  }
  pack->workspace = reinterpret_cast<void*>(bag.integer(GPUDNN_ATTR_VARIANT_PACK_WORKSPACE, 0));
  if (const auto overridden = bag.find(GPUDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS)) {
    pack->override_uids = overridden->words;
    GPUDNN_TRY(
        split_vectors(bag, GPUDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES, overridden->words.size(), &pack->override_dims));
    GPUDNN_TRY(split_vectors(bag, GPUDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES, overridden->words.size(),
                             &pack->override_strides));
    GPUDNN_REQUIRE(pack->override_dims.size() == pack->override_uids.size(), GPUDNN_STATUS_BAD_PARAM,
                   "GPUDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES was not set; an override needs it");
  }
  return GPUDNN_STATUS_SUCCESS;
}

// --- execution ------------------------------------------------------------------------------------------------------

namespace {

// The pack's pointer of tensor `place`; the last pack's position is tried first.
Status find_pointer(const Plan& plan, std::size_t number, const Pack& pack, void** pointer) {
  const Tensor& tensor = plan.graph->tensors[static_cast<std::size_t>(plan.pointers[number])];
  auto at = static_cast<std::size_t>(plan.guesses[number].load(std::memory_order_relaxed));
  if (at >= pack.uids.size() || pack.uids[at] != tensor.uid) {
    at = static_cast<std::size_t>(std::find(pack.uids.begin(), pack.uids.end(), tensor.uid) - pack.uids.begin());
    GPUDNN_REQUIRE(at < pack.uids.size(), GPUDNN_STATUS_BAD_PARAM,
                   "the variant pack has no pointer for the tensor with unique id %lld (%s)",
                   static_cast<long long>(tensor.uid), tensor_text(tensor.geometry).c_str());
    plan.guesses[number].store(static_cast<std::int32_t>(at), std::memory_order_relaxed);
  }
  *pointer = reinterpret_cast<void*>(pack.pointers[at]);
  GPUDNN_REQUIRE(*pointer != nullptr || !tensor.by_value, GPUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                 "the pointer of the tensor with unique id %lld is null; it must point to a number on the host",
                 static_cast<long long>(tensor.uid));
  // Engines that load more than an element at once check for themselves.
  const int bytes = data_type_bits(tensor.geometry.type) / 8;
  GPUDNN_REQUIRE(bytes <= 1 || tensor.by_value || pack.pointers[at] % bytes == 0,
                 GPUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
                 "the pointer %p of the tensor with unique id %lld must be a multiple of its element's %d bytes",
                 *pointer, static_cast<long long>(tensor.uid), bytes);
  return GPUDNN_STATUS_SUCCESS;
}

Status run_plan(gpudnnHandle_t handle, const Plan& plan, const Pack& pack) {
  constexpr std::size_t kFew = 64;
  std::array<void*, kFew> few;
  std::vector<void*> many;
  void** data = few.data();
  if (plan.graph->tensors.size() > kFew) {
    many.resize(plan.graph->tensors.size());
    data = many.data();
  }
  std::fill_n(data, plan.graph->tensors.size(), nullptr);
  for (std::size_t i = 0; i < plan.pointers.size(); ++i)
    GPUDNN_TRY(find_pointer(plan, i, pack, &data[plan.pointers[i]]));
  const std::size_t bytes = plan.work->workspace();
  GPUDNN_REQUIRE(pack.workspace != nullptr || bytes == 0, GPUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                 "the variant pack's workspace is null; the plan needs %zu bytes", told_workspace(bytes));
  const std::uintptr_t past = reinterpret_cast<std::uintptr_t>(pack.workspace) % kWorkspaceAlignment;
  void* const workspace = past == 0 ? pack.workspace : static_cast<char*>(pack.workspace) + kWorkspaceAlignment - past;
  call_context().engine = plan.engine->name;
  note_problem_lazily([&] { return to_text(*plan.graph, ';'); });
  return plan.work->run(handle, data, workspace);
}

// The graph with the shapes of an override.
Status reshape_graph(const Graph& graph, const Pack& pack, Graph* shaped) {
  *shaped = graph;
  for (std::size_t i = 0; i < pack.override_uids.size(); ++i) {
    const int place = graph.find(pack.override_uids[i]);
    if (place < 0) continue;
    TensorGeometry& geometry = shaped->tensors[static_cast<std::size_t>(place)].geometry;
    const std::span<const std::int64_t> dims = pack.override_dims[i];
    GPUDNN_REQUIRE(static_cast<int>(dims.size()) == geometry.rank, GPUDNN_STATUS_NOT_SUPPORTED_INVALID_DYNAMIC_SHAPE,
                   "the override gives the tensor with unique id %lld %zu dimensions; it has %d",
                   static_cast<long long>(pack.override_uids[i]), dims.size(), geometry.rank);
    for (const std::int64_t dim : dims)
      GPUDNN_REQUIRE(dim > 0 && dim < (std::int64_t{1} << 40), GPUDNN_STATUS_NOT_SUPPORTED_INVALID_DYNAMIC_SHAPE,
                     "the override gives the tensor with unique id %lld an extent of %lld; it must be positive",
                     static_cast<long long>(pack.override_uids[i]), static_cast<long long>(dim));
    std::copy(dims.begin(), dims.end(), geometry.dims);
    if (i < pack.override_strides.size() && pack.override_strides[i].size() == dims.size()) {
      std::copy(pack.override_strides[i].begin(), pack.override_strides[i].end(), geometry.strides);
    } else {
      set_packed_strides(&geometry, is_packed_nhwc(graph.tensors[static_cast<std::size_t>(place)].geometry)
                                        ? GPUDNN_TENSOR_NHWC
                                        : GPUDNN_TENSOR_NCHW);
    }
  }
  for (const Node& node : shaped->nodes) GPUDNN_TRY(check_operation(node, shaped->tensors));
  return GPUDNN_STATUS_SUCCESS;
}

Status execute_overridden(gpudnnHandle_t handle, const PlanRef& plan, const Pack& pack) {
  const auto shaped = std::make_shared<Graph>();
  GPUDNN_TRY(reshape_graph(*plan->graph, pack, shaped.get()));
  // Plans of other shapes stay with the process: their number is what the program makes of it.
  static PlanStore store;
  const std::string key = plan_key(*shaped, *plan->engine, {}) + device_json(*plan->device);
  PlanRef other = store.find(key);
  if (other == nullptr) {
    std::string why;
    const std::vector<Config> configs = plan->engine->configs(*plan->engine, *shaped, *plan->device, &why);
    const Config* config = nullptr;
    for (const Config& one : configs)
      if (config == nullptr && one.workspace <= plan->work->workspace()) config = &one;
    GPUDNN_REQUIRE(config != nullptr, GPUDNN_STATUS_NOT_SUPPORTED_INVALID_DYNAMIC_SHAPE,
                   "engine %s does not take the shapes of the override with the plan's %zu bytes of workspace: %s",
                   plan->engine->name, plan->work->workspace(), why.c_str());
    GPUDNN_TRY(make_plan(shaped, *plan->engine, plan->device, config->knobs, &other));
    store.keep(key, other);
  }
  return run_plan(handle, *other, pack);
}

}  // namespace

Status execute(gpudnnHandle_t handle, const PlanRef& plan, const Pack& pack) {
  const Device& here = *handle->device;
  const Device& planned = *plan->device;
  GPUDNN_REQUIRE(here.backend == planned.backend && here.compute_capability() == planned.compute_capability(),
                 GPUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH, "the plan was made for %s; the handle works on %s",
                 planned.name.c_str(), here.name.c_str());
  return pack.override_uids.empty() ? run_plan(handle, *plan, pack) : execute_overridden(handle, plan, pack);
}

}  // namespace gpudnn::graph
