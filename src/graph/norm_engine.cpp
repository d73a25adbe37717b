// One normalization by sets of its own: layer, RMS, instance and adaptive layer norms, forward and backward.
// SPDX-License-Identifier: Apache-2.0
#include "graph/engines.hpp"
#include "graph/interpret/element.hpp"
#include "ops/layer_norm/problem.hpp"

namespace gpudnn::graph {
namespace {

struct Match {
  layer_norm::Problem problem;
  Node node;
};

bool no_match(std::string* why, const char* reason) {
  *why = reason;
  return false;
}

bool mode_of(int mode, layer_norm::Mode* out, std::string* why) {
  switch (mode) {
    case GPUDNN_LAYER_NORM:
      return *out = layer_norm::Mode::layer, true;
    case GPUDNN_RMS_NORM:
      return *out = layer_norm::Mode::rms, true;
    case GPUDNN_INSTANCE_NORM:
      return *out = layer_norm::Mode::instance, true;
    case GPUDNN_ADA_LAYER_NORM:
      return *out = layer_norm::Mode::ada, true;
    default:
      return no_match(why, "its mode is none of layer, rms, instance and ada");
  }
}

// The tensor at a port with as many dimensions as x: one of fewer belongs to x's last ones.
TensorGeometry geometry_at(const Graph& graph, const Node& node, Port port, int rank) {
  const Tensor* t = graph.tensor(node, port);
  if (t == nullptr) return {};
  TensorGeometry result = t->geometry;
  for (; result.rank < rank; ++result.rank) {
    for (int i = result.rank; i > 0; --i) {
      result.dims[i] = result.dims[i - 1];
      result.strides[i] = result.strides[i - 1];
    }
    result.dims[0] = 1;
    result.strides[0] = element_span(t->geometry);
  }
  return result;
}

// The dimensions along which a tensor varies.
std::uint32_t varied(const TensorGeometry& tensor) {
  std::uint32_t dims = 0;
  for (int i = 0; i < tensor.rank; ++i)
    if (tensor.dims[i] != 1) dims |= 1u << i;
  return dims;
}

// As the interpreter finds them: where the statistics have extent 1, else where the parameters vary.
std::uint32_t axes_of(const layer_norm::Problem& p, const TensorGeometry& statistics) {
  const std::uint32_t all = (1u << p.x.rank) - 1;
  if (statistics.rank > 0) return all & ~varied(statistics);
  const bool by_parameter = p.mode != layer_norm::Mode::instance && p.scale.rank > 0;
  if (!by_parameter) return layer_norm::usual_axes(p.mode, p.x.rank);
  const std::uint32_t axes = varied(p.scale) & (p.mode == layer_norm::Mode::ada ? all & ~1u : all);
  // A single element: any dimension of extent 1 will do.
  return axes != 0 ? axes : all & ~varied(p.x);
}

bool take_tensors(const Graph& graph, const Node& node, layer_norm::Problem* p, std::string* why) {
  const auto at = [&](Port port) { return geometry_at(graph, node, port, p->x.rank); };
  p->x = graph.tensor(node, Port::x)->geometry;
  p->scale = at(Port::scale);
  const TensorGeometry mean = at(Port::mean);
  const TensorGeometry inverse = at(Port::inverse);
  if (node.op == Op::norm_bwd) {
    p->pass = layer_norm::Pass::backward;
    p->out = at(Port::dx);
    p->dy = at(Port::dy);
    p->dscale = at(Port::dscale);
    p->dbias = at(Port::dbias);
  } else {
    if (node.at(Port::inverse) >= 0 && !is_output(node, Port::inverse))
      return no_match(why, "statistics are given to the forward pass");
    p->pass = inverse.rank > 0 || mean.rank > 0 ? layer_norm::Pass::train : layer_norm::Pass::infer;
    p->out = at(Port::y);
    p->bias = at(Port::bias);
  }
  p->axes = axes_of(*p, inverse.rank > 0 ? inverse : mean);
  for (const TensorGeometry* t : {&p->scale, &p->bias, &p->dscale, &p->dbias}) p->by |= varied(*t);
  if (p->mode != layer_norm::Mode::rms) p->mean = mean;
  p->inverse = inverse;
  return true;
}

bool match_graph(const Graph& graph, Match* m, std::string* why) {
  if (graph.nodes.size() != 1 || (graph.nodes.front().op != Op::norm_fwd && graph.nodes.front().op != Op::norm_bwd))
    return no_match(why, "the graph is not one norm_fwd or norm_bwd");
  const Node& node = m->node = graph.nodes.front();
  if (!mode_of(node.mode, &m->problem.mode, why)) return false;
  for (const Port port :
       {Port::item, Port::running_mean_in, Port::running_var_in, Port::running_mean_out, Port::running_var_out}) {
    if (node.at(port) >= 0) return no_match(why, "running statistics and those of peers are batch normalization's");
  }
  if (m->problem.mode == layer_norm::Mode::rms && node.op == Op::norm_fwd && node.at(Port::mean) >= 0)
    return no_match(why, "an RMS norm writes no mean");
  for (const Link& link : node.links) {
    const Tensor& t = graph.tensors[static_cast<std::size_t>(link.tensor)];
    if (t.is_virtual || t.ragged != Tensor::kNone || t.vector_count != 1 || t.reordering != 0)
      return no_match(why, "a tensor is virtual, ragged, a vector or reordered");
    if (t.by_value != (link.port == Port::epsilon) && !(node.op == Op::norm_bwd && link.port == Port::epsilon))
      return no_match(why, "epsilon must be passed by value, and no other tensor");
  }
  if (!take_tensors(graph, node, &m->problem, why)) return false;
  if (layer_norm::validate(m->problem) == GPUDNN_STATUS_SUCCESS) return true;
  *why = last_error_text();
  clear_last_error();
  return false;
}

class NormWork final : public Work {
 public:
  NormWork(const GraphRef& graph, const Match& match, std::size_t bytes)
      : graph_(graph), match_(match), bytes_(bytes) {}
  [[nodiscard]] std::size_t workspace() const noexcept override { return bytes_; }
  [[nodiscard]] Status run(gpudnnHandle_t handle, void* const* data, void* workspace) const override {
    const Node& node = match_.node;
    const auto at = [&](Port port) { return node.at(port) < 0 ? nullptr : data[node.at(port)]; };
    for (const Link& link : node.links) {
      GPUDNN_REQUIRE(data[link.tensor] != nullptr || link.port == Port::epsilon, GPUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                     "the data pointer of %s is null", port_name(link.port));
    }
    layer_norm::Args args;
    args.x = at(Port::x);
    args.scale = at(Port::scale);
    args.bias = at(Port::bias);
    if (match_.problem.backward()) {
      args.dy = at(Port::dy);
      args.saved_mean = match_.problem.mean.rank > 0 ? at(Port::mean) : nullptr;
      args.saved_inverse = at(Port::inverse);
      args.out = at(Port::dx);
      args.dscale = at(Port::dscale);
      args.dbias = at(Port::dbias);
    } else {
      args.out = at(Port::y);
      args.mean = at(Port::mean);
      args.inverse = at(Port::inverse);
    }
    args.workspace = workspace;
    args.workspace_bytes = workspace == nullptr ? 0 : bytes_;
    layer_norm::Problem problem = match_.problem;
    if (const void* epsilon = match_.problem.backward() ? nullptr : at(Port::epsilon)) {
      problem.epsilon = loader_of(graph_->tensor(node, Port::epsilon)->geometry.type)(epsilon, 0);
    }
    return layer_norm::run(handle, problem, args);
  }

 private:
  GraphRef graph_;
  Match match_;
  std::size_t bytes_;
};

}  // namespace

std::vector<Config> norm_configs(const Engine&, const Graph& graph, const Device& device, std::string* why) {
  Match match;
  if (!match_graph(graph, &match, why)) return {};
  Config config;
  config.workspace = layer_norm::workspace_bytes(device, match.problem);
  return {config};
}

Status norm_prepare(const Engine& engine, const GraphRef& graph, const Device& device, const Knobs&, WorkRef* work) {
  Match match;
  std::string why;
  GPUDNN_REQUIRE(match_graph(*graph, &match, &why), GPUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "%s: %s", engine.name,
                 why.c_str());
  *work = std::make_shared<NormWork>(graph, match, layer_norm::workspace_bytes(device, match.problem));
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::graph
