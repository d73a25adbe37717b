// Forward pooling of packed NCHW planes of 16-bit elements with step 2, several outputs of a row to a thread: averages,
// and the maximum over 2x2. (That over 3x3 is planes_direct_sm80.cuh's.) And what kernels of that kind share.
//
// Elements enter shared memory as in planes_fixed_sm80.cuh. There a thread has one column of windows of two planes, and
// each element is a load of its own; that costs some 40 instructions an output. Here a thread has neighbouring columns
// of one plane and loads packs.
//
// pooling_planes_quads: rows of whole 16-byte packs, padded so that window 4 i begins at or just before an element 8 i
// (the usual padding). 8 columns of x, one load of 16 bytes and one of the element before them, make 4 outputs, which
// leave in 8 bytes. About 12 instructions an output.
//
// Maxima are taken down the rows first, two columns to an instruction, then across, once for each row of outputs.
// Averages are summed in float, across first, as each row's sums go into two or three windows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/pooling/planes_fixed_sm80.cuh"

namespace gpudnn::kernels {

// Words a and b: halves (low of a, low of b), (high of a, high of b), (high of a, low of b).
__device__ __forceinline__ std::uint32_t lows(std::uint32_t a, std::uint32_t b) { return __byte_perm(a, b, 0x5410); }
__device__ __forceinline__ std::uint32_t highs(std::uint32_t a, std::uint32_t b) { return __byte_perm(a, b, 0x7632); }
__device__ __forceinline__ std::uint32_t inner(std::uint32_t a, std::uint32_t b) { return __byte_perm(a, b, 0x5432); }

template <class T, bool kNan>
__device__ __forceinline__ std::uint32_t max_word(std::uint32_t a, std::uint32_t b) {
  tile::Pack<T, 2> most, other;
  most.words[0] = a;
  other.words[0] = b;
  take_max<kNan>(other, &most);
  return most.words[0];
}

// The lowest finite value where a window had nothing but NaN to pass over.
template <class T, bool kNan>
__device__ __forceinline__ std::uint32_t finish_word(std::uint32_t most) {
  if constexpr (kNan) return most;
  const std::uint32_t nothing = __hneu2_mask(tile::as_two<T>(most), tile::as_two<T>(most));
  return (most & ~nothing) | (tile::word_of(lowest_finite<T>(), lowest_finite<T>()) & nothing);
}

// A block's work, and its rows of x in shared memory.
template <class T>
struct StagedPlanes {
  PlanesWork work;
  std::int32_t low, high;  // rows of x in shared memory
  const T* x;              // row 0 of the first plane, were it there
};
template <class T, int kWindow, int kStride>
__device__ __forceinline__ StagedPlanes<T> stage_rows(const PlanesFixedArgs<T>& args, unsigned char* to) {
  StagedPlanes<T> made;
  made.work = planes_work(args, args.windows_high);
  const PlanesWork& work = made.work;
  const bool whole = args.bands == 1;
  made.low = whole ? 0 : max(work.first_row * kStride - args.pad[0], 0);
  made.high = whole ? args.height - 1
                    : min((work.first_row + work.rows - 1) * kStride - args.pad[0] + kWindow, args.height) - 1;
  const std::int32_t area = args.height * args.row;
  made.x = stage_planes(args.x + work.first_plane * area + made.low * args.row, whole, area,
                        (made.high - made.low + 1) * args.row, work.planes, args.x_pitch, to) -
           made.low * args.row;
  stage_wait();
  return made;
}

template <class T, int kWindow, bool kMax, bool kNan>
__global__ void __launch_bounds__(kPlanesFixedThreads) pooling_planes_quads(PlanesFixedArgs<T> args) {
  static_assert(kWindow == 2 || (kWindow == 3 && !kMax),
                "the windows of step 2; planes_direct_sm80.cuh has the other one");
  constexpr int N = 8, kOut = 4;
  constexpr bool kBefore = kWindow == 3;  // an element before the pack is needed
  const StagedPlanes<T> staged = stage_rows<T, kWindow, 2>(args, planes_fixed_shared);
  const PlanesWork& work = staged.work;
  const std::int32_t out_area = args.windows_high * args.windows_wide;
  const auto units =
      work.planes * static_cast<std::int32_t>(args.by_window_chunks.divisor * args.by_window_row.divisor);
  for (auto u = static_cast<std::int32_t>(threadIdx.x); u < units; u += kPlanesFixedThreads) {
    const PlanesUnit unit = planes_unit<1>(u, args.by_window_row, args.by_window_chunks, args.by_interleaved,
                                           args.window_strip, work.planes);
    if (unit.row >= work.rows) continue;
    const std::int32_t pack = unit.column;
    const T* const image = staged.x + unit.plane * args.x_pitch + pack * N;
    const std::int32_t first = work.first_row + unit.row;
    const std::int32_t windows = min(args.window_strip, work.rows - unit.row);
    T* target = args.out + (work.first_plane + unit.plane) * out_area + first * args.windows_wide + pack * kOut;
    std::int32_t row = first * 2 - args.pad[0];
    if constexpr (kMax) {
      const auto load = [&](std::int32_t at) {
        return tile::load_pack<T, N>(image + clamped(at, staged.low, staged.high) * args.row);
      };
#pragma unroll 1
      for (std::int32_t r = 0; r < windows; ++r) {
        tile::Pack<T, N> most = load(row);
        take_max<kNan>(load(row + 1), &most);
        row += 2;
        const std::uint32_t(&v)[4] = most.words;
        tile::Pack<T, kOut> result;
        result.words[0] = max_word<T, kNan>(lows(v[0], v[1]), highs(v[0], v[1]));
        result.words[1] = max_word<T, kNan>(lows(v[2], v[3]), highs(v[2], v[3]));
#pragma unroll
        for (std::uint32_t& word : result.words) word = finish_word<T, kNan>(word);
        if (args.plain) {
          tile::store_pack<T, kOut>(target, result);
        } else {
          float wide[kOut];
          tile::widen_pack<float>(result, wide);
          store_scaled<T, kOut>(wide, args.alpha, args.beta, target);
        }
        target += args.windows_wide;
      }
    } else {
      struct Sums {
        float of[kOut];
      };
      const auto load = [&](std::int32_t at) {
        Sums sums = {};
        if (clamped(at, staged.low, staged.high) == at) {
          const T* const from = image + at * args.row;
          float wide[N];
          tile::widen_pack<float>(tile::load_pack<T, N>(from), wide);
#pragma unroll
          for (int j = 0; j < kOut; ++j) sums.of[j] = wide[2 * j] + wide[2 * j + 1];
          if constexpr (kBefore) {
            sums.of[0] += pack > 0 ? tile::widen<float>(from[-1]) : 0.0f;
#pragma unroll
            for (int j = 1; j < kOut; ++j) sums.of[j] += wide[2 * j - 1];
          }
        }
        return sums;
      };
      Sums last = {};
      if constexpr (kBefore) last = load(row++);
#pragma unroll 1
      for (std::int32_t r = 0; r < windows; ++r) {
        const std::int32_t rows_inside = inside_count<kWindow>((first + r) * 2 - args.pad[0], args.height);
        const float scale =
            args.count_padding ? 1.0f / (kWindow * kWindow) : inverse_of_area<float>(rows_inside, kWindow);
        const float edge = args.count_padding || pack > 0 || !kBefore ? scale : inverse_of_area<float>(rows_inside, 2);
        const Sums middle = load(row);
        const Sums next = load(row + 1);
        row += 2;
        float result[kOut];
#pragma unroll
        for (int j = 0; j < kOut; ++j) {
          result[j] = (kBefore ? last.of[j] + middle.of[j] : middle.of[j]) + next.of[j];
          result[j] *= j == 0 ? edge : scale;
        }
        last = next;
        store_scaled<T, kOut>(result, args.alpha, args.beta, target);
        target += args.windows_wide;
      }
    }
  }
}

}  // namespace gpudnn::kernels
