// The CUDA engines of the two-operand tensor operation, best first.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/op_tensor/problem.hpp"

namespace gpudnn::op_tensor {

// Both operands of one floating type, the output of the same or f32 against a 16-bit one.
[[nodiscard]] Support supports_elementwise_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status elementwise_cuda(const LaunchSite& site, const Problem& problem, const Args& args);

// Any types.
[[nodiscard]] Support supports_mixed_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status mixed_cuda(const LaunchSite& site, const Problem& problem, const Args& args);

}  // namespace gpudnn::op_tensor
