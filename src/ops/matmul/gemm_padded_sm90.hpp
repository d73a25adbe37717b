// The row of 16-bit products on Hopper whose operands lie in rows that TMA does not take: copies of them, and gemm_sm90
// (kernels/matmul/pad_operands_sm90.hpp).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/matmul/engine.hpp"

namespace gpudnn::matmul {

// Whether an operand of 16 bits has rows or batches at no multiples of 16 bytes.
[[nodiscard]] bool has_odd_rows(const Problem& problem);
[[nodiscard]] Support gemm_padded_sm90_supports(const Problem& problem, const Device& device);
[[nodiscard]] bool gemm_padded_sm90_takes_addresses(const Problem& problem, const Config& config,
                                                    const Alignment& alignment);
void gemm_padded_sm90_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);
[[nodiscard]] std::size_t gemm_padded_sm90_workspace(const Problem& problem, const Config& config,
                                                     const Device& device);
[[nodiscard]] std::shared_ptr<const void> gemm_padded_sm90_prepare(const Problem& problem, const Config& config,
                                                                   const Device& device);
[[nodiscard]] Status gemm_padded_sm90_launch(const LaunchSite& site, const void* prepared, const Args& args);

}  // namespace gpudnn::matmul
