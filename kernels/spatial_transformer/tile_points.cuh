// Which points of the grid a tile of the image is made of, in the order of the cells that they fall into: the first
// three steps of the image's gradient (image_gradient.cuh tells all of them).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/spatial_transformer/sampler.cuh"

namespace gpudnn::kernels {

constexpr int kTileWidth = 32;
constexpr int kStripHeight = 8;                  // of the pixels that a block's threads own once
constexpr int kCellsAcross = kTileWidth + 1;     // with those of the column to the left
constexpr int kMostBoxes = 4 * kSamplerThreads;  // a thread tests four
constexpr int kPatch = 8;                        // points across and down of a patch, a warp's work in a round
constexpr int kWarps = kSamplerThreads / 32;
constexpr int kRound = kWarps * kPatch * kPatch;  // points of a round
static_assert(kTileWidth * kStripHeight == kSamplerThreads, "a thread owns a pixel of each strip");

// Image tiles that the points of a box touch, both ends included; first > last: none.
struct alignas(8) TileRange {
  std::uint16_t first_x, last_x, first_y, last_y;
};
constexpr std::int32_t kMostTileNumber = 65535;  // tiles beyond count as this one: visited too often, never too rarely

// How the grid is cut: `across` x `down` boxes of 2^shift_x x 2^shift_y patches.
struct GridBoxes {
  tile::FastDivmod across;
  std::uint32_t count;
  std::uint32_t shift_x;
  std::uint32_t shift_y;
  std::uint32_t height;  // of the grid
};

template <class T>
struct ImageGradientArgs {
  SamplerArgs<T> sampler;  // `tiles` of the image, `chunks` of channels, `chunk` channels in each
  GridBoxes boxes;
  tile::FastDivmod tiles_across;
  tile::FastDivmod tiles;
  std::uint32_t blocks;  // of an image: one for each tile and chunk of channels
  std::uint32_t tile_height;
  const TileRange* ranges;  // of the boxes, image after image; null: there is one box, which every tile visits
  bool linear;              // the rows of the sample follow each other without a gap
};

// kStaged: channels of dy that are kept with each point, so that the gather does not wait for memory; 0: none.
template <class C, int kStrips, int kStaged>
struct ImageGradientShared {
  static constexpr int kCells = kCellsAcross * (kStrips * kStripHeight + 1);
  static constexpr int kPoints = kStaged > 0 ? 1024 : sizeof(C) == 8 ? 1350 : 1900;
  static constexpr std::uint32_t kCellBits = 11;
  static_assert(kPoints >= 2 * kRound && kCells <= 1 << kCellBits);
  std::uint16_t visits[kMostBoxes];
  // The points as they were found.
  std::uint32_t found[kPoints];
  std::uint32_t place[kPoints];      // cell, and above it the place in the cell, in no order
  std::uint16_t unordered[kPoints];  // by cell
  // The points in order.
  C fx[kPoints];
  C fy[kPoints];
  std::uint32_t point[kStaged > 0 ? 1 : kPoints];
  C staged[kStaged > 0 ? kStaged : 1][kStaged > 0 ? kPoints : 1];
  int start[kCells + 1];              // of each cell's points
  int counts[kCells];                 // points of each cell
  alignas(16) int warp_sums[kWarps];  // else vector loads of it begin in what others write
  alignas(16) int visit_sums[kWarps];
  int kept;
};

__device__ __forceinline__ int warp_of_block() { return static_cast<int>(threadIdx.x) / 32; }
__device__ __forceinline__ int lane_of_warp() { return static_cast<int>(threadIdx.x) % 32; }

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

template <class Op>
__device__ __forceinline__ std::int32_t reduce_lanes(std::int32_t value, Op op) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value = op(value, __shfl_xor_sync(0xffffffffu, value, step));
  return value;
}
struct Least {
  __device__ __forceinline__ std::int32_t operator()(std::int32_t a, std::int32_t b) const { return a < b ? a : b; }
};
struct Greatest {
  __device__ __forceinline__ std::int32_t operator()(std::int32_t a, std::int32_t b) const { return a > b ? a : b; }
};

// Cells that a lane's points of a box lie in.
struct CellRange {
  std::int32_t least_x = 0x7fffffff, most_x = -2;
  std::int32_t least_y = 0x7fffffff, most_y = -2;

