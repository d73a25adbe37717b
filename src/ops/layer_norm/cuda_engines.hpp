// The CUDA engines of layer normalization. Rows of the engine list, best first:
//   rows      sets whose elements lie one after the other; backward with parameters for each column, and workspace
//   channels_last        group and instance norms whose channels lie one after the other, with workspace
//   planes    backward of group and instance norms whose sets are runs of planes, with workspace
//   strided   everything
// Whether rows line up in packs depends on the pointers too: the others hand a call where they do not to `strided`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/layer_norm/problem.hpp"

namespace gpudnn::layer_norm {

[[nodiscard]] Support supports_rows_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status rows_cuda(const LaunchSite& site, const Problem& problem, const Args& args);
[[nodiscard]] std::size_t rows_workspace_cuda(const Problem& problem, const Device& device);

[[nodiscard]] Support supports_channels_last_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status channels_last_cuda(const LaunchSite& site, const Problem& problem, const Args& args);
[[nodiscard]] std::size_t channels_last_workspace_cuda(const Problem& problem, const Device& device);

[[nodiscard]] Support supports_planes_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status planes_cuda(const LaunchSite& site, const Problem& problem, const Args& args);
[[nodiscard]] std::size_t planes_workspace_cuda(const Problem& problem, const Device& device);

[[nodiscard]] Support supports_strided_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status strided_cuda(const LaunchSite& site, const Problem& problem, const Args& args);

}  // namespace gpudnn::layer_norm
