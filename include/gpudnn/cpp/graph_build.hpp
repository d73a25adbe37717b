// libgpudnn for C++: from the operations of a graph to a plan and its execution. Included by graph.hpp.
// SPDX-License-Identifier: Apache-2.0
#ifndef GPUDNN_CPP_GRAPH_BUILD_HPP_
#define GPUDNN_CPP_GRAPH_BUILD_HPP_

#include "gpudnn/cpp/graph.hpp"

namespace gpudnn {

// Inputs and outputs without a type of their own have the graph's; intermediates that for intermediates.
inline void Graph::resolve_types() {
  for (Row& row : state_->tensors) {
    if (!row.has_type) row.type = row.is_virtual() ? options_.intermediate : options_.type;
    // A view comes after what it is a view of.
    if (row.view_of >= 0) row.type = state_->tensors[static_cast<std::size_t>(row.view_of)].type;
  }
}

inline Status Graph::make_tensor(std::size_t index, std::vector<detail::BackendDescriptor>* tensors) const {
  const Row& row = state_->tensors[index];
  detail::BackendDescriptor& d = (*tensors)[index];
  const unsigned char yes = 1;
  GPUDNN_CPP_TRY(d.create(GPUDNN_BACKEND_TENSOR_DESCRIPTOR));
  GPUDNN_CPP_TRY(d.set(detail::data_type(GPUDNN_ATTR_TENSOR_DATA_TYPE, row.type)));
  GPUDNN_CPP_TRY(d.set(detail::integers(GPUDNN_ATTR_TENSOR_DIMENSIONS, row.dims)));
  GPUDNN_CPP_TRY(d.set(detail::integers(GPUDNN_ATTR_TENSOR_STRIDES, row.strides)));
  GPUDNN_CPP_TRY(d.set(detail::integer(GPUDNN_ATTR_TENSOR_UNIQUE_ID, static_cast<std::int64_t>(index) + 1)));
  GPUDNN_CPP_TRY(d.set(detail::integer(GPUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, row.alignment)));
  if (row.is_virtual()) GPUDNN_CPP_TRY(d.set(GPUDNN_ATTR_TENSOR_IS_VIRTUAL, GPUDNN_TYPE_BOOLEAN, 1, &yes));
  if (row.by_value) GPUDNN_CPP_TRY(d.set(GPUDNN_ATTR_TENSOR_IS_BY_VALUE, GPUDNN_TYPE_BOOLEAN, 1, &yes));
  return d.finalize();
}

inline Status Graph::make_operation(const detail::Node& node, const std::vector<detail::BackendDescriptor>& tensors,
                                    detail::BackendDescriptor* operation) {
  GPUDNN_CPP_TRY(operation->create(node.kind));
  if (node.has_companion) {
    detail::BackendDescriptor companion;
    GPUDNN_CPP_TRY(companion.create(node.companion));
    for (const detail::Attribute& a : node.companion_attributes) GPUDNN_CPP_TRY(companion.set(a));
    GPUDNN_CPP_TRY(companion.finalize());
    GPUDNN_CPP_TRY(operation->set(node.companion_name, {companion.object()}));
  }
  for (const detail::Attribute& a : node.attributes) GPUDNN_CPP_TRY(operation->set(a));
  for (const detail::Link& link : node.links) {
    std::vector<gpudnnBackendDescriptor_t> objects;
    for (const int tensor : link.tensors) objects.push_back(tensors[static_cast<std::size_t>(tensor)].object());
    GPUDNN_CPP_TRY(operation->set(link.name, objects));
  }
  return operation->finalize();
}

inline Status Graph::make_graph(gpudnnHandle_t handle, detail::BackendDescriptor* graph) const {
  std::vector<detail::BackendDescriptor> tensors(state_->tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) GPUDNN_CPP_TRY(make_tensor(i, &tensors));
  std::vector<detail::BackendDescriptor> operations(state_->nodes.size());
  std::vector<gpudnnBackendDescriptor_t> objects;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    GPUDNN_CPP_TRY(make_operation(state_->nodes[i], tensors, &operations[i]));
    objects.push_back(operations[i].object());
  }
  GPUDNN_CPP_TRY(graph->create(GPUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR));
  GPUDNN_CPP_TRY(graph->set(GPUDNN_ATTR_OPERATIONGRAPH_OPS, objects));
  GPUDNN_CPP_TRY(graph->set(GPUDNN_ATTR_OPERATIONGRAPH_HANDLE, GPUDNN_TYPE_HANDLE, 1, &handle));
  return graph->finalize();
}

