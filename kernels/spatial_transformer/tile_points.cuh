// Which points of the grid a tile of the image is made of, in the order of the cells that they fall into: steps (2) and
// (3) of the image's gradient (image_gradient.cuh tells all of them).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/spatial_transformer/image_gradient_args.cuh"

namespace gpudnn::kernels {

// What a block looks for, and where.
struct TileSearch {
  std::uint32_t image;
  std::uint32_t patches;  // of the boxes visited
  std::int32_t top;       // of the tile, its first pixel
  std::int32_t left;

  template <class Shared>
  __device__ __forceinline__ std::int32_t tile_x() const {
    return min(left / Shared::kTileWidth, kMaxTileNumber);
  }
  template <class Shared>
  __device__ __forceinline__ std::int32_t tile_y() const {
    return min(top / Shared::kTileHeight, kMaxTileNumber);
  }
};

// A tile of one image and a range of channels.
struct GradientTask {
  TileSearch search;
  std::uint32_t first_channel;
  std::uint32_t end_channel;
};

constexpr int kFewStaged = 4;  // channels of the kernel for few
// kStaged: channels of dy that are kept with each point, so that the gather does not wait for memory; 0: none.
template <class C, int kStaged>
struct ImageGradientShared {
  static constexpr int kPoints = kStaged == 0           ? (sizeof(C) == 8 ? 1200 : 1900)
                                 : sizeof(C) == 8       ? 544
                                 : kStaged > kFewStaged ? 1024
                                                        : 1248;
  static constexpr int kStagedPoints = kStaged > kFewStaged ? kPoints / 2 : kPoints;
  // Pixels of a tile, one for each thread. Few points to a tile count for more where threads own pixels.
  static constexpr int kTileWidth = kStaged == 0 ? 32 : 16;
  static constexpr int kTileHeight = kSamplerThreads / kTileWidth;
  static constexpr int kCellsAcross = kTileWidth + 1;  // with those of the column to the left
  static constexpr int kCells = kCellsAcross * (kTileHeight + 1);
  static constexpr bool kKeepsPoints = kStaged == 0;
  static constexpr std::uint32_t kCellBits = 9;
  static_assert(kPoints >= kRound && kCells <= 1 << kCellBits);
  std::uint16_t visits[kMaxBoxes];
  std::uint32_t listed[kListed];
  // The points as they were found.
  std::uint32_t found[kPoints];
  std::uint32_t place[kPoints];      // cell, and above it the place in the cell, in no order; then the place in order
  std::uint16_t unordered[kPoints];  // by cell
  // The points in order: by cell, and within a cell by number.
  C fx[kPoints];
  C fy[kPoints];
  std::uint32_t point[kStaged > 0 ? 1 : kPoints];
  // First fx and fy of the points as they were found.
  alignas(16) C staged[kStaged * kStagedPoints > 2 * kPoints ? kStaged* kStagedPoints : 2 * kPoints];
  int start[kCells + 1];              // of each cell's points
  int counts[kCells];                 // points of each cell
  alignas(16) int warp_sums[kWarps];  // else vector loads of it begin in what others write
  alignas(16) int visit_sums[kWarps];
  int kept;
  uint4 queued;  // the block's tile
  GradientTask task;
};

__device__ __forceinline__ int warp_of_block() { return static_cast<int>(threadIdx.x) / 32; }
__device__ __forceinline__ int lane_of_warp() { return static_cast<int>(threadIdx.x) % 32; }

// Least value of the warp's lanes.
__device__ __forceinline__ std::int32_t least_of_warp(std::int32_t value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  return __reduce_min_sync(0xffffffffu, value);
#else
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value = min(value, __shfl_xor_sync(0xffffffffu, value, step));
  return value;
#endif
}
__device__ __forceinline__ std::int32_t most_of_warp(std::int32_t value) { return -least_of_warp(-value); }

// The number of the lane's `half` of point (0 or 1) of a patch, or no number if it lies outside the grid.
constexpr std::uint32_t kNoPoint = 0xffffffffu;
template <class T>
__device__ __forceinline__ std::uint32_t point_of_patch(const ImageGradientArgs<T>& args, std::uint32_t patch,
                                                        int half) {
  const GridBoxes& boxes = args.boxes;
  const std::uint32_t within = patch & ((1u << (boxes.shift_x + boxes.shift_y)) - 1u);
  std::uint32_t box_x;
  const std::uint32_t box_y = boxes.across.divmod(patch >> (boxes.shift_x + boxes.shift_y), &box_x);
  const std::uint32_t patch_x = (box_x << boxes.shift_x) + (within & ((1u << boxes.shift_x) - 1u));
  const std::uint32_t patch_y = (box_y << boxes.shift_y) + (within >> boxes.shift_x);
  const std::uint32_t x = patch_x * kPatch + static_cast<std::uint32_t>(lane_of_warp() % kPatch);
  const std::uint32_t y = patch_y * kPatch + static_cast<std::uint32_t>(lane_of_warp() / kPatch + 4 * half);
  const std::uint32_t width = args.sampler.sample_width.divisor;
  return x < width && y < boxes.height ? y * width + x : kNoPoint;
}

// (2), first half: the boxes that touch the tile, in order; returns their number. All threads of the block take part.
template <class Shared>
__device__ __forceinline__ std::uint32_t list_visits(Shared& shared, const TileRange* ranges, std::uint32_t boxes,
                                                     std::int32_t x, std::int32_t y) {
  if (ranges == nullptr) {
    if (threadIdx.x == 0) shared.visits[0] = 0;
    return 1;
  }
  int own = 0;
  unsigned touches = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t box = threadIdx.x * 4 + i;
    if (box < boxes) {
      const TileRange range = ranges[box];
      if (range.holds(x, y)) {
        touches |= 1u << i;
        ++own;
      }
    }
  }
  int through = own;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int before = __shfl_up_sync(0xffffffffu, through, step);
    if (lane_of_warp() >= step) through += before;
  }
  if (lane_of_warp() == 31) shared.visit_sums[warp_of_block()] = through;
  __syncthreads();
  int all = 0;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) {
    const int sum = shared.visit_sums[warp];
    if (warp < warp_of_block()) through += sum;
    all += sum;
  }
  int at = through - own;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if ((touches >> i & 1u) != 0) shared.visits[at++] = static_cast<std::uint16_t>(threadIdx.x * 4 + i);
  }
  return static_cast<std::uint32_t>(all);
}

