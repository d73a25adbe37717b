// The parts that a reduction is cut into, as the general engines' models search them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

constexpr int next_parts(int parts) { return parts + (parts < 4 ? 1 : parts / 4); }

// The first of the fastest configs, of the tiles that search() is called for, within `bound` seconds.
struct FastestSplit {
  double bound;
  Candidate* fastest;
  bool found = false;
  double partial_tiles = 0;  // whose sums the fastest one leaves in a workspace, if it is a split one

  // `tiles` of a kind, which take `least` seconds at the least, and one of them `alone` before the reduction is cut.
  // worth(parts) ends the search; sums(parts) are seconds
  // of the sums, which grow with the parts; seconds(parts, sums) is the whole.
  template <class Worth, class Sums, class Seconds>
  void search(int kind, double tiles, double least, double alone, Worth worth, Sums sums, Seconds seconds) {
    for (int parts = 1; parts == 1 || worth(parts); parts = next_parts(parts)) {
      const double of_sums = parts > 1 ? sums(parts) : 0;
      if (least + of_sums > bound) break;
      if (alone > bound * parts) continue;
      const double whole = seconds(parts, of_sums);
      if (whole > bound || (found && whole == bound)) continue;
      found = true;
      bound = whole;
      partial_tiles = tiles * parts;
      *fastest = {{kind, parts}, whole, 0};
    }
  }
};

}  // namespace gpudnn::conv
