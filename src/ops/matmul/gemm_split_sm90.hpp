// The row of float products with float's accuracy on Hopper's tensor cores: operands in bfloat16 terms, multiplied by
// gemm_sm90 (kernels/matmul/split_operands_sm90.hpp).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/matmul/engine.hpp"

namespace gpudnn::matmul {

[[nodiscard]] Support gemm_split_sm90_supports(const Problem& problem, const Device& device);
[[nodiscard]] bool gemm_split_sm90_takes_addresses(const Problem& problem, const Config& config,
                                                   const Alignment& alignment);
void gemm_split_sm90_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);
[[nodiscard]] std::size_t gemm_split_sm90_workspace(const Problem& problem, const Config& config, const Device& device);
[[nodiscard]] std::shared_ptr<const void> gemm_split_sm90_prepare(const Problem& problem, const Config& config,
                                                                  const Device& device);
[[nodiscard]] Status gemm_split_sm90_launch(const LaunchSite& site, const void* prepared, const Args& args);

}  // namespace gpudnn::matmul
