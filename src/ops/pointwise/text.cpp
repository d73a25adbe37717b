// The text of pointwise problems and programs: printing and parsing.
// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cmath>
#include <vector>

#include "core/problem_text.hpp"
#include "ops/pointwise/problem.hpp"

namespace gpudnn::pointwise {
namespace {

// In the order of gpudnnReduceTensorOp_t.
constexpr const char* kReductions[] = {"add", "mul", "min", "max", "amax", "avg", "norm1", "norm2", "mul_no_zeros"};

// The shortest digits that read back as the same double.
std::string number_text(double value) {
  char digits[32];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, value);
  return {digits, end};
}

bool parse_number(std::string_view text, double* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc{} && end == text.data() + text.size();
}

std::string operand_text(const Operand& operand) {
  switch (operand.kind) {
    case OperandKind::load:
      return "i" + std::to_string(operand.index);
    case OperandKind::result:
      return "r" + std::to_string(operand.index);
    case OperandKind::constant:
      return number_text(operand.value);
    default:
      return "?";
  }
}

std::string instruction_text(const Program& program, int index) {
  const Instruction& instruction = program.code[index];
  std::string text = "r" + std::to_string(index) + "=" + op_name(instruction.op) + "(";
  for (int i = 0; i < instruction.operands(); ++i) {
    if (i > 0) text += ',';
    text += operand_text(instruction.operand(i));
  }
  const int parameters = tile::pointwise_parameters(instruction.op);
  for (int i = 0; i < parameters; ++i) {
    text += i == 0 ? ';' : ',';
    text += number_text(instruction.params.p[i]);
  }
  if (instruction.params.drops_nan) text += ";drop_nan";
  text += ')';
  if (instruction.type != program.compute) text += std::string(":") + data_type_name(instruction.type);
  return text;
}

std::string load_text(const Program& program, int index) {
  std::string text = "i" + std::to_string(index) + "=";
  if (program.load_kind[index] == LoadKind::scalar) return text + "scalar";
  if (program.load_kind[index] == LoadKind::index) return text + "index" + std::to_string(program.load_axis[index]);
  return text + "tensor";
}

bool has_dims_of(const Problem& problem, const TensorGeometry& tensor) {
  for (int i = 0; i < problem.rank; ++i) {
    if (tensor.dims[i] != problem.dims[i]) return false;
  }
  return tensor.rank == problem.rank;
}

// ":nhwc", ":strides=..." or nothing for row-major.
std::string layout_suffix(const TensorGeometry& tensor) {
  const std::string layout = layout_text(tensor);
  return layout == "nchw" ? std::string() : ":" + layout;
}

TensorGeometry whole_of(const Problem& problem) {
  return packed_tensor(GPUDNN_DATA_FLOAT, GPUDNN_TENSOR_NCHW, problem.rank, problem.dims);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

// One parser a line: its steps hand on what they found wrong in `why`.
class Parser {
 public:
  Parser(Problem* problem, std::string* why) : problem_(*problem), why_(*why) {}

  bool word(std::string_view text) {
    const auto equals = text.find('=');
    if (equals == std::string_view::npos || equals < 2) return fail(text, "expected iK=, rK= or oK=");
    int number = 0;
    const auto [end, error] = std::from_chars(text.data() + 1, text.data() + equals, number);
    if (error != std::errc{} || end != text.data() + equals) return fail(text, "expected iK=, rK= or oK=");
    const std::string_view rest = text.substr(equals + 1);
    Program& program = problem_.program;
    switch (text.front()) {
      case 'i':
        return numbered(text, number, program.loads, kMaxLoads) && load(rest);
      case 'r':
        return numbered(text, number, program.instructions, kMaxInstructions) && instruction(rest);
      case 'o':
        return numbered(text, number, program.stores, kMaxStores) && store(rest);
      default:
        return fail(text, "expected iK=, rK= or oK=");
    }
  }

 private:
  bool fail(std::string_view text, const char* reason) {
    why_ = "'" + std::string(text) + "': " + reason;
    return false;
  }

  bool numbered(std::string_view text, int number, int next, int most) {
    if (number != next) return fail(text, "loads, results and stores are numbered in order from 0");
    return next < most || fail(text, "more of them than a program holds");
  }

  // "f16[:DIMS][:LAYOUT]" from part `first` on.
  bool tensor(const std::vector<std::string_view>& parts, std::size_t first, TensorGeometry* result) {
    if (parts.size() <= first) return fail(parts[0], "a data type such as f16 is missing");
    std::string dims = dims_text(whole_of(problem_));
    std::string layout = "nchw";
    for (std::size_t i = first + 1; i < parts.size(); ++i) {
      const bool names_layout = parts[i].starts_with("strides=") || parts[i] == "nchw" || parts[i] == "nhwc";
      (names_layout ? layout : dims) = parts[i];
    }
    return parse_tensor(parts[first], layout, dims, result) || fail(parts[first], "no tensor TYPE[:DIMS][:LAYOUT]");
  }

  bool load(std::string_view text) {
    Program& program = problem_.program;
    const int at = program.loads;
    if (text == "scalar") {
      program.load_kind[at] = LoadKind::scalar;
    } else if (text.starts_with("index") && text.size() == 6 && text[5] >= '0' && text[5] <= '0' + kMaxAxis) {
      program.load_kind[at] = LoadKind::index;
      program.load_axis[at] = static_cast<std::uint8_t>(text[5] - '0');
    } else if (!tensor(split(text, ':'), 0, &problem_.loads[at])) {
      return false;
    }
    ++program.loads;
    return true;
  }

  bool operand(std::string_view text, Operand* result) {
    if (parse_number(text, &result->value)) {
      result->kind = OperandKind::constant;
      return true;
    }
    int number = 0;
    const char* const end = text.data() + text.size();
    if (text.size() < 2 || (text[0] != 'i' && text[0] != 'r')) return fail(text, "expected iK, rK or a number");
    const auto [stop, error] = std::from_chars(text.data() + 1, end, number);
    if (error != std::errc{} || stop != end || number < 0 || number >= kMaxInstructions) {
      return fail(text, "expected iK, rK or a number");
    }
    *result = text[0] == 'i' ? Operand::load(number) : Operand::result(number);
    return true;
  }

  bool parameters(std::string_view text, Instruction* result) {
    if (text == "drop_nan") return result->params.drops_nan = true;
    const auto values = split(text, ',');
    if (static_cast<int>(values.size()) != tile::pointwise_parameters(result->op)) {
      return fail(text, "not as many parameters as the operation has");
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!parse_number(values[i], &result->params.p[i])) return fail(values[i], "no number");
    }
    return true;
  }

  bool instruction(std::string_view text) {
    const auto open = text.find('(');
    const auto close = text.find(')');
    if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
      return fail(text, "expected OP(operands)");
    }
    Instruction result;
    result.op = Op::count;
    for (int i = 0; i < tile::kPointwiseOps; ++i) {
      if (text.substr(0, open) == op_name(static_cast<Op>(i))) result.op = static_cast<Op>(i);
    }
    if (result.op == Op::count) return fail(text.substr(0, open), "no such operation");
    const auto groups = split(text.substr(open + 1, close - open - 1), ';');
    const auto operands = split(groups[0], ',');
    if (static_cast<int>(operands.size()) != result.operands()) return fail(text, "wrong number of operands");
    Operand* const places[] = {&result.x, &result.b, &result.t};
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (!operand(operands[i], places[i])) return false;
    }
    if (groups.size() == 1 && tile::pointwise_parameters(result.op) > 0) return fail(text, "parameters are missing");
    for (std::size_t i = 1; i < groups.size(); ++i) {
      if (!parameters(groups[i], &result)) return false;
    }
    result.type = problem_.program.compute;
    if (close + 1 < text.size()) {
      const auto type = parse_data_type(text.substr(close + 2));
      if (text[close + 1] != ':' || !type) return fail(text, "no data type after ':'");
      result.type = *type;
    }
    problem_.program.code[problem_.program.instructions++] = result;
    return true;
  }

  bool store(std::string_view text) {
    Program& program = problem_.program;
    const auto parts = split(text, ':');
    std::string_view value = parts[0];
    if (const auto open = value.find('('); open != std::string_view::npos && value.back() == ')') {
      for (std::size_t i = 0; i < std::size(kReductions); ++i) {
        if (value.substr(0, open) == kReductions[i]) problem_.reductions[program.stores] = static_cast<int>(i);
      }
      if (problem_.reductions[program.stores] == kNoReduction) return fail(value, "no such reduction");
      value = value.substr(open + 1, value.size() - open - 2);
    }
    if (!operand(value, &program.stored[program.stores])) return false;
    if (!tensor(parts, 1, &problem_.stores[program.stores])) return false;
    ++program.stores;
    return true;
  }

  Problem& problem_;
  std::string& why_;
};

}  // namespace

