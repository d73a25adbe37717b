// Convolution graphs of 8-bit floats:
//
//   conv_fwd, conv_dgrad or conv_wgrad of two 8-bit floats, then any of: products with numbers (descales), add of a
//   bias, one activation, the AMAX of what that gives, products with numbers (scales)
//
// What passes from one operation to the next is float, and is rounded once, on the epilogue.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include "core/float8.hpp"
#include "graph/engines.hpp"
#include "graph/epilogue_activation.hpp"
#include "graph/match.hpp"
#include "ops/conv/float8/float8_sm90.hpp"

namespace gpudnn::graph {
namespace {

constexpr std::size_t kMaxFactors = kernels::float8::kMaxFactors;

struct Match {
  conv::Float8Problem problem;
  conv::Args scalars;  // no pointers
  double c_alpha = 1;
  int x = -1, w = -1, y = -1, out = -1, bias = -1, amax = -1;
  std::vector<int> factors, c_factors;
  std::int64_t alignment = 16;
};

bool is_number(const Tensor& t) {
  return !t.is_virtual && t.geometry.type == GPUDNN_DATA_FLOAT && t.ragged == Tensor::kNone &&
         element_count(t.geometry) == 1;
}

bool match_convolution(const Graph& graph, const Node& node, Match* m, std::string* why) {
  conv::Problem& p = m->problem.conv;
  p.spatial = node.pre.count;
  p.mode = static_cast<gpudnnConvolutionMode_t>(node.mode);
  switch (node.op) {
    case Op::conv_fwd:
      p.direction = conv::Direction::forward;
      m->x = node.at(Port::x), m->w = node.at(Port::w), m->out = m->y = node.at(Port::y);
      break;
    case Op::conv_dgrad:
      p.direction = conv::Direction::dgrad;
      m->out = m->x = node.at(Port::dx), m->w = node.at(Port::w), m->y = node.at(Port::dy);
      break;
    case Op::conv_wgrad:
      p.direction = conv::Direction::wgrad;
      m->x = node.at(Port::x), m->out = m->w = node.at(Port::dw), m->y = node.at(Port::dy);
      break;
    default:
      return no_match(why, "");
  }
  for (const int place : {m->x, m->w, m->y}) {
    const Tensor& t = tensor_at(graph, place);
    if (place != m->out && !is_float8(t.geometry.type)) return no_match(why, "");
    if (t.vector_count != 1 || t.reordering != 0 || t.by_value || t.ragged != Tensor::kNone)
      return no_match(why, "its tensors must be plain ones");
  }
  if (node.compute != GPUDNN_DATA_FLOAT && node.compute != GPUDNN_DATA_FAST_FLOAT_FOR_FP8)
    return no_match(why, "it computes in f32 or f32fp8");
  if (node.beta != 0) return no_match(why, "the convolution adds to its output");
  m->problem.promotes = node.compute == GPUDNN_DATA_FLOAT;
  p.x = tensor_at(graph, m->x).geometry;
  p.w = tensor_at(graph, m->w).geometry;
  p.y = tensor_at(graph, m->y).geometry;
  p.groups = static_cast<std::int32_t>(p.x.dims[1] / p.w.dims[1]);
  for (int i = 0; i < p.spatial; ++i) {
    const auto k = static_cast<std::size_t>(i);
    p.pad[i] = node.pre.value[k];
    p.stride[i] = node.stride.value[k];
    p.dilation[i] = node.dilation.value[k];
    if (p.pad[i] < 0) return no_match(why, "its padding before the image is negative");
  }
  m->scalars.alpha = node.alpha;
  return true;
}

// A product with a number: before what follows the sum, or after it.
bool match_factor(const Graph& graph, const Node& node, bool after, Match* m, std::string* why) {
  const bool first = node.at(Port::x) == m->out;
  const int other = node.at(first ? Port::b : Port::x);
  if (other == m->out || !is_number(tensor_at(graph, other)))
    return no_match(why, "it multiplies by f32 numbers alone");
  std::vector<int>& factors = after ? m->c_factors : m->factors;
  if (factors.size() == kMaxFactors) return no_match(why, "it has more than four factors");
  factors.push_back(other);
  (after ? m->c_alpha : m->scalars.alpha) *= node.alpha * node.alpha2;
  return true;
}

bool match_bias(const Graph& graph, const Node& node, Match* m, std::string* why) {
  const bool first = node.at(Port::x) == m->out;
  const int other = node.at(first ? Port::b : Port::x);
  const Tensor& t = tensor_at(graph, other);
  conv::Problem& p = m->problem.conv;
  bool fits = other != m->out && !t.is_virtual && !t.by_value && t.geometry.rank == p.y.rank && node.alpha == 1 &&
              node.alpha2 == 1 && m->bias < 0 && t.geometry.dims[1] == p.y.dims[1] && is_floating(t.geometry.type) &&
              t.geometry.type != GPUDNN_DATA_DOUBLE;
  for (int i = 0; i < t.geometry.rank; ++i) fits = fits && (i == 1 || t.geometry.dims[i] == 1);
  if (!fits || p.direction != conv::Direction::forward)
    return no_match(why, "it adds one bias, a number for each channel, forward");
  m->bias = other;
  m->problem.bias_type = t.geometry.type;
  p.has_bias = 1;
  p.bias_stride = t.geometry.strides[1];
  return true;
}

bool match_activation(const Node& node, Match* m, std::string* why) {
  EpilogueActivation activation;
  if (!read_activation(node, &activation, why)) return false;
  set_activation(activation, &m->problem.conv, &m->scalars);
  return true;
}

// Those who read a tensor: one AMAX at the most, and one other.
struct Readers {
  const Node* amax = nullptr;
  const Node* next = nullptr;
  bool others = false;
};
Readers readers_of(const Graph& graph, int tensor) {
  Readers readers;
  for (const Node& node : graph.nodes) {
    for (const Link& link : node.links) {
      if (link.tensor != tensor || is_output(node, link.port)) continue;
      const bool is_amax = node.op == Op::reduction && node.mode == GPUDNN_REDUCE_TENSOR_AMAX;
      const Node*& reader = is_amax ? readers.amax : readers.next;
      readers.others = readers.others || reader != nullptr;
      reader = &node;
    }
  }
  return readers;
}

bool match_chain(const Graph& graph, Match* m, std::string* why) {
  std::size_t taken = 1;
  bool after = false;  // the sum's last change but factors is behind
  for (;;) {
    const Tensor& t = tensor_at(graph, m->out);
    const Readers readers = readers_of(graph, m->out);
    if (readers.others) return no_match(why, "a result is read by several operations");
    if (readers.amax != nullptr) {
      const int place = readers.amax->at(Port::y);
      if (m->amax >= 0 || !m->c_factors.empty() || t.geometry.type != GPUDNN_DATA_FLOAT ||
          !is_number(tensor_at(graph, place)) || tensor_at(graph, place).by_value)
        return no_match(why, "it has one AMAX, of f32 values before their last factors, that leaves the graph");
      m->amax = place;
      after = true;
      ++taken;
    }
    if (!t.is_virtual && readers.next == nullptr) break;
    if (!t.is_virtual || readers.next == nullptr || readers.next->op != Op::pointwise ||
        t.geometry.type != GPUDNN_DATA_FLOAT)
      return no_match(why, "what follows is no chain of pointwise operations on f32 values");
    const Node& next = *readers.next;
    const bool is_factor = next.mode == GPUDNN_POINTWISE_MUL;
    if (!is_factor && (m->amax >= 0 || !m->c_factors.empty() || m->problem.conv.activation >= 0))
      return no_match(why, "only factors follow the AMAX, the activation and further factors");
    const bool fits = is_factor                           ? match_factor(graph, next, after, m, why)
                      : next.mode == GPUDNN_POINTWISE_ADD ? match_bias(graph, next, m, why)
                                                          : match_activation(next, m, why);
    if (!fits) return false;
    after = after || !is_factor;
    m->out = next.at(Port::y);
    ++taken;
  }
  if (taken != graph.nodes.size()) return no_match(why, "the graph has further operations");
  return true;
}

bool match_graph(const Graph& graph, Match* m, std::string* why) {
  if (graph.nodes.empty() || !match_convolution(graph, graph.nodes.front(), m, why)) return false;
  const int written = m->out;
  if (!match_chain(graph, m, why)) return false;
  conv::Problem& p = m->problem.conv;
  TensorGeometry& out = p.direction == conv::Direction::forward ? p.y
                        : p.direction == conv::Direction::dgrad ? p.x
                                                                : p.w;
  const TensorGeometry& geometry = tensor_at(graph, m->out).geometry;
  if (!same_dims(geometry, tensor_at(graph, written).geometry))
    return no_match(why, "the output has other dimensions than the convolution");
  out = geometry;
  (p.direction == conv::Direction::forward ? m->y : p.direction == conv::Direction::dgrad ? m->x : m->w) = -1;
  for (const int place : {m->x, m->w, m->y, m->out})
    if (place >= 0) m->alignment = std::min(m->alignment, tensor_at(graph, place).alignment);
  if (m->alignment < 16) return no_match(why, "the tensors are not aligned to 16 bytes");
  return true;
}

bool match_supported(const Graph& graph, const Device& device, Match* m, std::string* why) {
  if (!match_graph(graph, m, why)) return false;
  const Support support = conv::float8_sm90_supports(m->problem, device);
  return support || no_match(why, support.reason_against);
}

Config config_of(const conv::Candidate& candidate) {
  Config config;
  config.knobs = {{GPUDNN_KNOB_TYPE_TILE_SIZE, candidate.config.tile},
                  {GPUDNN_KNOB_TYPE_SPLIT_K_SLC, candidate.config.split_k}};
  config.workspace = candidate.workspace;
  config.seconds = candidate.seconds;
  return config;
}

std::vector<conv::Candidate> candidates_of(const Match& match, const Device& device) {
  std::vector<conv::Candidate> candidates;
  conv::float8_sm90_candidates(match.problem, device, &candidates);
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const conv::Candidate& a, const conv::Candidate& b) { return a.seconds < b.seconds; });
  return candidates;
}

