// Convolution graphs as convolution problems:
//
//   conv_fwd, conv_dgrad or conv_wgrad alone
//   conv_fwd, then any of: product with a scale of channels (first), add of an image z, add of a bias, one activation;
//   then gen_stats of the result, where the engine has the sums by channel in its epilogue
//
// What passes from one operation to the next stays in the accumulator's type: it is rounded once, on the epilogue.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>

#include "core/validation.hpp"
#include "graph/engines.hpp"
#include "graph/epilogue_activation.hpp"
#include "graph/match.hpp"
#include "ops/conv/engine.hpp"
#include "ops/conv/plan.hpp"
#include "ops/conv/select/heuristics.hpp"

namespace gpudnn::graph {
namespace {

// The problem of a graph, and the tensors that play each part in it; -1 for a part that it does not have.
struct Match {
  conv::Problem problem;
  conv::Args scalars;  // no pointers
  int x = -1, w = -1, y = -1, z = -1, bias = -1, scale = -1, out = -1;
  int sum = -1, squares = -1;
  std::int64_t alignment = 16;
};

bool match_convolution(const Graph& graph, const Node& node, Match* m, std::string* why) {
  conv::Problem& p = m->problem;
  p.spatial = node.pre.count;
  p.mode = static_cast<gpudnnConvolutionMode_t>(node.mode);
  p.compute = node.compute;
  switch (node.op) {
    case Op::conv_fwd:
      p.direction = conv::Direction::forward;
      m->x = node.at(Port::x), m->w = node.at(Port::w), m->out = m->y = node.at(Port::y);
      break;
    case Op::conv_dgrad:
      p.direction = conv::Direction::dgrad;
      m->out = m->x = node.at(Port::dx), m->w = node.at(Port::w), m->y = node.at(Port::dy);
      break;
    default:
      p.direction = conv::Direction::wgrad;
      m->x = node.at(Port::x), m->out = m->w = node.at(Port::dw), m->y = node.at(Port::dy);
  }
  for (const int place : {m->x, m->w, m->y}) {
    const Tensor& t = tensor_at(graph, place);
    if (t.vector_count != 1 || t.reordering != 0) return no_match(why, "convolution of vectors is not built");
    if (t.by_value || t.ragged != Tensor::kNone) return no_match(why, "its tensors must be plain ones");
  }
  p.x = tensor_at(graph, m->x).geometry;
  p.w = tensor_at(graph, m->w).geometry;
  p.y = tensor_at(graph, m->y).geometry;
  p.groups = static_cast<std::int32_t>(p.x.dims[1] / p.w.dims[1]);
  for (int i = 0; i < p.spatial && i < conv::kMaxSpatial; ++i) {
    const auto k = static_cast<std::size_t>(i);
    p.pad[i] = node.pre.value[k];
    p.stride[i] = node.stride.value[k];
    p.dilation[i] = node.dilation.value[k];
    if (p.pad[i] < 0) return no_match(why, "its padding before the image is negative");
  }
  m->scalars.alpha = node.alpha;
  m->scalars.beta = node.beta;
  return true;
}

bool is_bias(const TensorGeometry& b, const TensorGeometry& y) {
  if (b.rank != y.rank || b.dims[1] != y.dims[1]) return false;
  for (int i = 0; i < b.rank; ++i)
    if (i != 1 && b.dims[i] != 1) return false;
  return true;
}

// alpha * conv + alpha2 * z + bias: scales stand before the sum.
bool match_add(const Graph& graph, const Node& node, Match* m, std::string* why) {
  const bool first = node.at(Port::x) == m->out;
  const int other = node.at(first ? Port::b : Port::x);
  const double scale = first ? node.alpha : node.alpha2;
  const double other_scale = first ? node.alpha2 : node.alpha;
  const Tensor& t = tensor_at(graph, other);
  if (t.is_virtual || t.by_value) return no_match(why, "it adds images and biases of the program alone");
  if (scale != 1 && (m->bias >= 0 || m->z >= 0)) return no_match(why, "a sum is scaled");
  m->scalars.alpha *= scale;
  if (m->bias < 0 && other_scale == 1 && is_bias(t.geometry, m->problem.y)) {
    m->bias = other;
    return true;
  }
  if (m->z >= 0 || !same_dims(t.geometry, m->problem.y))
    return no_match(why, "it adds one image and one bias at the most");
  m->z = other;
  m->scalars.alpha2 = other_scale;
  return true;
}

// scale * alpha * conv: before any sum.
bool match_scale(const Graph& graph, const Node& node, Match* m, std::string* why) {
  const bool first = node.at(Port::x) == m->out;
  const int other = node.at(first ? Port::b : Port::x);
  const Tensor& t = tensor_at(graph, other);
  if (t.is_virtual || t.by_value || !is_bias(t.geometry, m->problem.y))
    return no_match(why, "it multiplies by a vector of channels alone");
  if (m->scale >= 0 || m->bias >= 0 || m->z >= 0) return no_match(why, "a sum is scaled");
  m->scalars.alpha *= node.alpha * node.alpha2;
  m->scale = other;
  return true;
}

bool match_activation(const Node& node, Match* m, std::string* why) {
  EpilogueActivation activation;
  if (!read_activation(node, &activation, why)) return false;
  set_activation(activation, &m->problem, &m->scalars);
  return true;
}

bool match_vectors(const Graph& graph, Match* m, std::string* why) {
  conv::Problem& p = m->problem;
  p.has_bias = m->bias >= 0 ? 1 : 0;
  p.has_scale = m->scale >= 0 ? 1 : 0;
  for (const int place : {m->bias, m->scale}) {
    if (place < 0) continue;
    const TensorGeometry& vector = tensor_at(graph, place).geometry;
    (place == m->bias ? p.bias_stride : p.scale_stride) = vector.strides[1];
    if (vector.type == p.y.type && is_floating(p.y.type)) continue;
    if (vector.type != GPUDNN_DATA_FLOAT || (data_type_bits(p.y.type) != 16 && is_floating(p.y.type)))
      return no_match(why, "bias and scale are of the output's type, or floats beside 16 bits and integers");
    p.float_vectors = 1;
  }
  const auto is_float = [&graph](int place) {
    return place < 0 || tensor_at(graph, place).geometry.type == GPUDNN_DATA_FLOAT;
  };
  if (p.float_vectors != 0 && !(is_float(m->bias) && is_float(m->scale)))
    return no_match(why, "bias and scale are of different types");
  return true;
}

// A float for each channel, one after the other. Absent ones fit.
bool is_sum(const Graph& graph, int place, const TensorGeometry& y) {
  if (place < 0) return true;
  const Tensor& t = tensor_at(graph, place);
  return !t.is_virtual && !t.by_value && t.vector_count == 1 && t.geometry.type == GPUDNN_DATA_FLOAT &&
         is_bias(t.geometry, y) && t.geometry.strides[1] == 1;
}

bool match_sums(const Graph& graph, const Node& node, Match* m, std::string* why) {
  if (node.op != Op::gen_stats || node.at(Port::x) != m->out) return no_match(why, "the graph has further operations");
  m->sum = node.at(Port::sum);
  m->squares = node.at(Port::sqsum);
  const bool fits = is_sum(graph, m->sum, m->problem.y) && is_sum(graph, m->squares, m->problem.y);
  return fits || no_match(why, "sums by channel are floats, one after the other");
}

bool match_epilogue(const Graph& graph, Match* m, std::string* why) {
  std::size_t taken = 1;
  while (tensor_at(graph, m->out).is_virtual) {
    const Node* next = only_reader(graph, m->out);
    if (next == nullptr || next->op != Op::pointwise)
      return no_match(why, "what follows is no chain of pointwise operations");
    if (m->problem.activation >= 0) return no_match(why, "operations follow the activation");
    const bool fits = next->mode == GPUDNN_POINTWISE_ADD   ? match_add(graph, *next, m, why)
                      : next->mode == GPUDNN_POINTWISE_MUL ? match_scale(graph, *next, m, why)
                                                           : match_activation(*next, m, why);
    if (!fits) return false;
    m->out = next->at(Port::y);
    if (!same_dims(tensor_at(graph, m->out).geometry, m->problem.y))
      return no_match(why, "the output has other dimensions than the convolution");
    ++taken;
  }
  if (taken + 1 < graph.nodes.size()) return no_match(why, "the graph has further operations");
  if (taken < graph.nodes.size() && !match_sums(graph, graph.nodes.back(), m, why)) return false;
  m->problem.y = tensor_at(graph, m->out).geometry;
  if (taken > 1 && m->problem.activation < 0) m->problem.activation = GPUDNN_ACTIVATION_IDENTITY;
  if (m->z >= 0 && m->scalars.alpha2 != 0) {
    m->problem.has_z = 1;
    m->problem.z = tensor_at(graph, m->z).geometry;
  } else {
    m->z = -1;
  }
  return match_vectors(graph, m, why);
}

bool match_graph(const Graph& graph, Match* m, std::string* why) {
  if (graph.nodes.empty()) return no_match(why, "the graph has no operation");
  const Node& node = graph.nodes.front();
  if (node.op != Op::conv_fwd && node.op != Op::conv_dgrad && node.op != Op::conv_wgrad)
    return no_match(why, "the first operation is no convolution");
  if (!match_convolution(graph, node, m, why)) return false;
  if (node.op == Op::conv_fwd) {
    if (node.beta != 0 && graph.nodes.size() > 1)
      return no_match(why, "the convolution adds to its output, and is read on");
    if (!match_epilogue(graph, m, why)) return false;
  } else if (graph.nodes.size() > 1 || tensor_at(graph, m->out).is_virtual) {
    return no_match(why, "a gradient of a convolution stands alone");
  }
  if (!passed(conv::validate(m->problem, conv::PaddingBehind::any), why)) return false;
  for (const int place :
       {m->x, m->w, m->y == m->out || m->problem.direction != conv::Direction::forward ? m->y : -1, m->z, m->out})
    if (place >= 0) m->alignment = std::min(m->alignment, tensor_at(graph, place).alignment);
  return true;
}

bool wants_sums(const Match& match) { return match.sum >= 0 || match.squares >= 0; }

// The config's workspace, with that of the sums by channel where the graph has them; nothing where the config has none.
std::optional<std::size_t> workspace_of(const Match& match, const conv::Config& config, std::size_t workspace,
                                        const Device& device) {
  if (!wants_sums(match)) return workspace;
  const std::size_t sums = conv::sums_workspace(match.problem, config, device);
  return sums > 0 ? std::optional(workspace + sums) : std::nullopt;
}

// A pass of its own over the result, as `segments` makes it where no good config has the sums.
double seconds_of_sums(const Match& match, const Device& device) {
  constexpr double kLaunches = 6e-6;
  return kLaunches + static_cast<double>(size_in_bytes(match.problem.y)) / device.rates.copy_bytes;
}

const conv::ConvEngine* inner_engine(const Engine& engine) {
  for (const conv::ConvEngine& one : conv::engines())
    if (std::strcmp(one.name, engine.inner) == 0) return &one;
  return nullptr;
}

gpudnnMathType_t math_of(bool tensor_cores) { return tensor_cores ? GPUDNN_TENSOR_OP_MATH : GPUDNN_FMA_MATH; }

// The rows that stand for an engine of convolution: with tensor cores and without, or one alone.
struct Rows {
  const Engine* with = nullptr;
  const Engine* without = nullptr;
};

const Rows& rows_of(const conv::ConvEngine& inner) {
  static const std::vector<Rows> all = [] {
    std::vector<Rows> rows(conv::engines().size());
    for (const Engine& engine : engines()) {
      const conv::ConvEngine* of = engine.inner == nullptr ? nullptr : inner_engine(engine);
      if (of == nullptr) continue;
      Rows& row = rows[static_cast<std::size_t>(of - conv::engines().data())];
      (engine.tensor_cores ? row.with : row.without) = &engine;
    }
    return rows;
  }();
  return all[static_cast<std::size_t>(&inner - conv::engines().data())];
}

bool has_row_with_tensor_cores(const conv::ConvEngine& inner) { return rows_of(inner).with != nullptr; }
bool has_row_without_tensor_cores(const conv::ConvEngine& inner) { return rows_of(inner).without != nullptr; }

// The knobs that stand for a config: the row of the tile list, the splits and the kernel, which is 0 but for the engine
// that packs copies: there its inner engine and whether channels are padded. Every engine has the last one because
// clients go over its range to find an engine's kernels.
std::array<Knob, 3> knobs_of(const conv::Config& inner) {
  std::int64_t kernel = 0;
  if (inner.inner != nullptr) {
    const Rows& rows = rows_of(*inner.inner);
    const Engine* engine = rows.with != nullptr ? rows.with : rows.without;
    kernel = 2 * (engine != nullptr ? engine->index : 0) + (inner.padded ? 1 : 0);
  }
  return {{{GPUDNN_KNOB_TYPE_TILE_SIZE, inner.tile},
           {GPUDNN_KNOB_TYPE_SPLIT_K_SLC, inner.split_k},
           {GPUDNN_KNOB_TYPE_KERNEL_CFG, kernel}}};
}

Config config_of(const conv::Config& inner, std::size_t workspace, double seconds) {
  const std::array<Knob, 3> knobs = knobs_of(inner);
  return {{knobs.begin(), knobs.end()}, workspace, seconds};
}

class ConvolutionWork final : public Work {
 public:
  ConvolutionWork(const Match& match, std::shared_ptr<const conv::Plan> plan) : match_(match), plan_(std::move(plan)) {}

