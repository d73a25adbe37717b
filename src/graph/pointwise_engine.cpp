// Graphs of pointwise operations, and reductions of their results, as one pointwise program.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "graph/engines.hpp"
#include "graph/interpret/element.hpp"
#include "graph/match.hpp"
#include "ops/pointwise/problem.hpp"

namespace gpudnn::graph {
namespace {

using pointwise::Builder;
using pointwise::Operand;

struct Match {
  pointwise::Problem problem;
  int loads[pointwise::kMaxLoads] = {};    // tensors, or -1
  bool scalar[pointwise::kMaxLoads] = {};  // passed by value
  int stores[pointwise::kMaxStores] = {};
  std::vector<int> index_axes;
};

class Matcher {
 public:
  Matcher(const Graph& graph, Match* match, std::string* why)
      : graph_(graph), match_(*match), why_(why), values_(graph.tensors.size()), builder_(compute_of(graph)) {}

  bool run() {
    if (graph_.nodes.empty()) return no_match(why_, "the graph has no operation");
    if (!find_whole()) return false;
    for (const Node& node : graph_.nodes)
      if (!(node.op == Op::reduction ? add_reduction(node) : add_operation(node))) return false;
    if (builder_.overflowed()) return no_match(why_, "the graph is larger than a program");
    match_.problem.program = builder_.program();
    if (match_.problem.program.stores == 0) return no_match(why_, "the graph writes nothing");
    return passed(validate(match_.problem), why_);
  }

 private:
  static DataType compute_of(const Graph& graph) {
    for (const Node& node : graph.nodes)
      if (node.compute == GPUDNN_DATA_DOUBLE) return GPUDNN_DATA_DOUBLE;
    return GPUDNN_DATA_FLOAT;
  }

  [[nodiscard]] const Tensor& tensor(int place) const { return graph_.tensors[static_cast<std::size_t>(place)]; }

  // The dims of the whole: those of the largest result.
  bool find_whole() {
    const TensorGeometry* whole = nullptr;
    for (const Node& node : graph_.nodes) {
      if (node.op != Op::pointwise && node.op != Op::reduction)
        return no_match(why_, std::string(op_name(node.op)) + " is no pointwise operation");
      for (const Link& link : node.links) {
        const Tensor& t = tensor(link.tensor);
        if (t.vector_count != 1 || t.reordering != 0 || t.ragged != Tensor::kNone)
          return no_match(why_, "a tensor is ragged, a vector or reordered");
        if (whole == nullptr || t.geometry.rank > whole->rank ||
            (t.geometry.rank == whole->rank && element_count(t.geometry) > element_count(*whole)))
          whole = &t.geometry;
      }
    }
    match_.problem.rank = whole->rank;
    std::copy_n(whole->dims, whole->rank, match_.problem.dims);
    return true;
  }

  // Each extent the whole's or 1; fewer dimensions belong to the last ones.
  bool spread(const TensorGeometry& from, TensorGeometry* to) const {
    const pointwise::Problem& p = match_.problem;
    const int shift = p.rank - from.rank;
    if (shift < 0) return false;
    *to = TensorGeometry{};
    to->type = from.type;
    to->rank = p.rank;
    for (int i = 0; i < p.rank; ++i) {
      to->dims[i] = i < shift ? 1 : from.dims[i - shift];
      to->strides[i] = i < shift || from.dims[i - shift] == 1 ? 0 : from.strides[i - shift];
      if (to->dims[i] != 1 && to->dims[i] != p.dims[i]) return false;
    }
    return true;
  }

  bool value_of(int place, Operand* operand) {
    Operand& known = values_[static_cast<std::size_t>(place)];
    if (known.kind == pointwise::OperandKind::none) {
      const Tensor& t = tensor(place);
      if (t.is_virtual) return no_match(why_, "a virtual tensor comes from elsewhere");
      const int number = builder_.program().loads;
      if (number >= pointwise::kMaxLoads) return no_match(why_, "the graph reads more tensors than a program");
      match_.loads[number] = place;
      match_.scalar[number] = t.by_value;
      if (t.by_value) {
        known = builder_.scalar();
      } else {
        if (!spread(t.geometry, &match_.problem.loads[number]))
          return no_match(why_, "tensor " + std::to_string(t.uid) + " does not broadcast to the whole");
        known = builder_.tensor();
      }
    }
    *operand = known;
    return true;
  }

