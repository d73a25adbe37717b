// Which tiles of the images have work, and in what order it is done: between steps (1) and (2) of the image's gradient,
// which image_gradient.cuh describes.
// SPDX-License-Identifier: Apache-2.0
//
// Most tiles of a random map are touched by no point, and a few by very many: the latter are what a kernel with a block
// for each tile in memory's order waits for in the end. So a warp for each tile counts the patches that touch it. The
// pixels of a tile without any are set to 0 at once; the others go to one of eight queues by the binary logarithm of
// their patches' number, with a list of these. The blocks of the image's kernel then take tiles from the fullest queue
// on. A tile of very many patches is several entries: parts of them, whose sums the last block to be done adds up in
// order. The order of the queues depends on the order of the blocks; no result does, as each tile is computed by
// itself.
#pragma once

#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/spatial_transformer/tile_points.cuh"

namespace gpudnn::kernels {

constexpr std::uint32_t kNotListed = 0xffffffffu;
constexpr std::uint32_t kSharedOut = 32;  // patches beyond which a tile is
constexpr std::uint32_t kPatchesOfPart = 16;
constexpr std::uint32_t kMaxListed = kListed;  // patches of a tile whose list is kept; those of others are found again

// Sets the pixels of a warp's tile to 0, elements of type T.
template <class T>
__device__ __forceinline__ void clear_tile(const TileQueueArgs& args, std::uint32_t image, std::int32_t x,
                                           std::int32_t y) {
  const std::int32_t column = x * args.tile_width + lane_of_warp() % args.tile_width;
  if (column >= args.width) return;
  T* to = static_cast<T*>(args.out) + std::int64_t{image} * args.strides[0] + column * args.strides[3];
  const std::int32_t end = min(args.height, (y + 1) * args.tile_height);
  for (std::uint32_t c = 0; c < args.channels; ++c) {
    for (std::int32_t row = y * args.tile_height + lane_of_warp() / args.tile_width; row < end;
         row += 32 / args.tile_width) {
      to[row * args.strides[2]] = 0;
    }
    to += args.strides[1];
  }
}

// A warp for each tile of every image.
static __global__ void __launch_bounds__(kSamplerThreads)
    sampler_tile_queue(const __grid_constant__ TileQueueArgs args) {
  __shared__ std::uint16_t boxes_of_warp[kWarps][kMaxBoxes];
  __shared__ std::uint32_t patches_of_warp[kWarps][kMaxListed];
  const int lane = lane_of_warp();
  const unsigned before = (1u << lane) - 1u;
  const std::uint32_t tile = blockIdx.x * kWarps + static_cast<std::uint32_t>(warp_of_block());
  ptx::griddepcontrol_wait();
  if (tile >= args.all_tiles) return;  // a whole warp; no barrier of the block follows
  std::uint32_t number;
  const std::uint32_t image = args.tiles.divmod(tile, &number);
  std::uint32_t tile_x;
  const std::uint32_t tile_y = args.tiles_across.divmod(number, &tile_x);
  const auto x = static_cast<std::int32_t>(tile_x);
  const auto y = static_cast<std::int32_t>(tile_y);

  std::uint16_t* const touched = boxes_of_warp[warp_of_block()];
  std::uint32_t* const list = patches_of_warp[warp_of_block()];
  const TileRange* const boxes = args.box_ranges + std::int64_t{image} * args.boxes.count;
  std::uint32_t visits = 0;
#pragma unroll 2
  for (std::uint32_t box = static_cast<std::uint32_t>(lane); box - lane < args.boxes.count; box += 32) {
    const bool touches = box < args.boxes.count && boxes[box].holds(x, y);
    const unsigned touching = __ballot_sync(0xffffffffu, touches);
    if (touches) touched[visits + __popc(touching & before)] = static_cast<std::uint16_t>(box);
    visits += __popc(touching);
  }
  __syncwarp();
  const std::uint32_t shift = args.boxes.shift_x + args.boxes.shift_y;
  const TileRange* const patches =
      args.patch_ranges == nullptr ? nullptr : args.patch_ranges + ((std::int64_t{image} * args.boxes.count) << shift);
  std::uint32_t count = 0;
#pragma unroll 4
  for (std::uint32_t i = static_cast<std::uint32_t>(lane); i - lane < visits << shift; i += 32) {
    bool touches = i < visits << shift;
    std::uint32_t patch = 0;
    if (touches) {
      patch = (std::uint32_t{touched[i >> shift]} << shift) + (i & ((1u << shift) - 1u));
      if (patches != nullptr) touches = patches[patch].holds(x, y);
    }
    const unsigned touching = __ballot_sync(0xffffffffu, touches);
    const std::uint32_t at = count + __popc(touching & before);
    if (touches && at < kMaxListed) list[at] = patch;
    count += __popc(touching);
  }
  if (count == 0 && args.clears) {
    args.element_bytes == 2 ? clear_tile<std::uint16_t>(args, image, x, y)
                            : clear_tile<std::uint32_t>(args, image, x, y);
    return;
  }
  __syncwarp();
  TileQueues& queues = *args.space.queues;
  std::uint32_t kept = count <= kMaxListed ? count : 0;
  std::uint32_t from = 0;
  if (lane == 0 && kept > 0) from = atomicAdd(&queues.listed, kept);
  from = __shfl_sync(0xffffffffu, from, 0);
  if (from + kept > args.space.most_listed) kept = 0;
  std::uint32_t parts = kept > kSharedOut ? (kept + kPatchesOfPart - 1) / kPatchesOfPart : 1;
  std::uint32_t first = 0;
  if (parts > 1) {
    if (lane == 0) first = atomicAdd(&queues.parts, parts);
    first = __shfl_sync(0xffffffffu, first, 0);
    if (first + parts > args.space.most_parts) parts = 1;
  }
  const std::uint32_t fullest = parts > 1 ? kPatchesOfPart : count;
  const auto queue = static_cast<std::uint32_t>(min(31 - __clz(static_cast<int>(fullest | 1u)), kTileQueues - 1));
  std::uint32_t place = 0;
  if (lane == 0) place = atomicAdd(&queues.count[queue], parts);
  place = __shfl_sync(0xffffffffu, place, 0);
  uint4* const queued = args.space.queued + queue * args.space.most_queued + place;
  if (parts > 1) {
    if (lane == 0) args.space.arrived[first] = 0;
    const auto part = static_cast<std::uint32_t>(lane);  // at most 16
    const std::uint32_t begin = part * kPatchesOfPart;
    if (part < parts) {
      queued[part] = {tile, from + begin, min(kept - begin, kPatchesOfPart), TilePart::word(part, parts, first)};
    }
  } else if (lane == 0) {
    *queued = {tile, from, count > 0 && kept == 0 ? kNotListed : count, 0};
  }
  for (std::uint32_t i = static_cast<std::uint32_t>(lane); i < kept; i += 32) args.space.listed[from + i] = list[i];
}

// A tile's place in the queues: the fullest first. By one thread; x is kNotListed where there are no more.
__device__ __forceinline__ uint4 queued_tile(const TileQueueSpace& space, std::uint32_t ticket) {
  for (int queue = kTileQueues - 1; queue >= 0; --queue) {
    const std::uint32_t count = space.queues->count[queue];
    if (ticket < count) return space.queued[static_cast<std::uint32_t>(queue) * space.most_queued + ticket];
    ticket -= count;
  }
  return {kNotListed, 0, 0, 0};
}

}  // namespace gpudnn::kernels
