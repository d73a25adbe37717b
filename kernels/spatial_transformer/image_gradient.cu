// Instances and launch of the gradient of the sampled image.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/spatial_transformer/image_gradient_wide.cuh"
#include "kernels/spatial_transformer/tile_ranges.cuh"
#include "kernels/tile/launch.hpp"
#include "kernels/tile/shared_memory.cuh"

namespace gpudnn::kernels {
namespace {

constexpr std::int64_t kMostFewChannels = 8;       // that go four at a time
constexpr std::int64_t kLeastChannels = 16;        // of a block
constexpr std::int64_t kChannelsOfBlock = 64;      // where the device has work enough
constexpr std::int64_t kPointsForBoxes = 1 << 15;  // of all images: boxes are then worth a launch
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
  boxes.across = tile::FastDivmod(std::max(across, 1u));
  boxes.count = across * static_cast<std::uint32_t>(count(grid.height, boxes.shift_y));
  boxes.height = static_cast<std::uint32_t>(grid.height);
  return boxes;
}

// Launches the search for ranges, where the caller's memory holds them and they are worth it.
template <class T>
void find_ranges(const SamplerParams& params, ImageGradientArgs<T>* args, cudaStream_t stream) {
  args->boxes = boxes_of(params.sample, kMostBoxes);
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

// Ranges of channels, so many that there is work for the whole device, and what each thread takes of them.
template <class T>
void set_chunks(const SamplerParams& params, int pack, std::int64_t least_channels, SamplerArgs<T>* args) {
  int lanes = 1;
  while (pack > 1 && lanes < 32 && lanes * pack < params.channels) lanes *= 2;
  const std::int64_t unit = std::max<std::int64_t>(least_channels, std::min(lanes, 16) * std::int64_t{pack});
  const std::int64_t units = (params.channels + unit - 1) / unit;
  // Fewer channels a block where the blocks would not fill the device; more only where lanes take them side by side.
  const std::int64_t blocks = std::max<std::int64_t>(params.images * args->tiles, 1);
  const std::int64_t least = lanes > 1 ? 1 : (params.channels + kChannelsOfBlock - 1) / kChannelsOfBlock;
  const std::int64_t wanted = std::max(least, 16 * std::int64_t{params.multiprocessors} / blocks);
  const std::int64_t parts = std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(units, 1));
  args->chunk = std::max<std::int64_t>((units + parts - 1) / parts, 1) * unit;
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
  sampler.sample_width = tile::FastDivmod(static_cast<std::uint32_t>(std::max<std::int64_t>(params.sample.width, 1)));
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
  const bool wide = !packs && sizeof(T) < 8 && params.channels > kMostFewChannels &&
                    sizeof(WideShared) <= params.shared_memory_per_block;
  constexpr int N = tile::kPackWidth<T>;
  set_chunks(params, packs ? N : 1, wide ? kWideChannels : kLeastChannels, &sampler);
  find_ranges(params, &args, stream);
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
  tile::launch_kernel(&sampler_image_gradient<T>, {blocks, kSamplerThreads}, stream, args);
}

}  // namespace

void launch_sampler_image_gradient(const SamplerParams& params, CUstream_st* stream) {
  tile::with_element_type(params.type, [&]<class T>() { launch<T>(params, stream); });
}

}  // namespace gpudnn::kernels
