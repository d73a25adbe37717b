// The way through the tensors of a normalization. Index arithmetic only.
//
// The dimensions fall into two kinds: those that sets are made of (reduced), and those that tell sets apart. In the
// order of x's memory the fastest dimension and its neighbours of the same kind, as far as x is gapless there, make the
// *run*:
//
//   rows      the run is reduced: NCHW, a channel's pixels of one image.  `lines` are the other reduced dimensions
//             (images), `cross` tells the sets apart (channels).
//   columns   the run lies across sets: NHWC, the channels of a pixel.  `lines` are the other dimensions of sets,
//             `cross` are the reduced ones (images and pixels).
//
// A run is cut into units of 8 elements, the last one shorter; a thread works on a unit at a time. The mask has a byte
// for each unit. Its layout depends on x alone: the unit's index, where the lines are the fastest but for the run in
// columns, and the sets in rows, which for packed tensors is the order of memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/tile/loop_nest.hpp"

namespace gpudnn::kernels {

constexpr int kUnit = 8;
enum NormSlot : int { kSlotX, kSlotOut, kSlotSide, kSlotDz, kSlotParams, kSlotStats, kNormSlots };

struct NormWalk {
  using Nest = tile::LoopNest<kNormSlots>;
  std::int32_t columns = 0;  // else rows
  // Bytes of an access to x, out, side and dz: 16, or for 16-bit types 4, where that many are contiguous and aligned in
  // all of them; the size of an element where only the step is one for the whole run, and for double; 0: the run has
  // loops of its own.
  std::int32_t access = 0;
  std::int64_t run = 1;    // elements
  tile::FastDivmod units;  // of a run
  Nest lines;
  Nest cross;
  Nest inner;                          // the run's own loops
  std::int64_t step[kNormSlots] = {};  // along the run, if access > 0

  // The units of a set (rows), or of all sets of one reduced index (columns).
  GPUDNN_HOST_DEVICE std::uint32_t line_units() const { return lines.count * units.divisor; }
  // Sets altogether.
  GPUDNN_HOST_DEVICE std::int64_t sets() const {
    return columns != 0 ? static_cast<std::int64_t>(lines.count) * run : static_cast<std::int64_t>(cross.count);
  }
};

// An offset in one slot. `kSimple`: the nest is known to have one loop.
template <bool kSimple>
GPUDNN_HOST_DEVICE std::int64_t offset_of(const NormWalk::Nest& nest, int slot, std::uint32_t index) {
  if constexpr (kSimple) return static_cast<std::int64_t>(index) * nest.strides[slot][0];
  return nest.offset_in(slot, index);
}

// A unit along lines and run.
struct NormUnit {
  std::uint32_t line;
  std::uint32_t within;  // of the run: the unit's number
  std::int32_t valid;    // elements

  GPUDNN_HOST_DEVICE NormUnit(const NormWalk& walk, std::uint32_t unit) {
    line = walk.units.divmod(unit, &within);
    const std::int64_t left = walk.run - static_cast<std::int64_t>(within) * kUnit;
    valid = left < kUnit ? static_cast<std::int32_t>(left) : kUnit;
  }
};

// Where the line begins in the slot's tensor; without what `cross` adds.
template <bool kSimple = false>
GPUDNN_HOST_DEVICE std::int64_t line_start(const NormWalk& walk, int slot, const NormUnit& unit) {
  return offset_of<kSimple>(walk.lines, slot, unit.line);
}
// Element i of the unit, from there.
GPUDNN_HOST_DEVICE std::int64_t element_in_line(const NormWalk& walk, int slot, const NormUnit& unit, int i) {
  const std::int64_t element = static_cast<std::int64_t>(unit.within) * kUnit + i;
  return walk.access > 0 ? element * walk.step[slot]
                         : offset_of<false>(walk.inner, slot, static_cast<std::uint32_t>(element));
}
// The byte of the mask; `cross` is the set (rows) or the reduced index (columns).
GPUDNN_HOST_DEVICE std::int64_t mask_byte(const NormWalk& walk, const NormUnit& unit, std::uint32_t cross) {
  const std::int64_t line = walk.columns != 0 ? static_cast<std::int64_t>(cross) * walk.lines.count + unit.line
                                              : static_cast<std::int64_t>(unit.line) * walk.cross.count + cross;
  return line * walk.units.divisor + unit.within;
}
// The number of the set of element i of a unit in columns.
GPUDNN_HOST_DEVICE std::int64_t column_set(const NormWalk& walk, const NormUnit& unit, int i) {
  return static_cast<std::int64_t>(unit.line) * walk.run + static_cast<std::int64_t>(unit.within) * kUnit + i;
}
// Where the set's parameter or statistic is.
GPUDNN_HOST_DEVICE std::int64_t set_offset(const NormWalk& walk, int slot, std::int64_t set) {
  if (walk.columns == 0) return offset_of<false>(walk.cross, slot, static_cast<std::uint32_t>(set));
  const std::int64_t line = set / walk.run;
  const NormUnit start(walk, static_cast<std::uint32_t>(line) * walk.units.divisor);
  const std::int64_t within = set - line * walk.run;
  return line_start(walk, slot, start) + (walk.access > 0
                                              ? within * walk.step[slot]
                                              : offset_of<false>(walk.inner, slot, static_cast<std::uint32_t>(within)));
}

}  // namespace gpudnn::kernels
