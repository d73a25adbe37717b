// The gradient of a maximum over windows 3x3 with step 2 of 16-bit elements, rows in packs of 8 pixels: packed NCHW
// planes, and images of packed NHWC with three channels.
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
// With three channels a thread owns 8 pixels, three packs, and does the channels one after the other: two elements of a
// channel are picked out of the words with one instruction, and the results joined likewise.
//
// Instructions: about 195 a step of 16 elements, 505 of 48, where the copy rate leaves 28 an element.
//
// NaNs are passed over: they equal no maximum. So a NaN stands for an element outside the image, too. (Propagating them
// is left to planes_fixed_sm80.cuh.)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/pooling/halves.cuh"
#include "kernels/pooling/pooling_math.cuh"
#include "kernels/tile/loop_nest.hpp"

namespace gpudnn::kernels {

constexpr int kPairsThreads = 128;
template <int kChannels>
inline constexpr int kPairsBlocks = kChannels == 1 ? 8 : 3;  // on a multiprocessor

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

template <class T>
__device__ __forceinline__ std::uint32_t larger_pair(std::uint32_t a, std::uint32_t b) {
  return tile::as_word<T>(__hmax2(tile::as_two<T>(a), tile::as_two<T>(b)));
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

// A row of x of one channel, or of the gradients that a row of windows sends there, as the windows see it: [column of
// the window][pair of windows].
struct PairsRow {
  std::uint32_t at[3][2];
};

template <class T>
__device__ __forceinline__ std::uint32_t widest_of(const PairsRow& row, int pair) {
  return larger_pair<T>(larger_pair<T>(row.at[0][pair], row.at[1][pair]), row.at[2][pair]);
}

template <class T, int kChannels>
__global__ void __launch_bounds__(kPairsThreads, kPairsBlocks<kChannels>)
    pooling_planes_pairs(const __grid_constant__ PairsArgs<T> args) {
  constexpr unsigned kAll = 0xffffffffu;
  constexpr std::uint32_t kOutside = 0x7fff7fffu;  // two NaNs
  constexpr int kWords = 4 * kChannels;            // of a thread's 8 pixels; 4 windows have half of them
  constexpr int kBefore = kChannels == 1 ? 1 : 2;  // words that have the pixel before
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
  const std::int32_t row_step = row_packs * kChannels;
  const std::int64_t plane_packs = std::int64_t{2} * high * row_step;
  // Row 2 first - 1, which may lie outside. Pointers move down with the steps.
  const std::int64_t begin = plane * plane_packs + pack * kChannels + (2 * first - 1) * row_step;
  const uint4* x = reinterpret_cast<const uint4*>(args.x) + begin;
  const uint2* dy =
      reinterpret_cast<const uint2*>(args.dy) + plane * (plane_packs / 2) + pack * kChannels + first * row_step;
  uint4* out = reinterpret_cast<uint4*>(args.out) + begin;

  struct Elements {
    uint4 of[kChannels];
  };
  struct Gradients {
    std::uint32_t words[kWords / 2];
  };
  const auto load_row = [&](bool inside) {
    Elements made;
#pragma unroll
    for (int c = 0; c < kChannels; ++c) made.of[c] = inside ? x[c] : uint4{kOutside, kOutside, kOutside, kOutside};
    x += row_step;
    return made;
  };
  const auto load_gradients = [&](bool inside) {
    Gradients made;
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      const uint2 two = inside ? dy[c] : uint2{0, 0};
      made.words[2 * c] = two.x;
      made.words[2 * c + 1] = two.y;
    }
    dy += row_step;
    return made;
  };
  // A row with the pixel before it.
  struct Line {
    std::uint32_t words[kBefore + kWords];
  };
  const auto line_of = [&](const Elements& row) {
    Line line;
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      line.words[kBefore + 4 * c] = row.of[c].x;
      line.words[kBefore + 4 * c + 1] = row.of[c].y;
      line.words[kBefore + 4 * c + 2] = row.of[c].z;
      line.words[kBefore + 4 * c + 3] = row.of[c].w;
    }
#pragma unroll
    for (int i = 0; i < kBefore; ++i) {
      const std::uint32_t left = __shfl_up_sync(kAll, line.words[kWords + i], 1);
      line.words[i] = leftmost ? kOutside : left;
    }
    return line;
  };
  const auto spread = [&](const Line& line, int channel) {
    const auto pixels = [&](int a, int b) {
      return pick_halves(line.words, 2 * kBefore + a * kChannels + channel, 2 * kBefore + b * kChannels + channel);
    };
    PairsRow seen;
    seen.at[1][0] = pixels(0, 2);
    seen.at[1][1] = pixels(4, 6);
    seen.at[2][0] = pixels(1, 3);
    seen.at[2][1] = pixels(5, 7);
    seen.at[0][0] = kChannels == 1 ? across_words(line.words[0], seen.at[2][0]) : pixels(-1, 1);
    seen.at[0][1] = across_words(seen.at[2][0], seen.at[2][1]);
    return seen;
  };
  const auto join = [](std::uint32_t a, std::uint32_t b) {
    return tile::as_word<T>(__hadd2(tile::as_two<T>(a), tile::as_two<T>(b)));
  };
  // The elements in even columns, in pairs, and those in odd ones.
  struct Halves {
    std::uint32_t words[4];  // pixels 0 and 2, 4 and 6, 1 and 3, 5 and 7
  };
  // In order; e counts pixels and channels.
  const auto write = [&](uint4* to, const Halves(&sums)[kChannels]) {
    std::uint32_t words[kWords];
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const int c[2] = {2 * i % kChannels, (2 * i + 1) % kChannels};
      const int p[2] = {2 * i / kChannels, (2 * i + 1) / kChannels};
      std::uint32_t from[2];
      int half[2];
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        from[k] = sums[c[k]].words[p[k] % 2 * 2 + p[k] / 4];
        half[k] = p[k] / 2 % 2;
      }
      words[i] = pick_halves(from, half[0], 2 + half[1]);
    }
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      ptx::st_global(&to[c], uint4{words[4 * c], words[4 * c + 1], words[4 * c + 2], words[4 * c + 3]});
    }
  };

  struct Channel {
    PairsRow above;
    std::uint32_t above_most[2];
    PairsRow sent;  // by the windows before, to the row above
  };
  Channel channels[kChannels];
  {
    const Line line = line_of(load_row(there && first > 0));
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      channels[c].above = spread(line, c);
      channels[c].above_most[0] = widest_of<T>(channels[c].above, 0);
      channels[c].above_most[1] = widest_of<T>(channels[c].above, 1);
      channels[c].sent = {};
    }
  }
  bool inside = there && first < high;
  Elements next_middle = load_row(inside), next_low = load_row(inside);
  Gradients next_dy = load_gradients(inside);
