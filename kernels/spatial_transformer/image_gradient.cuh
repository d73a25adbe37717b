// The gradient of the sampled image, in a form that needs neither atomic additions of floats nor a workspace.
// SPDX-License-Identifier: Apache-2.0
//
//   dx[n, c, q] = alpha * sum over sample points p and corners i with corner_i(p) = q of w_i(p) dy[n, c, p] + beta * dx
//
// The sum over p is a scatter with a grid that can be anything, so it is turned around: a block owns a tile of 16 x 16
// pixels q of one image (32 x 8 where channels are contiguous) and looks for the points that fall into it.
//
// (1) Ranges, by a kernel of its own. The grid is cut into patches of 8 x 8 points and those into at most 1024 boxes
// (single patches of a small grid); for each patch and box the range of image tiles that its points touch goes to
// memory that the caller lends: 8 bytes each. Neighbouring points of a grid in use sample neighbouring pixels, so an
// image tile is touched by few patches. A grid without order, or a caller without memory, degrades to a walk over all
// of the grid for each tile, nothing worse.
//
// Then, with few channels, a warp for each image tile lists the patches that touch it: tiles without any become 0 there
// and then, the others are taken from queues, those of most patches first (tile_queue.cuh).
//
// (2) Visit. The boxes whose range holds the image tile are listed in order, of their patches those whose range does;
// the points are located, 512 at a time, and those whose cell (the pixel of their first corner) lies in the tile or one
// left of or above it are kept.
//
// (3) Sort. A counting sort brings the kept points into the order of the cells. Integer atomics count and place them;
// then each gets its rank by number within its cell, so the order does not depend on the atomics.
//
// (4) Gather. A pixel's points are those of four cells, which are two runs of the sorted list. Either each thread owns
// a pixel and adds up some channels of it in registers, of points whose dy was brought to shared memory once for all of
// their corners, or, where channels are contiguous and one sort holds the tile's points, the lanes of a warp take the
// channels of one pixel.
//
// So dx is written once, rounded once, and every sum has a fixed order: cells by row, points by number, in the rounds
// of (2), which the grid alone decides.
//
// Small tiles, since a map of a small determinant sends all of its points to few of them, and their blocks are what the
// kernel waits for in the end. Cost for N images of Q pixels and grids of P points: about P to 2 P points are located,
// whatever Q is. A grid that sends all points to one pixel makes one thread do its whole sum. Bytes of the floor: dy
// and the grid in, dx out.
#pragma once

#include "kernels/spatial_transformer/tile_points.cuh"
#include "kernels/tile/dynamic_shared.cuh"

namespace gpudnn::kernels {

// The points of a pixel: two runs of the sorted list, those of the cells in the row above and in its own; in each,
// first the cell to the left.
struct PixelPoints {
  int begin[2];
  int middle[2];
  int above;  // points in the row above
  int count;