std::string to_text(const Program& program) {
  std::string text;
  for (int i = 0; i < program.loads; ++i) text += load_text(program, i) + ' ';
  for (int i = 0; i < program.instructions; ++i) text += instruction_text(program, i) + ' ';
  for (int i = 0; i < program.stores; ++i) {
    text += "o" + std::to_string(i) + "=" + operand_text(program.stored[i]) + (i + 1 < program.stores ? " " : "");
  }
  return text;
}

std::string to_text(const Problem& problem) {
  const Program& program = problem.program;
  std::string text = "pointwise " + dims_text(whole_of(problem));
  if (program.compute == GPUDNN_DATA_DOUBLE) text += " acc=f64";
  for (int i = 0; i < program.loads; ++i) {
    if (program.load_kind[i] != LoadKind::tensor) {
      text += ' ' + load_text(program, i);
      continue;
    }
    const TensorGeometry& tensor = problem.loads[i];
    text += " i" + std::to_string(i) + "=" + data_type_name(tensor.type);
    if (!has_dims_of(problem, tensor)) text += ':' + dims_text(tensor);
    text += layout_suffix(tensor);
  }
  for (int i = 0; i < program.instructions; ++i) text += ' ' + instruction_text(program, i);
  for (int i = 0; i < program.stores; ++i) {
    const TensorGeometry& tensor = problem.stores[i];
    const std::string value = operand_text(program.stored[i]);
    const int reduction = problem.reductions[i];
    text += " o" + std::to_string(i) + "=";
    text += reduction == kNoReduction ? value : std::string(kReductions[reduction]) + '(' + value + ')';
    text += std::string(":") + data_type_name(tensor.type);
    if (!has_dims_of(problem, tensor)) text += ':' + dims_text(tensor);
    text += layout_suffix(tensor);
  }
  return text;
}

std::optional<Problem> from_text(std::string_view line, std::string* why) {
  ProblemWords words(line);
  Problem problem;
  if (words.next() != "pointwise") return *why = "the line does not start with 'pointwise'", std::nullopt;
  TensorGeometry whole;
  const std::string dims(words.next());
  if (!parse_tensor("f32", "nchw", dims, &whole)) {
    return *why = "'" + dims + "': expected dims such as 'n8c16h32w32' or '8x16'", std::nullopt;
  }
  problem.rank = whole.rank;
  for (int i = 0; i < whole.rank; ++i) problem.dims[i] = whole.dims[i];
  if (const auto compute = words.take("acc=")) {
    const auto type = parse_data_type(*compute);
    if (!type || (*type != GPUDNN_DATA_FLOAT && *type != GPUDNN_DATA_DOUBLE)) {
      return *why = "acc= is f32 or f64", std::nullopt;
    }
    problem.program.compute = *type;
  }
  Parser parser(&problem, why);
  for (std::string_view word = words.next(); !word.empty(); word = words.next()) {
    if (!parser.word(word)) return std::nullopt;
  }
  return problem;
}

}  // namespace gpudnn::pointwise