  bool operand_of(const Node& node, Port port, double scale, Operand* operand) {
    const int place = node.at(port);
    if (place < 0) return true;
    if (!value_of(place, operand)) return false;
    *operand = builder_.scaled(scale, *operand);
    return true;
  }

  bool add_index(const Node& node) {
    const TensorGeometry& y = tensor(node.at(Port::y)).geometry;
    const int axis = static_cast<int>(node.axis) + match_.problem.rank - y.rank;
    if (y.dims[node.axis] != match_.problem.dims[axis])
      return no_match(why_, "an index along a dimension that is not whole");
    const int number = builder_.program().loads;
    if (number >= pointwise::kMaxLoads) return no_match(why_, "the graph reads more tensors than a program");
    match_.loads[number] = -1;
    return set_result(node.at(Port::y), builder_.index(axis));
  }

  bool add_operation(const Node& node) {
    if (node.mode == GPUDNN_POINTWISE_GEN_INDEX) return add_index(node);
    const bool backward = node.at(Port::dx) >= 0;
    const bool from_y = backward && node.at(Port::x) < 0;
    pointwise::Instruction code;
    code.op = pointwise::op_of(static_cast<gpudnnPointwiseMode_t>(node.mode), from_y);
    const int out = node.at(backward ? Port::dx : Port::y);
    const bool integers = node.compute == GPUDNN_DATA_INT32 || node.compute == GPUDNN_DATA_INT64;
    if (integers && node.mode == GPUDNN_POINTWISE_DIV) return no_match(why_, "it does not divide integers");
    code.type = tensor(out).geometry.type;
    if (!operand_of(node, from_y ? Port::y : Port::x, node.alpha, &code.x)) return false;
    if (node.alpha2 == 0 && !backward && node.at(Port::b) >= 0) {
      code.b = Operand::constant(0);  // what counts 0 times is not read
    } else if (!operand_of(node, backward ? Port::dy : Port::b, node.alpha2, &code.b)) {
      return false;
    }
    if (!operand_of(node, Port::t, 1, &code.t)) return false;
    set_parameters(node, &code);
    return set_result(out, builder_.apply(code));
  }

  static void set_parameters(const Node& node, pointwise::Instruction* code) {
    code->params.drops_nan = tile::is_relu(code->op) && node.nan != GPUDNN_PROPAGATE_NAN;
    switch (node.mode) {
      case GPUDNN_POINTWISE_RELU_FWD:
      case GPUDNN_POINTWISE_RELU_BWD:
        code->params.p[0] = node.lower_clip;
        code->params.p[1] = node.upper_clip;
        code->params.p[2] = node.slope;
        break;
      case GPUDNN_POINTWISE_ELU_FWD:
      case GPUDNN_POINTWISE_ELU_BWD:
        code->params.p[0] = node.elu_alpha;
        break;
      case GPUDNN_POINTWISE_SOFTPLUS_FWD:
      case GPUDNN_POINTWISE_SOFTPLUS_BWD:
        code->params.p[0] = node.softplus_beta;
        break;
      case GPUDNN_POINTWISE_SWISH_FWD:
      case GPUDNN_POINTWISE_SWISH_BWD:
        code->params.p[0] = node.swish_beta;
        break;
      default:
        break;
    }
  }

  bool add_store(int place, Operand value, int reduction) {
    const int number = builder_.program().stores;
    if (number >= pointwise::kMaxStores) return no_match(why_, "the graph writes more tensors than a program");
    TensorGeometry& geometry = match_.problem.stores[number];
    if (!spread(tensor(place).geometry, &geometry)) return no_match(why_, "an output does not fit the whole");
    for (int i = 0; i < geometry.rank; ++i)
      if (reduction == pointwise::kNoReduction && geometry.dims[i] != match_.problem.dims[i])
        return no_match(why_, "an output is smaller than the whole");
    match_.stores[number] = place;
    match_.problem.reductions[number] = reduction;
    builder_.store(value);
    return true;
  }

