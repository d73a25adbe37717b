// The CUDA engines of local response and divisive normalization. Rows of the engine list, best first:
//   rows     across channels, 5 of them, channels innermost in packs of 16 bytes
//   columns  across channels, 5 of them; packs of 4 pixels where neighbouring ones are contiguous
//   ring     across channels, everything
//   spatial  divisive normalization, everything
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/lrn/problem.hpp"

namespace gpudnn::lrn {

[[nodiscard]] Support supports_rows_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status rows_cuda(const LaunchSite& site, const Problem& problem, const Args& args);

[[nodiscard]] Support supports_columns_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status columns_cuda(const LaunchSite& site, const Problem& problem, const Args& args);

[[nodiscard]] Support supports_ring_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status ring_cuda(const LaunchSite& site, const Problem& problem, const Args& args);

[[nodiscard]] Support supports_spatial_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status spatial_cuda(const LaunchSite& site, const Problem& problem, const Args& args);

}  // namespace gpudnn::lrn
