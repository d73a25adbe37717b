// A client of the graph interface: takes a graph as text, and makes descriptors, plans and packs of it by the entry
// points, as a program does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "support/random.hpp"

namespace gpudnn::test {

// A backend descriptor; destroyed with it.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int kind);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : object_(other.object_) { other.object_ = nullptr; }
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] gpudnnBackendDescriptor_t get() const { return object_; }
  Status set(int name, int type, std::int64_t count, const void* elements);
  Status set_integer(int name, std::int64_t value);  // INT64
  Status set_enum(int name, int type, int value);
  Status set_descriptor(int name, const Descriptor& value);
  Status finalize();
  [[nodiscard]] std::int64_t count(int name, int type) const;
  [[nodiscard]] std::int64_t integer(int name, int type = GPUDNN_TYPE_INT64) const;
  [[nodiscard]] std::string text(int name) const;

 private:
  gpudnnBackendDescriptor_t object_ = nullptr;
};

[[nodiscard]] std::string last_error();

// A finalized TENSOR.
[[nodiscard]] Descriptor make_tensor(const graph::Tensor& tensor, const Descriptor* offsets = nullptr);

// The descriptors of a graph, up to the finalized OPERATIONGRAPH. Operations are given in reverse order: the library
// sorts them.
struct ClientGraph {
  graph::Graph graph;
  std::vector<Descriptor> tensors;
  std::vector<Descriptor> companions;
  std::vector<Descriptor> operations;
  Descriptor graph_descriptor;
};
void build(const graph::Graph& graph, gpudnnHandle_t handle, ClientGraph* out);

// Configs of a heuristic mode, by the protocol that clients use.
[[nodiscard]] std::vector<Descriptor> configs_of(const Descriptor& graph, int mode);
[[nodiscard]] std::int64_t engine_index(const Descriptor& config);
// A finalized EXECUTION_PLAN of a config.
[[nodiscard]] Descriptor make_plan(const Descriptor& config);
// Of the engine with this index, with its own choice of knobs.
[[nodiscard]] Descriptor make_plan(const Descriptor& graph, std::int64_t index);

// Memory of every tensor that is not virtual: host memory, poisoned behind the data.
class Memory {
 public:
  // Fills inputs with small random numbers of their type; outputs with NaN, or the greatest integer.
  Memory(const graph::Graph& graph, Random* random);
  [[nodiscard]] std::vector<double> values(std::int64_t uid) const;  // row-major
  void set(std::int64_t uid, const std::vector<double>& values);     // row-major, repeated to the tensor's size
  void set_all(std::int64_t uid, double value) { set(uid, {value}); }
  [[nodiscard]] void* pointer(std::int64_t uid) { return bytes_.at(uid).data(); }
  [[nodiscard]] std::size_t bytes(std::int64_t uid) const { return bytes_.at(uid).size(); }  // guards included
  [[nodiscard]] bool guards_intact() const;
  [[nodiscard]] const graph::Graph& graph() const { return graph_; }

 private:
  static constexpr std::size_t kGuard = 64;
  graph::Graph graph_;
  std::map<std::int64_t, std::vector<unsigned char>> bytes_;
};

// On a handle of the CUDA backend the tensors are copied to the device, and back.
[[nodiscard]] Status execute(gpudnnHandle_t handle, const Descriptor& plan, Memory* memory);

// Cases of a file under tests/cases/graph: "== name", then the graph's text.
struct GraphCase {
  std::string name;
  std::string text;
};
[[nodiscard]] std::vector<GraphCase> graph_cases(const std::string& file);

}  // namespace gpudnn::test
