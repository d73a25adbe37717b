// The Hopper direct convolution: filters larger than one tap, stride 1 and few channels, f16 and bf16 in NHWC. See
// kernels/conv/direct/direct_sm90.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

[[nodiscard]] Support direct_sm90_supports(const Problem& problem, const Device& device);
void direct_sm90_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);
[[nodiscard]] bool direct_sm90_fastest(const Problem& problem, const Device& device, double bound, Candidate* fastest);
[[nodiscard]] std::size_t direct_sm90_workspace(const Problem& problem, const Config& config);
[[nodiscard]] std::shared_ptr<const void> direct_sm90_prepare(const Problem& problem, const Config& config,
                                                              const Device& device);
[[nodiscard]] Status direct_sm90_launch(const LaunchSite& site, const void* prepared, const Args& args);

}  // namespace gpudnn::conv
