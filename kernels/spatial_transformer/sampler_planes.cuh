// The sampler and the gradient of its grid where the rows of images and samples are contiguous (NCHW): the same sums as
// in sampler.cu, with the arithmetic of places cut down, since with few channels that is what takes the time.
// SPDX-License-Identifier: Apache-2.0
//
// A thread takes kPlanePixels pixels at a time, a block's width apart, whose corners are loaded together, and goes on
// to the next ones, whose grid pairs are on their way meanwhile: most points of a random map lie outside, and what
// their threads do is to wait for the grid. Offsets within an image fit 32 bits, and a corner's right neighbour is at
// the next address: a channel costs a point two addresses, four loads, four products and a store. A point outside the
// image is moved to column -2, where the comparisons that each corner needs anyway leave all four out; so there are no
// branches but one around the loads of threads whose points are all outside.
//
// Instructions for a pixel of 3 channels: about 60 for its place and 18 a channel; 440 altogether before.
#pragma once

#include "kernels/spatial_transformer/sampler.cuh"

namespace gpudnn::kernels {

template <class T>
inline constexpr int kPlanePixels = sizeof(T) == 8 ? 1 : 2;
constexpr int kPlaneRounds = 2;    // of a thread
constexpr int kPlaneChannels = 4;  // of a thread's loads in flight together

// A pixel's corners: the offset of the first, which of them lie in the image, and how far the point is past the first.
template <class C>
struct PlanePoint {
  std::int32_t offset;
  bool inside[4];
  C fx;
  C fy;

  __device__ __forceinline__ bool any() const { return inside[0] || inside[1] || inside[2] || inside[3]; }
};

template <class T>
__device__ __forceinline__ PlanePoint<tile::Compute<T>> locate_in_plane(const SamplerArgs<T>& args,
                                                                        const tile::Pack<T, 2>& pair) {
  using C = tile::Compute<T>;
  ImagePosition<C> at = position_of(args, pair);
  const C left = floor(at.inside ? at.x : C(-2));
  const C top = floor(at.y);
  const auto column = static_cast<std::int32_t>(left);
  const auto row = static_cast<std::int32_t>(at.inside ? top : C(0));
  PlanePoint<C> point;
  point.fx = at.x - left;
  point.fy = at.y - top;
  point.offset = row * static_cast<std::int32_t>(args.image_strides[2]) + column;
  const bool rows[2] = {static_cast<std::uint32_t>(row) < static_cast<std::uint32_t>(args.height),
                        static_cast<std::uint32_t>(row + 1) < static_cast<std::uint32_t>(args.height)};
  const bool columns[2] = {static_cast<std::uint32_t>(column) < static_cast<std::uint32_t>(args.width),
                           static_cast<std::uint32_t>(column + 1) < static_cast<std::uint32_t>(args.width)};
#pragma unroll
  for (int i = 0; i < 4; ++i) point.inside[i] = rows[i / 2] && columns[i % 2];
  return point;
}

// The block's image, its chunk of channels and the thread's first pixel.
struct PlanePlace {
  std::uint32_t image;
  std::uint32_t chunk;
  std::uint32_t pixel;

  template <class T>
  __device__ __forceinline__ explicit PlanePlace(const SamplerArgs<T>& args) {
    std::uint32_t tile;
    const std::uint32_t rest = args.tiles_of.divmod(blockIdx.x, &tile);
    image = args.chunks_of.divmod(rest, &chunk);
    pixel = tile * (kSamplerThreads * kPlanePixels<T> * kPlaneRounds) + threadIdx.x;
  }
};

// The grid pairs of the pixels from `pixel` on; of the last one where there are no more.
template <class T>
__device__ __forceinline__ void load_pairs(const SamplerArgs<T>& args, std::uint32_t image, std::uint32_t pixel,
                                           tile::Pack<T, 2> (&pairs)[kPlanePixels<T>]) {
#pragma unroll
  for (int u = 0; u < kPlanePixels<T>; ++u) {
    const std::uint32_t at = pixel + u * kSamplerThreads;
    pairs[u] = load_grid(args, image, at < args.pixels ? at : args.pixels - 1);
  }
}

// visit(pixel, points) for the thread's pixels, kPlanePixels at a time, whether they exist or not.
template <class T, class Visit>
__device__ __forceinline__ void for_each_points(const SamplerArgs<T>& args, const PlanePlace& place, Visit&& visit) {
  std::uint32_t pixel = place.pixel;
  tile::Pack<T, 2> pairs[kPlanePixels<T>];
  load_pairs(args, place.image, pixel, pairs);
#pragma unroll 1
  for (int round = 0; round < kPlaneRounds; ++round) {
    const std::uint32_t following = pixel + kPlanePixels<T> * kSamplerThreads;
    tile::Pack<T, 2> next[kPlanePixels<T>];
    load_pairs(args, place.image, following, next);
    PlanePoint<tile::Compute<T>> points[kPlanePixels<T>];
#pragma unroll
    for (int u = 0; u < kPlanePixels<T>; ++u) points[u] = locate_in_plane(args, pairs[u]);
    visit(pixel, points);
    pixel = following;
#pragma unroll
    for (int u = 0; u < kPlanePixels<T>; ++u) pairs[u] = next[u];
  }
}

// kMany channels of the thread's pixels, from plane x on.
template <int kMany, class T>
__device__ __forceinline__ void load_planes(const SamplerArgs<T>& args, const T* x,
                                            const PlanePoint<tile::Compute<T>> (&points)[kPlanePixels<T>],
                                            T (&corners)[kMany][kPlanePixels<T>][4]) {
  const auto row = static_cast<std::int32_t>(args.image_strides[2]);
#pragma unroll
  for (int c = 0; c < kMany; ++c) {
#pragma unroll
    for (int u = 0; u < kPlanePixels<T>; ++u) {
      const T* const upper = x + points[u].offset;
      const T* const lower = upper + row;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        corners[c][u][i] = tile::narrow<T>(tile::Compute<T>(0));
        if (points[u].inside[i]) corners[c][u][i] = (i / 2 == 0 ? upper : lower)[i % 2];
      }
    }
    x += args.image_strides[1];
  }
}