#pragma unroll 1
  for (std::int32_t step = 0; step <= args.strip; ++step) {  // the same number for all of a warp
    const std::int32_t window = first + step;
    const Line middle_line = line_of(next_middle), low_line = line_of(next_low);
    const Gradients gradients = next_dy;
    inside = there && window + 1 < high && step < args.strip;
    next_middle = load_row(inside);
    next_low = load_row(inside);
    next_dy = load_gradients(inside);
    Halves upper[kChannels], lower[kChannels];  // rows 2 window - 1 and 2 window
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      Channel& channel = channels[c];
      const PairsRow middle = spread(middle_line, c), low = spread(low_line, c);
      const std::uint32_t dy_words[2] = {pick_halves(gradients.words, c, kChannels + c),
                                         pick_halves(gradients.words, 2 * kChannels + c, 3 * kChannels + c)};
      PairsRow to_above, to_middle, to_low;
      std::uint32_t low_most[2];
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        low_most[pair] = widest_of<T>(low, pair);
        const std::uint32_t most =
            larger_pair<T>(larger_pair<T>(channel.above_most[pair], widest_of<T>(middle, pair)), low_most[pair]);
        std::uint32_t found = 0;
        const auto give = [&](const PairsRow& row, PairsRow* to) {
#pragma unroll
          for (int k = 0; k < 3; ++k) {
            const std::uint32_t equal = __heq2_mask(tile::as_two<T>(row.at[k][pair]), tile::as_two<T>(most));
            to->at[k][pair] = dy_words[pair] & equal & ~found;
            found |= equal;
          }
        };
        give(channel.above, &to_above);
        give(middle, &to_middle);
        give(low, &to_low);
      }
      const PairsRow& sent = channel.sent;
      // What the neighbour on the right sends to this thread's last column: from its first window.
      std::uint32_t right_above = __shfl_down_sync(kAll, low_halves(sent.at[0][0], to_above.at[0][0]), 1);
      std::uint32_t right_middle = __shfl_down_sync(kAll, to_middle.at[0][0], 1);
      if (rightmost) right_above = right_middle = 0;
      // Where an element is in two windows, in either direction, gradients are added as halves; where in four, in
      // float.
      upper[c].words[0] = join(sent.at[1][0], to_above.at[1][0]);
      upper[c].words[1] = join(sent.at[1][1], to_above.at[1][1]);
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        const auto left_of = [&](const PairsRow& row, std::uint32_t beyond) {
          return wide_pair<T>(across_words(row.at[0][pair], pair == 0 ? row.at[0][1] : beyond));
        };
        const float2 a = wide_pair<T>(sent.at[2][pair]), b = left_of(sent, right_above);
        const float2 e = wide_pair<T>(to_above.at[2][pair]), d = left_of(to_above, right_above >> 16);
        const float sums[2] = {a.x + b.x + (e.x + d.x), a.y + b.y + (e.y + d.y)};
        upper[c].words[2 + pair] = tile::word_of(tile::narrow<T>(sums[0]), tile::narrow<T>(sums[1]));
      }
      lower[c].words[0] = to_middle.at[1][0];
      lower[c].words[1] = to_middle.at[1][1];
      lower[c].words[2] = join(to_middle.at[2][0], across_words(to_middle.at[0][0], to_middle.at[0][1]));
      lower[c].words[3] = join(to_middle.at[2][1], across_words(to_middle.at[0][1], right_middle));
      channel.above = low;
      channel.above_most[0] = low_most[0];
      channel.above_most[1] = low_most[1];
      channel.sent = to_low;
    }
    if (there && step > 0 && window <= last) write(out, upper);
    out += row_step;
    if (there && window < last) write(out, lower);
    out += row_step;
  }
}

}  // namespace gpudnn::kernels
