// The softmax problem: its checks and its text. The first tensor is x of forward, y of backward.
//   softmax fwd accurate channel f16 nchw n64c1000h1w1 [y:LAYOUT]
//   softmax bwd log instance f32 nchw n64c10h1w1 [dx:LAYOUT] [dy:LAYOUT]
// SPDX-License-Identifier: Apache-2.0
#include "ops/softmax/problem.hpp"

#include "core/layout_words.hpp"
#include "core/validation.hpp"

namespace gpudnn::softmax {
namespace {

constexpr const char* kPasses[] = {"fwd", "bwd"};
constexpr const char* kAlgorithms[] = {"fast", "accurate", "log"};
constexpr const char* kModes[] = {"instance", "channel"};

Status validate_pair(const TensorGeometry& y, const TensorGeometry& other, const char* name) {
  GPUDNN_TRY(require_floating(other, name));
  GPUDNN_TRY(require_same_type(y, "yDesc", other, name));
  return require_same_dims(y, "yDesc", other, name);
}

}  // namespace

Status validate(const Problem& problem) {
  GPUDNN_TRY(
      require_enum(problem.algorithm, GPUDNN_SOFTMAX_FAST, GPUDNN_SOFTMAX_LOG, "algo", "gpudnnSoftmaxAlgorithm_t"));
  GPUDNN_TRY(require_enum(problem.mode, GPUDNN_SOFTMAX_MODE_INSTANCE, GPUDNN_SOFTMAX_MODE_CHANNEL, "mode",
                          "gpudnnSoftmaxMode_t"));
  GPUDNN_TRY(require_floating(problem.y, "yDesc"));
  GPUDNN_TRY(require_rank(problem.y, "yDesc", 2, kMaxRank));
  if (!problem.backward) {
    GPUDNN_TRY(validate_pair(problem.y, problem.x, "xDesc"));
    return require_no_overlap(problem.y, "yDesc");
  }
  GPUDNN_TRY(validate_pair(problem.y, problem.dy, "dyDesc"));
  GPUDNN_TRY(validate_pair(problem.y, problem.dx, "dxDesc"));
  return require_no_overlap(problem.dx, "dxDesc");
}

std::string to_text(const Problem& problem) {
  const TensorGeometry& first = problem.backward ? problem.y : problem.x;
  std::string text = std::string("softmax ") + kPasses[problem.backward] + ' ' +
                     name_of(problem.algorithm, kAlgorithms) + ' ' + name_of(problem.mode, kModes) + ' ' +
                     tensor_text(first);
  const auto implied = implied_format(first);
  if (!problem.backward) return text + layout_word("y", problem.y, implied);
  return text + layout_word("dx", problem.dx, implied) + layout_word("dy", problem.dy, implied);
}

std::optional<Problem> from_text(std::string_view line, std::string* why) {
  ProblemWords words(line);
  Problem problem;
  if (words.next() != "softmax") return *why = "the line does not start with 'softmax'", std::nullopt;
  const int pass = take_choice(&words, kPasses, why);
  if (pass < 0) return std::nullopt;
  problem.backward = pass == 1;
  const int algorithm = take_choice(&words, kAlgorithms, why);
  if (algorithm < 0) return std::nullopt;
  problem.algorithm = static_cast<gpudnnSoftmaxAlgorithm_t>(algorithm);
  const int mode = take_choice(&words, kModes, why);
  if (mode < 0) return std::nullopt;
  problem.mode = static_cast<gpudnnSoftmaxMode_t>(mode);
  TensorGeometry first;
  if (!parse_tensor(&words, &first)) {
    return *why = "expected a tensor such as 'f16 nhwc n64c1000h1w1'", std::nullopt;
  }
  const auto implied = implied_format(first);
  if (problem.backward) {
    problem.y = problem.dx = problem.dy = first;
    if (!take_layout(&words, "dx", implied, &problem.dx, why) ||
        !take_layout(&words, "dy", implied, &problem.dy, why)) {
      return std::nullopt;
    }
  } else {
    problem.x = problem.y = first;
    if (!take_layout(&words, "y", implied, &problem.y, why)) return std::nullopt;
  }
  if (!nothing_left(words, why)) return std::nullopt;
  return problem;
}

}  // namespace gpudnn::softmax
