// Pointwise convolutions of up to 64 channels, f16 and bf16 in NHWC. See kernels/conv/conv1x1/conv1x1_small_c_sm80.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

[[nodiscard]] Support conv1x1_small_c_sm80_supports(const Problem& problem, const Device& device);
void conv1x1_small_c_sm80_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);
[[nodiscard]] std::size_t conv1x1_small_c_sm80_workspace(const Problem& problem, const Config& config);
[[nodiscard]] std::shared_ptr<const void> conv1x1_small_c_sm80_prepare(const Problem& problem, const Config& config,
                                                                       const Device& device);
[[nodiscard]] Status conv1x1_small_c_sm80_launch(const LaunchSite& site, const void* prepared, const Args& args);

}  // namespace gpudnn::conv
