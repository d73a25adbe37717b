// Random legal graphs of up to 12 operations of all kinds: every engine that takes one, against the interpreter, which
// evaluates operation by operation in double.
//
// Longer than most files: what graphs are drawn, what their roundings may do and who is compared are one argument.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>

#include "client.hpp"
#include "graph/engine.hpp"
#include "graph/interpret/state.hpp"
#include "support/backend.hpp"
#include "support/session.hpp"

namespace gpudnn::test {
namespace {

constexpr std::int64_t kInterpreter = 100;
constexpr std::int64_t kSegments = 101;
constexpr std::int64_t kNode = 330;
constexpr int kCasesForAll = 400;  // graphs that have every kind of operation among them, and every engine
using Dims = std::vector<std::int64_t>;

std::string joined(const Dims& dims, char with) {
  std::string text;
  for (const std::int64_t dim : dims) text += (text.empty() ? "" : std::string(1, with)) + std::to_string(dim);
  return text;
}

// Writes a graph as text, operation by operation. Functions are continuous and grow slowly, so that the effect of
// roundings on the way can be told (RoundingEffect).
class RandomGraph {
 public:
  explicit RandomGraph(Random& random) : random_(random) {
    narrow_ = random.chance(0.2);
    const Dims dims = {random.between(1, 3), 2 * random.between(1, 3), random.between(3, 6), random.between(3, 6)};
    results_.push_back({input(dims), dims});
    const std::int64_t count = random.between(1, 12);
    for (std::int64_t i = 0; i < count; ++i) add(i + 1 == count);
  }
  [[nodiscard]] std::string text() const { return tensors_ + operations_; }
  std::map<std::int64_t, std::vector<double>> values;  // of inputs that must not be arbitrary

 private:
  struct Result {
    std::string uid;
    Dims dims;
  };

  std::string type() { return narrow_ && random_.chance(0.5) ? random_.pick({"f16", "bf16"}) : "f32"; }
  // Row-major, channels last, or with a gap between rows.
  std::string strides(const Dims& dims) {
    if (dims.size() != 4 || random_.chance(0.6)) return "";
    if (random_.chance(0.5))
      return " strides=" + joined({dims[1] * dims[2] * dims[3], 1, dims[3] * dims[1], dims[1]}, ',');
    const std::int64_t row = dims[3] + 2;
    return " strides=" + joined({dims[1] * dims[2] * row, dims[2] * row, row, 1}, ',');
  }
  std::string tensor(const std::string& type_name, const Dims& dims, const std::string& rest) {
    tensors_ += "tensor " + std::to_string(next_) + ' ' + type_name + ' ' + joined(dims, 'x') + rest + '\n';
    return std::to_string(next_++);
  }
  std::string input(const Dims& dims) { return tensor(type(), dims, strides(dims)); }
  std::string input(const Dims& dims, std::vector<double> numbers, const std::string& type_name = "f32",
                    const std::string& rest = "") {
    const std::string uid = tensor(type_name, dims, rest);
    values[std::stoll(uid)] = std::move(numbers);
    return uid;
  }
  std::string number(double value, std::size_t rank = 4) { return input(Dims(rank, 1), {value}, "f32", " by_value"); }
  std::string output(const Dims& dims, bool keep) {
    const bool is_virtual = !last_ && random_.chance(0.6);
    const std::string uid = is_virtual ? tensor(type(), dims, " virtual") : tensor(type(), dims, strides(dims));
    if (keep) results_.push_back({uid, dims});
    return uid;
  }
  // A result that later operations do not read, so it must leave the graph.
  std::string side(const Dims& dims) { return tensor("f32", dims, ""); }
  void operation(const std::string& words) { operations_ += words + '\n'; }
  Result any() {
    const auto count = static_cast<std::int64_t>(results_.size());
    return results_[static_cast<std::size_t>(random_.chance(0.7) ? count - 1 : random_.between(0, count - 1))];
  }
  Dims broadcast(Dims dims) {
    for (std::int64_t& dim : dims)
      if (random_.chance(0.4)) dim = 1;
    return dims;
  }

