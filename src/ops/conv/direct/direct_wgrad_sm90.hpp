// The Hopper direct filter gradient: windows of step 1 and few channels, f16 and bf16 in NHWC. See
// kernels/conv/direct/direct_wgrad_sm90.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

[[nodiscard]] Support direct_wgrad_sm90_supports(const Problem& problem, const Device& device);
void direct_wgrad_sm90_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);
[[nodiscard]] std::size_t direct_wgrad_sm90_workspace(const Problem& problem, const Config& config);
[[nodiscard]] std::shared_ptr<const void> direct_wgrad_sm90_prepare(const Problem& problem, const Config& config,
                                                                    const Device& device);
[[nodiscard]] Status direct_wgrad_sm90_launch(const LaunchSite& site, const void* prepared, const Args& args);

}  // namespace gpudnn::conv
