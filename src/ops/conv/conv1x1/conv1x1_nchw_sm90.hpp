// Engine: pointwise convolution on planes (NCHW) on Hopper's wgmma and TMA, without copies of the image tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

[[nodiscard]] Support conv1x1_nchw_sm90_supports(const Problem& problem, const Device& device);
void conv1x1_nchw_sm90_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);
[[nodiscard]] std::size_t conv1x1_nchw_sm90_workspace(const Problem& problem, const Config& config);
[[nodiscard]] std::shared_ptr<const void> conv1x1_nchw_sm90_prepare(const Problem& problem, const Config& config,
                                                                    const Device& device);
[[nodiscard]] Status conv1x1_nchw_sm90_launch(const LaunchSite& site, const void* opaque, const Args& args);

}  // namespace gpudnn::conv