  void add(bool last);
  void pointwise(const Result& x);
  void select(const Result& x);
  void reduction(const Result& x);
  void matmul(const Result& x);
  void convolution(const Result& x);
  void gradients(const Result& x);
  void norm(const Result& x);
  void norm_backward(const Result& x);
  void statistics(const Result& x);
  void resample(const Result& x);
  void move(const Result& x);
  void random_mask(const Result& x);
  void block_scale(const Result& x);
  void attention(const Result& x);
  void experts();
  void pages();

  Random& random_;
  bool narrow_ = false;
  bool last_ = false;
  std::int64_t next_ = 1;
  std::vector<Result> results_;
  std::string tensors_, operations_;
};

void RandomGraph::add(bool last) {
  last_ = last;
  const Result x = any();
  const bool image = x.dims.size() == 4;
  switch (random_.between(0, 19)) {
    case 0:
      return select(x);
    case 1:
    case 2:
      return reduction(x);
    case 3:
      return matmul(x);
    case 4:
      return image ? convolution(x) : pointwise(x);
    case 5:
      return image ? gradients(x) : pointwise(x);
    case 6:
      return image ? norm(x) : pointwise(x);
    case 7:
      return image ? norm_backward(x) : pointwise(x);
    case 8:
      return image ? statistics(x) : pointwise(x);
    case 9:
      return image ? resample(x) : pointwise(x);
    case 10:
      return move(x);
    case 11:
      return random_mask(x);
    case 12:
      return block_scale(x);
    case 13:
      return image ? attention(x) : pointwise(x);
    case 14:
      return random_.chance(0.5) ? experts() : pages();
    default:
      return pointwise(x);
  }
}

void RandomGraph::pointwise(const Result& x) {
  const std::string one =
      random_.pick({"abs", "sin", "cos", "erf", "identity", "neg", "relu_fwd", "tanh_fwd", "sigmoid_fwd", "elu_fwd",
                    "gelu_fwd", "gelu_approx_tanh_fwd", "softplus_fwd", "swish_fwd"});
  const std::string two = random_.pick({"add", "sub", "min", "max", "mul"});
  const std::string back =
      random_.pick({"tanh_bwd", "sigmoid_bwd", "gelu_bwd", "softplus_bwd", "swish_bwd", "gelu_approx_tanh_bwd"});
  const double form = random_.uniform();
  if (form < 0.5) return operation("pointwise " + one + " x=" + x.uid + " y=" + output(x.dims, true) + " compute=f32");
  if (form < 0.6) {
    const std::string dy = input(x.dims);
    return operation("pointwise " + back + " x=" + x.uid + " dy=" + dy + " dx=" + output(x.dims, true) +
                     " compute=f32");
  }
  const std::string b = form < 0.7 ? number(0.5, x.dims.size()) : input(broadcast(x.dims));
  const bool alpha = random_.chance(0.2);
  operation("pointwise " + two + (random_.chance(0.5) ? " x=" + x.uid + " b=" + b : " b=" + x.uid + " x=" + b) +
            (alpha ? " alpha1=0.5 alpha2=-1.5" : "") + " y=" + output(x.dims, true) + " compute=f32");
}

// Rows and columns compared, which no rounding moves.
void RandomGraph::select(const Result& x) {
  const auto axis = [&] { return std::to_string(random_.between(0, static_cast<std::int64_t>(x.dims.size()) - 1)); };
  const std::string a = tensor("i32", x.dims, " virtual"), b = tensor("i32", x.dims, " virtual");
  const std::string t = tensor("bool", x.dims, " virtual");
  operation("pointwise gen_index x=" + x.uid + " y=" + a + " compute=i32 axis=" + axis());
  operation("pointwise gen_index x=" + x.uid + " y=" + b + " compute=i32 axis=" + axis());
  operation(std::string("pointwise ") + random_.pick({"cmp_ge", "cmp_lt", "cmp_eq"}) + " x=" + a + " b=" + b +
            " y=" + t + " compute=f32");
  operation("pointwise binary_select x=" + x.uid + " b=" + number(-0.25, x.dims.size()) + " t=" + t +
            " y=" + output(x.dims, true) + " compute=f32");
}

void RandomGraph::reduction(const Result& x) {
  Dims dims = broadcast(x.dims);
  operation(std::string("reduction ") + random_.pick({"add", "min", "max", "amax", "avg", "norm1", "norm2"}) +
            " x=" + x.uid + " y=" + output(dims, true) + " compute=f32");
}

void RandomGraph::matmul(const Result& x) {
  if (x.dims.size() < 3) return pointwise(x);
  Dims b = x.dims;
  Dims y = x.dims;
  b[b.size() - 2] = x.dims.back();
  y.back() = b.back() = random_.between(1, 6);
  if (random_.chance(0.3)) b[0] = 1;
  operation("matmul x=" + x.uid + " b=" + input(b) + " y=" + output(y, true) + " compute=f32");
}

void RandomGraph::convolution(const Result& x) {
  const Dims w = {2 * random_.between(1, 3), x.dims[1] % 2 == 0 && random_.chance(0.3) ? x.dims[1] / 2 : x.dims[1],
                  random_.between(1, 3), random_.between(1, 3)};
  const std::int64_t before = random_.between(0, 1), after = random_.between(1, 2), step = random_.between(1, 2);
  const auto extent = [&](std::size_t i) { return (x.dims[i] + before + after - w[i]) / step + 1; };
  if (x.dims[2] + before + after < w[2] || x.dims[3] + before + after < w[3]) return pointwise(x);
  const Dims y = {x.dims[0], w[0], extent(2), extent(3)};
  const auto both = [](std::int64_t n) { return joined({n, n}, 'x'); };
  operation(std::string("conv_fwd ") + random_.pick({"cross", "convolution"}) + " x=" + x.uid + " w=" + input(w) +
            " y=" + output(y, true) + " compute=f32 pre=" + both(before) + " post=" + both(after) +
            " stride=" + both(step) + " dilation=1x1");
}

// x is the gradient of the output of a 3x3 convolution whose padding, before and behind, keeps the image's extents.
void RandomGraph::gradients(const Result& x) {
  const std::int64_t channels = random_.between(1, 4);
  const Dims image = {x.dims[0], channels, x.dims[2], x.dims[3]};
  const Dims w = {x.dims[1], channels, 3, 3};
  const std::int64_t before = random_.pick<std::int64_t>({0, 1, 1, 2});
  const std::string rest = " compute=f32 pre=1x" + std::to_string(before) + " post=1x" + std::to_string(2 - before) +
                           " stride=1x1 dilation=1x1";
  if (random_.chance(0.5)) {
    operation("conv_dgrad cross dy=" + x.uid + " w=" + input(w) + " dx=" + output(image, true) + rest);
  } else {
    operation("conv_wgrad cross dy=" + x.uid + " x=" + input(image) + " dw=" + output(w, true) + rest);
  }
}

void RandomGraph::norm(const Result& x) {
  const std::string mode = random_.pick({"layer", "rms", "instance", "batch"});
  const bool along_rows = mode == "instance" || mode == "batch";
  const Dims parameters = along_rows ? Dims{1, x.dims[1], 1, 1} : Dims{1, x.dims[1], x.dims[2], x.dims[3]};
  const Dims statistics = mode == "instance" ? Dims{x.dims[0], x.dims[1], 1, 1}
                          : mode == "batch"  ? Dims{1, x.dims[1], 1, 1}
                                             : Dims{x.dims[0], 1, 1, 1};
  const std::string scale = tensor("f32", parameters, ""), bias = tensor("f32", parameters, "");
  const bool train = mode == "batch" || random_.chance(0.5);
  if (mode == "batch" && random_.chance(0.3))
    return operation("norm_fwd batch x=" + x.uid + " mean=" + tensor("f32", statistics, "") + " inverse=" +
                     input(statistics, {0.5}) + " scale=" + scale + " bias=" + bias + " y=" + output(x.dims, true));
  operation("norm_fwd " + mode + " x=" + x.uid + " scale=" + scale + " bias=" + bias + " epsilon=" + number(0.5) +
            (train && mode != "rms" ? " mean=" + side(statistics) : "") +
            (train ? " inverse=" + side(statistics) : "") + " y=" + output(x.dims, true) + (train ? " phase=1" : ""));
}

void RandomGraph::norm_backward(const Result& x) {
  const std::string mode = random_.pick({"layer", "rms", "instance", "batch"});
  const bool along_rows = mode == "instance" || mode == "batch";
  const Dims parameters = along_rows ? Dims{1, x.dims[1], 1, 1} : Dims{1, x.dims[1], x.dims[2], x.dims[3]};
  const Dims statistics = mode == "instance" ? Dims{x.dims[0], x.dims[1], 1, 1}
                          : mode == "batch"  ? Dims{1, x.dims[1], 1, 1}
                                             : Dims{x.dims[0], 1, 1, 1};
  operation("norm_bwd " + mode + " x=" + tensor(type(), x.dims, "") + " dy=" + x.uid + " scale=" +
            tensor("f32", parameters, "") + (mode == "rms" ? "" : " mean=" + input(statistics, {0.25, -0.5})) +
            " inverse=" + input(statistics, {0.5, 1}) + " dscale=" + side(parameters) + " dbias=" + side(parameters) +
            " dx=" + output(x.dims, true));
}

void RandomGraph::statistics(const Result& x) {
  const Dims channels = {1, x.dims[1], 1, 1};
  if (random_.chance(0.6))
    return operation("gen_stats x=" + x.uid + " sum=" + side(channels) + " sqsum=" + side(channels));
  const auto given = [&] { return tensor("f32", channels, ""); };
  if (random_.chance(0.5))
    return operation("bn_weights mean=" + given() + " inverse=" + input(channels, {0.5, 0.75}) + " scale=" + given() +
                     " x=" + tensor("f32", x.dims, "") + " dy=" + x.uid + " dscale=" + side(channels) +
                     " dbias=" + side(channels) + " eq_dy_scale=" + side(channels) + " eq_x_scale=" + side(channels) +
                     " eq_bias=" + side(channels) + " compute=f32");
  operation("bn_finalize sum=" + input(channels, {3, -5}) + " sqsum=" + input(channels, {90, 70}) + " scale=" +
            given() + " bias=" + given() + " running_mean_in=" + given() + " running_var_in=" + input(channels, {0.5}) +
            " running_mean_out=" + side(channels) + " running_var_out=" + side(channels) + " mean=" + side(channels) +
            " inverse=" + side(channels) + " eq_scale=" + side(channels) + " eq_bias=" + side(channels) + " count=" +
            input({1, 1, 1, 1}, {64}, "i64", " by_value") + " epsilon=" + number(0.01) + " factor=" + number(0.25));
}

void RandomGraph::resample(const Result& x) {
  if (x.dims[2] < 2 || x.dims[3] < 2) return pointwise(x);
  const std::string mode = random_.pick({"avg_include", "avg_exclude", "max", "nearest", "bilinear"});
  if (mode == "nearest" || mode == "bilinear") {
    const Dims y = {x.dims[0], x.dims[1], 2 * x.dims[2], 2 * x.dims[3]};
    return operation("resample_fwd " + mode + " x=" + x.uid + " y=" + output(y, true) +
                     " compute=f32 pre=1/4x1/4 post=1/4x1/4 stride=1/2x1/2 window=2x2 padding_mode=2");
  }
  const Dims y = {x.dims[0], x.dims[1], x.dims[2] / 2, x.dims[3] / 2};
  const std::string rest = " compute=f32 pre=0x0 post=0x0 stride=2x2 window=2x2";
  if (random_.chance(0.6))
    return operation("resample_fwd " + mode + " x=" + x.uid + " y=" + output(y, true) + rest +
                     (mode == "max" ? " padding_mode=1" : ""));
  // Backward: windows of three pixels, which overlap. A maximum goes by x, or by the index.
  const Dims image = {x.dims[0], x.dims[1], 2 * x.dims[2], 2 * x.dims[3]};
  std::string places;
  if (mode == "max" && random_.chance(0.5)) places = " index=" + input(x.dims, {0, 4, 8, 3}, "i8");
  if (mode == "max" && places.empty()) places = " x=" + tensor("f32", image, "");
  operation("resample_bwd " + mode + " dy=" + x.uid + " dx=" + output(image, true) + places +
            " compute=f32 pre=1x1 post=0x0 stride=2x2 window=3x3" + (mode == "max" ? " padding_mode=1" : ""));
}

void RandomGraph::move(const Result& x) {
  if (random_.chance(0.5)) {
    Dims other = x.dims;
    const auto axis = static_cast<std::size_t>(random_.between(0, static_cast<std::int64_t>(x.dims.size()) - 1));
    other[axis] = random_.between(1, 3);
    Dims y = x.dims;
    y[axis] += other[axis];
    return operation("concat item=" + x.uid + " item=" + input(other) + " y=" + output(y, true) +
                     " axis=" + std::to_string(axis));
  }
  // The same order of elements, whatever the strides: both are row-major.
  const std::string packed = tensor("f32", x.dims, " virtual");
  operation("pointwise identity x=" + x.uid + " y=" + packed + " compute=f32");
  Dims y = x.dims;
  y[0] *= y[1];
  y.erase(y.begin() + 1);
  if (y.size() < 3) y.push_back(1);
  const std::string uid = tensor(type(), y, last_ ? "" : " virtual");
  results_.push_back({uid, y});
  operation("reshape x=" + packed + " y=" + uid);
}

void RandomGraph::random_mask(const Result& x) {
  const std::string mask = tensor("f32", x.dims, random_.chance(0.5) ? " virtual" : "");
  const std::string mode = random_.pick({"bernoulli", "uniform", "normal"});
  const std::string seed = input(Dims(x.dims.size(), 1), {static_cast<double>(random_.between(0, 1000))}, "i64");
  operation("rng " + mode + " y=" + mask + " seed=" + seed + " offset=" + input(Dims(x.dims.size(), 1), {3}, "i64") +
            (mode == "bernoulli" ? " probability=0.75" : ""));
  operation("pointwise mul x=" + x.uid + " b=" + mask + " y=" + output(x.dims, true) + " compute=f32");
}

void RandomGraph::block_scale(const Result& x) {
  const std::int64_t block = 16;
  Dims dims = x.dims;
  dims.back() = 2 * block;
  Dims scales = dims;
  scales.back() = 2;
  const std::string scale = input(scales, {0.5, 2, 0.25}, "f8e8m0");
  const std::string narrow = tensor(random_.pick({"f8e4m3", "f4e2m1", "i4", "u4"}), dims, "");
  operation("dequantize x=" + narrow + " scale=" + scale + " y=" + output(dims, true) +
            " compute=f32 block=" + std::to_string(block));
}

void RandomGraph::attention(const Result& x) {
  const Dims kv = {x.dims[0], x.dims[1] % 2 == 0 ? x.dims[1] / 2 : x.dims[1], random_.between(1, 7), x.dims[3]};
  // q, k, v and o have one type.
  const std::string q = tensor("f32", x.dims, " virtual");
  operation("pointwise sigmoid_fwd x=" + x.uid + " y=" + q + " compute=f32");
  operation("sdpa_fwd q=" + q + " k=" + tensor("f32", kv, "") + " v=" + tensor("f32", kv, "") +
            " scale=" + number(0.5) + " o=" + tensor("f32", x.dims, "") +
            (random_.chance(0.5) ? " stats=" + side({x.dims[0], x.dims[1], x.dims[2], 1}) : ""));
}

void RandomGraph::experts() {
  const std::int64_t tokens = random_.between(4, 12), inner = random_.between(1, 6), width = random_.between(1, 5);
  const Dims y = {1, tokens, width};
  operation("moe in_order x=" + tensor("f32", {1, tokens, inner}, "") + " w=" + tensor("f32", {2, inner, width}, "") +
            " token_offset=" + input({2, 1, 1}, {0, 3}, "i32") + " y=" + output(y, true) + " compute=f32");
}

void RandomGraph::pages() {
  const Dims y = {2, 2, 6, 3};
  operation("paged_load x=" + tensor("f32", {4, 2, 4, 3}, "") +
            " page_table=" + input({2, 1, 2, 1}, {3, 0, 2, 1}, "i32") +
            " seq_len=" + input({2, 1, 1, 1}, {6, 3}, "i32") + " y=" + output(y, true));
}

double largest_of(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values)
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  return largest;
}

bool is_product(const graph::Node& node) {
  return node.op == graph::Op::conv_fwd || node.op == graph::Op::conv_dgrad || node.op == graph::Op::conv_wgrad ||
         node.op == graph::Op::matmul || node.op == graph::Op::moe || node.op == graph::Op::sdpa_fwd;
}

using Change = std::function<void(const graph::Node&, const graph::Tensor&, std::vector<double>*)>;

// Interprets the graph with changes: of what an operation reads, for that operation alone, and of what it gives.
void interpret(const graph::Graph& graph, const Change& read, const Change& given, Memory* memory) {
  std::vector<void*> data;
  for (const graph::Tensor& t : graph.tensors) data.push_back(t.is_virtual ? nullptr : memory->pointer(t.uid));
  graph::State state(graph, data.data());
  ASSERT_EQ(state.load_inputs(), GPUDNN_STATUS_SUCCESS);
  for (const graph::Node& node : graph.nodes) {
    std::map<int, std::vector<double>> exact;
    for (const graph::Link& link : node.links) {
      if (is_output(node, link.port)) continue;
      std::vector<double>& values = state.value(link.tensor).v;
      if (exact.try_emplace(link.tensor, values).second) read(node, state.tensor(link.tensor), &values);
    }
    ASSERT_EQ(graph::interpret_node(node, &state), GPUDNN_STATUS_SUCCESS);
    for (auto& [place, values] : exact) state.value(place).v = std::move(values);
    for (const graph::Link& link : node.links) {
      if (!is_output(node, link.port)) continue;
      given(node, state.tensor(link.tensor), &state.value(link.tensor).v);
      ASSERT_EQ(state.finish(node, link.port), GPUDNN_STATUS_SUCCESS);
    }
  }
}

bool is_tf32(const graph::Node& node, const graph::Tensor& tensor) {
  return is_product(node) && tensor.geometry.type == GPUDNN_DATA_FLOAT && !tensor.by_value;
}

// How far roundings on the way lead, for each tensor that leaves the graph: the greatest change over some
// interpretations in which every value is off by what an engine may round away, up or down at random. Values are off by
// half a unit of their tensor's type, as engines of one kernel do not round what they keep; float values by 2^-20 and a
// little of their tensor's greatest one, as sums and functions in float are; products of float by 2^-17 of the
// greatest, as by transforms; and what products of float read is cut by up to 2^-10 where they are of TF32: tensor
// cores leave out the bits that TF32 has not, so that errors have one sign and sums of many products keep their mean.
class RoundingEffect {
 public:
  RoundingEffect(const graph::Graph& graph, const Memory& start, const Memory& expected, bool tf32, Random* random) {
    const auto shake = [random](std::vector<double>* values, double relative, double absolute) {
      for (double& value : *values) {
        const double by = relative * std::fabs(value) + absolute;
        value += random->chance(0.5) ? by : -by;
      }
    };
    const Change read = [&](const graph::Node& node, const graph::Tensor& tensor, std::vector<double>* values) {
      if (!tf32 || !is_tf32(node, tensor)) return;
      for (double& value : *values) value -= random->chance(0.5) ? 0x1p-10 * value : 0;
    };
    const Change given = [&](const graph::Node& node, const graph::Tensor& tensor, std::vector<double>* values) {
      const DataType type = tensor.geometry.type;
      if (is_floating(type)) shake(values, 0x1p-20, (is_product(node) ? 0x1p-17 : 0x1p-23) * largest_of(*values));
      if (type == GPUDNN_DATA_HALF) shake(values, 0x1p-11, 0);
      if (type == GPUDNN_DATA_BFLOAT16) shake(values, 0x1p-8, 0);
    };
    for (int draw = 0; draw < kDraws; ++draw) {
      Memory memory = start;
      interpret(graph, read, given, &memory);
      for (const graph::Tensor& t : graph.tensors) {
        if (t.is_virtual) continue;
        const std::vector<double> a = memory.values(t.uid);
        const std::vector<double> b = expected.values(t.uid);
        double& effect = effects_[t.uid];
        for (std::size_t i = 0; i < a.size(); ++i)
          if (std::isfinite(a[i]) && std::isfinite(b[i])) effect = std::max(effect, std::fabs(a[i] - b[i]));
      }
    }
  }
  [[nodiscard]] double of(std::int64_t uid) const { return effects_.at(uid); }

