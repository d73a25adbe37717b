// The CUDA engines of normalization. Rows of the engine list, best first:
//   apply     inference: one pass
//   split     training in three launches over the whole device, with room for partial sums
//   cluster   training in one launch, a cluster of blocks for each set or tile of sets; no scratch memory, takes all
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/norm/problem.hpp"

namespace gpudnn::norm {

[[nodiscard]] Support supports_apply_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status apply_cuda(const LaunchSite& site, const Problem& problem, const Args& args);
[[nodiscard]] Support supports_split_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status split_cuda(const LaunchSite& site, const Problem& problem, const Args& args);
[[nodiscard]] Support supports_cluster_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status cluster_cuda(const LaunchSite& site, const Problem& problem, const Args& args);

// Workspace that the split engine wants where it is the faster one, else 0.
[[nodiscard]] std::size_t split_workspace_bytes(const Device& device, const Problem& problem);
// Whether the call brings that much, or its outputs can hold it until they are written.
[[nodiscard]] bool has_scratch(const Device& device, const Problem& problem, const Args& args);
[[nodiscard]] std::size_t cuda_reserve_bytes(const Problem& problem);

}  // namespace gpudnn::norm
