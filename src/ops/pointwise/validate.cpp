// The checks of pointwise problems; comparison and hash.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>

#include "core/validation.hpp"
#include "ops/pointwise/problem.hpp"

namespace gpudnn::pointwise {
namespace {

Status validate_operand(const Program& program, int instruction, const Operand& operand, const char* role) {
  switch (operand.kind) {
    case OperandKind::load:
      GPUDNN_REQUIRE(operand.index < program.loads, GPUDNN_STATUS_BAD_PARAM,
                     "%s of instruction r%d is i%d; the program has %d loads", role, instruction, operand.index,
                     program.loads);
      return GPUDNN_STATUS_SUCCESS;
    case OperandKind::result:
      GPUDNN_REQUIRE(operand.index < instruction, GPUDNN_STATUS_BAD_PARAM,
                     "%s of instruction r%d is r%d; it must be the result of an earlier instruction", role, instruction,
                     operand.index);
      return GPUDNN_STATUS_SUCCESS;
    case OperandKind::constant:
      return GPUDNN_STATUS_SUCCESS;
    default:
      return GPUDNN_REFUSE(GPUDNN_STATUS_BAD_PARAM, "%s of instruction r%d is not set", role, instruction);
  }
}

Status validate_instruction(const Program& program, int index) {
  constexpr const char* kRoles[] = {"the first operand", "the second operand", "the predicate"};
  const Instruction& instruction = program.code[index];
  GPUDNN_REQUIRE(instruction.op < Op::count, GPUDNN_STATUS_BAD_PARAM,
                 "instruction r%d has operation %d, which no mode is", index, static_cast<int>(instruction.op));
  GPUDNN_REQUIRE(is_program_type(instruction.type), GPUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE,
                 "the result of instruction r%d has data type %s; programs know f32, f64, f16, bf16, i8, u8, i32, i64, "
                 "bool, f8e4m3 and f8e5m2",
                 index, data_type_name(instruction.type));
  for (int i = 0; i < instruction.operands(); ++i) {
    GPUDNN_TRY(validate_operand(program, index, instruction.operand(i), kRoles[i]));
  }
  const bool divides = instruction.op == Op::softplus && instruction.params.p[0] == 0;
  GPUDNN_REQUIRE(!divides, GPUDNN_STATUS_BAD_PARAM, "softplus of instruction r%d has beta 0; it divides by beta",
                 index);
  return GPUDNN_STATUS_SUCCESS;
}

Status validate_program(const Problem& problem) {
  const Program& program = problem.program;
  GPUDNN_REQUIRE(program.compute == GPUDNN_DATA_FLOAT || program.compute == GPUDNN_DATA_DOUBLE,
                 GPUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "the program computes in %s; f32 and f64 are built",
                 data_type_name(program.compute));
  GPUDNN_REQUIRE(program.loads >= 0 && program.loads <= kMaxLoads && program.instructions >= 0 &&
                     program.instructions <= kMaxInstructions && program.stores >= 1 && program.stores <= kMaxStores,
                 GPUDNN_STATUS_NOT_SUPPORTED,
                 "the program has %d loads, %d instructions and %d stores; it may have up to %d, %d, and 1 to %d",
                 program.loads, program.instructions, program.stores, kMaxLoads, kMaxInstructions, kMaxStores);
  for (int i = 0; i < program.instructions; ++i) GPUDNN_TRY(validate_instruction(program, i));
  for (int i = 0; i < program.loads; ++i) {
    GPUDNN_REQUIRE(program.load_kind[i] != LoadKind::index || program.load_axis[i] < problem.rank,
                   GPUDNN_STATUS_BAD_PARAM, "load i%d is the index along axis %d; the tensors have %d dims", i,
                   program.load_axis[i], problem.rank);
  }
  return GPUDNN_STATUS_SUCCESS;
}

Status validate_load(const Problem& problem, int index) {
  char name[16];
  std::snprintf(name, sizeof name, "i%d", index);
  const TensorGeometry& tensor = problem.loads[index];
  GPUDNN_TRY(require_described(tensor, name));
  GPUDNN_REQUIRE(is_program_type(tensor.type), GPUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE,
                 "%s has data type %s; programs read f32, f64, f16, bf16, i8, u8, i32, i64, bool, f8e4m3 and f8e5m2",
                 name, data_type_name(tensor.type));
  const bool wide = tensor.type == GPUDNN_DATA_DOUBLE || tensor.type == GPUDNN_DATA_INT64;
  GPUDNN_REQUIRE(!wide || problem.program.compute == GPUDNN_DATA_DOUBLE, GPUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE,
                 "%s has data type %s, and the program computes in f32; it must compute in f64", name,
                 data_type_name(tensor.type));
  const TensorGeometry whole = packed_tensor(tensor.type, GPUDNN_TENSOR_NCHW, problem.rank, problem.dims);
  return require_dims_or_ones(tensor, name, whole, "the whole");
}

Status validate_store(const Problem& problem, int index) {
  char name[16];
  std::snprintf(name, sizeof name, "o%d", index);
  const Program& program = problem.program;
  const Operand& value = program.stored[index];
  const bool known = value.kind == OperandKind::constant ||
                     (value.kind == OperandKind::load && value.index < program.loads) ||
                     (value.kind == OperandKind::result && value.index < program.instructions);
  GPUDNN_REQUIRE(known, GPUDNN_STATUS_BAD_PARAM, "%s stores a value that the program does not have", name);
  const TensorGeometry& tensor = problem.stores[index];
  GPUDNN_TRY(require_described(tensor, name));
  GPUDNN_REQUIRE(is_program_type(tensor.type), GPUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE,
                 "%s has data type %s; programs write f32, f64, f16, bf16, i8, u8, i32, i64, bool, f8e4m3 and f8e5m2",
                 name, data_type_name(tensor.type));
  const TensorGeometry whole = packed_tensor(tensor.type, GPUDNN_TENSOR_NCHW, problem.rank, problem.dims);
  GPUDNN_TRY(require_dims_or_ones(tensor, name, whole, "the whole"));
  const int reduction = problem.reductions[index];
  GPUDNN_REQUIRE(reduction >= kNoReduction && reduction <= GPUDNN_REDUCE_TENSOR_NORM2, GPUDNN_STATUS_NOT_SUPPORTED,
                 "%s has reduction %d; add, mul, min, max, amax, avg, norm1 and norm2 are built", name, reduction);
  GPUDNN_REQUIRE(reduction != kNoReduction || same_dims(tensor, whole), GPUDNN_STATUS_BAD_PARAM,
                 "%s has dims %s and no reduction; it must have the dims of the whole, %s", name,
                 shown_dims(tensor).c_str(), shown_dims(whole).c_str());
  return require_no_overlap(tensor, name);
}

}  // namespace

Status validate(const Problem& problem) {
  GPUDNN_REQUIRE(problem.rank >= 1 && problem.rank <= kMaxRank, GPUDNN_STATUS_BAD_PARAM,
                 "the tensors have %d dims; 1 to %d are possible", problem.rank, kMaxRank);
  for (int i = 0; i < problem.rank; ++i) {
    GPUDNN_REQUIRE(problem.dims[i] >= 0, GPUDNN_STATUS_BAD_PARAM, "dim %d is %lld; dims must not be negative", i,
                   static_cast<long long>(problem.dims[i]));
  }
  GPUDNN_TRY(validate_program(problem));
  for (int i = 0; i < problem.program.loads; ++i) {
    if (problem.program.load_kind[i] == LoadKind::tensor) GPUDNN_TRY(validate_load(problem, i));
  }
  for (int i = 0; i < problem.program.stores; ++i) GPUDNN_TRY(validate_store(problem, i));
  return GPUDNN_STATUS_SUCCESS;
}

bool operator==(const Problem& a, const Problem& b) noexcept {
  return a.rank == b.rank && std::equal(a.dims, a.dims + a.rank, b.dims) && a.program == b.program &&
         std::equal(a.loads, a.loads + a.program.loads, b.loads) &&
         std::equal(a.stores, a.stores + a.program.stores, b.stores) &&
         std::equal(a.reductions, a.reductions + a.program.stores, b.reductions);
}

std::size_t hash_of(const Problem& problem) noexcept {
  std::size_t hash = 0x9e3779b97f4a7c15u;
  const auto mix = [&hash](std::uint64_t value) {
    hash ^= std::hash<std::uint64_t>{}(value) + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  };
  const auto mix_tensor = [&mix](const TensorGeometry& tensor) {
    mix(static_cast<std::uint64_t>(tensor.type) * 16 + static_cast<std::uint64_t>(tensor.rank));
    for (int i = 0; i < tensor.rank; ++i) {
      mix(static_cast<std::uint64_t>(tensor.dims[i]));
      mix(static_cast<std::uint64_t>(tensor.strides[i]));
    }
  };
  const Program& program = problem.program;
  for (int i = 0; i < problem.rank; ++i) mix(static_cast<std::uint64_t>(problem.dims[i]));
  for (int i = 0; i < program.loads; ++i) {
    mix(static_cast<std::uint64_t>(program.load_kind[i]) * 8 + program.load_axis[i]);
    mix_tensor(problem.loads[i]);
  }
  for (int i = 0; i < program.instructions; ++i) {
    const Instruction& instruction = program.code[i];
    mix(static_cast<std::uint64_t>(instruction.op) * 64 + static_cast<std::uint64_t>(instruction.type));
    for (int j = 0; j < instruction.operands(); ++j) {
      const Operand& operand = instruction.operand(j);
      mix(static_cast<std::uint64_t>(operand.kind) * 64 + operand.index);
      if (operand.kind == OperandKind::constant) mix(std::hash<double>{}(operand.value));
    }
    for (const double value : instruction.params.p) mix(std::hash<double>{}(value));
  }
  for (int i = 0; i < program.stores; ++i) {
    mix(static_cast<std::uint64_t>(program.stored[i].index) * 64 +
        static_cast<std::uint64_t>(problem.reductions[i] + 1));
    mix_tensor(problem.stores[i]);
  }
  return hash;
}

double bytes_moved(const Problem& problem) noexcept {
  double bytes = 0;
  const auto add = [&](const TensorGeometry& tensor) {
    bytes += static_cast<double>(element_count(tensor)) * data_type_bits(tensor.type) / 8;
  };
  for (int i = 0; i < problem.program.loads; ++i) {
    if (problem.program.load_kind[i] == LoadKind::tensor) add(problem.loads[i]);
  }
  for (int i = 0; i < problem.program.stores; ++i) add(problem.stores[i]);
  return bytes;
}

}  // namespace gpudnn::pointwise
