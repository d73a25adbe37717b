// The gradient of a maximum over windows 3x3 with step 2 of packed NCHW planes of 16-bit elements, rows in packs of 8.
//
// Mathematics. Window (i, j) covers the rows 2i - 1 to 2i + 1 and the columns likewise; its gradient goes to its first
// element, in row-major order, that equals its maximum. So with m the maximum, an element x_k gets
//   dy where x_k = m and none before it was, which is three instructions for two windows side by side,
// and nobody stores what was chosen. An element in an even row and column lies in one window; where just one of both is
// odd, in two, whose gradients are added as halves with a single rounding; where both are, in four, added in float.
//
// Data flow. A thread owns 8 columns, four windows abreast, and walks down a strip of windows: it loads a pack of each
// row of x once, from memory, ahead of its use, and writes each row of dx once. Of its neighbours it needs an element
// of x on the left and the gradients for its last column on the right, which come by shuffles; so the threads of a row
// lie in one warp, which has as many rows of different planes or strips as fit. Strips share the three rows at their
// seam. Least bytes: x, dy and dx once.
//
// Instructions: about 150 a step of 16 elements, where the copy rate leaves 28 an element.
//
// NaNs are passed over: they equal no maximum. So a NaN stands for an element outside the image, too. (Propagating them
// is left to planes_fixed.cuh.)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/pooling/pooling_math.cuh"
#include "kernels/tile/loop_nest.hpp"

namespace gpudnn::kernels {

constexpr int kPairsThreads = 128;
constexpr int kPairsAhead = 1;   // steps whose loads are under way
constexpr int kPairsBlocks = 8;  // on a multiprocessor

template <class T>
struct PairsArgs {
  const T* x;
  const T* dy;
  T* out;
  std::int32_t row_packs;      // 8 elements of x, 4 windows each
  std::int32_t windows_high;   // half the height
  std::int32_t strip;          // rows of windows
  std::uint32_t units;         // planes times strips
  std::int32_t units_of_warp;  // side by side
  tile::FastDivmod by_strips;
};

// Two elements side by side.
template <class T>
using TwoOf = std::conditional_t<std::is_same_v<T, tile::Half>, __half2, __nv_bfloat162>;
template <class T>
__device__ __forceinline__ TwoOf<T> as_two(std::uint32_t word) {
  TwoOf<T> two;
  memcpy(&two, &word, sizeof two);
  return two;
}
template <class T>
__device__ __forceinline__ std::uint32_t as_word(const TwoOf<T>& two) {
  std::uint32_t word;
  memcpy(&word, &two, sizeof word);
  return word;
}
template <class T>
__device__ __forceinline__ std::uint32_t larger_pair(std::uint32_t a, std::uint32_t b) {
  return as_word<T>(__hmax2(as_two<T>(a), as_two<T>(b)));
}
template <class T>
__device__ __forceinline__ float2 wide_pair(std::uint32_t word) {
  if constexpr (std::is_same_v<T, tile::Half>) {
    return __half22float2(as_two<T>(word));
  } else {
    return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)};
  }
}

// (high half of a, low half of b); the low halves of both; the high ones.
__device__ __forceinline__ std::uint32_t across_words(std::uint32_t a, std::uint32_t b) {
  return __byte_perm(a, b, 0x5432);
}
__device__ __forceinline__ std::uint32_t low_halves(std::uint32_t a, std::uint32_t b) {
  return __byte_perm(a, b, 0x5410);
}
__device__ __forceinline__ std::uint32_t high_halves(std::uint32_t a, std::uint32_t b) {
  return __byte_perm(a, b, 0x7632);
}

// A row of x, or of the gradients that a row of windows sends there, as the windows see it: [column of the window][pair
// of windows].
struct PairsRow {
  std::uint32_t at[3][2];
};

