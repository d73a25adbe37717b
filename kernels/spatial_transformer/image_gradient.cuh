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

constexpr int kFewBlocks = 4;  // of a multiprocessor, few channels: they wait more than they compute

// A tile of one image and a range of channels.
struct GradientTask {
  TileSearch search;
  std::uint32_t first_channel;
  std::uint32_t end_channel;
};

// The block's own; lists the boxes that it visits. All threads take part.
template <class T, class Shared>
__device__ __forceinline__ GradientTask begin_task(const ImageGradientArgs<T>& args, Shared& shared) {
  GradientTask task;
  TileSearch& search = task.search;
  const std::uint32_t image = blockIdx.x / args.blocks;
  search.image = image;
  std::uint32_t tile_number;
  const std::uint32_t chunk = args.tiles.divmod(blockIdx.x - image * args.blocks, &tile_number);
  std::uint32_t tile_x;
  const std::uint32_t tile_y = args.tiles_across.divmod(tile_number, &tile_x);
  search.top = static_cast<std::int32_t>(tile_y * Shared::kTileHeight);
  search.left = static_cast<std::int32_t>(tile_x * Shared::kTileWidth);
  const TileRange* const ranges =
      args.box_ranges == nullptr ? nullptr : args.box_ranges + std::int64_t{image} * args.boxes.count;
  const std::uint32_t visits =
      list_visits(shared, ranges, args.boxes.count, search.template tile_x<Shared>(), search.template tile_y<Shared>());
  search.patches = visits << (args.boxes.shift_x + args.boxes.shift_y);
  const SamplerArgs<T>& sampler = args.sampler;
  task.first_channel = chunk * static_cast<std::uint32_t>(sampler.chunk);
  task.end_channel = static_cast<std::uint32_t>(sampler.channels);
  if (task.end_channel - task.first_channel > sampler.chunk) {
    task.end_channel = task.first_channel + static_cast<std::uint32_t>(sampler.chunk);
  }
  return task;
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

// Adds up points first, first + step, ... of a pixel: the channels that were staged with them.
template <class Shared, class C>
__device__ __forceinline__ void add_staged(const Shared& shared, const PixelPoints& points, int first, int step,
                                           C (&sums)[kFewStaged]) {
#pragma unroll 4
  for (int k = first; k < points.count; k += step) {
    C weight;
    const C* const staged = shared.staged + points.get(shared, k, &weight);
#pragma unroll
    for (int i = 0; i < kFewStaged; ++i) sums[i] += weight * staged[i * Shared::kPoints];
  }
}

// (4) from what was staged: each thread its own pixel, or, in a warp that has a pixel of many points,
// eight lanes one pixel after the other, each an eighth of its points.
template <class Shared, class C>
__device__ __forceinline__ void gather_staged(const Shared& shared, C (&sums)[kFewStaged]) {
  constexpr int kFewPoints = 24;
  const PixelPoints points(shared, static_cast<int>(threadIdx.x) / Shared::kTileWidth,
                           static_cast<int>(threadIdx.x) % Shared::kTileWidth);
  if (most_of_warp(points.count) <= kFewPoints) {
    add_staged(shared, points, 0, 1, sums);
    return;
  }
  constexpr int kLanes = 8;
  constexpr int kAtOnce = 32 / kLanes;
  const int lane = lane_of_warp();
#pragma unroll 1
  for (int pass = 0; pass < kLanes; ++pass) {
    const int pixel = warp_of_block() * 32 + pass * kAtOnce + lane / kLanes;
    C part[kFewStaged] = {};
    add_staged(shared, PixelPoints(shared, pixel / Shared::kTileWidth, pixel % Shared::kTileWidth), lane % kLanes,
               kLanes, part);
#pragma unroll
    for (int i = 0; i < kFewStaged; ++i) {
#pragma unroll
      for (int step = kLanes / 2; step > 0; step /= 2) part[i] += __shfl_xor_sync(0xffffffffu, part[i], step);
      const C whole = __shfl_sync(0xffffffffu, part[i], lane % kAtOnce * kLanes);
      if (lane / kAtOnce == pass) sums[i] += whole;
    }
  }
}

// Few channels, each by itself in memory.
template <class T>
__global__ void __launch_bounds__(kSamplerThreads, sizeof(tile::Compute<T>) == 8 ? 2 : kFewBlocks)
    sampler_image_gradient(const __grid_constant__ ImageGradientArgs<T> args) {
  using C = tile::Compute<T>;
  using Shared = ImageGradientShared<C, kFewStaged>;
  __shared__ Shared shared;
  const SamplerArgs<T>& sampler = args.sampler;
  const GradientTask task = begin_task(args, shared);
  bool complete = false;  // one list holds all of the tile's points, and it is at hand
  for (std::uint32_t c = task.first_channel; c < task.end_channel;
       c += kFewStaged) {  // all conditions are the same for the whole block
    C sums[kFewStaged] = {};
    const std::uint32_t channels = task.end_channel - c;
    const T* const dy =
        sampler.dy + std::int64_t{task.search.image} * sampler.sample_strides[0] + c * sampler.sample_strides[1];
    PatchWalk walk;
    bool more = task.search.patches > 0;  // many tiles have none
    while (more) {
      const bool fresh = !complete;
      more = false;
      if (fresh) {
        const bool from_start = walk.tested == 0;
        collect(args, shared, task.search, &walk);
        more = !walk.is_at_end(task.search.patches);
        complete = from_start && !more;
      } else {
        __syncthreads();  // the channels staged before have been gathered
      }
      if (shared.kept == 0) continue;
      const int thread = static_cast<int>(threadIdx.x);
      {
        StagedValues<T, 1> values;
        values.load(args, shared, dy, channels, thread);  // they come while the points are sorted
        if (fresh) sort_by_cell(shared);
        values.store(shared, channels, thread);
      }
      for (int first = thread + kSamplerThreads; first < shared.kept; first += 2 * kSamplerThreads) {
        StagedValues<T, 2> values;
        values.load(args, shared, dy, channels, first);
        values.store(shared, channels, first);
      }
      __syncthreads();
      gather_staged(shared, sums);
    }
    if (const GradientPixel<T, Shared> pixel(sampler, task.search, static_cast<int>(threadIdx.x)); pixel.exists) {
      T* const to = pixel.to + c * sampler.image_strides[1];
#pragma unroll
      for (int i = 0; i < kFewStaged; ++i) {
        if (static_cast<std::uint32_t>(i) < channels) {
          const C part[1] = {sums[i]};
          write_gradient<T, 1>(sampler, to + i * sampler.image_strides[1], part);
        }
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
