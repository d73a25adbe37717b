// Split sweeps: which blocks, and what a step of them costs.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rnn/split.hpp"

#include <algorithm>
#include <initializer_list>

namespace gpudnn::kernels {
namespace {

constexpr std::int64_t kPanel = 64;
constexpr std::int64_t kBytes = 2;  // of an element

std::int64_t over(std::int64_t count, std::int64_t by) { return (count + by - 1) / by; }

// The greatest power of two that is not above `count`.
std::int32_t power_below(std::int32_t count) {
  std::int32_t power = 1;
  while (2 * power <= count) power *= 2;
  return power;
}

std::int64_t shared_bytes(const RnnSplitShape& s) {
  const std::int64_t tiles = (kRnnSplitRows + s.places) * std::int64_t{s.panels} * kPanel * kBytes;
  const std::int64_t received = 2 * kRnnSplitRows * std::int64_t{s.places} * 4;
  const std::int64_t kept =
      over(s.tiles, s.slices) * over(std::int64_t{s.places} * s.owned, kRnnSplitThreads) * kRnnSplitThreads * 4;
  constexpr std::int64_t kBarriersAndAlignment = 4 * 8 + 1024 - 16;
  return tiles + received + kept + kBarriersAndAlignment;
}

// Cycles of a step. A block waits for words of others, stores them for its products, multiplies as fast as its shared
// memory brings operands, sends its sums, and finishes units.
double cycles_of(const RnnSplitShape& s) {
  const double states = static_cast<double>(s.places) * s.panels * kPanel * kBytes;
  const double exchange = 1300 + states / 40;
  const double product = 2.0 * 4 * s.panels * std::max(16 + s.places / 4.0, s.places / 2.0);
  const double sums = 600 + s.places * double{kRnnSplitRows} * 4 / 16;
  const double units = 300 + 60.0 * static_cast<double>(over(std::int64_t{s.places} * s.owned, kRnnSplitThreads));
  return static_cast<double>(over(s.tiles, s.slices)) * (exchange + product + sums + units);
}

}  // namespace

std::int64_t rnn_split_exchange_bytes(const RnnSplitShape& s, std::int32_t directions, std::int32_t steps) {
  return std::min<std::int64_t>(kRnnSplitSlots, steps) * directions * s.tiles * s.places * s.parts * s.panels * kPanel *
         kBytes;
}
std::int64_t rnn_split_most_exchange_bytes(RnnCell cell, std::int64_t units, std::int64_t batch, std::int64_t steps,
                                           std::int32_t directions, bool backward) {
  constexpr std::int64_t kMostPlaces = 48;
  const std::int64_t columns = (backward ? rnn_gates(cell) : 1) * 2 * over(units, kRnnSplitRows) * kRnnSplitRows;
  return std::min<std::int64_t>(kRnnSplitSlots, steps) * directions * (batch + kMostPlaces) * (columns + 16 * kPanel) *
         kBytes;
}

RnnSplitShape rnn_split_shape(RnnCell cell, std::int32_t units, std::int32_t batch, std::int32_t directions,
                              bool backward, const int (&clusters)[kRnnSplitClusterSizes]) {
  const int gates = rnn_gates(cell);
  const int row_gates = backward ? 1 : gates;
  const int column_gates = backward ? gates : 1;
  RnnSplitShape best;
  for (int size = 1; size < kRnnSplitClusterSizes; ++size) {
    RnnSplitShape s;
    s.parts = 1 << size;
    s.owned = power_below(kRnnSplitRows / s.parts / row_gates);
    if (s.owned < 2 || s.owned > 16) continue;
    s.groups = static_cast<std::int32_t>(over(units, std::int64_t{s.owned} * s.parts));
    s.panels = static_cast<std::int32_t>(over(std::int64_t{s.groups} * column_gates * s.owned, kPanel));
    if (s.panels > kRnnSplitMaxPanels) continue;
    const std::int32_t room = clusters[size] / (s.groups * directions);
    if (room < 1) continue;
    for (const std::int32_t places : {8, 16, 32, 48}) {
      s.places = places;
      s.tiles = static_cast<std::int32_t>(over(batch, places));
      s.slices = std::min(room, s.tiles);
      s.slices = static_cast<std::int32_t>(over(s.tiles, over(s.tiles, s.slices)));
      if (shared_bytes(s) > kRnnSplitShared) continue;
      s.cycles = cycles_of(s);
      if (best.parts == 0 || s.cycles < best.cycles) best = s;
    }
  }
  return best;
}

}  // namespace gpudnn::kernels
