// Pooling in two dimensions with a window and a stride known at compile time: what the kernels of both layouts share.
//
// A thread walks down a strip of windows, one below the other, N lanes abreast. A lane is a channel of a pack (channels
// innermost) or one of two neighbouring planes (rows innermost): the same window in each lane, so all index arithmetic
// is done once for N results, and 16-bit types are compared two to an instruction. Each row of x is reduced across the
// window's width once and goes into every window of the strip that it belongs to.
//
// The gradient of a maximum takes two steps, and nothing is scattered:
//   choose   each window's choice, as the number of the chosen element within the window (its row times kWindow plus
//            its column), one byte a lane; kNothingChosen where there is none
//   gather   the elements of x fall into k tilesStride x kStride. Counted from the padding's corner, block (i, j)
//            is covered by the windows (i - p, j - q), p and q < kOverlap, and element (a, b) of the block is number
//            (a + p kStride) kWindow + b + q kStride of that window. So a block takes kOverlap^2 choices and gradients
//            and compares them with numbers known at compile time.
// The gradient of an average is the same gather with a scale in place of the comparison.
//
// A row or column outside the image stands for its nearest one inside. As the padding is below the window, that one
// belongs to the window too, so a maximum does not mind, and with the number that goes with it the choice is the same;
// an average leaves it out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/pooling/pooling_math.cuh"

namespace gpudnn::kernels {

constexpr int kStrip = 4;  // windows (forward) or blocks (backward) that a thread does one below the other
constexpr unsigned kNothingChosen = 0xff;

// Blocks of x that a window reaches into, in each direction.
template <int kWindow, int kStride>
inline constexpr int kOverlap = (kWindow + kStride - 1) / kStride;

__device__ __forceinline__ std::int32_t clamped(std::int32_t value, std::int32_t low, std::int32_t high) {
  return min(max(value, low), high);
}

// The columns of a window: where each lies, or its nearest one inside the image.
template <int kWindow>
struct Columns {
  std::int32_t at[kWindow];
  bool inside[kWindow];
  std::int32_t count = 0;  // inside
  std::int32_t first;      // of the window, may be outside

  __device__ __forceinline__ Columns(std::int32_t first_, std::int32_t width) : first(first_) {
#pragma unroll
    for (int k = 0; k < kWindow; ++k) {
      at[k] = clamped(first + k, 0, width - 1);
      inside[k] = at[k] == first + k;
      count += inside[k] ? 1 : 0;
    }
  }
};

// --- forward --------------------------------------------------------------------------------------------------------

// Results of windows `first_window` to `first_window + kStrip - 1` of one column. load(row, k) gives the lanes'
// elements in the k-th column of the window; rows are asked for within [low, high]. result(r, most) for a maximum,
// result(r, sum) for an average.
template <class T, int N, int kWindow, int kStride, bool kMax, bool kNan, class Load, class Result>
__device__ __forceinline__ void walk_forward(std::int32_t first_row, std::int32_t low, std::int32_t high,
                                             const bool (&inside)[kWindow], const Load& load, const Result& result) {
  using C = tile::Compute<T>;
  using Pack = tile::Pack<T, N>;
  constexpr int kRows = (kStrip - 1) * kStride + kWindow;
  if constexpr (kMax) {
    Pack most[kStrip];
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
      const std::int32_t row = clamped(first_row + j, low, high);
      Pack across = load(row, 0);
#pragma unroll
      for (int k = 1; k < kWindow; ++k) take_max<kNan>(load(row, k), &across);
#pragma unroll
      for (int r = 0; r < kStrip; ++r) {
        if (j == r * kStride) most[r] = across;
        if (j > r * kStride && j < r * kStride + kWindow) take_max<kNan>(across, &most[r]);
      }
    }
#pragma unroll
    for (int r = 0; r < kStrip; ++r) result(r, most[r]);
  } else {
    C sum[kStrip][N] = {};
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
      const std::int32_t row = clamped(first_row + j, low, high);
      const bool row_inside = row == first_row + j;
      C across[N];
#pragma unroll
      for (int k = 0; k < kWindow; ++k) {
        Pack values = load(row, k);
        const bool counts = row_inside && inside[k];
        if (N > 1 && !counts) values.fill(tile::narrow<T>(C(0)));
        C wide[N];
        tile::widen_pack<C>(values, wide);
        if (N == 1 && !counts) wide[0] = C(0);
#pragma unroll
        for (int n = 0; n < N; ++n) across[n] = k == 0 ? wide[n] : across[n] + wide[n];
      }
#pragma unroll
      for (int r = 0; r < kStrip; ++r) {
        if (j < r * kStride || j >= r * kStride + kWindow) continue;
#pragma unroll
        for (int n = 0; n < N; ++n) sum[r][n] += across[n];
      }
    }
#pragma unroll
    for (int r = 0; r < kStrip; ++r) result(r, sum[r]);
  }
}

