// The activation problem: its checks and its text.
//   act fwd relu f16 nhwc n64c256h56w56 [coef=1.5] [y:LAYOUT] [nan]
//   act bwd elu f32 nchw n8c16h9w9 coef=1 [y:LAYOUT] [dx:LAYOUT] [dy:LAYOUT] [nan]
// SPDX-License-Identifier: Apache-2.0
#include "ops/activation/problem.hpp"

#include <charconv>

#include "core/layout_words.hpp"
#include "core/validation.hpp"

namespace gpudnn::activation {
namespace {

constexpr const char* kPasses[] = {"fwd", "bwd"};
constexpr const char* kModes[] = {"sigmoid", "relu", "tanh", "clipped_relu", "elu", "identity", "swish"};

Status validate_pair(const TensorGeometry& x, const TensorGeometry& other, const char* name) {
  GPUDNN_TRY(require_floating(other, name));
  GPUDNN_TRY(require_same_type(x, "xDesc", other, name));
  return require_same_dims(x, "xDesc", other, name);
}

// The shortest digits that read back as the same double.
std::string number_text(double value) {
  char digits[32];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, value);
  return {digits, end};
}

bool take_coef(ProblemWords* words, double* coef, std::string* why) {
  const auto text = words->take("coef=");
  if (!text) return true;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *coef);
  if (error == std::errc{} && end == text->data() + text->size()) return true;
  *why = "'coef=" + std::string(*text) + "' is no number";
  return false;
}

}  // namespace

Status validate(const Problem& problem) {
  GPUDNN_TRY(require_enum(problem.mode, GPUDNN_ACTIVATION_SIGMOID, GPUDNN_ACTIVATION_SWISH, "activationDesc mode",
                          "gpudnnActivationMode_t"));
  GPUDNN_TRY(require_enum(problem.nan, GPUDNN_NOT_PROPAGATE_NAN, GPUDNN_PROPAGATE_NAN, "activationDesc reluNanOpt",
                          "gpudnnNanPropagation_t"));
  GPUDNN_TRY(require_floating(problem.x, "xDesc"));
  GPUDNN_TRY(validate_pair(problem.x, problem.y, "yDesc"));
  if (!problem.backward) return require_no_overlap(problem.y, "yDesc");
  GPUDNN_TRY(validate_pair(problem.x, problem.dy, "dyDesc"));
  GPUDNN_TRY(validate_pair(problem.x, problem.dx, "dxDesc"));
  return require_no_overlap(problem.dx, "dxDesc");
}

std::string to_text(const Problem& problem) {
  std::string text = std::string("act ") + kPasses[problem.backward] + ' ' + name_of(problem.mode, kModes) + ' ' +
                     tensor_text(problem.x);
  if (problem.coef != 0) text += " coef=" + number_text(problem.coef);
  const auto implied = implied_format(problem.x);
  text += layout_word("y", problem.y, implied);
  if (problem.backward) text += layout_word("dx", problem.dx, implied) + layout_word("dy", problem.dy, implied);
  if (problem.nan == GPUDNN_PROPAGATE_NAN) text += " nan";
  return text;
}

std::optional<Problem> from_text(std::string_view line, std::string* why) {
  ProblemWords words(line);
  Problem problem;
  if (words.next() != "act") return *why = "the line does not start with 'act'", std::nullopt;
  const int pass = take_choice(&words, kPasses, why);
  if (pass < 0) return std::nullopt;
  problem.backward = pass == 1;
  const int mode = take_choice(&words, kModes, why);
  if (mode < 0) return std::nullopt;
  problem.mode = static_cast<gpudnnActivationMode_t>(mode);
  if (!parse_tensor(&words, &problem.x)) {
    return *why = "expected a tensor such as 'f16 nhwc n64c256h56w56'", std::nullopt;
  }
  if (!take_coef(&words, &problem.coef, why)) return std::nullopt;
  const auto implied = implied_format(problem.x);
  problem.y = problem.x;
  if (!take_layout(&words, "y", implied, &problem.y, why)) return std::nullopt;
  if (problem.backward) {
    problem.dx = problem.dy = problem.x;
    if (!take_layout(&words, "dx", implied, &problem.dx, why) ||
        !take_layout(&words, "dy", implied, &problem.dy, why)) {
      return std::nullopt;
    }
  }
  if (words.take_word("nan")) problem.nan = GPUDNN_PROPAGATE_NAN;
  if (!nothing_left(words, why)) return std::nullopt;
  return problem;
}

}  // namespace gpudnn::activation
