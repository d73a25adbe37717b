// Oracles of dropout, the spatial transformer and the CTC loss: by their definitions, in double, apart from the
// library.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "ops/ctc/problem.hpp"
#include "ops/dropout/problem.hpp"
#include "ops/spatial_transformer/problem.hpp"
#include "support/cases.hpp"

namespace gpudnn::test {

// --- dropout --------------------------------------------------------------------------------------------------------

// Whether each element, by row-major index, is kept by forward call number `call` on states started from `seed`, for an
// output of this layout.
[[nodiscard]] std::vector<bool> naive_mask(const TensorGeometry& out, float probability, std::uint64_t seed,
                                           std::uint64_t call);
[[nodiscard]] Expected naive_dropout(const TensorGeometry& out, float probability, const std::vector<bool>& mask,
                                     const std::vector<double>& in);

// --- spatial transformer --------------------------------------------------------------------------------------------

// Elements by row-major index. The grid is (n, h, w, 2), theta (n, 2, 3); `out` is the output before the call.
struct TransformerValues {
  std::vector<double> theta, grid, x, dy, out, grid_out;
};
struct TransformerScalars {
  double alpha = 1;
  double beta = 0;
  double grid_alpha = 1;
  double grid_beta = 0;
};
[[nodiscard]] Expected naive_grid(const spatial_transformer::Problem& problem, const TransformerValues& values);
[[nodiscard]] Expected naive_theta_gradient(const spatial_transformer::Problem& problem,
                                            const TransformerValues& values);
[[nodiscard]] Expected naive_sample(const spatial_transformer::Problem& problem, const TransformerValues& values,
                                    const TransformerScalars& scalars);
[[nodiscard]] Expected naive_image_gradient(const spatial_transformer::Problem& problem,
                                            const TransformerValues& values, const TransformerScalars& scalars);
[[nodiscard]] Expected naive_grid_gradient(const spatial_transformer::Problem& problem, const TransformerValues& values,
                                           const TransformerScalars& scalars);

// --- CTC ------------------------------------------------------------------------------------------------------------

struct CtcLabels {
  std::vector<int> labels;  // one sequence after the other
  std::vector<int> label_lengths;
  std::vector<int> input_lengths;
};
struct CtcExpected {
  Expected costs;
  Expected gradients;               // by row-major index of (step, sequence, label)
  std::vector<bool> is_impossible;  // of each sequence
};
// By enumeration of every path of labels over time: alphabet^steps of them.
[[nodiscard]] CtcExpected naive_ctc(const ctc::Problem& problem, const std::vector<double>& x, const CtcLabels& labels);

}  // namespace gpudnn::test
