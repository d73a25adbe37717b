// Matrix products, with an addition and an activation behind them, as matmul problems.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "graph/engines.hpp"
#include "graph/epilogue_activation.hpp"
#include "graph/match.hpp"
#include "ops/matmul/engine.hpp"

namespace gpudnn::graph {
namespace {

using kernels::matmul::Activation;

struct Match {
  matmul::Problem problem;
  matmul::Args scalars;
  int a = -1, b = -1, d = -1, bias = -1, m = -1, n = -1, k = -1;
  std::int64_t alignment = 16;
};

// `part` with the dims of the whole, and stride 0 where it is repeated.
bool spread(const TensorGeometry& part, const TensorGeometry& whole, TensorGeometry* out) {
  *out = part;
  if (part.rank != whole.rank) return false;
  for (int i = 0; i < whole.rank; ++i) {
    if (part.dims[i] != 1 && part.dims[i] != whole.dims[i]) return false;
    if (part.dims[i] == 1) out->strides[i] = 0;
    out->dims[i] = whole.dims[i];
  }
  return true;
}

bool match_add(const Graph& graph, const Node& node, Match* m, std::string* why) {
  const bool first = node.at(Port::x) == m->d;
  const int other = node.at(first ? Port::b : Port::x);
  const Tensor& t = tensor_at(graph, other);
  if (t.is_virtual || t.by_value || node.alpha != 1 || node.alpha2 != 1 || m->bias >= 0 ||
      m->problem.activation != Activation::identity)
    return no_match(why, "it adds one tensor of the program, before the activation");
  if (!spread(t.geometry, m->problem.d, &m->problem.bias)) return no_match(why, "the addend does not broadcast");
  m->bias = other;
  return true;
}

bool match_activation(const Node& node, Match* m, std::string* why) {
  if (m->problem.activation != Activation::identity) return no_match(why, "it has one activation");
  EpilogueActivation activation;
  if (!read_activation(node, &activation, why)) return false;
  m->problem.activation = activation.function;
  m->scalars.activation = activation.params;
  return activation.propagates_nan || no_match(why, "its ReLU passes a NaN on");
}

void match_overrides(const Graph& graph, const Node& node, Match* m) {
  m->m = node.at(Port::m_override), m->n = node.at(Port::n_override), m->k = node.at(Port::k_override);
  const auto add = [&](int place, matmul::Override bit) {
    if (place < 0) return;
    m->problem.overrides |= bit;
    m->problem.override_type = tensor_at(graph, place).geometry.type;
  };
  add(m->m, matmul::kOverrideM);
  add(m->n, matmul::kOverrideN);
  add(m->k, matmul::kOverrideK);
  m->problem.has_padding = m->problem.overrides != 0 ? 1 : 0;
  m->scalars.padding = node.padding_value;
}

bool match_graph(const Graph& graph, bool tensor_cores, Match* m, std::string* why) {
  if (graph.nodes.empty() || graph.nodes.front().op != Op::matmul)
    return no_match(why, "the first operation is no matrix product");
  const Node& node = graph.nodes.front();
  m->a = node.at(Port::x), m->b = node.at(Port::b), m->d = node.at(Port::y);
  matmul::Problem& p = m->problem;
  p.math = tensor_cores ? GPUDNN_TENSOR_OP_MATH : GPUDNN_FMA_MATH;
  p.compute = node.compute;
  for (const Tensor& t : graph.tensors)
    if (t.vector_count != 1 || t.reordering != 0 || t.ragged != Tensor::kNone)
      return no_match(why, "a tensor is ragged, a vector or reordered");
  p.a = tensor_at(graph, m->a).geometry;
  p.b = tensor_at(graph, m->b).geometry;
  p.d = tensor_at(graph, m->d).geometry;
  match_overrides(graph, node, m);
  std::size_t taken = 1;
  while (tensor_at(graph, m->d).is_virtual) {
    const Node* next = only_reader(graph, m->d);
    if (next == nullptr || next->op != Op::pointwise)
      return no_match(why, "what follows is no chain of pointwise operations");
    if (!(next->mode == GPUDNN_POINTWISE_ADD ? match_add(graph, *next, m, why) : match_activation(*next, m, why)))
      return false;
    m->d = next->at(Port::y);
    if (!same_dims(tensor_at(graph, m->d).geometry, p.d)) return no_match(why, "the output has other dimensions");
    ++taken;
  }
  if (taken != graph.nodes.size()) return no_match(why, "the graph has further operations");
  p.d = tensor_at(graph, m->d).geometry;
  if (!passed(matmul::validate(p), why)) return false;
  for (const int place : {m->a, m->b, m->d}) m->alignment = std::min(m->alignment, tensor_at(graph, place).alignment);
  return true;
}

bool best_choice(const Match& m, const Device& device, matmul::Choice* choice, std::size_t* bytes) {
  for (const matmul::Choice& one : matmul::rank(m.problem, device)) {
    if (one.engine->alignment > m.alignment) continue;
    *choice = one;
    *bytes = one.engine->workspace(m.problem, one.config, device);
    return true;
  }
  return false;
}

class MatmulWork final : public Work {
 public:
  MatmulWork(const Match& match, std::shared_ptr<const matmul::Plan> plan) : match_(match), plan_(std::move(plan)) {}
  [[nodiscard]] std::size_t workspace() const noexcept override { return plan_->workspace; }
  [[nodiscard]] Status run(gpudnnHandle_t handle, void* const* data, void* workspace) const override {
    matmul::Args args = match_.scalars;
    const auto at = [data](int place) { return place < 0 ? nullptr : data[place]; };
    args.a = at(match_.a);
    args.b = at(match_.b);
    args.d = at(match_.d);
    args.bias = at(match_.bias);
    args.m_override = at(match_.m);
    args.n_override = at(match_.n);
    args.k_override = at(match_.k);
    GPUDNN_REQUIRE(
        args.a != nullptr && args.b != nullptr && args.d != nullptr && (args.bias != nullptr || match_.bias < 0),
        GPUDNN_STATUS_BAD_PARAM_NULL_POINTER, "a data pointer of the matrix product is null");
    GPUDNN_REQUIRE(matmul::takes_addresses(plan_->choice, match_.problem, matmul::alignment_of(args)),
                   GPUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
                   "a data pointer is no multiple of %u, which the tensors' BYTE_ALIGNMENT promised",
                   plan_->choice.engine->alignment);
    return matmul::launch_verified(handle, match_.problem, *plan_, args, workspace, plan_->workspace);
  }

