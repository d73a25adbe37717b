// Matrix products on the host: the plain reference, and what it shares with other host engines.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/matmul/problem.hpp"

namespace gpudnn::host {

// What one batch of d is made of: where its operands start, in elements, and the extents that count.
struct MatmulBatch {
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::int64_t c = 0;
  std::int64_t d = 0;
  std::int64_t bias = 0;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
};
// `index` counts the batches of d in row-major order.
[[nodiscard]] MatmulBatch matmul_batch(const matmul::Problem& problem, const matmul::Args& args, std::int64_t index);

// Turns a row of sums (of its first `batch.n` columns) into a row of d, padding included, and returns the greatest
// magnitude before the scale of d (NaN if there is one). A row from `batch.m` on has padding alone.
double finish_matmul_row(const matmul::Problem& problem, const matmul::Args& args, const MatmulBatch& batch,
                         std::int64_t row, const double* sums);

// The greater magnitude; a NaN stays.
[[nodiscard]] double greater_magnitude(double a, double b) noexcept;

// Sums in double, in the order of k.
void matmul(const matmul::Problem& problem, const matmul::Args& args);

}  // namespace gpudnn::host
