// The tensor operations on the host: set, scale, add, transform.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/tensor/problem.hpp"

namespace gpudnn::host {

void tensor(const tensor::Problem& problem, const tensor::Args& args);

}  // namespace gpudnn::host
