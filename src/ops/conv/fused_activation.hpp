// Which activations the engines with a vectorised epilogue fuse into a convolution.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/problem.hpp"

namespace gpudnn::conv {

// A reason against, or null.
[[nodiscard]] inline const char* fused_activation_unsupported_reason(const Problem& problem) noexcept {
  switch (problem.activation) {
    case -1:
    case GPUDNN_ACTIVATION_IDENTITY:
    case GPUDNN_ACTIVATION_RELU:
    case GPUDNN_ACTIVATION_CLIPPED_RELU:
      return nullptr;
    default:
      return "of the activations, it fuses ReLU, clipped ReLU and identity only";
  }
}

}  // namespace gpudnn::conv
