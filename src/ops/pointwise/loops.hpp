// The loops over a pointwise problem's elements, merged as far as its tensors allow.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/pointwise/problem.hpp"

namespace gpudnn::pointwise {

// Dimensions from the slowest to the fastest, in the order of the memory of the first tensor that has all of them
// (stores first). Strides are 0 where a tensor is repeated or folds; of an index they are the steps of the number; of a
// scalar all 0.
struct Loops {
  int rank = 1;
  std::int64_t dims[kMaxRank] = {};
  std::int64_t load_strides[kMaxLoads][kMaxRank] = {};
  std::int64_t store_strides[kMaxStores][kMaxRank] = {};
};

[[nodiscard]] Loops loops_of(const Problem& problem);

// The same for a problem whose reductions fold the same dimensions: `kept` loops over results, then those over what is
// folded into one. `across`: neighbours in memory belong to different results.
struct FoldLoops {
  Loops loops;
  int kept = 0;
  bool across = false;
  std::int64_t results = 1;
  std::int64_t folded = 1;
};
[[nodiscard]] FoldLoops fold_loops_of(const Problem& problem);

}  // namespace gpudnn::pointwise
