// Split sweeps: which blocks, and what a step of them costs.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rnn/split.hpp"

#include <algorithm>
#include <initializer_list>

namespace gpudnn::kernels {
namespace {

constexpr std::int32_t kPlaces[] = {8, 16, 32};
constexpr std::int64_t kPanelBytes = 128;
constexpr std::int64_t kPanel = 64;  // columns of 16 bits

std::int64_t over(std::int64_t count, std::int64_t by) { return (count + by - 1) / by; }

// The greatest power of two that is not above `count`.
std::int32_t power_below(std::int32_t count) {
  std::int32_t power = 1;
  while (2 * power <= count) power *= 2;
  return power;
}

std::int64_t shared_bytes(const RnnSplitShape& s) {
  const std::int64_t tiles = (kRnnSplitRows + s.sets * s.places) * std::int64_t{s.panels} * kPanelBytes;
  const std::int64_t received = s.sets * kRnnSplitRows * std::int64_t{s.places} * 4;
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
  const double states = static_cast<double>(s.places) * s.panels * kPanelBytes * kKilobytes;
  const double sums = s.parts == 1 ? 0 : s.places * double{kRnnSplitRows} * 4 * kKilobytes;
  const double product = 0.0047 * s.panels * std::max(16 + s.places / 4.0, s.places / 2.0);
  const double units = 0.5 * static_cast<double>(over(std::int64_t{s.places} * s.owned, kRnnSplitThreads));
  const double tile = 1.3 + 0.025 * states + 0.02 * sums + product + units;
  const auto rounds = static_cast<double>(over(s.tiles, std::int64_t{s.slices} * s.sets));
  const double two_sets = s.places < 32 ? 1.47 : s.parts > 2 ? 1.45 : 1.75;
  return rounds * tile * (s.sets > 1 ? two_sets : rounds > 1 ? 1.05 : 1);
}

// Of direct sweeps.
std::int32_t direct_operands(const RnnSplitShape& s) { return s.owned == 64 ? 1 : 2; }
std::int64_t direct_elements(const RnnSplitShape& s) {
  return s.places / 4 * (s.owned == 64 ? 2 : 1) / s.parts / s.warpgroups;
}
std::int64_t direct_bytes(const RnnSplitShape& s) {
  const std::int64_t rows = 64 * direct_operands(s);
  const bool counts = rnn_split_counts(s);
  const std::int64_t panels = counts ? 2 * kRnnCountedStages : s.sets > kRnnSplitSets ? over(s.panels, 2) : s.panels;
  const std::int64_t states = s.places * std::int64_t{128} * panels;
  const std::int64_t sums =
      (s.in_clusters ? rows * s.places / 2 * 4 : 0) + (s.warpgroups > 1 ? rows * s.places * 4 : 0);
  const std::int64_t kept = over(s.tiles, std::int64_t{s.slices} * s.sets) * direct_elements(s) *
                            std::max(s.sets, kRnnSplitSets) * s.warpgroups * kRnnDirectThreads * 4;
  const std::int64_t barriers_and_alignment = 8 * (counts ? 2 * kRnnCountedStages : 8) + 1024 - 16;
  return std::min<std::int64_t>(s.panels * rows * 128, kRnnDirectWeights) + s.sets * (states + sums) + kept +
         barriers_and_alignment;
}
// The same of floats: three products of each weight and state, from registers.
double float_step(const RnnSplitShape& s) {
  constexpr double kCyclesOfProduct = 13;  // of 16 rows, 8 columns and 8 places, of a quarter of a multiprocessor
  const double products = 4.0 * direct_operands(s) * s.panels * 4 * (s.places / 8.0) * 3 / 4;
  const double states = s.places * s.panels * 128 / 1024.0;
  const double sums = s.parts == 1 ? 0 : s.in_clusters ? 0.25 : 0.75;
  const double tile = 0.9 + 0.02 * states + products * kCyclesOfProduct / 1755 + 0.3 + sums;
  return tile * static_cast<double>(over(s.tiles, s.slices));
}
// Of weights in shared memory and registers: products of a warpgroup, one after the other. Of the tiles behind the
// first one the states have come.
double wide_step(const RnnSplitShape& s) {
  const auto behind = static_cast<double>(over(s.tiles, s.slices) - 1);
  if (rnn_split_counts(s)) return (3.6 + 0.15 * s.panels) * (1 + 0.38 * behind);
  constexpr double kCyclesOfProduct = 36;
  const double products = direct_operands(s) * s.panels * 2 * kCyclesOfProduct / 1755;
  const double states = s.places * s.panels * 128 / 1024.0;
  const double sums = s.in_clusters ? 0.25 : 0.75;
  const double tile = 0.85 + 0.056 * states + products + 0.22 * static_cast<double>(direct_elements(s)) + sums;
  return tile * (1 + (s.in_clusters ? 0.85 : 0.7) * behind);
}
// Microseconds of a step, fitted like those above. Weights that a set holds in registers are multiplied sooner.
double direct_step(const RnnSplitShape& s) {
  if (s.floats) return float_step(s);
  const bool holds = s.sets == 1 && s.places == 8 && s.column_gates * s.owned != 64;
  if (rnn_split_is_wide(s)) return wide_step(s);
  const double product = direct_operands(s) * s.panels * 4 * std::max(16 + s.places / 4.0, s.places / 2.0) / 1755;
  const double states = s.places * s.panels * 128 / 1024.0;
  const double sums = s.parts == 1 ? 0 : s.in_clusters ? 0.25 : 0.75;
  const double tile =
      1.2 + 0.02 * states + (holds ? 0.6 : 1) * product + 0.22 * static_cast<double>(direct_elements(s)) + sums;
  const auto rounds = static_cast<double>(over(s.tiles, std::int64_t{s.slices} * s.sets));
  if (s.sets > kRnnSplitSets) {
    const std::int64_t tiles = over(s.tiles, s.slices);
    const std::int64_t rest = tiles % s.sets;
    return tile * (1.9 * static_cast<double>(tiles / s.sets) + (rest > 0 ? 0.7 + 0.3 * static_cast<double>(rest) : 0));
  }
  const double two_sets = s.parts == 4 ? 1.2 : s.places == 32 ? 1.65 : 1.35;
  return rounds * tile * (s.sets > 1 ? two_sets : 1);
}
// The batch in tiles of so many places, slices of tiles in turn, and sets where a slice has more than one. False: there
// is no room for a slice.
bool cut_places(RnnSplitShape* s, std::int32_t places, std::int32_t batch, std::int32_t room) {
  s->places = places;
  s->tiles = static_cast<std::int32_t>(over(batch, places));
  s->slices = std::min(room, s->tiles);
  if (s->slices < 1) return false;
  s->slices = static_cast<std::int32_t>(over(s->tiles, over(s->tiles, s->slices)));
  s->sets = s->tiles > s->slices ? kRnnSplitSets : 1;
  return true;
}
// False: it does not fit.
bool set_direct_tiles(RnnSplitShape* s, std::int32_t places, std::int32_t batch, std::int32_t room) {
  if (!cut_places(s, places, batch, room)) return false;
  if (s->floats || rnn_split_is_wide(*s)) s->sets = 1;
  if (s->sets > 1 && direct_bytes(*s) > kRnnSplitShared) s->sets = 1;
  // Backward, of four blocks a column: four sets, whose states come in halves.
  if (s->sets > 1 && s->parts == 4 && s->column_gates > 1 && s->tiles > kRnnSplitSets * s->slices) {
    RnnSplitShape four = *s;
    four.sets = kRnnDirectSets;
    if (direct_bytes(four) <= kRnnSplitShared) *s = four;
  }
  s->microseconds = direct_step(*s);
  return direct_bytes(*s) <= kRnnSplitShared;
}
// take(shape without tiles, places of a tile, power of two of the blocks of a cluster).
template <class Take>
void for_each_direct(RnnCell cell, std::int32_t units, bool backward, int element_bytes, const Take& take) {
  const int row_gates = backward ? 1 : rnn_gates(cell);
  const int column_gates = backward ? rnn_gates(cell) : 1;
  const bool floats = element_bytes == 4;
  if (floats && rnn_gates(cell) == 1) return;
  for (int size = 0; size < (floats ? 4 : column_gates > 1 ? 3 : 2); ++size) {
    RnnSplitShape s;
    s.direct = true;
    s.floats = floats;
    s.parts = 1 << size;
    s.owned = row_gates == 1 ? 64 : 32;
    s.groups = static_cast<std::int32_t>(over(units, s.owned));
    const std::int64_t groups_of_part = over(s.groups, s.parts);
    s.panels = static_cast<std::int32_t>(over(groups_of_part * column_gates * s.owned * element_bytes, kPanelBytes));
    s.column_gates = column_gates;
    s.in_clusters = s.parts == 2;
    if (s.parts > s.groups) return;
    if (rnn_split_is_wide(s)) {  // as many panels for both warpgroups
      if (s.panels % 2 != 0) s.panels += backward ? column_gates : 1;
      const bool has_room = std::int64_t{s.panels} * 64 * direct_operands(s) * 128 <= 2 * kRnnDirectWeights;
      if (floats || rnn_gates(cell) == 1 || !has_room || s.parts != (backward ? 4 : 2)) continue;
      s.warpgroups = 2;
      if (backward) take(s, 16, 0);
      take(s, 32, s.in_clusters ? size : 0);
      continue;
    }
    for (const std::int32_t places : kPlaces) {
      const bool is_there = floats             ? places == (backward ? 4 : 8) * s.parts
                            : row_gates > 1    ? (s.parts == 1) == (places == 8)
                            : column_gates > 1 ? s.parts > 1 && places == 4 * s.parts
                                               : places == 8 * s.parts;
      s.warpgroups = !floats && (s.parts == 4 || places == 32) ? 1 : 2;
      if (is_there) take(s, places, s.in_clusters ? size : 0);
    }
  }
}

RnnSplitShape shape_of(int parts, std::int32_t units, int column_gates) {
  RnnSplitShape s;
  const std::int32_t owned = power_below(kRnnSplitRows / parts);
  if (owned < 2 || owned > 32) return s;
  const std::int64_t groups = over(units, std::int64_t{owned} * parts);
  const std::int64_t panels = over(groups * column_gates * owned, kPanel);
  if (panels > rnn_split_most_panels(kPlaces[0])) return s;
  s.in_clusters = true;
  s.parts = parts;
  s.groups = static_cast<std::int32_t>(groups);
  s.owned = owned;
  s.panels = static_cast<std::int32_t>(panels);
  s.column_gates = column_gates;
  return s;
}

// Gives the shape its tiles. False: it does not fit.
bool set_tiles(RnnSplitShape* s, std::int32_t places, std::int32_t batch, std::int32_t room) {
  if (!cut_places(s, places, batch, room)) return false;
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

// The same for those that are not direct: gradients of cells with gates.
template <class Take>
void for_each_shape(RnnCell cell, std::int32_t units, bool backward, int element_bytes, const Take& take) {
  if (!backward || rnn_gates(cell) == 1 || element_bytes != 2) return;
  for (int size = 0; size < kRnnSplitClusterSizes; ++size) {
    const RnnSplitShape s = shape_of(1 << size, units, rnn_gates(cell));
    for (const std::int32_t places : kPlaces) {
      if (s.parts != 0) take(s, places, size);
    }
    // More blocks would own units that there are not.
    if (s.parts != 0 && 2 * units <= s.owned * s.parts) return;
  }
}
constexpr std::int32_t kAnyRoom = 1 << 20;

}  // namespace

std::int64_t rnn_split_state_bytes(const RnnSplitShape& s, std::int32_t directions, std::int32_t steps,
                                   std::int32_t period) {
  if (rnn_split_counts(s)) {
    return directions * s.tiles * s.parts *
           (std::int64_t{kRnnCountedSlots} * s.places * s.panels * kPanelBytes + kRnnCountBytes);
  }
  const std::int64_t slots = rnn_split_slots(period, steps);
  return slots * directions * s.tiles * s.places * s.parts * s.panels * kPanelBytes;
}
std::int64_t rnn_split_sum_bytes(const RnnSplitShape& s, std::int32_t directions, std::int32_t steps) {
  if (s.in_clusters || (s.direct && s.parts == 1)) return 0;
  const std::int64_t rows = s.direct ? 64 * direct_operands(s) : 64;
  return std::int64_t{rnn_split_sum_slots(steps)} * directions * s.tiles * s.places * s.groups * s.parts * rows * 4;
}
std::int64_t rnn_split_most_exchange_bytes(RnnCell cell, std::int64_t units, std::int64_t batch, std::int64_t steps,
                                           std::int32_t directions, bool backward, int element_bytes) {
  std::int64_t most = 0;
  for_each_shape(cell, static_cast<std::int32_t>(units), backward, element_bytes,
                 [&](RnnSplitShape s, std::int32_t places, int) {
                   if (!set_tiles(&s, places, static_cast<std::int32_t>(batch), kAnyRoom)) return;
                   const auto length = static_cast<std::int32_t>(steps);
                   most = std::max(most, rnn_split_state_bytes(s, directions, length, kRnnSplitPeriod) +
                                             rnn_split_sum_bytes(s, directions, length));
                 });
  for_each_direct(cell, static_cast<std::int32_t>(units), backward, element_bytes,
                  [&](RnnSplitShape s, std::int32_t places, int) {
                    if (!set_direct_tiles(&s, places, static_cast<std::int32_t>(batch), kAnyRoom)) return;
                    const auto length = static_cast<std::int32_t>(steps);
                    most = std::max(most, rnn_split_state_bytes(s, directions, length, kRnnSplitPeriod) +
                                              rnn_split_sum_bytes(s, directions, length));
                  });
  return most;
}

RnnSplitShape rnn_split_shape(RnnCell cell, std::int32_t units, std::int32_t batch, std::int32_t directions,
                              bool backward, int element_bytes, const int (&clusters)[kRnnSplitClusterSizes]) {
  RnnSplitShape best;
  for_each_shape(cell, units, backward, element_bytes, [&](RnnSplitShape s, std::int32_t places, int size) {
    if (!set_tiles(&s, places, batch, clusters[size] / (s.groups * directions))) return;
    if (best.parts == 0 || s.microseconds < best.microseconds) best = s;
  });
  for_each_direct(cell, units, backward, element_bytes, [&](RnnSplitShape s, std::int32_t places, int size) {
    const std::int32_t blocks_of_cluster = s.in_clusters ? 1 : s.parts;
    if (!set_direct_tiles(&s, places, batch, clusters[size] / (s.groups * blocks_of_cluster * directions))) return;
    if (best.parts == 0 || s.microseconds < best.microseconds) best = s;
  });
  return best;
}

}  // namespace gpudnn::kernels
