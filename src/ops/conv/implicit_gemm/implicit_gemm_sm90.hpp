// The Hopper implicit GEMM: f16, bf16 and TF32 in NHWC on wgmma and TMA. See
// kernels/conv/implicit_gemm/implicit_gemm_sm90.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

[[nodiscard]] Support implicit_gemm_sm90_supports(const Problem& problem, const Device& device);
void implicit_gemm_sm90_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);
[[nodiscard]] double implicit_gemm_sm90_least_seconds(const Problem& problem, const Device& device);
[[nodiscard]] double implicit_gemm_sm90_closer_seconds(const Problem& problem, const Device& device);
[[nodiscard]] bool implicit_gemm_sm90_fastest(const Problem& problem, const Device& device, double bound,
                                              Candidate* fastest);
[[nodiscard]] std::size_t implicit_gemm_sm90_workspace(const Problem& problem, const Config& config);
[[nodiscard]] std::shared_ptr<const void> implicit_gemm_sm90_prepare(const Problem& problem, const Config& config,
                                                                     const Device& device);
[[nodiscard]] Status implicit_gemm_sm90_launch(const LaunchSite& site, const void* prepared, const Args& args);

}  // namespace gpudnn::conv
