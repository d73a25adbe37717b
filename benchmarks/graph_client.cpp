// A client of the graph interface of any library.
// SPDX-License-Identifier: Apache-2.0
#include "graph_client.hpp"

#include <stdexcept>

#include "graph_attributes.hpp"

namespace gpudnn::bench {
namespace {

gpudnnBackendAttributeName_t name_of(int name) { return static_cast<gpudnnBackendAttributeName_t>(name); }
gpudnnBackendAttributeType_t type_of(int type) { return static_cast<gpudnnBackendAttributeType_t>(type); }

// The text is made where something failed alone: what is timed is the library.
void require(const Library& library, gpudnnStatus_t status, const char* what, int number = -1) {
  if (status == GPUDNN_STATUS_SUCCESS) return;
  const std::string of = number < 0 ? "" : " " + std::to_string(number);
  throw std::runtime_error(what + of + ": " + failure_text(library, status));
}

}  // namespace

BackendObject::BackendObject(const Library& library, int kind) : library_(&library) {
  require(library, library.api.BackendCreateDescriptor(static_cast<gpudnnBackendDescriptorType_t>(kind), &object_),
          "creating a descriptor");
}
BackendObject::~BackendObject() {
  if (object_ != nullptr) (void)library_->api.BackendDestroyDescriptor(object_);
}
void BackendObject::set(int name, int type, std::int64_t count, const void* elements) {
  require(*library_, library_->api.BackendSetAttribute(object_, name_of(name), type_of(type), count, elements),
          "attribute", name);
}
bool BackendObject::try_set(int name, int type, std::int64_t count, const void* elements) noexcept {
  return library_->api.BackendSetAttribute(object_, name_of(name), type_of(type), count, elements) ==
         GPUDNN_STATUS_SUCCESS;
}
void BackendObject::set_object(int name, const BackendObject& value) {
  const gpudnnBackendDescriptor_t object = value.get();
  set(name, GPUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &object);
}
void BackendObject::finalize() { require(*library_, library_->api.BackendFinalize(object_), "finalizing"); }
std::int64_t BackendObject::integer(int name) const {
  std::int64_t value = 0, count = 0;
  require(*library_, library_->api.BackendGetAttribute(object_, name_of(name), GPUDNN_TYPE_INT64, 1, &count, &value),
          "reading attribute", name);
  return value;
}

BackendObject GraphDescriptors::tensor(const graph::Tensor& tensor, const BackendObject* offsets) const {
  BackendObject object(*library_, graph::kTensor);
  client::set_tensor(tensor, offsets == nullptr ? nullptr : offsets->get(), &object);
  object.finalize();
  return object;
}

BackendObject GraphDescriptors::operation(const graph::Node& node) {
  const graph::OpRow& row = graph::row_of(node.op);
  BackendObject object(*library_, row.kind);
  if (row.companion >= 0) {
    BackendObject companion(*library_, row.companion);
    client::set_companion(row, node, &companion);
    companion.finalize();
    object.set_object(row.companion_attribute, companion);
    companions_.push_back(std::move(companion));
  }
  client::set_operation(row, node, tensors_, &object);
  object.finalize();
  return object;
}

GraphDescriptors::GraphDescriptors(const Library& library, const graph::Graph& graph)
    : library_(&library), graph_(library, graph::kGraph) {
  for (const graph::Tensor& one : graph.tensors) {
    const int offsets = graph.find(one.ragged);
    if (offsets < 0) {
      tensors_.push_back(tensor(one, nullptr));
    } else {
      const BackendObject of = tensor(graph.tensors[static_cast<std::size_t>(offsets)], nullptr);
      tensors_.push_back(tensor(one, &of));
    }
  }
  std::vector<gpudnnBackendDescriptor_t> objects;
  for (const graph::Node& node : graph.nodes) {
    operations_.push_back(operation(node));
    objects.push_back(operations_.back().get());
  }
  graph_.set(GPUDNN_ATTR_OPERATIONGRAPH_OPS, GPUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(objects.size()),
             objects.data());
  graph_.set(GPUDNN_ATTR_OPERATIONGRAPH_HANDLE, GPUDNN_TYPE_HANDLE, 1, &library.handle);
  graph_.finalize();
}

std::vector<BackendObject> GraphDescriptors::configs(int most) const {
  std::vector<BackendObject> ranked = configs(GPUDNN_HEUR_MODE_A, most);
  return ranked.empty() ? configs(GPUDNN_HEUR_MODE_FALLBACK, most) : std::move(ranked);
}

std::vector<BackendObject> GraphDescriptors::configs(gpudnnBackendHeurMode_t mode, int most) const {
  BackendObject heuristics(*library_, graph::kHeuristics);
  heuristics.set_object(GPUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_);
  heuristics.set_enum(GPUDNN_ATTR_ENGINEHEUR_MODE, GPUDNN_TYPE_HEUR_MODE, mode);
  heuristics.finalize();
  std::vector<BackendObject> configs;
  std::vector<gpudnnBackendDescriptor_t> objects;
  for (int i = 0; i < most; ++i) {
    configs.emplace_back(*library_, graph::kEngineConfig);
    objects.push_back(configs.back().get());
  }
  std::int64_t written = 0;
  require(*library_,
          library_->api.BackendGetAttribute(heuristics.get(), GPUDNN_ATTR_ENGINEHEUR_RESULTS,
                                            GPUDNN_TYPE_BACKEND_DESCRIPTOR, most, &written, objects.data()),
          "the heuristic's results");
  while (static_cast<std::int64_t>(configs.size()) > written) configs.pop_back();
  return configs;
}

BackendObject GraphDescriptors::plan(const BackendObject& config) const {
  BackendObject plan(*library_, graph::kPlan);
  plan.set(GPUDNN_ATTR_EXECUTION_PLAN_HANDLE, GPUDNN_TYPE_HANDLE, 1, &library_->handle);
  plan.set_object(GPUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
  plan.finalize();
  return plan;
}

}  // namespace gpudnn::bench
