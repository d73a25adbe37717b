// The CUDA engines of normalization. Rows of the engine list, best first:
//   apply     inference: one pass
//   segments  training in one launch on compute capability 9.0, where 16 bytes at a time fit
//   split     training in three launches over the whole device, with room for partial sums; the second one exchanges
//             statistics with other GPUs
//   cluster   training in one launch, a cluster of blocks for each set or tile of sets; no scratch memory, takes all
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/norm/problem.hpp"

namespace gpudnn::norm {

[[nodiscard]] Support supports_apply_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status apply_cuda(const LaunchSite& site, const Problem& problem, const Args& args);
[[nodiscard]] Support supports_segments_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status segments_cuda(const LaunchSite& site, const Problem& problem, const Args& args);
[[nodiscard]] Support supports_split_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status split_cuda(const LaunchSite& site, const Problem& problem, const Args& args);
[[nodiscard]] Support supports_cluster_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status cluster_cuda(const LaunchSite& site, const Problem& problem, const Args& args);

// Workspace with which the fastest engine runs; 0 where that needs none.
[[nodiscard]] std::size_t cuda_workspace_bytes(gpudnnHandle_t handle, const Problem& problem);
[[nodiscard]] std::size_t cuda_workspace_bytes(const Device& device, const Problem& problem);
// What of the pointers decides between engines.
void note_pointers(const Args& args, Problem* problem);
[[nodiscard]] std::size_t cuda_reserve_bytes(const Problem& problem);

}  // namespace gpudnn::norm
