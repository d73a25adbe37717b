// The row of the Hopper kernel: wgmma fed by TMA (kernels/matmul/gemm_sm90.hpp).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/matmul/engine.hpp"

namespace gpudnn::matmul {

[[nodiscard]] Support gemm_sm90_supports(const Problem& problem, const Device& device);
// The same whatever the math type. Of bf16, FMA_MATH adds up the sums of k tiles in float, rounded to nearest: for the
// terms of floats (gemm_split_sm90).
[[nodiscard]] Support gemm_sm90_takes(const Problem& problem, const Device& device);
void gemm_sm90_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);
// d may lie anywhere but for the tiles that TMA alone stores.
[[nodiscard]] bool gemm_sm90_takes_addresses(const Problem& problem, const Config& config, const Alignment& alignment);
[[nodiscard]] std::size_t gemm_sm90_workspace(const Problem& problem, const Config& config, const Device& device);
[[nodiscard]] std::shared_ptr<const void> gemm_sm90_prepare(const Problem& problem, const Config& config,
                                                            const Device& device);
[[nodiscard]] Status gemm_sm90_launch(const LaunchSite& site, const void* prepared, const Args& args);

}  // namespace gpudnn::matmul
