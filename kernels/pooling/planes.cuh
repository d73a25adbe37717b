// Pooling of packed NCHW tensors with any window in 1 to 3 dimensions, plane by plane (a plane is one channel of one
// image) through shared memory.
//
// A block copies a group of neighbouring planes, one contiguous stretch of memory, into shared memory with 16-byte
// copies; from there every window is read as often as windows overlap, and global memory sees each byte of x once. The
// group's outputs are one contiguous stretch as well.
//
//   pooling_planes_forward   a thread for each output, or a warp where windows are large
//   pooling_planes_backward  first the element that each window chose (for a maximum), then a gather for each element
//   of x
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/pooling/pooling_math.cuh"
#include "kernels/pooling/staging.cuh"
#include "kernels/tile/reduce.cuh"

namespace gpudnn::kernels {

constexpr int kPlaneThreads = 256;
constexpr int kColumn = 4;  // elements of x that a thread of the backward kernel does one below the other

template <class T>
struct PlaneArgs {
  const T* x;
  const T* dy;
  T* out;
  tile::Compute<T> alpha;
  tile::Compute<T> beta;
  bool count_padding;
  bool whole;  // every window lies inside the padded image
  bool warp_for_window;
  double volume;
  WindowShape shape;
  std::int64_t planes;
  std::int32_t group;  // planes of a block
  // Of the output's plane: chunks of kColumn rows, and the width.
  std::int32_t chunks;
  tile::FastDivmod by_chunks;
  tile::FastDivmod by_depth;
  tile::FastDivmod by_width;
  tile::FastDivmod by_height;
  std::int32_t dy_bytes;  // of shared memory, a multiple of 16: where the next array begins
  std::int32_t x_bytes;
};

// Starts the copy of `count` elements to shared memory and returns where the first one will be.
template <class T>
__device__ __forceinline__ T* stage(const T* from, std::int32_t count, unsigned char* to) {
  T* const first = reinterpret_cast<T*>(to) + skew_of(from);
  stage_stretch(from, count, first);
  return first;
}

template <class T>
__device__ __forceinline__ void store_one(tile::Compute<T> value, const PlaneArgs<T>& args, T* out) {
  tile::Compute<T> values[1] = {value};
  store_scaled<T, 1>(values, args.alpha, args.beta, out);
}

__device__ __forceinline__ std::int32_t length_of(Range range) { return max(range.end - range.begin, 0); }

// The sum divided by the elements of the window at (d, h, w) inside the image or, counting padding, inside the padded
// image.
template <class T>
__device__ __forceinline__ tile::Compute<T> average_of(tile::Compute<T> sum, std::int32_t d, std::int32_t h,
                                                       std::int32_t w, const PlaneArgs<T>& args) {
  using C = tile::Compute<T>;
  if (args.count_padding && args.whole) return sum / static_cast<C>(args.volume);
  const auto length = [&](int dim, std::int32_t index) {
    return static_cast<C>(args.count_padding ? args.shape.padded_extent(dim, index)
                                             : length_of(args.shape.elements(dim, index)));
  };
  const C divisor = length(0, d) * length(1, h) * length(2, w);
  return divisor == C(0) ? C(0) : sum / divisor;
}

extern __shared__ __align__(16) unsigned char pooling_shared[];

// The window of output `index` (depth, height, width fastest): its plane, its place there and its elements.
template <class T>
__device__ __forceinline__ void locate_window(const PlaneArgs<T>& args, std::uint32_t index, std::int32_t (&at)[3],
                                              Range (&ranges)[3], std::uint32_t* plane) {
  std::uint32_t w, h, d;
  index = args.by_width.divmod(index, &w);
  index = args.by_height.divmod(index, &h);
  *plane = args.by_depth.divmod(index, &d);
  at[0] = static_cast<std::int32_t>(d);
  at[1] = static_cast<std::int32_t>(h);
  at[2] = static_cast<std::int32_t>(w);
#pragma unroll
  for (int dim = 0; dim < 3; ++dim) ranges[dim] = args.shape.elements(dim, at[dim]);
}

template <class T, bool kMax, bool kNan>
__global__ void __launch_bounds__(kPlaneThreads) pooling_planes_forward(PlaneArgs<T> args) {
  using C = tile::Compute<T>;
  const std::int64_t first_plane = static_cast<std::int64_t>(blockIdx.x) * args.group;
  const auto planes = static_cast<std::int32_t>(min(static_cast<std::int64_t>(args.group), args.planes - first_plane));
  const auto plane = static_cast<std::int32_t>(args.shape.x_plane());
  const auto out_plane = static_cast<std::int32_t>(args.shape.y_plane());
  const std::int32_t height = args.shape.x[1], width = args.shape.x[2];
  const T* const x = stage(args.x + first_plane * plane, planes * plane, pooling_shared);
  stage_wait();
  T* const out = args.out + first_plane * out_plane;
  const int lanes = args.warp_for_window ? 32 : 1;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const std::int32_t outputs = planes * out_plane;
  for (std::int32_t output = static_cast<std::int32_t>(threadIdx.x) / lanes; output < outputs;
       output += kPlaneThreads / lanes) {
    std::int32_t at[3];
    Range ranges[3];
    std::uint32_t local_plane;
    locate_window(args, static_cast<std::uint32_t>(output), at, ranges, &local_plane);
    const T* const image = x + local_plane * plane;
    T most = max_identity<T, kNan>();
    C sum = C(0);
    const auto take = [&](T value) {
      if constexpr (kMax) {
        most = max_of<kNan>(most, value);
      } else {
        sum += tile::widen<C>(value);
      }
    };
    const std::int32_t rows = length_of(ranges[1]), columns = length_of(ranges[2]);
    const std::int32_t inside = length_of(ranges[0]) * rows * columns;
    for (std::int32_t d = ranges[0].begin; d < ranges[0].end; ++d) {
      const T* const corner = image + (d * height + ranges[1].begin) * width + ranges[2].begin;
      if (columns == width) {  // whole rows: one stretch
#pragma unroll 4
        for (std::int32_t i = lane; i < rows * columns; i += lanes) take(corner[i]);
      } else if (lanes == 1) {
        for (std::int32_t h = 0; h < rows; ++h) {
          for (std::int32_t w = 0; w < columns; ++w) take(corner[h * width + w]);
        }
      } else {
        for (std::int32_t i = lane; i < rows * columns; i += lanes) take(corner[i / columns * width + i % columns]);
      }
    }
    C result;
    if constexpr (kMax) {
      if (lanes == 32) {
        for (int step = 16; step > 0; step /= 2) {
          most = max_of<kNan>(most, tile::narrow<T>(__shfl_xor_sync(0xffffffffu, tile::widen<C>(most), step)));
        }
      }
      result = tile::widen<C>(finish_max<kNan>(most, inside == 0));
    } else {
      if (lanes == 32) sum = tile::warp_reduce(sum, tile::Sum{});
      result = average_of(sum, at[0], at[1], at[2], args);
    }
    if (lane == 0) store_one(result, args, out + output);
  }
}

// The number within the plane of the element that the window chose, or -1.
template <class T, bool kNan>
__device__ __forceinline__ std::int32_t choose(const T* image, const Range (&ranges)[3], std::int32_t height,
                                               std::int32_t width) {
  using C = tile::Compute<T>;
  std::int32_t best = -1;
  C most = C(0);
  for (std::int32_t d = ranges[0].begin; d < ranges[0].end; ++d) {
    for (std::int32_t h = ranges[1].begin; h < ranges[1].end; ++h) {
      const std::int32_t row = (d * height + h) * width;
      for (std::int32_t w = ranges[2].begin; w < ranges[2].end; ++w) {
        const C value = tile::widen<C>(image[row + w]);
        bool better = best < 0 ? value == value : value > most;
        if (kNan) better = most == most && (better || value != value);
        if (better) {
          best = row + w;
          most = value;
        }
      }
    }
  }
  return best;
}

template <class T, bool kMax, bool kNan>
__global__ void __launch_bounds__(kPlaneThreads) pooling_planes_backward(PlaneArgs<T> args) {
  using C = tile::Compute<T>;
  const std::int64_t first_plane = static_cast<std::int64_t>(blockIdx.x) * args.group;
  const auto planes = static_cast<std::int32_t>(min(static_cast<std::int64_t>(args.group), args.planes - first_plane));
  const auto plane = static_cast<std::int32_t>(args.shape.x_plane());
  const auto dy_plane = static_cast<std::int32_t>(args.shape.y_plane());
  const std::int32_t height = args.shape.x[1], width = args.shape.x[2];
  const std::int32_t windows_high = args.shape.y[1], windows_wide = args.shape.y[2];
  const T* const dy = stage(args.dy + first_plane * dy_plane, planes * dy_plane, pooling_shared);
  const T* x = nullptr;
  if constexpr (kMax) x = stage(args.x + first_plane * plane, planes * plane, pooling_shared + args.dy_bytes);
  auto* const choices = reinterpret_cast<std::int32_t*>(pooling_shared + args.dy_bytes + args.x_bytes);
  stage_wait();
  if constexpr (kMax) {
    // Here by_width and by_height count the windows; the loop below counts elements and divides by chunks.
    for (auto index = static_cast<std::int32_t>(threadIdx.x); index < planes * dy_plane; index += kPlaneThreads) {
      std::int32_t at[3];
      Range ranges[3];
      std::uint32_t local_plane;
      locate_window(args, static_cast<std::uint32_t>(index), at, ranges, &local_plane);
      choices[index] = choose<T, kNan>(x + local_plane * plane, ranges, height, width);
    }
    __syncthreads();
  }
  T* const out = args.out + first_plane * plane;
  // A thread takes kColumn elements of x one below the other.
  const std::int32_t units = planes * args.shape.x[0] * args.chunks * width;
  std::int32_t w = static_cast<std::int32_t>(threadIdx.x) % width;
  std::int32_t rest = static_cast<std::int32_t>(threadIdx.x) / width;
  const std::int32_t step_w = kPlaneThreads % width;
  const std::int32_t step_rest = kPlaneThreads / width;
  for (auto unit = static_cast<std::int32_t>(threadIdx.x); unit < units; unit += kPlaneThreads) {
    std::uint32_t chunk;
    const std::uint32_t volume = args.by_chunks.divmod(static_cast<std::uint32_t>(rest), &chunk);
    const std::int32_t local_plane = static_cast<std::int32_t>(volume) / args.shape.x[0];
    const std::int32_t d = static_cast<std::int32_t>(volume) % args.shape.x[0];
    const Range across = args.shape.windows(2, w);
    const Range deep = args.shape.windows(0, d);
    const std::int32_t window_base = local_plane * dy_plane;
#pragma unroll 1
    for (int r = 0; r < kColumn; ++r) {
      const std::int32_t h = static_cast<std::int32_t>(chunk) * kColumn + r;
      if (h >= height) break;
      const std::int32_t mine = (d * height + h) * width + w;
      const Range down = args.shape.windows(1, h);
      C sum = C(0);
      for (std::int32_t window_d = deep.begin; window_d < deep.end; ++window_d) {
        for (std::int32_t window_h = down.begin; window_h < down.end; ++window_h) {
          const std::int32_t row = window_base + (window_d * windows_high + window_h) * windows_wide;
          for (std::int32_t window_w = across.begin; window_w < across.end; ++window_w) {
            if constexpr (kMax) {
              if (choices[row + window_w] == mine) sum += tile::widen<C>(dy[row + window_w]);
            } else {
              sum += average_of(tile::widen<C>(dy[row + window_w]), window_d, window_h, window_w, args);
            }
          }
        }
      }
      store_one(sum, args, out + local_plane * plane + mine);
    }
    w += step_w;
    rest += step_rest;
    if (w >= width) {
      w -= width;
      ++rest;
    }
  }
}

}  // namespace gpudnn::kernels
