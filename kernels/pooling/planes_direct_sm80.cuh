// The maximum over windows 3x3 with step 2 of 16-bit elements, straight from global memory: packed NCHW planes, and
// images of packed NHWC with three channels.
//
// A thread makes four windows abreast, or four of each of three channels, and no more: it loads the three rows under
// them at once, has few registers, and is gone. So a multiprocessor holds as many threads as it can, all of them with
// their loads under way, and nothing waits for a block's slowest part as between loading to shared memory and computing
// there. Two rows of windows to a thread are slower, though they load five rows for four: the L1 has the third row
// anyway.
//
// pooling_planes_direct: 8 pixels of a row are a pack of 16 bytes for each channel; the 8 bytes before have the pixel
// on the left. Maxima are taken down the rows first, two elements to an instruction, whatever they are; then the
// elements that stand at the same place of neighbouring windows are picked out into words, with one instruction for
// two. 38 instructions an output, 20 with three channels.
//
// pooling_planes_skewed: rows begin anywhere; no padding on the left, and every window ends inside the row. A row under
// the windows is two packs, whose words are shifted down to where the windows begin, by 4, 2 and 1 elements. About 55
// instructions an output, where the copy rate leaves 69.
//
// Least bytes: x and y once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/pooling/halves.cuh"
#include "kernels/pooling/planes_halves.cuh"

namespace gpudnn::kernels {

constexpr int kDirectThreads = 128;

template <class T>
struct DirectArgs {
  const T* x;
  T* out;
  float alpha;
  float beta;
  bool plain;
  std::int32_t pad;            // rows
  std::int32_t height, width;  // of x
  std::int64_t x_packs;        // of 8 elements
  std::uint32_t units;         // planes (or images) times rows of windows times fours of windows
  tile::FastDivmod by_fours;   // of a row
  tile::FastDivmod by_rows;    // of windows in a plane
};

// What a thread works on. False where there is nothing.
struct DirectUnit {
  std::int64_t plane;
  std::int64_t out_row;  // of windows, in all planes
  std::int32_t four;     // of windows in the row
  std::int32_t first;    // row of x under them, may be outside
};
template <class T>
__device__ __forceinline__ bool direct_unit(const DirectArgs<T>& args, DirectUnit* unit) {
  const std::uint32_t number = blockIdx.x * kDirectThreads + threadIdx.x;
  if (number >= args.units) return false;
  std::uint32_t four, window;
  const std::uint32_t row = args.by_fours.divmod(number, &four);
  unit->plane = args.by_rows.divmod(row, &window);
  unit->out_row = row;
  unit->four = static_cast<std::int32_t>(four);
  unit->first = static_cast<std::int32_t>(window) * 2 - args.pad;
  return true;
}

template <class T>
__device__ __forceinline__ void store_four(const DirectArgs<T>& args, std::uint32_t low, std::uint32_t high, T* to) {
  tile::Pack<T, 4> four;
  four.words[0] = low;
  four.words[1] = high;
  if (args.plain) {
    tile::store_pack<T, 4>(to, four);
  } else {
    float wide[4];
    tile::widen_pack<float>(four, wide);
    store_scaled<T, 4>(wide, args.alpha, args.beta, to);
  }
}

template <class T, int kChannels, bool kNan>
__global__ void __launch_bounds__(kDirectThreads) pooling_planes_direct(const __grid_constant__ DirectArgs<T> args) {
  constexpr int kBefore = 2, kWords = kBefore + 4 * kChannels, kResults = 2 * kChannels, kRows = 3;
  DirectUnit unit;
  if (!direct_unit(args, &unit)) return;
  const std::int32_t row_words = args.width * kChannels / 2;
  const auto* const x = reinterpret_cast<const std::uint32_t*>(args.x) + unit.plane * args.height * row_words +
                        unit.four * (4 * kChannels);
  const std::uint32_t nothing = tile::word_of(max_identity<T, kNan>(), max_identity<T, kNan>());
  std::uint32_t rows[kRows][kWords];
#pragma unroll
  for (int j = 0; j < kRows; ++j) {
    // A row outside stands for its nearest one, which the window has too.
    const std::uint32_t* const from = x + clamped(unit.first + j, 0, args.height - 1) * row_words;
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      const uint4 pack = *reinterpret_cast<const uint4*>(from + 4 * c);
      rows[j][kBefore + 4 * c] = pack.x;
      rows[j][kBefore + 4 * c + 1] = pack.y;
      rows[j][kBefore + 4 * c + 2] = pack.z;
      rows[j][kBefore + 4 * c + 3] = pack.w;
    }
    const uint2 before = unit.four > 0 ? *reinterpret_cast<const uint2*>(from - kBefore) : uint2{nothing, nothing};
    rows[j][0] = before.x;
    rows[j][1] = before.y;
  }
  std::uint32_t most[kWords];
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    most[i] = max_word<T, kNan>(max_word<T, kNan>(rows[0][i], rows[1][i]), rows[2][i]);
  }
  // Result e is channel e % kChannels of window e / kChannels, whose middle column is element `middle`.
  const auto middle = [](int e) { return 2 * kBefore + 2 * kChannels * (e / kChannels) + e % kChannels; };
  std::uint32_t result[kResults];
