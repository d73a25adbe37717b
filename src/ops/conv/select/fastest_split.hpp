// The parts that a reduction is cut into, as the general engines' models search them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

// The numbers of parts that are tried, and the last of them: parts of four tiles of k at least, which do not fill the
// device many times over, as that gains nothing.
constexpr int next_parts(int parts) { return parts + (parts < 4 ? 1 : parts / 4); }
constexpr int most_parts(double tiles, double k_tiles, double multiprocessors) {
  return static_cast<int>(std::max(1.0, std::min({1024.0, k_tiles / 4, 64 * multiprocessors / tiles})));
}

// The first of the fastest configs, of the tiles that search() is called for, within `bound` seconds.
struct FastestSplit {
  double bound;
  Candidate* fastest;
  bool found = false;
  double partial_tiles = 0;  // whose sums the fastest one leaves in a workspace, if it is a split one

  // A kind of tiles: their number, the seconds that all take at the `least` and one `alone` before the reduction is
  // cut, and most_parts(). sums(parts) are seconds of the sums, which grow with the parts; seconds(parts, sums) is the
  // whole.
  template <class Tile, class Sums, class Seconds>
  void search(int kind, const Tile& tile, Sums sums, Seconds seconds) {
    for (int parts = 1; parts <= tile.most_parts; parts = next_parts(parts)) {
      if (tile.alone > bound * parts) continue;
      const double of_sums = parts > 1 ? sums(parts) : 0;
      if (tile.least + of_sums > bound) break;
      const double whole = seconds(parts, of_sums);
      if (whole > bound || (found && whole == bound)) continue;
      found = true;
      bound = whole;
      partial_tiles = tile.tiles * parts;
      *fastest = {{kind, parts}, whole, 0};
    }
  }
};

}  // namespace gpudnn::conv
