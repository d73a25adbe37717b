// The problem of local response and divisive normalization: its checks and its text.
//   lrn fwd channel f16 nhwc n64c256h56w56 n=5 alpha=0.0001 beta=0.75 k=2 [y:LAYOUT]
//   lrn bwd spatial f32 nchw n8c16h9w9 n=3 alpha=1 beta=0.5 k=1 [dx:LAYOUT] [dy:LAYOUT] [means] [dmeans]
// SPDX-License-Identifier: Apache-2.0
#include "ops/lrn/problem.hpp"

#include <charconv>
#include <cmath>

#include "core/layout_words.hpp"
#include "core/validation.hpp"

namespace gpudnn::lrn {
namespace {

constexpr const char* kPasses[] = {"fwd", "bwd"};
constexpr const char* kWindows[] = {"channel", "spatial"};

// The shortest digits that read back as the same number.
std::string number_text(double value) {
  char digits[32];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, value);
  return {digits, end};
}

template <class Number>
bool take_number(ProblemWords* words, const char* prefix, Number* value, std::string* why) {
  const auto text = words->take(prefix);
  if (!text) return *why = std::string("expected '") + prefix + "' and a number", false;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *value);
  if (error == std::errc{} && end == text->data() + text->size()) return true;
  return *why = "'" + std::string(prefix) + std::string(*text) + "' is no number", false;
}

Status validate_other(const Problem& problem, const TensorGeometry& other, const char* name) {
  GPUDNN_TRY(require_floating(other, name));
  GPUDNN_TRY(require_same_type(problem.x, "xDesc", other, name));
  return require_same_dims(problem.x, "xDesc", other, name);
}

}  // namespace

double weight(const Problem& problem) noexcept {
  const int dims = problem.spatial ? problem.x.rank - 2 : 1;
  return problem.alpha / std::pow(static_cast<double>(problem.n), dims);
}

Status validate(const Problem& problem) {
  GPUDNN_TRY(require_floating(problem.x, "xDesc"));
  if (problem.spatial) {
    GPUDNN_REQUIRE(problem.x.rank >= 3 && problem.x.rank <= 5, GPUDNN_STATUS_NOT_SUPPORTED,
                   "xDesc dims %s are %d dims; divisive normalization is built for 1 to 3 spatial dimensions, that is "
                   "for 3 to 5 dims",
                   shown_dims(problem.x).c_str(), problem.x.rank);
  } else {
    GPUDNN_TRY(require_rank(problem.x, "xDesc", 2, kMaxRank));
  }
  if (!problem.backward) {
    GPUDNN_TRY(validate_other(problem, problem.y, "yDesc"));
    return require_no_overlap(problem.y, "yDesc");
  }
  if (!problem.spatial) {
    GPUDNN_TRY(validate_other(problem, problem.y, "yDesc"));
    GPUDNN_TRY(validate_other(problem, problem.dy, "dyDesc"));
  } else {
    GPUDNN_TRY(require_no_overlap(problem.x, "xDesc"));  // of temp and temp2 too
  }
  const char* const name = problem.spatial ? "dXdMeansDesc" : "dxDesc";
  GPUDNN_TRY(validate_other(problem, problem.dx, name));
  return require_no_overlap(problem.dx, name);
}

std::string to_text(const Problem& problem) {
  std::string text = std::string("lrn ") + kPasses[problem.backward] + ' ' + kWindows[problem.spatial] + ' ' +
                     tensor_text(problem.x) + " n=" + std::to_string(problem.n) +
                     " alpha=" + number_text(problem.alpha) + " beta=" + number_text(problem.beta) +
                     " k=" + number_text(problem.k);
  const auto implied = implied_format(problem.x);
  if (!problem.backward || !problem.spatial) text += layout_word("y", problem.y, implied);
  if (problem.backward) text += layout_word("dx", problem.dx, implied);
  if (problem.backward && !problem.spatial) text += layout_word("dy", problem.dy, implied);
  if (problem.has_means) text += " means";
  if (problem.means_gradient) text += " dmeans";
  return text;
}

std::optional<Problem> from_text(std::string_view line, std::string* why) {
  ProblemWords words(line);
  Problem problem;
  if (words.next() != "lrn") return *why = "the line does not start with 'lrn'", std::nullopt;
  const int pass = take_choice(&words, kPasses, why);
  if (pass < 0) return std::nullopt;
  problem.backward = pass == 1;
  const int window = take_choice(&words, kWindows, why);
  if (window < 0) return std::nullopt;
  problem.spatial = window == 1;
  if (!parse_tensor(&words, &problem.x)) {
    return *why = "expected a tensor such as 'f16 nhwc n64c256h56w56'", std::nullopt;
  }
  if (!take_number(&words, "n=", &problem.n, why) || !take_number(&words, "alpha=", &problem.alpha, why) ||
      !take_number(&words, "beta=", &problem.beta, why) || !take_number(&words, "k=", &problem.k, why)) {
    return std::nullopt;
  }
  if (problem.n < GPUDNN_LRN_MIN_N || problem.n > GPUDNN_LRN_MAX_N) return *why = "n is 1 to 16", std::nullopt;
  const auto implied = implied_format(problem.x);
  problem.y = problem.x;
  if (!(problem.backward && problem.spatial) && !take_layout(&words, "y", implied, &problem.y, why)) {
    return std::nullopt;
  }
  if (problem.backward) {
    problem.dx = problem.dy = problem.x;
    if (!take_layout(&words, "dx", implied, &problem.dx, why)) return std::nullopt;
    if (!problem.spatial && !take_layout(&words, "dy", implied, &problem.dy, why)) return std::nullopt;
  }
  if (problem.spatial) {
    problem.has_means = words.take_word("means");
    problem.means_gradient = problem.backward && words.take_word("dmeans");
  }
  if (!nothing_left(words, why)) return std::nullopt;
  return problem;
}

}  // namespace gpudnn::lrn
