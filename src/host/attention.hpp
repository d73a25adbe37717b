// Attention on the host: the definition, row by row, in double. The CUDA engines' oracle.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/attention/problem.hpp"

namespace gpudnn::host {

void attention(const attention::Problem& problem, const attention::Args& args);

}  // namespace gpudnn::host
