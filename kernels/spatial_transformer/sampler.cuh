// Where a grid point samples an image, and what the sampler's kernels share.
// SPDX-License-Identifier: Apache-2.0
//
// A grid value g in [-1, 1] is the column (g + 1) (W - 1) / 2 of the image: -1 and 1 are the centres of the first and
// the last column; rows likewise. The sample is the bilinear mean of the four pixels around it, of which those outside
// the image count as 0. A point a whole pixel or more outside, or at a NaN, samples nothing.
#pragma once

#include "kernels/spatial_transformer/spatial_transformer.hpp"
#include "kernels/tile/fast_divmod.cuh"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels {

constexpr int kSamplerThreads = 256;

template <class T>
struct SamplerArgs {
  const T* x;
  const T* grid;
  const T* dy;
  T* out;
  std::int64_t image_strides[4];
  std::int64_t sample_strides[4];
  std::int64_t channels;
  std::int32_t height;  // of the image
  std::int32_t width;
  std::uint32_t pixels;  // of the sample
  tile::FastDivmod sample_width;
  tile::Compute<T> alpha;
  tile::Compute<T> beta;
  bool reads_out;
  bool grid_pairs;       // the grid is aligned to its pairs
  bool out_pairs;        // so is its gradient
  std::uint32_t tiles;   // of pixels (forward, grid gradient) or of the image (image gradient), for each chunk
  std::uint32_t chunks;  // of channels
  std::int64_t chunk;    // channels in each
  int lanes;             // threads along the channels of one pixel: a power of two, at most 32
  // Forward and grid gradient: the same numbers in the form in which a block takes its own apart.
  tile::FastDivmod tiles_of;
  tile::FastDivmod chunks_of;
  int lane_bits;
  int run;  // pixels of a thread
  // sampler_planes.cuh: how warps lie on the sample, each 2^across_bits pixels wide, pixels of all images, and how far
  // ahead of its own a thread asks for the grid.
  std::uint32_t plane_width;
  std::uint32_t plane_height;
  tile::FastDivmod warps_across;
  int across_bits;
  std::int64_t all_pixels;
  std::int64_t pixels_ahead;
};

// Corner i is at (row + i / 2, column + i % 2).
template <class C>
struct SamplePoint {
  std::int32_t row = 0;
  std::int32_t column = 0;
  C fy = C(0);
  C fx = C(0);
  unsigned inside = 0;  // bit i: corner i lies in the image

  __device__ __forceinline__ C weight(int corner) const {
    return (corner / 2 != 0 ? fy : C(1) - fy) * (corner % 2 != 0 ? fx : C(1) - fx);
  }
};

// Where a grid value points to, in pixels.
template <class C>
struct ImagePosition {
  C x = C(0);
  C y = C(0);
  bool inside = false;  // less than a pixel outside the image, so that a corner may lie in it
};

template <class T>
__device__ __forceinline__ tile::Pack<T, 2> load_grid(const SamplerArgs<T>& args, std::int64_t image,
                                                      std::uint32_t pixel) {
  const T* const pair = args.grid + (image * args.pixels + pixel) * 2;
  if (args.grid_pairs) return tile::load_pack<T, 2>(pair);
  if constexpr (tile::kPackHasWords<T, 2>) {
    tile::Pack<T, 2> pack;
    pack.words[0] = tile::word_of(pair[0], pair[1]);
    return pack;
  } else {
    return {{pair[0], pair[1]}};
  }
}

template <class T>
__device__ __forceinline__ ImagePosition<tile::Compute<T>> position_of(const SamplerArgs<T>& args,
                                                                       const tile::Pack<T, 2>& pair) {
  using C = tile::Compute<T>;
  C g[2];
  tile::widen_pack<C>(pair, g);
  ImagePosition<C> at;
  at.x = (g[0] + C(1)) * (static_cast<C>(args.width - 1) * C(0.5));
  at.y = (g[1] + C(1)) * (static_cast<C>(args.height - 1) * C(0.5));
  // A NaN fails every comparison.
  at.inside = at.x > C(-1) && at.x < static_cast<C>(args.width) && at.y > C(-1) && at.y < static_cast<C>(args.height);
  return at;
}

template <class T>
__device__ __forceinline__ ImagePosition<tile::Compute<T>> position_of_pixel(const SamplerArgs<T>& args,
                                                                             std::int64_t image, std::uint32_t pixel) {
  return position_of(args, load_grid(args, image, pixel));
}

template <class T>
__device__ __forceinline__ SamplePoint<tile::Compute<T>> locate(const SamplerArgs<T>& args,
                                                                const tile::Pack<T, 2>& pair) {
  using C = tile::Compute<T>;
  SamplePoint<C> point;
  const ImagePosition<C> at = position_of(args, pair);
  if (!at.inside) return point;
  const C left = floor(at.x);
  const C top = floor(at.y);
  point.column = static_cast<std::int32_t>(left);
  point.row = static_cast<std::int32_t>(top);
  point.fx = at.x - left;
  point.fy = at.y - top;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::int32_t row = point.row + i / 2;
    const std::int32_t column = point.column + i % 2;
    if (row >= 0 && row < args.height && column >= 0 && column < args.width) point.inside |= 1u << i;
  }
  return point;
}

template <class T>
__device__ __forceinline__ void corner_offsets(const SamplerArgs<T>& args, std::int32_t row, std::int32_t column,
                                               std::int64_t (&offset)[4]) {
  offset[0] = row * args.image_strides[2] + column * args.image_strides[3];
  offset[1] = offset[0] + args.image_strides[3];
  offset[2] = offset[0] + args.image_strides[2];
  offset[3] = offset[2] + args.image_strides[3];
}

template <class T>
__device__ __forceinline__ std::int64_t sample_offset(const SamplerArgs<T>& args, std::uint32_t pixel) {
  std::uint32_t column;
  const std::uint32_t row = args.sample_width.divmod(pixel, &column);
  return row * args.sample_strides[2] + column * args.sample_strides[3];
}

// alpha * (the sums of dy times the slopes, turned into grid units) + beta * dgrid.
template <class T>
__device__ __forceinline__ void store_grid_gradient(const SamplerArgs<T>& args, T* out,
                                                    const tile::Compute<T> (&along)[2]) {
  using C = tile::Compute<T>;
  C gradient[2] = {along[0] * (static_cast<C>(args.width - 1) * C(0.5)) * args.alpha,
                   along[1] * (static_cast<C>(args.height - 1) * C(0.5)) * args.alpha};
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    if (args.reads_out) gradient[j] += args.beta * tile::widen<C>(out[j]);
  }
  if (args.out_pairs) {
    tile::store_pack<T, 2>(out, tile::narrow_pack<T>(gradient));
  } else {
    out[0] = tile::narrow<T>(gradient[0]);
    out[1] = tile::narrow<T>(gradient[1]);
  }
}

// The corners' elements; 0 outside the image, and if not `active`.
template <class T, int N>
__device__ __forceinline__ void load_corners(const T* x, const std::int64_t (&offset)[4], unsigned inside, bool active,
                                             tile::Pack<T, N> (&packs)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    packs[i] = {};
    if (active && (inside >> i & 1u) != 0) packs[i] = tile::load_pack<T, N>(x + offset[i]);
  }
}

}  // namespace gpudnn::kernels