// How far a block has come on its way through the patches of the boxes that it visits: the same in all threads.
struct PatchWalk {
  std::uint32_t tested = 0;  // patches
  std::uint32_t listed = 0;  // of those tested last, how many touch the tile
  std::uint32_t taken = 0;   // of those listed

  __device__ __forceinline__ bool is_at_end(std::uint32_t patches) const {
    return tested >= patches && taken >= listed;
  }
};

// (2), second part: the next kListed patches are tested, and those that touch the tile listed in order. Begins and ends
// with the block in step.
template <class T, class Shared>
__device__ __forceinline__ void list_patches(const ImageGradientArgs<T>& args, Shared& shared, const TileSearch& search,
                                             PatchWalk* walk) {
  const std::uint32_t shift = args.boxes.shift_x + args.boxes.shift_y;
  const std::uint32_t number = walk->tested + threadIdx.x;
  std::uint32_t patch = 0;
  bool touches = false;
  if (number < search.patches) {
    const std::uint32_t visit = shared.visits[number >> shift];
    patch = (visit << shift) + (number & ((1u << shift) - 1u));
    touches = true;
    if (args.patch_ranges != nullptr) {
      const TileRange* const ranges = args.patch_ranges + ((std::int64_t{search.image} * args.boxes.count) << shift);
      touches = ranges[patch].holds(search.tile_x<Shared>(), search.tile_y<Shared>());
    }
  }
  const unsigned touching = __ballot_sync(0xffffffffu, touches);
  if (lane_of_warp() == 0) shared.warp_sums[warp_of_block()] = __popc(touching);
  __syncthreads();
  int before = 0;
  int all = 0;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) {
    const int sum = shared.warp_sums[warp];
    if (warp < warp_of_block()) before += sum;
    all += sum;
  }
  if (touches) shared.listed[before + __popc(touching & ((1u << lane_of_warp()) - 1u))] = patch;
  __syncthreads();
  walk->tested += kListed;
  walk->listed = static_cast<std::uint32_t>(all);
  walk->taken = 0;
}

