// The configs of the Winograd convolution on bfloat16 tensor cores and what they cost.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/cost_model.hpp"
#include "ops/conv/select/offer_splits.hpp"
#include "ops/conv/tile_names.hpp"
#include "ops/conv/transform_params.hpp"
#include "ops/conv/winograd/winograd_sm90_params.hpp"

namespace gpudnn::conv {
namespace {

namespace split = kernels::fp32_split;
namespace sm90 = kernels::sm90;
namespace winograd = kernels::winograd;

constexpr double kPartialRate = 0.39;  // of the L2's
constexpr double kReduceSeconds = 2.0e-6;
constexpr double kWgradTileSeconds = 1.6e-6;  // filter gradient: its sums leave while nothing is multiplied

// Tiles with 4 outputs a side first, of all rows of the product; then those with 2. In the filter gradient once more
// for each size of chunks.
constexpr int kSides = static_cast<int>(std::size(winograd::kOutputTiles));
template <std::size_t kSizes, std::size_t kRows>
constexpr auto names_of(const sm90::TileShape (&shapes)[kRows], const std::string_view (&ends)[kSizes]) {
  std::array<TileName, kSizes * kSides * kRows> names;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const sm90::TileShape& shape = shapes[i % kRows];
    names[i]
        .add("f", winograd::kOutputTiles[i / kRows % kSides])
        .add("x3_bm", shape.bm)
        .add("_bn", shape.bn)
        .add(ends[i / kRows / kSides]);
  }
  return names;
}
constexpr auto kNames = names_of(split::kShapes, {std::string_view("")});
constexpr auto kWgradNames =
    names_of(split::kWgradShapes, {std::string_view("_wgrad"), std::string_view("_wgrad_256mb")});
static_assert(kWgradNames.size() == std::size(kWgradChunkBytes) * kSides * split::kWgradShapeCount);

double product_seconds(const WinogradSm90Launch& l, const TransformBytes& bytes, const DeviceRates& rates) {
  const bool is_wgrad = l.direction == Direction::wgrad;
  const sm90::TileShape& tile = (is_wgrad ? split::kWgradShapes : split::kShapes)[l.tile];
  Footprint f = footprint_of(l, tile, bytes, rates);
  f.flops = 2.0 * tile.bm * tile.bn * split::kChunkChannels;
  f.l2_bytes = tile.bm * sm90::kRowBytes + tile.bn * (is_wgrad ? sm90::kRowBytes : split::kTerms * split::kChunkBytes);
  if (is_wgrad) f.tile_seconds += kWgradTileSeconds;
  if (l.product.params.splits > 1) {
    f.partial_bytes = 2.0 * f.tiles * f.store_bytes;
    f.partial_rate = kPartialRate;
    f.reduce_seconds = kReduceSeconds;
  }
  return estimate(f, rates);
}

double seconds_of(const Problem& p, const WinogradSm90Launch& l, const DeviceRates& rates) {
  const TransformBytes bytes = bytes_of_parts(l);
  const auto chunks = static_cast<double>(ceil_div(l.tiles, l.chunk_tiles));
  return transform_seconds(p, product_seconds(l, bytes, rates), chunks, bytes, {kRowTransformRate, kRowTransformRate},
                           rates);
}

// Chunks of the images that are offered: all at once, and what fits in 256 MB, 64 MB and the L2.
constexpr double kChunkBytes[] = {1e18, 256e6, 64e6, 32e6};

// Whether the chunks are as large with the row's limit as with the one before.
bool repeats_chunks(const Problem& problem, const Config& config) {
  const int limit = config.tile / split::kWgradShapeCount / kSides;
  const int m = winograd::kOutputTiles[config.tile / split::kWgradShapeCount % kSides];
  return limit > 0 && winograd_sm90_wgrad_chunk(problem, m, kWgradChunkBytes[limit]) ==
                          winograd_sm90_wgrad_chunk(problem, m, kWgradChunkBytes[limit - 1]);
}

// One split, and those that fill the device once and twice.
void offer_rounds(const Problem& problem, Config config, const Device& device, std::vector<Candidate>* candidates) {
  if (repeats_chunks(problem, config)) return;
  const WinogradSm90Launch whole = winograd_sm90_launch(problem, config);
  const auto push = [&](const WinogradSm90Launch& l) {
    candidates->push_back({config, seconds_of(problem, l, device.rates), l.workspace});
  };
  const auto offer = [&](std::int32_t splits) {
    config.split_k = splits;
    if (splits == 1) {
      push(whole);
    } else {
      push(winograd_sm90_launch(problem, config));
    }
  };
  offer_full_rounds(static_cast<double>(whole.product.tiles), static_cast<double>(whole.k_tiles_of_batch),
                    std::max(device.rates.multiprocessors, 2), 1024, offer);
}

}  // namespace

void winograd_sm90_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  const auto offer = [&](const auto& names, auto offer_tile) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      Config config;
      config.tile = static_cast<std::int32_t>(i);
      config.tile_name = names[i].text;
      offer_tile(problem, config, device, candidates);
    }
  };
  if (problem.direction == Direction::wgrad) return offer(kWgradNames, offer_rounds);
  offer(kNames, [](const Problem& p, const Config& config, const Device& on, std::vector<Candidate>* found) {
    const auto seconds = [&](const WinogradSm90Launch& l) { return seconds_of(p, l, on.rates); };
    offer_chunks(p, config, kChunkBytes, &winograd_sm90_launch, seconds, found);
  });
}

}  // namespace gpudnn::conv
