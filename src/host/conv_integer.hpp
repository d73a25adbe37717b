// Forward convolution of 8-bit integers on the host: exact sums, the epilogue of kernels/conv/integer/integer.hpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/problem.hpp"

namespace gpudnn::host {

// Any strides and vector types, 1 to 3 spatial dimensions, groups, dilation, mirrored filters. Sums wrap around in 32
// bits.
void convolution_of_integers(const conv::Problem& problem, const conv::Args& args);

}  // namespace gpudnn::host
