// What a client of the graph interface sets in the descriptors of a tensor and an operation. An Object is a descriptor
// of some library with set(name, type, count, elements), which must succeed, try_set, which need not, and get().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.hpp"
#include "graph/kinds.hpp"

namespace gpudnn::client {

template <class Object>
void set_integer(int name, std::int64_t value, Object* object) {
  object->set(name, GPUDNN_TYPE_INT64, 1, &value);
}

// `offsets`: the descriptor of the tensor of ragged offsets, or null.
template <class Object>
void set_tensor(const graph::Tensor& t, gpudnnBackendDescriptor_t offsets, Object* object) {
  const TensorGeometry& g = t.geometry;
  const bool yes = true;
  object->set(GPUDNN_ATTR_TENSOR_DATA_TYPE, GPUDNN_TYPE_DATA_TYPE, 1, &g.type);
  object->set(GPUDNN_ATTR_TENSOR_DIMENSIONS, GPUDNN_TYPE_INT64, g.rank, g.dims);
  object->set(GPUDNN_ATTR_TENSOR_STRIDES, GPUDNN_TYPE_INT64, g.rank, g.strides);
  set_integer(GPUDNN_ATTR_TENSOR_UNIQUE_ID, t.uid, object);
  set_integer(GPUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, t.alignment, object);
  if (t.is_virtual) object->set(GPUDNN_ATTR_TENSOR_IS_VIRTUAL, GPUDNN_TYPE_BOOLEAN, 1, &yes);
  if (t.by_value) object->set(GPUDNN_ATTR_TENSOR_IS_BY_VALUE, GPUDNN_TYPE_BOOLEAN, 1, &yes);
  if (t.reordering != 0) {
    object->set(GPUDNN_ATTR_TENSOR_REORDERING_MODE, GPUDNN_TYPE_TENSOR_REORDERING_MODE, 1, &t.reordering);
  }
  if (t.vector_count != 1) {
    set_integer(GPUDNN_ATTR_TENSOR_VECTOR_COUNT, t.vector_count, object);
    set_integer(GPUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION, t.vector_dim, object);
  }
  if (offsets != nullptr) {
    object->set(GPUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, GPUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &offsets);
  }
}

// A real number in the type of the computation, as some library may read a double's first half as a float. Some
// attributes are taken in one of the two types alone.
template <class Object>
void set_real(int name, double value, bool is_double, Object* object) {
  const auto narrow = static_cast<float>(value);
  const void* const values[] = {&narrow, &value};
  constexpr gpudnnBackendAttributeType_t kTypes[] = {GPUDNN_TYPE_FLOAT, GPUDNN_TYPE_DOUBLE};
  if (!object->try_set(name, kTypes[is_double], 1, values[is_double])) {
    object->set(name, kTypes[!is_double], 1, values[!is_double]);
  }
}

template <class Object>
void set_extents(int name, int type, const graph::Extents& extents, Object* object) {
  if (extents.count == 0) return;
  if (type != GPUDNN_TYPE_FRACTION) {
    object->set(name, GPUDNN_TYPE_INT64, extents.count, extents.value.data());
    return;
  }
  std::vector<gpudnnFraction_t> fractions;
  for (std::size_t i = 0; i < static_cast<std::size_t>(extents.count); ++i) {
    fractions.push_back({extents.value[i], extents.divisor[i]});
  }
  object->set(name, GPUDNN_TYPE_FRACTION, extents.count, fractions.data());
}

// Whether a tensor of the graph is what the operation has as this attribute, which could be a number too.
inline bool is_linked(int name, const graph::Node& node) {
  for (const graph::PortRow& port : graph::row_of(node.op).ports) {
    if (port.attribute == name && node.at(port.port) >= 0) return true;
  }
  return false;
}

// A field of a node, where the descriptor's kind has the attribute. What an operation has that says nothing of it is
// left to the library.
template <class Object>
void set_field(const graph::FieldRow& row, const graph::Node& node, int kind, Object* object) {
  const int place = graph::place_of(kind, row.attribute);
  if (place < 0) return;
  const graph::Attribute& attribute = graph::attributes_of(kind)[static_cast<std::size_t>(place)];
  const graph::Node usual;
  const bool is_usual = std::visit([&](auto field) { return node.*field == usual.*field; }, row.field);
  if ((is_usual && !attribute.required) || is_linked(row.attribute, node)) return;
  std::int64_t word = 0;
  if (const auto* field = std::get_if<graph::IntField>(&row.field)) {
    word = node.*(*field);
  } else if (const auto* wide = std::get_if<graph::LongField>(&row.field)) {
    word = node.*(*wide);
  } else if (const auto* type = std::get_if<graph::TypeField>(&row.field)) {
    word = node.*(*type);
  } else if (const auto* real = std::get_if<graph::RealField>(&row.field)) {
    return set_real(row.attribute, node.*(*real), node.compute == GPUDNN_DATA_DOUBLE, object);
  } else {
    return set_extents(row.attribute, attribute.type, node.*std::get<graph::ExtentsField>(row.field), object);
  }
  if (attribute.type == GPUDNN_TYPE_INT64 || attribute.other == GPUDNN_TYPE_INT64) {
    return set_integer(row.attribute, word, object);
  }
  const auto flag = static_cast<unsigned char>(word);
  const auto number = static_cast<int>(word);
  const bool is_flag = attribute.type == GPUDNN_TYPE_BOOLEAN;
  object->set(row.attribute, attribute.type, 1, is_flag ? static_cast<const void*>(&flag) : &number);
}

// The descriptor that stands beside an operation's own, of the kind `row.companion`.
template <class Object>
void set_companion(const graph::OpRow& row, const graph::Node& node, Object* object) {
  for (const graph::FieldRow& field : row.fields) set_field(field, node, row.companion, object);
  if (row.companion == graph::kConvolution) {
    set_integer(GPUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, node.pre.count, object);
  } else if (row.companion == graph::kResample) {
    set_integer(GPUDNN_ATTR_RESAMPLE_SPATIAL_DIMS, node.window.count, object);
  }
}

// An operation, but for its companion. `tensors` are the graph's, in its order.
template <class Object, class TensorObject>
void set_operation(const graph::OpRow& row, const graph::Node& node, const std::vector<TensorObject>& tensors,
                   Object* object) {
  for (const graph::FieldRow& field : row.fields) set_field(field, node, row.kind, object);
  for (const graph::PortRow& port : row.ports) {
    std::vector<gpudnnBackendDescriptor_t> linked;
    for (const graph::Link& link : node.links) {
      if (link.port == port.port) linked.push_back(tensors[static_cast<std::size_t>(link.tensor)].get());
    }
    if (linked.empty()) continue;
    object->set(port.attribute, GPUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(linked.size()),
                linked.data());
  }
  // Not in a graph's text, as sums are in float whatever it says. cuDNN has no engine for the operation without it.
  if (node.op == graph::Op::gen_stats) {
    object->set(GPUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, GPUDNN_TYPE_DATA_TYPE, 1, &node.compute);
  }
}

}  // namespace gpudnn::client
