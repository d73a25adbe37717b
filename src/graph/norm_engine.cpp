// One normalization by sets of its own: layer, RMS, instance and adaptive layer norms, forward and backward.
// Forward, what stands around it in a transformer goes with it where the operation has an engine for that:
//
//   pointwise add, which makes x; norm_fwd; an activation; a product with one number and an amax reduction, both of
//   what came before
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "graph/engines.hpp"
#include "graph/epilogue_activation.hpp"
#include "graph/interpret/element.hpp"
#include "graph/match.hpp"
#include "ops/layer_norm/problem.hpp"

namespace gpudnn::graph {
namespace {

// The problem, and the tensors of what stands around the norm; -1 for those that are not there.
struct Match {
  layer_norm::Problem problem;
  Node node;
  int x = -1, residual = -1, sum = -1, out = -1, factor = -1, amax = -1;
};

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

// The addition that makes x: of two images of the program, whose sum is rounded to their type.
bool match_residual(const Graph& graph, const Node& add, Match* m, std::string* why) {
  m->x = add.at(Port::x);
  m->residual = add.at(Port::b);
  m->sum = add.at(Port::y);
  if (add.mode != GPUDNN_POINTWISE_ADD || add.alpha != 1 || add.alpha2 != 1 || m->node.at(Port::x) != m->sum)
    return no_match(why, "what comes before it is no plain addition that makes x");
  const TensorGeometry& x = tensor_at(graph, m->x).geometry;
  for (const int place : {m->x, m->residual, m->sum}) {
    const Tensor& t = tensor_at(graph, place);
    if (!is_plain(t) || (t.is_virtual && place != m->sum) || t.geometry.type != x.type || !same_dims(t.geometry, x) ||
        !std::equal(x.strides, x.strides + x.rank, t.geometry.strides))
      return no_match(why, "the addition's tensors differ");
  }
  m->problem.around.residual = true;
  m->problem.around.sum = !tensor_at(graph, m->sum).is_virtual;
  return true;
}

// The product with one number that makes the output, and the amax reduction beside it.
bool match_quantization(const Graph& graph, Match* m, std::string* why) {
  const Node *product = nullptr, *reduction = nullptr;
  for (const Node& node : graph.nodes) {
    const bool reads = std::any_of(node.links.begin(), node.links.end(), [&](const Link& link) {
      return link.tensor == m->out && !is_output(node, link.port);
    });
    if (!reads) continue;
    const Node** const part = node.op == Op::reduction ? &reduction : &product;
    if (*part != nullptr) return no_match(why, "what follows is no product and amax");
    *part = &node;
  }
  if (product == nullptr || product->op != Op::pointwise || product->mode != GPUDNN_POINTWISE_MUL ||
      product->alpha != 1 || product->alpha2 != 1)
    return no_match(why, "what follows is no product with a number");
  m->factor = product->at(product->at(Port::x) == m->out ? Port::b : Port::x);
  const Tensor& factor = tensor_at(graph, m->factor);
  if (factor.is_virtual || element_count(factor.geometry) != 1 ||
      (!factor.by_value && (!is_plain(factor) || factor.geometry.type != GPUDNN_DATA_FLOAT)))
    return no_match(why, "the factor is not one float");
  if (reduction != nullptr) {
    m->amax = reduction->at(Port::y);
    const Tensor& amax = tensor_at(graph, m->amax);
    if (reduction->mode != GPUDNN_REDUCE_TENSOR_AMAX || !is_plain(amax) || amax.is_virtual ||
        element_count(amax.geometry) != 1 || amax.geometry.type != GPUDNN_DATA_FLOAT)
      return no_match(why, "the reduction is no amax of all, a float");
  }
  m->problem.around.factor = true;
  m->problem.around.amax = reduction != nullptr;
  m->out = product->at(Port::y);
  return true;
}

// What makes the output of the norm's result.
bool match_behind(const Graph& graph, Match* m, std::string* why) {
  layer_norm::Around& around = m->problem.around;
  std::size_t taken = m->residual >= 0 ? 2 : 1;
  while (tensor_at(graph, m->out).is_virtual) {
    const Node* next = only_reader(graph, m->out);
    if (next != nullptr && next->op == Op::pointwise && next->mode != GPUDNN_POINTWISE_MUL) {
      EpilogueActivation activation;
      if (around.activation != kernels::matmul::Activation::identity || !read_activation(*next, &activation, why))
        return no_match(why, "it has one activation");
      around.activation = activation.function;
      around.function = activation.params;
      around.drops_nan = next->mode == GPUDNN_POINTWISE_RELU_FWD && !activation.propagates_nan;
      m->out = next->at(Port::y);
      ++taken;
    } else {
      if (!match_quantization(graph, m, why)) return false;
      taken += m->amax >= 0 ? 2 : 1;
      break;
    }
  }
  if (taken != graph.nodes.size()) return no_match(why, "the graph has further operations");
  const Tensor& out = tensor_at(graph, m->out);
  if (out.is_virtual || !is_plain(out) || !same_dims(out.geometry, m->problem.x))
    return no_match(why, "the output is virtual, or has other dimensions");
  m->problem.out = out.geometry;
  return true;
}

bool has_engine(const layer_norm::Problem& problem, const Device& device) {
  for (const auto& engine : layer_norm::engines())
    if (engine.backend == device.backend && engine.supports(problem, device)) return true;
  return false;
}

bool match_graph(const Graph& graph, const Device& device, Match* m, std::string* why) {
  const std::size_t before = !graph.nodes.empty() && graph.nodes.front().op == Op::pointwise ? 1 : 0;
  if (graph.nodes.size() <= before ||
      (graph.nodes[before].op != Op::norm_fwd && (graph.nodes[before].op != Op::norm_bwd || graph.nodes.size() > 1)))
    return no_match(why, "the graph is no norm_fwd with what stands around it, nor one norm_bwd");
  const Node& node = m->node = graph.nodes[before];
  if (!mode_of(node.mode, &m->problem.mode, why)) return false;
  for (const Port port :
       {Port::item, Port::running_mean_in, Port::running_var_in, Port::running_mean_out, Port::running_var_out}) {
    if (node.at(port) >= 0) return no_match(why, "running statistics and those of peers are batch normalization's");
  }
  if (m->problem.mode == layer_norm::Mode::rms && node.op == Op::norm_fwd && node.at(Port::mean) >= 0)
    return no_match(why, "an RMS norm writes no mean");
  for (const Link& link : node.links) {
    const Tensor& t = tensor_at(graph, link.tensor);
    const bool may_be_inner = node.op == Op::norm_fwd && (link.port == Port::x ? before > 0 : link.port == Port::y);
    if ((t.is_virtual && !may_be_inner) || t.ragged != Tensor::kNone || t.vector_count != 1 || t.reordering != 0)
      return no_match(why, "a tensor is virtual, ragged, a vector or reordered");
    if (t.by_value != (link.port == Port::epsilon) && !(node.op == Op::norm_bwd && link.port == Port::epsilon))
      return no_match(why, "epsilon must be passed by value, and no other tensor");
  }
  m->x = node.at(Port::x);
  m->out = node.at(node.op == Op::norm_bwd ? Port::dx : Port::y);
  if (!take_tensors(graph, node, &m->problem, why)) return false;
  if (before > 0 && !match_residual(graph, graph.nodes.front(), m, why)) return false;
  if (node.op == Op::norm_fwd && !match_behind(graph, m, why)) return false;
  if (m->problem.around.is_there() && !has_engine(m->problem, device))
    return no_match(why, "no engine takes a norm with that around it");
  return passed(layer_norm::validate(m->problem), why);
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
      const bool is_inner = tensor_at(*graph_, link.tensor).is_virtual;
      GPUDNN_REQUIRE(data[link.tensor] != nullptr || is_inner || link.port == Port::epsilon,
                     GPUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the data pointer of %s is null", port_name(link.port));
    }
    layer_norm::Args args;
    for (const int place : {match_.x, match_.residual, match_.out, match_.factor, match_.amax}) {
      GPUDNN_REQUIRE(place < 0 || data[place] != nullptr, GPUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                     "the data pointer of the tensor with unique id %lld is null",
                     static_cast<long long>(tensor_at(*graph_, place).uid));
    }
    const auto here = [data](int place) { return place < 0 ? nullptr : data[place]; };
    args.x = here(match_.x);
    args.out = here(match_.out);
    args.residual = here(match_.residual);
    args.sum = match_.problem.around.sum ? here(match_.sum) : nullptr;
    args.amax = here(match_.amax);
    if (match_.factor >= 0) {
      const Tensor& factor = tensor_at(*graph_, match_.factor);
      if (factor.by_value) {
        args.number = loader_of(factor.geometry.type)(data[match_.factor], 0);
      } else {
        args.factor = data[match_.factor];
      }
    }
    args.scale = at(Port::scale);
    args.bias = at(Port::bias);
    if (match_.problem.backward()) {
      args.dy = at(Port::dy);
      args.saved_mean = match_.problem.mean.rank > 0 ? at(Port::mean) : nullptr;
      args.saved_inverse = at(Port::inverse);
      args.dscale = at(Port::dscale);
      args.dbias = at(Port::dbias);
    } else {
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
  if (!match_graph(graph, device, &match, why)) return {};
  Config config;
  config.workspace = layer_norm::workspace_bytes(device, match.problem);
  return {config};
}

Status norm_prepare(const Engine& engine, const GraphRef& graph, const Device& device, const Knobs&, WorkRef* work) {
  Match match;
  std::string why;
  GPUDNN_REQUIRE(match_graph(*graph, device, &match, &why), GPUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "%s: %s",
                 engine.name, why.c_str());
  *work = std::make_shared<NormWork>(graph, match, layer_norm::workspace_bytes(device, match.problem));
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::graph
