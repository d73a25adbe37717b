// From the tensors of a reduction to the loops that its kernels run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/reduce/reduce.hpp"
#include "ops/reduce/problem.hpp"

namespace gpudnn::reduce {

// The loops over outputs run in the order of a's memory, as do those over elements, but in the order of the dimensions
// where a place is wanted. Neighbours are merged as long as 31 bits count the product.
[[nodiscard]] kernels::ReduceLoops make_loops(const Problem& problem);

}  // namespace gpudnn::reduce
