// The problem language of the classic multi-head attention.
//   mha PASS TYPE hHEADSqSIZEkSIZEvSIZE pQ,K,V,O tSTEPSsSTEPSnBATCHbBEAMS [biases] [one_to_one] [train] [residual]
//       [fill] [add] [step=N] [adrop=P] [pdrop=P] [axes=tnb,tnb,tnb,tnb] scale=S [acc=TYPE] math=MATH
// t and s count the steps of queries and of keys; axes are those of q, k, v and out, outermost first.
// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "core/layout_words.hpp"
#include "ops/multi_head_attn/problem.hpp"

namespace gpudnn::mha {
namespace {

constexpr const char* kPasses[] = {"fwd", "dgrad", "wgrad"};
constexpr const char* kMath[] = {"default", "tensor", "tensor_convert", "fma"};
constexpr char kAxes[] = {'t', 'n', 'b'};
constexpr const char* kUsualAxes = "tnb,tnb,tnb,tnb";

std::string number(double value) {
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
}

bool parse_number(std::string_view text, double* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc{} && end == text.data() + text.size();
}

std::string axes_text(const Problem& problem) {
  std::string text;
  for (const Sequences* s : {&problem.q, &problem.k, &problem.v, &problem.o}) {
    if (!text.empty()) text += ',';
    for (const gpudnnSeqDataAxis_t axis : s->axes) text += axis <= GPUDNN_SEQDATA_BEAM_DIM ? kAxes[axis] : '?';
  }
  return text;
}

bool parse_axes(std::string_view text, Problem* problem) {
  if (text.size() != 15) return false;
  Sequences* const all[] = {&problem->q, &problem->k, &problem->v, &problem->o};
  for (std::size_t i = 0; i < 4; ++i) {
    unsigned seen = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      const std::size_t axis = std::string_view(kAxes, 3).find(text[4 * i + j]);
      if (axis == std::string_view::npos) return false;
      seen |= 1U << axis;
      all[i]->axes[j] = static_cast<gpudnnSeqDataAxis_t>(axis);
    }
    if (seen != 7 || (i < 3 && text[4 * i + 3] != ',')) return false;
  }
  return true;
}

bool parse_sizes(ProblemWords* words, Problem* problem, std::string* why) {
  Layer& layer = problem->layer;
  const std::string_view type = words->next();
  const auto parsed = parse_data_type(type);
  if (!parsed) return *why = "'" + std::string(type) + "' is no data type", false;
  layer.type = *parsed;
  layer.compute = layer.type == GPUDNN_DATA_DOUBLE ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT;
  std::int64_t sizes[4];
  std::int64_t proj[4];
  std::int64_t extents[4];
  int count = 0;
  if (!parse_lettered(words->next(), "hqkv", sizes)) return *why = "expected sizes such as 'h8q64k64v64'", false;
  const std::string_view projections = words->next();
  if (!projections.starts_with('p') || !parse_extents(projections.substr(1), proj, &count, 4) || count != 4) {
    return *why = "expected projections such as 'p8x8x8x64'", false;
  }
  if (!parse_lettered(words->next(), "tsnb", extents)) return *why = "expected extents such as 't10s12n4b1'", false;
  const auto narrow = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  layer.heads = narrow(sizes[0]);
  for (int i = 0; i < 3; ++i) layer.size[i] = narrow(sizes[i + 1]);
  for (int i = 0; i < kParts; ++i) layer.proj[i] = narrow(proj[i]);
  layer.max_time_q = narrow(extents[0]);
  layer.max_time_kv = narrow(extents[1]);
  layer.max_batch = narrow(extents[2]);
  layer.max_beam = narrow(extents[3]);
  return true;
}

void set_sequences(Problem* problem) {
  const Layer& layer = problem->layer;
  const std::int32_t beams = layer.one_to_one != 0 ? layer.max_beam : 1;
  problem->q = {layer.max_time_q, layer.max_batch, layer.max_beam, layer.size[kQ]};
  problem->k = {layer.max_time_kv, layer.max_batch, beams, layer.size[kK]};
  problem->v = {layer.max_time_kv, layer.max_batch, beams, layer.size[kV]};
  problem->o = {layer.max_time_q, layer.max_batch, layer.max_beam, static_cast<std::int32_t>(layer.out_size())};
}

bool parse_numbers(ProblemWords* words, Problem* problem, std::string* why) {
  Layer& layer = problem->layer;
  double adrop = 0;
  double pdrop = 0;
  double step = -1;
  const struct {
    const char* word;
    double* value;
  } numbers[] = {{"scale=", &layer.scale}, {"adrop=", &adrop}, {"pdrop=", &pdrop}, {"step=", &step}};
  for (const auto& [word, value] : numbers) {
    const auto text = words->take(word);
    if (text && !parse_number(*text, value))
      return *why = "'" + std::string(word) + std::string(*text) + "' has no number", false;
  }
  layer.attn_dropout = static_cast<float>(adrop);
  layer.post_dropout = static_cast<float>(pdrop);
  problem->current = static_cast<std::int32_t>(step);
  return true;
}

}  // namespace

