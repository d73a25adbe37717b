// The configs of the Fourier convolution on bfloat16 tensor cores and what they cost.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/cost_model.hpp"
#include "ops/conv/fft/fft_simt_params.hpp"
#include "ops/conv/fft/fft_sm90_params.hpp"
#include "ops/conv/fp32_split/row_batches.hpp"
#include "ops/conv/tile_names.hpp"

namespace gpudnn::conv {
namespace {

namespace fft = kernels::fft;
namespace split = kernels::fp32_split;
namespace sm90 = kernels::sm90;

// Of the copy rate: transforms of images with channels last.
constexpr double kRateAlongChannels = 0.24;
constexpr double kWgradRateAlongChannels = 0.3;

constexpr int kSizes = static_cast<int>(std::size(fft::kRowTileSizes));
constexpr auto kNames = tile_names(fft::kRowTileSizes, [](int size) { return TileName().add("t", size); });
constexpr auto kWgradNames = [] {
  std::array<TileName, static_cast<std::size_t>(kSizes * split::kWgradShapeCount)> names;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const sm90::TileShape& shape = split::kWgradShapes[i % split::kWgradShapeCount];
    names[i].add("t", fft::kRowTileSizes[i / split::kWgradShapeCount]).add("_bm", shape.bm).add("_wgrad");
  }
  return names;
}();

double product_seconds(const FourierSm90Launch& l, const TransformBytes& bytes, const DeviceRates& rates) {
  const bool is_wgrad = l.direction == Direction::wgrad;
  const sm90::TileShape& tile = is_wgrad ? split::kWgradShapes[l.tile] : split::kComplexShape;
  Footprint f = footprint_of(l, tile, bytes, rates);
  // Of 32 floats of a row, of which a complex product has 16 numbers and half as many columns, each four times.
  f.flops = 2.0 * tile.bm * tile.bn * sm90::kRowBytes / sizeof(float);
  f.l2_bytes = tile.bm * sm90::kRowBytes +
               (is_wgrad ? tile.bn * sm90::kRowBytes : split::kComplexRowsOfB * split::kTerms * split::kChunkBytes);
  return estimate(f, rates);
}

double seconds_of(const Problem& p, const FourierSm90Launch& l, const DeviceRates& rates) {
  const TransformBytes bytes = bytes_of_parts(l);
  const auto chunks = static_cast<double>(ceil_div(l.tiles, l.chunk_tiles));
  const bool along_channels = runs_along_channels(p.x) || runs_along_channels(p.y);
  const double rate = !along_channels                   ? kRowTransformRate
                      : p.direction == Direction::wgrad ? kWgradRateAlongChannels
                                                        : kRateAlongChannels;
  return transform_seconds(p, product_seconds(l, bytes, rates), chunks, bytes, {rate, kRowTransformRate}, rates);
}

// No config asks for more but the one that asks for the least.
constexpr double kMaxBytes = 8e9;
// Chunks of the images that are offered: all at once, and what fits in 256 MB and the L2.
constexpr double kChunkBytes[] = {1e18, 256e6, 48e6};

void offer_sizes(const Problem& p, const Device& device, int first, std::vector<Candidate>* candidates) {
  std::vector<Candidate> all;
  const bool is_wgrad = p.direction == Direction::wgrad;
  const auto seconds = [&](const FourierSm90Launch& l) { return seconds_of(p, l, device.rates); };
  const int products = is_wgrad ? split::kWgradShapeCount : 1;
  for (int i = first * products; i < kSizes * products; ++i) {
    if (fft::kRowTileSizes[i / products] < std::max(p.w.dims[2], p.w.dims[3])) continue;
    Config config;
    config.tile = i;
    config.tile_name = (is_wgrad ? kWgradNames[static_cast<std::size_t>(i)] : kNames[static_cast<std::size_t>(i)]).text;
    if (is_wgrad) {
      const FourierSm90Launch l = fourier_sm90_launch(p, config);
      all.push_back({config, seconds_of(p, l, device.rates), l.workspace});
    } else {
      offer_chunks(p, config, kChunkBytes, &fourier_sm90_launch, seconds, &all);
    }
  }
  const auto least = std::ranges::min_element(all, {}, &Candidate::workspace);
  for (const Candidate& c : all) {
    if (&c == &*least || static_cast<double>(c.workspace) <= kMaxBytes) candidates->push_back(c);
  }
}

}  // namespace

// Images in as few tiles as there are: of 32 x 32, or the smallest that a padded image fits.
void fft_sm90_candidates(const Problem& p, const Device& device, std::vector<Candidate>* candidates) {
  int first = kSizes - 1;
  const auto fits = [&](int size) { return p.x.dims[2] + 2 * p.pad[0] <= size && p.x.dims[3] + 2 * p.pad[1] <= size; };
  while (first > 0 && fits(fft::kRowTileSizes[first - 1])) --first;
  offer_sizes(p, device, first, candidates);
}

void fft_tiling_sm90_candidates(const Problem& p, const Device& device, std::vector<Candidate>* candidates) {
  offer_sizes(p, device, 0, candidates);
}

}  // namespace gpudnn::conv
