// Random pointwise problems, their data, and runs of them on a backend.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/pointwise/problem.hpp"
#include "support/backend.hpp"
#include "support/random.hpp"

namespace gpudnn::test {

struct PointwiseCase {
  pointwise::Problem problem;
  std::uint64_t seed = 1;
  bool misaligned = false;
};
[[nodiscard]] std::string describe(const PointwiseCase& c);

// Operations that the host and the device compute to the same bits.
[[nodiscard]] bool is_exact(pointwise::Op op);

// `exact_only`: of such operations alone.
[[nodiscard]] PointwiseCase random_pointwise(Random& random, bool exact_only);

// Few values of 16 and 32 bits in rows of whole packs, and mostly sums, products and bounds: what one kernel interprets
// with all values in registers.
[[nodiscard]] PointwiseCase random_chain(Random& random);

// One or two of the stores fold dimensions; the operations are exact.
[[nodiscard]] PointwiseCase random_reduction(Random& random);

// The bytes of each tensor, and the numbers of the scalars.
struct PointwiseData {
  std::vector<std::vector<unsigned char>> loads;
  std::vector<double> scalars;
};
[[nodiscard]] PointwiseData make_data(const PointwiseCase& c);

// What the stores hold afterwards, as bytes: on the host by its reference, or on the backend at hand.
struct PointwiseOutcome {
  gpudnnStatus_t status = GPUDNN_STATUS_SUCCESS;
  std::string damage;
  std::vector<std::vector<unsigned char>> stores;
};
[[nodiscard]] PointwiseOutcome run_reference(const pointwise::Problem& problem, const PointwiseData& data);
[[nodiscard]] PointwiseOutcome run_at_hand(const pointwise::Problem& problem, const PointwiseData& data,
                                           bool misaligned, bool with_workspace = true);

// The elements of store `index` in row-major order.
[[nodiscard]] std::vector<double> elements_of(const pointwise::Problem& problem, const PointwiseOutcome& outcome,
                                              int index);

}  // namespace gpudnn::test
