// What the host interpreter works on: the value of every tensor in double, in row-major order of its dimensions.
//
// A value is rounded to its tensor's declared type as soon as it is there, virtual or not: what follows reads what a
// program would read if the tensor were written out. Within an operation all sums are in double.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "graph/graph.hpp"

namespace gpudnn::graph {

using Dims = std::array<std::int64_t, kMaxRank>;

struct Array {
  int rank = 0;
  Dims dims{};
  std::vector<double> v;

  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(v.size()); }
  [[nodiscard]] Dims strides() const;  // row-major
  [[nodiscard]] double at(std::int64_t i) const { return v[static_cast<std::size_t>(i)]; }
  [[nodiscard]] double& at(std::int64_t i) { return v[static_cast<std::size_t>(i)]; }
};

// Strides with which `part` is read along the dimensions of `whole`: 0 where it is repeated. A part of fewer dimensions
// is aligned to the last ones.
[[nodiscard]] Dims broadcast_strides(const Array& part, int rank, const Dims& dims);

// body(flat, index of each dimension) for every index, in parallel; every call has an index of its own.
void for_each_index(int rank, const Dims& dims, std::int64_t cost,
                    const std::function<void(std::int64_t, const Dims&)>& body);

class State {
 public:
  State(const Graph& graph, void* const* data);

  [[nodiscard]] const Graph& graph() const { return graph_; }
  // Reads all tensors of the program that some operation reads: later writes to the same memory change nothing.
  [[nodiscard]] Status load_inputs();
  // Null if the node has no tensor there.
  [[nodiscard]] const Array* in(const Node& node, Port port) const;
  [[nodiscard]] const Array& value(int place) const { return values_[static_cast<std::size_t>(place)]; }
  [[nodiscard]] Array& value(int place) { return values_[static_cast<std::size_t>(place)]; }
  [[nodiscard]] const Tensor& tensor(int place) const { return graph_.tensors[static_cast<std::size_t>(place)]; }
  // A number by value or of one element.
  [[nodiscard]] double number(const Node& node, Port port, double otherwise) const;
  // All bits of an integer, which double would cut.
  [[nodiscard]] std::uint64_t bits64(const Node& node, Port port, std::uint64_t otherwise) const;
  // Room for an output, zeroed; null if the node has none there.
  [[nodiscard]] Array* out(const Node& node, Port port);
  // What the program's memory holds, for outputs that are added to.
  [[nodiscard]] Array before(const Node& node, Port port) const;
  // Rounds an output, and writes it to the program's memory unless it is virtual.
  [[nodiscard]] Status finish(const Node& node, Port port);
  // Rows of batch b in a ragged tensor; the declared extent where it is not ragged.
  [[nodiscard]] std::int64_t rows_of(const Tensor& tensor, std::int64_t batch) const;
  [[nodiscard]] void* data(int place) const { return data_[place]; }

 private:
  [[nodiscard]] Array shaped(const Tensor& tensor) const;
  [[nodiscard]] Array loaded(int place) const;
  // Element offset of an index, or -1 where a ragged tensor has no element.
  [[nodiscard]] std::int64_t offset_of(const Tensor& tensor, const Dims& index) const;

  const Graph& graph_;
  void* const* data_;
  std::vector<Array> values_;
};

// Runs an operation; the caller then finishes its outputs.
[[nodiscard]] Status interpret_node(const Node& node, State* state);
// Each runs the operations of its kind.
[[nodiscard]] Status interpret_pointwise(const Node& node, State* state);
[[nodiscard]] Status interpret_convolution(const Node& node, State* state);
[[nodiscard]] Status interpret_matmul(const Node& node, State* state);
[[nodiscard]] Status interpret_moe(const Node& node, State* state);
[[nodiscard]] Status interpret_reduction(const Node& node, State* state);
[[nodiscard]] Status interpret_resample(const Node& node, State* state);
[[nodiscard]] Status interpret_norm(const Node& node, State* state);
[[nodiscard]] Status interpret_statistics(const Node& node, State* state);
[[nodiscard]] Status interpret_move(const Node& node, State* state);
[[nodiscard]] Status interpret_rng(const Node& node, State* state);
[[nodiscard]] Status interpret_block_scale(const Node& node, State* state);
[[nodiscard]] Status interpret_attention(const Node& node, State* state);

}  // namespace gpudnn::graph
