// The Hopper filter gradient by rows of patches: up to 8 channels and 256 taps, f16 and bf16 in NHWC. See
// kernels/conv/small_c/smem_im2col_wgrad_sm90.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

[[nodiscard]] Support smem_im2col_wgrad_sm90_supports(const Problem& problem, const Device& device);
void smem_im2col_wgrad_sm90_candidates(const Problem& problem, const Device& device,
                                       std::vector<Candidate>* candidates);
[[nodiscard]] double smem_im2col_wgrad_sm90_least_seconds(const Problem& problem, const Device& device);
[[nodiscard]] bool smem_im2col_wgrad_sm90_fastest(const Problem& problem, const Device& device, double bound,
                                                  Candidate* fastest);
[[nodiscard]] std::size_t smem_im2col_wgrad_sm90_workspace(const Problem& problem, const Config& config);
[[nodiscard]] std::shared_ptr<const void> smem_im2col_wgrad_sm90_prepare(const Problem& problem, const Config& config,
                                                                         const Device& device);
[[nodiscard]] Status smem_im2col_wgrad_sm90_launch(const LaunchSite& site, const void* prepared, const Args& args);

}  // namespace gpudnn::conv