template <class T>
__device__ __forceinline__ std::uint32_t widest_of(const PairsRow& row, int pair) {
  return larger_pair<T>(larger_pair<T>(row.at[0][pair], row.at[1][pair]), row.at[2][pair]);
}

template <class T>
__global__ void __launch_bounds__(kPairsThreads, kPairsBlocks)
    pooling_planes_pairs(const __grid_constant__ PairsArgs<T> args) {
  constexpr unsigned kAll = 0xffffffffu;
  constexpr std::uint32_t kOutside = 0x7fff7fffu;  // two NaNs
  const auto lane = static_cast<std::int32_t>(threadIdx.x % 32);
  const std::uint32_t warp = blockIdx.x * (kPairsThreads / 32) + threadIdx.x / 32;
  const std::int32_t in_warp = lane / args.row_packs;
  const std::int32_t pack = lane - in_warp * args.row_packs;
  std::uint32_t unit = warp * static_cast<std::uint32_t>(args.units_of_warp) + static_cast<std::uint32_t>(in_warp);
  const bool there = in_warp < args.units_of_warp && unit < args.units;
  if (!there) unit = 0;
  std::uint32_t strip;
  const std::uint32_t plane = args.by_strips.divmod(unit, &strip);
  const bool leftmost = pack == 0, rightmost = pack == args.row_packs - 1;
  const std::int32_t row_packs = args.row_packs, high = args.windows_high;
  const std::int32_t first = static_cast<std::int32_t>(strip) * args.strip;
  const std::int32_t last = min(first + args.strip, high);
  // In packs: of 8 elements, and of 4 gradients.
  const std::int64_t plane_packs = std::int64_t{2} * high * row_packs;
  const auto* const x = reinterpret_cast<const uint4*>(args.x) + plane * plane_packs + pack;
  const auto* const dy = reinterpret_cast<const uint2*>(args.dy) + plane * (plane_packs / 2) + pack;
  auto* const out = reinterpret_cast<uint4*>(args.out) + plane * plane_packs + pack;

  const auto load_row = [&](std::int32_t row) {
    return there && row >= 0 && row < 2 * high ? x[row * row_packs] : uint4{kOutside, kOutside, kOutside, kOutside};
  };
  const auto load_gradients = [&](std::int32_t row) { return there && row < high ? dy[row * row_packs] : uint2{0, 0}; };
  const auto spread = [&](const uint4& row) {
    std::uint32_t left = __shfl_up_sync(kAll, row.w, 1);
    if (leftmost) left = kOutside;
    PairsRow seen;
    seen.at[1][0] = low_halves(row.x, row.y);
    seen.at[1][1] = low_halves(row.z, row.w);
    seen.at[2][0] = high_halves(row.x, row.y);
    seen.at[2][1] = high_halves(row.z, row.w);
    seen.at[0][0] = across_words(left, seen.at[2][0]);
    seen.at[0][1] = across_words(seen.at[2][0], seen.at[2][1]);
    return seen;
  };
  const auto join = [](std::uint32_t a, std::uint32_t b) { return as_word<T>(__hadd2(as_two<T>(a), as_two<T>(b))); };
  // The elements in even columns, in pairs, and those in odd ones, put in order.
  const auto write = [&](std::int32_t row, const std::uint32_t(&even)[2], const std::uint32_t(&odd)[2]) {
    ptx::st_global(&out[row * row_packs], uint4{low_halves(even[0], odd[0]), high_halves(even[0], odd[0]),
                                                low_halves(even[1], odd[1]), high_halves(even[1], odd[1])});
  };

  uint4 next_middle[kPairsAhead], next_low[kPairsAhead];
  uint2 next_dy[kPairsAhead];
#pragma unroll
  for (int i = 0; i < kPairsAhead; ++i) {
    next_middle[i] = load_row(2 * (first + i));
    next_low[i] = load_row(2 * (first + i) + 1);
    next_dy[i] = load_gradients(first + i);
  }
  PairsRow above = spread(load_row(2 * first - 1));
  std::uint32_t above_most[2] = {widest_of<T>(above, 0), widest_of<T>(above, 1)};
  PairsRow sent = {};  // by the windows before, to the row above
#pragma unroll 1
  for (std::int32_t step = 0; step <= args.strip; ++step) {  // the same number for all of a warp
    const std::int32_t window = first + step;
    const uint4 middle_pack = next_middle[0], low_pack = next_low[0];
    const std::uint32_t dy_words[2] = {next_dy[0].x, next_dy[0].y};
#pragma unroll
    for (int i = 1; i < kPairsAhead; ++i) {
      next_middle[i - 1] = next_middle[i];
      next_low[i - 1] = next_low[i];
      next_dy[i - 1] = next_dy[i];
    }
    if (step + kPairsAhead <= args.strip) {
      next_middle[kPairsAhead - 1] = load_row(2 * (window + kPairsAhead));
      next_low[kPairsAhead - 1] = load_row(2 * (window + kPairsAhead) + 1);
      next_dy[kPairsAhead - 1] = load_gradients(window + kPairsAhead);
    }
    const PairsRow middle = spread(middle_pack), low = spread(low_pack);
    PairsRow to_above, to_middle, to_low;
    std::uint32_t low_most[2];
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
      low_most[pair] = widest_of<T>(low, pair);
      const std::uint32_t most =
          larger_pair<T>(larger_pair<T>(above_most[pair], widest_of<T>(middle, pair)), low_most[pair]);
      std::uint32_t found = 0;
      const auto give = [&](const PairsRow& row, PairsRow* to) {
#pragma unroll
        for (int k = 0; k < 3; ++k) {
          const std::uint32_t equal = __heq2_mask(as_two<T>(row.at[k][pair]), as_two<T>(most));
          to->at[k][pair] = dy_words[pair] & equal & ~found;
          found |= equal;
        }
      };
      give(above, &to_above);
      give(middle, &to_middle);
      give(low, &to_low);
    }
    // What the neighbour on the right sends to this thread's last column: from its first window.
    std::uint32_t right_above = __shfl_down_sync(kAll, low_halves(sent.at[0][0], to_above.at[0][0]), 1);
    std::uint32_t right_middle = __shfl_down_sync(kAll, to_middle.at[0][0], 1);
    if (rightmost) right_above = right_middle = 0;
    if (there && step > 0 && window <= last) {  // row 2 window - 1
      const std::uint32_t even[2] = {join(sent.at[1][0], to_above.at[1][0]), join(sent.at[1][1], to_above.at[1][1])};
      std::uint32_t odd[2];
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        const auto left_of = [&](const PairsRow& row, std::uint32_t beyond) {
          return wide_pair<T>(across_words(row.at[0][pair], pair == 0 ? row.at[0][1] : beyond));
        };
        const float2 a = wide_pair<T>(sent.at[2][pair]), b = left_of(sent, right_above);
        const float2 c = wide_pair<T>(to_above.at[2][pair]), d = left_of(to_above, right_above >> 16);
        const float sums[2] = {a.x + b.x + (c.x + d.x), a.y + b.y + (c.y + d.y)};
        odd[pair] = tile::word_of(tile::narrow<T>(sums[0]), tile::narrow<T>(sums[1]));
      }
      write(2 * window - 1, even, odd);
    }
    if (there && window < last) {  // row 2 window
      const std::uint32_t odd[2] = {join(to_middle.at[2][0], across_words(to_middle.at[0][0], to_middle.at[0][1])),
                                    join(to_middle.at[2][1], across_words(to_middle.at[0][1], right_middle))};
      write(2 * window, to_middle.at[1], odd);
    }
    above = low;
    above_most[0] = low_most[0];
    above_most[1] = low_most[1];
    sent = to_low;
  }
}

}  // namespace gpudnn::kernels
