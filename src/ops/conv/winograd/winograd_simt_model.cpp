// The configs of the Winograd convolution and what they cost.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "ops/conv/tile_names.hpp"
#include "ops/conv/transform_params.hpp"
#include "ops/conv/winograd/winograd_simt_params.hpp"

namespace gpudnn::conv {
namespace {

namespace winograd = kernels::winograd;

constexpr double kTransformRate = 0.8;  // of the copy rate, which the transforms reach

// Tiles with 4 outputs a side first, of all rows of the product; then those with 2.
constexpr int kRows = static_cast<int>(std::size(winograd::kOutputTiles)) * winograd::kProductTileCount;
constexpr auto kNames = [] {
  std::array<TileName, kRows> names;
  for (int i = 0; i < kRows; ++i) {
    const winograd::ProductRow& row = winograd::kProductTiles[i % winograd::kProductTileCount];
    names[static_cast<std::size_t>(i)]
        .add("f", winograd::kOutputTiles[i / winograd::kProductTileCount])
        .add("x3_bm", row.bm)
        .add("_bn", row.bn);
  }
  return names;
}();

double seconds_of(const Problem& p, const WinogradLaunch& l, const DeviceRates& rates) {
  const TransformBytes bytes = {4.0 * static_cast<double>(l.data_at - l.filter_at),
                                4.0 * static_cast<double>(l.product_at - l.data_at),
                                4.0 * static_cast<double>(l.workspace_floats - l.product_at)};
  const auto chunks = static_cast<double>(ceil_div(l.tiles, l.chunk_tiles));
  return transform_seconds(p, batched_product_seconds(l.product, l.product_row, bytes, rates), chunks, bytes,
                           {kTransformRate, kTransformRate}, rates);
}

// Chunks of the images that are offered: all at once, and what fits in 256 MB, 64 MB and the L2.
constexpr double kChunkBytes[] = {256e6, 64e6, 32e6};
constexpr int kMaxChunks = 64;

// The launches of a size of tiles that are offered: of the filter gradient the one without splits.
std::vector<WinogradLaunch> launches_of(const Problem& problem, int side) {
  Config config;
  config.tile = side * winograd::kProductTileCount;
  std::vector<WinogradLaunch> launches = {winograd_launch(problem, config)};
  if (problem.direction == Direction::wgrad) return launches;
  const double bytes = 4.0 * static_cast<double>(launches[0].workspace_floats - launches[0].data_at);
  for (const double limit : kChunkBytes) {
    const auto chunks = static_cast<std::int32_t>(std::min<double>(kMaxChunks, std::ceil(bytes / limit)));
    if (chunks == config.split_k) continue;
    config.split_k = chunks;
    launches.push_back(winograd_launch(problem, config));
  }
  return launches;
}

// The split that the model finds best.
Candidate best_split(const Problem& problem, Config config, WinogradLaunch launch, const Device& device) {
  Candidate best;
  for (int splits = 1; splits <= 64; splits += splits < 4 ? 1 : splits / 4) {
    config.split_k = splits;
    set_winograd_splits(splits, &launch);
    if (splits > 1 && launch.product.k_per_split < 4 * winograd::kProductTileK) break;
    const double seconds = seconds_of(problem, launch, device.rates);
    if (splits == 1 || seconds < best.seconds) best = {config, seconds, winograd_workspace(launch)};
  }
  return best;
}

}  // namespace

void winograd_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  std::vector<WinogradLaunch> launches;
  for (int i = 0; i < kRows; ++i) {
    const int row = i % winograd::kProductTileCount;  // on which nothing but the product depends
    if (row == 0) launches = launches_of(problem, i / winograd::kProductTileCount);
    Config config;
    config.tile = i;
    config.tile_name = kNames[static_cast<std::size_t>(i)].text;
    for (WinogradLaunch& launch : launches) {
      launch.product_row = row;
      config.split_k = launch.split_k;
      candidates->push_back(
          problem.direction == Direction::wgrad
              ? best_split(problem, config, launch, device)
              : Candidate{config, seconds_of(problem, launch, device.rates), winograd_workspace(launch)});
    }
  }
}

}  // namespace gpudnn::conv
