// The CUDA engines of pooling. Rows of the engine list, best first:
//   {"planes", GPUDNN_BACKEND_CUDA, &supports_planes_cuda, &planes_cuda}      (packed NCHW, planes that fit shared
//   memory)
//   {"windows", GPUDNN_BACKEND_CUDA, &supports_windows_cuda, &windows_cuda}   (supports everything; packs of NHWC
//   channels)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/pooling/problem.hpp"

namespace gpudnn::pooling {

[[nodiscard]] Support supports_planes_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status planes_cuda(const LaunchSite& site, const Problem& problem, const Args& args);

[[nodiscard]] Support supports_windows_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status windows_cuda(const LaunchSite& site, const Problem& problem, const Args& args);

}  // namespace gpudnn::pooling
