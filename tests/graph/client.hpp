// A client of the graph interface: takes a graph as text, and makes descriptors, plans and packs of it by the entry
// points, as a program does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "support/random.hpp"

namespace gpudnn::test {

// A handle of the host backend.
class HostHandle {
 public:
  HostHandle() {
    setenv("GPUDNN_BACKEND", "host", 1);
    EXPECT_EQ(gpudnnCreate(&handle_), GPUDNN_STATUS_SUCCESS);
  }
  ~HostHandle() { EXPECT_EQ(gpudnnDestroy(handle_), GPUDNN_STATUS_SUCCESS); }
  HostHandle(const HostHandle&) = delete;
  HostHandle& operator=(const HostHandle&) = delete;
  operator gpudnnHandle_t() const { return handle_; }

 private:
  gpudnnHandle_t handle_ = nullptr;
};

// A graph of its text, which must be right.
[[nodiscard]] graph::Graph read(const std::string& text);

// A backend descriptor; destroyed with it.
class BackendDescriptor {
 public:
  BackendDescriptor() = default;
  explicit BackendDescriptor(int kind);
  ~BackendDescriptor();
  BackendDescriptor(BackendDescriptor&& other) noexcept : object_(other.object_) { other.object_ = nullptr; }
  BackendDescriptor& operator=(BackendDescriptor&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  BackendDescriptor(const BackendDescriptor&) = delete;
  BackendDescriptor& operator=(const BackendDescriptor&) = delete;

  [[nodiscard]] gpudnnBackendDescriptor_t get() const { return object_; }
  Status set(int name, int type, std::int64_t count, const void* elements);
  Status set_integer(int name, std::int64_t value);  // INT64
  Status set_enum(int name, int type, int value);
  Status set_descriptor(int name, const BackendDescriptor& value);
  Status finalize();
  [[nodiscard]] std::int64_t count(int name, int type) const;
  [[nodiscard]] std::int64_t integer(int name, int type = GPUDNN_TYPE_INT64) const;
  [[nodiscard]] std::string text(int name) const;

 private:
  gpudnnBackendDescriptor_t object_ = nullptr;
};

[[nodiscard]] std::string last_error();

// A finalized TENSOR.
[[nodiscard]] BackendDescriptor make_tensor(const graph::Tensor& tensor, const BackendDescriptor* offsets = nullptr);

// The descriptors of a graph, up to the finalized OPERATIONGRAPH. Operations are given in reverse order: the library
// sorts them.
struct ClientGraph {
  graph::Graph graph;
  std::vector<BackendDescriptor> tensors;
  std::vector<BackendDescriptor> companions;
  std::vector<BackendDescriptor> operations;
  BackendDescriptor graph_descriptor;
};
void build(const graph::Graph& graph, gpudnnHandle_t handle, ClientGraph* out);

// Configs of a heuristic mode, by the protocol that clients use.
[[nodiscard]] std::vector<BackendDescriptor> configs_of(const BackendDescriptor& graph, int mode);
[[nodiscard]] std::int64_t engine_index(const BackendDescriptor& config);
// A finalized EXECUTION_PLAN of a config.
[[nodiscard]] BackendDescriptor make_plan(const BackendDescriptor& config);
// Of the engine with this index, with its own choice of knobs.
[[nodiscard]] BackendDescriptor make_plan(const BackendDescriptor& graph, std::int64_t index);

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

// Sets the integers that operations take as places, lengths and offsets, and what must be positive.
void set_places(const graph::Graph& graph, Memory* memory);

// On a handle of the CUDA backend the tensors are copied to the device, and back.
[[nodiscard]] Status execute(gpudnnHandle_t handle, const BackendDescriptor& plan, Memory* memory);

// The same in steps, for several that run at once. Tensors of `given` lie where it says, as they are.
class Execution {
 public:
  Execution(gpudnnHandle_t handle, const BackendDescriptor& plan, Memory* memory,
            const std::map<std::int64_t, void*>& given = {});
  ~Execution();
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;
  [[nodiscard]] Status start();
  void finish();                                        // copies what is on the device back
  [[nodiscard]] const BackendDescriptor& pack() const;  // for calls that take it instead of start

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Cases of a file under tests/cases/graph: "== name", then the graph's text.
struct GraphCase {
  std::string name;
  std::string text;
};
[[nodiscard]] std::vector<GraphCase> graph_cases(const std::string& file);

}  // namespace gpudnn::test
