// The CUDA engines of the bias gradient. Rows of the engine list, best first:
//   {"cluster_sum", GPUDNN_BACKEND_CUDA, &supports_cluster_sum_cuda, &cluster_sum_cuda}   (supports everything)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/bias_grad/problem.hpp"

namespace gpudnn::bias_grad {

[[nodiscard]] Support supports_cluster_sum_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status cluster_sum_cuda(const LaunchSite& site, const Problem& problem, const Args& args);

}  // namespace gpudnn::bias_grad
