// The convolution engine of the host backend that users wait for: blocked matrix products, no workspace, every problem.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

Support host_gemm_supports(const Problem& problem, const Device& device);
void host_gemm_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* found);
std::size_t host_gemm_workspace(const Problem& problem, const Config& config);
std::shared_ptr<const void> host_gemm_prepare(const Problem& problem, const Config& config, const Device& device);
Status host_gemm_launch(const LaunchSite& site, const void* prepared, const Args& args);

}  // namespace gpudnn::conv
