// From a convolution problem to the parameters of the pointwise convolution of few channels, and the engine's cost
// model. No CUDA is needed for it, so that tests can check it anywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/pointwise_few_channels_sm80.hpp"
#include "ops/conv/problem.hpp"

namespace gpudnn::conv {

// Null, or why the engine cannot take the problem on a device that it runs on.
[[nodiscard]] const char* pointwise_few_channels_obstacle(const Problem& problem);

// But for pointers and scalars. The problem has no obstacle.
[[nodiscard]] kernels::pointwise_few::Params pointwise_few_channels_params(const Problem& problem);

// Blocks of a launch: as many as the device runs at once, or as there is work for.
[[nodiscard]] std::uint32_t pointwise_few_channels_blocks(const kernels::pointwise_few::Params& params,
                                                          int multiprocessors);

// That the model expects.
[[nodiscard]] double pointwise_few_channels_seconds(const Problem& problem, int multiprocessors);

}  // namespace gpudnn::conv
