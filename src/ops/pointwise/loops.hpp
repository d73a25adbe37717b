// The loops over a pointwise problem's elements, merged as far as its tensors allow.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/pointwise/problem.hpp"

namespace gpudnn::pointwise {

// Dimensions from the slowest to the fastest, in the order of the first store's memory. Strides are 0 where a tensor is
// repeated; of an index they are the steps of the number; of a scalar all 0.
struct Loops {
  int rank = 1;
  std::int64_t dims[kMaxRank] = {};
  std::int64_t load_strides[kMaxLoads][kMaxRank] = {};
  std::int64_t store_strides[kMaxStores][kMaxRank] = {};
};

[[nodiscard]] Loops loops_of(const Problem& problem);

}  // namespace gpudnn::pointwise