  template <class C>
  __device__ __forceinline__ void add(const ImagePosition<C>& at) {
    if (!at.inside) return;
    const auto x = static_cast<std::int32_t>(floor(at.x));
    const auto y = static_cast<std::int32_t>(floor(at.y));
    least_x = Least{}(least_x, x), most_x = Greatest{}(most_x, x);
    least_y = Least{}(least_y, y), most_y = Greatest{}(most_y, y);
  }
  // Over the warp's lanes, as tiles of an image of height x width.
  __device__ __forceinline__ TileRange tiles(std::int32_t height, std::int32_t width, std::int32_t tile_height) const {
    const auto number = [](std::int32_t pixel, std::int32_t extent) {
      const std::int32_t tile = pixel / extent;
      return static_cast<std::uint16_t>(tile < kMostTileNumber ? tile : kMostTileNumber);
    };
    const std::int32_t left = reduce_lanes(least_x, Least{});
    const std::int32_t right = reduce_lanes(most_x, Greatest{});
    const std::int32_t top = reduce_lanes(least_y, Least{});
    const std::int32_t bottom = reduce_lanes(most_y, Greatest{});
    if (right < left) return {1, 0, 1, 0};
    return {number(left < 0 ? 0 : left, kTileWidth), number(right + 1 < width ? right + 1 : width - 1, kTileWidth),
            number(top < 0 ? 0 : top, tile_height), number(bottom + 1 < height ? bottom + 1 : height - 1, tile_height)};
  }
};

// (1): a warp for each box.
template <class T>
__global__ void __launch_bounds__(kSamplerThreads)
    sampler_boxes(const __grid_constant__ ImageGradientArgs<T> args, TileRange* ranges) {
  using C = tile::Compute<T>;
  constexpr std::uint32_t kAhead = 2;  // patches in flight
  const std::uint32_t blocks = (args.boxes.count + kWarps - 1) / kWarps;
  const std::int64_t image = blockIdx.x / blocks;
  const std::uint32_t box = blockIdx.x % blocks * kWarps + static_cast<std::uint32_t>(warp_of_block());
  if (box >= args.boxes.count) return;
  const std::uint32_t shift = args.boxes.shift_x + args.boxes.shift_y;
  CellRange range;
  for (std::uint32_t patch = 0; patch < 1u << shift; patch += kAhead) {
    ImagePosition<C> at[kAhead][2];
#pragma unroll
    for (std::uint32_t u = 0; u < kAhead; ++u) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        at[u][half] = {};
        const std::uint32_t p =
            patch + u < 1u << shift ? point_of_patch(args, (box << shift) + patch + u, half) : kNoPoint;
        if (p != kNoPoint) at[u][half] = position_of_pixel(args.sampler, image, p);
      }
    }
#pragma unroll
    for (std::uint32_t u = 0; u < kAhead; ++u) {
      range.add(at[u][0]);
      range.add(at[u][1]);
    }
  }
  const TileRange tiles =
      range.tiles(args.sampler.height, args.sampler.width, static_cast<std::int32_t>(args.tile_height));
  if (lane_of_warp() == 0) ranges[image * args.boxes.count + box] = tiles;
}

