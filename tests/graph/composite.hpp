// Random composite attention graphs as clients write them, and the numbers that they are executed with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "client.hpp"

namespace gpudnn::test {

struct Composite {
  std::string text;
  DataType type = GPUDNN_DATA_FLOAT;  // of q, k and v
  std::vector<std::pair<std::int64_t, std::vector<double>>> values;
};

// Forward or backward, with any of scale, soft cap, bias, ALiBi, lengths, bounds, sink, dropout, pages, statistics;
// `narrow` ones may have tensors of 16 bits.
[[nodiscard]] Composite random_composite(Random& random, bool narrow);
// The same with q, k and v in 8-bit floats, numbers in memory that scale them, and greatest magnitudes.
[[nodiscard]] Composite random_8_bit_composite(Random& random);

// Numbers of a recorded graph: masks of minus infinity, factors of dropout, windows, lengths, pages, ragged offsets.
void set_recorded_values(const graph::Graph& graph, Memory* memory, Random& random);
// Inputs of a case of `file`, with the numbers that it needs to mean something.
[[nodiscard]] Memory recorded_inputs(const std::string& file, const GraphCase& one, const graph::Graph& graph,
                                     Random* random);

}  // namespace gpudnn::test
