// The CUDA engines of pooling. Rows of the engine list, best first:
//   planes_fixed    packed NCHW, windows 2x2/2, 3x3/2, 3x3/1
//   channels_fixed  channels innermost in packs of 16 bytes, the same windows
//   rows_fixed      packed NHWC with any number of channels, the same windows
//   planes          packed NCHW, planes that fit into shared memory
//   windows         everything
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/pooling/problem.hpp"

namespace gpudnn::pooling {

[[nodiscard]] Support supports_planes_fixed_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status planes_fixed_cuda(const LaunchSite& site, const Problem& problem, const Args& args);

[[nodiscard]] Support supports_channels_fixed_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status channels_fixed_cuda(const LaunchSite& site, const Problem& problem, const Args& args);

[[nodiscard]] Support supports_rows_fixed_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status rows_fixed_cuda(const LaunchSite& site, const Problem& problem, const Args& args);

[[nodiscard]] Support supports_planes_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status planes_cuda(const LaunchSite& site, const Problem& problem, const Args& args);

[[nodiscard]] Support supports_windows_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status windows_cuda(const LaunchSite& site, const Problem& problem, const Args& args);

}  // namespace gpudnn::pooling
