// What a tile of positions meets in the source tensor, copied side by side: the part of the im2col matrix that one
// block of a product reads. Rows are (tap, channel) pairs in that order, columns the tile's positions. A tap outside
// the image meets zeros.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/data_type.hpp"
#include "host/conv_lattice.hpp"

namespace gpudnn::host {

// The type that T is multiplied in.
template <class T>
using FactorOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

// A stored element as a factor. 8-bit floats convert by a to_double of their own.
template <class C, class T>
[[nodiscard]] inline C factor_of(T value) noexcept {
  if constexpr (requires { static_cast<C>(value); }) {
    return static_cast<C>(value);
  } else {
    return static_cast<C>(to_double(value));
  }
}

template <class C, class T>
inline void copy_strided(C* to, std::int64_t to_step, const T* from, std::int64_t from_step, std::int64_t count) {
  if (to_step == 1 && from_step == 1) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = factor_of<C>(from[i]);
  } else if (to_step == 1) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = factor_of<C>(from[i * from_step]);
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i * to_step] = factor_of<C>(from[i * from_step]);
  }
}

template <class C>
inline void zero_strided(C* to, std::int64_t to_step, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i * to_step] = 0;
}

// The part of the (tap, channel) pairs [begin, end) that belongs to one tap.
struct TapRange {
  std::int64_t tap;
  std::int64_t first;  // channel
  std::int64_t last;
};
[[nodiscard]] inline TapRange tap_range(std::int64_t begin, std::int64_t end, std::int64_t channels) noexcept {
  const std::int64_t tap = begin / channels;
  const std::int64_t first = begin % channels;
  return {tap, first, std::min(channels, first + end - begin)};
}

// The positions of a run at which a tap meets the image, as [begin, end), and the source offset of the run's first one,
// which itself may lie outside.
struct Meeting {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t offset = 0;
};
[[nodiscard]] inline Meeting meet(const ConvLattice& lattice, const ConvPiece& piece, const ConvRun& run,
                                  const ConvTap& tap) noexcept {
  constexpr int kLast = kConvSpatial - 1;
  const ConvSide& source = lattice.source;
  Meeting meeting;
  meeting.offset = run.image * source.image_stride;
  std::int64_t at[kConvSpatial];
  for (int i = 0; i < kConvSpatial; ++i) {
    at[i] = run.at[i] * piece.axes[i].source_step + tap.source[i];
    meeting.offset += at[i] * source.strides[i];
    if (i < kLast && (at[i] < 0 || at[i] >= source.dims[i])) return meeting;
  }
  const std::int64_t step = piece.axes[kLast].source_step;
  const std::int64_t room = source.dims[kLast] - at[kLast];  // to the end of the row
  if (room <= 0) return meeting;
  meeting.begin = std::min(run.count, at[kLast] >= 0 ? 0 : (-at[kLast] + step - 1) / step);
  meeting.end = std::max(meeting.begin, std::min(run.count, (room - 1) / step + 1));
  return meeting;
}

// Pairs [begin, end) of one group, whose first source channel is at `source`: to[(pair - begin) * pair_stride + column
// * column_stride]. One of the two strides is 1, whichever lets the source be read in its own order.
template <class T>
void gather(const ConvLattice& lattice, const ConvPiece& piece, const std::vector<ConvRun>& runs, const T* source,
            std::int64_t begin, std::int64_t end, FactorOf<T>* to, std::int64_t pair_stride,
            std::int64_t column_stride) {
  const std::int64_t channel_stride = lattice.source.channel_stride;
  const std::int64_t step = piece.axes[kConvSpatial - 1].source_step * lattice.source.strides[kConvSpatial - 1];
  for (std::int64_t pair = begin; pair < end;) {
    const TapRange range = tap_range(pair, end, lattice.source.channels);
    const std::int64_t channels = range.last - range.first;
    FactorOf<T>* const tap_to = to + (pair - begin) * pair_stride;
    for (const ConvRun& run : runs) {
      const Meeting meeting = meet(lattice, piece, run, piece.taps[static_cast<std::size_t>(range.tap)]);
      const T* const from = source + meeting.offset + range.first * channel_stride;
      FactorOf<T>* const run_to = tap_to + run.column * column_stride;
      if (pair_stride == 1) {
        for (std::int64_t i = 0; i < run.count; ++i) {
          if (i >= meeting.begin && i < meeting.end) {
            copy_strided(run_to + i * column_stride, 1, from + i * step, channel_stride, channels);
          } else {
            zero_strided(run_to + i * column_stride, 1, channels);
          }
        }
        continue;
      }
      for (std::int64_t c = 0; c < channels; ++c) {
        FactorOf<T>* const row = run_to + c * pair_stride;
        if (meeting.begin > 0) zero_strided(row, 1, meeting.begin);
        copy_strided(row + meeting.begin, 1, from + c * channel_stride + meeting.begin * step, step,
                     meeting.end - meeting.begin);
        if (meeting.end < run.count) zero_strided(row + meeting.end, 1, run.count - meeting.end);
      }
    }
    pair += channels;
  }
}

}  // namespace gpudnn::host
