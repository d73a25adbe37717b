// Batch normalization as the operation of the classic interface, alone or between GPUs that share statistics:
//
//   norm_fwd, then any of: add of an image, one ReLU
//   norm_bwd
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "core/validation.hpp"
#include "graph/engines.hpp"
#include "graph/interpret/element.hpp"
#include "graph/match.hpp"
#include "ops/norm/problem.hpp"

namespace gpudnn::graph {
namespace {

constexpr std::size_t kMaxPeers = 64;  // of the attribute

// The problem, and the tensors that play a part in it and are not those of a port.
struct Match {
  norm::Problem problem;
  Node node;
  int z = -1, out = -1;
  std::vector<int> peers;
};

// A number for each channel, each with the same stride.
bool take_vectors(const Graph& graph, const Node& node, std::initializer_list<Port> ports, const TensorGeometry& x,
                  TensorGeometry* vector) {
  for (const Port port : ports) {
    const Tensor* t = graph.tensor(node, port);
    if (t == nullptr) continue;
    if (!is_plain(*t) || t->is_virtual) return false;
    TensorGeometry wanted = norm::parameter_geometry(x, false);
    if (t->geometry.type != wanted.type || !same_dims(t->geometry, wanted)) return false;
    wanted.strides[1] = t->geometry.strides[1];
    if (vector->rank != 0 && vector->strides[1] != wanted.strides[1]) return false;
    *vector = wanted;
  }
  return true;
}

bool both_or_none(const Node& node, Port a, Port b) { return (node.at(a) >= 0) == (node.at(b) >= 0); }

bool is_number(const Graph& graph, const Node& node, Port port) {
  const Tensor* t = graph.tensor(node, port);
  return t == nullptr || t->by_value;
}

bool match_peers(const Graph& graph, Match* m, std::string* why) {
  norm::Problem& p = m->problem;
  for (const Link& link : m->node.links)
    if (link.port == Port::item) m->peers.push_back(link.tensor);
  if (m->peers.empty()) return true;
  if (p.pass == norm::Pass::infer) return no_match(why, "inference shares no statistics");
  p.peers = static_cast<int>(m->peers.size());
  if (p.x.type == GPUDNN_DATA_DOUBLE || m->peers.size() > kMaxPeers)
    return no_match(why, "statistics of double, or of more than 64 GPUs, are not shared");
  for (const int place : m->peers) {
    const Tensor& t = tensor_at(graph, place);
    if (!is_plain(t) || t.is_virtual || t.geometry.type != GPUDNN_DATA_FLOAT || t.alignment % 16 != 0 ||
        element_count(t.geometry) < norm::peer_buffer_floats(p))
      return no_match(why,
                      "a buffer of shared statistics is no tensor of floats, at a multiple of 16 bytes, with "
                      "4 * GPUs * channels of them");
  }
  return true;
}

// What stands between the norm and the output: an addend and a ReLU.
bool match_chain(const Graph& graph, Match* m, std::string* why) {
  norm::Problem& p = m->problem;
  bool activated = false;
  std::size_t taken = 1;
  while (tensor_at(graph, m->out).is_virtual) {
    const Node* next = only_reader(graph, m->out);
    if (next == nullptr || next->op != Op::pointwise || activated)
      return no_match(why, "what follows is no addition and ReLU");
    if (next->mode == GPUDNN_POINTWISE_ADD) {
      m->z = next->at(next->at(Port::x) == m->out ? Port::b : Port::x);
      if (p.z.rank != 0 || next->alpha != 1 || next->alpha2 != 1 || !is_plain(tensor_at(graph, m->z)) ||
          tensor_at(graph, m->z).is_virtual)
        return no_match(why, "it adds one image of the program");
      p.z = tensor_at(graph, m->z).geometry;
    } else if (next->mode == GPUDNN_POINTWISE_RELU_FWD) {
      if (next->alpha != 1 || next->lower_clip != 0 || next->slope != 0) return no_match(why, "its ReLU has no slope");
      const bool clips = next->upper_clip < std::numeric_limits<float>::max();
      p.mode = clips ? GPUDNN_ACTIVATION_CLIPPED_RELU : GPUDNN_ACTIVATION_RELU;
      p.coef = clips ? next->upper_clip : 0;
      p.nan = static_cast<gpudnnNanPropagation_t>(next->nan);
      activated = true;
    } else {
      return no_match(why, "what follows is no addition and ReLU");
    }
    m->out = next->at(Port::y);
    ++taken;
  }
  if (taken != graph.nodes.size()) return no_match(why, "the graph has further operations");
  if (p.z.rank != 0) {
    p.ops = GPUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION;
    if (!activated) p.mode = GPUDNN_ACTIVATION_IDENTITY;
  } else if (activated) {
    p.ops = GPUDNN_BATCHNORM_OPS_BN_ACTIVATION;
  }
  return true;
}

bool match_forward(const Graph& graph, Match* m, std::string* why) {
  norm::Problem& p = m->problem;
  const Node& node = m->node;
  const bool trains = node.phase == GPUDNN_NORM_FWD_TRAINING;
  if (node.at(Port::scale) < 0 || node.at(Port::bias) < 0 || (trains && node.at(Port::epsilon) < 0))
    return no_match(why, "it has no scale, bias or epsilon");
  if (!trains) {
    p.pass = norm::Pass::infer;
    p.inverse_given = true;
    if (node.at(Port::running_mean_out) >= 0 || node.at(Port::running_var_out) >= 0)
      return no_match(why, "inference writes no statistics");
  }
  p.running = node.at(Port::running_mean_out) >= 0;
  p.saved = node.at(Port::mean) >= 0;
  if (!both_or_none(node, Port::mean, Port::inverse) ||
      !both_or_none(node, Port::running_mean_out, Port::running_var_out) ||
      (p.running && (node.at(Port::running_mean_in) < 0 || node.at(Port::running_var_in) < 0)))
    return no_match(why, "of a mean and a variance it has one alone");
  if (!take_vectors(graph, node,
                    {Port::mean, Port::inverse, Port::running_mean_in, Port::running_var_in, Port::running_mean_out,
                     Port::running_var_out},
                    p.x, &p.stats) ||
      !take_vectors(graph, node, {Port::scale, Port::bias}, p.x, &p.params))
    return no_match(why, "parameters and statistics are not one number of the compute type for each channel");
  if (p.stats.rank == 0) p.stats = norm::parameter_geometry(p.x, false);
  m->out = node.at(Port::y);
  if (!match_chain(graph, m, why)) return false;
  p.y = tensor_at(graph, m->out).geometry;
  return true;
}

bool match_backward(const Graph& graph, Match* m, std::string* why) {
  norm::Problem& p = m->problem;
  const Node& node = m->node;
  p.pass = norm::Pass::backward;
  if (graph.nodes.size() != 1) return no_match(why, "a gradient stands alone");
  for (const Port port : {Port::dy, Port::mean, Port::inverse, Port::scale, Port::dscale, Port::dbias})
    if (node.at(port) < 0) return no_match(why, "it lacks an input or output");
  if (!take_vectors(graph, node, {Port::mean, Port::inverse}, p.x, &p.stats) ||
      !take_vectors(graph, node, {Port::scale, Port::dscale, Port::dbias}, p.x, &p.params))
    return no_match(why, "parameters and statistics are not one number of the compute type for each channel");
  m->out = node.at(Port::dx);
  p.dx = tensor_at(graph, m->out).geometry;
  p.dy = graph.tensor(node, Port::dy)->geometry;
  return true;
}

bool match_graph(const Graph& graph, Match* m, std::string* why) {
  const bool is_norm =
      !graph.nodes.empty() && (graph.nodes.front().op == Op::norm_fwd || graph.nodes.front().op == Op::norm_bwd);
  if (!is_norm || graph.nodes.front().mode != GPUDNN_BATCH_NORM)
    return no_match(why, "the first operation is no batch normalization");
  m->node = graph.nodes.front();
  m->problem.masks = false;
  m->problem.x = graph.tensor(m->node, Port::x)->geometry;
  if (!is_number(graph, m->node, Port::epsilon) || !is_number(graph, m->node, Port::factor))
    return no_match(why, "epsilon and factor must be passed by value");
  const bool forward = m->node.op == Op::norm_fwd;
  if (!(forward ? match_forward(graph, m, why) : match_backward(graph, m, why)) || !match_peers(graph, m, why))
    return false;
  for (const int place : {m->node.at(Port::x), forward ? m->out : m->node.at(Port::dy), m->out}) {
    const Tensor& t = tensor_at(graph, place);
    if (!is_plain(t) || t.is_virtual) return no_match(why, "an image is virtual, ragged, a vector or reordered");
    if (t.alignment < m->problem.alignment) m->problem.alignment = static_cast<int>(t.alignment);
  }
  return passed(norm::validate(m->problem), why);
}

class BatchNormWork final : public Work {
 public:
  BatchNormWork(const GraphRef& graph, const Match& match, std::size_t bytes)
      : graph_(graph), match_(match), bytes_(bytes) {}
  [[nodiscard]] std::size_t workspace() const noexcept override { return bytes_; }
  [[nodiscard]] Status run(gpudnnHandle_t handle, void* const* data, void* workspace) const override {
    const Node& node = match_.node;
    norm::Problem problem = match_.problem;
    norm::Args args;
    void* peers[kMaxPeers];
    for (std::size_t i = 0; i < match_.peers.size(); ++i) {
      peers[i] = data[match_.peers[i]];
      GPUDNN_REQUIRE(peers[i] != nullptr && reinterpret_cast<std::uintptr_t>(peers[i]) % 16 == 0,
                     GPUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
                     "buffer %zu of shared statistics is at %p; it must be at a multiple of 16 bytes", i, peers[i]);
    }
    args.peers = peers;
    const auto at = [&](Port port) { return node.at(port) < 0 ? nullptr : data[node.at(port)]; };
    for (const Link& link : node.links) {
      const bool is_inner = graph_->tensors[static_cast<std::size_t>(link.tensor)].is_virtual;
      GPUDNN_REQUIRE(data[link.tensor] != nullptr || is_inner, GPUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                     "the data pointer of %s is null", port_name(link.port));
    }
    const auto number = [&](Port port, double otherwise) {
      const void* given = at(port);
      return given == nullptr ? otherwise : loader_of(graph_->tensor(node, port)->geometry.type)(given, 0);
    };
    args.x = at(Port::x);
    args.scale = at(Port::scale);
    args.out = data[match_.out];
    GPUDNN_REQUIRE(args.out != nullptr && (match_.z < 0 || data[match_.z] != nullptr),
                   GPUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the data pointer of the addend or the output is null");
    if (problem.pass == norm::Pass::backward) {
      args.dy = at(Port::dy);
      args.given_mean = at(Port::mean);
      args.given_deviation = at(Port::inverse);
      args.dscale = at(Port::dscale);
      args.dbias = at(Port::dbias);
    } else {
      args.z = match_.z < 0 ? nullptr : data[match_.z];
      args.bias = at(Port::bias);
      if (problem.pass == norm::Pass::infer) {
        args.given_mean = at(Port::mean);
        args.given_deviation = at(Port::inverse);
      } else {
        args.saved_mean = at(Port::mean);
        args.saved_inverse = at(Port::inverse);
      }
      if (problem.running) {
        args.old_mean = at(Port::running_mean_in);
        args.old_variance = at(Port::running_var_in);
        args.running_mean = at(Port::running_mean_out);
        args.running_variance = at(Port::running_var_out);
      }
      args.factor = number(Port::factor, 1);
      problem.epsilon = number(Port::epsilon, 0);
    }
    args.scratch = workspace;
    args.scratch_bytes = workspace == nullptr ? 0 : bytes_;
    return norm::run(handle, problem, args);
  }

 private:
  GraphRef graph_;
  Match match_;
  std::size_t bytes_;
};

}  // namespace

std::vector<Config> batch_norm_configs(const Engine&, const Graph& graph, const Device& device, std::string* why) {
  Match match;
  if (!match_graph(graph, &match, why)) return {};
  return {Config{.knobs = {}, .workspace = norm::workspace_bytes(device, match.problem)}};
}

Status batch_norm_prepare(const Engine& engine, const GraphRef& graph, const Device& device, const Knobs&,
                          WorkRef* work) {
  Match match;
  std::string why;
  GPUDNN_REQUIRE(match_graph(*graph, &match, &why), GPUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "%s: %s", engine.name,
                 why.c_str());
  *work = std::make_shared<BatchNormWork>(graph, match, norm::workspace_bytes(device, match.problem));
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::graph
