// The tensor problem: its checks and its text. The first tensor is the output.
//   tensor set i32 nchw n64c256h56w56
//   tensor scale f16 nhwc n64c256h56w56
//   tensor add f16 nchw n64c256h56w56 [a:DIMS] [a:LAYOUT] [atype=TYPE]
//   tensor transform f32 nchw n8c3h5w7 [a:LAYOUT] [atype=TYPE]
// Without its words, a has the type, the dims and the implied layout of the output.
// SPDX-License-Identifier: Apache-2.0
#include "ops/tensor/problem.hpp"

#include "core/layout_words.hpp"
#include "core/validation.hpp"

namespace gpudnn::tensor {
namespace {

constexpr const char* kOperations[] = {"set", "scale", "add", "transform"};

bool has_input(const Problem& problem) {
  return problem.operation == Operation::add || problem.operation == Operation::transform;
}

Status validate_set(const Problem& problem) {
  GPUDNN_TRY(require_described(problem.c, "yDesc"));
  GPUDNN_REQUIRE(data_type_bits(problem.c.type) % 8 == 0, GPUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE,
                 "yDesc has data type %s; setting is built for types of whole bytes", data_type_name(problem.c.type));
  return require_no_overlap(problem.c, "yDesc");
}

Status validate_scale(const Problem& problem) {
  GPUDNN_TRY(require_floating(problem.c, "yDesc"));
  return require_no_overlap(problem.c, "yDesc");
}

Status validate_add(const Problem& problem) {
  GPUDNN_TRY(require_floating(problem.a, "aDesc"));
  GPUDNN_TRY(require_floating(problem.c, "cDesc"));
  GPUDNN_TRY(require_same_type(problem.c, "cDesc", problem.a, "aDesc"));
  GPUDNN_TRY(require_dims_or_ones(problem.a, "aDesc", problem.c, "cDesc"));
  return require_no_overlap(problem.c, "cDesc");
}

Status validate_transform(const Problem& problem) {
  GPUDNN_TRY(require_floating(problem.a, "xDesc"));
  GPUDNN_TRY(require_floating(problem.c, "yDesc"));
  GPUDNN_TRY(require_same_dims(problem.a, "xDesc", problem.c, "yDesc"));
  return require_no_overlap(problem.c, "yDesc");
}

// The words about a: dims and layout may both be told.
bool take_input(ProblemWords* words, Problem* problem, std::string* why) {
  TensorGeometry& a = problem->a;
  a = problem->c;
  std::string_view layout;
  while (const auto word = words->take("a:")) {
    if (word->starts_with("nchw") || word->starts_with("nhwc") || word->starts_with("strides=")) {
      layout = *word;
    } else if (problem->operation != Operation::add || !parse_tensor("f32", "nchw", *word, &a)) {
      return *why = "'a:" + std::string(*word) + "' is no layout" +
                    (problem->operation == Operation::add ? " and no dims" : ""),
             false;
    }
  }
  a.type = problem->c.type;
  if (const auto type = words->take("atype=")) {
    const auto parsed = parse_data_type(*type);
    if (!parsed) return *why = "'atype=" + std::string(*type) + "' names no data type", false;
    a.type = *parsed;
  }
  if (layout.empty()) {
    set_packed_strides(&a, implied_format(problem->c));
  } else if (!parse_layout(layout, &a)) {
    return *why = "'a:" + std::string(layout) + "' is no layout of a", false;
  }
  return true;
}

}  // namespace

Status validate(const Problem& problem) {
  switch (problem.operation) {
    case Operation::set:
      return validate_set(problem);
    case Operation::scale:
      return validate_scale(problem);
    case Operation::add:
      return validate_add(problem);
    case Operation::transform:
      return validate_transform(problem);
  }
  return GPUDNN_REFUSE(GPUDNN_STATUS_BAD_PARAM, "there is no tensor operation %d", static_cast<int>(problem.operation));
}

std::string to_text(const Problem& problem) {
  std::string text =
      "tensor " + name_of(static_cast<int>(problem.operation), kOperations) + ' ' + tensor_text(problem.c);
  if (!has_input(problem)) return text;
  if (!same_dims(problem.a, problem.c)) text += " a:" + dims_text(problem.a);
  text += layout_word("a", problem.a, implied_format(problem.c));
  if (problem.a.type != problem.c.type) text += std::string(" atype=") + data_type_name(problem.a.type);
  return text;
}

std::optional<Problem> from_text(std::string_view line, std::string* why) {
  ProblemWords words(line);
  Problem problem;
  if (words.next() != "tensor") return *why = "the line does not start with 'tensor'", std::nullopt;
  const int operation = take_choice(&words, kOperations, why);
  if (operation < 0) return std::nullopt;
  problem.operation = static_cast<Operation>(operation);
  if (!parse_tensor(&words, &problem.c)) {
    return *why = "expected a tensor such as 'f16 nhwc n64c256h56w56'", std::nullopt;
  }
  if (has_input(problem) && !take_input(&words, &problem, why)) return std::nullopt;
  if (!nothing_left(words, why)) return std::nullopt;
  return problem;
}

}  // namespace gpudnn::tensor
