// The bias-gradient problem: its checks and its text.
//   biasgrad f16 nhwc n64c256h56w56 [db:LAYOUT]
// SPDX-License-Identifier: Apache-2.0
#include "ops/bias_grad/problem.hpp"

#include "core/layout_words.hpp"
#include "core/validation.hpp"

namespace gpudnn::bias_grad {

Status validate(const Problem& problem) {
  GPUDNN_TRY(require_floating(problem.dy, "dyDesc"));
  GPUDNN_TRY(require_rank(problem.dy, "dyDesc", 2, kMaxRank));
  GPUDNN_TRY(require_floating(problem.db, "dbDesc"));
  GPUDNN_TRY(require_same_type(problem.dy, "dyDesc", problem.db, "dbDesc"));
  TensorGeometry expected = problem.dy;
  for (int i = 0; i < expected.rank; ++i) {
    if (i != 1) expected.dims[i] = 1;
  }
  GPUDNN_REQUIRE(same_dims(problem.db, expected), GPUDNN_STATUS_BAD_PARAM,
                 "dbDesc dims %s do not fit dyDesc dims %s; they must be %s, one value for each channel",
                 shown_dims(problem.db).c_str(), shown_dims(problem.dy).c_str(), shown_dims(expected).c_str());
  return require_no_overlap(problem.db, "dbDesc");
}

std::string to_text(const Problem& problem) {
  return "biasgrad " + tensor_text(problem.dy) + layout_word("db", problem.db, implied_format(problem.dy));
}

std::optional<Problem> from_text(std::string_view line, std::string* why) {
  ProblemWords words(line);
  Problem problem;
  if (words.next() != "biasgrad") return *why = "the line does not start with 'biasgrad'", std::nullopt;
  if (!parse_tensor(&words, &problem.dy) || problem.dy.rank < 2) {
    return *why = "expected a tensor such as 'f16 nhwc n64c256h56w56'", std::nullopt;
  }
  problem.db = problem.dy;
  for (int i = 0; i < problem.db.rank; ++i) {
    if (i != 1) problem.db.dims[i] = 1;
  }
  if (!take_layout(&words, "db", implied_format(problem.dy), &problem.db, why) || !nothing_left(words, why)) {
    return std::nullopt;
  }
  return problem;
}

}  // namespace gpudnn::bias_grad