// --- choices --------------------------------------------------------------------------------------------------------

// The largest element so far and its number, for N lanes. The numbers of 16-bit lanes share a word, as the lanes do.
template <class T, int N>
struct Choice {
  static constexpr bool kPaired = tile::kPackHasWords<T, N>;
  static constexpr int kWords = kPaired ? N / 2 : N;
  tile::Pack<T, N> most;
  std::uint32_t number[kWords];

  static __device__ __forceinline__ std::uint32_t spread(std::uint32_t number) {
    return kPaired ? number * 0x10001u : number;
  }
  __device__ __forceinline__ void start(const tile::Pack<T, N>& values, std::uint32_t first) {
    most = values;
#pragma unroll
    for (int i = 0; i < kWords; ++i) number[i] = spread(first);
  }
  // Takes a later element if it is larger. Passing over NaNs, the maximum of a number and a NaN is the number: the
  // choice moves where the maximum changed, and a NaN that is left at the end was alone. (Then the number is void.)
  // Propagating, it moves to a larger element or a NaN, but never away from a NaN.
  template <bool kNan>
  __device__ __forceinline__ void take(const tile::Pack<T, N>& values, const std::uint32_t (&later)[kWords]) {
    if constexpr (kPaired) {
      tile::Pack<T, N> larger = most;
      take_max<kNan>(values, &larger);
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        const auto was = tile::as_two<T>(most.words[i]);
        std::uint32_t moves;
        if constexpr (kNan) {
          moves = __hgtu2_mask(tile::as_two<T>(values.words[i]), was) & __heq2_mask(was, was);
        } else {
          moves = __hneu2_mask(tile::as_two<T>(larger.words[i]), was);
        }
        number[i] = (moves & later[i]) | (~moves & number[i]);
      }
      most = larger;
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const T was = most.data[i], offered = values.data[i];
        const bool moves = kNan ? was == was && !(offered <= was) : offered > was || was != was;
        number[i] = moves ? later[i] : number[i];
        most.data[i] = moves ? offered : was;
      }
    }
  }
  template <bool kNan>
  __device__ __forceinline__ void take(const tile::Pack<T, N>& values, std::uint32_t later) {
    std::uint32_t numbers[kWords];
#pragma unroll
    for (int i = 0; i < kWords; ++i) numbers[i] = spread(later);
    take<kNan>(values, numbers);
  }
  // A byte a lane; nothing where only NaNs were passed over.
  template <bool kNan>
  __device__ __forceinline__ tile::Pack<std::uint8_t, N> finish() const {
    tile::Pack<std::uint8_t, N> bytes;
    if constexpr (kPaired) {
      std::uint32_t words[kWords];
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        words[i] = number[i];
        if constexpr (!kNan) words[i] |= nan_mask(most.words[i]) & (kNothingChosen * 0x10001u);
      }
      std::uint32_t packed[(kWords + 1) / 2];
#pragma unroll
      for (int i = 0; i < kWords; i += 2) packed[i / 2] = __byte_perm(words[i], words[min(i + 1, kWords - 1)], 0x6420);
      memcpy(&bytes, packed, sizeof bytes);
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        bytes.data[i] = static_cast<std::uint8_t>(!kNan && is_nan(most.get(i)) ? kNothingChosen : number[i]);
      }
    }
    return bytes;
  }

 private:
  static __device__ __forceinline__ std::uint32_t nan_mask(std::uint32_t word) {
    return __hneu2_mask(tile::as_two<T>(word), tile::as_two<T>(word));
  }
};

