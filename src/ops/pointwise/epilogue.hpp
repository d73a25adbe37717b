// A program as the epilogue of a matrix kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/tile/program_epilogue.hpp"
#include "ops/pointwise/problem.hpp"

namespace gpudnn::pointwise {

// The kernel's parameters of a problem whose load `accumulator` is what the kernel computes: dims {rows, columns} or
// {batch, rows, columns}. args.stores[0] is the kernel's own and unused. NOT_SUPPORTED where the program has
// reductions, computes in double, or is too long.
[[nodiscard]] Status make_epilogue(const Problem& problem, int accumulator, const Args& args,
                                   tile::EpilogueProgram* epilogue);

}  // namespace gpudnn::pointwise