class Float8Work final : public Work {
 public:
  Float8Work(Match match, const std::vector<bool>& by_value, std::shared_ptr<const conv::Float8Prepared> prepared)
      : match_(std::move(match)), by_value_(by_value), prepared_(std::move(prepared)) {}

  [[nodiscard]] std::size_t workspace() const noexcept override { return prepared_->plan.workspace; }

  [[nodiscard]] Status run(gpudnnHandle_t handle, void* const* data, void* workspace) const override {
    conv::Float8Args args;
    args.conv = match_.scalars;
    args.c_alpha = match_.c_alpha;
    const auto at = [data](int place) { return place < 0 ? nullptr : data[place]; };
    args.conv.x = at(match_.x);
    args.conv.w = at(match_.w);
    args.conv.y = at(match_.y);
    args.conv.out = at(match_.out);
    args.conv.bias = at(match_.bias);
    args.amax = static_cast<float*>(at(match_.amax));
    bool complete = args.conv.out != nullptr;
    for (const int place : {match_.x, match_.w, match_.y, match_.bias, match_.amax})
      complete = complete && (place < 0 || data[place] != nullptr);
    complete = take_factors(match_.factors, data, &args.conv.alpha, args.factors) && complete;
    complete = take_factors(match_.c_factors, data, &args.c_alpha, args.c_factors) && complete;
    GPUDNN_REQUIRE(complete, GPUDNN_STATUS_BAD_PARAM_NULL_POINTER, "a data pointer of the convolution is null");
    for (const void* pointer : {args.conv.x, args.conv.w, args.conv.y, static_cast<const void*>(args.conv.out)})
      GPUDNN_REQUIRE(reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0, GPUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
                     "a data pointer is no multiple of 16, which the tensors' BYTE_ALIGNMENT promised");
    call_context().engine = "float8_sm90";
    return conv::float8_sm90_launch(launch_site(handle, workspace, prepared_->plan.workspace), *prepared_, args);
  }

