// Which tiles of the image the patches and boxes of a grid touch: step (1) of the image's gradient, which
// image_gradient.cuh describes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/spatial_transformer/tile_points.cuh"

namespace gpudnn::kernels {

// Cells that a lane's points lie in.
struct CellRange {
  std::int32_t least_x = 0x7fffffff, most_x = -2;
  std::int32_t least_y = 0x7fffffff, most_y = -2;

  template <class C>
  __device__ __forceinline__ void add(const ImagePosition<C>& at) {
    if (!at.inside) return;
    const auto x = static_cast<std::int32_t>(floor(at.x));
    const auto y = static_cast<std::int32_t>(floor(at.y));
    least_x = min(least_x, x), most_x = max(most_x, x);
    least_y = min(least_y, y), most_y = max(most_y, y);
  }
  // Over the warp's lanes, as tiles of an image of height x width.
  __device__ __forceinline__ TileRange tiles(std::int32_t height, std::int32_t width, std::int32_t tile_height,
                                             std::int32_t tile_width) const {
    const auto number = [](std::int32_t pixel, std::int32_t extent) {
      const std::int32_t tile = pixel / extent;
      return static_cast<std::uint16_t>(tile < kMaxTileNumber ? tile : kMaxTileNumber);
    };
    const std::int32_t left = least_of_warp(least_x);
    const std::int32_t right = most_of_warp(most_x);
    const std::int32_t top = least_of_warp(least_y);
    const std::int32_t bottom = most_of_warp(most_y);
    if (right < left) return {1, 0, 1, 0};
    return {number(left < 0 ? 0 : left, tile_width), number(right + 1 < width ? right + 1 : width - 1, tile_width),
            number(top < 0 ? 0 : top, tile_height), number(bottom + 1 < height ? bottom + 1 : height - 1, tile_height)};
  }
};

// The lane's points of a patch.
template <class T>
struct PatchPoints {
  ImagePosition<tile::Compute<T>> at[2];

  __device__ __forceinline__ PatchPoints(const ImageGradientArgs<T>& args, std::int64_t image, std::uint32_t patch) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t p = point_of_patch(args, patch, half);
      at[half] = {};
      if (p != kNoPoint) at[half] = position_of_pixel(args.sampler, image, p);
    }
  }
  // What the patch touches; `whole` takes it in besides.
  __device__ __forceinline__ TileRange range(const ImageGradientArgs<T>& args, CellRange* whole) const {
    CellRange range;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      range.add(at[half]);
      whole->add(at[half]);
    }
    return range.tiles(args.sampler.height, args.sampler.width, args.tile_height, args.tile_width);
  }
};

// (1): a warp for each patch where those are the boxes, else a block for each box.
template <class T>
__global__ void __launch_bounds__(kSamplerThreads)
    sampler_boxes(const __grid_constant__ ImageGradientArgs<T> args, TileRange* box_ranges, TileRange* patch_ranges) {
  __shared__ TileRange of_warps[kWarps];
  const std::uint32_t boxes = args.boxes.count;
  const std::uint32_t shift = args.boxes.shift_x + args.boxes.shift_y;
  if (args.space.queues != nullptr && blockIdx.x == 0 && threadIdx.x < sizeof(TileQueues) / sizeof(std::uint32_t)) {
    reinterpret_cast<std::uint32_t*>(args.space.queues)[threadIdx.x] = 0;  // filled by the next kernel
  }
  CellRange whole;
  if (shift == 0) {
    const std::uint32_t blocks = (boxes + kWarps - 1) / kWarps;
    const std::int64_t image = blockIdx.x / blocks;
    const std::uint32_t box = blockIdx.x % blocks * kWarps + static_cast<std::uint32_t>(warp_of_block());
    if (box >= boxes) return;
    const TileRange range = PatchPoints<T>(args, image, box).range(args, &whole);
    if (lane_of_warp() == 0) box_ranges[image * boxes + box] = range;
    return;
  }
  const std::int64_t image = blockIdx.x / boxes;
  const std::uint32_t box = blockIdx.x % boxes;
  TileRange* const ranges = patch_ranges + (static_cast<std::int64_t>(blockIdx.x) << shift);
  // Two patches at a time, which divides the least number of them for each warp: their loads are in flight together.
  for (std::uint32_t patch = static_cast<std::uint32_t>(warp_of_block()); patch < 1u << shift; patch += 2 * kWarps) {
    const PatchPoints<T> first(args, image, (box << shift) + patch);
    const PatchPoints<T> second(args, image, (box << shift) + patch + kWarps);
    const TileRange ranges_of[2] = {first.range(args, &whole), second.range(args, &whole)};
    if (lane_of_warp() < 2) ranges[patch + lane_of_warp() * kWarps] = ranges_of[lane_of_warp() == 0 ? 0 : 1];
  }
  const TileRange range = whole.tiles(args.sampler.height, args.sampler.width, args.tile_height, args.tile_width);
  if (lane_of_warp() == 0) of_warps[warp_of_block()] = range;
  __syncthreads();
  if (threadIdx.x != 0) return;
  TileRange all{1, 0, 1, 0};
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) {
    const TileRange one = of_warps[warp];
    if (one.first_x > one.last_x) continue;
    const bool none = all.first_x > all.last_x;
    all.first_x = none || one.first_x < all.first_x ? one.first_x : all.first_x;
    all.last_x = none || one.last_x > all.last_x ? one.last_x : all.last_x;
    all.first_y = none || one.first_y < all.first_y ? one.first_y : all.first_y;
    all.last_y = none || one.last_y > all.last_y ? one.last_y : all.last_y;
  }
  box_ranges[blockIdx.x] = all;
}

}  // namespace gpudnn::kernels
