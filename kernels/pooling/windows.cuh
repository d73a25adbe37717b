// Pooling with a thread for each output element (N = 1, any strides) or for each pack of N channels (channels
// innermost).
//
// Where windows are large and outputs few (global pooling), a group of threads shares each window instead.
// Forward reads the window of the output element; neighbouring threads share most of it through the L1 cache.
// Backward gathers: the thread of an element of x looks at each window that covers it. For a maximum it asks whether
// its element is the one that the window chose, the first of the largest; nothing is scattered, nothing is atomic.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/pooling/pooling_math.cuh"
#include "kernels/tile/loop_nest.hpp"

namespace gpudnn::kernels {

constexpr int kWindowThreads = 256;

// From a thread's number to the place of its output, in the order of the output's memory.
struct OutputOrder {
  bool channels_fastest = false;
  bool wide = false;       // the count does not fit 31 bits
  std::int64_t count = 0;  // outputs, or packs of them
  tile::FastDivmod channels;
  tile::FastDivmod spatial[3];

  struct Place {
    std::int64_t n;
    std::int32_t c;  // in packs
    std::int32_t spatial[3];
  };

  GPUDNN_HOST_DEVICE static std::int32_t take(bool wide, std::uint64_t* index, const tile::FastDivmod& by) {
    if (wide) {
      const auto rest = static_cast<std::int32_t>(*index % by.divisor);
      *index /= by.divisor;
      return rest;
    }
    std::uint32_t rest;
    *index = by.divmod(static_cast<std::uint32_t>(*index), &rest);
    return static_cast<std::int32_t>(rest);
  }

  GPUDNN_HOST_DEVICE Place locate(std::uint64_t index) const {
    Place place;
    if (channels_fastest) place.c = take(wide, &index, channels);
    place.spatial[2] = take(wide, &index, spatial[2]);
    place.spatial[1] = take(wide, &index, spatial[1]);
    place.spatial[0] = take(wide, &index, spatial[0]);
    if (!channels_fastest) place.c = take(wide, &index, channels);
    place.n = static_cast<std::int64_t>(index);
    return place;
  }
};

template <class T>
struct WindowArgs {
  const T* x;
  const T* dy;
  T* out;
  tile::Compute<T> alpha;
  tile::Compute<T> beta;
  bool count_padding;  // averages divide by the part of the window's volume inside the padded image
  bool whole;          // every window lies inside the padded image
  double volume;       // of a window
  WindowShape shape;
  OutputOrder order;
  PoolingStrides x_strides;
  PoolingStrides dy_strides;
  PoolingStrides out_strides;
};

__device__ __forceinline__ std::int64_t offset_of(const PoolingStrides& strides, std::int64_t n, std::int64_t c) {
  return n * strides.n + c * strides.c;
}
__device__ __forceinline__ std::int64_t offset_of(const PoolingStrides& strides, const std::int32_t (&at)[3]) {
  return at[0] * strides.spatial[0] + at[1] * strides.spatial[1] + at[2] * strides.spatial[2];
}

__device__ __forceinline__ std::int32_t extent(Range range) {
  return range.end > range.begin ? range.end - range.begin : 0;
}

// What an average divides by: the elements of the window at `at` inside the image, whose extents the ranges are, or
// inside the padded image.
template <class T>
__device__ __forceinline__ tile::Compute<T> divisor_of(const WindowArgs<T>& args, const std::int32_t (&at)[3],
                                                       Range depth, Range height, Range width) {
  using C = tile::Compute<T>;
  if (args.count_padding && args.whole) return static_cast<C>(args.volume);
  if (!args.count_padding) {
    return static_cast<C>(extent(depth)) * static_cast<C>(extent(height)) * static_cast<C>(extent(width));
  }
  return static_cast<C>(args.shape.padded_extent(0, at[0])) * static_cast<C>(args.shape.padded_extent(1, at[1])) *
         static_cast<C>(args.shape.padded_extent(2, at[2]));
}

template <class T, int N, bool kMax, bool kNan>
__global__ void __launch_bounds__(kWindowThreads) pooling_windows_forward(WindowArgs<T> args) {
  using C = tile::Compute<T>;
  using Pack = tile::Pack<T, N>;
  const std::uint64_t index = static_cast<std::uint64_t>(blockIdx.x) * kWindowThreads + threadIdx.x;
  if (index >= static_cast<std::uint64_t>(args.order.count)) return;
  const OutputOrder::Place place = args.order.locate(index);
  const T* const x = args.x + offset_of(args.x_strides, place.n, static_cast<std::int64_t>(place.c) * N);
  T* const out = args.out + offset_of(args.out_strides, place.n, static_cast<std::int64_t>(place.c) * N) +
                 offset_of(args.out_strides, place.spatial);
  const Range depth = args.shape.elements(0, place.spatial[0]);
  const Range height = args.shape.elements(1, place.spatial[1]);
  const Range width = args.shape.elements(2, place.spatial[2]);
  Pack most;
  C sum[N];
  most.fill(max_identity<T, kNan>());
#pragma unroll
  for (int i = 0; i < N; ++i) sum[i] = C(0);
  const auto take = [&](const Pack& values) {
    if constexpr (kMax) {
      take_max<kNan>(values, &most);
    } else {
      C wide[N];
      tile::widen_pack<C>(values, wide);
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += wide[i];
    }
  };
  for (std::int32_t d = depth.begin; d < depth.end; ++d) {
    for (std::int32_t h = height.begin; h < height.end; ++h) {
      const T* const row = x + d * args.x_strides.spatial[0] + h * args.x_strides.spatial[1];
#pragma unroll 4
      for (std::int32_t w = width.begin; w < width.end; ++w) {
        take(tile::load_pack<T, N>(row + w * args.x_strides.spatial[2]));
      }
    }
  }
  const C inside = static_cast<C>(extent(depth)) * static_cast<C>(extent(height)) * static_cast<C>(extent(width));
  if constexpr (kMax) {
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] = tile::widen<C>(finish_max<kNan>(most.get(i), inside == C(0)));
  } else {
    const C divisor = divisor_of(args, place.spatial, depth, height, width);
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] = divisor == C(0) ? C(0) : sum[i] / divisor;
  }
  store_scaled<T, N>(sum, args.alpha, args.beta, out);
}

