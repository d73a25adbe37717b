// From a convolution problem to the parameters of the depthwise filter gradient by products of planes, and its
// footprint. No CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "kernels/conv/depthwise/depthwise_toeplitz_wgrad_sm90.hpp"
#include "kernels/conv/depthwise/small_group_sm80.hpp"
#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

// A reason against, or null.
[[nodiscard]] const char* depthwise_toeplitz_wgrad_unsupported_reason(const Problem& problem);

struct DepthwiseToeplitzWgrad {
  kernels::depthwise_toeplitz::WgradParams params;
  int row = 0;
  // The second kernel.
  kernels::small_group::Params sums;
  kernels::small_group::SumShape sum_shape;
  std::size_t workspace = 0;
};
// Without pointers; so many rows of dy at the most in a thread block. Nothing where that does not fit.
[[nodiscard]] std::optional<DepthwiseToeplitzWgrad> depthwise_toeplitz_wgrad(const Problem& problem, int rows);

// The rows of a config.
[[nodiscard]] int depthwise_toeplitz_wgrad_rows(const Config& config);

void depthwise_toeplitz_wgrad_candidates(const Problem& problem, const Device& device,
                                         std::vector<Candidate>* candidates);

}  // namespace gpudnn::conv