  [[nodiscard]] std::size_t workspace() const noexcept override { return plan_->choice.workspace; }

  [[nodiscard]] Status run(gpudnnHandle_t handle, void* const* data, void* workspace) const override {
    conv::Args args = match_.scalars;
    const auto at = [data](int place) { return place < 0 ? nullptr : data[place]; };
    const conv::Direction direction = match_.problem.direction;
    if (direction != conv::Direction::dgrad) args.x = at(match_.x);
    if (direction != conv::Direction::wgrad) args.w = at(match_.w);
    if (direction != conv::Direction::forward) args.y = at(match_.y);
    args.out = at(match_.out);
    args.z = at(match_.z);
    args.bias = at(match_.bias);
    args.scale = at(match_.scale);
    args.sum = static_cast<float*>(at(match_.sum));
    args.squares = static_cast<float*>(at(match_.squares));
    const bool complete = (args.x != nullptr || direction == conv::Direction::dgrad) &&
                          (args.w != nullptr || direction == conv::Direction::wgrad) &&
                          (args.y != nullptr || direction == conv::Direction::forward) && args.out != nullptr &&
                          (args.z != nullptr || match_.z < 0) && (args.bias != nullptr || match_.bias < 0) &&
                          (args.scale != nullptr || match_.scale < 0) && (args.sum != nullptr || match_.sum < 0) &&
                          (args.squares != nullptr || match_.squares < 0);
    GPUDNN_REQUIRE(complete, GPUDNN_STATUS_BAD_PARAM_NULL_POINTER, "a data pointer of the convolution is null");
    const std::size_t needed = plan_->choice.engine->alignment;
    GPUDNN_REQUIRE(conv::alignment_of(args) >= needed, GPUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
                   "a data pointer is no multiple of %zu, which the tensors' BYTE_ALIGNMENT promised", needed);
    return conv::launch_verified(handle, match_.problem, *plan_, args, workspace, plan_->choice.workspace);
  }

