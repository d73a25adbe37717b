// What a math type allows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpudnn/graph.h"

namespace gpudnn {

// Whether the factors of float products may be cut to TF32.
[[nodiscard]] constexpr bool allows_tf32(gpudnnMathType_t math) noexcept {
  return math == GPUDNN_TENSOR_OP_MATH || math == GPUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION;
}

}  // namespace gpudnn
