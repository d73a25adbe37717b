// The problem of the two-operand tensor operation: its checks and its text. The first tensor is the output.
//   optensor add f16 nchw n64c256h56w56 [a:LAYOUT] [b:DIMS] [b:LAYOUT] [atype=TYPE] [btype=TYPE] [acc=TYPE] [nan]
// Without their words a and b have the type, the dims and the implied layout of the output.
// SPDX-License-Identifier: Apache-2.0
#include "ops/op_tensor/problem.hpp"

#include "core/layout_words.hpp"
#include "core/validation.hpp"

namespace gpudnn::op_tensor {
namespace {

constexpr const char* kOperations[] = {"add", "mul", "min", "max", "sqrt", "not"};

Status validate_type(const Problem& problem, const TensorGeometry& tensor, const char* name) {
  GPUDNN_TRY(require_described(tensor, name));
  const bool integer =
      tensor.type == GPUDNN_DATA_INT8 || tensor.type == GPUDNN_DATA_UINT8 || tensor.type == GPUDNN_DATA_INT32;
  GPUDNN_REQUIRE(is_floating(tensor.type) || integer, GPUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE,
                 "%s has data type %s; this operation is built for f32, f64, f16, bf16, i8, u8 and i32", name,
                 data_type_name(tensor.type));
  GPUDNN_REQUIRE((tensor.type == GPUDNN_DATA_DOUBLE) == (problem.c.type == GPUDNN_DATA_DOUBLE),
                 GPUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "%s has data type %s and cDesc %s; f64 goes with f64 alone",
                 name, data_type_name(tensor.type), data_type_name(problem.c.type));
  return GPUDNN_STATUS_SUCCESS;
}

Status validate_compute(const Problem& problem) {
  const bool wide = problem.c.type == GPUDNN_DATA_DOUBLE;
  GPUDNN_REQUIRE(problem.compute == (wide ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT) ||
                     (problem.compute == GPUDNN_DATA_HALF && problem.c.type == GPUDNN_DATA_HALF),
                 GPUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE,
                 "opTensorDesc has compute type %s; it must be %s for cDesc of %s", data_type_name(problem.compute),
                 wide ? "f64" : "f32", data_type_name(problem.c.type));
  return GPUDNN_STATUS_SUCCESS;
}

Status validate_b(const Problem& problem) {
  GPUDNN_TRY(validate_type(problem, problem.b, "bDesc"));
  return require_dims_or_ones(problem.b, "bDesc", problem.c, "cDesc");
}

// The words about a or b: type, layout, and of b dims.
bool take_operand(ProblemWords* words, const char* name, const TensorGeometry& c, TensorGeometry* tensor,
                  std::string* why) {
  const std::string prefix = std::string(name) + ':';
  *tensor = c;
  std::string_view layout;
  while (const auto word = words->take(prefix)) {
    if (word->starts_with("nchw") || word->starts_with("nhwc") || word->starts_with("strides=")) {
      layout = *word;
    } else if (*name != 'b' || !parse_tensor("f32", "nchw", *word, tensor)) {
      return *why = "'" + prefix + std::string(*word) + "' is no layout" + (*name == 'b' ? " and no dims" : ""), false;
    }
  }
  tensor->type = c.type;
  if (const auto type = words->take(std::string(name) + "type=")) {
    const auto parsed = parse_data_type(*type);
    if (!parsed) return *why = "'" + std::string(*type) + "' names no data type", false;
    tensor->type = *parsed;
  }
  set_packed_strides(tensor, implied_format(c));
  if (layout.empty() || parse_layout(layout, tensor)) return true;
  return *why = "'" + prefix + std::string(layout) + "' is no layout of " + name, false;
}

}  // namespace

Status validate(const Problem& problem) {
  GPUDNN_TRY(require_enum(problem.op, GPUDNN_OP_TENSOR_ADD, GPUDNN_OP_TENSOR_NOT, "opTensorDesc opTensorOp",
                          "gpudnnOpTensorOp_t"));
  GPUDNN_TRY(validate_type(problem, problem.c, "cDesc"));
  GPUDNN_TRY(validate_type(problem, problem.a, "aDesc"));
  GPUDNN_TRY(require_same_dims(problem.c, "cDesc", problem.a, "aDesc"));
  if (has_b(problem.op)) GPUDNN_TRY(validate_b(problem));
  GPUDNN_TRY(validate_compute(problem));
  return require_no_overlap(problem.c, "cDesc");
}

std::string to_text(const Problem& problem) {
  const auto implied = implied_format(problem.c);
  std::string text = "optensor " + name_of(problem.op, kOperations) + ' ' + tensor_text(problem.c) +
                     layout_word("a", problem.a, implied);
  if (problem.a.type != problem.c.type) text += std::string(" atype=") + data_type_name(problem.a.type);
  if (has_b(problem.op)) {
    if (!same_dims(problem.b, problem.c)) text += " b:" + dims_text(problem.b);
    text += layout_word("b", problem.b, implied);
    if (problem.b.type != problem.c.type) text += std::string(" btype=") + data_type_name(problem.b.type);
  }
  const DataType usual = problem.c.type == GPUDNN_DATA_DOUBLE ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT;
  if (problem.compute != usual) text += std::string(" acc=") + data_type_name(problem.compute);
  if (problem.nan == GPUDNN_PROPAGATE_NAN) text += " nan";
  return text;
}

std::optional<Problem> from_text(std::string_view line, std::string* why) {
  ProblemWords words(line);
  Problem problem;
  if (words.next() != "optensor") return *why = "the line does not start with 'optensor'", std::nullopt;
  const int op = take_choice(&words, kOperations, why);
  if (op < 0) return std::nullopt;
  problem.op = static_cast<gpudnnOpTensorOp_t>(op);
  if (!parse_tensor(&words, &problem.c)) {
    return *why = "expected a tensor such as 'f16 nhwc n64c256h56w56'", std::nullopt;
  }
  if (!take_operand(&words, "a", problem.c, &problem.a, why)) return std::nullopt;
  if (has_b(problem.op) && !take_operand(&words, "b", problem.c, &problem.b, why)) return std::nullopt;
  problem.compute = problem.c.type == GPUDNN_DATA_DOUBLE ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT;
  if (const auto type = words.take("acc=")) {
    const auto parsed = parse_data_type(*type);
    if (!parsed) return *why = "'acc=" + std::string(*type) + "' names no data type", std::nullopt;
    problem.compute = *parsed;
  }
  if (words.take_word("nan")) problem.nan = GPUDNN_PROPAGATE_NAN;
  if (!nothing_left(words, why)) return std::nullopt;
  return problem;
}

}  // namespace gpudnn::op_tensor
