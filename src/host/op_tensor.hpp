// The two-operand tensor operation on the host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/op_tensor/problem.hpp"

namespace gpudnn::host {

void op_tensor(const op_tensor::Problem& problem, const op_tensor::Args& args);

}  // namespace gpudnn::host
