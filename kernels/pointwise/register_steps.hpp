// The steps of a pointwise program as program_registers_sm90 runs them: one number tells a step's operation and its
// operand, and what follows an operation is a step of its own, so that the kernel finds a step by one jump. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/tile/program.hpp"

namespace gpudnn::kernels {

// Inputs and temporaries of a program together.
constexpr int kRegisterSlots = 4;
constexpr int kRegisterSteps = tile::kProgramSteps;

// Operations on the accumulator alone. The first number ends the program.
enum class OneStep : std::uint8_t {
  end,
  add_number,
  mul_number,
  max_number,
  min_number,
  set_number,
  square,
  abs,
  neg,
  round_f16,
  round_bf16,
  store,  // in the output that the step's slot names
  any,    // as the word of tile::ProgramStep says, with its slots numbered as here
  count
};
constexpr int one_step(OneStep step) { return static_cast<int>(step); }
constexpr int kOneSteps = one_step(OneStep::count);

// Operations that exist once for each slot, with the slot as the second operand b: numbered from a power of two on, as
// the kernel finds a step by the bits of its number.
enum class SlotStep : std::uint8_t { load, keep, add, sub, sub_from, mul, max, min, count };
constexpr int kStepNumberBits = 6;
constexpr int kFirstSlotStep = 1 << (kStepNumberBits - 1);
constexpr int slot_step(SlotStep step, int slot) {
  return kFirstSlotStep + static_cast<int>(step) * kRegisterSlots + slot;
}
constexpr int kStepNumbers = slot_step(SlotStep::count, 0);
static_assert(kOneSteps <= kFirstSlotStep && kStepNumbers <= 1 << kStepNumberBits &&
              kFirstSlotStep % kRegisterSlots == 0);

// The steps' words have the number above the other fields: of these, source and slot alone are used, and a word that
// ends a program is 0.
constexpr int kRegisterStepBit = 32 - kStepNumberBits;

struct RegisterCode {
  std::int32_t inputs = 0;
  bool any = false;  // has steps of OneStep::any
  tile::ProgramStep<float> step[kRegisterSteps];
  std::uint8_t input[kRegisterSlots] = {};  // of the program, for each slot
};

// False where the program has too many values or steps, or rounds to a type other than of 16 and 32 bits.
[[nodiscard]] bool register_code(const tile::ProgramCode<float>& code, RegisterCode* result);

}  // namespace gpudnn::kernels
