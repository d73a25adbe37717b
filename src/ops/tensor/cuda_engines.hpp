// The CUDA engines of the tensor operations. Rows of the engine list, best first:
//   {"fill", GPUDNN_BACKEND_CUDA, &supports_fill_cuda, &fill_cuda}                  (set, all of it)
//   {"transpose", GPUDNN_BACKEND_CUDA, &supports_transpose_cuda, &transpose_cuda}   (layouts that change)
//   {"linear", GPUDNN_BACKEND_CUDA, &supports_linear_cuda, &linear_cuda}            (supports everything but set)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/tensor/problem.hpp"

namespace gpudnn::tensor {

[[nodiscard]] Support supports_fill_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status fill_cuda(const LaunchSite& site, const Problem& problem, const Args& args);

[[nodiscard]] Support supports_transpose_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status transpose_cuda(const LaunchSite& site, const Problem& problem, const Args& args);

[[nodiscard]] Support supports_linear_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status linear_cuda(const LaunchSite& site, const Problem& problem, const Args& args);

}  // namespace gpudnn::tensor
