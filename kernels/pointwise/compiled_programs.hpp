// The pointwise programs that are compiled: those of published models' graphs (benchmarks/cases/pointwise.txt), and
// single activations with and without a bias. Every other program is interpreted (program.cuh), with the same bits.
// Plain data.
//
// A row is the program as lowered (kernels/tile/program.hpp), with inputs and outputs numbered in the order of their
// first use: so a row serves a program whatever numbers its tensors have. Immediates and parameters are not part of it.
//
// Beside it stand the types that it is compiled for, each a kernel: a letter for each input, '>', a letter for each
// output. h: f16 or bf16; f: float; b: a type of one byte; i: the index along an axis. A star: also a kernel for rows
// of no whole packs, as 7x7 images in NCHW or three channels in NHWC have them. Programs of other types are
// interpreted.
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
  const char* types = "";
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
constexpr Program program(const char* types, const Steps&... steps) {
  static_assert(sizeof...(Steps) <= kMaxSteps, "a row has place for so many steps");
  return {sizeof...(Steps), {steps.fields.word()...}, types};
}

using enum tile::PointwiseOp;

// clang-format off: a row a line
constexpr Program kPrograms[] = {
    // copies; single operations, of a tensor or with a bias
    program("h>h f>f h>f f>h", load(in(0)).out()),
    program("h>h f>f", load(in(0)), kMulNumber.out()),
    program("hh>h ff>f", load(in(0)), op(add, in(1)).out()),
    program("hh>h ff>f hf>h* hf>b bf>h hb>h", load(in(0)), op(mul, in(1)).out()),
    program("h>h f>f", load(in(0)), kMaxNumber.out()),
    program("h>h f>f", load(in(0)), op(gelu).out()),
    program("h>h f>f", load(in(0)), op(gelu_tanh).out()),
    program("h>h f>f", load(in(0)), op(swish).out()),
    program("h>h f>f", load(in(0)), op(sigmoid).out()),
    program("h>h f>f", load(in(0)), op(tanh).out()),
    program("hh>h ff>f", load(in(0)), op(add, in(1)), op(gelu).out()),
    program("hh>h ff>f", load(in(0)), op(add, in(1)), op(gelu_tanh).out()),
    program("hh>h ff>f", load(in(0)), op(add, in(1)), op(swish).out()),
    program("hh>h ff>f", load(in(0)), op(add, in(1)), kMaxNumber.out()),
    // gradients of activations
    program("hh>h ff>f", load(in(0)), op(relu_bwd, in(1)).out()),
    program("hh>h ff>f", load(in(0)), op(gelu_bwd, in(1)).out()),
    program("hh>h ff>f", load(in(0)), op(gelu_tanh_bwd, in(1)).out()),
    program("hh>h ff>f", load(in(0)), op(swish_bwd, in(1)).out()),
    // gated units and their gradients
    program("hh>h ff>f", load(in(0)), op(swish), op(mul, in(1)).out()),
    program("hh>h ff>f", load(in(0)), op(gelu), op(mul, in(1)).out()),
    program("hh>h ff>f", load(in(0)), op(gelu_tanh), op(mul, in(1)).out()),
    program("hh>h ff>f", load(in(0)), op(sigmoid), op(mul, in(1)).out()),
    program("hhh>hh", load(in(0)), op(mul, in(1)).keep(0), load(in(2)), op(swish_bwd, temp(0)).out(0), load(in(2)),
            op(swish), op(mul, in(0)).out(1)),
    // residuals: layer scale, dropout, modulation
    program("hhh>h fff>f", load(in(0)), op(add, in(1)), op(gelu), op(add, in(2)).out()),
    program("hhh>h fff>f", load(in(0)), op(add, in(1)), op(add, in(2)).out()),
    program("hhh>h hfh>h fff>f", load(in(0)), op(mul, in(1)), op(mul, in(2)).out()),
    program("hhh>h hfh>h hff>h* fff>f", load(in(0)), op(mul, in(1)), op(add, in(2)).out()),
    program("hbh>h", load(in(0)), op(mul, in(1)), kMulNumber, op(add, in(2)).out()),
    program("hhbh>h", load(in(0)), op(add, in(1)), op(mul, in(2)), kMulNumber, op(add, in(3)).out()),
    program("hhh>h", load(in(0)), kAddNumber, op(mul, in(1)), op(add, in(2)).out()),
    program("fh>fh", load(in(0)), op(add, in(1)).keep(0).out(0), load(temp(0)).out(1)),
    // attention: rotary embedding, soft cap, causal mask, ALiBi, softmax by parts
    program("hfhf>hh", load(in(0)), op(mul, in(1)).keep(0), load(in(2)), op(mul, in(3)), sub_from(temp(0)).out(0),
            load(in(2)), op(mul, in(1)).keep(0), load(in(0)), op(mul, in(3)), op(add, temp(0)).out(1)),
    program("h>h f>f", load(in(0)), op(div, kNumber), op(tanh), kMulNumber.out()),
    program("iih>h iif>f", load(in(0)), op(cmp_ge, in(1)).keep(0), load(in(2)), kMulNumber.keep(1), load(temp(0)),
            kPredicate, load(temp(1)), op(select, kNumber).out()),
    program("iifh>h", load(in(0)), op(sub, in(1)), op(mul, in(2)), op(add, in(3)).out()),
    program("hf>h ff>f", load(in(0)), op(sub, in(1)), op(exp).out()),
    program("hff>h fff>f", load(in(0)), op(sub, in(1)), op(exp), op(div, in(2)).out()),
    program("hfh>h bff>h*", load(in(0)), op(sub, in(1)), op(mul, in(2)).out()),
    // norms with known statistics, batch norm in inference
    program("hffhh>h hffff>h fffff>f", load(in(0)), op(sub, in(1)), op(mul, in(2)), op(mul, in(3)),
            op(add, in(4)).out()),
    program("hhfhff>h", load(in(0)), op(mul, in(1)), op(sub, in(2)).keep(0), load(in(3)), op(mul, in(4)),
            sub_from(temp(0)), op(mul, in(5)).out()),
    program("hffff>h", load(in(0)), op(sub, in(1)).keep(0), load(in(2)), kAddNumber, op(rsqrt), op(mul, temp(0)),
            op(mul, in(3)), op(add, in(4)), kMaxNumber.out()),
    program("hffff>h*", load(in(0)), op(sub, in(1)), op(mul, in(2)), op(mul, in(3)), op(add, in(4)), kMaxNumber.out()),
    program("hhhh>h hffh>h* ffff>f", load(in(0)), op(mul, in(1)), op(add, in(2)), op(add, in(3)), kMaxNumber.out()),
    program("hhh>h hff>h* fff>f", load(in(0)), op(mul, in(1)), op(add, in(2)), kMaxNumber.out()),
    // hard swish, mish
    program("h>h", load(in(0)), kAddNumber, kMaxNumber, kMinNumber, op(mul, in(0)), kMulNumber.out()),
    program("h>h", load(in(0)), op(softplus), op(tanh), op(mul, in(0)).out()),
    // optimizers: Adam, SGD with momentum
    program("ffff>fff", load(in(0)), kMulNumber.keep(0), load(in(1)), kMulNumber, op(add, temp(0)).keep(0).out(0),
            load(in(2)), kMulNumber.keep(1), load(in(1)), op(mul, kSelf), kMulNumber, op(add, temp(1)).out(1), op(sqrt),
            kAddNumber, div_from(temp(0)).keep(0), load(in(3)), kMulNumber.keep(1), load(temp(0)), kMulNumber,
            sub_from(temp(1)).out(2)),
    program("fff>ff", load(in(0)), kMulNumber, op(add, in(1)).out(0), kMulNumber, sub_from(in(2)).out(1)),
    // SiLU and GELU written out in single operations
    program("h>h", load(in(0)), op(neg), op(exp), kAddNumber, div_from(in(0)).out()),
    program("hh>h", load(in(0)), op(mul, kSelf), op(mul, in(0)), kMulNumber, op(add, in(0)), kMulNumber, op(tanh),
            kAddNumber.keep(0), load(in(0)), kMulNumber, op(mul, temp(0)), op(add, in(1)).out()),
};
// clang-format on
constexpr int kProgramCount = static_cast<int>(sizeof(kPrograms) / sizeof(kPrograms[0]));

