// Layer normalization under test: random cases, the oracle, and runs of one engine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/layer_norm/problem.hpp"
#include "support/api_run.hpp"
#include "support/random.hpp"

namespace gpudnn::test {

struct LayerNormCase {
  layer_norm::Problem problem;
  std::uint64_t seed = 1;
  double offset = 0;     // added to the normally distributed x
  double magnitude = 1;  // of x
  // Elements of x that are set to a value, by row-major index.
  std::vector<std::int64_t> places;
  double placed = 0;
};
[[nodiscard]] std::string describe(const LayerNormCase& c);
[[nodiscard]] LayerNormCase random_layer_norm(Random& random);

// Tensors by row-major index, rounded to their types.
struct LayerNormValues {
  std::vector<double> x, dy, scale, bias, mean, inverse;
};
[[nodiscard]] LayerNormValues make_values(const LayerNormCase& c);

struct LayerNormExpected {
  Expected out, mean, inverse, dscale, dbias;
};
// By loops over the definition, in double.
[[nodiscard]] LayerNormExpected naive(const LayerNormCase& c, const LayerNormValues& values);

struct LayerNormOptions {
  bool misaligned = false;
  bool without_workspace = false;
  int multiprocessors = 0;  // as if the device had so many; 0: as it is
  int runs = 1;             // each on poisoned outputs; all have the first one's bits
};
using LayerNormEngine = Engine<layer_norm::Problem, layer_norm::Args>;

// Runs the engine on poisoned outputs in guarded memory. Empty if all is well.
[[nodiscard]] std::string check(const Backend& backend, const LayerNormEngine& engine, const LayerNormCase& c,
                                const LayerNormValues& values, const LayerNormExpected& expected,
                                const LayerNormOptions& options = {});

}  // namespace gpudnn::test