  template <class Shared>
  __device__ __forceinline__ PixelPoints(const Shared& shared, int row, int column) {
    const int* const up = shared.start + row * Shared::kCellsAcross + column;
    const int* const here = up + Shared::kCellsAcross;
    begin[0] = up[0];
    middle[0] = up[1];
    above = up[2] - up[0];
    begin[1] = here[0] - above;  // of point k as that of point `above`
    middle[1] = here[1];
    count = above + here[2] - here[0];
  }
  // Of those the ones at places from `from` to `to` of the list.
  __device__ __forceinline__ void keep(int from, int to) {
    const int here = begin[1] + above;
    const int first[2] = {max(begin[0], from), max(here, from)};
    const int last[2] = {min(begin[0] + above, to), min(here + count - above, to)};
    above = max(last[0] - first[0], 0);
    count = above + max(last[1] - first[1], 0);
    begin[0] = first[0];
    begin[1] = first[1] - above;
  }
  // The place in the list of point k of the pixel, and its weight.
  template <class Shared, class C>
  __device__ __forceinline__ int get(const Shared& shared, int k, C* weight) const {
    const bool is_above = k < above;
    const int at = k + (is_above ? begin[0] : begin[1]);
    const C fx = shared.fx[at];
    const C fy = shared.fy[at];
    *weight = (is_above ? fy : C(1) - fy) * (at < (is_above ? middle[0] : middle[1]) ? fx : C(1) - fx);
    return at;
  }
};

// alpha * sums + beta * dx, N channels.
template <class T, int N>
__device__ __forceinline__ void write_gradient(const SamplerArgs<T>& args, T* place,
                                               const tile::Compute<T> (&sums)[N]) {
  using C = tile::Compute<T>;
  C result[N];
#pragma unroll
  for (int j = 0; j < N; ++j) result[j] = args.alpha * sums[j];
  if (args.reads_out) {
    C old[N];
    tile::widen_pack<C>(tile::load_pack<T, N>(place), old);
#pragma unroll
    for (int j = 0; j < N; ++j) result[j] += args.beta * old[j];
  }
  tile::store_pack<T, N>(place, tile::narrow_pack<T>(result));
}

// Tile `tile_number` of an image; lists the boxes that it visits, unless its patches are listed. All threads take part.
template <class T, class Shared>
__device__ __forceinline__ GradientTask begin_tile(const ImageGradientArgs<T>& args, Shared& shared,
                                                   std::uint32_t image, std::uint32_t chunk, std::uint32_t tile_number,
                                                   bool is_listed) {
  GradientTask task;
  TileSearch& search = task.search;
  search.image = image;
  std::uint32_t tile_x;
  const std::uint32_t tile_y = args.tiles_across.divmod(tile_number, &tile_x);
  search.top = static_cast<std::int32_t>(tile_y * Shared::kTileHeight);
  search.left = static_cast<std::int32_t>(tile_x * Shared::kTileWidth);
  const TileRange* const ranges =
      args.box_ranges == nullptr ? nullptr : args.box_ranges + std::int64_t{image} * args.boxes.count;
  search.patches = 0;
  if (!is_listed) {
    const std::uint32_t visits = list_visits(shared, ranges, args.boxes.count, search.template tile_x<Shared>(),
                                             search.template tile_y<Shared>());
    search.patches = visits << (args.boxes.shift_x + args.boxes.shift_y);
  }
  const SamplerArgs<T>& sampler = args.sampler;
  task.first_channel = chunk * static_cast<std::uint32_t>(sampler.chunk);
  task.end_channel = static_cast<std::uint32_t>(sampler.channels);
  if (task.end_channel - task.first_channel > sampler.chunk) {
    task.end_channel = task.first_channel + static_cast<std::uint32_t>(sampler.chunk);
  }
  return task;
}

// The block's own tile.
template <class T, class Shared>
__device__ __forceinline__ GradientTask begin_task(const ImageGradientArgs<T>& args, Shared& shared) {
  const std::uint32_t image = blockIdx.x / args.blocks;
  std::uint32_t tile_number;
  const std::uint32_t chunk = args.tiles.divmod(blockIdx.x - image * args.blocks, &tile_number);
  return begin_tile(args, shared, image, chunk, tile_number, false);
}

// A pixel of the tile.
template <class T, class Shared>
struct GradientPixel {
  bool exists;
  T* to;  // its first channel

