// The Hopper forward convolution for images of few channels, f16, bf16 and TF32 in NHWC. See
// kernels/conv/small_c/small_c_fwd_sm90.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

[[nodiscard]] Support small_c_fwd_sm90_supports(const Problem& problem, const Device& device);
void small_c_fwd_sm90_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);
[[nodiscard]] double small_c_fwd_sm90_least_seconds(const Problem& problem, const Device& device);
[[nodiscard]] bool small_c_fwd_sm90_fastest(const Problem& problem, const Device& device, double bound,
                                            Candidate* fastest);
[[nodiscard]] std::size_t small_c_fwd_sm90_workspace(const Problem& problem, const Config& config);
[[nodiscard]] std::shared_ptr<const void> small_c_fwd_sm90_prepare(const Problem& problem, const Config& config,
                                                                   const Device& device);
[[nodiscard]] Status small_c_fwd_sm90_launch(const LaunchSite& site, const void* prepared, const Args& args);

}  // namespace gpudnn::conv
