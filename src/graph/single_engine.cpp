// Graphs of one operation that the classic interface has as well: reductions, pooling, copies.
// SPDX-License-Identifier: Apache-2.0
#include "core/validation.hpp"
#include "graph/engines.hpp"
#include "graph/match.hpp"
#include "ops/pooling/problem.hpp"
#include "ops/reduce/problem.hpp"
#include "ops/tensor/problem.hpp"

namespace gpudnn::graph {
namespace {

// The one operation of the graph, of one of two kinds, on tensors that strides describe.
const Node* only_node(const Graph& graph, Op op, Op other, std::string* why) {
  if (graph.nodes.size() != 1 || (graph.nodes.front().op != op && graph.nodes.front().op != other)) {
    *why = std::string("the graph is not one ") + op_name(op);
    return nullptr;
  }
  for (const Tensor& t : graph.tensors) {
    if (t.is_virtual || t.ragged != Tensor::kNone || t.vector_count != 1 || t.reordering != 0) {
      *why = "a tensor is virtual, ragged, a vector or reordered";
      return nullptr;
    }
  }
  return &graph.nodes.front();
}

// A problem of the classic interface, with the arguments that are known beforehand, and the tensors of the others.
template <class Problem, class Args>
struct Single {
  Problem problem;
  Args args;
  int in = -1;
  int out = -1;
};

template <class Problem, class Args, class Run>
class SingleWork final : public Work {
 public:
  SingleWork(const Single<Problem, Args>& single, std::size_t bytes, Run run)
      : single_(single), bytes_(bytes), run_(run) {}
  [[nodiscard]] std::size_t workspace() const noexcept override { return bytes_; }
  [[nodiscard]] Status run(gpudnnHandle_t handle, void* const* data, void* workspace) const override {
    GPUDNN_REQUIRE(data[single_.in] != nullptr && data[single_.out] != nullptr, GPUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                   "a data pointer is null");
    return run_(handle, single_.problem, single_.args, data[single_.in], data[single_.out], workspace, bytes_);
  }