std::string to_text(const Problem& problem) {
  const Layer& l = problem.layer;
  char line[256];
  std::snprintf(line, sizeof line, "mha %s %s h%dq%dk%dv%d p%dx%dx%dx%d t%ds%dn%db%d",
                name_of(static_cast<int>(problem.pass), kPasses).c_str(), data_type_name(l.type), l.heads, l.size[kQ],
                l.size[kK], l.size[kV], l.proj[kQ], l.proj[kK], l.proj[kV], l.proj[kO], problem.q.time, problem.k.time,
                problem.q.batch, problem.q.beam);
  std::string text = line;
  const struct {
    const char* word;
    bool there;
  } flags[] = {{" biases", l.biases != 0},        {" one_to_one", l.one_to_one != 0},
               {" train", problem.training != 0}, {" residual", problem.has_residual != 0},
               {" fill", problem.has_fill != 0},  {" add", problem.add != 0}};
  for (const auto& [word, there] : flags) {
    if (there) text += word;
  }
  if (problem.current >= 0) text += " step=" + std::to_string(problem.current);
  if (l.attn_dropout > 0) text += " adrop=" + number(static_cast<double>(l.attn_dropout));
  if (l.post_dropout > 0) text += " pdrop=" + number(static_cast<double>(l.post_dropout));
  if (const std::string axes = axes_text(problem); axes != kUsualAxes) text += " axes=" + axes;
  text += " scale=" + number(l.scale);
  if (l.compute == GPUDNN_DATA_HALF) text += " acc=f16";
  return text + " math=" + name_of(l.math, kMath);
}

std::optional<Problem> from_text(std::string_view line, std::string* why) {
  ProblemWords words(line);
  Problem problem;
  if (words.next() != "mha") return *why = "the line does not start with 'mha'", std::nullopt;
  const int pass = take_choice(&words, kPasses, why);
  if (pass < 0) return std::nullopt;
  problem.pass = static_cast<Pass>(pass);
  if (!parse_sizes(&words, &problem, why)) return std::nullopt;
  problem.layer.biases = words.take_word("biases") ? 1 : 0;
  problem.layer.one_to_one = words.take_word("one_to_one") ? 1 : 0;
  problem.training = words.take_word("train") ? 1 : 0;
  problem.has_residual = words.take_word("residual") ? 1 : 0;
  problem.has_fill = words.take_word("fill") ? 1 : 0;
  problem.add = words.take_word("add") ? 1 : 0;
  set_sequences(&problem);
  if (!parse_numbers(&words, &problem, why)) return std::nullopt;
  const auto axes = words.take("axes=");
  if (axes && !parse_axes(*axes, &problem)) {
    return *why = "'axes=" + std::string(*axes) + "' is no list of four orders of t, n and b", std::nullopt;
  }
  if (words.take_word("acc=f16")) problem.layer.compute = GPUDNN_DATA_HALF;
  if (const auto math = words.take("math=")) {
    bool known = false;
    for (int i = 0; i < 4; ++i) {
      if (*math != kMath[i]) continue;
      problem.layer.math = static_cast<gpudnnMathType_t>(i);
      known = true;
    }
    if (!known)
      return *why = "'math=" + std::string(*math) + "' is none of default, tensor, tensor_convert, fma", std::nullopt;
  }
  if (!nothing_left(words, why)) return std::nullopt;
  return problem;
}

}  // namespace gpudnn::mha
