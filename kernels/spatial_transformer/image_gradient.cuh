// The gradient of the sampled image, in a form that needs neither atomic additions of floats nor a workspace.
// SPDX-License-Identifier: Apache-2.0
//
//   dx[n, c, q] = alpha * sum over sample points p and corners i with corner_i(p) = q of w_i(p) dy[n, c, p] + beta * dx
//
// The sum over p is a scatter with a grid that can be anything, so it is turned around: a block owns tiles of 32 x 8 or
// 32 x 32 pixels q of one image and looks for the points that fall into them.
//
// (1) Boxes, by a kernel of its own. The grid is cut into at most 1024 tiles (8 x 8 points, or more of a large grid),
// and for each the range of image tiles that its points touch goes to memory that the caller lends: 8 bytes a box.
// Neighbouring points of a grid in use sample neighbouring pixels, so an image tile is touched by few grid tiles. A
// grid without order, or a caller without memory, degrades to a walk over all of the grid for each tile, nothing worse.
//
// (2) Visit. The grid tiles whose range holds the image tile are listed in order; their points are located, 512 at a
// time, and those whose cell (the pixel of their first corner) lies in the tile or one left of or above it are kept.
//
// (3) Sort. A counting sort brings the kept points into the order of the cells. Integer atomics count and place them;
// then each moves to its rank by number within its cell, so the order does not depend on the atomics.
//
// (4) Gather. A pixel's points are those of four cells, which are two runs of the sorted list. Either each thread owns
// pixels and adds up some channels of each in registers, or, where channels are contiguous and one sort holds the
// tile's points, the lanes of a warp take the channels of one pixel.
//
// So dx is written once, rounded once, and every sum has a fixed order: cells by row, points by number, in the rounds
// of (2), which the grid alone decides.
//
// Cost for N images of Q pixels and grids of P points: about P to 2 P points are located, whatever Q is. A grid that
// sends all points to one pixel makes one thread do its whole sum. Bytes of the floor: dy and the grid in, dx out.
#pragma once

#include "kernels/spatial_transformer/tile_points.cuh"

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
    const int* const up = shared.start + row * kCellsAcross + column;
    const int* const here = up + kCellsAcross;
    begin[0] = up[0];
    middle[0] = up[1];
    above = up[2] - up[0];
    begin[1] = here[0] - above;  // of point k as that of point `above`
    middle[1] = here[1];
    count = above + here[2] - here[0];
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

// A tile of one image and a range of channels.
struct GradientTask {
  std::int64_t image;
  std::int32_t top;
  std::int32_t left;
  std::uint32_t first_channel;
  std::uint32_t end_channel;
};

// (4) with the lanes of a warp along the channels of a pixel, N each.
template <class T, int N, class Shared>
__device__ __forceinline__ void gather_by_lanes(const ImageGradientArgs<T>& all, const Shared& shared,
                                                const GradientTask& task) {
  using C = tile::Compute<T>;
  const SamplerArgs<T>& args = all.sampler;
  const int lane = static_cast<int>(threadIdx.x) % args.lanes;
  const int together = kSamplerThreads / args.lanes;
  const T* const dy = args.dy + task.image * args.sample_strides[0];
  T* const dx = args.out + task.image * args.image_strides[0];
  for (int pixel = static_cast<int>(threadIdx.x) / args.lanes; pixel < kSamplerThreads; pixel += together) {
    const std::int32_t row = task.top + pixel / kTileWidth;
    const std::int32_t column = task.left + pixel % kTileWidth;
    if (row >= args.height || column >= args.width) continue;
    const PixelPoints points(shared, pixel / kTileWidth, pixel % kTileWidth);
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

// (4) with a thread for each pixel of a strip and kChannels sums in its registers: adds up the points at hand.
template <class T, int N, int kChannels, class Shared>
__device__ __forceinline__ void gather_by_pixels(const ImageGradientArgs<T>& args, const Shared& shared, int strip,
                                                 const T* dy, std::uint32_t channels,
                                                 tile::Compute<T> (&sums)[kChannels]) {
  using C = tile::Compute<T>;
  constexpr int kAhead = sizeof(C) == 8 || kChannels > 8 || N > 1 ? 1 : 2;  // points whose loads are in flight
  const PixelPoints points(shared, strip * kStripHeight + static_cast<int>(threadIdx.x) / kTileWidth,
                           static_cast<int>(threadIdx.x) % kTileWidth);
  for (int k = 0; k < points.count; k += kAhead) {
    C weight[kAhead];
    tile::Pack<T, N> packs[kAhead][kChannels / N];
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      if (k + u < points.count) {
        const T* const from = dy + point_offset(args, shared.point[points.get(shared, k + u, &weight[u])]);
#pragma unroll
        for (int i = 0; i < kChannels / N; ++i) {
          if (i * N < channels) packs[u][i] = tile::load_pack<T, N>(from + i * N * args.sampler.sample_strides[1]);
        }
      }
    }
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      if (k + u < points.count) {
#pragma unroll
        for (int i = 0; i < kChannels / N; ++i) {
          if (i * N < channels) {
            C values[N];
            tile::widen_pack<C>(packs[u][i], values);
#pragma unroll
            for (int j = 0; j < N; ++j) sums[i * N + j] += weight[u] * values[j];
          }
        }
      }
    }
  }
}