 private:
  Single<Problem, Args> single_;
  std::size_t bytes_;
  Run run_;
};

template <class Problem, class Args, class Run>
WorkRef single_work(const Single<Problem, Args>& single, std::size_t bytes, Run run) {
  return std::make_shared<SingleWork<Problem, Args, Run>>(single, bytes, run);
}

// --- reductions -----------------------------------------------------------------------------------------------------

using Reduction = Single<reduce::Problem, reduce::Args>;

bool match_reduction(const Graph& graph, Reduction* r, std::string* why) {
  const Node* node = only_node(graph, Op::reduction, Op::reduction, why);
  if (node == nullptr) return false;
  r->in = node->at(Port::x);
  r->out = node->at(Port::y);
  reduce::Problem& p = r->problem;
  p.op = static_cast<gpudnnReduceTensorOp_t>(node->mode);
  p.nan = GPUDNN_PROPAGATE_NAN;
  p.a = tensor_at(graph, r->in).geometry;
  p.c = tensor_at(graph, r->out).geometry;
  p.compute = p.a.type == GPUDNN_DATA_DOUBLE ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT;
  for (int i = 0; i < p.a.rank; ++i)
    if (p.c.dims[i] != 1 && p.c.dims[i] != p.a.dims[i]) return no_match(why, "it reduces a dimension in parts");
  return passed(validate(p), why);
}

// --- pooling --------------------------------------------------------------------------------------------------------

using Pooling = Single<pooling::Problem, pooling::Args>;

bool is_whole(const Extents& extents) {
  for (int i = 0; i < extents.count; ++i)
    if (extents.divisor[static_cast<std::size_t>(i)] != 1) return false;
  return true;
}

bool match_pooling(const Graph& graph, Pooling* m, std::string* why) {
  const Node* node = only_node(graph, Op::resample_fwd, Op::resample_fwd, why);
  if (node == nullptr) return false;
  if (node->at(Port::index) >= 0) return no_match(why, "it writes no indices");
  pooling::Problem& p = m->problem;
  switch (node->mode) {
    case GPUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING:
      p.mode = GPUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING;
      break;
    case GPUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING:
      p.mode = GPUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING;
      break;
    case GPUDNN_RESAMPLE_MAXPOOL:
      if (node->padding_mode != GPUDNN_NEG_INF_PAD) return no_match(why, "a maximum over zeros of padding");
      p.mode = GPUDNN_POOLING_MAX;
      break;
    default:
      return no_match(why, "it interpolates");
  }
  m->in = node->at(Port::x);
  m->out = node->at(Port::y);
  p.nan = static_cast<gpudnnNanPropagation_t>(node->nan);
  p.spatial = node->window.count;
  p.x = tensor_at(graph, m->in).geometry;
  p.y = tensor_at(graph, m->out).geometry;
  for (const Extents* e : {&node->window, &node->pre, &node->stride})
    if (!is_whole(*e)) return no_match(why, "windows, paddings or strides are fractions");
  for (int i = 0; i < p.spatial; ++i) {
    const auto k = static_cast<std::size_t>(i);
    p.window[i] = node->window.value[k];
    p.pad[i] = node->pre.value[k];
    p.stride[i] = node->stride.value[k];
    if (pooling::output_extent(p.x.dims[i + 2], p.window[i], p.pad[i], p.stride[i]) != p.y.dims[i + 2])
      return no_match(why, "its padding differs before and behind");
  }
  m->args.alpha = node->alpha;
  m->args.beta = node->beta;
  return passed(validate(p), why);
}

// --- copies ---------------------------------------------------------------------------------------------------------

using Copy = Single<tensor::Problem, tensor::Args>;

bool match_copy(const Graph& graph, Copy* m, std::string* why) {
  const Node* node = only_node(graph, Op::reshape, Op::pointwise, why);
  if (node == nullptr) return false;
  if (node->op == Op::pointwise && node->mode != GPUDNN_POINTWISE_IDENTITY)
    return no_match(why, "the operation is no copy");
  m->in = node->at(Port::x);
  m->out = node->at(Port::y);
  const Tensor& x = tensor_at(graph, m->in);
  const TensorGeometry& y = tensor_at(graph, m->out).geometry;
  if (x.by_value) return no_match(why, "the input is passed by value");
  tensor::Problem& p = m->problem;
  p.operation = tensor::Operation::transform;
  p.a = x.geometry;
  p.c = y;
  if (node->op == Op::reshape) {
    const bool same_memory = element_span(x.geometry) == element_span(y) && is_dense(x.geometry) && is_dense(y);
    if (!same_memory && !is_packed_nchw(x.geometry)) return no_match(why, "a reshape of tensors with gaps");
    p.a = y;  // the same offsets
    p.a.type = x.geometry.type;
    if (!same_memory) set_packed_strides(&p.a, GPUDNN_TENSOR_NCHW);
  }
  m->args.alpha = node->alpha;
  return passed(validate(p), why);
}

template <class Match>
std::vector<Config> configs_of(const Graph& graph, std::string* why, std::size_t (*bytes)(const Match&, const Device&),
                               bool (*match)(const Graph&, Match*, std::string*), const Device& device) {
  Match found;
  if (!match(graph, &found, why)) return {};
  Config config;
  config.workspace = bytes(found, device);
  return {config};
}

std::size_t reduction_bytes(const Reduction& r, const Device& device) { return workspace_size(r.problem, device); }
template <class Match>
std::size_t no_bytes(const Match&, const Device&) {
  return 0;
}

template <class Match>
Status match_again(const Engine& engine, const Graph& graph, bool (*match)(const Graph&, Match*, std::string*),
                   Match* found) {
  std::string why;
  GPUDNN_REQUIRE(match(graph, found, &why), GPUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "%s: %s", engine.name,
                 why.c_str());
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace

std::vector<Config> reduction_configs(const Engine&, const Graph& graph, const Device& device, std::string* why) {
  return configs_of<Reduction>(graph, why, &reduction_bytes, &match_reduction, device);
}

Status reduction_prepare(const Engine& engine, const GraphRef& graph, const Device& device, const Knobs&,
                         WorkRef* work) {
  Reduction r;
  GPUDNN_TRY(match_again(engine, *graph, &match_reduction, &r));
  *work = single_work(r, reduction_bytes(r, device),
                      [](gpudnnHandle_t handle, const reduce::Problem& problem, reduce::Args args, const void* in,
                         void* out, void* workspace, std::size_t bytes) {
                        args.a = in;
                        args.c = out;
                        return reduce::run(handle, problem, args, workspace, bytes);
                      });
  return GPUDNN_STATUS_SUCCESS;
}

std::vector<Config> pooling_configs(const Engine&, const Graph& graph, const Device& device, std::string* why) {
  return configs_of<Pooling>(graph, why, &no_bytes<Pooling>, &match_pooling, device);
}

Status pooling_prepare(const Engine& engine, const GraphRef& graph, const Device&, const Knobs&, WorkRef* work) {
  Pooling m;
  GPUDNN_TRY(match_again(engine, *graph, &match_pooling, &m));
  *work = single_work(m, 0,
                      [](gpudnnHandle_t handle, const pooling::Problem& problem, pooling::Args args, const void* in,
                         void* out, void*, std::size_t) {
                        args.x = in;
                        args.out = out;
                        return pooling::run(handle, problem, args);
                      });
  return GPUDNN_STATUS_SUCCESS;
}

std::vector<Config> copy_configs(const Engine&, const Graph& graph, const Device& device, std::string* why) {
  return configs_of<Copy>(graph, why, &no_bytes<Copy>, &match_copy, device);
}

Status copy_prepare(const Engine& engine, const GraphRef& graph, const Device&, const Knobs&, WorkRef* work) {
  Copy m;
  GPUDNN_TRY(match_again(engine, *graph, &match_copy, &m));
  *work = single_work(m, 0,
                      [](gpudnnHandle_t handle, const tensor::Problem& problem, tensor::Args args, const void* in,
                         void* out, void*, std::size_t) {
                        args.a = in;
                        args.c = out;
                        return tensor::run(handle, problem, args);
                      });
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::graph
