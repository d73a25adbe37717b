// The sampler and the gradient of its grid where the rows of images and samples are contiguous (NCHW): the same sums as
// in sampler.cu, with the arithmetic of places cut down, since with few channels that is what takes the time.
// SPDX-License-Identifier: Apache-2.0
//
// A thread takes one pixel, in few registers, so that a multiprocessor holds 1536 of them, forward 2048: most points of
// a random map lie outside the image, and what their threads do is to wait for the grid. (Two or four pixels a thread
// with the grid fetched ahead take 6 to 10 % longer, as fewer threads fit.) The grid's lines for the blocks that come
// next are asked for besides, into the L2.
//
// A warp takes a block of 16 x 2 or 8 x 4 pixels where the image's elements are read more often than its own are
// written: a map that turns the image round makes a strip of 32 x 1 pixels touch up to 32 lines with each load.
//
// Offsets within an image fit 32 bits, and a corner's right neighbour is at the next address: a channel costs two
// addresses, four loads, four products and a store. A point outside the image is moved to column -2, where the
// comparisons that each corner needs anyway leave all four out; so there are no branches but one around the loads of
// points outside. Instructions for a pixel of 3 channels: about 60 for its place and 18 a channel; 440 before.
#pragma once

#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/ptx/prefetch_l2.cuh"
#include "kernels/spatial_transformer/sampler.cuh"

namespace gpudnn::kernels {

constexpr int kForwardBlocks = 8;  // of a multiprocessor
constexpr int kPlaneBlocks = 6;    // of the gradient's
constexpr int kPlaneChannels = 3;  // whose loads are in flight together; what is left goes one by one

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
  const ImagePosition<C> at = position_of(args, pair);
  // Where it is outside, the place between corners means nothing and may be infinite.
  const C left = floor(at.inside ? at.x : C(-2));
  const C top = floor(at.inside ? at.y : C(0));
  const auto column = static_cast<std::int32_t>(left);
  const auto row = static_cast<std::int32_t>(top);
  PlanePoint<C> point;
  point.fx = at.inside ? at.x - left : C(0);
  point.fy = at.inside ? at.y - top : C(0);
  point.offset = row * static_cast<std::int32_t>(args.image_strides[2]) + column;
  const bool rows[2] = {static_cast<std::uint32_t>(row) < static_cast<std::uint32_t>(args.height),
                        static_cast<std::uint32_t>(row + 1) < static_cast<std::uint32_t>(args.height)};
  const bool columns[2] = {static_cast<std::uint32_t>(column) < static_cast<std::uint32_t>(args.width),
                           static_cast<std::uint32_t>(column + 1) < static_cast<std::uint32_t>(args.width)};
#pragma unroll
  for (int i = 0; i < 4; ++i) point.inside[i] = rows[i / 2] && columns[i % 2];
  return point;
}

// The thread's image, chunk of channels and pixel, which may not exist.
struct PlanePlace {
  std::uint32_t image;
  std::uint32_t chunk;
  std::uint32_t pixel;
  std::uint32_t along;  // pixels of the warp's row before it
  bool exists;

  template <class T>
  __device__ __forceinline__ explicit PlanePlace(const SamplerArgs<T>& args) {
    std::uint32_t tile;
    const std::uint32_t rest = args.tiles_of.divmod(blockIdx.x, &tile);
    image = args.chunks_of.divmod(rest, &chunk);
    std::uint32_t warp_x;
    const std::uint32_t warp_y = args.warps_across.divmod((tile * kSamplerThreads + threadIdx.x) / 32, &warp_x);
    const std::uint32_t lane = threadIdx.x % 32;
    along = lane & ((1u << args.across_bits) - 1u);
    const std::uint32_t column = (warp_x << args.across_bits) + along;
    const std::uint32_t row = (warp_y << (5 - args.across_bits)) + (lane >> args.across_bits);
    exists = column < args.plane_width && row < args.plane_height;
    pixel = row * args.plane_width + column;
  }
};

template <class T>
__device__ __forceinline__ PlanePoint<tile::Compute<T>> locate_pixel(const SamplerArgs<T>& args,
                                                                     const PlanePlace& place) {
  constexpr std::uint32_t kLine = 128 / (2 * sizeof(T));  // pixels
  if (place.along % kLine == 0) {
    const std::int64_t next = static_cast<std::int64_t>(place.image) * args.pixels + place.pixel + args.pixels_ahead;
    if (next < args.all_pixels) ptx::prefetch_l2(args.grid + next * 2);
  }
  return locate_in_plane(args, load_grid(args, place.image, place.pixel));
}

// kMany channels of a point, from plane x on.
template <int kMany, class T>
__device__ __forceinline__ void load_planes(const SamplerArgs<T>& args, const T* x,
                                            const PlanePoint<tile::Compute<T>>& point, T (&corners)[kMany][4]) {
  const auto row = static_cast<std::int32_t>(args.image_strides[2]);
#pragma unroll
  for (int c = 0; c < kMany; ++c) {
    const T* const upper = x + point.offset;
    const T* const lower = upper + row;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      corners[c][i] = tile::narrow<T>(tile::Compute<T>(0));
      if (point.inside[i]) corners[c][i] = (i / 2 == 0 ? upper : lower)[i % 2];
    }
    x += args.image_strides[1];
  }
}

