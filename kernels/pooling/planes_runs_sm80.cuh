// Forward pooling of packed NCHW planes over windows 3x3, of any width, several outputs of a row to a thread: with step
// 1, and maxima of 16-bit elements with step 2. And the gradient of an average of step 1.
//
// Elements enter shared memory as in planes_fixed_sm80.cuh. There a thread has a column of windows, and each element is
// a load of its own; that costs some 65 instructions an output, where 3x3 step 1 at the copy rate leaves 28 for 16-bit
// elements and 55 for f32. Here a thread has `run_outputs` windows of a row and walks down. It reads the columns under
// them, 8 elements of 16 bits or 5 floats, once a row. 16-bit rows begin anywhere, so words are loaded from the last
// boundary on and shifted by one element where a row needs it. Threads of a row stand three words apart, so each load
// touches a bank once. Outputs go to shared memory, as rows begin anywhere there too, and leave in pieces of 16 bytes.
//
//   maxima    down the rows first, two columns to an instruction, then across
//   averages  in float, across first, as each row's sums go into three windows; the rows above and below the image are
//             a place of zeros
//
// The gradient of an average of step 1 is a sum over windows too: over the gradients dy, each divided by what its
// window was divided by, with padding 2 - p. The divisor is a product of one for the row and one for the column.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/pooling/halves.cuh"
#include "kernels/pooling/planes_halves.cuh"
#include "kernels/pooling/planes_runs_sm80.hpp"

