// The operations of pointwise programs: every mode of gpudnnPointwiseMode_t, and the forms of a mode that are functions
// of their own (backward from y). Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gpudnn::tile {

// x and b are the operands; t is the predicate of select alone. Backward operations take x (or y) and b = dy.
enum class PointwiseOp : std::uint8_t {
  // of one operand
  identity,
  abs,
  ceil,
  cos,
  erf,
  exp,
  floor,
  log,
  neg,
  reciprocal,
  rsqrt,
  sin,
  sqrt,
  tan,
  logical_not,
  relu,
  tanh,
  sigmoid,
  elu,
  gelu,
  softplus,
  swish,
  gelu_tanh,
  // of two
  add,
  add_square,
  div,
  max,
  min,
  mod,
  mul,
  pow,
  sub,
  atan2,
  cmp_eq,
  cmp_ne,
  cmp_gt,
  cmp_ge,
  cmp_lt,
  cmp_le,
  logical_and,
  logical_or,
  relu_bwd,
  tanh_bwd,
  sigmoid_bwd,
  elu_bwd,
  gelu_bwd,
  softplus_bwd,
  swish_bwd,
  gelu_tanh_bwd,
  relu_bwd_y,  // from y = f(x) in the place of x
  tanh_bwd_y,
  sigmoid_bwd_y,
  elu_bwd_y,
  // of three
  select,
  count
};

constexpr int kPointwiseOps = static_cast<int>(PointwiseOp::count);

constexpr int pointwise_operands(PointwiseOp op) {
  return op >= PointwiseOp::select ? 3 : op >= PointwiseOp::add ? 2 : 1;
}
constexpr bool is_relu(PointwiseOp op) {
  return op == PointwiseOp::relu || op == PointwiseOp::relu_bwd || op == PointwiseOp::relu_bwd_y;
}
// How many of the parameters below the operation reads.
constexpr int pointwise_parameters(PointwiseOp op) {
  switch (op) {
    case PointwiseOp::relu:
    case PointwiseOp::relu_bwd:
    case PointwiseOp::relu_bwd_y:
      return 3;
    case PointwiseOp::elu:
    case PointwiseOp::elu_bwd:
    case PointwiseOp::elu_bwd_y:
    case PointwiseOp::softplus:
    case PointwiseOp::softplus_bwd:
    case PointwiseOp::swish:
    case PointwiseOp::swish_bwd:
      return 1;
    default:
      return 0;
  }
}

// relu: {lower clip, upper clip, slope below the lower clip}; elu: {alpha}; softplus, swish: {beta}.
template <class C>
struct PointwiseParams {
  C p[3] = {};
  bool drops_nan = false;  // relu and its gradients take a NaN as if it lay below the lower clip, with slope 0
};

}  // namespace gpudnn::tile
