// The activation of an epilogue: what a kernel is told of it, and the one place that says which function a mode is. For
// the host and the device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "kernels/matmul/epilogue.hpp"
#include "kernels/tile/pointwise_math.cuh"
#include "kernels/tile/rounded_math.cuh"

namespace gpudnn::kernels::gemm {

using matmul::Activation;

// P is float where the epilogue computes in float alone, else double.
template <class P>
struct ActivationArgs {
  Activation mode = Activation::identity;
  bool drops_nan = false;  // of relu: a NaN gives `lower`
  bool clips = false;      // of relu: there is an `upper`
  P lower = 0;             // of relu: below it the slope
  P upper = static_cast<P>(HUGE_VAL);
  P slope = 0;
  P parameter = 1;  // alpha of elu, beta of swish and softplus
};

// Of what the host knows of a matrix product's activation.
template <class P>
ActivationArgs<P> activation_args(Activation mode, const matmul::ActivationParams& params) {
  ActivationArgs<P> a;
  a.mode = mode;
  a.lower = static_cast<P>(params.lower);
  // No finite number is above the greatest one.
  const double greatest = sizeof(P) == sizeof(double) ? matmul::kNoUpperClip : static_cast<double>(3.4028235e38f);
  a.clips = params.upper < greatest;
  if (a.clips) a.upper = static_cast<P>(params.upper);
  a.slope = static_cast<P>(params.slope);
  a.parameter = static_cast<P>(mode == Activation::elu ? params.alpha : params.beta);
  return a;
}

// Whether rounded_math.cuh has the activation.
GPUDNN_HOST_DEVICE bool is_rounded_curve(const ActivationArgs<float>& a) {
  constexpr float kLargestBeta = 1e30f;
  return a.mode == Activation::gelu || a.mode == Activation::gelu_tanh || a.mode == Activation::tanh ||
         (a.mode == Activation::swish && a.parameter > 0.0f && a.parameter < kLargestBeta);
}

// Calls use(f) for such an activation.
template <class Use>
GPUDNN_HOST_DEVICE void with_rounded_curve(const ActivationArgs<float>& a, Use use) {
  if (a.mode == Activation::gelu) {
    use([](float x) { return tile::rounded::gelu(x); });
  } else if (a.mode == Activation::gelu_tanh) {
    use([](float x) { return tile::rounded::gelu_tanh(x); });
  } else if (a.mode == Activation::swish) {
    use([beta = a.parameter](float x) { return tile::rounded::swish(x, beta); });
  } else {
    use([](float x) { return tile::rounded::tanh(x); });
  }
}

// Whether activate_common (activation.cuh) computes it. `rounds`: the results are rounded to 16 or 8 bits.
GPUDNN_HOST_DEVICE bool is_common(const ActivationArgs<float>& a, bool rounds) {
  return a.mode == Activation::identity || a.mode == Activation::relu || (rounds && is_rounded_curve(a));
}

// Calls use(f), f being the activation as a function of one C: one branch for all that `use` does with it.
// `approximate` is for results that are rounded to 16 or 8 bits (rounded_math.cuh and pointwise_math.cuh have the
// bounds).
template <class C, class P, class Use>
GPUDNN_HOST_DEVICE void with_activation(const ActivationArgs<P>& a, bool approximate, Use use) {
  namespace math = tile::pointwise;
  if constexpr (std::is_same_v<C, float> && std::is_same_v<P, float>) {
    if (approximate && is_rounded_curve(a)) return with_rounded_curve(a, use);
  }
  const C parameter = static_cast<C>(a.parameter);
  switch (a.mode) {
    case Activation::identity:
      return;
    case Activation::relu: {
      const tile::PointwiseParams<C> p = {{static_cast<C>(a.lower), static_cast<C>(a.upper), static_cast<C>(a.slope)},
                                          a.drops_nan};
      return use([p](C x) { return math::relu(x, p); });
    }
    case Activation::gelu:
      return use([](C x) { return math::gelu(x); });
    case Activation::gelu_tanh:
      return use([](C x) { return math::gelu_tanh<false>(x); });
    case Activation::swish:
      return use([parameter](C x) { return math::swish<false>(x, parameter); });
    case Activation::tanh:
      return use([](C x) { return std::tanh(x); });
    case Activation::sigmoid:
      if (approximate) return use([](C x) { return math::logistic<true>(x); });
      return use([](C x) { return math::logistic<false>(x); });
    case Activation::elu:
      return use([parameter](C x) { return math::elu(x, parameter); });
    case Activation::softplus:
      return use([parameter](C x) { return math::softplus(x, parameter); });
  }
}

// f(x) of a single value.
template <class C, class P>
GPUDNN_HOST_DEVICE C activate(const ActivationArgs<P>& a, C x) {
  with_activation<C>(a, false, [&x](auto f) { x = f(x); });
  return x;
}

}  // namespace gpudnn::kernels::gemm
