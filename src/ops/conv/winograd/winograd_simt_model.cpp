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

void offer(const Problem& problem, const Config& config, const Device& device, std::vector<Candidate>* candidates) {
  const WinogradLaunch launch = winograd_launch(problem, config);
  candidates->push_back({config, seconds_of(problem, launch, device.rates), winograd_workspace(launch)});
}

void offer_chunks(const Problem& problem, Config config, const Device& device, std::vector<Candidate>* candidates) {
  config.split_k = 1;
  const WinogradLaunch whole = winograd_launch(problem, config);
  const double bytes = 4.0 * static_cast<double>(whole.workspace_floats - whole.data_at);
  int former = 0;
  for (const double limit : {1e18, kChunkBytes[0], kChunkBytes[1], kChunkBytes[2]}) {
    config.split_k = static_cast<std::int32_t>(std::min<double>(kMaxChunks, std::ceil(bytes / limit)));
    if (config.split_k == former) continue;
    former = config.split_k;
    offer(problem, config, device, candidates);
  }
}

// The split that the model finds best.
void offer_best_split(const Problem& problem, Config config, const Device& device, std::vector<Candidate>* candidates) {
  Candidate best;
  for (int splits = 1; splits <= 64; splits += splits < 4 ? 1 : splits / 4) {
    config.split_k = splits;
    const WinogradLaunch launch = winograd_launch(problem, config);
    if (splits > 1 && launch.product.k_per_split < 4 * winograd::kProductTileK) break;
    const double seconds = seconds_of(problem, launch, device.rates);
    if (splits == 1 || seconds < best.seconds) best = {config, seconds, winograd_workspace(launch)};
  }
  candidates->push_back(best);
}

}  // namespace

void winograd_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  for (int i = 0; i < kRows; ++i) {
    Config config;
    config.tile = i;
    config.tile_name = kNames[static_cast<std::size_t>(i)].text;
    if (problem.direction == Direction::wgrad) {
      offer_best_split(problem, config, device, candidates);
    } else {
      offer_chunks(problem, config, device, candidates);
    }
  }
}

}  // namespace gpudnn::conv
