// Attention on the host: the definition, row by row, in double. The CUDA engines' oracle.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/attention/problem.hpp"

namespace gpudnn::host {

// What p is multiplied by before it is rounded forward in 8-bit problems: scale_s, as a graph says; or what makes each
// row's greatest p the greatest power of two of P's type, as the general engine of the GPU does.
enum class ProbabilityScale { graph, by_greatest };

void attention(const attention::Problem& problem, const attention::Args& args,
               ProbabilityScale probability_scale = ProbabilityScale::graph);

}  // namespace gpudnn::host
