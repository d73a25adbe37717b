// The mathematics of every pointwise operation, forward and backward: one function each, for the host and the device.
// The host reference, the activation kernels, the epilogues and the pointwise programs all call these.
// SPDX-License-Identifier: Apache-2.0
//
// C is float or double, the type computed in. kApprox is for results that are rounded to 16 bits at once: the device
// then takes exp and division from the approximate instructions. The relative error of exp(v) is below 2^-16 for -104 <
// v <= 0 (under that it is 0), that of a quotient by 1 to 2 is 2^-23: both far below half a unit of f16 (2^-12) and
// bf16 (2^-9). Neither instruction flushes subnormal numbers; there s is off by a few times their spacing of 2^-149,
// swish by |x| times that, which is below the spacing of bf16's subnormals (2^-133).
//
// Errors without kApprox: add, sub, mul, div, reciprocal, sqrt, add_square (one rounding: fma), min, max, comparisons,
// relu and what else needs no series are correctly rounded, so the host and the device give the same bits (of two zeros
// of different sign, min and max may give either). The others
// come from libm and its counterpart of the toolkit: at most 4 units in the last place for float (pow 8), 2 for double;
// gelu = x * Phi(x) at most 4 u |x| absolute (u = 2^-24), because 1 + erf cancels for negative x; gradients likewise,
// relative to the sum of the magnitudes of their terms.
//
// NaN: arithmetic passes a NaN on, min and max too (whichever operand it is). Comparisons with one are 0, cmp_ne is 1.
// As a truth value (logical operations, the predicate of select) a NaN is true, as is everything that is not 0. relu
// passes it on unless told to drop it. No operation makes a NaN of finite operands where the mathematics has a limit,
// nor of an infinity where the function has one: swish(-inf) = gelu(-inf) = 0, relu(-inf) with slope 0 = the lower
// clip, and the gradients at +-inf are 0 or dy.
#pragma once

#include <cmath>

#include "kernels/tile/fast_divmod.cuh"
#include "kernels/tile/pointwise_op.hpp"
#ifdef __CUDACC__
#include "kernels/ptx/max_nan.cuh"
#include "kernels/ptx/min_nan.cuh"
#endif

namespace gpudnn::tile::pointwise {

// n / d for d from 1 to 4: within 2 units in the last place, without the branch that a division has for other d.
template <class C>
GPUDNN_HOST_DEVICE C over_one_to_four(C n, C d) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(C) == 4) return __fdividef(n, d);
#endif
  return n / d;
}

// x + b, x - b, x * b with a rounding of their own: where an operation follows another in one kernel, the compiler must
// not make a multiply-add of the two, or the bits would differ from those of one kernel for each operation.
template <class C>
GPUDNN_HOST_DEVICE C rounded_sum(C x, C b) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(C) == 4) {
    return __fadd_rn(x, b);
  } else {
    return __dadd_rn(x, b);
  }
#else
  return x + b;
#endif
}
template <class C>
GPUDNN_HOST_DEVICE C rounded_product(C x, C b) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(C) == 4) {
    return __fmul_rn(x, b);
  } else {
    return __dmul_rn(x, b);
  }
#else
  return x * b;
#endif
}

// s(v) = 1 / (1 + exp(-v)), computed with e = exp(-|v|) as 1 / (1 + e), or e / (1 + e) for v < 0: exp never overflows,
// and a small result keeps its bits down to the subnormal numbers.
template <bool kApprox = false, class C>
GPUDNN_HOST_DEVICE C logistic(C v) {
  const C below = v < C(0) ? v : -v;  // -|v|
#ifdef __CUDA_ARCH__
  if constexpr (kApprox && sizeof(C) == 4) {
    const float e = __expf(below);
    return __fdividef(v < 0.0f ? e : 1.0f, 1.0f + e);
  }
#endif
  const C e = std::exp(below);
  return over_one_to_four(v < C(0) ? e : C(1), C(1) + e);
}

// s(v) * (1 - s(v)) = e / (1 + e)^2 with e = exp(-|v|): no cancellation, and 0 at both infinities.
template <class C>
GPUDNN_HOST_DEVICE C logistic_slope(C v) {
  const C e = std::exp(v < C(0) ? v : -v);
  const C d = C(1) + e;
  return over_one_to_four(e, d * d);
}

// x * h, where a factor h of 0 wins over an infinite x: the limit.
template <class C>
GPUDNN_HOST_DEVICE C damped(C x, C h) {
  return h == C(0) ? C(0) : x * h;
}

// Phi(x), the normal distribution.
template <class C>
GPUDNN_HOST_DEVICE C normal_cdf(C x) {
  return C(0.5) + C(0.5) * std::erf(x * C(0.70710678118654752440));
}

