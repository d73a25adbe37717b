// A client of the graph interface of any library.
// SPDX-License-Identifier: Apache-2.0
#include "graph_client.hpp"

#include <stdexcept>

#include "graph/kinds.hpp"

namespace gpudnn::bench {
namespace {

gpudnnBackendAttributeName_t name_of(int name) { return static_cast<gpudnnBackendAttributeName_t>(name); }
gpudnnBackendAttributeType_t type_of(int type) { return static_cast<gpudnnBackendAttributeType_t>(type); }

void require(const Library& library, gpudnnStatus_t status, const std::string& what) {
  if (status != GPUDNN_STATUS_SUCCESS) throw std::runtime_error(what + ": " + failure_text(library, status));
}

// What the field holds is what an operation has that says nothing of it: left to the library.
bool is_default(const graph::FieldRow& row, const graph::Node& node) {
  const graph::Node usual;
  return std::visit([&](auto field) { return node.*field == usual.*field; }, row.field);
}

// Sets a field of a node, where the descriptor's kind has the attribute.
void set_field(const graph::FieldRow& row, const graph::Node& node, BackendObject* object, int kind) {
  const int place = graph::place_of(kind, row.attribute);
  if (place < 0) return;
  const graph::Attribute& attribute = graph::attributes_of(kind)[static_cast<std::size_t>(place)];
  if (!attribute.required && is_default(row, node)) return;
  std::int64_t word = 0;
  if (const auto* field = std::get_if<graph::IntField>(&row.field)) {
    word = node.*(*field);
  } else if (const auto* wide = std::get_if<graph::LongField>(&row.field)) {
    word = node.*(*wide);
  } else if (const auto* type = std::get_if<graph::TypeField>(&row.field)) {
    word = node.*(*type);
  } else if (const auto* real = std::get_if<graph::RealField>(&row.field)) {
    const double value = node.*(*real);
    const auto narrow = static_cast<float>(value);
    // In the type of the computation, as another library may read a double's first half as a float. Some attributes
    // are taken in one of the two types alone.
    const bool is_double = node.compute == GPUDNN_DATA_DOUBLE;
    const void* const values[] = {&narrow, &value};
    const gpudnnBackendAttributeType_t types[] = {GPUDNN_TYPE_FLOAT, GPUDNN_TYPE_DOUBLE};
    if (!object->try_set(row.attribute, types[is_double], 1, values[is_double])) {
      object->set(row.attribute, types[!is_double], 1, values[!is_double]);
    }
    return;
  } else {
    const graph::Extents& extents = node.*std::get<graph::ExtentsField>(row.field);
    if (extents.count == 0) return;
    if (attribute.type == GPUDNN_TYPE_FRACTION) {
      std::vector<gpudnnFraction_t> fractions;
      for (std::size_t i = 0; i < static_cast<std::size_t>(extents.count); ++i) {
        fractions.push_back({extents.value[i], extents.divisor[i]});
      }
      object->set(row.attribute, GPUDNN_TYPE_FRACTION, extents.count, fractions.data());
    } else {
      object->set(row.attribute, GPUDNN_TYPE_INT64, extents.count, extents.value.data());
    }
    return;
  }
  if (attribute.type == GPUDNN_TYPE_INT64) {
    object->set_integer(row.attribute, word);
  } else if (attribute.type == GPUDNN_TYPE_BOOLEAN) {
    const auto flag = static_cast<unsigned char>(word);
    object->set(row.attribute, GPUDNN_TYPE_BOOLEAN, 1, &flag);
  } else {
    object->set_enum(row.attribute, attribute.type, static_cast<int>(word));
  }
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
          "attribute " + std::to_string(name));
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
          "reading attribute " + std::to_string(name));
  return value;
}

BackendObject GraphDescriptors::tensor(const graph::Tensor& t, const BackendObject* offsets) const {
  BackendObject d(*library_, graph::kTensor);
  const TensorGeometry& g = t.geometry;
  const bool yes = true;
  d.set_enum(GPUDNN_ATTR_TENSOR_DATA_TYPE, GPUDNN_TYPE_DATA_TYPE, g.type);
  d.set(GPUDNN_ATTR_TENSOR_DIMENSIONS, GPUDNN_TYPE_INT64, g.rank, g.dims);
  d.set(GPUDNN_ATTR_TENSOR_STRIDES, GPUDNN_TYPE_INT64, g.rank, g.strides);
  d.set_integer(GPUDNN_ATTR_TENSOR_UNIQUE_ID, t.uid);
  d.set_integer(GPUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, t.alignment);
  if (t.is_virtual) d.set(GPUDNN_ATTR_TENSOR_IS_VIRTUAL, GPUDNN_TYPE_BOOLEAN, 1, &yes);
  if (t.by_value) d.set(GPUDNN_ATTR_TENSOR_IS_BY_VALUE, GPUDNN_TYPE_BOOLEAN, 1, &yes);
  if (t.reordering != 0) {
    d.set_enum(GPUDNN_ATTR_TENSOR_REORDERING_MODE, GPUDNN_TYPE_TENSOR_REORDERING_MODE, t.reordering);
  }
  if (t.vector_count != 1) {
    d.set_integer(GPUDNN_ATTR_TENSOR_VECTOR_COUNT, t.vector_count);
    d.set_integer(GPUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION, t.vector_dim);
  }
  if (offsets != nullptr) d.set_object(GPUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, *offsets);
  d.finalize();
  return d;
}

BackendObject GraphDescriptors::operation(const graph::Node& node) {
  const graph::OpRow& row = graph::row_of(node.op);
  BackendObject op(*library_, row.kind);
  if (row.companion >= 0) {
    BackendObject companion(*library_, row.companion);
    for (const graph::FieldRow& field : row.fields) set_field(field, node, &companion, row.companion);
    if (row.companion == graph::kConvolution) {
      companion.set_integer(GPUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, node.pre.count);
    } else if (row.companion == graph::kResample) {
      companion.set_integer(GPUDNN_ATTR_RESAMPLE_SPATIAL_DIMS, node.window.count);
    }
    companion.finalize();
    op.set_object(row.companion_attribute, companion);
    companions_.push_back(std::move(companion));
  }
  for (const graph::FieldRow& field : row.fields) set_field(field, node, &op, row.kind);
  for (const graph::PortRow& port : row.ports) {
    std::vector<gpudnnBackendDescriptor_t> objects;
    for (const graph::Link& link : node.links) {
      if (link.port == port.port) objects.push_back(tensors_[static_cast<std::size_t>(link.tensor)].get());
    }
    if (objects.empty()) continue;
    op.set(port.attribute, GPUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(objects.size()), objects.data());
  }
  op.finalize();
  return op;
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
  BackendObject heuristics(*library_, graph::kHeuristics);
  heuristics.set_object(GPUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_);
  heuristics.set_enum(GPUDNN_ATTR_ENGINEHEUR_MODE, GPUDNN_TYPE_HEUR_MODE, GPUDNN_HEUR_MODE_A);
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
