// The composite attention operations as attention problems.
// SPDX-License-Identifier: Apache-2.0
#include "graph/engines.hpp"
#include "graph/interpret/element.hpp"
#include "ops/attention/problem.hpp"

namespace gpudnn::graph {
namespace {

struct Match {
  attention::Problem problem;
  Node node;
};

bool no_match(std::string* why, std::string reason) {
  *why = std::move(reason);
  return false;
}

bool take_tensor(const Graph& graph, const Node& node, Port port, attention::Tensor* out, std::string* why) {
  const Tensor* t = graph.tensor(node, port);
  if (t == nullptr) return true;
  if (t->is_virtual || t->by_value || t->vector_count != 1 || t->reordering != 0)
    return no_match(why, "its tensors must be plain ones");
  out->geometry = t->geometry;
  if (const int offsets = graph.find(t->ragged); offsets >= 0)
    out->offset_bits = graph.tensors[static_cast<std::size_t>(offsets)].geometry.type == GPUDNN_DATA_INT64 ? 64 : 32;
  return true;
}

bool match_graph(const Graph& graph, Match* m, std::string* why) {
  if (graph.nodes.size() != 1 || (graph.nodes.front().op != Op::sdpa_fwd && graph.nodes.front().op != Op::sdpa_bwd))
    return no_match(why, "the graph is not one sdpa_fwd or sdpa_bwd");
  const Node& node = m->node = graph.nodes.front();
  attention::Problem& p = m->problem;
  p.backward = node.op == Op::sdpa_bwd ? 1 : 0;
  const bool taken = take_tensor(graph, node, Port::q, &p.q, why) && take_tensor(graph, node, Port::k, &p.k, why) &&
                     take_tensor(graph, node, Port::v, &p.v, why) && take_tensor(graph, node, Port::o, &p.o, why) &&
                     take_tensor(graph, node, Port::stats, &p.stats, why) &&
                     take_tensor(graph, node, Port::d_o, &p.d_o, why) &&
                     take_tensor(graph, node, Port::dq, &p.dq, why) && take_tensor(graph, node, Port::dk, &p.dk, why) &&
                     take_tensor(graph, node, Port::dv, &p.dv, why);
  if (!taken) return false;
  p.length_kv = p.k.geometry.dims[2];
  if (const Tensor* table = graph.tensor(node, Port::page_table_k)) {
    p.page_table_k = table->geometry;
    p.page_table_v = graph.tensor(node, Port::page_table_v)->geometry;
    p.length_kv *= table->geometry.dims[2];
  }
  if (const Tensor* mask = graph.tensor(node, Port::block_mask)) p.block_mask = mask->geometry;
  p.has_length_q = node.at(Port::seq_len_q) >= 0 ? 1 : 0;
  p.has_length_kv = node.at(Port::seq_len_kv) >= 0 ? 1 : 0;
  if (attention::validate(p) == GPUDNN_STATUS_SUCCESS) return true;
  *why = last_error_text();
  clear_last_error();
  return false;
}

class AttentionWork final : public Work {
 public:
  AttentionWork(const GraphRef& graph, const Match& match, std::size_t bytes)
      : graph_(graph), match_(match), bytes_(bytes) {}
  [[nodiscard]] std::size_t workspace() const noexcept override { return bytes_; }
  [[nodiscard]] Status run(gpudnnHandle_t handle, void* const* data, void* workspace) const override {
    const Node& node = match_.node;
    const auto at = [&](Port port) { return node.at(port) < 0 ? nullptr : data[node.at(port)]; };
    const auto offsets = [&](Port port) -> const void* {
      const Tensor* t = graph_->tensor(node, port);
      const int place = t == nullptr ? -1 : graph_->find(t->ragged);
      return place < 0 ? nullptr : data[place];
    };
    attention::Args args;
    args.q = {at(Port::q), offsets(Port::q)};
    args.k = {at(Port::k), offsets(Port::k)};
    args.v = {at(Port::v), offsets(Port::v)};
    args.d_o = {at(Port::d_o), offsets(Port::d_o)};
    args.o = {at(Port::o), offsets(Port::o)};
    args.stats = {at(Port::stats), offsets(Port::stats)};
    args.dq = {at(Port::dq), offsets(Port::dq)};
    args.dk = {at(Port::dk), offsets(Port::dk)};
    args.dv = {at(Port::dv), offsets(Port::dv)};
    args.block_mask = static_cast<const std::uint8_t*>(at(Port::block_mask));
    args.page_table_k = static_cast<const std::int32_t*>(at(Port::page_table_k));
    args.page_table_v = static_cast<const std::int32_t*>(at(Port::page_table_v));
    args.length_q = static_cast<const std::int32_t*>(at(Port::seq_len_q));
    args.length_kv = static_cast<const std::int32_t*>(at(Port::seq_len_kv));
    attention::Problem problem = match_.problem;
    problem.scale = 1;
    if (const void* scale = at(Port::scale)) {
      const Tensor& t = *graph_->tensor(node, Port::scale);
      GPUDNN_REQUIRE(t.by_value, GPUDNN_STATUS_NOT_SUPPORTED, "the attention scale must be passed by value");
      problem.scale = loader_of(t.geometry.type)(scale, 0);
    }
    GPUDNN_TRY(attention::validate(problem, args));
    return attention::run(handle, problem, args, workspace, bytes_);
  }

 private:
  GraphRef graph_;
  Match match_;
  std::size_t bytes_;
};

}  // namespace

std::vector<Config> attention_configs(const Engine&, const Graph& graph, const Device& device, std::string* why) {
  Match match;
  if (!match_graph(graph, &match, why)) return {};
  Config config;
  config.workspace = attention::workspace_bytes(device, match.problem);
  return {config};
}

Status attention_prepare(const Engine& engine, const GraphRef& graph, const Device& device, const Knobs&,
                         WorkRef* work) {
  Match match;
  std::string why;
  GPUDNN_REQUIRE(match_graph(*graph, &match, &why), GPUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "%s: %s", engine.name,
                 why.c_str());
  *work = std::make_shared<AttentionWork>(graph, match, attention::workspace_bytes(device, match.problem));
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::graph
