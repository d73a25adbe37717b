// Forward pooling of packed NCHW planes of 16-bit elements with the usual windows, several outputs of a row to a
// thread.
//
// Elements enter shared memory as in planes_fixed.cuh. There a thread has one column of windows of two planes, and each
// element is a load of its own; that costs some 40 instructions an output, where 3x3 step 2 at the copy rate leaves 69
// and 3x3 step 1 leaves 28. Here a thread has neighbouring columns of one plane and loads words, two elements each:
//
//   pooling_planes_quads   step 2, rows of whole 16-byte packs, padded so that window 4 i begins at or just before an
//                          element 8 i (the usual padding). 8 columns of x, one load of 16 bytes and one of the element
//                          before them, make 4 outputs, which leave in 8 bytes. About 12 instructions an output.
//   pooling_planes_runs    step 1, any width: 6 columns of x make 4 outputs. Rows begin anywhere, so words are loaded
//                          from the last boundary on and shifted by one element where a row needs it. Outputs go to
//                          shared memory, one by one, as neighbouring strips differ in where their words begin, and
//                          leave in pieces of 16 bytes. About 20 instructions an output for an average.
//
// Maxima are taken down the rows first, two columns to an instruction, then across, once for each row of outputs.
// Averages are summed in float, across first, as each row's sums go into two or three windows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/pooling/planes_fixed.cuh"