#pragma unroll
  for (int i = 0; i < kResults; ++i) {
    const int a = middle(2 * i), b = middle(2 * i + 1);
    const std::uint32_t sides = max_word<T, kNan>(pick_halves(most, a - kChannels, b - kChannels),
                                                  pick_halves(most, a + kChannels, b + kChannels));
    result[i] = finish_word<T, kNan>(max_word<T, kNan>(sides, pick_halves(most, a, b)));
  }
  T* const out = args.out + unit.out_row * row_words + unit.four * (4 * kChannels);  // half as many pixels as in x
#pragma unroll
  for (int c = 0; c < kChannels; ++c) store_four(args, result[2 * c], result[2 * c + 1], out + 4 * c);
}

template <class T, bool kNan>
__global__ void __launch_bounds__(kDirectThreads) pooling_planes_skewed(const __grid_constant__ DirectArgs<T> args) {
  constexpr int kRows = 3, kWords = 5;
  DirectUnit unit;
  if (!direct_unit(args, &unit)) return;
  const auto* const x = reinterpret_cast<const uint4*>(args.x);
  const std::int64_t corner = unit.plane * args.height * args.width + unit.four * 8;
  uint4 low[kRows], high[kRows];
  std::int32_t skew[kRows];
#pragma unroll
  for (int j = 0; j < kRows; ++j) {
    const std::int64_t at = corner + clamped(unit.first + j, 0, args.height - 1) * args.width;
    const uint4* const from = x + (at >> 3);
    skew[j] = static_cast<std::int32_t>(at) & 7;
    low[j] = from[0];
    high[j] = from[(at >> 3) + 1 < args.x_packs ? 1 : 0];
  }
  std::uint32_t most[kWords];
#pragma unroll
  for (int j = 0; j < kRows; ++j) {
    const std::uint32_t words[9] = {low[j].x,  low[j].y,  low[j].z,  low[j].w, high[j].x,
                                    high[j].y, high[j].z, high[j].w, 0};
    std::uint32_t by_four[7], by_two[6];
#pragma unroll
    for (int i = 0; i < 7; ++i) by_four[i] = (skew[j] & 4) != 0 ? words[i + 2] : words[i];
#pragma unroll
    for (int i = 0; i < 6; ++i) by_two[i] = (skew[j] & 2) != 0 ? by_four[i + 1] : by_four[i];
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const std::uint32_t word = __funnelshift_r(by_two[i], by_two[i + 1], skew[j] * 16);
      most[i] = j == 0 ? word : max_word<T, kNan>(most[i], word);
    }
  }
  std::uint32_t result[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const std::uint32_t pairs =
        max_word<T, kNan>(lows(most[2 * i], most[2 * i + 1]), highs(most[2 * i], most[2 * i + 1]));
    result[i] = finish_word<T, kNan>(max_word<T, kNan>(pairs, lows(most[2 * i + 1], most[2 * i + 2])));
  }
  const auto window_row = static_cast<std::int32_t>(args.by_fours.divisor) * 4;
  store_four(args, result[0], result[1], args.out + unit.out_row * window_row + unit.four * 4);
}

}  // namespace gpudnn::kernels