 private:
  static constexpr int kDraws = 8;
  std::map<std::int64_t, double> effects_;
};

// Where values differ by more than roundings; empty if nowhere. `effect`, if given, tells what those on the way do:
// four times as much as the draws did is let pass.
std::string difference(const graph::Graph& graph, const Memory& a, const Memory& b, const RoundingEffect* effect) {
  for (const graph::Tensor& t : graph.tensors) {
    if (t.is_virtual) continue;
    const std::vector<double> x = a.values(t.uid);
    const std::vector<double> y = b.values(t.uid);
    const double bound = 5e-5 * std::max(1.0, largest_of(y)) + (effect == nullptr ? 0 : 4 * effect->of(t.uid));
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
      if (!(std::fabs(x[i] - y[i]) <= bound))
        return "tensor " + std::to_string(t.uid) + ", element " + std::to_string(i) + ": " + std::to_string(x[i]) +
               " instead of " + std::to_string(y[i]) + ", bound " + std::to_string(bound);
    }
  }
  return {};
}

// What the engines of `handle` gave, how often each ran; and the graphs that none of them takes.
struct Runs {
  std::map<std::int64_t, int> of_engine;
  std::map<std::string, int> operations;
  std::vector<std::string> refused;  // the reason, and the graph
  int tensors = 0;                   // of those compared with a bound for roundings on the way:
  int blind = 0;                     // whose bound is above a tenth of their greatest value
};