 private:
  Match match_;
  std::shared_ptr<const conv::Plan> plan_;
};

}  // namespace

std::vector<Config> conv_configs(const Engine& engine, const Graph& graph, const Device& device, std::string* why) {
  Match match;
  std::vector<Config> configs;
  if (!match_graph(graph, &match, why)) return configs;
  const conv::ConvEngine* inner = inner_engine(engine);
  if (inner == nullptr) {
    *why = "this build does not have it";
    return configs;
  }
  match.problem.math = math_of(engine.tensor_cores);
  if (match.alignment < inner->alignment) {
    *why = "the tensors are not aligned to 16 bytes";
    return configs;
  }
  if (const Support support = inner->supports(match.problem, device); !support) {
    *why = support.reason_against;
    return configs;
  }
  std::vector<conv::Candidate> candidates;
  inner->candidates(match.problem, device, &candidates);
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const conv::Candidate& a, const conv::Candidate& b) { return a.seconds < b.seconds; });
  for (const conv::Candidate& candidate : candidates) {
    const std::optional<std::size_t> workspace = workspace_of(match, candidate.config, candidate.workspace, device);
    if (workspace) configs.push_back(config_of(candidate.config, *workspace, candidate.seconds));
  }
  if (configs.empty() && !candidates.empty()) *why = "it does not sum the result by channel on its epilogue";
  return configs;
}

