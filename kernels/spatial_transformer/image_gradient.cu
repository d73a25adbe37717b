// Instances and launch of the gradient of the sampled image.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/spatial_transformer/image_gradient.cuh"
#include "kernels/tile/launch.hpp"

namespace gpudnn::kernels {
namespace {

constexpr int kChannels = 16;  // sums of a thread; half as many of 16-bit types, whose loads take as many registers
constexpr int kFewChannels = 4;
constexpr int kFewStrips = 4;                      // of a tile with few channels
constexpr std::int64_t kChannelsOfBlock = 64;      // where the device has work enough
constexpr std::int64_t kPointsForBoxes = 1 << 15;  // of all images: boxes are then worth a launch

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

GridBoxes boxes_of(const SamplerImage& grid, std::int64_t most) {
  GridBoxes boxes{};
  const auto count = [](std::int64_t extent, std::uint32_t shift) {
    const std::int64_t points = std::int64_t{kPatch} << shift;
    return (extent + points - 1) / points;
  };
  while (count(grid.width, boxes.shift_x) * count(grid.height, boxes.shift_y) > most) {
    count(grid.width, boxes.shift_x) >= count(grid.height, boxes.shift_y) ? ++boxes.shift_x : ++boxes.shift_y;
  }
  const auto across = static_cast<std::uint32_t>(count(grid.width, boxes.shift_x));
  boxes.across = tile::FastDivmod(std::max(across, 1u));
  boxes.count = across * static_cast<std::uint32_t>(count(grid.height, boxes.shift_y));
  boxes.height = static_cast<std::uint32_t>(grid.height);
  return boxes;
}

// Ranges of channels, so many that there is work for the whole device, and what each thread takes of them.
template <class T>
void set_chunks(const SamplerParams& params, int pack, SamplerArgs<T>* args) {
  int lanes = 1;
  while (pack > 1 && lanes < 32 && lanes * pack < params.channels) lanes *= 2;
  const std::int64_t unit = std::max<std::int64_t>(kChannels, std::min(lanes, 16) * std::int64_t{pack});
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

template <class T, int N, int kSums, int kStrips>
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
  args.tile_height = kStrips * kStripHeight;
  args.linear = params.sample.strides[2] == params.sample.width * params.sample.strides[3];
  const auto across = static_cast<std::uint32_t>((params.image.width + kTileWidth - 1) / kTileWidth);
  const auto down = static_cast<std::uint32_t>((params.image.height + args.tile_height - 1) / args.tile_height);
  sampler.tiles = across * down;
  args.tiles = tile::FastDivmod(sampler.tiles);
  args.tiles_across = tile::FastDivmod(across);
  set_chunks(params, N, &sampler);

  args.boxes = boxes_of(params.sample, kMostBoxes);
  const std::size_t range_bytes = static_cast<std::size_t>(params.images) * args.boxes.count * sizeof(TileRange);
  if (args.boxes.count > 4 && params.images * sampler.pixels >= kPointsForBoxes &&
      range_bytes <= params.scratch_bytes && tile::is_aligned(params.scratch, alignof(TileRange))) {
    auto* const ranges = static_cast<TileRange*>(params.scratch);
    const std::int64_t blocks = params.images * ((args.boxes.count + kWarps - 1) / kWarps);
    tile::launch_kernel(&sampler_boxes<T>, {static_cast<unsigned>(blocks), kSamplerThreads}, stream, args, ranges);
    args.ranges = ranges;
  } else {
    args.boxes = boxes_of(params.sample, 1);
  }
  args.blocks = sampler.tiles * sampler.chunks;
  tile::launch_kernel(&sampler_image_gradient<T, N, kSums, kStrips>,
                      {static_cast<unsigned>(params.images * std::int64_t{args.blocks}), kSamplerThreads}, stream,
                      args);
}

}  // namespace

void launch_sampler_image_gradient(const SamplerParams& params, CUstream_st* stream) {
  tile::with_element_type(params.type, [&]<class T>() {
    constexpr int N = tile::kPackWidth<T>;
    constexpr bool kWide = sizeof(T) == 8;
    if (in_packs<T>(params)) {
      launch<T, N, kWide ? kFewChannels : 8, 1>(params, stream);
    } else if (!kWide && params.channels <= kFewChannels) {
      launch<T, 1, kFewChannels, kWide ? 1 : kFewStrips>(params, stream);
    } else {
      launch<T, 1, kWide ? kFewChannels : sizeof(T) == 2 ? kChannels / 2 : kChannels, 1>(params, stream);
    }
  });
}

}  // namespace gpudnn::kernels
