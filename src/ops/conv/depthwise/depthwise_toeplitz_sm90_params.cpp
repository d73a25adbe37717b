// The mapping of depthwise convolutions to the kernel by Toeplitz matrices, and its cost model.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/depthwise/depthwise_toeplitz_sm90_params.hpp"

#include <algorithm>
#include <limits>

#include "core/cost_model.hpp"
#include "core/integer.hpp"
#include "ops/conv/depthwise/depthwise_toeplitz_planes.hpp"
#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/tile_names.hpp"

namespace gpudnn::conv {
namespace {

using namespace kernels::depthwise_toeplitz;  // NOLINT: this file speaks of nothing else
using toeplitz::divisor;
using toeplitz::resident_blocks;
using toeplitz::strides_of;

constexpr auto kNames = tile_names(kTiles, [](const TileRow& row) {
  return TileName().add("q", 16 * row.products).add("_p", 8 * row.groups).add("_s", row.reach == 1 ? 17 : kMaxTaps);
});

const TensorGeometry& image_of(const Problem& problem) {
  return problem.direction == Direction::dgrad ? problem.y : problem.x;
}
const TensorGeometry& out_of(const Problem& problem) {
  return problem.direction == Direction::dgrad ? problem.x : problem.y;
}
// In front of the image, as the kernel reads it.
std::int64_t pad_of(const Problem& problem, int dim) {
  return problem.direction == Direction::dgrad ? problem.w.dims[2 + dim] - 1 - problem.pad[dim] : problem.pad[dim];
}

// Bytes that a thread block waits for before its first product.
constexpr std::int64_t kMaxStagedFilter = 10 * 1024;
// Of sequences; with fewer taps there is little to multiply.
constexpr std::int64_t kMinTapsOfSequence = 9;

// Whether an instance has all diagonals of blocks of 8 x 8 with taps in them.
bool holds_diagonals(const TileRow& tile, std::int64_t taps, std::int64_t pad) {
  return pad + 7 < 8 * (tile.reach + 1) && taps + 6 - pad < 8 * (tile.reach + 1);
}

// Rows of 64 columns for a sequence: with half of the taps on either side of those of the output, whose first one
// begins a block of 8.
bool set_sequence(const TileRow& tile, std::int32_t length, std::int32_t image_length, Params* p) {
  if (tile.products != 4) return false;
  const std::int32_t columns = 16 * tile.products;
  const std::int32_t pad = p->pad_w;
  p->pad_w = (p->taps_w - 1) / 2;
  const auto first = static_cast<std::int32_t>(round_up(p->pad_w, 8));
  const std::int32_t wide = (columns - (p->taps_w - 1) - (first - p->pad_w)) / 8 * 8;
  const auto too_far = [&](const Strides& steps) {
    return steps.w > std::numeric_limits<std::int32_t>::max() / columns;
  };
  if (wide <= 0 || too_far(p->image.steps) || too_far(p->out_steps) || too_far(p->addend_steps)) return false;
  p->out_sequence = {length, wide, -first, first / 8};
  p->image.sequence = {image_length, wide, p->pad_w - first - pad, 0};
  p->out_w = first + wide;
  p->image.width = first + wide + p->taps_w - 1 - p->pad_w;
  p->out_h = p->image.height = static_cast<std::int32_t>(ceil_div(length, wide));
  for (Strides* steps : {&p->image.steps, &p->out_steps, &p->addend_steps}) steps->h = wide * steps->w;
  return true;
}

// The planes: whole images with zeros between, or the rows that a part of one sees.
void set_tile(const TileRow& tile, Params* p) {
  Planes& image = p->image;
  const int rows = 8 * tile.groups;
  // Of the image, that windows of so many groups of rows see.
  const auto reach = [&](int groups) { return 8 * groups - 1 + p->taps_h; };
  image.blocks = divisor(ceil_div(image.width, 8));
  p->out_blocks = divisor(ceil_div(p->out_w, 8));
  image.pitch = static_cast<std::int32_t>(std::max(image.blocks.divisor, p->out_blocks.divisor) | 1);
  int image_pitch = 0;
  // Of large filters a group leaves out the rows of taps that see none of the image, where a load is of one group. So
  // its products read no more than 7 rows of zeros above the image and below. Results stay out of them: the next plane
  // begins there.
  constexpr int kZeros = 7;
  const bool skips = tile.reach > 1 && tile.products > 1;
  if (p->out_h <= rows && p->out_h <= image.height) {
    const auto groups = static_cast<int>(ceil_div(p->out_h, 8));
    p->row_groups = divisor(groups);
    p->tile_images = std::min(tile.groups / groups, p->images);
    p->tile_rows = p->out_h;
    p->whole_planes = true;
    const int zeros = std::max({p->pad_h, reach(groups) - p->pad_h - image.height, 0});
    image_pitch = image.height + (skips ? std::min(zeros, kZeros) : zeros);
  } else {
    p->row_groups = divisor(tile.groups);
    p->tile_images = 1;
    p->tile_rows = rows;
    p->whole_planes = skips && image.height + kZeros <= reach(tile.groups);
    image_pitch = p->whole_planes ? std::max(image.height, rows) + kZeros : reach(tile.groups);
  }
  image.in_rows = p->whole_planes ? image.height : image_pitch;
  image.first_row = p->whole_planes ? 0 : -p->pad_h;
  image.top = !p->whole_planes ? 0 : skips ? std::min(p->pad_h, kZeros) : p->pad_h;
  image.image_pitch = divisor(image_pitch);
  image.plane_rows = (p->tile_images * image_pitch) | 1;
  p->rows = divisor(p->tile_rows);
  p->row_tiles = divisor(ceil_div(p->out_h, p->tile_rows));
  p->channel_tiles = divisor(ceil_div(p->channels, kChannels));
  p->thread_blocks =
      p->channel_tiles.divisor * p->row_tiles.divisor * static_cast<std::uint32_t>(ceil_div(p->images, p->tile_images));
  const int chunks = image.top * image.pitch + kChannels * image.plane_chunks();
  p->shared_bytes = kPlanesAt + 16 * static_cast<std::uint32_t>(chunks);
  p->filter_at = p->shared_bytes;
  // A row more, which the last one's successor is.
  const auto filter_bytes = round_up(2 * (kChannels * p->taps_h + 2) * (p->taps_w + 2) + 64, 16);
  p->stages_filter = tile.reach == 1 || filter_bytes <= kMaxStagedFilter;
  if (p->stages_filter) p->shared_bytes += static_cast<std::uint32_t>(filter_bytes);
}

// Products of 16 x 8 x 16 of a warp for a row of taps of a plane: those beside the diagonal are halves.
double products_of_row(const TileRow& tile) {
  const double beside = tile.products > 1 ? 2.0 * (tile.products - 1) * (tile.reach == 1 ? 0.5 : 1) : 0;
  return tile.groups * (tile.products + beside);
}

double seconds_of(const Problem& problem, const Params& p, const TileRow& tile, const DeviceRates& rates) {
  constexpr double kCyclesOfProduct = 3.8;  // of a multiprocessor
  constexpr double kCyclesOfRow = 11;       // of taps of a plane: its words
  constexpr double kCyclesOfItem = 11;      // 8 pixels by 32 channels, loaded or stored
  Footprint f;
  f.tiles = p.thread_blocks;
  f.resident = resident_blocks(p.shared_bytes, tile.min_blocks);
  f.warps = kWarps;
  f.latency_warps = 6;
  const double items = p.tile_images * (1.0 * p.image.image_pitch.divisor * p.image.blocks.divisor +
                                        1.0 * p.tile_rows * p.out_blocks.divisor);
  f.cycles =
      kChannels * p.taps_h * (products_of_row(tile) * kCyclesOfProduct + kCyclesOfRow) + items * kCyclesOfItem + 1900;
  f.k_tile_latency = 5.5e-6;
  f.start_seconds = 2e-6;
  f.dram_bytes = 1.2 * bytes_of_tensors(problem);
  return estimate(f, rates);
}

}  // namespace

const char* depthwise_toeplitz_unsupported_reason(const Problem& problem) {
  if (problem.direction == Direction::wgrad) return "it takes no filter gradients";
  if (const char* reason = toeplitz::unsupported_reason(problem)) return reason;
  if (problem.spatial == 1 && problem.w.dims[2] < kMinTapsOfSequence) return "it takes sequences with 9 taps and more";
  for (int i = 0; i < problem.spatial; ++i) {
    if (problem.dilation[i] != 1 && problem.w.dims[2 + i] > 1) return "it takes dilation 1";
    if (pad_of(problem, i) < 0 || problem.pad[i] > 64) return "padding beyond the filter, or over 64";
  }
  if (const char* reason = channel_scale_unsupported_reason(problem)) return reason;
  for (int row = 0; row < kTileCount; ++row) {
    if (depthwise_toeplitz_params(problem, row)) return nullptr;
  }
  return "it takes images of up to 64 columns that fit shared memory";
}

std::optional<Params> depthwise_toeplitz_params(const Problem& problem, int row) {
  const TileRow& tile = kTiles[row];
  const TensorGeometry& image = image_of(problem);
  const TensorGeometry& out = out_of(problem);
  const bool is_sequence = problem.spatial == 1;
  const int w = problem.spatial - 1;
  Params p;
  const auto size = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  p.images = size(image.dims[0]);
  p.channels = size(image.dims[1]);
  p.taps_w = size(problem.w.dims[2 + w]);
  p.pad_w = size(pad_of(problem, w));
  p.mirrored = (problem.mode == GPUDNN_CONVOLUTION) != (problem.direction == Direction::dgrad);
  p.image.steps = strides_of(image);
  p.out_steps = strides_of(out);
  p.addend_steps = problem.has_z != 0 ? strides_of(problem.z) : p.out_steps;
  p.filter_k = problem.w.strides[0];
  p.filter_s = problem.w.strides[2 + w];
  if (is_sequence) {
    if (!set_sequence(tile, size(out.dims[2]), size(image.dims[2]), &p)) return std::nullopt;
  } else {
    p.image.height = size(image.dims[2]);
    p.image.width = size(image.dims[3]);
    p.out_h = size(out.dims[2]);
    p.out_w = size(out.dims[3]);
    p.taps_h = size(problem.w.dims[2]);
    p.pad_h = size(pad_of(problem, 0));
    p.filter_r = problem.w.strides[2];
  }
  p.filter_rows = divisor(p.taps_h);
  if (!holds_diagonals(tile, p.taps_w, p.pad_w)) return std::nullopt;
  if (tile.reach > 1 && holds_diagonals(kTiles[0], p.taps_w, p.pad_w)) return std::nullopt;
  // No wider than it must be.
  const std::int32_t columns = std::max(p.image.width, p.out_w);
  if (columns > 16 * tile.products || (tile.products > 1 && columns <= 8 * tile.products)) return std::nullopt;
  set_activation(problem, &p);
  set_tile(tile, &p);
  if (p.shared_bytes > kMaxShared) return std::nullopt;
  return p;
}

void depthwise_toeplitz_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  for (std::int32_t row = 0; row < kTileCount; ++row) {
    const std::optional<Params> p = depthwise_toeplitz_params(problem, row);
    if (!p) continue;
    candidates->push_back({{.tile = row, .tile_name = kNames[static_cast<std::size_t>(row)].text},
                           seconds_of(problem, *p, kTiles[row], device.rates),
                           0});
  }
}

}  // namespace gpudnn::conv
