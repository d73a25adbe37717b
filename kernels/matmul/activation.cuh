// The activation functions of a matrix product's epilogue, in float or double (epilogue.hpp lists them).
//
// The logistic function is computed from e = exp(-|v|), which never overflows, as 1 / (1 + e) or e / (1 + e): small
// results keep their bits. gelu takes erfc, which has no cancellation for negative x; gelu_tanh is x times the logistic
// function of 2 u, for (1 + tanh(u)) / 2 is that. Nothing finite gives a NaN, and a NaN stays one; where a gate is 0 so
// is the result, for -infinity too.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/matmul/epilogue.hpp"

namespace gpudnn::kernels::matmul {

template <class E>
__device__ __forceinline__ E logistic(E v) {
  const E e = exp(v < E(0) ? v : -v);
  return (v < E(0) ? e : E(1)) / (E(1) + e);
}

template <class E>
__device__ __forceinline__ E gated(E x, E gate) {
  return gate == E(0) ? E(0) : x * gate;
}

template <class E>
__device__ __forceinline__ E activate(Activation activation, const ActivationParams& p, E x) {
  switch (activation) {
    case Activation::identity:
      return x;
    case Activation::relu: {
      if (x != x) return x;
      const E lower = static_cast<E>(p.lower);
      if (x > lower) return static_cast<double>(x) > p.upper && p.upper < kNoUpperClip ? static_cast<E>(p.upper) : x;
      return p.slope == 0 ? lower : lower + static_cast<E>(p.slope) * (x - lower);
    }
    case Activation::gelu:
      return gated(x, E(0.5) * erfc(E(-0.70710678118654752440) * x));
    case Activation::gelu_tanh:
      return gated(x, logistic(E(1.59576912160573071176) * (x + E(0.044715) * x * x * x)));
    case Activation::swish:
      return gated(x, logistic(static_cast<E>(p.beta) * x));
    case Activation::tanh:
      return tanh(x);
    case Activation::sigmoid:
      return logistic(x);
    case Activation::elu:
      return x > E(0) ? x : static_cast<E>(p.alpha) * expm1(x);
    case Activation::softplus: {
      const E beta = static_cast<E>(p.beta);
      const E z = beta * x;
      return ((z < E(0) ? E(0) : z) + log1p(exp(z < E(0) ? z : -z))) / beta;
    }
  }
  return x;
}

}  // namespace gpudnn::kernels::matmul
