// Convolution on the host: forward, data gradient and filter gradient.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/problem.hpp"

namespace gpudnn::host {

// Any strides, 1 to 3 spatial dimensions, groups, dilation, mirrored filters; x, w, y, z and bias of one floating type.
// Sums are formed in double, in an order that depends on the problem alone.
void convolution(const conv::Problem& problem, const conv::Args& args);

}  // namespace gpudnn::host
