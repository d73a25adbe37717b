// The pointwise programs that are compiled: those of published models' graphs (benchmarks/cases/pointwise.txt), and
// single activations with and without a bias. Every other program is interpreted (program.cuh), with the same bits.
// Plain data.
//
// A row is the program as lowered (kernels/tile/program.hpp), with inputs and outputs numbered in the order of their
// first use: so a row serves a program whatever numbers its tensors have. Immediates and parameters are not part of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/tile/program.hpp"

namespace gpudnn::kernels::compiled {

constexpr int kMaxSteps = 24;
constexpr int kMaxInputs = 6;
constexpr int kMaxOutputs = 3;

struct Program {
  int steps = 0;
  std::uint32_t words[kMaxSteps] = {};
};

struct Step {
  tile::StepFields fields;
  [[nodiscard]] constexpr Step keep(int temp) const {
    Step step = *this;
    step.fields.keep = temp + 1;
    return step;
  }
  [[nodiscard]] constexpr Step out(int output = 0) const {
    Step step = *this;
    step.fields.store = output + 1;
    return step;
  }
};

// The second operand of a step.
struct Operand {
  tile::StepSource source = tile::StepSource::none;
  int slot = 0;
};
constexpr Operand in(int input) { return {tile::StepSource::input, input}; }
constexpr Operand temp(int number) { return {tile::StepSource::temp, number}; }
constexpr Operand kNumber{tile::StepSource::immediate, 0};
constexpr Operand kSelf{tile::StepSource::self, 0};

constexpr Step machine(int op, Operand b = {}) {
  Step step;
  step.fields.op = op;
  step.fields.source = b.source;
  step.fields.slot = b.slot;
  return step;
}
constexpr Step load(Operand b) { return machine(tile::kStepLoad, b); }
constexpr Step op(tile::PointwiseOp which, Operand b = {}) { return machine(static_cast<int>(which), b); }
constexpr Step sub_from(Operand b) { return machine(tile::kStepSubFrom, b); }
constexpr Step div_from(Operand b) { return machine(tile::kStepDivFrom, b); }
constexpr Step kAddNumber = machine(tile::kStepAddImmediate);
constexpr Step kMulNumber = machine(tile::kStepMulImmediate);
constexpr Step kMaxNumber = machine(tile::kStepMaxImmediate);  // ReLU without a slope
constexpr Step kMinNumber = machine(tile::kStepMinImmediate);
constexpr Step kPredicate = machine(tile::kStepPredicate);

template <class... Steps>
constexpr Program program(const Steps&... steps) {
  static_assert(sizeof...(Steps) <= kMaxSteps, "a row has place for so many steps");
  return {sizeof...(Steps), {steps.fields.word()...}};
}

using enum tile::PointwiseOp;

// clang-format off: a row a line
constexpr Program kPrograms[] = {
    // copies; single operations, of a tensor or with a bias
    program(load(in(0)).out()),
    program(load(in(0)), kMulNumber.out()),
    program(load(in(0)), op(add, in(1)).out()),
    program(load(in(0)), op(mul, in(1)).out()),
    program(load(in(0)), kMaxNumber.out()),
    program(load(in(0)), op(gelu).out()),
    program(load(in(0)), op(gelu_tanh).out()),
    program(load(in(0)), op(swish).out()),
    program(load(in(0)), op(sigmoid).out()),
    program(load(in(0)), op(tanh).out()),
    program(load(in(0)), op(add, in(1)), op(gelu).out()),
    program(load(in(0)), op(add, in(1)), op(gelu_tanh).out()),
    program(load(in(0)), op(add, in(1)), op(swish).out()),
    program(load(in(0)), op(add, in(1)), kMaxNumber.out()),
    // gradients of activations
    program(load(in(0)), op(relu_bwd, in(1)).out()),
    program(load(in(0)), op(gelu_bwd, in(1)).out()),
    program(load(in(0)), op(gelu_tanh_bwd, in(1)).out()),
    program(load(in(0)), op(swish_bwd, in(1)).out()),
    // gated units and their gradients
    program(load(in(0)), op(swish), op(mul, in(1)).out()),
    program(load(in(0)), op(gelu), op(mul, in(1)).out()),
    program(load(in(0)), op(gelu_tanh), op(mul, in(1)).out()),
    program(load(in(0)), op(sigmoid), op(mul, in(1)).out()),
    program(load(in(0)), op(mul, in(1)).keep(0), load(in(2)), op(swish_bwd, temp(0)).out(0), load(in(2)), op(swish),
            op(mul, in(0)).out(1)),
    // residuals: layer scale, dropout, modulation
    program(load(in(0)), op(add, in(1)), op(gelu), op(add, in(2)).out()),
    program(load(in(0)), op(add, in(1)), op(add, in(2)).out()),
    program(load(in(0)), op(mul, in(1)), op(mul, in(2)).out()),
    program(load(in(0)), op(mul, in(1)), op(add, in(2)).out()),
    program(load(in(0)), op(mul, in(1)), kMulNumber, op(add, in(2)).out()),
    program(load(in(0)), op(add, in(1)), op(mul, in(2)), kMulNumber, op(add, in(3)).out()),
    program(load(in(0)), kAddNumber, op(mul, in(1)), op(add, in(2)).out()),
    program(load(in(0)), op(add, in(1)).keep(0).out(0), load(temp(0)).out(1)),
    // attention: rotary embedding, soft cap, causal mask, ALiBi, softmax by parts
    program(load(in(0)), op(mul, in(1)).keep(0), load(in(2)), op(mul, in(3)), sub_from(temp(0)).out(0), load(in(2)),
            op(mul, in(1)).keep(0), load(in(0)), op(mul, in(3)), op(add, temp(0)).out(1)),
    program(load(in(0)), op(div, kNumber), op(tanh), kMulNumber.out()),
    program(load(in(0)), op(cmp_ge, in(1)).keep(0), load(in(2)), kMulNumber.keep(1), load(temp(0)), kPredicate,
            load(temp(1)), op(select, kNumber).out()),
    program(load(in(0)), op(sub, in(1)), op(mul, in(2)), op(add, in(3)).out()),
    program(load(in(0)), op(sub, in(1)), op(exp).out()),
    program(load(in(0)), op(sub, in(1)), op(exp), op(div, in(2)).out()),
    program(load(in(0)), op(sub, in(1)), op(mul, in(2)).out()),
    // norms with known statistics, batch norm in inference
    program(load(in(0)), op(sub, in(1)), op(mul, in(2)), op(mul, in(3)), op(add, in(4)).out()),
    program(load(in(0)), op(mul, in(1)), op(sub, in(2)).keep(0), load(in(3)), op(mul, in(4)), sub_from(temp(0)),
            op(mul, in(5)).out()),
    program(load(in(0)), op(sub, in(1)).keep(0), load(in(2)), kAddNumber, op(rsqrt), op(mul, temp(0)), op(mul, in(3)),
            op(add, in(4)), kMaxNumber.out()),
    program(load(in(0)), op(sub, in(1)), op(mul, in(2)), op(mul, in(3)), op(add, in(4)), kMaxNumber.out()),
    program(load(in(0)), op(mul, in(1)), op(add, in(2)), op(add, in(3)), kMaxNumber.out()),
    program(load(in(0)), op(mul, in(1)), op(add, in(2)), kMaxNumber.out()),
    // hard swish, mish
    program(load(in(0)), kAddNumber, kMaxNumber, kMinNumber, op(mul, in(0)), kMulNumber.out()),
    program(load(in(0)), op(softplus), op(tanh), op(mul, in(0)).out()),
    // optimizers: Adam, SGD with momentum
    program(load(in(0)), kMulNumber.keep(0), load(in(1)), kMulNumber, op(add, temp(0)).keep(0).out(0), load(in(2)),
            kMulNumber.keep(1), load(in(1)), op(mul, kSelf), kMulNumber, op(add, temp(1)).out(1), op(sqrt), kAddNumber,
            div_from(temp(0)).keep(0), load(in(3)), kMulNumber.keep(1), load(temp(0)), kMulNumber,
            sub_from(temp(1)).out(2)),
    program(load(in(0)), kMulNumber, op(add, in(1)).out(0), kMulNumber, sub_from(in(2)).out(1)),
    // SiLU and GELU written out in single operations
    program(load(in(0)), op(neg), op(exp), kAddNumber, div_from(in(0)).out()),
    program(load(in(0)), op(mul, kSelf), op(mul, in(0)), kMulNumber, op(add, in(0)), kMulNumber, op(tanh),
            kAddNumber.keep(0), load(in(0)), kMulNumber, op(mul, temp(0)), op(add, in(1)).out()),
};
// clang-format on
constexpr int kProgramCount = static_cast<int>(sizeof(kPrograms) / sizeof(kPrograms[0]));

}  // namespace gpudnn::kernels::compiled