 private:
  Match match_;
  std::shared_ptr<const matmul::Plan> plan_;
};

}  // namespace

std::vector<Config> matmul_configs(const Engine& engine, const Graph& graph, const Device& device, std::string* why) {
  Match match;
  matmul::Choice choice;
  Config config;
  if (!match_graph(graph, engine.tensor_cores, &match, why)) return {};
  if (!best_choice(match, device, &choice, &config.workspace)) {
    *why = "no engine of the matrix product takes tensors of this alignment";
    return {};
  }
  // Without tensor cores the row beside this one is the same.
  if (engine.tensor_cores && choice.engine->math == GPUDNN_FMA_MATH) {
    *why = "no tensor core takes it";
    return {};
  }
  config.seconds = choice.seconds;
  return {config};
}

Status matmul_prepare(const Engine& engine, const GraphRef& graph, const Device& device, const Knobs&, WorkRef* work) {
  Match match;
  std::string why;
  matmul::Choice choice;
  std::size_t bytes = 0;
  GPUDNN_REQUIRE(match_graph(*graph, engine.tensor_cores, &match, &why) && best_choice(match, device, &choice, &bytes),
                 GPUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "%s: %s", engine.name, why.c_str());
  std::shared_ptr<const matmul::Plan> plan;
  GPUDNN_TRY(matmul::make_plan(choice, match.problem, device, &plan));
  *work = std::make_shared<MatmulWork>(match, std::move(plan));
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::graph
