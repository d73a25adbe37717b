// The tensors of an attention problem, in one order for who makes them and who binds them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "ops/attention/problem.hpp"
#include "problem_run.hpp"

namespace gpudnn::bench {

struct AttentionOperand {
  Operand operand;
  void (*bind)(attention::Args* args, void* data);
};

// Lengths are all the greatest; pages lie in a scattered order.
[[nodiscard]] std::vector<AttentionOperand> attention_inputs(const attention::Problem& problem);
[[nodiscard]] std::vector<AttentionOperand> attention_outputs(const attention::Problem& problem);
// Of the pairs of rows and columns that bounds leave: 2 (dim_qk + dim_v) each forward, 2 (3 dim_qk + 2 dim_v) backward.
[[nodiscard]] double attention_flops(const attention::Problem& problem);

}  // namespace gpudnn::bench
