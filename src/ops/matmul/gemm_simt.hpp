// The row of the general device kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/matmul/engine.hpp"

namespace gpudnn::matmul {

[[nodiscard]] Support gemm_simt_supports(const Problem& problem, const Device& device);
void gemm_simt_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);
[[nodiscard]] std::size_t gemm_simt_workspace(const Problem& problem, const Config& config, const Device& device);
[[nodiscard]] std::shared_ptr<const void> gemm_simt_prepare(const Problem& problem, const Config& config,
                                                            const Device& device);
[[nodiscard]] Status gemm_simt_launch(const LaunchSite& site, const void* prepared, const Args& args);

}  // namespace gpudnn::matmul
