// Where a model's candidates go: all into a list, or the first of the fastest within a bound.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>

#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

// One type for both, so that the code around it is there once.
struct Taker {
  std::vector<Candidate>* all = nullptr;
  Candidate* fastest = nullptr;
  double bound = std::numeric_limits<double>::infinity();
  bool found = false;

  // Of what takes so many seconds or more.
  [[nodiscard]] bool has_use_for(double seconds) const { return found ? seconds < bound : seconds <= bound; }
  void take(const Candidate& c) {
    if (all != nullptr) return all->push_back(c);
    if (!has_use_for(c.seconds)) return;
    found = true;
    bound = c.seconds;
    *fastest = c;
  }
};

}  // namespace gpudnn::conv
