// From a convolution problem to the parameters of the pointwise convolution of few channels, and the engine's cost
// model. No CUDA is needed for it, so that tests can check it anywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/conv1x1/conv1x1_small_c_sm80.hpp"
#include "ops/conv/problem.hpp"

namespace gpudnn::conv {

// Null, or why the engine cannot take the problem on a device that it runs on.
[[nodiscard]] const char* conv1x1_small_c_unsupported_reason(const Problem& problem);

// But for pointers and scalars. The problem has no reason.
[[nodiscard]] kernels::conv1x1_small_c::Params conv1x1_small_c_params(const Problem& problem);

// Blocks of a launch: as many as the device runs at once, or as there is work for.
[[nodiscard]] std::uint32_t conv1x1_small_c_blocks(const kernels::conv1x1_small_c::Params& params, int multiprocessors);

// That the model expects.
[[nodiscard]] double conv1x1_small_c_seconds(const Problem& problem, int multiprocessors);

}  // namespace gpudnn::conv
