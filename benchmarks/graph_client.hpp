// A client of the graph interface of any library: descriptors, plans and packs of a graph that is given as text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api_table.hpp"
#include "graph/graph.hpp"

namespace gpudnn::bench {

// A backend descriptor of a library; destroyed with it. Calls throw std::runtime_error with the library's text.
class BackendObject {
 public:
  BackendObject(const Library& library, int kind);
  ~BackendObject();
  BackendObject(BackendObject&& other) noexcept : library_(other.library_), object_(other.object_) {
    other.object_ = nullptr;
  }
  BackendObject(const BackendObject&) = delete;
  BackendObject& operator=(const BackendObject&) = delete;
  BackendObject& operator=(BackendObject&&) = delete;

  [[nodiscard]] gpudnnBackendDescriptor_t get() const noexcept { return object_; }
  void set(int name, int type, std::int64_t count, const void* elements);
  // False where the library does not take it.
  [[nodiscard]] bool try_set(int name, int type, std::int64_t count, const void* elements) noexcept;
  void set_integer(int name, std::int64_t value) { set(name, GPUDNN_TYPE_INT64, 1, &value); }
  void set_enum(int name, int type, int value) { set(name, type, 1, &value); }
  void set_object(int name, const BackendObject& value);
  void finalize();
  [[nodiscard]] std::int64_t integer(int name) const;

 private:
  const Library* library_;
  gpudnnBackendDescriptor_t object_ = nullptr;
};

// The descriptors of a graph, up to the finalized OPERATIONGRAPH.
class GraphDescriptors {
 public:
  GraphDescriptors(const Library& library, const graph::Graph& graph);
  // Configs of the heuristic's mode A, the best first; at most `most`. Where it has none, those of the fallback.
  [[nodiscard]] std::vector<BackendObject> configs(int most) const;
  [[nodiscard]] BackendObject plan(const BackendObject& config) const;  // finalized

 private:
  [[nodiscard]] std::vector<BackendObject> configs(gpudnnBackendHeurMode_t mode, int most) const;
  [[nodiscard]] BackendObject tensor(const graph::Tensor& tensor, const BackendObject* offsets) const;
  [[nodiscard]] BackendObject operation(const graph::Node& node);

  const Library* library_;
  std::vector<BackendObject> tensors_;
  std::vector<BackendObject> companions_;
  std::vector<BackendObject> operations_;
  BackendObject graph_;
};

}  // namespace gpudnn::bench
