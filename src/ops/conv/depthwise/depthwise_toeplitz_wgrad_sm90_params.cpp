// The mapping of depthwise filter gradients to the kernel by products of planes, and its cost model.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/depthwise/depthwise_toeplitz_wgrad_sm90_params.hpp"

#include <algorithm>

#include "core/cost_model.hpp"
#include "core/integer.hpp"
#include "ops/conv/depthwise/depthwise_toeplitz_planes.hpp"
#include "ops/conv/epilogue_args.hpp"

namespace gpudnn::conv {
namespace {

using namespace kernels::depthwise_toeplitz;  // NOLINT: this file speaks of nothing else
using toeplitz::divisor;
using toeplitz::resident_blocks;
using toeplitz::strides_of;

// The configs: groups of 8 rows of dy in a thread block.
constexpr int kGroups[] = {2, 4, 8};
constexpr const char* kNames[] = {"p16", "p32", "p64"};

// The instance of the problem, or -1. The blocks of all but the narrowest hold diagonals of up to 8 columns.
int row_of(const Problem& problem) {
  const std::int64_t least = -problem.pad[1];
  const std::int64_t most = (problem.w.dims[3] - 1) * problem.dilation[1] + least;
  for (int row = 0; row < kWgradTileCount; ++row) {
    const WgradRow& tile = kWgradTiles[row];
    if (std::max(problem.x.dims[3], problem.y.dims[3]) > 16 * tile.products) continue;
    if (tile.first == 0 || (most <= 8 && least >= -8)) return row;
  }
  return -1;
}

Planes planes_of(const TensorGeometry& t) {
  Planes planes;
  planes.height = static_cast<std::int32_t>(t.dims[2]);
  planes.width = static_cast<std::int32_t>(t.dims[3]);
  planes.steps = strides_of(t);
  planes.blocks = divisor(ceil_div(planes.width, 8));
  planes.pitch = static_cast<std::int32_t>(planes.blocks.divisor | 1);
  return planes;
}

// Whole images, or `groups` groups of 8 rows of dy.
void set_tile(int groups, WgradParams* p) {
  const auto all = static_cast<int>(ceil_div(p->rows.height, 8));
  const bool whole = all <= groups;
  const int of_image = whole ? all : groups;
  p->row_groups = divisor(of_image);
  p->tile_images = whole ? std::min(groups / of_image, p->images) : 1;
  p->groups = p->tile_images * of_image;
  p->tile_rows = 8 * of_image;
  const int reach = p->tile_rows - 1 + (p->taps_h - 1) * p->dilation_h + 1;  // rows of x
  Planes& x = p->image;
  int x_pitch = reach;
  if (whole) {
    x.in_rows = x.height;
    x.first_row = 0;
    x.top = p->pad_h;
    x_pitch = x.height + std::max({p->pad_h, reach - p->pad_h - x.height, 0});
  } else {
    x.in_rows = reach;
    x.first_row = -p->pad_h;
    x.top = 0;
  }
  x.image_pitch = divisor(x_pitch);
  x.plane_rows = (p->tile_images * x_pitch) | 1;
  Planes& dy = p->rows;
  dy.in_rows = p->tile_rows;
  dy.image_pitch = divisor(p->tile_rows);
  dy.plane_rows = (p->tile_images * p->tile_rows) | 1;
  p->row_tiles = divisor(ceil_div(dy.height, p->tile_rows));
  p->channel_tiles = divisor(ceil_div(p->channels, kChannels));
  p->thread_blocks =
      p->channel_tiles.divisor * p->row_tiles.divisor * static_cast<std::uint32_t>(ceil_div(p->images, p->tile_images));
  p->rows_at = 16 * static_cast<std::uint32_t>(1 + x.top * x.pitch + kChannels * x.plane_chunks());
  p->scratch_at = p->rows_at + 16 * static_cast<std::uint32_t>(kChannels * dy.plane_chunks());
}

double seconds_of(const Problem& problem, const DepthwiseToeplitzWgrad& plan, const DeviceRates& rates) {
  constexpr double kCyclesOfProduct = 3.8;   // of a multiprocessor
  constexpr double kCyclesOfDiagonals = 38;  // of a row of taps of a plane
  constexpr double kCyclesOfItem = 9.5;      // 8 pixels by 32 channels, loaded
  const WgradParams& p = plan.params;
  const WgradRow& tile = kWgradTiles[plan.row];
  Footprint f;
  f.tiles = p.thread_blocks;
  f.resident = resident_blocks(p.shared_bytes, 2);
  f.warps = kWarps;
  f.latency_warps = 6;
  const double items = p.tile_images * (1.0 * p.image.image_pitch.divisor * p.image.blocks.divisor +
                                        1.0 * p.rows.image_pitch.divisor * p.rows.blocks.divisor);
  const double products = static_cast<double>(ceil_div(p.groups, 2)) * tile.products * tile.count;
  f.cycles = kChannels * p.taps_h * (products * kCyclesOfProduct + kCyclesOfDiagonals) + items * kCyclesOfItem + 1900;
  f.k_tile_latency = 5.5e-6;
  f.start_seconds = 2e-6;
  f.dram_bytes = 1.2 * bytes_of_tensors(problem);
  f.partial_bytes = 2.0 * static_cast<double>(plan.workspace);
  f.reduce_seconds = 3e-6;
  return estimate(f, rates);
}

}  // namespace

const char* depthwise_toeplitz_wgrad_unsupported_reason(const Problem& problem) {
  if (problem.direction != Direction::wgrad) return "it does the filter gradient only";
  if (const char* reason = toeplitz::unsupported_reason(problem)) return reason;
  for (int i = 0; i < 2; ++i) {
    if (problem.pad[i] > 64) return "padding over 64";
    if (problem.dilation[i] > 64) return "dilation over 64";
  }
  if (row_of(problem) < 0) return "it takes rows of up to 64 columns, and padding that suits the filter";
  return depthwise_toeplitz_wgrad(problem, kGroups[0]) ? nullptr : "shared memory does not hold a tile";
}

std::optional<DepthwiseToeplitzWgrad> depthwise_toeplitz_wgrad(const Problem& problem, int groups) {
  DepthwiseToeplitzWgrad plan;
  plan.row = row_of(problem);
  const WgradRow& tile = kWgradTiles[plan.row];
  WgradParams& p = plan.params;
  const auto size = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  p.images = size(problem.x.dims[0]);
  p.channels = size(problem.x.dims[1]);
  p.taps_h = size(problem.w.dims[2]);
  p.taps_w = size(problem.w.dims[3]);
  p.pad_h = size(problem.pad[0]);
  p.pad_w = size(problem.pad[1]);
  p.dilation_h = p.taps_h > 1 ? size(problem.dilation[0]) : 1;
  p.dilation_w = p.taps_w > 1 ? size(problem.dilation[1]) : 1;
  p.image = planes_of(problem.x);
  p.rows = planes_of(problem.y);
  set_tile(groups, &p);
  p.shared_bytes = p.scratch_at + static_cast<std::uint32_t>(4 * kWarps * tile.scratch_columns() * kScratchPitch);
  if (p.shared_bytes > kMaxShared) return std::nullopt;
  const std::uint32_t parts = p.thread_blocks / p.channel_tiles.divisor;
  plan.sum_shape = kernels::small_group::sum_shape(p.channels, 1, p.taps_h, p.taps_w, parts);
  plan.workspace = static_cast<std::size_t>(parts) * plan.sum_shape.count * sizeof(float);
  plan.sums.mirrored = problem.mode == GPUDNN_CONVOLUTION;
  plan.sums.filter_k = problem.w.strides[0];
  plan.sums.filter_r = problem.w.strides[2];
  plan.sums.filter_s = problem.w.strides[3];
  return plan;
}

int depthwise_toeplitz_wgrad_groups(const Config& config) { return kGroups[config.tile]; }

void depthwise_toeplitz_wgrad_candidates(const Problem& problem, const Device& device,
                                         std::vector<Candidate>* candidates) {
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(std::size(kGroups)); ++i) {
    const std::optional<DepthwiseToeplitzWgrad> plan = depthwise_toeplitz_wgrad(problem, kGroups[i]);
    if (!plan) continue;
    // Whole batches need no more groups than they have.
    if (i > 0 && kGroups[i - 1] >= problem.x.dims[0] * ceil_div(problem.y.dims[2], 8)) continue;
    candidates->push_back(
        {{.tile = i, .tile_name = kNames[i]}, seconds_of(problem, *plan, device.rates), plan->workspace});
  }
}

}  // namespace gpudnn::conv