namespace gpudnn::kernels {

template <class T, bool kNan>
__device__ __forceinline__ std::uint32_t larger_word(std::uint32_t a, std::uint32_t b) {
  if constexpr (sizeof(T) == 2) {
    return max_word<T, kNan>(a, b);
  } else {
    return __float_as_uint(max_of<kNan>(__uint_as_float(a), __uint_as_float(b)));
  }
}

template <class T, int kOut, int kStride, bool kMax, bool kNan>
__global__ void __launch_bounds__(kPlanesFixedThreads)
    pooling_planes_runs(const __grid_constant__ PlanesFixedArgs<T> args) {
  constexpr bool kHalves = sizeof(T) == 2;
  static_assert(!kHalves || kStride == 1 || kOut % 2 == 1, "windows 2 j + 1 of step 2 have their words");
  constexpr int kWindow = 3;
  constexpr int kWords = kHalves ? (kOut * kStride + 2) / 2 : kOut + 2, kTaps = kHalves ? 2 * kWords : kWords;
  constexpr int kResults = kHalves ? (kOut + 1) / 2 : kOut;  // words
  if (threadIdx.x < kRunSlack / 4) reinterpret_cast<std::uint32_t*>(planes_fixed_shared)[threadIdx.x] = 0;
  const StagedPlanes<T> staged = stage_rows<T, kWindow, kStride>(args, planes_fixed_shared + kRunSlack);
  const PlanesWork& work = staged.work;
  const std::int32_t wide = args.windows_wide, out_area = args.windows_high * wide;
  const bool whole = args.bands == 1;
  T* const out_from = args.out + work.first_plane * out_area + work.first_row * wide;
  T* const out = rows_in_shared(out_from, planes_fixed_shared + args.out_begin) - work.first_row * wide;
  const auto units =
      work.planes * static_cast<std::int32_t>(args.by_window_chunks.divisor * args.by_window_row.divisor);
  const std::int32_t row_bytes = args.row * static_cast<std::int32_t>(sizeof(T));
  const bool weighs = args.gradient && !args.count_padding;
  const bool divides = !args.gradient && !args.count_padding;
  for (auto u = static_cast<std::int32_t>(threadIdx.x); u < units; u += kPlanesFixedThreads) {
    const PlanesUnit unit = planes_unit<1>(u, args.by_window_row, args.by_window_chunks, args.by_interleaved,
                                           args.window_strip, work.planes);
    if (unit.row >= work.rows) continue;
    const std::int32_t column = unit.column * kOut;
    const std::int32_t start = column * kStride - args.pad[1];
    // Bytes from the beginning of shared memory: the boundaries of words are needed.
    const auto image = static_cast<std::int32_t>(
        reinterpret_cast<const unsigned char*>(staged.x + unit.plane * args.x_pitch + start) - planes_fixed_shared);
    const std::int32_t first = work.first_row + unit.row;
    const std::int32_t windows = min(args.window_strip, work.rows - unit.row);
    // Elements outside of the row are replaced by what changes nothing.
    std::uint32_t inside[kWords], fill[kWords];
    const T nothing = kMax ? max_identity<T, kNan>() : tile::narrow<T>(0.0f);
    const auto is_inside = [&](std::int32_t at) { return at >= 0 && at < args.width; };
#pragma unroll
    for (int j = 0; j < kWords; ++j) {
      if constexpr (kHalves) {
        inside[j] = (is_inside(start + 2 * j) ? 0xffffu : 0u) | (is_inside(start + 2 * j + 1) ? 0xffff0000u : 0u);
        fill[j] = tile::word_of(nothing, nothing) & ~inside[j];
      } else {
        inside[j] = is_inside(start + j) ? 0xffffffffu : 0u;
        fill[j] = __float_as_uint(nothing) & ~inside[j];
      }
    }
    struct Line {
      std::uint32_t words[kWords];
    };
    const auto load = [&](std::int32_t address) {
      Line line;
      if constexpr (kHalves) {
        const auto* const from = reinterpret_cast<const std::uint32_t*>(planes_fixed_shared + (address & ~3));
        std::uint32_t raw[kWords + 1];
#pragma unroll
        for (int j = 0; j <= kWords; ++j) raw[j] = from[j];
#pragma unroll
        for (int j = 0; j < kWords; ++j) line.words[j] = __funnelshift_r(raw[j], raw[j + 1], address * 8);
      } else {
        const auto* const from = reinterpret_cast<const std::uint32_t*>(planes_fixed_shared + address);
#pragma unroll
        for (int j = 0; j < kWords; ++j) line.words[j] = from[j];
      }
      return line;
    };
    T* target = out + unit.plane * args.out_pitch + first * wide + column;
    const T* old = args.out + (work.first_plane + unit.plane) * out_area + first * wide + column;
    const std::int32_t left = wide - column;
    const auto emit = [&](const std::uint32_t(&result)[kResults]) {
#pragma unroll
      for (int j = 0; j < kOut; ++j) {
        if (j >= left) continue;
        if constexpr (kHalves) {
          target[j] = tile::half_of<T>(result[j / 2], j % 2);
        } else {
          target[j] = __uint_as_float(result[j]);
        }
      }
      target += wide;
    };
    // beta; the old output stays in global memory until the block's outputs leave.
    const auto finish = [&](float(&values)[kOut]) {
      if (args.beta != 0.0f) {
#pragma unroll
        for (int j = 0; j < kOut; ++j) {
          if (j < left) values[j] += args.beta * tile::widen<float>(old[j]);
        }
        old += wide;
      }
      std::uint32_t result[kResults];
#pragma unroll
      for (int j = 0; j < kResults; ++j) {
        if constexpr (kHalves) {
          const float two[2] = {values[2 * j], values[min(2 * j + 1, kOut - 1)]};
          result[j] = tile::narrow_pack<T>(two).words[0];
        } else {
          result[j] = __float_as_uint(values[j]);
        }
      }
      emit(result);
    };
    const std::int32_t row = first * kStride - args.pad[0];
    if constexpr (kMax) {
      const auto load_row = [&](std::int32_t at) {
        return load(image + clamped(at, staged.low, staged.high) * row_bytes);
      };
      const auto take = [&](const Line& line, Line* most) {
#pragma unroll
        for (int j = 0; j < kWords; ++j) most->words[j] = larger_word<T, kNan>(most->words[j], line.words[j]);
      };
      const auto put = [&](Line& most) {
#pragma unroll
        for (int j = 0; j < kWords; ++j) most.words[j] = (most.words[j] & inside[j]) | fill[j];
        const std::uint32_t(&v)[kWords] = most.words;
        std::uint32_t result[kResults];
        if constexpr (!kHalves) {
#pragma unroll
          for (int j = 0; j < kOut; ++j) {
            result[j] = larger_word<T, kNan>(larger_word<T, kNan>(v[j], v[j + 1]), v[j + 2]);
            result[j] = __float_as_uint(finish_max<kNan>(__uint_as_float(result[j]), false));
          }
        } else if constexpr (kStride == 1) {
#pragma unroll
          for (int j = 0; j < kResults; ++j) {
            const std::uint32_t sides = max_word<T, kNan>(v[j], v[j + 1]);
            result[j] = finish_word<T, kNan>(max_word<T, kNan>(sides, inner(v[j], v[j + 1])));
          }
        } else {
#pragma unroll
          for (int j = 0; j < kResults; ++j) {
            // Windows 2 j and 2 j + 1; of the second the word beyond the last stands for what is not used.
            const std::uint32_t beyond = v[min(2 * j + 2, kWords - 1)];
            const std::uint32_t pairs = max_word<T, kNan>(lows(v[2 * j], v[2 * j + 1]), highs(v[2 * j], v[2 * j + 1]));
            result[j] = finish_word<T, kNan>(max_word<T, kNan>(pairs, lows(v[2 * j + 1], beyond)));
          }
        }
        if (args.plain) {
          emit(result);
        } else {
          float values[kOut];
#pragma unroll
          for (int j = 0; j < kOut; ++j) {
            if constexpr (kHalves) {
              values[j] = args.alpha * tile::widen<float>(tile::half_of<T>(result[j / 2], j % 2));
            } else {
              values[j] = args.alpha * __uint_as_float(result[j]);
            }
          }
          finish(values);
        }
      };
      if constexpr (kStride == 1) {
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
          put(most);
        }
      } else {
        Line last = load_row(row);
#pragma unroll 1
        for (std::int32_t r = 0; r < windows; ++r) {
          Line most = load_row(row + 2 * r + 1);
          take(last, &most);
          last = load_row(row + 2 * r + 2);
          take(last, &most);
          put(most);
        }
      }
    } else {
      struct Sums {
        float of[kOut];
      };
      float weights[kTaps] = {};
      if (weighs) {
#pragma unroll
        for (int j = 0; j < kTaps; ++j) {
          // To the gradient a column is a window of the average: it begins 2 - p columns before.
          weights[j] = share_of(inside_count<kWindow>(start + j - (kWindow - 1 - args.pad[1]), wide));
        }
      }
      const auto load_row = [&](std::int32_t at) {
        const bool there = clamped(at, staged.low, staged.high) == at;
        const Line line = load(there ? image + at * row_bytes : 0);
        float v[kTaps];
#pragma unroll
        for (int j = 0; j < kWords; ++j) {
          const std::uint32_t word = line.words[j] & inside[j];
          if constexpr (kHalves) {
            const float2 two = wide_pair<T>(word);
            v[2 * j] = two.x;
            v[2 * j + 1] = two.y;
          } else {
            v[j] = __uint_as_float(word);
          }
        }
        if (weighs) {
          const float more = share_of(inside_count<kWindow>(at - (kWindow - 1 - args.pad[0]), args.windows_high));
#pragma unroll
          for (int j = 0; j < kTaps; ++j) v[j] *= weights[j] * more;
        }
        Sums sums;
#pragma unroll
        for (int j = 1; j + 1 < kTaps; j += 2) {
          const float pair = v[j] + v[j + 1];
          sums.of[j - 1] = v[j - 1] + pair;
          if (j < kOut) sums.of[j] = pair + v[j + 2];
        }
        return sums;
      };
      // What a window is multiplied by where all its rows are inside, alpha included.
      float scales[kOut];
#pragma unroll
      for (int j = 0; j < kOut; ++j) {
        const float more = divides ? share_of(inside_count<kWindow>(start + j, args.width)) : 1.0f;
        scales[j] = args.alpha * (more * (1.0f / 9));
      }
      Sums both = load_row(row), last = load_row(row + 1);
#pragma unroll
      for (int j = 0; j < kOut; ++j) both.of[j] += last.of[j];
      const auto step = [&](std::int32_t at) {
        const Sums next = load_row(at + 2);
        float values[kOut];
#pragma unroll
        for (int j = 0; j < kOut; ++j) {
          values[j] = (both.of[j] + next.of[j]) * scales[j];
          both.of[j] = last.of[j] + next.of[j];
        }
        last = next;
        if (divides && (at < 0 || at + kWindow > args.height)) {
          const float more = share_of(inside_count<kWindow>(at, args.height));
#pragma unroll
          for (float& value : values) value *= more;
        }
        finish(values);
      };
      const std::int32_t end = row + windows;
#pragma unroll 1
      for (std::int32_t at = row;;) {  // two at a time, which leaves the sums where they are
        step(at);
        if (++at == end) break;
        step(at);
        if (++at == end) break;
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
