// A pointwise program: a topologically sorted list of instructions over values. The loads are the first values, each
// instruction makes one more, the stores name values. Plain data without padding that differs: programs compare and
// hash.
//
// Each instruction rounds its result to its own type, so a program has the bits of the evaluation node by node that
// stores every intermediate result in a tensor of that type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/data_type.hpp"
#include "kernels/tile/pointwise_op.hpp"

namespace gpudnn::pointwise {

constexpr int kMaxLoads = 12;
constexpr int kMaxInstructions = 64;
constexpr int kMaxStores = 4;
constexpr int kMaxAxis = 7;

using Op = tile::PointwiseOp;

enum class OperandKind : std::uint8_t { none, load, result, constant };

// A load, the result of an earlier instruction, or a number.
struct Operand {
  OperandKind kind = OperandKind::none;
  std::uint8_t index = 0;
  double value = 0;  // of a constant

  static constexpr Operand load(int index) { return {OperandKind::load, static_cast<std::uint8_t>(index), 0}; }
  static constexpr Operand result(int index) { return {OperandKind::result, static_cast<std::uint8_t>(index), 0}; }
  static constexpr Operand constant(double value) { return {OperandKind::constant, 0, value}; }
};
[[nodiscard]] bool operator==(const Operand& a, const Operand& b) noexcept;

struct Instruction {
  Op op = Op::identity;
  DataType type = GPUDNN_DATA_FLOAT;  // that the result is rounded to
  Operand x;
  Operand b;  // of operations of two operands and more; dy of the gradients
  Operand t;  // select's predicate
  tile::PointwiseParams<double> params;

  [[nodiscard]] int operands() const noexcept { return tile::pointwise_operands(op); }
  [[nodiscard]] const Operand& operand(int which) const noexcept { return which == 0 ? x : which == 1 ? b : t; }
};
[[nodiscard]] bool operator==(const Instruction& a, const Instruction& b) noexcept;

// tensor: elements in memory. scalar: a number that the caller gives with each call. index: the element's index along
// an axis (the GEN_INDEX mode).
enum class LoadKind : std::uint8_t { tensor, scalar, index };

struct Program {
  DataType compute = GPUDNN_DATA_FLOAT;  // or double
  std::int32_t loads = 0;
  std::int32_t instructions = 0;
  std::int32_t stores = 0;
  LoadKind load_kind[kMaxLoads] = {};
  std::uint8_t load_axis[kMaxLoads] = {};  // of an index
  Instruction code[kMaxInstructions];
  Operand stored[kMaxStores];
};
[[nodiscard]] bool operator==(const Program& a, const Program& b) noexcept;

[[nodiscard]] const char* op_name(Op op) noexcept;
// The operation of a mode of the interface; `from_y`: a backward mode that is given y in the place of x. GEN_INDEX is a
// load and has none: Op::count.
[[nodiscard]] Op op_of(gpudnnPointwiseMode_t mode, bool from_y = false) noexcept;

// Types that a value can be rounded to and a tensor can have.
[[nodiscard]] bool is_program_type(DataType type) noexcept;

// Builds a program and its operands' places. Each call returns the new value. A program that outgrows the limits stays
// within them and is marked.
class Builder {
 public:
  explicit Builder(DataType compute = GPUDNN_DATA_FLOAT) { program_.compute = compute; }

  Operand tensor() { return add_load(LoadKind::tensor, 0); }
  Operand scalar() { return add_load(LoadKind::scalar, 0); }
  Operand index(int axis) { return add_load(LoadKind::index, axis); }
  // The result is rounded to `type`; the compute type where it is left out.
  Operand apply(const Instruction& instruction);
  Operand apply(Op op, Operand x, Operand b = {}, Operand t = {});
  // alpha * value without a rounding to anything but the compute type; nothing where alpha is 1.
  Operand scaled(double alpha, Operand value);
  // Returns the number of the store.
  int store(Operand value);

  [[nodiscard]] const Program& program() const noexcept { return program_; }
  [[nodiscard]] bool overflowed() const noexcept { return overflowed_; }

 private:
  Operand add_load(LoadKind kind, int axis);

  Program program_;
  bool overflowed_ = false;
};

}  // namespace gpudnn::pointwise
