// From a convolution problem to the parameters of the kernel for small groups, and its footprint. No CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/depthwise/small_group_sm80.hpp"
#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

// A reason against, or null.
[[nodiscard]] const char* small_group_unsupported_reason(const Problem& problem);

// The instance of a problem that it supports.
[[nodiscard]] int small_group_row(const Problem& problem);

// Without pointers.
[[nodiscard]] kernels::small_group::Params small_group_params(const Problem& problem, const Config& config,
                                                              int multiprocessors);

// Bytes of partial sums: of the filter gradient.
[[nodiscard]] std::size_t small_group_workspace(const Problem& problem, const kernels::small_group::Params& params);

void small_group_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);

}  // namespace gpudnn::conv
