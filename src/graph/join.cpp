// Graphs from operations: one tensor for each uid, operations in an order in which they can run.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_map>

#include "graph/graph.hpp"

namespace gpudnn::graph {
namespace {

// Places of tensors by unique id. Of few tensors the graph itself is searched, from the last one back: an operation
// reads what the one before it wrote.
class Places {
 public:
  std::int32_t find_or_add(std::int64_t uid, const Graph& graph, bool* fresh) {
    const auto count = static_cast<std::int32_t>(graph.tensors.size());
    if (count < kFew) {
      for (std::int32_t i = count - 1; i >= 0; --i)
        if (graph.tensors[static_cast<std::size_t>(i)].uid == uid) return i;
      *fresh = true;
      return count;
    }
    if (map_.empty())
      for (std::int32_t i = 0; i < count; ++i) map_.emplace(graph.tensors[static_cast<std::size_t>(i)].uid, i);
    const auto [at, added] = map_.try_emplace(uid, count);
    *fresh = added;
    return at->second;
  }

 private:
  static constexpr std::int32_t kFew = 32;
  std::unordered_map<std::int64_t, std::int32_t> map_;
};

// A stride of an extent of 1 says nothing, and clients fill it differently.
bool same_tensor(const Tensor& a, const Tensor& b) {
  return a.geometry.type == b.geometry.type && same_dims(a.geometry, b.geometry) &&
         same_layout(a.geometry, b.geometry) && a.is_virtual == b.is_virtual && a.by_value == b.by_value &&
         a.vector_count == b.vector_count && a.vector_dim == b.vector_dim && a.reordering == b.reordering &&
         a.ragged == b.ragged;
}

Status add_tensor(const Tensor& tensor, Graph* graph, Places* places, std::int32_t* place) {
  bool fresh = false;
  *place = places->find_or_add(tensor.uid, *graph, &fresh);
  if (fresh) {
    graph->tensors.push_back(tensor);
    return GPUDNN_STATUS_SUCCESS;
  }
  Tensor& known = graph->tensors[static_cast<std::size_t>(*place)];
  GPUDNN_REQUIRE(same_tensor(known, tensor), GPUDNN_STATUS_BAD_PARAM,
                 "two tensor descriptors have the unique id %lld, and differ: %s and %s; a tensor has one description",
                 static_cast<long long>(tensor.uid), tensor_text(known.geometry).c_str(),
                 tensor_text(tensor.geometry).c_str());
  known.alignment = std::min(known.alignment, tensor.alignment);
  return GPUDNN_STATUS_SUCCESS;
}

Status add_operation(const Operation& operation, Graph* graph, Places* places) {
  std::vector<std::int32_t> place(operation.tensors.size());
  for (std::size_t i = 0; i < operation.tensors.size(); ++i)
    GPUDNN_TRY(add_tensor(operation.tensors[i], graph, places, &place[i]));
  graph->nodes.push_back(operation.node);
  for (Link& link : graph->nodes.back().links) link.tensor = place[static_cast<std::size_t>(link.tensor)];
  return GPUDNN_STATUS_SUCCESS;
}

// The node that writes each tensor, or -1.
Status find_writers(const Graph& graph, std::vector<int>* writers) {
  writers->assign(graph.tensors.size(), -1);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    for (const Link& link : graph.nodes[n].links) {
      if (!is_output(graph.nodes[n], link.port)) continue;
      const auto t = static_cast<std::size_t>(link.tensor);
      const auto uid = static_cast<long long>(graph.tensors[t].uid);
      GPUDNN_REQUIRE((*writers)[t] < 0, GPUDNN_STATUS_BAD_PARAM,
                     "two operations write the tensor with unique id %lld; each tensor is written once", uid);
      GPUDNN_REQUIRE(!graph.tensors[t].by_value, GPUDNN_STATUS_BAD_PARAM,
                     "an operation writes the tensor with unique id %lld, which is passed by value", uid);
      (*writers)[t] = static_cast<int>(n);
    }
  }
  return GPUDNN_STATUS_SUCCESS;
}

// Whether no operation reads what it or a later one writes; refuses virtual tensors that nobody writes.
Status check_order(const Graph& graph, const std::vector<int>& writers, bool* in_order) {
  *in_order = true;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    for (const Link& link : graph.nodes[n].links) {
      if (is_output(graph.nodes[n], link.port)) continue;
      const auto t = static_cast<std::size_t>(link.tensor);
      GPUDNN_REQUIRE(writers[t] >= 0 || !graph.tensors[t].is_virtual, GPUDNN_STATUS_BAD_PARAM,
                     "no operation writes the virtual tensor with unique id %lld that %s reads",
                     static_cast<long long>(graph.tensors[t].uid), op_name(graph.nodes[n].op));
      if (writers[t] >= static_cast<int>(n)) *in_order = false;
    }
  }
  return GPUDNN_STATUS_SUCCESS;
}

