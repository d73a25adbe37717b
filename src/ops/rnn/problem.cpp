// The recurrent-network problem: its weight space, its checks and its text.
//   rnn train f32 lstm l2 uni t20b8 in64 h128 p128 bias=double seq [skip] [math=tensor] [len=20,18,...] [clip=-1,1]
//     [clipnan=0] [drop=0.5] [fill=0] [add]
// SPDX-License-Identifier: Apache-2.0
#include "ops/rnn/problem.hpp"

#include <algorithm>
#include <charconv>

#include "core/layout_words.hpp"
#include "core/problem_text.hpp"
#include "core/validation.hpp"

namespace gpudnn::rnn {
namespace {

constexpr const char* kPasses[] = {"infer", "train", "dgrad", "wgrad"};
constexpr const char* kCells[] = {"relu", "tanh", "lstm", "gru"};
constexpr const char* kBiases[] = {"none", "input", "double", "hidden"};
constexpr const char* kDirections[] = {"uni", "bi"};
constexpr const char* kLayouts[] = {"seq", "packed", "batch"};
constexpr const char* kMaths[] = {"default", "tensor", "conversion", "fma"};

std::int64_t matrix_count(const Network& net, int layer) noexcept {
  const std::int64_t rows = std::int64_t{net.gates()} * net.hidden;
  const std::int64_t input = net.has_input_matrix(layer) ? net.input_width(layer) : 0;
  return rows * (input + net.projected) + (net.projects() ? std::int64_t{net.projected} * net.hidden : 0);
}
std::int64_t bias_count(const Network& net) noexcept {
  return std::int64_t{net.gates()} * net.hidden * ((net.has_input_bias() ? 1 : 0) + (net.has_hidden_bias() ? 1 : 0));
}
// Elements of the matrices in front of a pseudo-layer.
std::int64_t matrices_before(const Network& net, int pseudo_layer) noexcept {
  const int d = net.directions();
  const std::int64_t first = matrix_count(net, 0);
  if (pseudo_layer <= d) return first * pseudo_layer;
  return first * d + matrix_count(net, 1) * (pseudo_layer - d);
}

std::string number_text(double value) {
  char digits[32];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, value);
  return {digits, end};
}
bool read_double(std::string_view text, double* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc{} && end == text.data() + text.size();
}
bool read_list(std::string_view text, std::vector<std::int32_t>* values) {
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    std::int32_t value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc{} || (next != end && *next != ',')) return false;
    values->push_back(value);
    at = next == end ? end : next + 1;
  }
  return true;
}

}  // namespace

bool Sequences::even() const noexcept {
  return std::ranges::all_of(lengths, [this](std::int32_t length) { return length == steps; });
}

bool Sequences::direct() const noexcept {
  return layout == GPUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED ||
         (layout == GPUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED && even());
}

WeightBlock weight_block(const Network& net, int pseudo_layer) noexcept {
  WeightBlock block;
  const int layer = pseudo_layer / net.directions();
  const std::int64_t rows = std::int64_t{net.gates()} * net.hidden;
  std::int64_t at = matrices_before(net, pseudo_layer);
  if (net.has_input_matrix(layer)) {
    block.input = at;
    at += rows * net.input_width(layer);
  }
  block.recurrent = at;
  at += rows * net.projected;
  if (net.projects()) block.projection = at;
  std::int64_t bias = matrices_before(net, net.pseudo_layers()) + pseudo_layer * bias_count(net);
  if (net.has_input_bias()) {
    block.input_bias = bias;
    bias += rows;
  }
  if (net.has_hidden_bias()) block.hidden_bias = bias;
  return block;
}

std::int64_t weight_count(const Network& net) noexcept {
  return matrices_before(net, net.pseudo_layers()) + net.pseudo_layers() * bias_count(net);
}

