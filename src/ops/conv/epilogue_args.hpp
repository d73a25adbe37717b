// What the kernels are told of a forward convolution's epilogue: from the problem, and from a call's arguments.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm/epilogue/activation.hpp"
#include "ops/conv/problem.hpp"

namespace gpudnn::conv {

// Bytes from a channel to the next of a bias or scale of so many elements' stride.
[[nodiscard]] inline std::int64_t channel_step(const Problem& problem, std::int64_t stride) {
  const DataType type = problem.float_vectors != 0 ? GPUDNN_DATA_FLOAT : problem.y.type;
  return stride * data_type_bits(type) / 8;
}

// What the activation is; the numbers in it come with each call.
template <class P>
void set_activation_mode(const Problem& problem, kernels::gemm::ActivationArgs<P>* activation) {
  activation->mode = activation_of(problem);
  activation->clips = problem.activation == GPUDNN_ACTIVATION_CLIPPED_RELU;
}

template <class P>
void set_activation_numbers(const Args& args, kernels::gemm::ActivationArgs<P>* activation) {
  activation->drops_nan = !args.propagate_nan;
  activation->lower = static_cast<P>(args.relu_lower);
  activation->slope = static_cast<P>(args.relu_slope);
  activation->parameter = static_cast<P>(args.activation_coef);
  if (!activation->clips) return;
  activation->upper = activation->parameter;
  if (activation->upper < activation->lower) activation->lower = activation->upper;  // min(max(x, lower), upper)
}

// What the problem says.
template <class Params>
void set_activation(const Problem& problem, Params* p) {
  p->has_bias = problem.has_bias != 0;
  p->float_vectors = problem.float_vectors != 0;
  p->bias_step = channel_step(problem, problem.bias_stride);
  if constexpr (requires { p->has_scale; }) {
    p->has_scale = problem.has_scale != 0;
    p->scale_step = channel_step(problem, problem.scale_stride);
  }
  set_activation_mode(problem, &p->activation);
}

// f(alpha * scale * sum + addend_scale * addend + bias); plain where that is the sum.
template <class Params>
void set_epilogue(const Args& args, Params* p) {
  const bool adds_z = args.z != nullptr;
  p->bias = args.bias;
  p->alpha = static_cast<float>(args.alpha);
  p->addend = adds_z ? args.z : args.out;
  p->addend_scale = static_cast<float>(adds_z ? args.alpha2 : args.beta);
  p->is_plain = p->alpha == 1.0f && p->addend_scale == 0.0f && !p->has_bias &&
                p->activation.mode == kernels::gemm::Activation::identity;
  if constexpr (requires { p->has_scale; }) {
    p->scale = args.scale;
    p->is_plain = p->is_plain && !p->has_scale;
  }
  set_activation_numbers(args, &p->activation);
}

// Of an engine whose epilogue has no scale of channels: a reason against, or null.
[[nodiscard]] inline const char* channel_scale_unsupported_reason(const Problem& problem) noexcept {
  return problem.has_scale != 0 ? "its epilogue has no scale of channels" : nullptr;
}

}  // namespace gpudnn::conv