// (2), third part: keeps points of the patches to come until there are none or the list may overflow. Begins and ends
// with the block in step.
template <class T, class Shared>
__device__ __forceinline__ void collect(const ImageGradientArgs<T>& args, Shared& shared, const TileSearch& search,
                                        PatchWalk* walk) {
  using C = tile::Compute<T>;
  __syncthreads();  // nobody reads the list before any more, and the visits are listed
  if (threadIdx.x == 0) shared.kept = 0;
  for (int cell = static_cast<int>(threadIdx.x); cell < Shared::kCells; cell += kSamplerThreads)
    shared.counts[cell] = 0;
  __syncthreads();
  while (!walk->is_at_end(search.patches)) {  // all conditions of the loop are the same for the whole block
    if (walk->taken >= walk->listed) {
      list_patches(args, shared, search, walk);
      continue;
    }
    const std::uint32_t own = walk->taken + static_cast<std::uint32_t>(warp_of_block());
    if (own < walk->listed) {  // the same for the whole warp
      const std::uint32_t patch = shared.listed[own];
      std::uint32_t p[2];
      ImagePosition<C> at[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        p[half] = point_of_patch(args, patch, half);
        at[half] = {};
        if (p[half] != kNoPoint) at[half] = position_of_pixel(args.sampler, search.image, p[half]);
      }
      unsigned keepers[2];
      int cell[2];
      C fx[2], fy[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const C column = floor(at[half].x);
        const C row = floor(at[half].y);
        const std::int32_t x = static_cast<std::int32_t>(column) - search.left + 1;
        const std::int32_t y = static_cast<std::int32_t>(row) - search.top + 1;
        const bool keep = at[half].inside && x >= 0 && x < Shared::kCellsAcross && y >= 0 && y <= Shared::kTileHeight;
        keepers[half] = __ballot_sync(0xffffffffu, keep);
        cell[half] = keep ? y * Shared::kCellsAcross + x : -1;
        fx[half] = at[half].x - column;
        fy[half] = at[half].y - row;
      }
      int base = 0;
      if (lane_of_warp() == 0 && (keepers[0] | keepers[1]) != 0) {
        base = atomicAdd(&shared.kept, __popc(keepers[0]) + __popc(keepers[1]));
      }
      base = __shfl_sync(0xffffffffu, base, 0);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (cell[half] >= 0) {
          const int e = base + __popc(keepers[half] & ((1u << lane_of_warp()) - 1u));
          shared.found[e] = p[half];
          shared.staged[e] = fx[half];
          shared.staged[Shared::kPoints + e] = fy[half];
          shared.place[e] = static_cast<std::uint32_t>(atomicAdd(&shared.counts[cell[half]], 1)) << Shared::kCellBits |
                            static_cast<std::uint32_t>(cell[half]);
        }
        base += __popc(keepers[half]);
      }
    }
    walk->taken += kWarps;
    __syncthreads();
    if (shared.kept > Shared::kPoints - kRound) return;
    __syncthreads();  // nobody keeps another point while others still look at the number
  }
}

// Where a point of the sample is in dy.
template <class T>
__device__ __forceinline__ std::int64_t point_offset(const ImageGradientArgs<T>& args, std::uint32_t point) {
  return args.linear ? point * args.sampler.sample_strides[3] : sample_offset(args.sampler, point);
}