// The same from the channels that were staged with the points.
template <int kStaged, class Shared, class C>
__device__ __forceinline__ void gather_staged(const Shared& shared, int strip, std::uint32_t channels,
                                              C (&sums)[kStaged]) {
  const PixelPoints points(shared, strip * kStripHeight + static_cast<int>(threadIdx.x) / kTileWidth,
                           static_cast<int>(threadIdx.x) % kTileWidth);
#pragma unroll 2
  for (int k = 0; k < points.count; ++k) {
    C weight;
    const int at = points.get(shared, k, &weight);
#pragma unroll
    for (int i = 0; i < kStaged; ++i) {
      if (static_cast<std::uint32_t>(i) < channels) sums[i] += weight * shared.staged[i][at];
    }
  }
}

// N channels a load: 1, or a pack where they are contiguous. kStrips strips of pixels a tile; with more than one the
// channels are staged.
template <class T, int N, int kChannels, int kStrips>
__global__ void __launch_bounds__(kSamplerThreads, sizeof(tile::Compute<T>) == 8 ? 2
                                                   : kStrips > 1                 ? 4
                                                                                 : 3)
    sampler_image_gradient(const __grid_constant__ ImageGradientArgs<T> args) {
  using C = tile::Compute<T>;
  static_assert(kChannels % N == 0, "a chunk of channels is whole packs");
  static_assert(N == 1 || kStrips == 1);
  constexpr int kStaged = kStrips > 1 ? kChannels : 0;
  __shared__ ImageGradientShared<C, kStrips, kStaged> shared;
  const SamplerArgs<T>& sampler = args.sampler;
  const std::uint32_t image = blockIdx.x / args.blocks;
  const TileRange* const ranges =
      args.ranges == nullptr ? nullptr : args.ranges + std::int64_t{image} * args.boxes.count;
  std::uint32_t tile_number;
  const std::uint32_t chunk = args.tiles.divmod(blockIdx.x - image * args.blocks, &tile_number);
  std::uint32_t tile_x;
  const std::uint32_t tile_y = args.tiles_across.divmod(tile_number, &tile_x);
  GradientTask task;
  task.image = image;
  task.top = static_cast<std::int32_t>(tile_y * (kStrips * kStripHeight));
  task.left = static_cast<std::int32_t>(tile_x * kTileWidth);
  task.first_channel = kStaged > 0 ? 0 : chunk * static_cast<std::uint32_t>(sampler.chunk);
  task.end_channel = static_cast<std::uint32_t>(sampler.channels);
  if (kStaged == 0 && task.end_channel - task.first_channel > sampler.chunk) {
    task.end_channel = task.first_channel + static_cast<std::uint32_t>(sampler.chunk);
  }
  const std::uint32_t visits = list_visits(shared, ranges, args.boxes.count, static_cast<std::int32_t>(tile_x),
                                           static_cast<std::int32_t>(tile_y));
  const std::uint32_t patches = visits << (args.boxes.shift_x + args.boxes.shift_y);
  const std::int32_t row = task.top + static_cast<std::int32_t>(threadIdx.x) / kTileWidth;
  const std::int32_t column = task.left + static_cast<std::int32_t>(threadIdx.x) % kTileWidth;
  bool complete = false;  // one list holds all of the tile's points
  for (std::uint32_t c = task.first_channel; c < task.end_channel; c += kChannels) {
    C sums[kStrips][kChannels] = {};
    const std::uint32_t channels = task.end_channel - c;
    const T* const dy = sampler.dy + image * sampler.sample_strides[0] + c * sampler.sample_strides[1];
    std::uint32_t patch = complete ? patches : 0;
    do {  // all conditions are the same for the whole block
      if (!complete) {
        const bool from_start = patch == 0;
        patch = collect(args, shared, image, patch, patches, task.top, task.left);
        if (shared.kept > 0 || N > 1) sort_by_cell<kStaged>(args, shared, image, dy, channels);
        complete = kStaged == 0 && from_start && patch >= patches;
      }
      if constexpr (N > 1) {
        if (complete) break;
      }
      if (shared.kept > 0) {
#pragma unroll
        for (int strip = 0; strip < kStrips; ++strip) {
          if constexpr (kStaged > 0) {
            gather_staged<kStaged>(shared, strip, channels, sums[strip]);
          } else {
            gather_by_pixels<T, N>(args, shared, strip, dy, channels, sums[strip]);
          }
        }
      }
    } while (patch < patches);
    if constexpr (N > 1) {
      if (complete) {
        gather_by_lanes<T, N>(args, shared, task);
        break;
      }
    }
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip) {
      if (row + strip * kStripHeight >= sampler.height || column >= sampler.width) break;
      T* const dx = sampler.out + image * sampler.image_strides[0] +
                    (row + strip * kStripHeight) * sampler.image_strides[2] + column * sampler.image_strides[3];
#pragma unroll
      for (int i = 0; i < kChannels; i += N) {
        if (static_cast<std::uint32_t>(i) < channels) {
          C part[N];
#pragma unroll
          for (int j = 0; j < N; ++j) part[j] = sums[strip][i + j];
          write_gradient<T, N>(sampler, dx + (c + i) * sampler.image_strides[1], part);
        }
      }
    }
    if constexpr (kStaged > 0) return;  // those were all
  }
}

}  // namespace gpudnn::kernels
