// From a float convolution to the parameters of its kernels on bfloat16 tensor cores, and what its configs cost.
// No CUDA is needed for it, so that tests can check it anywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/fp32_split/fp32_split_sm90.hpp"
#include "ops/conv/implicit_gemm/implicit_gemm_sm90_params.hpp"

namespace gpudnn::conv {

struct Fp32SplitPlan {
  Sm90Plan gemm;  // its workspace counts for nothing
  int tile = 0;
  kernels::fp32_split::SplitFilterParams filter;  // but for the pointers; not of the filter gradient
  // Bytes from channel to channel of the output and the addend, where TMA does not take both; else 0.
  std::int64_t c_column_step = 0;
  std::int64_t addend_column_step = 0;
  std::size_t terms_bytes = 0;  // behind the flags
  std::size_t partials_at = 0;  // in the workspace
  std::size_t workspace = 0;
};

// Null, or why the engine cannot take the problem on a device that it runs on.
[[nodiscard]] const char* fp32_split_sm90_unsupported_reason(const Problem& problem);

[[nodiscard]] Fp32SplitPlan fp32_split_sm90_plan(const Problem& problem, const Config& config);

void fp32_split_sm90_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);

}  // namespace gpudnn::conv