template <int kMany, class T>
__device__ __forceinline__ void sample_planes(const SamplerArgs<T>& args, const T* x, T* y, std::uint32_t pixel,
                                              const PlanePoint<tile::Compute<T>> (&points)[kPlanePixels<T>],
                                              const tile::Compute<T> (&weights)[kPlanePixels<T>][4]) {
  using C = tile::Compute<T>;
  T corners[kMany][kPlanePixels<T>][4];
  load_planes(args, x, points, corners);
#pragma unroll
  for (int c = 0; c < kMany; ++c) {
#pragma unroll
    for (int u = 0; u < kPlanePixels<T>; ++u) {
      if (pixel + u * kSamplerThreads >= args.pixels) break;
      T* const to = y + pixel + u * kSamplerThreads;
      C result = C(0);
#pragma unroll
      for (int i = 0; i < 4; ++i) result += weights[u][i] * tile::widen<C>(corners[c][u][i]);
      if (args.reads_out) result += args.beta * tile::widen<C>(*to);
      *to = tile::narrow<T>(result);
    }
    y += args.sample_strides[1];
  }
}

// `left` channels of the pixels from `pixel` on.
template <class T>
__device__ __forceinline__ void sample_points(const SamplerArgs<T>& args, const T* x, T* y, std::uint32_t left,
                                              std::uint32_t pixel,
                                              const PlanePoint<tile::Compute<T>> (&points)[kPlanePixels<T>]) {
  using C = tile::Compute<T>;
  constexpr int kPixels = kPlanePixels<T>;
  bool any = args.reads_out;
#pragma unroll
  for (int u = 0; u < kPixels; ++u) any = any || points[u].any();
  if (!any) {  // often whole warps
#pragma unroll 1
    for (; left > 0; --left) {
#pragma unroll
      for (int u = 0; u < kPixels; ++u) {
        if (pixel + u * kSamplerThreads < args.pixels) y[pixel + u * kSamplerThreads] = tile::narrow<T>(C(0));
      }
      y += args.sample_strides[1];
    }
    return;
  }
  C weights[kPixels][4];
#pragma unroll
  for (int u = 0; u < kPixels; ++u) {
    const C upper = args.alpha * (C(1) - points[u].fy);
    const C lower = args.alpha * points[u].fy;
    weights[u][0] = upper * (C(1) - points[u].fx);
    weights[u][1] = upper * points[u].fx;
    weights[u][2] = lower * (C(1) - points[u].fx);
    weights[u][3] = lower * points[u].fx;
    // A point outside has no place between corners, and may be infinitely far off them.
#pragma unroll
    for (int i = 0; i < 4; ++i) weights[u][i] = points[u].inside[i] ? weights[u][i] : C(0);
  }
#pragma unroll 1
  for (; left >= kPlaneChannels; left -= kPlaneChannels) {
    sample_planes<kPlaneChannels>(args, x, y, pixel, points, weights);
    x += kPlaneChannels * args.image_strides[1];
    y += kPlaneChannels * args.sample_strides[1];
  }
  if (left == 3) {
    sample_planes<3>(args, x, y, pixel, points, weights);
  } else if (left == 2) {
    sample_planes<2>(args, x, y, pixel, points, weights);
  } else if (left == 1) {
    sample_planes<1>(args, x, y, pixel, points, weights);
  }
}