  bool set_result(int place, Operand value) {
    values_[static_cast<std::size_t>(place)] = value;
    return tensor(place).is_virtual || add_store(place, value, pointwise::kNoReduction);
  }

  bool add_reduction(const Node& node) {
    const int x = node.at(Port::x);
    const int y = node.at(Port::y);
    Operand value;
    if (tensor(y).is_virtual || is_read(y)) return no_match(why_, "a reduction is read on");
    // A value that is smaller than the whole would be counted more than once.
    const TensorGeometry& g = tensor(x).geometry;
    for (int i = 0; i < match_.problem.rank; ++i)
      if (g.rank != match_.problem.rank || g.dims[i] != match_.problem.dims[i])
        return no_match(why_, "a reduction of a part");
    return value_of(x, &value) && add_store(y, value, node.mode);
  }

  [[nodiscard]] bool is_read(int place) const {
    for (const Node& node : graph_.nodes)
      for (const Link& link : node.links)
        if (link.tensor == place && !is_output(node, link.port)) return true;
    return false;
  }

  const Graph& graph_;
  Match& match_;
  std::string* why_;
  std::vector<Operand> values_;
  Builder builder_;
};

class ProgramWork final : public Work {
 public:
  ProgramWork(const GraphRef& graph, const Match& match, std::shared_ptr<const pointwise::Prepared> prepared,
              std::size_t bytes)
      : graph_(graph), match_(match), prepared_(std::move(prepared)), bytes_(bytes) {}
  [[nodiscard]] std::size_t workspace() const noexcept override { return bytes_; }
  [[nodiscard]] Status run(gpudnnHandle_t handle, void* const* data, void* workspace) const override {
    pointwise::Args args;
    args.workspace = workspace;
    args.workspace_bytes = bytes_;
    args.prepared = prepared_.get();
    const pointwise::Program& program = match_.problem.program;
    for (int i = 0; i < program.loads; ++i) {
      if (match_.loads[i] < 0) continue;
      const void* pointer = data[match_.loads[i]];
      GPUDNN_REQUIRE(pointer != nullptr, GPUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                     "the data pointer of tensor %lld is null", uid(match_.loads[i]));
      if (match_.scalar[i]) {
        args.scalars[i] =
            loader_of(graph_->tensors[static_cast<std::size_t>(match_.loads[i])].geometry.type)(pointer, 0);
      } else {
        args.loads[i] = pointer;
      }
    }
    for (int i = 0; i < program.stores; ++i) {
      args.stores[i] = data[match_.stores[i]];
      GPUDNN_REQUIRE(args.stores[i] != nullptr, GPUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                     "the data pointer of tensor %lld is null", uid(match_.stores[i]));
    }
    return pointwise::run(handle, match_.problem, args);
  }

 private:
  [[nodiscard]] long long uid(int place) const {
    return static_cast<long long>(graph_->tensors[static_cast<std::size_t>(place)].uid);
  }

  GraphRef graph_;
  Match match_;
  std::shared_ptr<const pointwise::Prepared> prepared_;
  std::size_t bytes_;
};

}  // namespace

std::vector<Config> program_configs(const Engine&, const Graph& graph, const Device& device, std::string* why) {
  Match match;
  if (!Matcher(graph, &match, why).run()) return {};
  return {Config{.knobs = {}, .workspace = pointwise::workspace_size(match.problem, device)}};
}

Status program_prepare(const Engine& engine, const GraphRef& graph, const Device& device, const Knobs&, WorkRef* work) {
  Match match;
  std::string why;
  GPUDNN_REQUIRE(Matcher(*graph, &match, &why).run(), GPUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "%s: %s", engine.name,
                 why.c_str());
  std::shared_ptr<const pointwise::Prepared> prepared;
  GPUDNN_TRY(pointwise::prepare(match.problem, device, &prepared));
  *work = std::make_shared<ProgramWork>(graph, match, std::move(prepared),
                                        pointwise::workspace_size(match.problem, device));
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::graph