// Selections, not branches: neighbours in a warp differ in what they take.
template <class C>
GPUDNN_HOST_DEVICE C relu(C x, const PointwiseParams<C>& p) {
  const C low = p.p[2] == C(0) ? p.p[0] : p.p[0] + p.p[2] * (x - p.p[0]);
  const C high = x < p.p[1] ? x : p.p[1];
  const C y = x > p.p[0] ? high : low;
  const C of_nan = p.drops_nan ? p.p[0] : x;
  return x != x ? of_nan : y;
}
// From x, or from y = relu(x) where the slope is not negative.
template <class C>
GPUDNN_HOST_DEVICE C relu_gradient(C x, C dy, const PointwiseParams<C>& p) {
  const C low = p.p[2] == C(0) ? C(0) : p.p[2] * dy;
  const C high = x < p.p[1] ? dy : C(0);
  const C y = x > p.p[0] ? high : low;
  const C of_nan = p.drops_nan ? C(0) : x;
  return x != x ? of_nan : y;
}

template <class C>
GPUDNN_HOST_DEVICE C elu(C x, C alpha) {
  return x < C(0) ? alpha * std::expm1(x) : x;
}
template <class C>
GPUDNN_HOST_DEVICE C elu_gradient(C x, C dy, C alpha) {
  return x < C(0) ? dy * (alpha * std::exp(x)) : dy;
}
template <class C>
GPUDNN_HOST_DEVICE C elu_gradient_of_y(C y, C dy, C alpha) {
  return y < C(0) ? dy * (y + alpha) : dy;
}

template <class C>
GPUDNN_HOST_DEVICE C gelu(C x) {
  return damped(x, normal_cdf(x));
}
template <class C>
GPUDNN_HOST_DEVICE C gelu_gradient(C x, C dy) {
  const C density = C(0.39894228040143267794) * std::exp(C(-0.5) * x * x);
  return dy * (normal_cdf(x) + damped(x, density));
}

// 0.5 x (1 + tanh(u)) = x s(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3): the same function, without the cancellation.
template <bool kApprox = false, class C>
GPUDNN_HOST_DEVICE C gelu_tanh(C x) {
  const C u2 = C(1.59576912160573071176) * x * (C(1) + C(0.044715) * x * x);
  return damped(x, logistic<kApprox>(u2));
}
template <class C>
GPUDNN_HOST_DEVICE C gelu_tanh_gradient(C x, C dy) {
  const C square = x * x;
  const C u2 = C(1.59576912160573071176) * x * (C(1) + C(0.044715) * square);
  const C u2_slope = C(1.59576912160573071176) * (C(1) + C(0.134145) * square);
  return dy * (logistic(u2) + damped(x, damped(u2_slope, logistic_slope(u2))));
}

// log(1 + exp(beta x)) / beta = (max(z, 0) + log1p(exp(-|z|))) / beta with z = beta x: no overflow.
template <class C>
GPUDNN_HOST_DEVICE C softplus(C x, C beta) {
  const C z = beta * x;
  return ((z < C(0) ? C(0) : z) + std::log1p(std::exp(z < C(0) ? z : -z))) / beta;
}
template <class C>
GPUDNN_HOST_DEVICE C softplus_gradient(C x, C dy, C beta) {
  return dy * logistic(beta * x);
}

// x * s(beta x). d/dx is s + z s (1 - s) with z = beta x; the second term is 0 where z is infinite, and for z > 100
// below the precision of the first.
template <bool kApprox = false, class C>
GPUDNN_HOST_DEVICE C swish(C x, C beta) {
  return damped(x, logistic<kApprox>(beta * x));
}
template <bool kApprox = false, class C>
GPUDNN_HOST_DEVICE C swish_gradient(C x, C dy, C beta) {
  const C z = beta * x;
  const C s = logistic<kApprox>(z);
  const C slope = z > C(100) || s == C(0) ? C(0) : z * s * (C(1) - s);
  return dy * (s + slope);
}

// d/dx tanh(x) = 4 e / (1 + e)^2 with e = exp(-2 |x|): no cancellation.
template <class C>
GPUDNN_HOST_DEVICE C tanh_gradient(C x, C dy) {
  return dy * (C(4) * logistic_slope(C(2) * x));
}
template <class C>
GPUDNN_HOST_DEVICE C tanh_gradient_of_y(C y, C dy) {
  return dy * (C(1) - y * y);
}
template <class C>
GPUDNN_HOST_DEVICE C sigmoid_gradient(C x, C dy) {
  return dy * logistic_slope(x);
}
template <class C>
GPUDNN_HOST_DEVICE C sigmoid_gradient_of_y(C y, C dy) {
  return dy * y * (C(1) - y);
}