// A program with types: a kernel.
struct Instance {
  int row = -1;
  bool odd = false;  // for rows of no whole packs
  char in[kMaxInputs] = {};
  char out[kMaxOutputs] = {};
};

// Calls visit(instance) for each, in order.
template <class Visit>
constexpr void for_each_instance(Visit visit) {
  for (int row = 0; row < kProgramCount; ++row) {
    for (const char* at = kPrograms[row].types; *at != 0;) {
      Instance one;
      one.row = row;
      for (int i = 0; *at != '>'; ++at) one.in[i++] = *at;
      ++at;
      for (int i = 0; *at != 0 && *at != ' ' && *at != '*'; ++at) one.out[i++] = *at;
      visit(one);
      if (*at == '*') {
        one.odd = true;
        visit(one);
        ++at;
      }
      if (*at == ' ') ++at;
    }
  }
}
constexpr int kInstanceCount = [] {
  int count = 0;
  for_each_instance([&count](const Instance&) { ++count; });
  return count;
}();
struct Instances {
  Instance all[kInstanceCount];
};
constexpr Instances kInstances = [] {
  Instances instances;
  int count = 0;
  for_each_instance([&](const Instance& one) { instances.all[count++] = one; });
  return instances;
}();

// Elements of a pack: 16 bytes of the type that most tensors have.
constexpr int pack_of(const Instance& instance) {
  for (const char letter : instance.in) {
    if (letter == 'h' || letter == 'b') return 8;
  }
  for (const char letter : instance.out) {
    if (letter == 'h' || letter == 'b') return 8;
  }
  return 4;
}
constexpr int bytes_of(char letter) { return letter == 'h' ? 2 : letter == 'b' ? 1 : 4; }

}  // namespace gpudnn::kernels::compiled
