// Graphs as text, timed through the descriptors of the graph interface: on libgpudnn alone, or next to another library.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "machine.hpp"
#include "measure.hpp"
#include "report.hpp"

namespace gpudnn::bench {

struct NamedGraph {
  std::string name;
  std::string text;
};

// A file of blocks: a line "== name", then the graph's text. False if it cannot be read, and then stderr says why.
[[nodiscard]] bool read_graphs(const std::string& file, const std::string& filter, std::vector<NamedGraph>* graphs);

// Prints a line for each graph and the means; `theirs` may be null. False if ours failed on a graph. "difference" is
// between the outputs, relative in the Euclidean norm.
[[nodiscard]] bool measure_graphs(Machine& machine, const Library& ours, const Library* theirs,
                                  const std::vector<NamedGraph>& graphs, const MeasureOptions& options,
                                  const Ceilings& ceilings, const std::string& csv);

}  // namespace gpudnn::bench
