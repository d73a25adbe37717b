// From a float convolution to the parameters of the kernel of few terms, and what its configs cost. No CUDA is needed
// for it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/few_terms/few_terms_simt.hpp"
#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

// Null, or why the engine cannot take the problem.
[[nodiscard]] const char* few_terms_unsupported_reason(const Problem& problem);

struct FewTermsPlan {
  kernels::few_terms::Params params;  // but for pointers and scalars
  int tile = 0;
  bool forward = true;
  std::int64_t first_tap = 0;  // elements from the filter's start
};
[[nodiscard]] FewTermsPlan few_terms_plan(const Problem& problem, const Config& config);
void few_terms_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);

}  // namespace gpudnn::conv