namespace gpudnn::kernels {

constexpr int kRunSlack = 16;  // bytes before and after the elements in shared memory, read and not used

// Words a and b: halves (low of a, low of b), (high of a, high of b), (high of a, low of b), (low of a, high of b).
__device__ __forceinline__ std::uint32_t lows(std::uint32_t a, std::uint32_t b) { return __byte_perm(a, b, 0x5410); }
__device__ __forceinline__ std::uint32_t highs(std::uint32_t a, std::uint32_t b) { return __byte_perm(a, b, 0x7632); }
__device__ __forceinline__ std::uint32_t inner(std::uint32_t a, std::uint32_t b) { return __byte_perm(a, b, 0x5432); }
__device__ __forceinline__ std::uint32_t outer(std::uint32_t a, std::uint32_t b) { return __byte_perm(a, b, 0x7610); }

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
  std::conditional_t<std::is_same_v<T, tile::Half>, __half2, __nv_bfloat162> two;
  memcpy(&two, &most, sizeof two);
  const std::uint32_t nothing = __hneu2_mask(two, two);
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
  static_assert(kWindow == 2 || kWindow == 3, "the windows of step 2");
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
    const std::int32_t before = pack > 0 ? -1 : 0;  // the padding stands for its nearest element
    const std::int32_t first = work.first_row + unit.row;
    const std::int32_t windows = min(args.window_strip, work.rows - unit.row);
    T* target = args.out + (work.first_plane + unit.plane) * out_area + first * args.windows_wide + pack * kOut;
    std::int32_t row = first * 2 - args.pad[0];
    if constexpr (kMax) {
      struct Line {
        tile::Pack<T, N> pack;
        std::uint32_t before = 0;
      };
      const auto load = [&](std::int32_t at) {
        const T* const from = image + clamped(at, staged.low, staged.high) * args.row;
        Line line;
        line.pack = tile::load_pack<T, N>(from);
        if constexpr (kBefore) line.before = *reinterpret_cast<const std::uint16_t*>(from + before);
        return line;
      };
      const auto take = [&](const Line& line, Line* most) {
        take_max<kNan>(line.pack, &most->pack);
        if constexpr (kBefore) most->before = max_word<T, kNan>(most->before, line.before);
      };
      Line last;
      if constexpr (kBefore) last = load(row++);
#pragma unroll 1
      for (std::int32_t r = 0; r < windows; ++r) {
        Line most = load(row);
        if constexpr (kBefore) take(last, &most);
        last = load(row + 1);
        take(last, &most);
        row += 2;
        const std::uint32_t(&v)[4] = most.pack.words;
        tile::Pack<T, kOut> result;
        result.words[0] = max_word<T, kNan>(lows(v[0], v[1]), highs(v[0], v[1]));
        result.words[1] = max_word<T, kNan>(lows(v[2], v[3]), highs(v[2], v[3]));
        if constexpr (kBefore) {
          result.words[0] = max_word<T, kNan>(result.words[0], outer(most.before, v[0]));
          result.words[1] = max_word<T, kNan>(result.words[1], highs(v[1], v[2]));
        }
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

// What an average of step 1 was multiplied by in one direction, by the number of its window; of both directions, where
// it is the same for all windows, the rows' has it. To the gradient's kernel windows are elements: its padding and
// extents are those of the average turned round.
template <int kWindow, class T>
__device__ __forceinline__ float gradient_weight(const PlanesFixedArgs<T>& args, int direction, std::int32_t window) {
  if (args.count_padding) return direction == 0 ? 1.0f / (kWindow * kWindow) : 1.0f;
  const std::int32_t extent = direction == 0 ? args.windows_high : args.windows_wide;
  return inverse_of_area<float>(1, inside_count<kWindow>(window - (kWindow - 1 - args.pad[direction]), extent));
}

constexpr int kRunOutputs = 4;  // of a row, for a thread of pooling_planes_runs

// With kGradient, the gradient of an average (planes_lines.cuh).
template <class T, bool kMax, bool kNan, bool kGradient>
__global__ void __launch_bounds__(kPlanesFixedThreads) pooling_planes_runs(PlanesFixedArgs<T> args) {
  constexpr int kWindow = 3, kOut = kRunOutputs, kWords = 3;
  const StagedPlanes<T> staged = stage_rows<T, kWindow, 1>(args, planes_fixed_shared + kRunSlack);
  const PlanesWork& work = staged.work;
  const std::int32_t wide = args.windows_wide, out_area = args.windows_high * wide;
  const bool whole = args.bands == 1;
  T* const out_from = args.out + work.first_plane * out_area + work.first_row * wide;
  T* const out = rows_in_shared(out_from, planes_fixed_shared + args.out_begin) - work.first_row * wide;
  const auto units =
      work.planes * static_cast<std::int32_t>(args.by_window_chunks.divisor * args.by_window_row.divisor);
  for (auto u = static_cast<std::int32_t>(threadIdx.x); u < units; u += kPlanesFixedThreads) {
    const PlanesUnit unit = planes_unit<1>(u, args.by_window_row, args.by_window_chunks, args.by_interleaved,
                                           args.window_strip, work.planes);
    if (unit.row >= work.rows) continue;
    const std::int32_t column = unit.column * kOut;
    const std::int32_t start = column - args.pad[1];
    // Bytes from the beginning of shared memory: the boundaries of words are needed.
    const auto image = static_cast<std::int32_t>(
        reinterpret_cast<const unsigned char*>(staged.x + unit.plane * args.x_pitch + start) - planes_fixed_shared);
    const std::int32_t first = work.first_row + unit.row;
    const std::int32_t windows = min(args.window_strip, work.rows - unit.row);
    // Elements outside of the row are replaced by what changes nothing.
    std::uint32_t inside[kWords], fill[kWords];
    const T nothing = kMax ? max_identity<T, kNan>() : tile::narrow<T>(0.0f);
#pragma unroll
    for (int j = 0; j < kWords; ++j) {
      const auto is_inside = [&](std::int32_t at) { return at >= 0 && at < args.width; };
      inside[j] = (is_inside(start + 2 * j) ? 0xffffu : 0u) | (is_inside(start + 2 * j + 1) ? 0xffff0000u : 0u);
      fill[j] = tile::word_of(nothing, nothing) & ~inside[j];
    }
    struct Line {
      std::uint32_t words[kWords];
    };
    const auto load = [&](std::int32_t at) {
      const std::int32_t address = image + at * args.row * 2;
      const auto* const from = reinterpret_cast<const std::uint32_t*>(planes_fixed_shared + (address & ~3));
      const std::uint32_t selector = (address & 2) != 0 ? 0x5432u : 0x3210u;
      std::uint32_t raw[kWords + 1];
#pragma unroll
      for (int j = 0; j <= kWords; ++j) raw[j] = from[j];
      Line line;
#pragma unroll
      for (int j = 0; j < kWords; ++j) {
        line.words[j] = (__byte_perm(raw[j], raw[j + 1], selector) & inside[j]) | fill[j];
      }
      return line;
    };
    T* target = out + unit.plane * args.out_pitch + first * wide + column;
    const std::int32_t left = wide - column;
    const auto emit = [&](const tile::Pack<T, kOut>& result) {
#pragma unroll
      for (int j = 0; j < kOut; ++j) {
        if (j < left) target[j] = result.get(j);
      }
      target += wide;
    };
    // beta; the old output stays in global memory until the block's outputs leave.
    const auto finish = [&](std::int32_t r, float(&values)[kOut]) {
      if (args.beta != 0.0f) {
        const T* const old = args.out + (work.first_plane + unit.plane) * out_area + (first + r) * wide + column;
#pragma unroll
        for (int j = 0; j < kOut; ++j) {
          if (j < left) values[j] += args.beta * tile::widen<float>(old[j]);
        }
      }
      emit(tile::narrow_pack<T>(values));
    };
    const std::int32_t row = first - args.pad[0];
    if constexpr (kMax) {
      const auto load_row = [&](std::int32_t at) { return load(clamped(at, staged.low, staged.high)); };
      const auto take = [&](const Line& line, Line* most) {
#pragma unroll
        for (int j = 0; j < kWords; ++j) most->words[j] = max_word<T, kNan>(most->words[j], line.words[j]);
      };
      Line both = load_row(row), last = load_row(row + 1);  // the larger of the last two rows, and the last
      take(last, &both);
#pragma unroll 1
      for (std::int32_t r = 0; r < windows; ++r) {
        const Line next = load_row(row + r + 2);
        Line most = both;
        take(next, &most);
        both = last;
        take(next, &both);
        last = next;
        const std::uint32_t(&v)[kWords] = most.words;
        tile::Pack<T, kOut> result;
#pragma unroll
        for (int j = 0; j < kOut / 2; ++j) {
          const std::uint32_t sides = max_word<T, kNan>(v[j], v[j + 1]);
          result.words[j] = finish_word<T, kNan>(max_word<T, kNan>(sides, inner(v[j], v[j + 1])));
        }
        if (args.plain) {
          emit(result);
        } else {
          float values[kOut];
          tile::widen_pack<float>(result, values);
#pragma unroll
          for (float& value : values) value *= args.alpha;
          finish(r, values);
        }
      }
    } else {
      struct Sums {
        float of[kOut];
      };
      float weights[2 * kWords];
#pragma unroll
      for (int j = 0; j < 2 * kWords; ++j) weights[j] = kGradient ? gradient_weight<kWindow>(args, 1, start + j) : 1.0f;
      const auto load_row = [&](std::int32_t at) {
        Sums sums = {};
        if (clamped(at, staged.low, staged.high) == at) {
          const Line line = load(at);
          float v[2 * kWords];
#pragma unroll
          for (int j = 0; j < 2 * kWords; ++j) {
            v[j] = tile::widen<float>(tile::half_of<T>(line.words[j / 2], j % 2));
            if constexpr (kGradient) v[j] *= weights[j];
          }
          const float left_pair = v[1] + v[2], right_pair = v[3] + v[4];
          sums.of[0] = v[0] + left_pair;
          sums.of[1] = left_pair + v[3];
          sums.of[2] = v[2] + right_pair;
          sums.of[3] = right_pair + v[5];
          if constexpr (kGradient) {
            const float weight = gradient_weight<kWindow>(args, 0, at);
#pragma unroll
            for (float& sum : sums.of) sum *= weight;
          }
        }
        return sums;
      };
      // What a window is multiplied by where all its rows are inside, alpha included.
      float scales[kOut];
#pragma unroll
      for (int j = 0; j < kOut; ++j) {
        const std::int32_t count = inside_count<kWindow>(start + j, args.width);
        const float third = inverse_of_area<float>(1, args.count_padding ? kWindow : count);
        scales[j] = args.alpha * (kGradient ? 1.0f : third * inverse_of_area<float>(1, kWindow));
      }
      const Sums begin = load_row(row);
      Sums last = load_row(row + 1), both;
#pragma unroll
      for (int j = 0; j < kOut; ++j) both.of[j] = begin.of[j] + last.of[j];
#pragma unroll 1
      for (std::int32_t r = 0; r < windows; ++r) {
        const Sums next = load_row(row + r + 2);
        float values[kOut];
#pragma unroll
        for (int j = 0; j < kOut; ++j) {
          values[j] = (both.of[j] + next.of[j]) * scales[j];
          both.of[j] = last.of[j] + next.of[j];
        }
        last = next;
        const std::int32_t rows_inside = inside_count<kWindow>(row + r, args.height);
        if (!kGradient && !args.count_padding && rows_inside != kWindow) {
          const float more = kWindow * inverse_of_area<float>(1, rows_inside);
#pragma unroll
          for (float& value : values) value *= more;
        }
        finish(r, values);
      }
    }
  }
  __syncthreads();
  if (whole) {
    unstage_stretch(out, work.planes * out_area, out_from);
  } else {
    for (std::int32_t p = 0; p < work.planes; ++p) {
      unstage_stretch(out + work.first_row * wide + p * args.out_pitch, work.rows * wide,
                      out_from + static_cast<std::int64_t>(p) * out_area);
    }
  }
}

}  // namespace gpudnn::kernels
