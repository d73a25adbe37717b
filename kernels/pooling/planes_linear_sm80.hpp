// The launch of pooling_planes_linear (planes_linear_sm80.cuh).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/pooling/pooling.hpp"

namespace gpudnn::kernels {

// Averages over windows 3x3 with step 1 and padding 1 of packed NCHW 16-bit planes, in packs of 8 elements altogether.
[[nodiscard]] bool pooling_planes_linear_fit(const PoolingParams& params);
void launch_pooling_planes_linear(const PoolingParams& params, CUstream_st* stream);

}  // namespace gpudnn::kernels
