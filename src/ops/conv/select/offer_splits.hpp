// The splits of a reduction that an engine with a workspace of partial sums offers for a tile.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <iterator>
#include <limits>

#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

// Calls offer(splits): one, and those with which the tiles fill the device's slots once, twice and four times, each of
// 4 k tiles at least.
template <class Offer>
void offer_full_rounds(double tiles, double k_tiles, double slots, double most, Offer offer) {
  int last = 0;
  for (const double rounds : {0.0, 1.0, 2.0, 4.0}) {
    const int splits = static_cast<int>(std::max(1.0, std::min({rounds * slots / tiles, k_tiles / 4, most})));
    if (splits <= last) continue;
    offer(splits);
    last = splits;
  }
}

// Bytes of workspace for which the best split is offered. A caller with little workspace must not fall back to no split
// at all: of a filter gradient with few outputs that takes 50 times as long.
constexpr std::size_t kSplitWorkspaces[] = {std::numeric_limits<std::size_t>::max(), std::size_t{8} << 20,
                                            std::size_t{4} << 20, std::size_t{1} << 20};

// Appends the tile without a split, and its fastest split in each of kSplitWorkspaces. seconds(splits) and
// workspace(splits) say what a split takes; the device runs `slots` tiles side by side.
template <class Seconds, class Workspace>
void offer_splits(const Config& tile, double tiles, double k_tiles, double slots, Seconds seconds, Workspace workspace,
                  std::vector<Candidate>* candidates) {
  Candidate best[std::size(kSplitWorkspaces)];
  std::fill(std::begin(best), std::end(best), Candidate{tile, seconds(1), 0});
  candidates->push_back(best[0]);
  // A split has 4 k tiles at least, and more than 64 rounds of tiles gain nothing.
  const int most = static_cast<int>(std::max(1.0, std::min({1024.0, k_tiles / 4, 64 * slots / tiles})));
  for (int splits = 2; splits <= most; splits += splits < 4 ? 1 : splits / 4) {
    Candidate candidate = {tile, seconds(splits), workspace(splits)};
    candidate.config.split_k = splits;
    for (std::size_t i = 0; i < std::size(best); ++i) {
      if (candidate.seconds < best[i].seconds && candidate.workspace <= kSplitWorkspaces[i]) best[i] = candidate;
    }
  }
  for (std::size_t i = 0; i < std::size(best); ++i) {
    const bool is_new = i == 0 || best[i].config != best[i - 1].config;
    if (best[i].config.split_k > 1 && is_new) candidates->push_back(best[i]);
  }
}

}  // namespace gpudnn::conv