// The smaller, the larger; a NaN wins.
template <class C>
GPUDNN_HOST_DEVICE C smaller(C x, C b) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(C) == 4) return ptx::min_nan(x, b);
#endif
  return x != x || x < b ? x : b;
}
template <class C>
GPUDNN_HOST_DEVICE C larger(C x, C b) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(C) == 4) return ptx::max_nan(x, b);
#endif
  return x != x || x > b ? x : b;
}

template <class C>
GPUDNN_HOST_DEVICE C truth(bool value) {
  return value ? C(1) : C(0);
}

template <class C>
GPUDNN_HOST_DEVICE C inverse_root(C x) {
#ifdef __CUDA_ARCH__
  return ::rsqrt(x);  // within 2 units in the last place
#else
  return C(1) / std::sqrt(x);
#endif
}

// The value of an operation. `op` is a constant where speed counts: all but one of the cases then vanish.
template <class C>
GPUDNN_HOST_DEVICE C evaluate(PointwiseOp op, C x, C b, C t, const PointwiseParams<C>& p) {
  using Op = PointwiseOp;
  switch (op) {
    case Op::identity:
      return x;
    case Op::abs:
      return std::fabs(x);
    case Op::ceil:
      return std::ceil(x);
    case Op::cos:
      return std::cos(x);
    case Op::erf:
      return std::erf(x);
    case Op::exp:
      return std::exp(x);
    case Op::floor:
      return std::floor(x);
    case Op::log:
      return std::log(x);
    case Op::neg:
      return -x;
    case Op::reciprocal:
      return C(1) / x;
    case Op::rsqrt:
      return inverse_root(x);
    case Op::sin:
      return std::sin(x);
    case Op::sqrt:
      return std::sqrt(x);
    case Op::tan:
      return std::tan(x);
    case Op::logical_not:
      return truth<C>(x == C(0));
    case Op::relu:
      return relu(x, p);
    case Op::tanh:
      return std::tanh(x);
    case Op::sigmoid:
      return logistic(x);
    case Op::elu:
      return elu(x, p.p[0]);
    case Op::gelu:
      return gelu(x);
    case Op::softplus:
      return softplus(x, p.p[0]);
    case Op::swish:
      return swish(x, p.p[0]);
    case Op::gelu_tanh:
      return gelu_tanh(x);
    case Op::add:
      return rounded_sum(x, b);
    case Op::add_square:
      return std::fma(b, b, x);
    case Op::div:
      return x / b;
    case Op::max:
      return larger(x, b);
    case Op::min:
      return smaller(x, b);
    case Op::mod:
      return std::fmod(x, b);
    case Op::mul:
      return rounded_product(x, b);
    case Op::pow:
      return std::pow(x, b);
    case Op::sub:
      return rounded_sum(x, -b);
    case Op::atan2:
      return std::atan2(x, b);
    case Op::cmp_eq:
      return truth<C>(x == b);
    case Op::cmp_ne:
      return truth<C>(x != b);
    case Op::cmp_gt:
      return truth<C>(x > b);
    case Op::cmp_ge:
      return truth<C>(x >= b);
    case Op::cmp_lt:
      return truth<C>(x < b);
    case Op::cmp_le:
      return truth<C>(x <= b);
    case Op::logical_and:
      return truth<C>(x != C(0) && b != C(0));
    case Op::logical_or:
      return truth<C>(x != C(0) || b != C(0));
    case Op::relu_bwd:
    case Op::relu_bwd_y:
      return relu_gradient(x, b, p);
    case Op::tanh_bwd:
      return tanh_gradient(x, b);
    case Op::sigmoid_bwd:
      return sigmoid_gradient(x, b);
    case Op::elu_bwd:
      return elu_gradient(x, b, p.p[0]);
    case Op::gelu_bwd:
      return gelu_gradient(x, b);
    case Op::softplus_bwd:
      return softplus_gradient(x, b, p.p[0]);
    case Op::swish_bwd:
      return swish_gradient(x, b, p.p[0]);
    case Op::gelu_tanh_bwd:
      return gelu_tanh_gradient(x, b);
    case Op::tanh_bwd_y:
      return tanh_gradient_of_y(x, b);
    case Op::sigmoid_bwd_y:
      return sigmoid_gradient_of_y(x, b);
    case Op::elu_bwd_y:
      return elu_gradient_of_y(x, b, p.p[0]);
    case Op::select:
      return t != C(0) ? x : b;
    case Op::count:
      break;
  }
  return x;
}

}  // namespace gpudnn::tile::pointwise
