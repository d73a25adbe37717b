// Matrix products on the host: the plain reference, and the blocked product that users wait for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/matmul/problem.hpp"

namespace gpudnn::host {

// Sums in double, in the order of k.
void matmul(const matmul::Problem& problem, const matmul::Args& args);

// The same by gemm(), whose comment says how it sums.
void matmul_gemm(const matmul::Problem& problem, const matmul::Args& args);

}  // namespace gpudnn::host