constexpr int kSplitLanes = 8;                            // neighbouring outputs of a block
constexpr int kSplitRows = kWindowThreads / kSplitLanes;  // threads that share a window

template <class T, int N, bool kMax, bool kNan>
__global__ void __launch_bounds__(kWindowThreads) pooling_windows_split(WindowArgs<T> args) {
  using C = tile::Compute<T>;
  using Pack = tile::Pack<T, N>;
  using Held = std::conditional_t<kMax, Pack, tile::Pack<C, N>>;
  __shared__ Held shared[kWindowThreads];
  const int lane = static_cast<int>(threadIdx.x) % kSplitLanes;
  const int row = static_cast<int>(threadIdx.x) / kSplitLanes;
  const std::uint64_t index = static_cast<std::uint64_t>(blockIdx.x) * kSplitLanes + lane;
  const bool there = index < static_cast<std::uint64_t>(args.order.count);
  const OutputOrder::Place place = args.order.locate(there ? index : 0);
  const T* const x = args.x + offset_of(args.x_strides, place.n, static_cast<std::int64_t>(place.c) * N);
  const Range depth = args.shape.elements(0, place.spatial[0]);
  const Range height = args.shape.elements(1, place.spatial[1]);
  const Range width = args.shape.elements(2, place.spatial[2]);
  const std::int32_t columns = extent(width);
  // The window's rows times its columns, 64 bits wide as the image may be large.
  const std::int64_t plane = static_cast<std::int64_t>(extent(height)) * columns;
  Held held;
  if constexpr (kMax) {
    held.fill(max_identity<T, kNan>());
  } else {
    held.fill(C(0));
  }
  const auto merge = [&](const Held& other) {
    if constexpr (kMax) {
      take_max<kNan>(other, &held);
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) held.data[i] += other.data[i];
    }
  };
  for (std::int32_t d = depth.begin; d < depth.end; ++d) {
    // Row and column of this thread's next element; the first steps may skip rows.
    std::int32_t w = columns > 0 ? row % columns : 0;
    std::int32_t h = columns > 0 ? row / columns : 0;
    const std::int32_t step_w = columns > 0 ? kSplitRows % columns : 0;
    const std::int32_t step_h = columns > 0 ? kSplitRows / columns : 0;
#pragma unroll 4
    for (std::int64_t element = row; element < plane; element += kSplitRows) {
      const std::int32_t at[3] = {d, height.begin + h, width.begin + w};
      const Pack values = tile::load_pack<T, N>(x + offset_of(args.x_strides, at));
      if constexpr (kMax) {
        merge(values);
      } else {
        Held wide;
        tile::widen_pack<C>(values, wide.data);
        merge(wide);
      }
      w += step_w;
      h += step_h;
      if (w >= columns) {
        w -= columns;
        ++h;
      }
    }
  }
  shared[threadIdx.x] = held;
  __syncthreads();
