// The row of float products with float's accuracy that are 1x1 convolutions: of rows of floats, contiguous along k,
// with a filter that may lie anyhow, or a sum over rows of both operands. By the convolution's fp32_split_sm90, which
// cuts floats into bfloat16 terms on their way to the tensor cores: no operand is laid out anew but the filter.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/matmul/engine.hpp"

namespace gpudnn::matmul {

[[nodiscard]] Support rows_split_sm90_supports(const Problem& problem, const Device& device);
[[nodiscard]] bool rows_split_sm90_takes_addresses(const Problem& problem, const Config& config,
                                                   const Alignment& alignment);
void rows_split_sm90_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);
[[nodiscard]] std::size_t rows_split_sm90_workspace(const Problem& problem, const Config& config, const Device& device);
[[nodiscard]] std::shared_ptr<const void> rows_split_sm90_prepare(const Problem& problem, const Config& config,
                                                                  const Device& device);
[[nodiscard]] Status rows_split_sm90_launch(const LaunchSite& site, const void* prepared, const Args& args);

}  // namespace gpudnn::matmul