// Kahn's algorithm; of the operations that are ready, the one that came first is next.
Status sort(Graph* graph, const std::vector<int>& writers) {
  const std::size_t count = graph->nodes.size();
  std::vector<int> waits(count, 0);
  std::vector<std::vector<int>> followers(count);
  for (std::size_t n = 0; n < count; ++n) {
    for (const Link& link : graph->nodes[n].links) {
      if (is_output(graph->nodes[n], link.port)) continue;
      const auto t = static_cast<std::size_t>(link.tensor);
      if (writers[t] < 0) continue;
      ++waits[n];
      followers[static_cast<std::size_t>(writers[t])].push_back(static_cast<int>(n));
    }
  }
  std::vector<Node> sorted;
  sorted.reserve(count);
  std::vector<bool> done(count, false);
  while (sorted.size() < count) {
    std::size_t next = 0;
    while (next < count && (done[next] || waits[next] > 0)) ++next;
    GPUDNN_REQUIRE(next < count, GPUDNN_STATUS_BAD_PARAM,
                   "the operations form a cycle: %zu of %zu wait for each other's results", count - sorted.size(),
                   count);
    done[next] = true;
    for (const int follower : followers[next]) --waits[static_cast<std::size_t>(follower)];
    sorted.push_back(std::move(graph->nodes[next]));
  }
  graph->nodes = std::move(sorted);
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace

Status join(std::span<const std::shared_ptr<const Operation>> operations, Graph* graph) {
  Places places;
  std::size_t tensors = 0;
  for (const auto& operation : operations) tensors += operation->tensors.size();
  graph->tensors.reserve(tensors);
  graph->nodes.reserve(operations.size());
  for (const auto& operation : operations) GPUDNN_TRY(add_operation(*operation, graph, &places));
  std::vector<int> writers;
  GPUDNN_TRY(find_writers(*graph, &writers));
  bool in_order = false;
  GPUDNN_TRY(check_order(*graph, writers, &in_order));
  return in_order ? GPUDNN_STATUS_SUCCESS : sort(graph, writers);
}

bool has_dead_operations(const Graph& graph) {
  std::vector<bool> seen(graph.tensors.size(), false);
  for (std::size_t t = 0; t < graph.tensors.size(); ++t) seen[t] = !graph.tensors[t].is_virtual;
  for (const Node& node : graph.nodes)
    for (const Link& link : node.links)
      if (!is_output(node, link.port)) seen[static_cast<std::size_t>(link.tensor)] = true;
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    return std::none_of(node.links.begin(), node.links.end(), [&](const Link& link) {
      return is_output(node, link.port) && seen[static_cast<std::size_t>(link.tensor)];
    });
  });
}

Graph without_dead_operations(const Graph& graph) {
  std::vector<bool> wanted(graph.tensors.size(), false);
  for (std::size_t t = 0; t < graph.tensors.size(); ++t) wanted[t] = !graph.tensors[t].is_virtual;
  Graph result;
  result.dynamic_shapes = graph.dynamic_shapes;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    const bool lives = std::any_of(node->links.begin(), node->links.end(), [&](const Link& link) {
      return is_output(*node, link.port) && wanted[static_cast<std::size_t>(link.tensor)];
    });
    if (!lives) continue;
    for (const Link& link : node->links) wanted[static_cast<std::size_t>(link.tensor)] = true;
    result.nodes.push_back(*node);
  }
  std::reverse(result.nodes.begin(), result.nodes.end());
  // Tensors of what is left, and the offsets that they refer to.
  std::vector<bool> used(graph.tensors.size(), false);
  for (const Node& node : result.nodes)
    for (const Link& link : node.links) used[static_cast<std::size_t>(link.tensor)] = true;
  for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
    if (!used[t] || graph.tensors[t].ragged == Tensor::kNone) continue;
    if (const int offsets = graph.find(graph.tensors[t].ragged); offsets >= 0)
      used[static_cast<std::size_t>(offsets)] = true;
  }
  std::vector<std::int32_t> place(graph.tensors.size(), -1);
  for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
    if (!used[t]) continue;
    place[t] = static_cast<std::int32_t>(result.tensors.size());
    result.tensors.push_back(graph.tensors[t]);
  }
  for (Node& node : result.nodes)
    for (Link& link : node.links) link.tensor = place[static_cast<std::size_t>(link.tensor)];
  return result;
}

}  // namespace gpudnn::graph
