// The evaluation of pointwise programs, on the device and on the host: one function for memory-bound kernels, epilogues
// and score modifiers.
//
// A Context says where the elements are:
//   void fetch(int input, C (&b)[E])             b = elements of an input
//   void keep(int temp, const C (&a)[E])         and
//   void recall(int temp, C (&b)[E])             a temporary
//   void round(AnyType type, C (&a)[E])          a = a as the type holds it
//   void store(int output, const C (&a)[E])      an output = a
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/tile/pointwise_math.cuh"
#include "kernels/tile/program.hpp"
#include "kernels/tile/program_series.cuh"

#ifdef __CUDA_ARCH__
#define GPUDNN_UNROLL _Pragma("unroll")
#define GPUDNN_UNROLL_NOT _Pragma("unroll 1")
#else
#define GPUDNN_UNROLL
#define GPUDNN_UNROLL_NOT
#endif

namespace gpudnn::tile {

template <PointwiseOp kOp, class C>
GPUDNN_HOST_DEVICE C apply_one(C a, C b, const PointwiseParams<C>& params) {
  if constexpr (sizeof(C) == 4 && series::has(kOp)) {
    return series::evaluate<kOp>(a, b, params);
  } else {
    return pointwise::evaluate(kOp, a, b, C(0), params);
  }
}

template <PointwiseOp kOp, class C, int E>
GPUDNN_HOST_DEVICE void apply_each(C (&a)[E], const C (&b)[E], const PointwiseParams<C>& params) {
  GPUDNN_UNROLL
  for (int i = 0; i < E; ++i) a[i] = apply_one<kOp>(a[i], b[i], params);
}

// For the operations made of long series: each element has its turn in the first place, so that their code exists once.
template <class C, int E>
GPUDNN_HOST_DEVICE void apply_in_turn(PointwiseOp op, C (&a)[E], C (&b)[E], const PointwiseParams<C>& params) {
  GPUDNN_UNROLL_NOT
  for (int turn = 0; turn < E; ++turn) {
    using Op = PointwiseOp;
    C result = a[0];
    switch (op) {
      case Op::cos:
        result = pointwise::evaluate(Op::cos, a[0], b[0], C(0), params);
        break;
      case Op::sin:
        result = pointwise::evaluate(Op::sin, a[0], b[0], C(0), params);
        break;
      case Op::tan:
        result = pointwise::evaluate(Op::tan, a[0], b[0], C(0), params);
        break;
      case Op::mod:
        result = pointwise::evaluate(Op::mod, a[0], b[0], C(0), params);
        break;
      case Op::pow:
        result = pointwise::evaluate(Op::pow, a[0], b[0], C(0), params);
        break;
      case Op::atan2:
        result = pointwise::evaluate(Op::atan2, a[0], b[0], C(0), params);
        break;
      case Op::softplus:
        result = apply_one<Op::softplus>(a[0], b[0], params);
        break;
      default:
        break;
    }
    GPUDNN_UNROLL
    for (int i = 0; i + 1 < E; ++i) {
      a[i] = a[i + 1];
      b[i] = b[i + 1];
    }
    a[E - 1] = result;
  }
}

// The machine's own operations, but for the load.
template <class C, int E>
GPUDNN_HOST_DEVICE void apply_machine_step(int op, C immediate, C (&a)[E], const C (&b)[E], std::uint32_t* predicate) {
  switch (op) {
    case kStepAddImmediate:
      GPUDNN_UNROLL
      for (int i = 0; i < E; ++i) a[i] = pointwise::rounded_sum(a[i], immediate);
      break;
    case kStepMulImmediate:
      GPUDNN_UNROLL
      for (int i = 0; i < E; ++i) a[i] = pointwise::rounded_product(a[i], immediate);
      break;
    case kStepMaxImmediate:
      GPUDNN_UNROLL
      for (int i = 0; i < E; ++i) a[i] = pointwise::larger(a[i], immediate);
      break;
    case kStepMinImmediate:
      GPUDNN_UNROLL
      for (int i = 0; i < E; ++i) a[i] = pointwise::smaller(a[i], immediate);
      break;
    case kStepAdd:
      GPUDNN_UNROLL
      for (int i = 0; i < E; ++i) a[i] = pointwise::rounded_sum(a[i], b[i]);
      break;
    case kStepMul:
      GPUDNN_UNROLL
      for (int i = 0; i < E; ++i) a[i] = pointwise::rounded_product(a[i], b[i]);
      break;
    case kStepSubFrom:
      GPUDNN_UNROLL
      for (int i = 0; i < E; ++i) a[i] = pointwise::rounded_sum(b[i], -a[i]);
      break;
    case kStepDivFrom:
      GPUDNN_UNROLL
      for (int i = 0; i < E; ++i) a[i] = b[i] / a[i];
      break;
    default: {  // kStepPredicate
      std::uint32_t bits = 0;
      GPUDNN_UNROLL
      for (int i = 0; i < E; ++i) bits |= static_cast<std::uint32_t>(a[i] != C(0)) << i;
      *predicate = bits;
      break;
    }
  }
}

// a = op(a, b) for the step's operation; `predicate` has a bit for each element.
template <class C, int E>
GPUDNN_HOST_DEVICE void apply_step(const ProgramStep<C>& step, C (&a)[E], C (&b)[E], std::uint32_t* predicate) {
  static_assert(E <= 32, "the predicates of E elements are bits of a word");
  const PointwiseParams<C> params{{step.p[0], step.p[1], step.p[2]}, (step.word & kStepDropsNan) != 0};
  const int op = static_cast<int>(step.word & 127u);
  if (op > kStepLoad) return apply_machine_step(op, step.p[kStepImmediate], a, b, predicate);
#define GPUDNN_STEP(op)                        \
  case static_cast<int>(PointwiseOp::op):      \
    apply_each<PointwiseOp::op>(a, b, params); \
    break;
  switch (op) {
    case static_cast<int>(PointwiseOp::select): {
      const std::uint32_t bits = *predicate;
      GPUDNN_UNROLL
      for (int i = 0; i < E; ++i) a[i] = (bits >> i & 1u) != 0 ? a[i] : b[i];
      break;
    }
      GPUDNN_STEP(abs)
      GPUDNN_STEP(ceil)
      GPUDNN_STEP(erf)
      GPUDNN_STEP(exp)
      GPUDNN_STEP(floor)
      GPUDNN_STEP(log)
      GPUDNN_STEP(neg)
      GPUDNN_STEP(reciprocal)
      GPUDNN_STEP(rsqrt)
      GPUDNN_STEP(sqrt)
      GPUDNN_STEP(logical_not)
      GPUDNN_STEP(relu)
      GPUDNN_STEP(tanh)
      GPUDNN_STEP(sigmoid)
      GPUDNN_STEP(elu)
      GPUDNN_STEP(gelu)
      GPUDNN_STEP(swish)
      GPUDNN_STEP(gelu_tanh)
      GPUDNN_STEP(add_square)
      GPUDNN_STEP(div)
      GPUDNN_STEP(max)
      GPUDNN_STEP(min)
      GPUDNN_STEP(sub)
      GPUDNN_STEP(cmp_eq)
      GPUDNN_STEP(cmp_ne)
      GPUDNN_STEP(cmp_gt)
      GPUDNN_STEP(cmp_ge)
      GPUDNN_STEP(cmp_lt)
      GPUDNN_STEP(cmp_le)
      GPUDNN_STEP(logical_and)
      GPUDNN_STEP(logical_or)
    case static_cast<int>(PointwiseOp::relu_bwd_y):
      GPUDNN_STEP(relu_bwd)
      GPUDNN_STEP(tanh_bwd)
      GPUDNN_STEP(sigmoid_bwd)
      GPUDNN_STEP(elu_bwd)
      GPUDNN_STEP(gelu_bwd)
      GPUDNN_STEP(softplus_bwd)
      GPUDNN_STEP(swish_bwd)
      GPUDNN_STEP(gelu_tanh_bwd)
      GPUDNN_STEP(tanh_bwd_y)
      GPUDNN_STEP(sigmoid_bwd_y)
      GPUDNN_STEP(elu_bwd_y)
    case static_cast<int>(PointwiseOp::identity):
      break;
    default:
      apply_in_turn(static_cast<PointwiseOp>(op), a, b, params);
      break;
  }
#undef GPUDNN_STEP
}

// The step's second operand.
template <class C, int E, class Context>
GPUDNN_HOST_DEVICE void fetch_operand(const ProgramStep<C>& step, Context& context, const C (&a)[E], C (&b)[E]) {
  const int slot = static_cast<int>(step.word >> 10 & 63u);
  switch (static_cast<StepSource>(step.word >> 7 & 7u)) {
    case StepSource::input:
      context.fetch(slot, b);
      break;
    case StepSource::immediate:
      GPUDNN_UNROLL
      for (int i = 0; i < E; ++i) b[i] = step.p[kStepImmediate];
      break;
    case StepSource::temp:
      context.recall(slot, b);
      break;
    case StepSource::self:
      GPUDNN_UNROLL
      for (int i = 0; i < E; ++i) b[i] = a[i];
      break;
    default:
      // Half an instruction an element. Were b left as it is, by this case or for want of a default one, the compiler
      // would carry it from step to step, with a copy of each element at the top of each.
      GPUDNN_UNROLL
      for (int i = 0; i < E; ++i) b[i] = C(0);
      break;
  }
}

// Runs a program; a may hold a value that the first step works on.
template <class C, int E, class Context>
GPUDNN_HOST_DEVICE void run_program(const ProgramCode<C>& code, C (&a)[E], Context& context) {
  std::uint32_t predicate = 0;
  GPUDNN_UNROLL_NOT
  for (int s = 0; s < code.steps; ++s) {
    const ProgramStep<C> step = code.step[s];
    if ((step.word & 127u) == static_cast<std::uint32_t>(kStepLoad)) {
      fetch_operand(step, context, a, a);  // by far the commonest step: nothing is copied
    } else {
      C b[E];
      fetch_operand(step, context, a, b);
      apply_step(step, a, b, &predicate);
    }
    if (step.word >> 18 != 0) {
      const int round = static_cast<int>(step.word >> 18 & 15u);
      const int keep = static_cast<int>(step.word >> 22 & 31u);
      const int store = static_cast<int>(step.word >> 27 & 7u);
      if (round != 0) context.round(static_cast<AnyType>(round - 1), a);
      if (keep != 0) context.keep(keep - 1, a);
      if (store != 0) context.store(store - 1, a);
    }
  }
}

}  // namespace gpudnn::tile
