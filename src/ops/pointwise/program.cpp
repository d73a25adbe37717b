// Pointwise programs: names, comparison, the builder.
// SPDX-License-Identifier: Apache-2.0
#include "ops/pointwise/program.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>

namespace gpudnn::pointwise {
namespace {

// In the order of tile::PointwiseOp.
constexpr const char* kNames[] = {
    "identity",
    "abs",
    "ceil",
    "cos",
    "erf",
    "exp",
    "floor",
    "log",
    "neg",
    "reciprocal",
    "rsqrt",
    "sin",
    "sqrt",
    "tan",
    "not",
    "relu",
    "tanh",
    "sigmoid",
    "elu",
    "gelu",
    "softplus",
    "swish",
    "gelu_tanh",
    "add",
    "add_square",
    "div",
    "max",
    "min",
    "mod",
    "mul",
    "pow",
    "sub",
    "atan2",
    "eq",
    "ne",
    "gt",
    "ge",
    "lt",
    "le",
    "and",
    "or",
    "relu_bwd",
    "tanh_bwd",
    "sigmoid_bwd",
    "elu_bwd",
    "gelu_bwd",
    "softplus_bwd",
    "swish_bwd",
    "gelu_tanh_bwd",
    "relu_bwd_y",
    "tanh_bwd_y",
    "sigmoid_bwd_y",
    "elu_bwd_y",
    "select",
};
static_assert(std::size(kNames) == tile::kPointwiseOps, "one name for each operation");

Op two_operand_op(gpudnnPointwiseMode_t mode) noexcept {
  switch (mode) {
    case GPUDNN_POINTWISE_ADD:
      return Op::add;
    case GPUDNN_POINTWISE_ADD_SQUARE:
      return Op::add_square;
    case GPUDNN_POINTWISE_DIV:
      return Op::div;
    case GPUDNN_POINTWISE_MAX:
      return Op::max;
    case GPUDNN_POINTWISE_MIN:
      return Op::min;
    case GPUDNN_POINTWISE_MOD:
      return Op::mod;
    case GPUDNN_POINTWISE_MUL:
      return Op::mul;
    case GPUDNN_POINTWISE_POW:
      return Op::pow;
    case GPUDNN_POINTWISE_SUB:
      return Op::sub;
    case GPUDNN_POINTWISE_ATAN2:
      return Op::atan2;
    case GPUDNN_POINTWISE_CMP_EQ:
      return Op::cmp_eq;
    case GPUDNN_POINTWISE_CMP_NEQ:
      return Op::cmp_ne;
    case GPUDNN_POINTWISE_CMP_GT:
      return Op::cmp_gt;
    case GPUDNN_POINTWISE_CMP_GE:
      return Op::cmp_ge;
    case GPUDNN_POINTWISE_CMP_LT:
      return Op::cmp_lt;
    case GPUDNN_POINTWISE_CMP_LE:
      return Op::cmp_le;
    case GPUDNN_POINTWISE_LOGICAL_AND:
      return Op::logical_and;
    case GPUDNN_POINTWISE_LOGICAL_OR:
      return Op::logical_or;
    case GPUDNN_POINTWISE_BINARY_SELECT:
      return Op::select;
    default:
      return Op::count;
  }
}

Op gradient_op(gpudnnPointwiseMode_t mode, bool from_y) noexcept {
  switch (mode) {
    case GPUDNN_POINTWISE_RELU_BWD:
      return from_y ? Op::relu_bwd_y : Op::relu_bwd;
    case GPUDNN_POINTWISE_TANH_BWD:
      return from_y ? Op::tanh_bwd_y : Op::tanh_bwd;
    case GPUDNN_POINTWISE_SIGMOID_BWD:
      return from_y ? Op::sigmoid_bwd_y : Op::sigmoid_bwd;
    case GPUDNN_POINTWISE_ELU_BWD:
      return from_y ? Op::elu_bwd_y : Op::elu_bwd;
    case GPUDNN_POINTWISE_GELU_BWD:
      return from_y ? Op::count : Op::gelu_bwd;
    case GPUDNN_POINTWISE_SOFTPLUS_BWD:
      return from_y ? Op::count : Op::softplus_bwd;
    case GPUDNN_POINTWISE_SWISH_BWD:
      return from_y ? Op::count : Op::swish_bwd;
    case GPUDNN_POINTWISE_GELU_APPROX_TANH_BWD:
      return from_y ? Op::count : Op::gelu_tanh_bwd;
    default:
      return two_operand_op(mode);
  }
}

bool same_value(double a, double b) noexcept {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

}  // namespace

bool operator==(const Operand& a, const Operand& b) noexcept {
  return a.kind == b.kind && a.index == b.index && same_value(a.value, b.value);
}

bool operator==(const Instruction& a, const Instruction& b) noexcept {
  return a.op == b.op && a.type == b.type && a.x == b.x && a.b == b.b && a.t == b.t &&
         a.params.drops_nan == b.params.drops_nan &&
         std::equal(std::begin(a.params.p), std::end(a.params.p), std::begin(b.params.p), same_value);
}

bool operator==(const Program& a, const Program& b) noexcept {
  return a.compute == b.compute && a.loads == b.loads && a.instructions == b.instructions && a.stores == b.stores &&
         std::equal(a.load_kind, a.load_kind + a.loads, b.load_kind) &&
         std::equal(a.load_axis, a.load_axis + a.loads, b.load_axis) &&
         std::equal(a.code, a.code + a.instructions, b.code) && std::equal(a.stored, a.stored + a.stores, b.stored);
}

const char* op_name(Op op) noexcept {
  const auto index = static_cast<std::size_t>(op);
  return index < std::size(kNames) ? kNames[index] : "?";
}

Op op_of(gpudnnPointwiseMode_t mode, bool from_y) noexcept {
  switch (mode) {
    case GPUDNN_POINTWISE_ABS:
      return Op::abs;
    case GPUDNN_POINTWISE_CEIL:
      return Op::ceil;
    case GPUDNN_POINTWISE_COS:
      return Op::cos;
    case GPUDNN_POINTWISE_EXP:
      return Op::exp;
    case GPUDNN_POINTWISE_FLOOR:
      return Op::floor;
    case GPUDNN_POINTWISE_LOG:
      return Op::log;
    case GPUDNN_POINTWISE_NEG:
      return Op::neg;
    case GPUDNN_POINTWISE_RSQRT:
      return Op::rsqrt;
    case GPUDNN_POINTWISE_SIN:
      return Op::sin;
    case GPUDNN_POINTWISE_SQRT:
      return Op::sqrt;
    case GPUDNN_POINTWISE_TAN:
      return Op::tan;
    case GPUDNN_POINTWISE_ERF:
      return Op::erf;
    case GPUDNN_POINTWISE_IDENTITY:
      return Op::identity;
    case GPUDNN_POINTWISE_RECIPROCAL:
      return Op::reciprocal;
    case GPUDNN_POINTWISE_LOGICAL_NOT:
      return Op::logical_not;
    case GPUDNN_POINTWISE_RELU_FWD:
      return Op::relu;
    case GPUDNN_POINTWISE_TANH_FWD:
      return Op::tanh;
    case GPUDNN_POINTWISE_SIGMOID_FWD:
      return Op::sigmoid;
    case GPUDNN_POINTWISE_ELU_FWD:
      return Op::elu;
    case GPUDNN_POINTWISE_GELU_FWD:
      return Op::gelu;
    case GPUDNN_POINTWISE_SOFTPLUS_FWD:
      return Op::softplus;
    case GPUDNN_POINTWISE_SWISH_FWD:
      return Op::swish;
    case GPUDNN_POINTWISE_GELU_APPROX_TANH_FWD:
      return Op::gelu_tanh;
    default:
      return gradient_op(mode, from_y);
  }
}

bool is_program_type(DataType type) noexcept {
  switch (type) {
    case GPUDNN_DATA_FLOAT:
    case GPUDNN_DATA_DOUBLE:
    case GPUDNN_DATA_HALF:
    case GPUDNN_DATA_BFLOAT16:
    case GPUDNN_DATA_INT8:
    case GPUDNN_DATA_UINT8:
    case GPUDNN_DATA_INT32:
    case GPUDNN_DATA_INT64:
    case GPUDNN_DATA_BOOLEAN:
    case GPUDNN_DATA_FP8_E4M3:
    case GPUDNN_DATA_FP8_E5M2:
      return true;
    default:
      return false;
  }
}

Operand Builder::add_load(LoadKind kind, int axis) {
  if (program_.loads == kMaxLoads) {
    overflowed_ = true;
    return Operand::load(0);
  }
  program_.load_kind[program_.loads] = kind;
  program_.load_axis[program_.loads] = static_cast<std::uint8_t>(axis);
  return Operand::load(program_.loads++);
}

Operand Builder::apply(const Instruction& instruction) {
  if (program_.instructions == kMaxInstructions) {
    overflowed_ = true;
    return Operand::result(0);
  }
  Instruction added = instruction;
  // The greatest float as the upper clip means none: infinity stays infinity.
  if (is_relu(added.op) && added.params.p[1] >= static_cast<double>(std::numeric_limits<float>::max())) {
    added.params.p[1] = std::numeric_limits<double>::infinity();
  }
  program_.code[program_.instructions] = added;
  return Operand::result(program_.instructions++);
}

Operand Builder::apply(Op op, Operand x, Operand b, Operand t) {
  Instruction instruction{.op = op, .type = program_.compute, .x = x, .b = b, .t = t, .params = {}};
  if (is_relu(op)) instruction.params.p[1] = std::numeric_limits<double>::infinity();
  if (tile::pointwise_parameters(op) == 1) instruction.params.p[0] = 1;
  return apply(instruction);
}

Operand Builder::scaled(double alpha, Operand value) {
  return alpha == 1 ? value : apply(Op::mul, value, Operand::constant(alpha));
}

int Builder::store(Operand value) {
  if (program_.stores == kMaxStores) {
    overflowed_ = true;
    return 0;
  }
  program_.stored[program_.stores] = value;
  return program_.stores++;
}

}  // namespace gpudnn::pointwise
