// From a convolution problem to the parameters of the depthwise kernel by Toeplitz matrices, and its footprint. No
// CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "kernels/conv/depthwise/depthwise_toeplitz_sm90.hpp"
#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

// A reason against, or null.
[[nodiscard]] const char* depthwise_toeplitz_unsupported_reason(const Problem& problem);

// Without pointers; nothing where the row does not fit the problem.
[[nodiscard]] std::optional<kernels::depthwise_toeplitz::Params> depthwise_toeplitz_params(const Problem& problem,
                                                                                           int row);

void depthwise_toeplitz_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);

}  // namespace gpudnn::conv