// Every engine that a query of `handle` lists, against the interpreter on the host.
void compare(gpudnnHandle_t handle, int cases, Runs* runs) {
  const gpudnnHandle_t host = Backend::host().handle();
  for (int i = 0; i < cases; ++i) {
    Random random = case_random(session_seed(), static_cast<std::uint64_t>(i));
    const RandomGraph made(random);
    SCOPED_TRACE(made.text());
    std::string why;
    const auto graph = graph::from_text(made.text(), &why);
    ASSERT_TRUE(graph.has_value()) << why;
    for (const graph::Node& node : graph->nodes) ++runs->operations[op_name(node.op)];
    ClientGraph client, on_host;
    build(*graph, handle, &client);
    build(*graph, host, &on_host);
    Memory start(*graph, &random);
    for (const auto& [uid, numbers] : made.values) start.set(uid, numbers);
    Memory expected = start;
    std::optional<RoundingEffect> effects[2];
    ASSERT_EQ(execute(host, make_plan(on_host.graph_descriptor, kInterpreter), &expected), GPUDNN_STATUS_SUCCESS)
        << last_error();
    for (const int mode : {GPUDNN_HEUR_MODE_A, GPUDNN_HEUR_MODE_FALLBACK}) {
      const std::vector<BackendDescriptor> configs = configs_of(client.graph_descriptor, mode);
      if (configs.empty()) runs->refused.push_back(std::string(last_error()) + "\n" + made.text());
      for (const BackendDescriptor& config : configs) {
        const std::int64_t index = engine_index(config);
        if (index == kInterpreter) continue;
        Memory memory = start;
        ASSERT_EQ(execute(handle, make_plan(config), &memory), GPUDNN_STATUS_SUCCESS) << index << ": " << last_error();
        ASSERT_TRUE(memory.guards_intact()) << index;
        ++runs->of_engine[index];
        if (difference(*graph, memory, expected, nullptr).empty()) continue;
        // With tensor cores products of float tensors are of TF32.
        auto& effect = effects[graph::engine_of_index(index)->tensor_cores ? 1 : 0];
        if (!effect) {
          const bool tf32 = graph::engine_of_index(index)->tensor_cores;
          effect.emplace(*graph, start, expected, tf32, &random);
          for (const graph::Tensor& t : graph->tensors) {
            if (t.is_virtual) continue;
            ++runs->tensors;
            runs->blind += 4 * effect->of(t.uid) > 0.1 * std::max(1.0, largest_of(expected.values(t.uid))) ? 1 : 0;
          }
        }
        ASSERT_EQ(difference(*graph, memory, expected, &*effect), "") << "engine " << index;
      }
    }
  }
  std::printf("%d tensors with a bound for roundings on the way, %d of them above a tenth of the greatest value\n",
              runs->tensors, runs->blind);
  for (const auto& [index, count] : runs->of_engine)
    testing::Test::RecordProperty("engine_" + std::to_string(index), count);
}