// The choices of `windows` windows below each other, the first of which begins in row `first_row`. load(row, k) as
// above; emit(window, bytes).
template <class T, int N, int kWindow, int kStride, bool kNan, class Load, class Emit>
__device__ __forceinline__ void walk_choices(std::int32_t first_row, std::int32_t windows, std::int32_t low,
                                             std::int32_t high, const Columns<kWindow>& columns, const Load& load,
                                             const Emit& emit) {
  constexpr int kKept = kWindow > kStride ? kWindow - kStride : 0;  // rows that the next window has too
  Choice<T, N> rows[kWindow];
  std::uint32_t number[kWindow];
#pragma unroll
  for (int k = 0; k < kWindow; ++k) number[k] = static_cast<std::uint32_t>(columns.at[k] - columns.first);
  const auto across = [&](std::int32_t row, Choice<T, N>* choice) {
    tile::Pack<T, N> values[kWindow];
#pragma unroll
    for (int k = 0; k < kWindow; ++k) values[k] = load(row, k);
    choice->start(values[0], number[0]);
#pragma unroll
    for (int k = 1; k < kWindow; ++k) choice->template take<kNan>(values[k], number[k]);
  };
#pragma unroll
  for (int j = 0; j < kKept; ++j) across(clamped(first_row + j, low, high), &rows[kStride + j]);
#pragma unroll 1
  for (std::int32_t window = 0; window < windows; ++window) {
    const std::int32_t start = first_row + window * kStride;
#pragma unroll
    for (int j = 0; j < kKept; ++j) rows[j] = rows[kStride + j];
#pragma unroll
    for (int j = kKept; j < kWindow; ++j) across(clamped(start + j, low, high), &rows[j]);
    // The first row may stand for a later one. Any other that does so equals a row before it and is not chosen.
    Choice<T, N> best = rows[0];
    const auto skipped = static_cast<std::uint32_t>(max(low - start, 0)) * kWindow;
#pragma unroll
    for (std::uint32_t& number_of : best.number) number_of += Choice<T, N>::spread(skipped);
#pragma unroll
    for (int j = 1; j < kWindow; ++j) {
      Choice<T, N> row = rows[j];
#pragma unroll
      for (std::uint32_t& number_of : row.number) number_of += Choice<T, N>::spread(j * kWindow);
      best.template take<kNan>(row.most, row.number);
    }
    emit(window, best.template finish<kNan>());
  }
}

// Choices in shared memory, as one word or part of one: the struct is taken apart into bytes.
template <int N>
__device__ __forceinline__ void store_choices(const tile::Pack<std::uint8_t, N>& bytes,
                                              tile::Pack<std::uint8_t, N>* to) {
  typename tile::VectorOf<N>::type bits;
  memcpy(&bits, &bytes, sizeof bits);
  *reinterpret_cast<typename tile::VectorOf<N>::type*>(to) = bits;
}
template <int N>
__device__ __forceinline__ tile::Pack<std::uint8_t, N> load_choices(const tile::Pack<std::uint8_t, N>* from) {
  return tile::load_pack<std::uint8_t, N>(from->data);
}

// --- gather ---------------------------------------------------------------------------------------------------------

// What a block of x needs of a window: its choices (or its scale, for an average) and its gradient. The numbers of
// 16-bit lanes share a word, as the lanes do.
template <class T, int N, bool kMax>
struct WindowGradient {
  static constexpr bool kPaired = tile::kPackHasWords<T, N>;
  tile::Pack<T, N> dy;
  std::uint32_t numbers[kPaired ? N / 2 : N];  // maximum
  tile::Compute<T> scale;                      // average