Status conv_prepare(const Engine& engine, const GraphRef& graph, const Device& device, const Knobs& knobs,
                    WorkRef* work) {
  Match match;
  std::string why;
  GPUDNN_REQUIRE(match_graph(*graph, &match, &why), GPUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "%s", why.c_str());
  match.problem.math = math_of(engine.tensor_cores);
  conv::Choice choice;
  choice.engine = inner_engine(engine);
  GPUDNN_REQUIRE(choice.engine != nullptr, GPUDNN_STATUS_NOT_SUPPORTED, "this build has no engine %s", engine.name);
  const Support support = choice.engine->supports(match.problem, device);
  GPUDNN_REQUIRE(support, GPUDNN_STATUS_NOT_SUPPORTED, "engine %s: %s", engine.name, support.reason_against);
  std::vector<conv::Candidate> candidates;
  choice.engine->candidates(match.problem, device, &candidates);
  const auto found = std::find_if(candidates.begin(), candidates.end(), [&](const conv::Candidate& candidate) {
    const std::array<Knob, 3> of = knobs_of(candidate.config);
    return std::equal(of.begin(), of.end(), knobs.begin(), knobs.end());
  });
  GPUDNN_REQUIRE(found != candidates.end(), GPUDNN_STATUS_NOT_SUPPORTED,
                 "engine %s has no config with these knob values for this convolution", engine.name);
  choice.config = found->config;
  const std::optional<std::size_t> workspace = workspace_of(match, found->config, found->workspace, device);
  GPUDNN_REQUIRE(workspace.has_value(), GPUDNN_STATUS_NOT_SUPPORTED,
                 "engine %s does not sum the result by channel with this config", engine.name);
  choice.workspace = *workspace;
  *work = std::make_shared<ConvolutionWork>(match, conv::prepare_plan(choice, match.problem, device));
  return GPUDNN_STATUS_SUCCESS;
}

