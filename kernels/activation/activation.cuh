// The activation functions f and their gradients g.
// SPDX-License-Identifier: Apache-2.0
//
//   y = alpha * f(x) + beta * y        dx = alpha * g(x, y, dy) + beta * dx
//
//               f(x)                                   g
//   sigmoid     s(x)                                   dy * y * (1 - y)
//   relu        x > 0 ? x : 0                          x > 0 ? dy : 0
//   tanh        tanh(x)                                dy * (1 - y * y)
//   clipped     min(max(x, 0), coef)                   0 < x < coef ? dy : 0
//   elu         x < 0 ? coef * expm1(x) : x            x < 0 ? dy * (y + coef) : dy
//   identity    x                                      dy
//   swish       x * s(z), z = coef * x                 dy * (s(z) + z * s(z) * (1 - s(z)))
//
//   s(v) = 1 / (1 + exp(-v)); the functions are those of kernels/tile/pointwise_math.cuh.
//
// NaN: relu and clipped relu give 0 for a NaN unless told to propagate it (f and g both then give NaN); the others are
// what the arithmetic makes of it. Nothing finite gives a NaN: swish has 0 where s is 0, for -infinity too, and its
// gradient no second term where s is 0 or the term is below the precision.
//
// Of x and y, backward reads only what its formula names.
//
// 16-bit types take the approximate forms, whose errors pointwise_math.cuh bounds.
#pragma once

#include "kernels/activation/activation.hpp"
#include "kernels/tile/elementwise.cuh"
#include "kernels/tile/pointwise_math.cuh"

namespace gpudnn::kernels {

// `T` is the storage type: it decides how exact the arithmetic has to be.
template <class T, class C>
__device__ __forceinline__ C activate(ActivationMode mode, C x, C coef, bool propagate_nan) {
  switch (mode) {
    case ActivationMode::sigmoid:
      return tile::pointwise::logistic<sizeof(T) == 2>(x);
    case ActivationMode::relu:
      return x > C(0) || (propagate_nan && x != x) ? x : C(0);
    case ActivationMode::tanh:
      return tanh(x);
    case ActivationMode::clipped_relu:
      if (propagate_nan && x != x) return x;
      return x > C(0) ? (x < coef ? x : coef) : C(0) < coef ? C(0) : coef;
    case ActivationMode::elu:
      return tile::pointwise::elu(x, coef);
    case ActivationMode::identity:
      return x;
    case ActivationMode::swish:
      return tile::pointwise::swish<sizeof(T) == 2>(x, coef);
  }
  return x;
}

constexpr bool gradient_reads_x(ActivationMode mode) {
  return mode == ActivationMode::relu || mode == ActivationMode::clipped_relu || mode == ActivationMode::elu ||
         mode == ActivationMode::swish;
}
constexpr bool gradient_reads_y(ActivationMode mode) {
  return mode == ActivationMode::sigmoid || mode == ActivationMode::tanh || mode == ActivationMode::elu;
}

template <class T, class C>
__device__ __forceinline__ C activate_gradient(ActivationMode mode, C x, C y, C dy, C coef, bool propagate_nan) {
  switch (mode) {
    case ActivationMode::sigmoid:
      return tile::pointwise::sigmoid_gradient_of_y(y, dy);
    case ActivationMode::relu:
      return propagate_nan && x != x ? x : x > C(0) ? dy : C(0);
    case ActivationMode::tanh:
      return tile::pointwise::tanh_gradient_of_y(y, dy);
    case ActivationMode::clipped_relu:
      return propagate_nan && x != x ? x : x > C(0) && x < coef ? dy : C(0);
    case ActivationMode::elu:
      return x < C(0) ? dy * (y + coef) : dy;  // x decides: with a negative alpha y cannot
    case ActivationMode::identity:
      return dy;
    case ActivationMode::swish:
      return tile::pointwise::swish_gradient<sizeof(T) == 2>(x, dy, coef);
  }
  return dy;
}

// The mode is known at compile time for flat tensors, and read from the struct for any others. The functions made of
// long series keep fewer packs in flight: their arithmetic covers the latency, and the code stays small.
struct ModeAtRunTime {
  static constexpr int kUnroll = 1;
  ActivationMode mode;
};
template <ActivationMode kMode>
struct ModeAtCompileTime {
  static constexpr ActivationMode mode = kMode;
  static constexpr int kUnroll = kMode == ActivationMode::tanh || kMode == ActivationMode::elu ? 2 : 4;
};

template <class T, class Mode>
struct ActivationForward : Mode {
  static constexpr int kInputs = 1;
  static constexpr bool kScales = true;
  using In = T;
  using Out = T;
  using C = tile::Compute<T>;
  C coef;
  bool propagate_nan;
  __device__ __forceinline__ C operator()(const C (&in)[1]) const {
    return activate<T>(this->mode, in[0], coef, propagate_nan);
  }
};

// Inputs x, y, dy; those that the mode does not read arrive as dy.
template <class T>
struct ActivationBackwardAny : ModeAtRunTime {
  static constexpr int kInputs = 3;
  static constexpr bool kScales = true;
  using In = T;
  using Out = T;
  using C = tile::Compute<T>;
  C coef;
  bool propagate_nan;
  __device__ __forceinline__ C operator()(const C (&in)[3]) const {
    return activate_gradient<T>(mode, in[0], in[1], in[2], coef, propagate_nan);
  }
};

// Inputs: those that the mode reads, in the order x, y, dy.
template <class T, ActivationMode kMode>
struct ActivationBackward : ModeAtCompileTime<kMode> {
  static constexpr bool kX = gradient_reads_x(kMode);
  static constexpr bool kY = gradient_reads_y(kMode);
  static constexpr int kInputs = kX + kY + 1;
  static constexpr int kUnroll = 2;
  static constexpr bool kScales = true;
  using In = T;
  using Out = T;
  using C = tile::Compute<T>;
  C coef;
  bool propagate_nan;
  __device__ __forceinline__ C operator()(const C (&in)[kInputs]) const {
    const C x = kX ? in[0] : C(0);
    const C y = kY ? in[kX] : C(0);
    return activate_gradient<T>(kMode, x, y, in[kInputs - 1], coef, propagate_nan);
  }
};

}  // namespace gpudnn::kernels
