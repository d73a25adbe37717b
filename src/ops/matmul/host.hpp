// The rows of the host's engines.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/matmul/engine.hpp"

namespace gpudnn::matmul {

[[nodiscard]] Support host_supports(const Problem& problem, const Device& device);
void host_gemm_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);
void host_reference_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);
[[nodiscard]] std::size_t host_workspace(const Problem& problem, const Config& config, const Device& device);
[[nodiscard]] std::shared_ptr<const void> host_prepare(const Problem& problem, const Config& config,
                                                       const Device& device);
[[nodiscard]] Status host_gemm_launch(const LaunchSite& site, const void* prepared, const Args& args);
[[nodiscard]] Status host_reference_launch(const LaunchSite& site, const void* prepared, const Args& args);

}  // namespace gpudnn::matmul
