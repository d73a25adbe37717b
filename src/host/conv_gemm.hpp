// Convolution on the host as blocked matrix products: every direction, layout, group count and dilation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/problem.hpp"

namespace gpudnn::host {

// As convolution() of convolution.hpp, but float, half and bfloat16 data are multiplied and added in float, in runs of
// kRun terms that are joined in double. The same bits whatever the number of threads.
void conv_gemm(const conv::Problem& problem, const conv::Args& args);

}  // namespace gpudnn::host
