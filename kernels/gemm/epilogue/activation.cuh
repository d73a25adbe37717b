// The activation of an epilogue on the values of a thread: one branch for all of them, not one for each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm/epilogue/activation.hpp"
#include "kernels/ptx/max_nan.cuh"

namespace gpudnn::kernels::gemm {

// ReLU with nothing but a lower bound, as most are: one instruction for each value.
template <int N>
__device__ __forceinline__ void clamp_below(float lower, bool drops_nan, float (&v)[N]) {
  if (drops_nan) {
#pragma unroll
    for (float& x : v) x = fmaxf(x, lower);
  } else {
#pragma unroll
    for (float& x : v) x = ptx::max_nan(x, lower);
  }
}

// ReLU in the form that the compiler lays out without a branch for a value.
template <class C, class P, int N>
__device__ __forceinline__ void activate_relu(const ActivationArgs<P>& a, C (&v)[N]) {
  const C lower = static_cast<C>(a.lower);
  if constexpr (std::is_same_v<C, float>) {
    if (a.slope == P(0) && !a.clips) return clamp_below(lower, a.drops_nan, v);
  }
  const C upper = static_cast<C>(a.upper);
  if (a.slope != P(0)) {
    const C slope = static_cast<C>(a.slope);
#pragma unroll
    for (C& x : v) {
      if (x <= lower) x = lower + slope * (x - lower);
    }
  } else {
#pragma unroll
    for (C& x : v) {
      if (x < lower) x = lower;
    }
  }
  if (a.clips) {
#pragma unroll
    for (C& x : v) {
      if (x > upper) x = upper;
    }
  }
  if (a.drops_nan) {
#pragma unroll
    for (C& x : v) x = x != x ? lower : x;
  }
}

// What is_common says, of all values at once: some 10 instructions for each, laid out side by side.
template <int N>
__device__ __forceinline__ void activate_common(const ActivationArgs<float>& a, float (&v)[N]) {
  if (a.mode == Activation::identity) return;
  if (a.mode == Activation::relu) return activate_relu(a, v);
  with_rounded_curve(a, [&v](auto f) {
#pragma unroll
    for (float& x : v) x = f(x);
  });
}

// Functions but ReLU take kAtOnce of them at a time: the code of all functions is some 240 instructions for each value.
template <int kAtOnce = 8, class C, class P, int N>
__device__ __forceinline__ void activate(const ActivationArgs<P>& a, bool approximate, C (&v)[N]) {
  if (a.mode == Activation::identity) return;
  if (a.mode == Activation::relu) return activate_relu(a, v);
  if constexpr (N <= kAtOnce) {
    with_activation<C>(a, approximate, [&v](auto f) {
#pragma unroll
      for (C& x : v) x = f(x);
    });
  } else {
    static_assert(N % kAtOnce == 0, "values come in whole steps");
    // Each step has its turn in the first place.
#pragma unroll 1
    for (int step = 0; step < N / kAtOnce; ++step) {
      C some[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) some[i] = v[i];
      with_activation<C>(a, approximate, [&some](auto f) {
#pragma unroll
        for (C& x : some) x = f(x);
      });
#pragma unroll
      for (int i = 0; i + kAtOnce < N; ++i) v[i] = v[i + kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) v[N - kAtOnce + i] = some[i];
    }
  }
}

// A function, called: for kernels that store at many places of their code and are bound by memory.
template <class P>
__device__ __noinline__ float activated(const ActivationArgs<P>& a, float x) {
  with_activation<float>(a, false, [&x](auto f) { x = f(x); });
  return x;
}
template <class P, int N>
__device__ __forceinline__ void activate_by_call(const ActivationArgs<P>& a, float (&v)[N]) {
  if (a.mode == Activation::identity) return;
  if (a.mode == Activation::relu) return activate_relu(a, v);
#pragma unroll
  for (float& x : v) x = activated(a, x);
}

}  // namespace gpudnn::kernels::gemm
