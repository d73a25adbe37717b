// Split sweeps: which blocks, and what a step of them costs.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rnn/split.hpp"

#include <algorithm>
#include <initializer_list>

namespace gpudnn::kernels {
namespace {

constexpr std::int32_t kPlaces[] = {8, 16, 32};
constexpr std::int32_t kPlacesWithoutClusters = 32;
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
  const std::int64_t tiles = (kRnnSplitRows + s.sets * s.places) * std::int64_t{s.panels} * kPanel * kBytes;
  const std::int64_t received = s.in_clusters ? s.sets * kRnnSplitRows * std::int64_t{s.places} * 4 : 0;
  const std::int64_t kept = rnn_split_kept_tiles(s.places, s.sets) > 0
                                ? 0
                                : over(s.tiles, s.slices) * rnn_split_most_elements(s.places) * kRnnSplitThreads * 4;
  constexpr std::int64_t kBarriersAndAlignment = 4 * 8 + 1024 - 16;
  return tiles + received + kept + kBarriersAndAlignment;
}

// Microseconds of a step, fitted to what an H200 took. For each tile a block waits for states, takes them in,
// multiplies as fast as its shared memory brings operands, sends its sums, and finishes units. Two sets of threads
// share what it has.
double step_of(const RnnSplitShape& s) {
  constexpr double kKilobytes = 1.0 / 1024;
  const double states = static_cast<double>(s.places) * s.panels * kPanel * kBytes * kKilobytes;
  const double sums = s.parts == 1 ? 0 : s.places * double{kRnnSplitRows} * 4 * kKilobytes;
  const double product = 0.0047 * s.panels * std::max(16 + s.places / 4.0, s.places / 2.0);
  const double units = 0.5 * static_cast<double>(over(std::int64_t{s.places} * s.owned, kRnnSplitThreads));
  const double tile = 1.3 +
                      (s.in_clusters         ? 0
                       : s.column_gates == 3 ? 1.6
                                             : 3.2) +
                      0.025 * states + 0.02 * sums + product + units;
  const auto rounds = static_cast<double>(over(s.tiles, std::int64_t{s.slices} * s.sets));
  const double two_sets = s.places < 32 ? 1.47 : s.parts > 2 ? 1.45 : 1.75;
  return rounds * tile * (s.sets > 1 ? two_sets : rounds > 1 ? 1.05 : 1);
}

RnnSplitShape shape_of(bool in_clusters, int parts, std::int32_t units, int row_gates, int column_gates) {
  RnnSplitShape s;
  const std::int32_t owned = power_below(kRnnSplitRows / parts / row_gates);
  if (owned < 2 || owned > 32) return s;
  const std::int64_t groups = over(units, std::int64_t{owned} * parts);
  const std::int64_t panels = over(groups * column_gates * owned, kPanel);
  if (panels > rnn_split_most_panels(kPlaces[0])) return s;
  s.in_clusters = in_clusters;
  s.parts = parts;
  s.groups = static_cast<std::int32_t>(groups);
  s.owned = owned;
  s.panels = static_cast<std::int32_t>(panels);
  s.column_gates = column_gates;
  return s;
}

// Gives the shape its tiles. False: it does not fit.
bool set_tiles(RnnSplitShape* s, std::int32_t places, std::int32_t batch, std::int32_t room) {
  s->places = places;
  s->tiles = static_cast<std::int32_t>(over(batch, places));
  s->slices = std::min(room, s->tiles);
  if (s->slices < 1) return false;
  s->slices = static_cast<std::int32_t>(over(s->tiles, over(s->tiles, s->slices)));
  s->sets = s->tiles > s->slices ? kRnnSplitSets : 1;
  // What one set takes alone may be too much for two.
  const int kept_tiles = rnn_split_kept_tiles(places, s->sets);
  if (kept_tiles > 0 && (shared_bytes(*s) > kRnnSplitShared || over(s->tiles, s->slices) > kept_tiles * s->sets)) {
    s->sets = 1;
  }
  s->microseconds = step_of(*s);
  if (kept_tiles > 0 && s->sets > 1) {
    RnnSplitShape alone = *s;
    alone.sets = 1;
    alone.microseconds = step_of(alone);
    if (alone.microseconds < s->microseconds && shared_bytes(alone) <= kRnnSplitShared) *s = alone;
  }
  return places * s->owned <= rnn_split_most_elements(places) * kRnnSplitThreads &&
         s->panels <= rnn_split_most_panels(places) && shared_bytes(*s) <= kRnnSplitShared;
}

// take(shape without tiles, places of a tile, power of two of the blocks of a cluster) for all that there are.
constexpr std::int32_t kAnyRoom = 1 << 20;
template <class Take>
void for_each_shape(RnnCell cell, std::int32_t units, bool backward, const Take& take) {
  const int row_gates = backward ? 1 : rnn_gates(cell);
  const int column_gates = backward ? rnn_gates(cell) : 1;
  for (int size = 0; size < kRnnSplitClusterSizes; ++size) {
    const RnnSplitShape s = shape_of(true, 1 << size, units, row_gates, column_gates);
    for (const std::int32_t places : kPlaces) {
      if (s.parts != 0) take(s, places, size);
    }
    // More blocks would own units that there are not.
    if (s.parts != 0 && 2 * units <= s.owned * s.parts) return;
  }
  if (row_gates != 1) return;
  const RnnSplitShape s = shape_of(false, kRnnSplitParts, units, row_gates, column_gates);
  if (s.parts != 0) take(s, kPlacesWithoutClusters, 0);
}

}  // namespace

std::int64_t rnn_split_state_bytes(const RnnSplitShape& s, std::int32_t directions, std::int32_t steps) {
  const std::int64_t slots = rnn_split_slots(kRnnSplitPeriod, steps);
  return slots * directions * s.tiles * s.places * s.parts * s.panels * kPanel * kBytes;
}
std::int64_t rnn_split_sum_bytes(const RnnSplitShape& s, std::int32_t directions, std::int32_t steps) {
  if (s.in_clusters) return 0;
  return std::int64_t{rnn_split_sum_slots(steps)} * directions * s.tiles * s.places * s.groups * s.parts *
         kRnnSplitRows * 4;
}
std::int64_t rnn_split_most_exchange_bytes(RnnCell cell, std::int64_t units, std::int64_t batch, std::int64_t steps,
                                           std::int32_t directions, bool backward) {
  std::int64_t most = 0;
  for_each_shape(cell, static_cast<std::int32_t>(units), backward, [&](RnnSplitShape s, std::int32_t places, int) {
    if (!set_tiles(&s, places, static_cast<std::int32_t>(batch), kAnyRoom)) return;
    const auto length = static_cast<std::int32_t>(steps);
    most = std::max(most, rnn_split_state_bytes(s, directions, length) + rnn_split_sum_bytes(s, directions, length));
  });
  return most;
}

RnnSplitShape rnn_split_shape(RnnCell cell, std::int32_t units, std::int32_t batch, std::int32_t directions,
                              bool backward, const int (&clusters)[kRnnSplitClusterSizes]) {
  RnnSplitShape best;
  for_each_shape(cell, units, backward, [&](RnnSplitShape s, std::int32_t places, int size) {
    const std::int32_t blocks_of_cluster = s.in_clusters ? 1 : s.parts;
    if (!set_tiles(&s, places, batch, clusters[size] / (s.groups * blocks_of_cluster * directions))) return;
    if (best.parts == 0 || s.microseconds < best.microseconds) best = s;
  });
  return best;
}

}  // namespace gpudnn::kernels