// (2), first half: the boxes that touch the tile, in order; returns their number. All threads of the block take part.
template <class Shared>
__device__ __forceinline__ std::uint32_t list_visits(Shared& shared, const TileRange* ranges, std::uint32_t boxes,
                                                     std::int32_t x, std::int32_t y) {
  if (ranges == nullptr) {
    if (threadIdx.x == 0) shared.visits[0] = 0;
    return 1;
  }
  x = x < kMostTileNumber ? x : kMostTileNumber;
  y = y < kMostTileNumber ? y : kMostTileNumber;
  int own = 0;
  unsigned touches = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t box = threadIdx.x * 4 + i;
    if (box < boxes) {
      const TileRange range = ranges[box];
      if (range.first_x <= x && x <= range.last_x && range.first_y <= y && y <= range.last_y) {
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

// (2), second half: keeps points of the patches from `patch` on until there are none or the list may overflow; returns
// the patch to go on with. Begins and ends with the block in step.
template <class T, class Shared>
__device__ __forceinline__ std::uint32_t collect(const ImageGradientArgs<T>& args, Shared& shared, std::int64_t image,
                                                 std::uint32_t patch, std::uint32_t patches, std::int32_t top,
                                                 std::int32_t left) {
  using C = tile::Compute<T>;
  const std::uint32_t shift = args.boxes.shift_x + args.boxes.shift_y;
  __syncthreads();  // nobody reads the list before any more, and the visits are listed
  if (threadIdx.x == 0) shared.kept = 0;
  for (int cell = static_cast<int>(threadIdx.x); cell < Shared::kCells; cell += kSamplerThreads)
    shared.counts[cell] = 0;
  __syncthreads();
  while (true) {
    const std::uint32_t own = patch + static_cast<std::uint32_t>(warp_of_block());
    if (own < patches) {  // the same for the whole warp
      const std::uint32_t visit = shared.visits[own >> shift];
      std::uint32_t p[2];
      ImagePosition<C> at[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        p[half] = point_of_patch(args, (visit << shift) + (own & ((1u << shift) - 1u)), half);
        at[half] = {};
        if (p[half] != kNoPoint) at[half] = position_of_pixel(args.sampler, image, p[half]);
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const C column = floor(at[half].x);
        const C row = floor(at[half].y);
        const std::int32_t x = static_cast<std::int32_t>(column) - left + 1;
        const std::int32_t y = static_cast<std::int32_t>(row) - top + 1;
        const bool keep =
            at[half].inside && x >= 0 && x < kCellsAcross && y >= 0 && y <= static_cast<std::int32_t>(args.tile_height);
        const unsigned keepers = __ballot_sync(0xffffffffu, keep);
        int base = 0;
        if (lane_of_warp() == 0 && keepers != 0) base = atomicAdd(&shared.kept, __popc(keepers));
        base = __shfl_sync(0xffffffffu, base, 0);
        if (keep) {
          const int e = base + __popc(keepers & ((1u << lane_of_warp()) - 1u));
          const int cell = y * kCellsAcross + x;
          shared.found[e] = p[half];
          shared.place[e] = static_cast<std::uint32_t>(atomicAdd(&shared.counts[cell], 1)) << Shared::kCellBits |
                            static_cast<std::uint32_t>(cell);
        }
      }
    }
    patch += kWarps;
    __syncthreads();
    if (patch >= patches || shared.kept > Shared::kPoints - kRound) return patch;
    __syncthreads();  // nobody keeps another point while others still look at the number
  }
}

// Where a point of the sample is in dy.
template <class T>
__device__ __forceinline__ std::int64_t point_offset(const ImageGradientArgs<T>& args, std::uint32_t point) {
  return args.linear ? point * args.sampler.sample_strides[3] : sample_offset(args.sampler, point);
}

// (3): fills `start` and brings the points into order; dy(point) are the first of its channels to be staged. All
// threads take part; ends with the block in step.
template <int kStaged, class T, class Shared>
__device__ __forceinline__ void sort_by_cell(const ImageGradientArgs<T>& args, Shared& shared, std::int64_t image,
                                             const T* dy, std::uint32_t channels) {
  using C = tile::Compute<T>;
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
    const ImagePosition<C> at = position_of_pixel(args.sampler, image, point);
    tile::Pack<T, 1> values[kStaged > 0 ? kStaged : 1];
#pragma unroll
    for (int i = 0; i < kStaged; ++i) {
      if (static_cast<std::uint32_t>(i) < channels) {
        values[i] = tile::load_pack<T, 1>(dy + point_offset(args, point) + i * args.sampler.sample_strides[1]);
      }
    }
    int rank = begin;
    if (end - begin > 1) {
      for (int i = begin; i < end; ++i) rank += shared.found[shared.unordered[i]] < point ? 1 : 0;
    }
    shared.fx[rank] = at.x - floor(at.x);
    shared.fy[rank] = at.y - floor(at.y);
    if constexpr (kStaged == 0) shared.point[rank] = point;
#pragma unroll
    for (int i = 0; i < kStaged; ++i) {
      if (static_cast<std::uint32_t>(i) < channels) shared.staged[i][rank] = tile::widen<C>(values[i].get(0));
    }
  }
  __syncthreads();
}

}  // namespace gpudnn::kernels