double as_tf32(double value, bool cut) {
  int exponent = 0;
  const double fraction = std::ldexp(std::frexp(value, &exponent), 11);
  return std::ldexp(cut ? std::trunc(fraction) : std::nearbyint(fraction), exponent - 11);
}

// The bound itself: products whose factors are rounded or cut to TF32, and nothing else that is not in the graph, stay
// within; and most graphs whose products are off by a twentieth of the greatest one do not.
TEST(RandomGraphs, TheBoundOfRoundingsHoldsForTf32AndIsClose) {
  const Change nothing = [](const graph::Node&, const graph::Tensor&, std::vector<double>*) {};
  bool cut = false;
  const Change tf32 = [&cut](const graph::Node& node, const graph::Tensor& tensor, std::vector<double>* values) {
    if (!is_tf32(node, tensor)) return;
    for (double& value : *values) value = as_tf32(value, cut);
  };
  const Change spoilt = [](const graph::Node& node, const graph::Tensor&, std::vector<double>* values) {
    if (!is_product(node)) return;
    for (double& value : *values) value += 0.05 * largest_of(*values);
  };
  int with_products = 0;
  int caught = 0;
  for (int i = 0; i < session_cases(400); ++i) {
    Random random = case_random(session_seed(), static_cast<std::uint64_t>(i));
    const RandomGraph made(random);
    SCOPED_TRACE(made.text());
    std::string why;
    const auto graph = graph::from_text(made.text(), &why);
    ASSERT_TRUE(graph.has_value()) << why;
    Memory start(*graph, &random);
    for (const auto& [uid, numbers] : made.values) start.set(uid, numbers);
    Memory expected = start, rounded = start, wrong = start;
    interpret(*graph, nothing, nothing, &expected);
    cut = i % 2 == 0;
    interpret(*graph, tf32, nothing, &rounded);
    interpret(*graph, nothing, spoilt, &wrong);
    const RoundingEffect effect(*graph, start, expected, true, &random);
    ASSERT_EQ(difference(*graph, rounded, expected, &effect), "");
    if (std::none_of(graph->nodes.begin(), graph->nodes.end(), &is_product)) continue;
    ++with_products;
    caught += difference(*graph, wrong, expected, &effect).empty() ? 0 : 1;
  }
  std::printf("%d of %d graphs with products that are off by a twentieth are found\n", caught, with_products);
  EXPECT_GT(caught, with_products * 3 / 4);
}

TEST(RandomGraphs, EnginesAgreeWithTheInterpreter) {
  Runs runs;
  const int cases = session_cases(2000);
  compare(Backend::host().handle(), cases, &runs);
  EXPECT_TRUE(runs.refused.empty()) << runs.refused.front();
  if (cases < kCasesForAll) return;
  EXPECT_GT(runs.of_engine[kSegments], 0);
  EXPECT_GE(runs.operations.size(), 18U);
}

// On a GPU some convolutions have no engine yet: those of float tensors that a half-precision product is kept in.
TEST(RandomGraphs, EnginesAgreeWithTheInterpreterOnTheDevice) {
  GPUDNN_NEEDS_GPU();
  Runs runs;
  const int cases = session_cases(600);
  compare(Backend::at_hand().handle(), cases, &runs);
  if (cases >= kCasesForAll) {
    EXPECT_GT(runs.of_engine[kSegments], 0);
    EXPECT_GT(runs.of_engine[kNode], 0);
  }
  for (const std::string& graph : runs.refused) EXPECT_NE(graph.find("conv_"), std::string::npos) << graph;
  std::printf("%zu of %d graphs without an engine\n", runs.refused.size(), 2 * cases);
}

}  // namespace
}  // namespace gpudnn::test