template <class T>
__global__ void __launch_bounds__(kSamplerThreads, sizeof(T) == 8 ? 2 : 3)
    sampler_forward_planes(const __grid_constant__ SamplerArgs<T> args) {
  const PlanePlace place(args);
  const auto chunk = static_cast<std::uint32_t>(args.chunk);
  const std::uint32_t begin = place.chunk * chunk;
  const auto channels = static_cast<std::uint32_t>(args.channels);
  const std::uint32_t count = channels - begin < chunk ? channels - begin : chunk;
  const T* const x = args.x + place.image * args.image_strides[0] + begin * args.image_strides[1];
  T* const y = args.out + place.image * args.sample_strides[0] + begin * args.sample_strides[1];
  for_each_points(args, place,
                  [&](std::uint32_t pixel, const auto& points) { sample_points(args, x, y, count, pixel, points); });
}

// Adds what kMany channels give to the sums of dy times the slopes along columns and rows.
template <int kMany, class T>
__device__ __forceinline__ void add_plane_slopes(const SamplerArgs<T>& args, const T* x, const T* dy,
                                                 std::uint32_t pixel,
                                                 const PlanePoint<tile::Compute<T>> (&points)[kPlanePixels<T>],
                                                 tile::Compute<T> (&along)[kPlanePixels<T>][2]) {
  using C = tile::Compute<T>;
  T corners[kMany][kPlanePixels<T>][4];
  T slopes[kMany][kPlanePixels<T>];
#pragma unroll
  for (int c = 0; c < kMany; ++c) {
#pragma unroll
    for (int u = 0; u < kPlanePixels<T>; ++u) {
      slopes[c][u] = tile::narrow<T>(C(0));
      if (points[u].any()) slopes[c][u] = dy[c * args.sample_strides[1] + pixel + u * kSamplerThreads];
    }
  }
  load_planes(args, x, points, corners);
#pragma unroll
  for (int c = 0; c < kMany; ++c) {
#pragma unroll
    for (int u = 0; u < kPlanePixels<T>; ++u) {
      const C d = tile::widen<C>(slopes[c][u]);
      C v[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) v[i] = tile::widen<C>(corners[c][u][i]);
      along[u][0] += d * ((v[1] - v[0]) * (C(1) - points[u].fy) + (v[3] - v[2]) * points[u].fy);
      along[u][1] += d * ((v[2] - v[0]) * (C(1) - points[u].fx) + (v[3] - v[1]) * points[u].fx);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kSamplerThreads, sizeof(T) == 8 ? 2 : 3)
    sampler_grid_gradient_planes(const __grid_constant__ SamplerArgs<T> args) {
  using C = tile::Compute<T>;
  constexpr int kPixels = kPlanePixels<T>;
  const PlanePlace place(args);
  for_each_points(args, place, [&](std::uint32_t pixel, auto& points) {
    C along[kPixels][2] = {};
    bool any = false;
#pragma unroll
    for (int u = 0; u < kPixels; ++u) {
      const bool exists = pixel + u * kSamplerThreads < args.pixels;
#pragma unroll
      for (bool& inside : points[u].inside) inside = inside && exists;
      any = any || points[u].any();
      // A point outside has no place between corners, and may be infinitely far off them.
      points[u].fx = points[u].any() ? points[u].fx : C(0);
      points[u].fy = points[u].any() ? points[u].fy : C(0);
    }
    if (any) {
      auto left = static_cast<std::uint32_t>(args.channels);
      const T* x = args.x + place.image * args.image_strides[0];
      const T* dy = args.dy + place.image * args.sample_strides[0];
#pragma unroll 1
      for (; left >= kPlaneChannels; left -= kPlaneChannels) {
        add_plane_slopes<kPlaneChannels>(args, x, dy, pixel, points, along);
        x += kPlaneChannels * args.image_strides[1];
        dy += kPlaneChannels * args.sample_strides[1];
      }
      if (left == 3) {
        add_plane_slopes<3>(args, x, dy, pixel, points, along);
      } else if (left == 2) {
        add_plane_slopes<2>(args, x, dy, pixel, points, along);
      } else if (left == 1) {
        add_plane_slopes<1>(args, x, dy, pixel, points, along);
      }
    }
#pragma unroll
    for (int u = 0; u < kPixels; ++u) {
      const std::uint32_t at = pixel + u * kSamplerThreads;
      if (at >= args.pixels) break;
      store_grid_gradient(args, args.out + (static_cast<std::int64_t>(place.image) * args.pixels + at) * 2, along[u]);
    }
  });
}

}  // namespace gpudnn::kernels
