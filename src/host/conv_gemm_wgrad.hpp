// The filter gradient as blocked matrix products.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/problem.hpp"

namespace gpudnn::host {

// T is the storage type of the problem's tensors.
template <class T>
void conv_gemm_wgrad(const conv::Problem& problem, const conv::Args& args);

}  // namespace gpudnn::host