  __device__ __forceinline__ GradientPixel(const SamplerArgs<T>& args, const TileSearch& search, int pixel) {
    const std::int32_t row = search.top + pixel / Shared::kTileWidth;
    const std::int32_t column = search.left + pixel % Shared::kTileWidth;
    exists = row < args.height && column < args.width;
    to = args.out + std::int64_t{search.image} * args.image_strides[0] + row * args.image_strides[2] +
         column * args.image_strides[3];
  }
};
// (4) with the lanes of a warp along the channels of a pixel, N each.
template <class T, int N, class Shared>
__device__ __forceinline__ void gather_by_lanes(const ImageGradientArgs<T>& all, const Shared& shared,
                                                const GradientTask& task) {
  using C = tile::Compute<T>;
  const SamplerArgs<T>& args = all.sampler;
  const int lane = static_cast<int>(threadIdx.x) % args.lanes;
  const int together = kSamplerThreads / args.lanes;
  const T* const dy = args.dy + std::int64_t{task.search.image} * args.sample_strides[0];
  T* const dx = args.out + std::int64_t{task.search.image} * args.image_strides[0];
  for (int pixel = static_cast<int>(threadIdx.x) / args.lanes; pixel < kSamplerThreads; pixel += together) {
    const std::int32_t row = task.search.top + pixel / Shared::kTileWidth;
    const std::int32_t column = task.search.left + pixel % Shared::kTileWidth;
    if (row >= args.height || column >= args.width) continue;
    const PixelPoints points(shared, pixel / Shared::kTileWidth, pixel % Shared::kTileWidth);
    T* const to = dx + row * args.image_strides[2] + column * args.image_strides[3];
    for (std::uint32_t c = task.first_channel + lane * N; c < task.end_channel; c += args.lanes * N) {
      C sums[N] = {};
#pragma unroll 4
      for (int k = 0; k < points.count; ++k) {
        C weight;
        const std::uint32_t p = shared.point[points.get(shared, k, &weight)];
        C values[N];
        tile::widen_pack<C>(tile::load_pack<T, N>(dy + point_offset(all, p) + c), values);
#pragma unroll
        for (int j = 0; j < N; ++j) sums[j] += weight * values[j];
      }
      write_gradient<T, N>(args, to + c, sums);
    }
  }
}

// (4) with a thread for each pixel and kChannels sums in its registers: adds up the points at hand, from memory.
template <class T, int N, int kChannels, class Shared>
__device__ __forceinline__ void gather_by_pixels(const ImageGradientArgs<T>& args, const Shared& shared, const T* dy,
                                                 std::uint32_t channels, tile::Compute<T> (&sums)[kChannels]) {
  using C = tile::Compute<T>;
  const PixelPoints points(shared, static_cast<int>(threadIdx.x) / Shared::kTileWidth,
                           static_cast<int>(threadIdx.x) % Shared::kTileWidth);
#pragma unroll 1
  for (int k = 0; k < points.count; ++k) {
    C weight;
    const T* const from = dy + point_offset(args, shared.point[points.get(shared, k, &weight)]);
    tile::Pack<T, N> packs[kChannels / N];
#pragma unroll
    for (int i = 0; i < kChannels / N; ++i) {
      if (i * N < channels) packs[i] = tile::load_pack<T, N>(from + i * N);
    }
#pragma unroll
    for (int i = 0; i < kChannels / N; ++i) {
      if (i * N < channels) {
        C values[N];
        tile::widen_pack<C>(packs[i], values);
#pragma unroll
        for (int j = 0; j < N; ++j) sums[i * N + j] += weight * values[j];
      }
    }
  }
}

// Packs of N neighbouring channels.
template <class T, int N, int kChannels>
__global__ void __launch_bounds__(kSamplerThreads, sizeof(tile::Compute<T>) == 8 ? 2 : 3)
    sampler_image_gradient_packs(const __grid_constant__ ImageGradientArgs<T> args) {
  using C = tile::Compute<T>;
  static_assert(kChannels % N == 0, "a chunk of channels is whole packs");
  using Shared = ImageGradientShared<C, 0>;
  auto& shared = *reinterpret_cast<Shared*>(tile::dynamic_shared());
  const SamplerArgs<T>& sampler = args.sampler;
  const GradientTask task = begin_task(args, shared);
  PatchWalk walk;
  collect(args, shared, task.search, &walk);
  sort_by_cell(shared);
  if (walk.is_at_end(task.search.patches)) {
    gather_by_lanes<T, N>(args, shared, task);
    return;
  }
  const GradientPixel<T, Shared> pixel(sampler, task.search, static_cast<int>(threadIdx.x));
  for (std::uint32_t c = task.first_channel; c < task.end_channel; c += kChannels) {
    C sums[kChannels] = {};
    const std::uint32_t channels = task.end_channel - c;
    const T* const dy = sampler.dy + std::int64_t{task.search.image} * sampler.sample_strides[0] + c;
    if (c != task.first_channel) {  // else its first list is at hand
      walk = {};
      collect(args, shared, task.search, &walk);
      sort_by_cell(shared);
    }
    while (true) {
      gather_by_pixels<T, N>(args, shared, dy, channels, sums);
      if (walk.is_at_end(task.search.patches)) break;
      collect(args, shared, task.search, &walk);
      sort_by_cell(shared);
    }
    if (!pixel.exists) continue;
#pragma unroll
    for (int i = 0; i < kChannels; i += N) {
      if (static_cast<std::uint32_t>(i) < channels) {
        C part[N];
#pragma unroll
        for (int j = 0; j < N; ++j) part[j] = sums[i + j];
        write_gradient<T, N>(sampler, pixel.to + c + i, part);
      }
    }
  }
}

}  // namespace gpudnn::kernels
