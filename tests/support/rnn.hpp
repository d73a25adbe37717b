// The oracle of recurrent networks: sequence by sequence, unit by unit, in double, with backpropagation through time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "ops/rnn/problem.hpp"

namespace gpudnn::test {

// Where the matrices of a pseudo-layer begin in the weight space, in elements; -1 where there is none. By a walk over
// the whole space.
struct RnnPlace {
  std::int64_t w = -1, r = -1, projection = -1, w_bias = -1, r_bias = -1;
};
[[nodiscard]] std::vector<RnnPlace> naive_rnn_places(const rnn::Network& net, std::int64_t* total);

// x, y, dx and dy are [steps, batch, width]; states [pseudo-layers, batch, width], empty for null.
struct RnnValues {
  std::vector<double> x, hx, cx, weights, dy, dhy, dcy;
  // By layer, for the outputs of all but the last: what dropout multiplies element (t, n, j) with. Empty: nothing.
  std::vector<std::vector<double>> kept;
};
struct RnnExpected {
  std::vector<double> y, hy, cy, dx, dhx, dcx, dweights;
  double least_margin = 1e30;  // of a ReLU's argument from 0, or of a cell from where it is clipped
};
// Rounds h to the data's type at each step, as it is stored.
[[nodiscard]] RnnExpected naive_rnn(const rnn::Problem& problem, const RnnValues& values);

// How far a result may be off, in parts of the greatest one.
[[nodiscard]] double rnn_tolerance(const rnn::Problem& problem);

// What dropout multiplies with behind layer `layer` of a network whose states began with `seed`, in its call `call`.
[[nodiscard]] std::vector<double> naive_rnn_kept(const rnn::Problem& problem, std::uint64_t seed, std::uint64_t call);

}  // namespace gpudnn::test
