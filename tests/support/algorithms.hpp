// The algorithm queries of the three directions as one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "support/api_run.hpp"

namespace gpudnn::test {

enum class Search { heuristic, find, find_ex };

// A row of any of the three lists.
struct AlgorithmRow {
  int algorithm;
  gpudnnStatus_t status;
  float milliseconds;
  std::size_t memory;
  gpudnnDeterminism_t determinism;
  gpudnnMathType_t math;
};

struct AlgorithmList {
  gpudnnStatus_t status = GPUDNN_STATUS_SUCCESS;
  int returned = -1;
  std::vector<AlgorithmRow> rows;
};

// FindEx runs on the values of `c`, with a workspace of `workspace_bytes`; the others use its problem alone.
[[nodiscard]] AlgorithmList list_algorithms(const Backend& backend, const ConvCase& c, Search search, int requested,
                                            std::size_t workspace_bytes = 0);
[[nodiscard]] int max_algorithm_count(const Backend& backend, conv::Direction direction);

}  // namespace gpudnn::test
