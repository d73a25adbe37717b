// The configs of the Fourier convolution and what they cost.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "ops/conv/fft/fft_simt_params.hpp"
#include "ops/conv/tile_names.hpp"
#include "ops/conv/transform_params.hpp"

namespace gpudnn::conv {
namespace {

namespace fft = kernels::fft;
namespace winograd = kernels::winograd;

constexpr double kTransformRate = 0.45;      // of the copy rate, which the transforms reach
constexpr double kRateAlongChannels = 0.25;  // ... of images with their channels last
constexpr double kCodeSeconds = 10e-6;       // of a transform: its code is long, and cold

constexpr int kSizes = static_cast<int>(std::size(fft::kTileSizes));
constexpr auto kNames = [] {
  std::array<TileName, static_cast<std::size_t>(kSizes * winograd::kProductTileCount)> names;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const winograd::ProductRow& row = winograd::kProductTiles[i % winograd::kProductTileCount];
    names[i].add("t", fft::kTileSizes[i / winograd::kProductTileCount]).add("_bm", row.bm).add("_bn", row.bn);
  }
  return names;
}();

// No config asks for more but the one that asks for the least.
constexpr double kMaxBytes = 8e9;
// Chunks of the images that are offered beside all at once: what fits in 256 MB and 64 MB.
constexpr double kChunkBytes[] = {256e6, 64e6};
constexpr int kMaxChunks = 64;

Candidate candidate_of(const Problem& p, const Config& config, const FourierLaunch& l, const Device& device) {
  const TransformBytes bytes = {4.0 * static_cast<double>(l.data_at),
                                4.0 * static_cast<double>(l.product_at - l.data_at),
                                4.0 * static_cast<double>(l.workspace_floats - l.product_at)};
  const auto chunks = static_cast<double>(ceil_div(l.tiles, l.chunk_tiles));
  const double product = batched_product_seconds(l.product, l.product_row, bytes, device.rates);
  const double rate = runs_along_channels(p.x) || runs_along_channels(p.y) ? kRateAlongChannels : kTransformRate;
  const double seconds = transform_seconds(p, product, chunks, bytes, {rate, kTransformRate}, device.rates);
  return {config, seconds + (1 + 2 * chunks) * kCodeSeconds, fourier_workspace(l)};
}

// Of a size of tiles the product tile that the model finds best, for all tiles at once. Nothing but the product depends
// on it.
Candidate best_row(const Problem& p, int size_index, const Device& device) {
  Config config;
  config.tile = size_index * winograd::kProductTileCount;
  FourierLaunch launch = fourier_launch(p, config);
  Candidate best;
  for (int row = 0; row < winograd::kProductTileCount; ++row, ++config.tile) {
    config.tile_name = kNames[static_cast<std::size_t>(config.tile)].text;
    launch.product_row = row;
    const Candidate one = candidate_of(p, config, launch, device);
    if (row == 0 || one.seconds < best.seconds) best = one;
  }
  return best;
}

void offer_chunks(const Problem& p, int size, const Device& device, std::vector<Candidate>* candidates) {
  const Candidate whole = best_row(p, size, device);
  candidates->push_back(whole);
  Config config = whole.config;
  for (const double limit : kChunkBytes) {
    const int parts =
        static_cast<int>(std::min<double>(kMaxChunks, std::ceil(static_cast<double>(whole.workspace) / limit)));
    if (parts == config.split_k) continue;
    config.split_k = parts;
    candidates->push_back(candidate_of(p, config, fourier_launch(p, config), device));
  }
}

void offer_best_split(const Problem& p, int size, const Device& device, std::vector<Candidate>* candidates) {
  Candidate best = best_row(p, size, device);
  Config config = best.config;
  for (int splits = 2; splits <= 32; splits *= 2) {
    config.split_k = splits;
    const FourierLaunch launch = fourier_launch(p, config);
    if (launch.product.k_per_split < 4 * winograd::kProductTileK) break;
    const Candidate one = candidate_of(p, config, launch, device);
    if (one.seconds < best.seconds) best = one;
  }
  candidates->push_back(best);
}

void offer_sizes(const Problem& p, const Device& device, int first, std::vector<Candidate>* candidates) {
  std::vector<Candidate> all;
  for (int size = first; size < kSizes; ++size) {
    const std::int64_t most = std::max(p.w.dims[2], p.w.dims[3]);
    if (fft::kTileSizes[size] < most) continue;
    if (p.direction == Direction::wgrad) {
      offer_best_split(p, size, device, &all);
    } else {
      offer_chunks(p, size, device, &all);
    }
  }
  const auto least = std::ranges::min_element(all, {}, &Candidate::workspace);
  for (const Candidate& c : all) {
    if (&c == &*least || static_cast<double>(c.workspace) <= kMaxBytes) candidates->push_back(c);
  }
}

}  // namespace

// Images in as few tiles as there are: of 64 x 64, or the smallest that a padded image fits.
void fft_candidates(const Problem& p, const Device& device, std::vector<Candidate>* candidates) {
  int first = kSizes - 1;
  const auto fits = [&](int size) {
    return p.x.dims[2] + 2 * p.pad[0] <= size && p.x.dims[3] + 2 * p.pad[1] <= size && p.w.dims[2] <= size &&
           p.w.dims[3] <= size;
  };
  while (first > 0 && fits(fft::kTileSizes[first - 1])) --first;
  offer_sizes(p, device, first, candidates);
}

void fft_tiling_candidates(const Problem& p, const Device& device, std::vector<Candidate>* candidates) {
  offer_sizes(p, device, 0, candidates);
}

}  // namespace gpudnn::conv