bool rank_convolution(const Graph& graph, const Device& device, std::vector<Choice>* choices, std::string* why) {
  Match match;
  if (!match_graph(graph, &match, why)) {
    // Of a graph without a convolution there is nothing to say.
    const bool has_one = std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
      return node.op == Op::conv_fwd || node.op == Op::conv_dgrad || node.op == Op::conv_wgrad;
    });
    *why = has_one ? "convolution engines: " + *why : "";
    return false;
  }
  std::vector<const Engine*> seen;
  double without_sums = std::numeric_limits<double>::infinity();
  for (const bool tensor_cores : {true, false}) {
    match.problem.math = math_of(tensor_cores);
    double least = 0;  // what measurements put first stays first, whatever the models say of the others
    const auto has_row = tensor_cores ? &has_row_with_tensor_cores : &has_row_without_tensor_cores;
    for (const conv::Choice& ranked : conv::rank_with_measurements(match.problem, device, has_row)) {
      least = std::max(least, ranked.seconds);
      const Rows& rows = rows_of(*ranked.engine);
      const Engine* engine = tensor_cores ? rows.with : rows.without;
      if (ranked.engine->alignment > match.alignment) continue;
      if (std::find(seen.begin(), seen.end(), engine) != seen.end()) continue;
      without_sums = std::min(without_sums, ranked.seconds);
      const std::optional<std::size_t> workspace = workspace_of(match, ranked.config, ranked.workspace, device);
      if (!workspace) continue;
      seen.push_back(engine);
      choices->push_back({engine, config_of(ranked.config, *workspace, least)});
    }
  }
  if (wants_sums(match)) {
    const double most = without_sums + seconds_of_sums(match, device);
    std::erase_if(*choices, [most](const Choice& choice) { return choice.config.seconds > most; });
    if (choices->empty()) *why = "convolution engines: none sums the result by channel on its epilogue";
  }
  // Where no tensor type profits from them, engines without tensor cores stand in both lists.
  std::stable_sort(choices->begin(), choices->end(),
                   [](const Choice& a, const Choice& b) { return a.config.seconds < b.config.seconds; });
  // Transforms lose digits: a client that takes the first of its kind without looking at notes gets none.
  const auto plain = std::find_if(choices->begin(), choices->end(), [](const Choice& choice) {
    return !choice.engine->tensor_cores && !choice.engine->is_winograd;
  });
  if (plain != choices->end())
    std::stable_partition(choices->begin(), plain + 1,
                          [](const Choice& choice) { return !choice.engine->is_winograd; });
  return !choices->empty();
}

}  // namespace gpudnn::graph
