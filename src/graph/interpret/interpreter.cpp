// The engine that takes every legal graph: operation by operation on the CPU, each value in double and rounded to its
// tensor's type. It is the host backend's graph interface, and the oracle of the tests.
// SPDX-License-Identifier: Apache-2.0
#include "graph/engines.hpp"
#include "graph/interpret/state.hpp"

namespace gpudnn::graph {
Status interpret_node(const Node& node, State* state) {
  switch (node.op) {
    case Op::pointwise:
      return interpret_pointwise(node, state);
    case Op::conv_fwd:
    case Op::conv_dgrad:
    case Op::conv_wgrad:
      return interpret_convolution(node, state);
    case Op::matmul:
      return interpret_matmul(node, state);
    case Op::moe:
      return interpret_moe(node, state);
    case Op::reduction:
      return interpret_reduction(node, state);
    case Op::resample_fwd:
    case Op::resample_bwd:
      return interpret_resample(node, state);
    case Op::norm_fwd:
    case Op::norm_bwd:
      return interpret_norm(node, state);
    case Op::gen_stats:
    case Op::bn_finalize:
    case Op::bn_weights:
      return interpret_statistics(node, state);
    case Op::reshape:
    case Op::concat:
    case Op::paged_load:
      return interpret_move(node, state);
    case Op::rng:
      return interpret_rng(node, state);
    case Op::quantize:
    case Op::dequantize:
      return interpret_block_scale(node, state);
    case Op::sdpa_fwd:
    case Op::sdpa_bwd:
      return interpret_attention(node, state);
    default:
      return GPUDNN_REFUSE(GPUDNN_STATUS_NOT_SUPPORTED, "%s is not built", op_name(node.op));
  }
}

namespace {

class Interpretation final : public Work {
 public:
  explicit Interpretation(GraphRef graph) : graph_(std::move(graph)) {}
  [[nodiscard]] std::size_t workspace() const noexcept override { return 0; }
  [[nodiscard]] Status run(gpudnnHandle_t, void* const* data, void*) const override {
    State state(*graph_, data);
    GPUDNN_TRY(state.load_inputs());
    for (const Node& node : graph_->nodes) {
      GPUDNN_TRY(interpret_node(node, &state));
      for (const Link& link : node.links)
        if (is_output(node, link.port)) GPUDNN_TRY(state.finish(node, link.port));
    }
    return GPUDNN_STATUS_SUCCESS;
  }

 private:
  GraphRef graph_;
};

}  // namespace

std::vector<Config> interpreter_configs(const Engine&, const Graph& graph, const Device&, std::string* why) {
  for (const Node& node : graph.nodes) {
    const bool built = node.op != Op::signal && node.op != Op::expand_band && node.op != Op::contract_band;
    if (!built) {
      *why = std::string(op_name(node.op)) + " is not built";
      return {};
    }
    for (const Link& link : node.links) {
      if (link.port == Port::item && node.op != Op::concat) {
        *why = std::string(op_name(node.op)) + ": statistics that GPUs share need them all at once";
        return {};
      }
    }
  }
  return {Config{}};
}

Status interpreter_prepare(const Engine&, const GraphRef& graph, const Device&, const Knobs&, WorkRef* work) {
  *work = std::make_shared<Interpretation>(graph);
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::graph
