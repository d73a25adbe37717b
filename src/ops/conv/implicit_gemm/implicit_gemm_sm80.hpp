// The mma.sync implicit-GEMM engine: tensor cores on f16, bf16 and f32 as TF32, any layout, alignment, stride, dilation
// and group count, one to three spatial dimensions, all three directions. For every GPU from sm_80 on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

[[nodiscard]] Support implicit_gemm_sm80_supports(const Problem& problem, const Device& device);
void implicit_gemm_sm80_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);
void implicit_gemm_sm80_lean_candidates(const Problem& problem, const Device& device,
                                        std::vector<Candidate>* candidates);
[[nodiscard]] bool implicit_gemm_sm80_fastest(const Problem& problem, const Device& device, double bound,
                                              Candidate* fastest);
[[nodiscard]] double implicit_gemm_sm80_least_seconds(const Problem& problem, const Device& device);
[[nodiscard]] double implicit_gemm_sm80_closer_seconds(const Problem& problem, const Device& device);
[[nodiscard]] std::size_t implicit_gemm_sm80_workspace(const Problem& problem, const Config& config);
[[nodiscard]] std::shared_ptr<const void> implicit_gemm_sm80_prepare(const Problem& problem, const Config& config,
                                                                     const Device& device);
[[nodiscard]] Status implicit_gemm_sm80_launch(const LaunchSite& site, const void* prepared, const Args& args);

}  // namespace gpudnn::conv