#pragma unroll 1
  for (int half = kSplitRows / 2; half > 0; half /= 2) {
    if (row < half) {
      merge(shared[threadIdx.x + half * kSplitLanes]);
      shared[threadIdx.x] = held;
    }
    __syncthreads();
  }
  if (row != 0 || !there) return;
  const C inside = static_cast<C>(extent(depth)) * static_cast<C>(extent(height)) * static_cast<C>(extent(width));
  C result[N];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if constexpr (kMax) {
      result[i] = tile::widen<C>(finish_max<kNan>(held.get(i), inside == C(0)));
    } else {
      const C divisor = divisor_of(args, place.spatial, depth, height, width);
      result[i] = divisor == C(0) ? C(0) : held.data[i] / divisor;
    }
  }
  T* const out = args.out + offset_of(args.out_strides, place.n, static_cast<std::int64_t>(place.c) * N) +
                 offset_of(args.out_strides, place.spatial);
  store_scaled<T, N>(result, args.alpha, args.beta, out);
}

// Which of the N elements of `mine`, at place `at`, their window (the product of the ranges) chose, as bits.
template <bool kNan, class T, int N>
__device__ __forceinline__ unsigned chosen(const WindowArgs<T>& args, const T* x, const tile::Pack<T, N>& mine,
                                           const std::int32_t (&at)[3], Range depth, Range height, Range width) {
  using C = tile::Compute<T>;
  C value[N];
  tile::widen_pack<C>(mine, value);
  unsigned left = 0;
#pragma unroll
  for (int i = 0; i < N; ++i) left |= (kNan || value[i] == value[i] ? 1u : 0u) << i;
  for (std::int32_t d = depth.begin; d < depth.end; ++d) {
    for (std::int32_t h = height.begin; h < height.end; ++h) {
      for (std::int32_t w = width.begin; w < width.end && left != 0; ++w) {
        const bool here = d == at[0] && h == at[1] && w == at[2];
        if (here) continue;
        const bool earlier = d < at[0] || (d == at[0] && (h < at[1] || (h == at[1] && w < at[2])));
        const std::int32_t other_at[3] = {d, h, w};
        C other[N];
        tile::widen_pack<C>(tile::load_pack<T, N>(x + offset_of(args.x_strides, other_at)), other);
#pragma unroll
        for (int i = 0; i < N; ++i) {
          bool beats = earlier ? other[i] >= value[i] : other[i] > value[i];
          if (kNan) {
            const bool other_nan = other[i] != other[i];
            const bool mine_nan = value[i] != value[i];
            beats = mine_nan ? other_nan && earlier : beats || other_nan;
          }
          if (beats) left &= ~(1u << i);
        }
      }
      if (left == 0) return 0;
    }
  }
  return left;
}

template <class T, int N, bool kMax, bool kNan>
__global__ void __launch_bounds__(kWindowThreads) pooling_windows_backward(WindowArgs<T> args) {
  using C = tile::Compute<T>;
  using Pack = tile::Pack<T, N>;
  const std::uint64_t index = static_cast<std::uint64_t>(blockIdx.x) * kWindowThreads + threadIdx.x;
  if (index >= static_cast<std::uint64_t>(args.order.count)) return;
  const OutputOrder::Place place = args.order.locate(index);
  const std::int64_t c = static_cast<std::int64_t>(place.c) * N;
  const T* const dy = args.dy + offset_of(args.dy_strides, place.n, c);
  T* const out = args.out + offset_of(args.out_strides, place.n, c) + offset_of(args.out_strides, place.spatial);
  const T* x = nullptr;
  Pack mine;
  if constexpr (kMax) {
    x = args.x + offset_of(args.x_strides, place.n, c);
    mine = tile::load_pack<T, N>(x + offset_of(args.x_strides, place.spatial));
  }
  const Range covering[3] = {args.shape.windows(0, place.spatial[0]), args.shape.windows(1, place.spatial[1]),
                             args.shape.windows(2, place.spatial[2])};
  C sum[N] = {};
  for (std::int32_t d = covering[0].begin; d < covering[0].end; ++d) {
    const Range depth = args.shape.elements(0, d);
    for (std::int32_t h = covering[1].begin; h < covering[1].end; ++h) {
      const Range height = args.shape.elements(1, h);
      for (std::int32_t w = covering[2].begin; w < covering[2].end; ++w) {
        const Range width = args.shape.elements(2, w);
        const std::int32_t window_at[3] = {d, h, w};
        unsigned winners = ~0u;
        C divisor = C(1);
        if constexpr (kMax) {
          winners = chosen<kNan, T, N>(args, x, mine, place.spatial, depth, height, width);
          if (winners == 0) continue;
        } else {
          divisor = divisor_of(args, window_at, depth, height, width);
        }
        C gradient[N];
        tile::widen_pack<C>(tile::load_pack<T, N>(dy + offset_of(args.dy_strides, window_at)), gradient);
#pragma unroll
        for (int i = 0; i < N; ++i) {
          if constexpr (kMax) {
            if ((winners >> i & 1u) != 0) sum[i] += gradient[i];
          } else {
            sum[i] += gradient[i] / divisor;
          }
        }
      }
    }
  }
  store_scaled<T, N>(sum, args.alpha, args.beta, out);
}

}  // namespace gpudnn::kernels