template <int kMany, class T>
__device__ __forceinline__ void sample_planes(const SamplerArgs<T>& args, const T* x, T* y,
                                              const PlanePoint<tile::Compute<T>>& point,
                                              const tile::Compute<T> (&weights)[4]) {
  using C = tile::Compute<T>;
  T corners[kMany][4];
  load_planes(args, x, point, corners);
#pragma unroll
  for (int c = 0; c < kMany; ++c) {
    C result = C(0);
#pragma unroll
    for (int i = 0; i < 4; ++i) result += weights[i] * tile::widen<C>(corners[c][i]);
    if (args.reads_out) result += args.beta * tile::widen<C>(*y);
    *y = tile::narrow<T>(result);
    y += args.sample_strides[1];
  }
}

template <class T>
__global__ void __launch_bounds__(kSamplerThreads, kForwardBlocks)
    sampler_forward_planes(const __grid_constant__ SamplerArgs<T> args) {
  using C = tile::Compute<T>;
  const PlanePlace place(args);
  if (!place.exists) return;
  const PlanePoint<C> point = locate_pixel(args, place);
  const auto chunk = static_cast<std::uint32_t>(args.chunk);
  const std::uint32_t begin = place.chunk * chunk;
  const auto channels = static_cast<std::uint32_t>(args.channels);
  std::uint32_t left = channels - begin < chunk ? channels - begin : chunk;
  T* y = args.out + place.image * args.sample_strides[0] + begin * args.sample_strides[1] + place.pixel;
  if (!point.any() && !args.reads_out) {  // often whole warps
#pragma unroll 1
    for (; left > 0; --left) {
      *y = tile::narrow<T>(C(0));
      y += args.sample_strides[1];
    }
    return;
  }
  const T* x = args.x + place.image * args.image_strides[0] + begin * args.image_strides[1];
  const C upper = args.alpha * (C(1) - point.fy);
  const C lower = args.alpha * point.fy;
  const C weights[4] = {upper * (C(1) - point.fx), upper * point.fx, lower * (C(1) - point.fx), lower * point.fx};
#pragma unroll 1
  for (; left >= kPlaneChannels; left -= kPlaneChannels) {
    sample_planes<kPlaneChannels>(args, x, y, point, weights);
    x += kPlaneChannels * args.image_strides[1];
    y += kPlaneChannels * args.sample_strides[1];
  }
#pragma unroll 1
  for (; left > 0; --left) {
    sample_planes<1>(args, x, y, point, weights);
    x += args.image_strides[1];
    y += args.sample_strides[1];
  }
}

// Adds what kMany channels give to the sums of dy times the slopes along columns and rows.
template <int kMany, class T>
__device__ __forceinline__ void add_plane_slopes(const SamplerArgs<T>& args, const T* x, const T* dy,
                                                 const PlanePoint<tile::Compute<T>>& point,
                                                 tile::Compute<T> (&along)[2]) {
  using C = tile::Compute<T>;
  T corners[kMany][4];
  T slopes[kMany];
#pragma unroll
  for (int c = 0; c < kMany; ++c) slopes[c] = dy[c * args.sample_strides[1]];
  load_planes(args, x, point, corners);
#pragma unroll
  for (int c = 0; c < kMany; ++c) {
    const C d = tile::widen<C>(slopes[c]);
    C v[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) v[i] = tile::widen<C>(corners[c][i]);
    along[0] += d * ((v[1] - v[0]) * (C(1) - point.fy) + (v[3] - v[2]) * point.fy);
    along[1] += d * ((v[2] - v[0]) * (C(1) - point.fx) + (v[3] - v[1]) * point.fx);
  }
}

template <class T>
__global__ void __launch_bounds__(kSamplerThreads, kPlaneBlocks)
    sampler_grid_gradient_planes(const __grid_constant__ SamplerArgs<T> args) {
  using C = tile::Compute<T>;
  const PlanePlace place(args);
  if (!place.exists) return;
  const PlanePoint<C> point = locate_pixel(args, place);
  C along[2] = {};
  if (point.any()) {
    auto left = static_cast<std::uint32_t>(args.channels);
    const T* x = args.x + place.image * args.image_strides[0];
    const T* dy = args.dy + place.image * args.sample_strides[0] + place.pixel;
#pragma unroll 1
    for (; left >= kPlaneChannels; left -= kPlaneChannels) {
      add_plane_slopes<kPlaneChannels>(args, x, dy, point, along);
      x += kPlaneChannels * args.image_strides[1];
      dy += kPlaneChannels * args.sample_strides[1];
    }
#pragma unroll 1
    for (; left > 0; --left) {
      add_plane_slopes<1>(args, x, dy, point, along);
      x += args.image_strides[1];
      dy += args.sample_strides[1];
    }
  }
  ptx::griddepcontrol_wait();  // the gradient's memory was lent to the kernels before
  store_grid_gradient(args, args.out + (static_cast<std::int64_t>(place.image) * args.pixels + place.pixel) * 2, along);
}

}  // namespace gpudnn::kernels
