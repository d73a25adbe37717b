// From the steps of the machine to those of the kernel that keeps everything in registers.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/pointwise/register_steps.hpp"

#include "kernels/tile/any_type.hpp"

namespace gpudnn::kernels {
namespace {

using tile::StepSource;

// A step that exists once for each slot, or -1.
int with_slot(int op) {
  using Op = tile::PointwiseOp;
  switch (op) {
    case tile::kStepLoad:
      return static_cast<int>(SlotStep::load);
    case tile::kStepAdd:
      return static_cast<int>(SlotStep::add);
    case static_cast<int>(Op::sub):
      return static_cast<int>(SlotStep::sub);
    case tile::kStepSubFrom:
      return static_cast<int>(SlotStep::sub_from);
    case tile::kStepMul:
      return static_cast<int>(SlotStep::mul);
    case static_cast<int>(Op::max):
      return static_cast<int>(SlotStep::max);
    case static_cast<int>(Op::min):
      return static_cast<int>(SlotStep::min);
    default:
      return -1;
  }
}

// A step of no slot that has a number of its own.
OneStep without_slot(int op, StepSource source) {
  using Op = tile::PointwiseOp;
  switch (op) {
    case tile::kStepAddImmediate:
      return OneStep::add_number;
    case tile::kStepMulImmediate:
      return OneStep::mul_number;
    case tile::kStepMaxImmediate:
      return OneStep::max_number;
    case tile::kStepMinImmediate:
      return OneStep::min_number;
    case tile::kStepLoad:
      return source == StepSource::immediate ? OneStep::set_number : OneStep::any;
    case tile::kStepMul:
      return source == StepSource::self ? OneStep::square : OneStep::any;
    case static_cast<int>(Op::abs):
      return OneStep::abs;
    case static_cast<int>(Op::neg):
      return OneStep::neg;
    default:
      return OneStep::any;
  }
}

class Writer {
 public:
  explicit Writer(RegisterCode* code) : code_(code) {}

  bool add(int number, std::uint32_t word, const tile::ProgramStep<float>& from) {
    if (steps_ == kRegisterSteps) return false;
    code_->any = code_->any || number == one_step(OneStep::any);
    tile::ProgramStep<float>& to = code_->step[steps_++];
    to = from;
    to.word = static_cast<std::uint32_t>(number) << kRegisterStepBit | word;
    return true;
  }
  // The slot of an input: the first time it is read, the next one.
  int slot_of_input(int input) {
    for (int slot = 0; slot < code_->inputs; ++slot) {
      if (code_->input[slot] == input) return slot;
    }
    if (code_->inputs == kRegisterSlots) return -1;
    code_->input[code_->inputs] = static_cast<std::uint8_t>(input);
    return code_->inputs++;
  }

 private:
  RegisterCode* code_;
  int steps_ = 0;
};

int slot_in(std::uint32_t word) { return static_cast<int>(word >> 10 & 63u); }
StepSource source_in(std::uint32_t word) { return static_cast<StepSource>(word >> 7 & 7u); }

}  // namespace

bool register_code(const tile::ProgramCode<float>& code, RegisterCode* result) {
  Writer writer(result);
  for (int s = 0; s < code.steps; ++s) {
    const std::uint32_t word = code.step[s].word;
    if (source_in(word) == StepSource::input && writer.slot_of_input(slot_in(word)) < 0) return false;
  }
  const int first_temp = result->inputs;
  if (first_temp + code.temps > kRegisterSlots) return false;
  for (int s = 0; s < code.steps; ++s) {
    const tile::ProgramStep<float>& step = code.step[s];
    const StepSource source = source_in(step.word);
    const bool has_slot = source == StepSource::input || source == StepSource::temp;
    const int slot = source == StepSource::input  ? writer.slot_of_input(slot_in(step.word))
                     : source == StepSource::temp ? first_temp + slot_in(step.word)
                                                  : 0;
    const int op = static_cast<int>(step.word & 127u);
    const bool drops_nan = (step.word & tile::kStepDropsNan) != 0;
    const int of_slot = has_slot && !drops_nan ? with_slot(op) : -1;
    const int number = of_slot >= 0 ? slot_step(static_cast<SlotStep>(of_slot), slot)
                       : has_slot   ? one_step(OneStep::any)
                                    : one_step(without_slot(op, source));
    const std::uint32_t own = (step.word & (tile::kStepDropsNan | 1023u)) | static_cast<std::uint32_t>(slot) << 10;
    if (op != static_cast<int>(tile::PointwiseOp::identity) && !writer.add(number, own, step)) return false;

    const auto round = static_cast<tile::AnyType>(static_cast<int>(step.word >> 18 & 15u) - 1);
    const int keep = static_cast<int>(step.word >> 22 & 31u);
    const int store = static_cast<int>(step.word >> 27 & 7u);
    if ((step.word >> 18 & 15u) != 0 && round != tile::AnyType::f32) {
      if (round != tile::AnyType::f16 && round != tile::AnyType::bf16) return false;
      const OneStep as = round == tile::AnyType::f16 ? OneStep::round_f16 : OneStep::round_bf16;
      if (!writer.add(one_step(as), 0, step)) return false;
    }
    if (keep != 0 && !writer.add(slot_step(SlotStep::keep, first_temp + keep - 1), 0, {})) return false;
    const std::uint32_t output = static_cast<std::uint32_t>(store - 1) << 10;
    if (store != 0 && !writer.add(one_step(OneStep::store), output, step)) return false;
  }
  return writer.add(one_step(OneStep::end), 0, {});
}

}  // namespace gpudnn::kernels
