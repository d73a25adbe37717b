// From the steps of the machine to those of the kernel that fetches operands by steps of their own.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/pointwise/staged_steps.hpp"

#include <algorithm>
#include <bit>

#include "kernels/tile/any_type.hpp"

namespace gpudnn::kernels {
namespace {

using tile::StepSource;

// A step that takes b, or any.
StagedOp with_operand(int op) {
  using Op = tile::PointwiseOp;
  switch (op) {
    case tile::kStepAdd:
      return StagedOp::add;
    case static_cast<int>(Op::sub):
      return StagedOp::sub;
    case tile::kStepSubFrom:
      return StagedOp::sub_from;
    case tile::kStepMul:
      return StagedOp::mul;
    case static_cast<int>(Op::max):
      return StagedOp::max;
    case static_cast<int>(Op::min):
      return StagedOp::min;
    case static_cast<int>(Op::div):
      return StagedOp::div;
    case tile::kStepDivFrom:
      return StagedOp::div_from;
    default:
      return StagedOp::any;
  }
}

// A step that takes no b and has a kind of its own, or any.
StagedOp without_operand(int op) {
  using Op = tile::PointwiseOp;
  switch (op) {
    case tile::kStepAddImmediate:
      return StagedOp::add_number;
    case tile::kStepMulImmediate:
      return StagedOp::mul_number;
    case tile::kStepMaxImmediate:
      return StagedOp::max_number;
    case tile::kStepMinImmediate:
      return StagedOp::min_number;
    case static_cast<int>(Op::abs):
      return StagedOp::abs;
    case static_cast<int>(Op::neg):
      return StagedOp::neg;
    case static_cast<int>(Op::exp):
      return StagedOp::exp;
    case static_cast<int>(Op::tanh):
      return StagedOp::tanh;
    case static_cast<int>(Op::sigmoid):
      return StagedOp::sigmoid;
    case static_cast<int>(Op::swish):
      return StagedOp::swish;
    case static_cast<int>(Op::gelu):
      return StagedOp::gelu;
    case static_cast<int>(Op::gelu_tanh):
      return StagedOp::gelu_tanh;
    case static_cast<int>(Op::reciprocal):
      return StagedOp::reciprocal;
    case static_cast<int>(Op::sqrt):
      return StagedOp::sqrt;
    case static_cast<int>(Op::rsqrt):
      return StagedOp::rsqrt;
    default:
      return StagedOp::any;
  }
}

class Writer {
 public:
  Writer(const StagedForm* inputs, StagedForm usual, StagedCode* code) : inputs_(inputs), usual_(usual), code_(code) {}

  void add(StagedOp kind, int slot = 0, std::uint32_t rest = 0, const float* p = nullptr) {
    if (join(kind, p)) return;
    if (code_->steps == kStagedSteps) {
      overflowed_ = true;
      return;
    }
    code_->any = code_->any || needs_any(kind);
    StagedStep& to = code_->step[code_->steps++];
    to.word = static_cast<std::uint32_t>(kind) << kStagedOpBit | static_cast<std::uint32_t>(slot) << 10 | rest;
    if (p != nullptr) to.number = p[tile::kStepImmediate], to.p[0] = p[0], to.p[1] = p[1];
  }

  // a = op(a, b) with the input for b: by one step where that is of the usual form.
  void operate(StagedOp kind, StepSource source, int slot, std::uint32_t rest, const float* p) {
    const bool is_common = kind >= StagedOp::add && kind <= StagedOp::min;
    const bool held = holds_ && source == source_ && slot == slot_;
    if (is_common && source == StepSource::input && !held && inputs_[slot] == usual_ && usual_ != StagedForm::spread) {
      holds_ = true;
      source_ = source;
      slot_ = slot;
      return add(static_cast<StagedOp>(static_cast<int>(kind) + static_cast<int>(StagedOp::add_input) -
                                       static_cast<int>(StagedOp::add)),
                 slot);
    }
    fetch(source, slot, p);
    add(kind, 0, rest, p);
  }

