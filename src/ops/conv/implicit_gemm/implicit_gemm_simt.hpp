// The SIMT implicit-GEMM engine: multiply-adds of the plain kind on every floating type, any layout, stride, dilation
// and group count, one to three spatial dimensions, all three directions. The general CUDA engine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

[[nodiscard]] Support implicit_gemm_simt_supports(const Problem& problem, const Device& device);
void implicit_gemm_simt_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);
void implicit_gemm_simt_lean_candidates(const Problem& problem, const Device& device,
                                        std::vector<Candidate>* candidates);
[[nodiscard]] bool implicit_gemm_simt_fastest(const Problem& problem, const Device& device, double bound,
                                              Candidate* fastest);
[[nodiscard]] double implicit_gemm_simt_least_seconds(const Problem& problem, const Device& device);
[[nodiscard]] std::size_t implicit_gemm_simt_workspace(const Problem& problem, const Config& config);
[[nodiscard]] std::shared_ptr<const void> implicit_gemm_simt_prepare(const Problem& problem, const Config& config,
                                                                     const Device& device);
[[nodiscard]] Status implicit_gemm_simt_launch(const LaunchSite& site, const void* prepared, const Args& args);

}  // namespace gpudnn::conv
