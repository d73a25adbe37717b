// Instances and launch of the gradient of the sampled image.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/spatial_transformer/image_gradient_few.cuh"
#include "kernels/spatial_transformer/image_gradient_wide.cuh"
#include "kernels/spatial_transformer/tile_ranges.cuh"
#include "kernels/tile/dispatch.hpp"
#include "kernels/tile/launch.hpp"
#include "kernels/tile/least.hpp"
#include "kernels/tile/shared_memory.hpp"
#include "kernels/tile/waits_by_pdl.hpp"

namespace gpudnn::kernels {
namespace {

constexpr std::int64_t kMaxSmallC = 8;             // that go four at a time
constexpr std::int64_t kLeastChannels = 16;        // of a block
constexpr std::int64_t kChannelsOfBlock = 64;      // where the device has work enough
constexpr std::int64_t kPointsForBoxes = 1 << 15;  // of all images: boxes are then worth a launch
constexpr std::int64_t kMaxParts = 2048;           // of all tiles
constexpr std::int64_t kFewPatches = 256;          // that are boxes themselves

template <class T>
bool in_packs(const SamplerParams& params) {
  constexpr int N = tile::kPackWidth<T>;
  bool packs = params.image.strides[1] == 1 && params.sample.strides[1] == 1 && params.channels % N == 0 &&
               tile::is_aligned(params.dy, 16) && tile::is_aligned(params.out, 16);
  for (const int i : {0, 2, 3}) {
    packs = packs && params.image.strides[i] % N == 0 && params.sample.strides[i] % N == 0;
  }
  return packs;
}

// At most `most` boxes; single patches if those are few.
GridBoxes boxes_of(const SamplerImage& grid, std::int64_t most) {
  GridBoxes boxes{};
  const auto count = [](std::int64_t extent, std::uint32_t shift) {
    const std::int64_t points = std::int64_t{kPatch} << shift;
    return (extent + points - 1) / points;
  };
  const auto all = [&] { return count(grid.width, boxes.shift_x) * count(grid.height, boxes.shift_y); };
  if (all() > kFewPatches) boxes.shift_x = boxes.shift_y = 2;  // two patches for each warp of a block
  while (all() > most) {
    count(grid.width, boxes.shift_x) >= count(grid.height, boxes.shift_y) ? ++boxes.shift_x : ++boxes.shift_y;
  }
  const auto across = static_cast<std::uint32_t>(count(grid.width, boxes.shift_x));
  boxes.across = tile::FastDivmod(tile::greatest(across, 1u));
  boxes.count = across * static_cast<std::uint32_t>(count(grid.height, boxes.shift_y));
  boxes.height = static_cast<std::uint32_t>(grid.height);
  return boxes;
}

// Launches the search for ranges, where the caller's memory holds them and they are worth it.
template <class T>
void find_ranges(const SamplerParams& params, ImageGradientArgs<T>* args, cudaStream_t stream) {
  args->boxes = boxes_of(params.sample, kMaxBoxes);
  const std::uint32_t shift = args->boxes.shift_x + args->boxes.shift_y;
  const std::int64_t boxes = params.images * args->boxes.count;
  const std::int64_t patches = shift == 0 ? 0 : boxes << shift;
  if (args->boxes.count <= 4 || params.images * args->sampler.pixels < kPointsForBoxes ||
      static_cast<std::size_t>(boxes + patches) * sizeof(TileRange) > params.scratch_bytes ||
      !tile::is_aligned(params.scratch, alignof(TileRange))) {
    args->boxes = boxes_of(params.sample, 1);
    return;
  }
  auto* const ranges = static_cast<TileRange*>(params.scratch);
  const std::int64_t blocks = shift == 0 ? params.images * ((args->boxes.count + kWarps - 1) / kWarps) : boxes;
  tile::launch_kernel(&sampler_boxes<T>, {static_cast<unsigned>(blocks), kSamplerThreads}, stream, *args, ranges,
                      ranges + boxes);
  args->box_ranges = ranges;
  args->patch_ranges = shift == 0 ? nullptr : ranges + boxes;
}

// Places the queues of tiles behind the ranges in the caller's memory, if it holds them. They are worth it where blocks
// are many, each takes all of the channels, and images differ: an affine map fills its own image evenly.
template <class T>
void place_queues(const SamplerParams& params, ImageGradientArgs<T>* args) {
  constexpr std::size_t kLeastListed = 1 << 15;  // patches
  const GridBoxes boxes = boxes_of(params.sample, kMaxBoxes);
  const std::uint32_t shift = boxes.shift_x + boxes.shift_y;
  const std::int64_t patches = shift == 0 ? 0 : (params.images * boxes.count) << shift;
  const std::size_t ranges = static_cast<std::size_t>(params.images * boxes.count + patches) * sizeof(TileRange);
  const std::int64_t tiles = params.images * args->sampler.tiles;
  const auto round_up = [](std::size_t bytes) { return (bytes + 63) / 64 * 64; };
  const std::int64_t most_parts = params.channels <= kFewStaged ? tile::least(tiles, kMaxParts) : 0;
  std::size_t at = round_up(ranges);
  const auto take = [&]<class Item>(Item** items, std::size_t count) {
    *items = reinterpret_cast<Item*>(static_cast<char*>(params.scratch) + at);
    at = round_up(at + count * sizeof(Item));
  };
  if (args->sampler.chunks != 1 || params.images < 2 || tiles < 4 * params.multiprocessors ||
      tiles > INT32_MAX / (2 * kTileQueues) || !tile::is_aligned(params.scratch, 16)) {
    return;
  }
  TileQueueSpace placed{};
  take(&placed.queues, 1);
  take(&placed.queued, static_cast<std::size_t>(tiles + most_parts) * kTileQueues);
  placed.most_queued = static_cast<std::uint32_t>(tiles + most_parts);
  if (at + kLeastListed * sizeof(std::uint32_t) > params.scratch_bytes) return;
  constexpr std::size_t kPartBytes = kSamplerThreads * kFewStaged * sizeof(float) + sizeof(std::uint32_t);
  const std::size_t parts = (params.scratch_bytes - at - kLeastListed * sizeof(std::uint32_t)) / 2 / kPartBytes;
  placed.most_parts = 0;
  if (parts > 2) {
    placed.most_parts =
        static_cast<std::uint32_t>(tile::least<std::int64_t>(static_cast<std::int64_t>(parts) - 1, most_parts));
    take(&placed.part_sums, std::size_t{placed.most_parts} * kSamplerThreads * kFewStaged);
    take(&placed.arrived, placed.most_parts);
  }
  placed.most_listed = 0;
  const std::size_t left = (params.scratch_bytes - at) / sizeof(std::uint32_t);
  take(&placed.listed, left);
  placed.most_listed = static_cast<std::uint32_t>(tile::least<std::size_t>(left, INT32_MAX));
  args->space = placed;
}

// Ranges of channels, so many that there is work for the whole device, and what each thread takes of them.
template <class T>
void set_chunks(const SamplerParams& params, int pack, std::int64_t least_channels, SamplerArgs<T>* args) {
  int lanes = 1;
  while (pack > 1 && lanes < 32 && lanes * pack < params.channels) lanes *= 2;
  const std::int64_t unit = tile::greatest<std::int64_t>(least_channels, tile::least(lanes, 16) * std::int64_t{pack});
  const std::int64_t units = (params.channels + unit - 1) / unit;
  // Fewer channels a block where the blocks would not fill the device; more only where lanes take them side by side.
  const std::int64_t blocks = tile::greatest<std::int64_t>(params.images * args->tiles, 1);
  const std::int64_t least = lanes > 1 ? 1 : (params.channels + kChannelsOfBlock - 1) / kChannelsOfBlock;
  const std::int64_t wanted = tile::greatest(least, 16 * std::int64_t{params.multiprocessors} / blocks);
  const std::int64_t parts = tile::clamp<std::int64_t>(wanted, 1, tile::greatest<std::int64_t>(units, 1));
  args->chunk = tile::greatest<std::int64_t>((units + parts - 1) / parts, 1) * unit;
  args->chunks = static_cast<std::uint32_t>((params.channels + args->chunk - 1) / args->chunk);
  while (lanes > 1 && lanes / 2 * pack >= args->chunk) lanes /= 2;
  args->lanes = lanes;
}

template <class T>
void launch(const SamplerParams& params, cudaStream_t stream) {
  using C = tile::Compute<T>;
  ImageGradientArgs<T> args{};
  SamplerArgs<T>& sampler = args.sampler;
  sampler.grid = static_cast<const T*>(params.grid);
  sampler.dy = static_cast<const T*>(params.dy);
  sampler.out = static_cast<T*>(params.out);
  for (int i = 0; i < 4; ++i) {
    sampler.image_strides[i] = params.image.strides[i];
    sampler.sample_strides[i] = params.sample.strides[i];
  }
  sampler.channels = params.channels;
  sampler.height = static_cast<std::int32_t>(params.image.height);
  sampler.width = static_cast<std::int32_t>(params.image.width);
  sampler.pixels = static_cast<std::uint32_t>(params.sample.height * params.sample.width);
  sampler.sample_width =
      tile::FastDivmod(static_cast<std::uint32_t>(tile::greatest<std::int64_t>(params.sample.width, 1)));
  sampler.alpha = static_cast<C>(params.alpha);
  sampler.beta = static_cast<C>(params.beta);
  sampler.reads_out = params.beta != 0;
  sampler.grid_pairs = tile::is_aligned(params.grid, 2 * sizeof(T));
  const bool packs = in_packs<T>(params);
  args.linear = params.sample.strides[2] == params.sample.width * params.sample.strides[3];
  using FewShared = ImageGradientShared<C, kFewStaged>;
  using PacksShared = ImageGradientShared<C, 0>;
  args.tile_width = packs ? PacksShared::kTileWidth : FewShared::kTileWidth;  // so it is with many channels
  args.tile_height = packs ? PacksShared::kTileHeight : FewShared::kTileHeight;
  const auto across = static_cast<std::uint32_t>((params.image.width + args.tile_width - 1) / args.tile_width);
  const auto down = static_cast<std::uint32_t>((params.image.height + args.tile_height - 1) / args.tile_height);
  sampler.tiles = across * down;
  args.tiles = tile::FastDivmod(sampler.tiles);
  args.tiles_across = tile::FastDivmod(across);
  using WideShared = ImageGradientShared<float, kWideStride>;
  const bool wide =
      !packs && sizeof(T) < 8 && params.channels > kMaxSmallC && sizeof(WideShared) <= params.shared_memory_per_block;
  constexpr int N = tile::kPackWidth<T>;
  set_chunks(params, packs ? N : 1, wide ? kWideChannels : kLeastChannels, &sampler);
  if (!packs && !wide && kTakesQueues<T>) place_queues(params, &args);
  find_ranges(params, &args, stream);
  if (args.box_ranges == nullptr) args.space = {};
  args.blocks = sampler.tiles * sampler.chunks;
  const auto blocks = static_cast<unsigned>(params.images * std::int64_t{args.blocks});
  if (packs) {
    constexpr int kSums = sizeof(T) == 8 ? 4 : 8;
    constexpr auto kKernel = sampler_image_gradient_packs<T, N, kSums>;
    tile::allow_shared_memory<kKernel>(tile::kAllThatABlockMayHave);
    tile::launch_kernel(kKernel, {blocks, kSamplerThreads, sizeof(PacksShared)}, stream, args);
    return;
  }
  if constexpr (sizeof(T) < 8) {
    if (wide) {
      constexpr auto kKernel = sampler_image_gradient_wide<T>;
      tile::allow_shared_memory<kKernel>(tile::kAllThatABlockMayHave);
      tile::launch_kernel(kKernel, {blocks, kSamplerThreads, sizeof(WideShared)}, stream, args);
      return;
    }
  }
  if (args.space.queues == nullptr) {
    tile::launch_kernel(&sampler_image_gradient<T>, {blocks, kSamplerThreads}, stream, args);
    return;
  }
  TileQueueArgs queue{};
  queue.space = args.space;
  queue.boxes = args.boxes;
  queue.tiles_across = args.tiles_across;
  queue.tiles = args.tiles;
  queue.all_tiles = static_cast<std::uint32_t>(params.images * sampler.tiles);
  queue.tile_width = args.tile_width;
  queue.tile_height = args.tile_height;
  queue.box_ranges = args.box_ranges;
  queue.patch_ranges = args.patch_ranges;
  queue.clears = !sampler.reads_out;
  queue.element_bytes = sizeof(T);
  queue.out = params.out;
  std::memcpy(queue.strides, params.image.strides, sizeof queue.strides);
  queue.channels = static_cast<std::uint32_t>(params.channels);
  queue.height = sampler.height;
  queue.width = sampler.width;
  // Both begin while the kernel before ends, and wait for what it writes.
  const std::uint32_t queue_blocks = (queue.all_tiles + kWarps - 1) / kWarps;
  tile::launch_kernel(&sampler_tile_queue,
                      {queue_blocks, kSamplerThreads, 0, 1, tile::waits_by_pdl<&sampler_tile_queue>()}, stream, queue);
  const auto workers = static_cast<unsigned>(kFewBlocks * params.multiprocessors);
  tile::launch_kernel(
      &sampler_image_gradient<T>,
      {tile::least(workers, queue.all_tiles), kSamplerThreads, 0, 1, tile::waits_by_pdl<&sampler_image_gradient<T>>()},
      stream, args);
}

}  // namespace

void launch_sampler_image_gradient(const SamplerParams& params, CUstream_st* stream) {
  tile::with_element_type(params.type, [&]<class T>() { launch<T>(params, stream); });
}

}  // namespace gpudnn::kernels