  // b = the operand, unless b holds it already.
  void fetch(StepSource source, int slot, const float* p) {
    if (holds_ && source == source_ && slot == slot_) return;
    holds_ = source == StepSource::input || source == StepSource::temp;
    source_ = source;
    slot_ = slot;
    if (source == StepSource::input) {
      const StagedForm form = inputs_[slot];
      return add(form == StagedForm::f16    ? StagedOp::fetch_f16
                 : form == StagedForm::bf16 ? StagedOp::fetch_bf16
                 : form == StagedForm::f32  ? StagedOp::fetch_f32
                                            : StagedOp::fetch_spread,
                 slot);
    }
    if (source == StepSource::temp) return add(StagedOp::fetch_temp, slot);
    add(source == StepSource::immediate ? StagedOp::set_operand : StagedOp::copy_operand, 0, 0, p);
  }

  void load(StepSource source, int slot, const float* p) {
    if (source == StepSource::immediate) return add(StagedOp::set_number, 0, 0, p);
    if (source == StepSource::input && inputs_[slot] == StagedForm::spread) fetch(source, slot, p);
    if (holds_ && source == source_ && slot == slot_) return add(StagedOp::take);
    if (source == StepSource::temp) return add(StagedOp::load_temp, slot);
    const StagedForm form = inputs_[slot];
    add(form == StagedForm::f16    ? StagedOp::load_f16
        : form == StagedForm::bf16 ? StagedOp::load_bf16
                                   : StagedOp::load_f32,
        slot);
  }

  void keep(int temp) {
    if (source_ == StepSource::temp && slot_ == temp) holds_ = false;
    add(StagedOp::keep, temp);
  }
  void store(int output) {
    add(StagedOp::store, output);
    forget_operand();
  }
  void forget_operand() { holds_ = false; }
  [[nodiscard]] bool overflowed() const { return overflowed_; }

 private:
  // Two steps with a number each as one.
  bool join(StagedOp kind, const float* p) {
    if (code_->steps == 0) return false;
    StagedStep& last = code_->step[code_->steps - 1];
    const StagedOp before = staged_op(last);
    const StagedOp both = before == StagedOp::mul_number && kind == StagedOp::add_number   ? StagedOp::mul_add_numbers
                          : before == StagedOp::add_number && kind == StagedOp::mul_number ? StagedOp::add_mul_numbers
                          : before == StagedOp::max_number && kind == StagedOp::min_number ? StagedOp::clamp
                                                                                           : StagedOp::end;
    if (both == StagedOp::end) return false;
    last.word = static_cast<std::uint32_t>(both) << kStagedOpBit;
    last.p[0] = p[tile::kStepImmediate];
    return true;
  }

