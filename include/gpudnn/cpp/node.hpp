// libgpudnn for C++: what the graph builder keeps until build(): tensors and operations as plain data, and an owner of
// backend descriptors. Programs do not use it themselves.
// SPDX-License-Identifier: Apache-2.0
#ifndef GPUDNN_CPP_NODE_HPP_
#define GPUDNN_CPP_NODE_HPP_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "gpudnn/cpp/error.hpp"

namespace gpudnn {

using Extents = std::vector<std::int64_t>;

namespace detail {

struct TensorRow {
  std::string name;
  Extents dims;
  Extents strides;
  gpudnnDataType_t type = GPUDNN_DATA_FLOAT;
  bool has_type = false;     // else the graph's, by what the tensor turns out to be
  bool has_strides = false;  // given by the program
  bool produced = false;     // the result of an operation
  bool read = false;         // by an operation
  bool output = false;       // wanted, though an operation reads it
  bool by_value = false;
  unsigned char value[8] = {};  // of a by-value tensor
  std::int64_t alignment = 16;
  int ragged = -1;   // the tensor of its offsets
  int view_of = -1;  // the input whose memory this is

  [[nodiscard]] bool is_virtual() const noexcept { return produced && read && !output; }
};

struct Attribute {
  gpudnnBackendAttributeName_t name;
  gpudnnBackendAttributeType_t type;
  std::int64_t count;
  std::vector<unsigned char> bytes;
};

template <class T>
Attribute attribute(gpudnnBackendAttributeName_t name, gpudnnBackendAttributeType_t type,
                    const std::vector<T>& values) {
  Attribute made{name, type, static_cast<std::int64_t>(values.size()), {}};
  made.bytes.resize(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(made.bytes.data(), values.data(), made.bytes.size());
  return made;
}
inline Attribute integers(gpudnnBackendAttributeName_t name, const Extents& values) {
  return attribute(name, GPUDNN_TYPE_INT64, values);
}
inline Attribute integer(gpudnnBackendAttributeName_t name, std::int64_t value) { return integers(name, {value}); }
inline Attribute real(gpudnnBackendAttributeName_t name, double value) {
  return attribute(name, GPUDNN_TYPE_DOUBLE, std::vector<double>{value});
}
inline Attribute fractions(gpudnnBackendAttributeName_t name, const Extents& values) {
  std::vector<gpudnnFraction_t> made;
  for (const std::int64_t value : values) made.push_back({value, 1});
  return attribute(name, GPUDNN_TYPE_FRACTION, made);
}
template <class Enum>
Attribute enumerator(gpudnnBackendAttributeName_t name, gpudnnBackendAttributeType_t type, Enum value) {
  return attribute(name, type, std::vector<std::int32_t>{static_cast<std::int32_t>(value)});
}
inline Attribute data_type(gpudnnBackendAttributeName_t name, gpudnnDataType_t value) {
  return enumerator(name, GPUDNN_TYPE_DATA_TYPE, value);
}

// Tensors under one attribute; none where an optional one is missing.
struct Link {
  gpudnnBackendAttributeName_t name;
  std::vector<int> tensors;
  bool is_output = false;
};

struct Node {
  explicit Node(gpudnnBackendDescriptorType_t of) : kind(of) {}
  gpudnnBackendDescriptorType_t kind;
  std::vector<Link> links;
  std::vector<Attribute> attributes;
  // The descriptor that most kinds of operations refer to, with its attributes.
  bool has_companion = false;
  gpudnnBackendDescriptorType_t companion = GPUDNN_BACKEND_POINTWISE_DESCRIPTOR;
  gpudnnBackendAttributeName_t companion_name = GPUDNN_ATTR_POINTWISE_MODE;
  std::vector<Attribute> companion_attributes;
};

class BackendDescriptor {
 public:
  BackendDescriptor() = default;
  ~BackendDescriptor() {
    if (object_ != nullptr) static_cast<void>(gpudnnBackendDestroyDescriptor(object_));
  }
  BackendDescriptor(BackendDescriptor&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  BackendDescriptor& operator=(BackendDescriptor&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  BackendDescriptor(const BackendDescriptor&) = delete;
  BackendDescriptor& operator=(const BackendDescriptor&) = delete;

  Status create(gpudnnBackendDescriptorType_t kind) {
    *this = BackendDescriptor();
    return status_of(gpudnnBackendCreateDescriptor(kind, &object_));
  }
  Status set(gpudnnBackendAttributeName_t name, gpudnnBackendAttributeType_t type, std::int64_t count,
             const void* elements) {
    return status_of(gpudnnBackendSetAttribute(object_, name, type, count, elements));
  }
  Status set(const Attribute& a) { return set(a.name, a.type, a.count, a.bytes.data()); }
  Status set(gpudnnBackendAttributeName_t name, const std::vector<gpudnnBackendDescriptor_t>& values) {
    return set(name, GPUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(values.size()), values.data());
  }
  Status get(gpudnnBackendAttributeName_t name, gpudnnBackendAttributeType_t type, std::int64_t most,
             std::int64_t* count, void* elements) const {
    return status_of(gpudnnBackendGetAttribute(object_, name, type, most, count, elements));
  }
  Status finalize() { return status_of(gpudnnBackendFinalize(object_)); }
  [[nodiscard]] gpudnnBackendDescriptor_t object() const noexcept { return object_; }

 private:
  gpudnnBackendDescriptor_t object_ = nullptr;
};

inline Extents row_major(const Extents& dims) {
  Extents strides(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * std::max<std::int64_t>(dims[i], 1);
  return strides;
}

// Dimension 1 fastest, then the last one up to the third, then dimension 0.
inline Extents channels_last(const Extents& dims) {
  if (dims.size() < 3) return row_major(dims);
  Extents strides(dims.size(), 1);
  std::int64_t step = dims[1];
  for (std::size_t i = dims.size(); i-- > 2;) {
    strides[i] = step;
    step *= dims[i];
  }
  strides[0] = step;
  return strides;
}

// Packed, with the dimensions in the order in which they lie in `like`.
inline Extents packed_as(const Extents& dims, const TensorRow& like) {
  if (like.dims.size() != dims.size()) return row_major(dims);
  std::vector<std::size_t> order(dims.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&like](std::size_t a, std::size_t b) { return like.strides[a] > like.strides[b]; });
  Extents strides(dims.size(), 1);
  std::int64_t step = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = step;
    step *= std::max<std::int64_t>(dims[order[i]], 1);
  }
  return strides;
}

inline std::string dims_text(const Extents& dims) {
  std::string text;
  for (std::size_t i = 0; i < dims.size(); ++i) text += (i > 0 ? "x" : "") + std::to_string(dims[i]);
  return text;
}

}  // namespace detail
}  // namespace gpudnn

#endif
