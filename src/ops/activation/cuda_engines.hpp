// The CUDA engines of the activations. Rows of the engine list, best first:
//   {"elementwise", GPUDNN_BACKEND_CUDA, &supports_elementwise_cuda, &elementwise_cuda}   (supports everything)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/activation/problem.hpp"

namespace gpudnn::activation {

[[nodiscard]] Support supports_elementwise_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status elementwise_cuda(const LaunchSite& site, const Problem& problem, const Args& args);

}  // namespace gpudnn::activation
