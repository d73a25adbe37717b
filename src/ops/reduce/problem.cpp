// The reduction problem: its checks and its text.
//   reduce add f16 nchw n64c256h56w56 c:n1c256h1w1 [c:LAYOUT] [ctype=f32] [acc=f64] [nan] [idx=32]
// Without a layout c is packed as a is; without ctype it has a's type; acc is f32, and f64 for f64.
// SPDX-License-Identifier: Apache-2.0
#include "ops/reduce/problem.hpp"

#include "core/layout_words.hpp"
#include "core/validation.hpp"

namespace gpudnn::reduce {
namespace {

constexpr const char* kOperations[] = {"add", "mul", "min", "max", "amax", "avg", "norm1", "norm2", "mul_no_zeros"};
constexpr int kIndexBits[] = {32, 64, 16, 8};

bool is_supported(DataType type) noexcept {
  return is_floating(type) || type == GPUDNN_DATA_INT8 || type == GPUDNN_DATA_UINT8 || type == GPUDNN_DATA_INT32;
}

Status validate_type(const TensorGeometry& tensor, const char* name) {
  GPUDNN_TRY(require_described(tensor, name));
  GPUDNN_REQUIRE(is_supported(tensor.type), GPUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE,
                 "%s has data type %s; reductions are built for f32, f64, f16, bf16, i8, u8 and i32", name,
                 data_type_name(tensor.type));
  return GPUDNN_STATUS_SUCCESS;
}

Status validate_types(const Problem& problem) {
  GPUDNN_TRY(validate_type(problem.a, "aDesc"));
  GPUDNN_TRY(validate_type(problem.c, "cDesc"));
  const bool wide = problem.a.type == GPUDNN_DATA_DOUBLE;
  GPUDNN_REQUIRE(wide == (problem.c.type == GPUDNN_DATA_DOUBLE), GPUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE,
                 "aDesc has data type %s and cDesc %s; f64 goes with f64 alone", data_type_name(problem.a.type),
                 data_type_name(problem.c.type));
  GPUDNN_REQUIRE(problem.compute == GPUDNN_DATA_FLOAT || problem.compute == GPUDNN_DATA_DOUBLE ||
                     problem.compute == GPUDNN_DATA_HALF,
                 GPUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE,
                 "reduceTensorDesc has compute type %s; it must be f32, f64 or f16 (which is computed in f32)",
                 data_type_name(problem.compute));
  GPUDNN_REQUIRE(wide == (problem.compute == GPUDNN_DATA_DOUBLE), GPUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE,
                 "reduceTensorDesc has compute type %s and aDesc data type %s; f64 data are reduced in f64, and no "
                 "others are",
                 data_type_name(problem.compute), data_type_name(problem.a.type));
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace

bool has_indices(const Problem& problem) noexcept {
  return problem.indices == GPUDNN_REDUCE_TENSOR_FLATTENED_INDICES &&
         (problem.op == GPUDNN_REDUCE_TENSOR_MIN || problem.op == GPUDNN_REDUCE_TENSOR_MAX ||
          problem.op == GPUDNN_REDUCE_TENSOR_AMAX);
}

int index_bytes(gpudnnIndicesType_t type) noexcept { return kIndexBits[static_cast<int>(type)] / 8; }

std::size_t indices_size(const Problem& problem) noexcept {
  if (!has_indices(problem)) return 0;
  return static_cast<std::size_t>(element_count(problem.c)) * static_cast<std::size_t>(index_bytes(problem.index_type));
}

std::int64_t reduced_count(const Problem& problem) noexcept {
  std::int64_t count = 1;
  for (int i = 0; i < problem.a.rank; ++i) count *= problem.c.dims[i] == 1 ? problem.a.dims[i] : 1;
  return count;
}

Status validate(const Problem& problem) {
  GPUDNN_TRY(require_enum(problem.op, GPUDNN_REDUCE_TENSOR_ADD, GPUDNN_REDUCE_TENSOR_MUL_NO_ZEROS,
                          "reduceTensorDesc reduceTensorOp", "gpudnnReduceTensorOp_t"));
  GPUDNN_TRY(validate_types(problem));
  GPUDNN_TRY(require_dims_or_ones(problem.c, "cDesc", problem.a, "aDesc"));
  if (has_indices(problem)) {
    const int bits = 8 * index_bytes(problem.index_type);
    GPUDNN_REQUIRE(bits == 64 || reduced_count(problem) <= std::int64_t{1} << bits, GPUDNN_STATUS_NOT_SUPPORTED,
                   "an index of %d bits cannot count the %lld elements behind each element of cDesc; choose a wider "
                   "gpudnnIndicesType_t",
                   bits, static_cast<long long>(reduced_count(problem)));
  }
  return require_no_overlap(problem.c, "cDesc");
}

std::string to_text(const Problem& problem) {
  const auto implied = implied_format(problem.a);
  std::string text = "reduce " + name_of(problem.op, kOperations) + ' ' + tensor_text(problem.a) +
                     " c:" + dims_text(problem.c) + layout_word("c", problem.c, implied);
  if (problem.c.type != problem.a.type) text += std::string(" ctype=") + data_type_name(problem.c.type);
  const bool wide = problem.a.type == GPUDNN_DATA_DOUBLE;
  if (problem.compute != (wide ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT)) {
    text += std::string(" acc=") + data_type_name(problem.compute);
  }
  if (problem.nan == GPUDNN_PROPAGATE_NAN) text += " nan";
  if (problem.indices != GPUDNN_REDUCE_TENSOR_NO_INDICES) {
    text += " idx=" + std::to_string(8 * index_bytes(problem.index_type));
  }
  return text;
}

namespace {

bool take_output(ProblemWords* words, Problem* problem, std::string* why) {
  const auto dims = words->take("c:");
  problem->c = problem->a;
  if (!dims || !parse_tensor("f32", "nchw", *dims, &problem->c)) {
    return *why = "expected the dims of c, such as c:n1c256h1w1", false;
  }
  problem->c.type = problem->a.type;
  if (const auto type = words->take("ctype=")) {
    const auto parsed = parse_data_type(*type);
    if (!parsed) return *why = "'ctype=" + std::string(*type) + "' names no data type", false;
    problem->c.type = *parsed;
  }
  return take_layout(words, "c", implied_format(problem->a), &problem->c, why);
}

bool take_options(ProblemWords* words, Problem* problem, std::string* why) {
  problem->compute = problem->a.type == GPUDNN_DATA_DOUBLE ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT;
  if (const auto type = words->take("acc=")) {
    const auto parsed = parse_data_type(*type);
    if (!parsed) return *why = "'acc=" + std::string(*type) + "' names no data type", false;
    problem->compute = *parsed;
  }
  if (words->take_word("nan")) problem->nan = GPUDNN_PROPAGATE_NAN;
  const auto bits = words->take("idx=");
  if (!bits) return true;
  problem->indices = GPUDNN_REDUCE_TENSOR_FLATTENED_INDICES;
  for (int type = GPUDNN_32BIT_INDICES; type <= GPUDNN_8BIT_INDICES; ++type) {
    if (*bits != std::to_string(kIndexBits[type])) continue;
    problem->index_type = static_cast<gpudnnIndicesType_t>(type);
    return true;
  }
  return *why = "'idx=" + std::string(*bits) + "' is none of 8, 16, 32, 64", false;
}

}  // namespace

std::optional<Problem> from_text(std::string_view line, std::string* why) {
  ProblemWords words(line);
  Problem problem;
  if (words.next() != "reduce") return *why = "the line does not start with 'reduce'", std::nullopt;
  const int op = take_choice(&words, kOperations, why);
  if (op < 0) return std::nullopt;
  problem.op = static_cast<gpudnnReduceTensorOp_t>(op);
  if (!parse_tensor(&words, &problem.a)) {
    return *why = "expected a tensor such as 'f16 nhwc n64c256h56w56'", std::nullopt;
  }
  if (!take_output(&words, &problem, why) || !take_options(&words, &problem, why)) return std::nullopt;
  if (!nothing_left(words, why)) return std::nullopt;
  return problem;
}

}  // namespace gpudnn::reduce
