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

// The configs: rows of dy in a thread block.
constexpr int kRows[] = {16, 32, 64};
constexpr const char* kNames[] = {"p16", "p32", "p64"};

// The instance of the problem, or -1.
int row_of(const Problem& problem) {
  // 32 lanes have the columns of dy that 16 columns of x meet.
  const std::int64_t taps = problem.w.dims[3];
  if (problem.dilation[1] != 1 && (taps > 8 || (taps - 1) * problem.dilation[1] > 17)) return -1;
  const int at_once = std::max(taps, problem.w.dims[2]) <= 8 ? 8 : 16;
  for (int row = 0; row < kWgradTileCount; ++row) {
    const WgradRow& tile = kWgradTiles[row];
    if (std::max(problem.x.dims[3], problem.y.dims[3]) <= 16 * tile.steps && tile.taps == at_once) return row;
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

// Whole images, or so many rows of dy.
void set_tile(int rows, WgradParams* p) {
  const bool whole = p->rows.height <= rows;
  p->tile_images = whole ? std::min(rows / p->rows.height, p->images) : 1;
  p->tile_rows = whole ? p->rows.height : rows;
  const int reach = p->tile_rows + (p->taps_h - 1) * p->dilation_h;  // rows of x
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
  p->shared_bytes = p->rows_at + 16 * static_cast<std::uint32_t>(kChannels * dy.plane_chunks()) + kWgradSlack;
}

double seconds_of(const Problem& problem, const DepthwiseToeplitzWgrad& plan, const DeviceRates& rates) {
  constexpr double kCyclesOfStep = 8;       // of a row of dy and 16 columns of x, of a multiprocessor
  constexpr double kCyclesOfWideStep = 12;  // with 16 x 16 taps
  constexpr double kCyclesOfItem = 9.5;     // 8 pixels by 32 channels, loaded
  const WgradParams& p = plan.params;
  const WgradRow& tile = kWgradTiles[plan.row];
  Footprint f;
  f.tiles = p.thread_blocks;
  f.resident = resident_blocks(p.shared_bytes, tile.min_blocks);
  f.warps = kWarps;
  f.latency_warps = 6;
  const double items = p.tile_images * (1.0 * p.image.image_pitch.divisor * p.image.blocks.divisor +
                                        1.0 * p.rows.image_pitch.divisor * p.rows.blocks.divisor);
  const double passes = static_cast<double>(ceil_div(p.taps_h, tile.taps) * ceil_div(p.taps_w, tile.taps));
  const double steps = 1.0 * p.tile_images * p.tile_rows * static_cast<double>(ceil_div(p.image.width, 16));
  const double cycles = tile.taps == 8 ? kCyclesOfStep : kCyclesOfWideStep;
  f.cycles = kChannels * passes * steps * cycles + items * kCyclesOfItem + 1900;
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
  if (problem.spatial != 2) return "it takes two spatial dimensions";
  if (const char* reason = toeplitz::unsupported_reason(problem)) return reason;
  for (int i = 0; i < 2; ++i) {
    if (problem.pad[i] > 64) return "padding over 64";
    if (problem.dilation[i] > 64) return "dilation over 64";
  }
  if (row_of(problem) < 0)
    return "it takes rows of up to 64 columns, 32 with few taps; with a dilation 8 taps that lie close";
  return depthwise_toeplitz_wgrad(problem, kRows[0]) ? nullptr : "shared memory does not hold a tile";
}

std::optional<DepthwiseToeplitzWgrad> depthwise_toeplitz_wgrad(const Problem& problem, int rows) {
  DepthwiseToeplitzWgrad plan;
  plan.row = row_of(problem);
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
  set_tile(rows, &p);
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

int depthwise_toeplitz_wgrad_rows(const Config& config) { return kRows[config.tile]; }

void depthwise_toeplitz_wgrad_candidates(const Problem& problem, const Device& device,
                                         std::vector<Candidate>* candidates) {
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(std::size(kRows)); ++i) {
    const std::optional<DepthwiseToeplitzWgrad> plan = depthwise_toeplitz_wgrad(problem, kRows[i]);
    if (!plan) continue;
    // A batch needs no more rows than it has.
    if (i > 0 && kRows[i - 1] >= problem.x.dims[0] * problem.y.dims[2]) continue;
    candidates->push_back(
        {{.tile = i, .tile_name = kNames[i]}, seconds_of(problem, *plan, device.rates), plan->workspace});
  }
}

}  // namespace gpudnn::conv