  __device__ __forceinline__ void take_choices(const tile::Pack<std::uint8_t, N>& bytes) {
    if constexpr (kPaired) {
      std::uint32_t words[(N + 3) / 4] = {};
      memcpy(words, &bytes, sizeof bytes);
#pragma unroll
      for (int i = 0; i < N / 2; ++i) numbers[i] = __byte_perm(words[i / 2], 0, i % 2 == 0 ? 0x4140 : 0x4342);
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) numbers[i] = bytes.data[i];
    }
  }
  // Of a window that does not exist.
  __device__ __forceinline__ void nothing() {
    dy.fill(tile::narrow<T>(tile::Compute<T>(0)));
#pragma unroll
    for (std::uint32_t& number : numbers) number = kNothingChosen * 0x10001u;
    scale = tile::Compute<T>(0);
  }
};

// A word of gradients with those lanes cleared whose number is not `mine`. The numbers are compared as halves: as such
// they are subnormal, and equal if their bits are.
__device__ __forceinline__ std::uint32_t gradients_of(std::uint32_t dy, std::uint32_t numbers, std::uint32_t mine) {
  return dy & __heq2_mask(tile::as_two<tile::Half>(numbers), tile::as_two<tile::Half>(mine));
}

// The gradients of element (a, b) of a block, from windows[p][q] = window (i - p, j - q).
template <class T, int N, int kWindow, int kStride, bool kMax>
__device__ __forceinline__ void gather(
    const WindowGradient<T, N, kMax> (&windows)[kOverlap<kWindow, kStride>][kOverlap<kWindow, kStride>], int a, int b,
    tile::Compute<T> (&sum)[N]) {
  using C = tile::Compute<T>;
  bool first = true;  // known where the loops are unrolled
#pragma unroll
  for (int p = kOverlap<kWindow, kStride> - 1; p >= 0; --p) {
#pragma unroll
    for (int q = kOverlap<kWindow, kStride> - 1; q >= 0; --q) {
      if (a + p * kStride >= kWindow || b + q * kStride >= kWindow) continue;
      const auto mine = static_cast<std::uint32_t>((a + p * kStride) * kWindow + b + q * kStride);
      const WindowGradient<T, N, kMax>& window = windows[p][q];
      tile::Pack<T, N> dy = window.dy;
      if constexpr (kMax && tile::kPackHasWords<T, N>) {
#pragma unroll
        for (int i = 0; i < N / 2; ++i) dy.words[i] = gradients_of(dy.words[i], window.numbers[i], mine * 0x10001u);
      }
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const C share = tile::widen<C>(dy.get(n)) * (kMax ? C(1) : window.scale);
        const bool chosen = !kMax || tile::kPackHasWords<T, N> || window.numbers[n] == mine;
        if (first) {
          sum[n] = chosen ? share : C(0);
        } else if (chosen) {
          sum[n] += share;
        }
      }
      first = false;
    }
  }
}

// Elements of a window that begins at `start` inside the image, in one direction.
template <int kWindow>
__device__ __forceinline__ std::int32_t inside_count(std::int32_t start, std::int32_t extent) {
  return min(start + kWindow, extent) - max(start, 0);
}

// 3 over the elements inside of a window of 3 in one direction: what its share is more than that of a whole window.
__device__ __forceinline__ float share_of(std::int32_t inside) {
  return inside == 2 ? 1.5f : inside == 1 ? 3.0f : 1.0f;
}

// One over a count of rows times a count of columns of a window, at most 3 each: two roundings, and no division.
template <class C>
__device__ __forceinline__ C inverse_of_area(std::int32_t rows, std::int32_t columns) {
  const auto inverse = [](std::int32_t count) { return count == 1 ? C(1) : count == 2 ? C(0.5) : C(1) / C(3); };
  return inverse(rows) * inverse(columns);
}

}  // namespace gpudnn::kernels