  const StagedForm* inputs_;
  StagedForm usual_;
  StagedCode* code_;
  bool overflowed_ = false;
  bool holds_ = false;
  StepSource source_ = StepSource::none;
  int slot_ = 0;
};

void add_operation(const tile::ProgramStep<float>& step, Writer* writer) {
  const int op = static_cast<int>(step.word & 127u);
  const auto source = static_cast<StepSource>(step.word >> 7 & 7u);
  const int slot = static_cast<int>(step.word >> 10 & 63u);
  if (op == static_cast<int>(tile::PointwiseOp::identity) || (op == tile::kStepLoad && source == StepSource::self))
    return;
  if (op == tile::kStepLoad && source != StepSource::none) return writer->load(source, slot, step.p);
  const bool drops_nan = (step.word & tile::kStepDropsNan) != 0;
  if (op == tile::kStepMul && source == StepSource::self && !drops_nan) return writer->add(StagedOp::square);
  StagedOp kind = StagedOp::any;
  if (source == StepSource::none) {
    if (!drops_nan) kind = without_operand(op);
  } else {
    if (!drops_nan) kind = with_operand(op);
  }
  const std::uint32_t rest = kind == StagedOp::any ? step.word & (tile::kStepDropsNan | 127u) : 0;
  if (source == StepSource::none) {
    writer->add(kind, 0, rest, step.p);
  } else {
    writer->operate(kind, source, slot, rest, step.p);
  }
  if (kind == StagedOp::any) writer->forget_operand();
}

bool is_load(StagedOp op) { return op >= StagedOp::load_f16 && op <= StagedOp::load_temp; }
bool is_fetch(StagedOp op) { return op >= StagedOp::fetch_f16 && op <= StagedOp::fetch_spread; }

// The input that a step reads from shared memory, or -1.
int input_of(const StagedStep& step) {
  const StagedOp op = staged_op(step);
  const bool reads = (is_load(op) && op != StagedOp::load_temp) ||
                     (is_fetch(op) && op != StagedOp::fetch_temp && op != StagedOp::fetch_spread) ||
                     (op >= StagedOp::add_input && op <= StagedOp::min_input);
  return reads ? staged_slot(step) : -1;
}

// Adds the steps `stage`: behind the first step that works with what was read last, so that it has arrived.
bool add_stage_steps(std::uint32_t same, StagedCode* code) {
  int last_read[tile::kProgramInputs];
  std::fill_n(last_read, tile::kProgramInputs, -1);
  for (int s = 0; s < code->steps; ++s) {
    if (const int input = input_of(code->step[s]); input >= 0) last_read[input] = s;
  }
  const StagedCode from = *code;
  code->steps = 0;
  const auto add = [code](const StagedStep& step) {
    if (code->steps < kStagedSteps) code->step[code->steps] = step;
    ++code->steps;
  };
  std::uint32_t waits = 0;  // a bit for each input
  for (int s = 0; s < from.steps; ++s) {
    const StagedStep& step = from.step[s];
    add(step);
    if (const int input = input_of(step); input >= 0 && last_read[input] == s) waits |= 1u << input;
    if (is_load(staged_op(step)) || is_fetch(staged_op(step))) continue;
    for (waits &= ~same; waits != 0; waits &= waits - 1) {
      add({.word = static_cast<std::uint32_t>(StagedOp::stage) << kStagedOpBit |
                   static_cast<std::uint32_t>(std::countr_zero(waits)) << 10});
    }
  }
  return code->steps <= kStagedSteps;
}

}  // namespace

bool staged_code(const tile::ProgramCode<float>& code, const StagedForm* inputs, StagedForm usual, std::uint32_t same,
                 StagedCode* result) {
  result->steps = 0;
  result->any = false;
  Writer writer(inputs, usual, result);
  for (int s = 0; s < code.steps; ++s) {
    const std::uint32_t word = code.step[s].word;
    add_operation(code.step[s], &writer);
    if (result->any && usual != StagedForm::spread) return staged_code(code, inputs, StagedForm::spread, same, result);
    const auto round = static_cast<tile::AnyType>(static_cast<int>(word >> 18 & 15u) - 1);
    if ((word >> 18 & 15u) != 0 && round != tile::AnyType::f32) {
      if (round != tile::AnyType::f16 && round != tile::AnyType::bf16) return false;
      writer.add(round == tile::AnyType::f16 ? StagedOp::round_f16 : StagedOp::round_bf16);
    }
    if ((word >> 22 & 31u) != 0) writer.keep(static_cast<int>(word >> 22 & 31u) - 1);
    if ((word >> 27 & 7u) != 0) writer.store(static_cast<int>(word >> 27 & 7u) - 1);
  }
  if (writer.overflowed() || !add_stage_steps(same, result) || result->steps == kStagedSteps) return false;
  result->step[result->steps++] = {};  // StagedOp::end
  for (int s = 0; s + 1 < result->steps; ++s)
    result->step[s].word |= static_cast<std::uint32_t>(staged_op(result->step[s + 1])) << kNextStagedOpBit;
  return true;
}

void place_operands(const std::int32_t* inputs, std::int32_t temp_bytes, StagedCode* code) {
  for (int s = 0; s < code->steps; ++s) {
    StagedStep& step = code->step[s];
    const int slot = staged_slot(step);
    switch (staged_op(step)) {
      case StagedOp::load_f16:
      case StagedOp::load_bf16:
      case StagedOp::load_f32:
      case StagedOp::fetch_f16:
      case StagedOp::fetch_bf16:
      case StagedOp::fetch_f32:
      case StagedOp::add_input:
      case StagedOp::sub_input:
      case StagedOp::sub_from_input:
      case StagedOp::mul_input:
      case StagedOp::max_input:
      case StagedOp::min_input:
        step.number = std::bit_cast<float>(inputs[slot]);
        break;
      case StagedOp::load_temp:
      case StagedOp::fetch_temp:
      case StagedOp::keep:
        step.number = std::bit_cast<float>(slot * temp_bytes);
        break;
      default:
        break;
    }
  }
}

}  // namespace gpudnn::kernels
