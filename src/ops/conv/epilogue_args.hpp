// What an engine with a vectorised epilogue makes of a sum: from the problem, and from a call's arguments.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/problem.hpp"

namespace gpudnn::conv {

// Of the activations that fused_activation_unsupported_reason lets pass.
template <class Params>
void set_activation(const Problem& problem, Params* p) {
  p->has_bias = problem.has_bias != 0;
  p->clipped = problem.activation == GPUDNN_ACTIVATION_CLIPPED_RELU;
  p->relu = p->clipped || problem.activation == GPUDNN_ACTIVATION_RELU;
}

// alpha * sum + addend_scale * addend + bias, and the activation; plain where that is the sum.
template <class Params>
void set_epilogue(const Args& args, Params* p) {
  const bool adds_z = args.z != nullptr;
  p->bias = args.bias;
  p->alpha = static_cast<float>(args.alpha);
  p->addend = adds_z ? args.z : args.out;
  p->addend_scale = static_cast<float>(adds_z ? args.alpha2 : args.beta);
  p->ceiling = static_cast<float>(args.activation_coef);
  p->propagate_nan = args.propagate_nan;
  p->is_plain = p->alpha == 1.0f && p->addend_scale == 0.0f && !p->has_bias && !p->relu;
}

}  // namespace gpudnn::conv
