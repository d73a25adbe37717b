// From a forward convolution to the parameters of the kernel whose warps share a tile's reduction, and what its configs
// cost. No CUDA is needed for it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/sliced_k/sliced_k_sm80.hpp"
#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

// Null, or why the engine cannot take the problem on a device that it runs on.
[[nodiscard]] const char* sliced_k_unsupported_reason(const Problem& problem);
// But for pointers and scalars.
[[nodiscard]] kernels::sliced_k::Params sliced_k_params(const Problem& problem, const Config& config);
void sliced_k_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);

}  // namespace gpudnn::conv