Status validate(const Network& net) {
  GPUDNN_REQUIRE(is_floating(net.type), GPUDNN_STATUS_NOT_SUPPORTED,
                 "dataType is %s; recurrent networks are built for f16, bf16, f32 and f64", data_type_name(net.type));
  GPUDNN_REQUIRE(net.input > 0, GPUDNN_STATUS_BAD_PARAM, "inputSize is %d; it must be positive", net.input);
  GPUDNN_REQUIRE(net.hidden > 0, GPUDNN_STATUS_BAD_PARAM, "hiddenSize is %d; it must be positive", net.hidden);
  GPUDNN_REQUIRE(net.layers > 0, GPUDNN_STATUS_BAD_PARAM, "numLayers is %d; it must be positive", net.layers);
  GPUDNN_REQUIRE(net.projected > 0 && net.projected <= net.hidden, GPUDNN_STATUS_BAD_PARAM,
                 "projSize is %d; it must be 1 to hiddenSize, %d, which means no projection", net.projected,
                 net.hidden);
  GPUDNN_REQUIRE(net.projected == net.hidden || net.cell == GPUDNN_LSTM, GPUDNN_STATUS_NOT_SUPPORTED,
                 "projSize is %d and hiddenSize %d; only LSTM has a projection", net.projected, net.hidden);
  GPUDNN_REQUIRE(!net.skip || net.input == net.hidden, GPUDNN_STATUS_BAD_PARAM,
                 "inputSize is %d and hiddenSize %d; SKIP_INPUT needs them to be equal", net.input, net.hidden);
  constexpr std::int64_t kMaximum = (std::int64_t{1} << 31) - 1;
  GPUDNN_REQUIRE(net.hidden <= kMaximum / (4 * 4) && net.output_width() <= kMaximum / 4, GPUDNN_STATUS_NOT_SUPPORTED,
                 "hiddenSize is %d; below 2^27 is built", net.hidden);
  return GPUDNN_STATUS_SUCCESS;
}

Status validate(const Problem& problem) {
  GPUDNN_TRY(validate(problem.net));
  const Sequences& s = problem.sequences;
  constexpr std::int64_t kMaximum = (std::int64_t{1} << 31) - 1;
  GPUDNN_REQUIRE(s.steps > 0 && s.batch > 0 && s.capacity() <= kMaximum, GPUDNN_STATUS_NOT_SUPPORTED,
                 "%d steps of %d sequences; both must be positive, and their product below 2^31", s.steps, s.batch);
  return GPUDNN_STATUS_SUCCESS;
}

std::string to_text(const Problem& problem) {
  const Network& n = problem.net;
  const Sequences& s = problem.sequences;
  std::string text = std::string("rnn ") + kPasses[static_cast<int>(problem.pass)] + ' ' + data_type_name(n.type) +
                     ' ' + kCells[n.cell] + " l" + std::to_string(n.layers) + ' ' + kDirections[n.bidirectional] +
                     " t" + std::to_string(s.steps) + 'b' + std::to_string(s.batch) + " in" + std::to_string(n.input) +
                     " h" + std::to_string(n.hidden) + " p" + std::to_string(n.projected) + " bias=" + kBiases[n.bias] +
                     ' ' + kLayouts[s.layout];
  if (n.skip) text += " skip";
  if (n.math != GPUDNN_DEFAULT_MATH) text += std::string(" math=") + kMaths[n.math];
  if (!s.even()) {
    text += " len=";
    for (std::size_t i = 0; i < s.lengths.size(); ++i) {
      text += (i > 0 ? "," : "") + std::to_string(s.lengths[i]);
    }
  }
  if (n.clips) text += " clip=" + number_text(n.clip_low) + ',' + number_text(n.clip_high);
  if (n.clips && !n.clip_passes_nan) text += " clipnan=0";
  if (n.dropout > 0) text += " drop=" + number_text(static_cast<double>(n.dropout));
  if (problem.fills) text += " fill=" + number_text(problem.fill);
  if (problem.adds) text += " add";
  return text;
}

namespace {

bool take_sizes(ProblemWords* words, Problem* problem) {
  Network& n = problem->net;
  std::int64_t values[2] = {};
  if (!parse_lettered(words->next(), "tb", values)) return false;
  problem->sequences.steps = static_cast<std::int32_t>(values[0]);
  problem->sequences.batch = static_cast<std::int32_t>(values[1]);
  std::string_view input = words->next();
  if (!input.starts_with("in") || !parse_lettered(input.substr(1), "n", values)) return false;
  n.input = static_cast<std::int32_t>(values[0]);
  if (!parse_lettered(words->next(), "h", values)) return false;
  n.hidden = static_cast<std::int32_t>(values[0]);
  if (!parse_lettered(words->next(), "p", values)) return false;
  n.projected = static_cast<std::int32_t>(values[0]);
  return true;
}

int choice_of(std::string_view word, std::span<const char* const> choices) {
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (word == choices[i]) return static_cast<int>(i);
  }
  return -1;
}

