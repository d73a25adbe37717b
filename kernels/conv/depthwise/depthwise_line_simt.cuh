// Depthwise convolution along contiguous lines, step 1, no dilation: sequences in NCW.
//
//   y[n, c, q] = sum over s of x[n, c, q + s - pad] * w[c, s]
//   dw[c, s]   = sum over n, q of x[n, c, q + s - pad] * dy[n, c, q]
//
// A unit is four packs of 16 bytes of a line of y (of dy in the filter gradient), a quarter of the line apart, so that
// all have the same channel, taps and shift; a thread takes two of them at a time. Packs begin at multiples of 16 bytes
// whatever the line's length is, so the first and the last one of a line may hold elements of its neighbours, which are
// left out. What a pack sees of x begins anywhere: it is read as whole packs, whose words then move by the shift in
// registers. Packs that neighbours read as well come from the L1.
//
// An element of x outside of its line counts as zero.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/depthwise/depthwise_simt.cuh"

namespace gpudnn::kernels::depthwise {

template <class T>
constexpr int kLinePack = 16 / static_cast<int>(sizeof(T));

// A line of a tensor whose address is a multiple of 16 bytes.
template <class T>
struct Line {
  const T* begin;
  int phase;          // elements of a pack before `begin`
  int before, after;  // elements of the tensor before and from `begin` on, as far as an index goes
};
template <class T>
__device__ __forceinline__ Line<T> line_at(const void* tensor, std::int64_t offset, std::int64_t count) {
  constexpr std::int64_t kFar = std::int64_t{1} << 30;
  const std::int64_t after = count - offset;
  return {static_cast<const T*>(tensor) + offset, static_cast<int>(offset) & (kLinePack<T> - 1),
          static_cast<int>(offset < kFar ? offset : kFar), static_cast<int>(after < kFar ? after : kFar)};
}

// kCount elements in a row from anywhere on, as the packs that hold them.
template <class T, int kCount>
struct LineRun {
  static constexpr int kWindows = (kCount + kLinePack<T> - 1) / kLinePack<T>;
  static constexpr int kPacks = kCount == kLinePack<T> ? 1 : kWindows + 1;  // one where the run is aligned
  std::uint32_t words[4 * kPacks];
};

// The packs from `at` on, zero where the tensor has no elements.
template <class T, int kCount>
__device__ __forceinline__ void load_run(const Line<T>& line, int at, LineRun<T, kCount>& run) {
  using Run = LineRun<T, kCount>;
  constexpr int kElements = Run::kPacks * kLinePack<T>;
  const int first = at - ((line.phase + at) & (kLinePack<T> - 1));
  const T* const from = line.begin + first;
  if (first >= -line.before && first + kElements <= line.after) {
#pragma unroll
    for (int k = 0; k < Run::kPacks; ++k) {
      const uint4 bits = *reinterpret_cast<const uint4*>(from + k * kLinePack<T>);
      run.words[4 * k] = bits.x;
      run.words[4 * k + 1] = bits.y;
      run.words[4 * k + 2] = bits.z;
      run.words[4 * k + 3] = bits.w;
    }
    return;
  }
  // At the tensor's ends, element by element, the last one first.
#pragma unroll
  for (std::uint32_t& word : run.words) word = 0;
#pragma unroll 1
  for (int e = kElements - 1; e >= 0; --e) {
    const bool exists = first + e >= -line.before && first + e < line.after;
#pragma unroll
    for (int i = 4 * Run::kPacks - 1; i > 0; --i) {
      run.words[i] = sizeof(T) == 2 ? __funnelshift_l(run.words[i - 1], run.words[i], 16) : run.words[i - 1];
    }
    if constexpr (sizeof(T) == 2) {
      run.words[0] = run.words[0] << 16 | (exists ? from[e].bits : 0u);
    } else {
      run.words[0] = exists ? __float_as_uint(from[e]) : 0u;
    }
  }
}

// The run's elements, of which the first lies at `at`; zero outside of the line's `extent`.
template <class T, int kCount>
__device__ __forceinline__ void run_values(const LineRun<T, kCount>& run, const Line<T>& line, int at, int extent,
                                           float (&x)[kCount]) {
  constexpr int kWords = 4 * LineRun<T, kCount>::kPacks;
  const int shift = (line.phase + at) & (kLinePack<T> - 1);
  const int word_shift = sizeof(T) == 2 ? shift >> 1 : shift;
  std::uint32_t by_two[kWords - 2];
#pragma unroll
  for (int i = 0; i < kWords - 2; ++i) by_two[i] = (word_shift & 2) != 0 ? run.words[i + 2] : run.words[i];
  std::uint32_t words[kWords - 3];
#pragma unroll
  for (int i = 0; i < kWords - 3; ++i) words[i] = (word_shift & 1) != 0 ? by_two[i + 1] : by_two[i];
#pragma unroll
  for (int e = 0; e < kCount; ++e) {
    if constexpr (sizeof(T) == 2) {
      const std::uint32_t word = __funnelshift_r(words[e / 2], words[e / 2 + 1], static_cast<unsigned>(shift & 1) * 16);
      x[e] = tile::widen<float>(tile::half_of<T>(word, e % 2));
    } else {
      x[e] = __uint_as_float(words[e]);
    }
  }
  if (at >= 0 && at + kCount <= extent) return;
#pragma unroll
  for (int e = 0; e < kCount; ++e) {
    if (static_cast<unsigned>(at + e) >= static_cast<unsigned>(extent)) x[e] = 0.0f;
  }
}

// Stores a pack of a line; elements outside of the line are left alone.
template <class T>
__device__ __forceinline__ void store_line_pack(const Params& p, int first, float bias, const T* addend, T* line,
                                                float (&value)[kLinePack<T>]) {
  constexpr int kE = kLinePack<T>;
  const int extent = p.w.rows;
  if (!p.is_plain) {
#pragma unroll
    for (int e = 0; e < kE; ++e) {
      value[e] *= p.alpha;
      if (p.addend_scale != 0.0f && static_cast<unsigned>(first + e) < static_cast<unsigned>(extent)) {
        value[e] +=
            p.addend_scale * tile::widen<float>(addend[static_cast<std::int64_t>(first + e) * p.addend_steps.w]);
      }
      value[e] += bias;
    }
    gemm::activate_by_call(p.activation, value);
  }
  if (first >= 0 && first + kE <= extent) {
    tile::store_pack<T, kE>(line + first, tile::narrow_pack<T>(value));
    return;
  }
#pragma unroll
  for (int e = 0; e < kE; ++e) {
    if (static_cast<unsigned>(first + e) < static_cast<unsigned>(extent)) line[first + e] = tile::narrow<T>(value[e]);
  }
}

// Taps from `tap` on of the two packs that begin at `first` and `step` elements later.
template <class T, int kW>
__device__ __forceinline__ void add_taps_of_line(const Params& p, const Line<T>& image, const T* filter, int tap,
                                                 const int (&first)[2], float (&sums)[2][kLinePack<T>]) {
  constexpr int kCount = kLinePack<T> + kW - 1;
  LineRun<T, kCount> runs[2];
#pragma unroll
  for (int u = 0; u < 2; ++u) load_run(image, first[u] + tap - p.w.pad, runs[u]);
  const int taps = min(kW, p.w.taps - tap);
  float weights[kW];
#pragma unroll
  for (int s = 0; s < kW; ++s) {
    const int from = p.mirrored ? p.w.taps - 1 - tap - s : tap + s;
    weights[s] = s < taps ? tile::widen<float>(filter[from * p.filter_s]) : 0.0f;
  }
#pragma unroll
  for (int u = 0; u < 2; ++u) {
    float x[kCount];
    run_values(runs[u], image, first[u] + tap - p.w.pad, p.w.image, x);
#pragma unroll
    for (int s = 0; s < kW; ++s) {
      if (s >= taps) break;
#pragma unroll
      for (int e = 0; e < kLinePack<T>; ++e) sums[u][e] += x[e + s] * weights[s];
    }
  }
}

template <class T, int kRow>
__global__ void __launch_bounds__(kMaxThreads, kTiles[kRow].min_blocks) line_kernel(const __grid_constant__ Params p) {
  constexpr int kE = kLinePack<T>;
  constexpr int kW = kTiles[kRow].width;
  const std::uint32_t index = blockIdx.x * kMaxThreads + threadIdx.x;
  if (index >= p.units) return;
  std::uint32_t pack = 0;
  std::uint32_t channel = 0;
  const std::uint32_t n = p.channel_blocks.divmod(p.col_units.divmod(index, &pack), &channel);
  const Line<T> image =
      line_at<T>(p.image, Target<T>::offset(p.image_steps, n, p.multiplier.quotient(channel), 0, 0), p.image_count);
  const std::int64_t line = Target<T>::offset(p.rows_steps, n, channel, 0, 0);
  T* const out = static_cast<T*>(p.out) + line;
  const T* const filter = static_cast<const T*>(p.filter) + channel * p.filter_k;
  const T* addend = nullptr;
  float bias[1] = {};
  if (!p.is_plain) {
    load_bias<T>(p, channel, bias);
    addend = static_cast<const T*>(p.addend) + Target<T>::offset(p.addend_steps, n, channel, 0, 0);
  }
  const int step = static_cast<int>(p.col_units.divisor) * kE;
  int first[2];
  first[0] = static_cast<int>(pack) * kE - (static_cast<int>(line) & (kE - 1));
#pragma unroll 1
  for (int turn = 0; turn < kLineTurns && first[0] < p.w.rows; ++turn) {
    first[1] = first[0] + step;
    float sums[2][kE] = {};
#pragma unroll 1
    for (int tap = 0; tap < p.w.taps; tap += kW) add_taps_of_line<T, kW>(p, image, filter, tap, first, sums);
#pragma unroll
    for (int u = 0; u < 2; ++u) store_line_pack<T>(p, first[u], bias[0], addend, out, sums[u]);
    first[0] += 2 * step;
  }
}

// Adds a unit of the filter gradient to the sums of kW taps from tap_column on.
template <class T, int kW>
__device__ __forceinline__ void add_line_unit(const Params& p, std::uint32_t index, std::uint32_t channel,
                                              int tap_column, float (&sums)[1][kW][1]) {
  constexpr int kE = kLinePack<T>;
  constexpr int kCount = kE + kW - 1;
  std::uint32_t pack = 0;
  const std::uint32_t n = p.col_units.divmod(index, &pack);
  const Line<T> image =
      line_at<T>(p.image, Target<T>::offset(p.image_steps, n, p.multiplier.quotient(channel), 0, 0), p.image_count);
  const Line<T> line = line_at<T>(p.rows, Target<T>::offset(p.rows_steps, n, channel, 0, 0), p.rows_count);
  const int step = static_cast<int>(p.col_units.divisor) * kE;
  const int ahead = tap_column - p.w.pad;
  int first = static_cast<int>(pack) * kE - line.phase;
#pragma unroll 1
  for (int turn = 0; turn < kLineTurns && first < p.w.rows; ++turn) {
    LineRun<T, kCount> runs[2];
    LineRun<T, kE> rows[2];
#pragma unroll
    for (int u = 0; u < 2; ++u) {
      load_run(line, first + u * step, rows[u]);
      load_run(image, first + u * step + ahead, runs[u]);
    }
#pragma unroll
    for (int u = 0; u < 2; ++u) {
      const int at = first + u * step;
      float x[kCount];
      run_values(runs[u], image, at + ahead, p.w.image, x);
      const bool whole = at >= 0 && at + kE <= p.w.rows;
#pragma unroll
      for (int e = 0; e < kE; ++e) {
        if (!whole && static_cast<unsigned>(at + e) >= static_cast<unsigned>(p.w.rows)) continue;
        float dy = 0;
        if constexpr (sizeof(T) == 2) {
          dy = tile::widen<float>(tile::half_of<T>(rows[u].words[e / 2], e % 2));
        } else {
          dy = __uint_as_float(rows[u].words[e]);
        }
#pragma unroll
        for (int s = 0; s < kW; ++s) sums[0][s][0] += x[e + s] * dy;
      }
    }
    first += 2 * step;
  }
}

}  // namespace gpudnn::kernels::depthwise