 private:
  // Numbers of the host go into `alpha`, those in memory on the device into `pointers`.
  bool take_factors(const std::vector<int>& places, void* const* data, double* alpha,
                    const float* (&pointers)[kMaxFactors]) const {
    std::size_t count = 0;
    for (const int place : places) {
      const auto* const number = static_cast<const float*>(data[place]);
      if (number == nullptr) return false;
      if (by_value_[static_cast<std::size_t>(place)]) {
        *alpha *= static_cast<double>(*number);
      } else {
        pointers[count++] = number;
      }
    }
    return true;
  }

  Match match_;
  std::vector<bool> by_value_;  // of the graph's tensors
  std::shared_ptr<const conv::Float8Prepared> prepared_;
};

}  // namespace

std::vector<Config> float8_configs(const Engine&, const Graph& graph, const Device& device, std::string* why) {
  Match match;
  std::vector<Config> configs;
  if (!match_supported(graph, device, &match, why)) return configs;
  for (const conv::Candidate& candidate : candidates_of(match, device)) configs.push_back(config_of(candidate));
  return configs;
}

Status float8_prepare(const Engine& engine, const GraphRef& graph, const Device& device, const Knobs& knobs,
                      WorkRef* work) {
  Match match;
  std::string why;
  GPUDNN_REQUIRE(match_supported(*graph, device, &match, &why), GPUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "%s: %s",
                 engine.name, why.c_str());
  const std::vector<conv::Candidate> candidates = candidates_of(match, device);
  const auto found = std::find_if(candidates.begin(), candidates.end(), [&](const conv::Candidate& candidate) {
    return config_of(candidate).knobs == knobs;
  });
  GPUDNN_REQUIRE(found != candidates.end(), GPUDNN_STATUS_NOT_SUPPORTED,
                 "engine %s has no config with these knob values for this convolution", engine.name);
  std::vector<bool> by_value;
  for (const Tensor& t : graph->tensors) by_value.push_back(t.by_value);
  const auto prepared = conv::float8_sm90_prepare(match.problem, found->config, device);
  *work = std::make_shared<Float8Work>(std::move(match), by_value, prepared);
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::graph