// The words that may be missing.
bool take_options(ProblemWords* words, Problem* problem, std::string* why) {
  Network& n = problem->net;
  Sequences& s = problem->sequences;
  n.skip = words->take_word("skip");
  if (const auto math = words->take("math=")) {
    const int choice = choice_of(*math, kMaths);
    if (choice < 0) return *why = "math= is default, tensor, conversion or fma", false;
    n.math = static_cast<gpudnnMathType_t>(choice);
  }
  if (const auto lengths = words->take("len=")) {
    if (!read_list(*lengths, &s.lengths)) return *why = "len= takes numbers between commas", false;
  } else {
    s.lengths.assign(static_cast<std::size_t>(std::max(s.batch, 0)), s.steps);
  }
  if (s.lengths.size() != static_cast<std::size_t>(s.batch))
    return *why = "len= needs a length for each sequence", false;
  if (const auto clip = words->take("clip=")) {
    const std::size_t comma = clip->find(',');
    n.clips = comma != std::string_view::npos && read_double(clip->substr(0, comma), &n.clip_low) &&
              read_double(clip->substr(comma + 1), &n.clip_high);
    if (!n.clips) return *why = "clip= takes two numbers: clip=-1,1", false;
  }
  if (words->take_word("clipnan=0")) n.clip_passes_nan = false;
  double drop = 0;
  if (const auto word = words->take("drop="); word && !read_double(*word, &drop)) {
    return *why = "drop= takes a probability", false;
  }
  n.dropout = static_cast<float>(drop);
  if (const auto fill = words->take("fill=")) {
    problem->fills = read_double(*fill, &problem->fill);
    if (!problem->fills) return *why = "fill= takes a number", false;
  }
  problem->adds = words->take_word("add");
  return true;
}

}  // namespace

std::optional<Problem> from_text(std::string_view line, std::string* why) {
  ProblemWords words(line);
  Problem problem;
  if (words.next() != "rnn") return *why = "the line does not start with 'rnn'", std::nullopt;
  const int pass = take_choice(&words, kPasses, why);
  if (pass < 0) return std::nullopt;
  problem.pass = static_cast<Pass>(pass);
  const auto type = parse_data_type(words.next());
  if (!type || !is_floating(*type)) return *why = "the second word is f16, bf16, f32 or f64", std::nullopt;
  problem.net.type = *type;
  const int cell = take_choice(&words, kCells, why);
  if (cell < 0) return std::nullopt;
  problem.net.cell = static_cast<gpudnnRNNMode_t>(cell);
  std::int64_t layers[1] = {};
  if (!parse_lettered(words.next(), "l", layers)) return *why = "write the layers as l2", std::nullopt;
  problem.net.layers = static_cast<std::int32_t>(layers[0]);
  const int direction = take_choice(&words, kDirections, why);
  if (direction < 0) return std::nullopt;
  problem.net.bidirectional = direction == 1;
  if (!take_sizes(&words, &problem)) return *why = "write the sizes as t20b8 in64 h128 p128", std::nullopt;
  const auto bias = words.take("bias=");
  const int bias_choice = bias ? choice_of(*bias, kBiases) : -1;
  if (bias_choice < 0) return *why = "bias= is none, input, double or hidden", std::nullopt;
  problem.net.bias = static_cast<gpudnnRNNBiasMode_t>(bias_choice);
  const int layout = take_choice(&words, kLayouts, why);
  if (layout < 0) return std::nullopt;
  problem.sequences.layout = static_cast<gpudnnRNNDataLayout_t>(layout);
  if (!take_options(&words, &problem, why)) return std::nullopt;
  if (!nothing_left(words, why)) return std::nullopt;
  return problem;
}

}  // namespace gpudnn::rnn