// (3): fills `start` and brings the points into order. All threads take part; ends with the block in step.
template <class Shared>
__device__ __forceinline__ void sort_by_cell(Shared& shared) {
  constexpr int kCells = Shared::kCells;
  constexpr int kOwn = (kCells + 1 + kSamplerThreads - 1) / kSamplerThreads;  // neighbouring cells that a thread scans
  const int thread = static_cast<int>(threadIdx.x);
  int counts[kOwn];
  int own = 0;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    counts[i] = thread * kOwn + i < kCells ? shared.counts[thread * kOwn + i] : 0;
    own += counts[i];
  }
  int through = own;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int before = __shfl_up_sync(0xffffffffu, through, step);
    if (lane_of_warp() >= step) through += before;
  }
  if (lane_of_warp() == 31) shared.warp_sums[warp_of_block()] = through;
  __syncthreads();
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) {
    const int sum = shared.warp_sums[warp];
    if (warp < warp_of_block()) through += sum;
  }
  int at = through - own;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    if (thread * kOwn + i <= kCells) shared.start[thread * kOwn + i] = at;
    at += counts[i];
  }
  __syncthreads();
  const int kept = shared.kept;
  constexpr std::uint32_t kCellMask = (1u << Shared::kCellBits) - 1u;
  for (int e = thread; e < kept; e += kSamplerThreads) {
    const std::uint32_t place = shared.place[e];
    shared.unordered[shared.start[place & kCellMask] + (place >> Shared::kCellBits)] = static_cast<std::uint16_t>(e);
  }
  __syncthreads();
  for (int e = thread; e < kept; e += kSamplerThreads) {
    const std::uint32_t cell = shared.place[e] & kCellMask;
    const int begin = shared.start[cell];
    const int end = shared.start[cell + 1];
    const std::uint32_t point = shared.found[e];
    int rank = begin;
    if (end - begin > 1) {
#pragma unroll 4
      for (int i = begin; i < end; ++i) rank += shared.found[shared.unordered[i]] < point ? 1 : 0;
    }
    shared.place[e] = static_cast<std::uint32_t>(rank);
    shared.fx[rank] = shared.staged[e];
    shared.fy[rank] = shared.staged[Shared::kPoints + e];
    if constexpr (Shared::kKeepsPoints) shared.point[rank] = point;
  }
  __syncthreads();
}

// Channels of dy of kAtOnce points of a thread, on their way from memory to the points in order.
template <class T, int kAtOnce>
struct StagedValues {
  static constexpr int kStep = kAtOnce * kSamplerThreads;
  tile::Pack<T, 1> values[kAtOnce][kFewStaged];

  // Those of points first, first + kSamplerThreads, ... as they were found: `channels` of them, or as many as there is
  // room for.
  template <class Shared>
  __device__ __forceinline__ void load(const ImageGradientArgs<T>& args, const Shared& shared, const T* dy,
                                       std::uint32_t channels, int first) {
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      const int e = first + u * kSamplerThreads;
      if (e >= shared.kept) break;
      const T* from = dy + point_offset(args, shared.found[e]);
#pragma unroll
      for (int i = 0; i < kFewStaged; ++i) {
        if (static_cast<std::uint32_t>(i) >= channels) break;
        values[u][i] = tile::load_pack<T, 1>(from);
        from += args.sampler.sample_strides[1];
      }
    }
  }
  template <class Shared>
  __device__ __forceinline__ void store(Shared& shared, std::uint32_t channels, int first) const {
    using C = tile::Compute<T>;
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      const int e = first + u * kSamplerThreads;
      if (e >= shared.kept) break;
      const std::uint32_t at = shared.place[e];
#pragma unroll
      for (int i = 0; i < kFewStaged; ++i) {
        if (static_cast<std::uint32_t>(i) < channels) {
          shared.staged[i * Shared::kPoints + at] = tile::widen<C>(values[u][i].get(0));
        }
      }
    }
  }
};

}  // namespace gpudnn::kernels
