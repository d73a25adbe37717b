// The steps of a pointwise program as program_staged_sm90 runs them. The machine has the accumulator a and the second
// operand b; a step does one thing to all elements: it fetches an operand, or works on a, or keeps or stores it, and
// one number tells which. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/tile/program.hpp"

namespace gpudnn::kernels {

// The kernel's tables (kernels/ptx/staged_steps.cuh) are in this order. The first one ends the program.
enum class StagedOp : std::uint8_t {
  end,
  // a or b = an input, by its type, or a temporary
  load_f16,
  load_bf16,
  load_f32,
  load_temp,
  fetch_f16,
  fetch_bf16,
  fetch_f32,
  fetch_temp,
  fetch_spread,  // b = one element of each pack for the whole pack, of any of these types
  take,          // a = b
  // a = op(a, number)
  max_number,
  min_number,
  set_number,
  add_mul_numbers,  // two operations, each rounded
  square,
  abs,
  neg,
  round_f16,
  round_bf16,
  keep,
  store,  // b is undefined after it
  stage,  // an input's packs of the next tile may come in the place of those of this one
  // Of the kernels that have all operations.
  set_operand,   // b = number
  copy_operand,  // b = a
  any,           // as the word of tile::ProgramStep says
  // a = op(a, b)
  add,
  sub,
  sub_from,
  mul,
  max,
  min,
  // b = an input of the usual type, a = op(a, b)
  add_input,
  sub_input,
  sub_from_input,
  mul_input,
  max_input,
  min_input,
  add_number,
  mul_number,
  mul_add_numbers,
  clamp,  // max_number, min_number
  // Of the kernels that have all operations: those of all that programs use most.
  exp,
  tanh,
  sigmoid,
  swish,
  gelu,
  gelu_tanh,
  reciprocal,
  sqrt,
  rsqrt,
  div,       // a = a / b
  div_from,  // a = b / a
  count
};
constexpr bool needs_any(StagedOp op) {
  return (op >= StagedOp::set_operand && op <= StagedOp::any) || op >= StagedOp::exp;
}
// The numbers of a step's kind and of the next one's lie above the other fields of a ProgramStep's word; of these the
// operation, drops_nan and the slot (input, temporary, output) are used.
constexpr int kStagedOpBit = 18;
constexpr int kNextStagedOpBit = kStagedOpBit + 8;
static_assert(static_cast<int>(StagedOp::count) <= 64, "six bits each");

struct alignas(16) StagedStep {
  std::uint32_t word = 0;
  float number = 0;  // the immediate; of an operand that lies in shared memory its place there, in bytes
  float p[2] = {};   // the other parameters; the second number of a step that has two
};
constexpr int staged_slot(const StagedStep& step) { return static_cast<int>(step.word >> 10 & 63u); }
constexpr StagedOp staged_op(const StagedStep& step) { return static_cast<StagedOp>(step.word >> kStagedOpBit & 63u); }

constexpr int kStagedSteps = tile::kProgramSteps;

struct StagedCode {
  StagedStep step[kStagedSteps];
  std::int32_t steps = 0;
  bool any = false;  // has steps beyond those that all kernels have
};

// How an input comes into a or b.
enum class StagedForm : std::uint8_t { f16, bf16, f32, spread };

// False where the program has too many steps, or rounds to a type other than of 16 and 32 bits.
// A step `stage` follows the last one that reads an input. `usual` is the form that steps of an operation and an input
// take in kernels that have not all operations; spread: none.
// `same`: a bit for each input that is staged once for all tiles.
[[nodiscard]] bool staged_code(const tile::ProgramCode<float>& code, const StagedForm* inputs, StagedForm usual,
                               std::uint32_t same, StagedCode* result);

// Lets the steps know where operands lie, in bytes from the beginning of the block's memory: inputs by themselves,
// temporaries one behind the other with `temp_bytes` each.
void place_operands(const std::int32_t* inputs, std::int32_t temp_bytes, StagedCode* code);

}  // namespace gpudnn::kernels