// By the heuristic, or the one of the engine that is asked for.
inline Status Graph::rank_configs(const detail::BackendDescriptor& graph, const BuildOptions& options,
                                  std::vector<detail::BackendDescriptor>* configs) const {
  if (options.engine >= 0) {
    detail::BackendDescriptor engine;
    GPUDNN_CPP_TRY(engine.create(GPUDNN_BACKEND_ENGINE_DESCRIPTOR));
    GPUDNN_CPP_TRY(engine.set(GPUDNN_ATTR_ENGINE_OPERATION_GRAPH, {graph.object()}));
    GPUDNN_CPP_TRY(engine.set(detail::integer(GPUDNN_ATTR_ENGINE_GLOBAL_INDEX, options.engine)));
    GPUDNN_CPP_TRY(engine.finalize());
    configs->resize(1);
    GPUDNN_CPP_TRY(configs->front().create(GPUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    GPUDNN_CPP_TRY(configs->front().set(GPUDNN_ATTR_ENGINECFG_ENGINE, {engine.object()}));
    return configs->front().finalize();
  }
  detail::BackendDescriptor heuristic;
  GPUDNN_CPP_TRY(heuristic.create(GPUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR));
  GPUDNN_CPP_TRY(heuristic.set(GPUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, {graph.object()}));
  GPUDNN_CPP_TRY(
      heuristic.set(detail::enumerator(GPUDNN_ATTR_ENGINEHEUR_MODE, GPUDNN_TYPE_HEUR_MODE, options.heuristic)));
  GPUDNN_CPP_TRY(heuristic.finalize());
  // Before another call replaces it: why there is no engine, if there is none.
  char why[1024] = "";
  gpudnnGetLastErrorString(why, sizeof why);
  std::int64_t count = 0;
  GPUDNN_CPP_TRY(heuristic.get(GPUDNN_ATTR_ENGINEHEUR_RESULTS, GPUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr));
  if (count == 0) return {GPUDNN_STATUS_NOT_SUPPORTED, *why != '\0' ? why : "no engine takes the graph"};
  configs->resize(static_cast<std::size_t>(count));
  std::vector<gpudnnBackendDescriptor_t> objects;
  for (detail::BackendDescriptor& config : *configs) {
    GPUDNN_CPP_TRY(config.create(GPUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    objects.push_back(config.object());
  }
  return heuristic.get(GPUDNN_ATTR_ENGINEHEUR_RESULTS, GPUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, objects.data());
}

inline Status Graph::take_config(detail::BackendDescriptor config, const BuildOptions& options) {
  Plan made;
  GPUDNN_CPP_TRY(made.plan.create(GPUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR));
  GPUDNN_CPP_TRY(made.plan.set(GPUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, {config.object()}));
  GPUDNN_CPP_TRY(made.plan.finalize());
  std::int64_t count = 0;
  std::int64_t bytes = 0;
  GPUDNN_CPP_TRY(made.plan.get(GPUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, GPUDNN_TYPE_INT64, 1, &count, &bytes));
  if (options.max_workspace >= 0 && bytes > options.max_workspace) {
    return {GPUDNN_STATUS_NOT_SUPPORTED, "graph: no plan needs at most " + std::to_string(options.max_workspace) +
                                             " bytes of workspace; the last one tried needs " + std::to_string(bytes)};
  }
  detail::BackendDescriptor engine;
  GPUDNN_CPP_TRY(engine.create(GPUDNN_BACKEND_ENGINE_DESCRIPTOR));
  gpudnnBackendDescriptor_t object = engine.object();
  GPUDNN_CPP_TRY(config.get(GPUDNN_ATTR_ENGINECFG_ENGINE, GPUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &object));
  GPUDNN_CPP_TRY(engine.get(GPUDNN_ATTR_ENGINE_GLOBAL_INDEX, GPUDNN_TYPE_INT64, 1, &count, &engine_));
  made.config = std::move(config);
  plan_ = std::move(made);
  workspace_size_ = static_cast<std::size_t>(bytes);
  state_->built = true;
  return {};
}

inline Status Graph::try_build(gpudnnHandle_t handle, const BuildOptions& options) {
  if (!state_->error) return state_->error;
  if (state_->nodes.empty()) return {GPUDNN_STATUS_BAD_PARAM, "graph: it has no operation"};
  resolve_types();
  detail::BackendDescriptor graph;
  GPUDNN_CPP_TRY(make_graph(handle, &graph));
  std::vector<detail::BackendDescriptor> configs;
  GPUDNN_CPP_TRY(rank_configs(graph, options, &configs));
  // The next engine takes the place of one that refuses the graph, not of one that is out of memory: which engine runs
  // decides the result's last bits.
  Status last;
  for (detail::BackendDescriptor& config : configs) {
    last = take_config(std::move(config), options);
    if (last || last.code() / 1000 != GPUDNN_STATUS_NOT_SUPPORTED / 1000) break;
  }
  return last;
}

inline std::string Graph::json() const {
  std::int64_t count = 0;
  check(plan_.plan.get(GPUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, GPUDNN_TYPE_CHAR, 0, &count, nullptr));
  std::string text(static_cast<std::size_t>(count), '\0');
  check(plan_.plan.get(GPUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, GPUDNN_TYPE_CHAR, count, &count, &text[0]));
  text.resize(text.find_last_not_of('\0') + 1);  // the count includes the end
  return text;
}

inline Status Graph::try_execute(gpudnnHandle_t handle, const std::vector<Binding>& bindings, void* workspace) const {
  if (!state_->built) return {GPUDNN_STATUS_BAD_PARAM, "graph: call build() before execute()"};
  Extents uids;
  std::vector<void*> pointers;
  for (const Binding& binding : bindings) {
    if (binding.tensor.state_ != state_.get()) {
      return {GPUDNN_STATUS_BAD_PARAM, "graph: execute() was given a tensor of another graph"};
    }
    uids.push_back(binding.tensor.uid());
    pointers.push_back(binding.pointer);
    for (std::size_t i = 0; i < state_->tensors.size(); ++i) {
      if (state_->tensors[i].view_of != binding.tensor.index_) continue;
      uids.push_back(static_cast<std::int64_t>(i) + 1);
      pointers.push_back(binding.pointer);
    }
  }
  for (std::size_t i = 0; i < state_->tensors.size(); ++i) {
    Row& row = state_->tensors[i];
    if (!row.by_value) continue;
    uids.push_back(static_cast<std::int64_t>(i) + 1);
    pointers.push_back(row.value);
  }
  const auto count = static_cast<std::int64_t>(uids.size());
  detail::BackendDescriptor pack;
  GPUDNN_CPP_TRY(pack.create(GPUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR));
  GPUDNN_CPP_TRY(pack.set(detail::integers(GPUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, uids)));
  GPUDNN_CPP_TRY(pack.set(GPUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, GPUDNN_TYPE_VOID_PTR, count, pointers.data()));
  GPUDNN_CPP_TRY(pack.set(GPUDNN_ATTR_VARIANT_PACK_WORKSPACE, GPUDNN_TYPE_VOID_PTR, 1, &workspace));
  GPUDNN_CPP_TRY(pack.finalize());
  return status_of(gpudnnBackendExecute(handle, plan_.plan.object(), pack.object()));
}

}  // namespace gpudnn

#endif
