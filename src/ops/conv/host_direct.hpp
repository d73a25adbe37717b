// The convolution engine of the host backend: one config, no workspace, every problem.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

Support host_direct_supports(const Problem& problem, const Device& device);
void host_direct_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* found);
std::size_t host_direct_workspace(const Problem& problem, const Config& config);
std::shared_ptr<const void> host_direct_prepare(const Problem& problem, const Config& config, const Device& device);
Status host_direct_launch(const LaunchSite& site, const void* prepared, const Args& args);

}  // namespace gpudnn::conv
