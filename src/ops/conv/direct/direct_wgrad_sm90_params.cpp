// The mapping of convolution problems to the Hopper direct filter gradient, and its cost model.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/direct/direct_wgrad_sm90_params.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/cost_model.hpp"
#include "core/integer.hpp"
#include "ops/conv/tensor_math.hpp"
#include "ops/conv/tma_layout.hpp"
#include "ops/element_type.hpp"

namespace gpudnn::conv {
namespace {

namespace direct = kernels::direct_wgrad;
using direct::FastDivmod;

constexpr std::int64_t kSharedBytes = 227 * 1024;
constexpr std::int64_t kMaxCount = std::numeric_limits<std::int32_t>::max() / 2;
constexpr std::int64_t kMaxExtent = kMaxCount / 16;  // along a dimension; of padding and dilation, too
constexpr std::int64_t kMaxParts = 4096;
constexpr std::int64_t kFewUnits = 4;  // of a block

struct Axis {
  std::int64_t in = 1, out = 1, taps = 1, pad = 0, dilation = 1;
  std::int64_t x_step = kCopyVector, dy_step = kCopyVector;  // bytes
  std::int64_t w_step = 0;                                   // elements
};

struct View {
  Axis axis[3];  // w, h, d
  std::int64_t images = 1, x_image = kCopyVector, dy_image = kCopyVector;
  std::int64_t groups = 1, channels = 1, filters = 1;  // of a group
};

View view_of(const Problem& problem) {
  View view;
  view.images = problem.x.dims[0];
  view.x_image = copy_step(problem.x, 0, 2);
  view.dy_image = copy_step(problem.y, 0, 2);
  view.groups = problem.groups;
  view.channels = problem.x.dims[1] / problem.groups;
  view.filters = problem.y.dims[1] / problem.groups;
  for (int a = 0; a < problem.spatial; ++a) {
    const int i = problem.spatial - 1 - a;
    Axis& axis = view.axis[a];
    axis.in = problem.x.dims[2 + i];
    axis.out = problem.y.dims[2 + i];
    axis.taps = problem.w.dims[2 + i];
    axis.pad = problem.pad[i];
    axis.dilation = axis.taps > 1 ? problem.dilation[i] : 1;
    axis.x_step = copy_step(problem.x, 2 + i, 2);
    axis.dy_step = copy_step(problem.y, 2 + i, 2);
    axis.w_step = problem.w.strides[2 + i];
  }
  // Rows go in pairs, so images that have but one are the rows of one image.
  Axis& h = view.axis[1];
  if (h.in == 1 && h.out == 1 && h.taps == 1) {
    h.in = h.out = view.images;
    h.x_step = view.x_image;
    h.dy_step = view.dy_image;
    view.images = 1;
    view.x_image = view.dy_image = kCopyVector;
  }
  return view;
}

// --- parts -----------------------------------------------------------------------------------------------------------

struct Parts {
  std::int64_t width = 64;  // channels of a part
  std::int64_t taps_w = 1, taps_h = 1, channels = 1, filters = 1, all = 1;
  std::int64_t rows = 1;    // of taps of a part
  std::int64_t shares = 1;  // of a block's rows
};
Parts parts_of(const View& view) {
  Parts parts;
  parts.taps_w = ceil_div(view.axis[0].taps, direct::kTaps);
  parts.taps_h = ceil_div(view.axis[1].taps, direct::kConsumers);
  parts.rows = ceil_div(view.axis[1].taps, parts.taps_h);
  parts.taps_h = ceil_div(view.axis[1].taps, parts.rows);
  parts.width = direct::part_channels(view.channels);
  parts.channels = ceil_div(view.channels, parts.width);
  parts.filters = ceil_div(view.filters, direct::kFilters);
  parts.all = view.groups * parts.filters * parts.channels * view.axis[2].taps * parts.taps_h * parts.taps_w;
  parts.shares = parts.rows == 1 ? direct::kConsumers : 1;
  return parts;
}

// --- strips ----------------------------------------------------------------------------------------------------------

struct Strips {
  std::int64_t tile_w = 0, count = 0, pairs = 1;
  std::int64_t x_pixels = 0, rest_pixels = 0, halo_pairs = 0;
  std::int64_t x_pixel_bytes = 0, x_row_bytes = 0, rest_offset = 0, dy_row_bytes = 0, zero_bytes = 0;
  std::int64_t stages = 0;
  double seconds = std::numeric_limits<double>::infinity();
};

std::int64_t units_of(const View& view, const Strips& s) { return s.pairs * s.count * view.axis[2].out * view.images; }

Strips strips_of_width(const View& view, const Parts& parts, std::int64_t width) {
  const Axis& w = view.axis[0];
  const Axis& h = view.axis[1];
  const std::int64_t taps = std::min<std::int64_t>(direct::kTaps, w.taps);
  Strips s;
  s.tile_w = width;
  s.count = ceil_div(w.out, width);
  s.pairs = ceil_div(h.out, 2);
  s.x_pixels = width + (taps - 1) * w.dilation;
  s.rest_pixels = w.out % direct::kOctet;
  s.halo_pairs = ceil_div((parts.rows - 1) * h.dilation, 2);
  s.x_pixel_bytes = 2 * parts.width;
  s.rest_offset = round_up(s.x_pixels, direct::kOctet) * s.x_pixel_bytes;
  s.x_row_bytes = s.rest_offset + (s.rest_pixels > 0 ? taps * direct::kOctet * s.x_pixel_bytes : 0);
  s.dy_row_bytes = width * direct::kDyPixelBytes;
  s.zero_bytes = h.out % 2 != 0 ? s.x_row_bytes : 0;
  if (s.x_pixels > direct::kMaxBox) return s;
  const std::int64_t room =
      kSharedBytes - direct::kRingOffset - round_up(s.x_row_bytes + s.zero_bytes, direct::kAlignment);
  s.stages = std::min<std::int64_t>(direct::kMaxStages, room / (2 * (s.x_row_bytes + s.dy_row_bytes)));
  return s;
}

bool fits(const View& view, const Strips& s) { return s.stages >= s.halo_pairs + 2 && units_of(view, s) <= kMaxCount; }

// A unit takes its products or its bytes from the L2, whichever takes longer, and not less than its share of a copy's
// latency.
Footprint footprint_of(const View& view, const Parts& parts, const Strips& s, double splits, const DeviceRates& rates) {
  constexpr double kProductsEfficiency = 1.05;
  constexpr double kL2Efficiency = 0.6;
  constexpr double kStart = 6.0e-6;  // of both kernels, beyond a launch
  constexpr double kPartialRate = 0.63;
  constexpr double kLatency = 1.2e-6;  // of a copy
  constexpr double kPause = 0.2e-6;    // between the units of one octet; the longer ones hide it
  const Axis& w = view.axis[0];
  const Axis& h = view.axis[1];
  const double units = std::ceil(static_cast<double>(units_of(view, s)) / splits);
  const double octets = static_cast<double>(s.tile_w) / direct::kOctet;  // of the strips that take longest
  const double product = 2.0 * 64 * 16 * direct::kTaps * static_cast<double>(parts.width) /
                         (kProductsEfficiency * rates.half_flops / rates.multiprocessors);
  const double one = octets * static_cast<double>(parts.rows) * product + kPause / octets;
  const double load = static_cast<double>(2 * (s.x_row_bytes + s.dy_row_bytes)) /
                      (kL2Efficiency * rates.l2_bytes / rates.multiprocessors);
  const double wait = (kLatency + load) / static_cast<double>(s.stages - s.halo_pairs - 1);
  Footprint f;
  f.tiles = splits * static_cast<double>(parts.all);
  f.tile_seconds = (units + static_cast<double>(s.halo_pairs)) * std::max({one, load, wait});
  f.dram_bytes = 2.0 * static_cast<double>(view.images * view.groups) *
                 (static_cast<double>(w.in * h.in * view.axis[2].in * view.channels) +
                  static_cast<double>(w.out * h.out * view.axis[2].out * view.filters));
  f.start_seconds = kStart;
  f.partial_bytes =
      32.0 * splits * static_cast<double>(parts.all * parts.rows * parts.shares) * direct::quads_of(u32(parts.width));
  f.partial_rate = kPartialRate;
  return f;
}

// Calls visit(strips) for strips of equal widths, but for the last, from the widest on until visit says that it has
// seen enough.
template <class Visit>
void for_each_width(const View& view, const Parts& parts, Visit visit) {
  const std::int64_t out = view.axis[0].out;
  std::int64_t width = std::min<std::int64_t>(direct::kMaxBox, round_up(out, direct::kOctet));
  for (; width > 0; width -= direct::kOctet) {
    width = round_up(ceil_div(out, ceil_div(out, width)), direct::kOctet);
    const Strips s = strips_of_width(view, parts, width);
    if (fits(view, s) && !visit(s)) return;
  }
}

Strips best_strips(const View& view, const Parts& parts, double splits, const DeviceRates& rates) {
  constexpr int kMaxTried = 12;  // narrower ones load more of the halo
  Strips best;
  int tried = 0;
  for_each_width(view, parts, [&](Strips s) {
    s.seconds = estimate(footprint_of(view, parts, s, splits, rates), rates);
    if (s.seconds < best.seconds) best = s;
    return ++tried < kMaxTried;
  });
  return best;
}

// --- parameters ------------------------------------------------------------------------------------------------------

void set_rings(const View& view, const Parts& parts, const Strips& s, direct::Params* p) {
  p->pairs = FastDivmod(u32(s.pairs));
  p->strips = FastDivmod(u32(s.count));
  p->depths = FastDivmod(u32(view.axis[2].out));
  p->units = u32(units_of(view, s));
  p->tile_w = u32(s.tile_w);
  p->out_w = u32(view.axis[0].out);
  p->last_row_is_single = view.axis[1].out % 2 != 0;
  p->stages = u32(s.stages);
  p->halo_pairs = u32(s.halo_pairs);
  p->x_row_bytes = u32(s.x_row_bytes);
  p->rest_offset = u32(s.rest_offset);
  p->dy_row_bytes = u32(s.dy_row_bytes);
  p->x_box_bytes = u32(s.x_pixels * s.x_pixel_bytes);
  p->rest_box_bytes = u32(s.rest_pixels * s.x_pixel_bytes);
  p->zero_offset = direct::kRingOffset + u32((2 * s.stages + 1) * s.x_row_bytes);
  p->zero_end = s.zero_bytes > 0 || s.rest_pixels > 0 ? p->zero_offset + u32(s.zero_bytes) : 0;
  p->dy_offset = u32(round_up(p->zero_offset + s.zero_bytes, direct::kAlignment));
  p->shared_bytes = p->dy_offset + u32(2 * s.stages * s.dy_row_bytes);
  p->part_channels = u32(parts.width);
  p->part_rows = u32(parts.rows);
  p->shares = u32(parts.shares);
}

void set_filter(const Problem& problem, const View& view, const Parts& parts, direct::Params* p) {
  p->parts = FastDivmod(u32(parts.all));
  p->tap_parts_w = FastDivmod(u32(parts.taps_w));
  p->tap_parts_h = FastDivmod(u32(parts.taps_h));
  p->taps_d = FastDivmod(u32(view.axis[2].taps));
  p->channel_parts = FastDivmod(u32(parts.channels));
  p->filter_parts = FastDivmod(u32(parts.filters));
  p->group_channels = u32(view.channels);
  p->group_filters = u32(view.filters);
  p->mirrored = problem.mode == GPUDNN_CONVOLUTION;
  p->step_k = problem.w.strides[0];
  p->step_c = problem.w.strides[1];
  for (int a = 0; a < 3; ++a) {
    const Axis& axis = view.axis[a];
    p->taps[a] = u32(axis.taps);
    p->pad[a] = i32(axis.pad);
    p->dilation[a] = i32(axis.dilation);
    p->step_tap[a] = axis.w_step;
  }
}

void set_tensors(const View& view, const Strips& s, DirectWgradPlan* plan) {
  plan->x.extent[0] = view.groups * view.channels;
  plan->dy.extent[0] = view.groups * view.filters;
  for (int a = 0; a < 3; ++a) {
    plan->x.extent[1 + a] = view.axis[a].in;
    plan->x.step[a] = view.axis[a].x_step;
    plan->dy.extent[1 + a] = view.axis[a].out;
    plan->dy.step[a] = view.axis[a].dy_step;
  }
  plan->x.extent[4] = plan->dy.extent[4] = view.images;
  plan->x.step[3] = view.x_image;
  plan->dy.step[3] = view.dy_image;
  plan->x.box[0] = i32(s.x_pixel_bytes / 2);
  plan->dy.box[0] = direct::kFilters;
  plan->dy.box[1] = i32(s.tile_w);
  plan->x_rest = plan->x;
  plan->x.box[1] = i32(s.x_pixels);
  plan->x_rest.box[1] = i32(s.rest_pixels);
  plan->has_rest = s.rest_pixels > 0;
}

// --- legality --------------------------------------------------------------------------------------------------------

const char* geometry_unsupported_reason(const Problem& problem) {
  std::int64_t taps = 1;
  std::int64_t pixels = problem.y.dims[0];
  for (int i = 0; i < problem.spatial; ++i) {
    if (problem.stride[i] != 1) return "strides over 1";
    if (problem.pad[i] > kMaxExtent || problem.dilation[i] > kMaxExtent) return "padding or dilation of 2^26 or more";
    if (problem.x.dims[2 + i] > kMaxExtent || problem.w.dims[2 + i] > kMaxExtent) {
      return "2^26 pixels or taps or more along a dimension";
    }
    taps *= problem.w.dims[2 + i];
    pixels *= problem.y.dims[2 + i];
    if (taps > kMaxParts) return "more than 4096 taps";
    if (pixels > kMaxCount) return "about 2^30 pixels or more";
  }
  if (taps == 1) return "a filter of one tap shares nothing between taps";
  return nullptr;
}

}  // namespace

const char* direct_wgrad_unsupported_reason(const Problem& problem) {
  if (problem.direction != Direction::wgrad) return "it does the filter gradient only";
  if (problem.x.type != GPUDNN_DATA_HALF && problem.x.type != GPUDNN_DATA_BFLOAT16) return "it takes f16 and bf16 only";
  if (const char* reason = tensor_math_unsupported_reason(problem)) return reason;
  if (const char* reason = geometry_unsupported_reason(problem)) return reason;
  for (const TensorGeometry* tensor : {&problem.x, &problem.y}) {
    if (const char* reason = copy_unsupported_reason(*tensor, 2)) return reason;
  }
  if (problem.x.dims[1] / problem.groups % 8 != 0 || problem.y.dims[1] / problem.groups % 8 != 0) {
    return "channels or filters do not fill whole 16-byte vectors";
  }
  const View view = view_of(problem);
  const Parts parts = parts_of(view);
  if (parts.all > kMaxParts) return "more than 4096 blocks of 64 channels, 64 filters and 9 taps";
  bool found = false;
  for_each_width(view, parts, [&](const Strips&) { return !(found = true); });
  return found ? nullptr : "shared memory has no room for the rows of x that a window covers";
}

std::optional<DirectWgradPlan> direct_wgrad_plan(const Problem& problem, const Config& config, const Device& device) {
  const View view = view_of(problem);
  const Parts parts = parts_of(view);
  const Strips s = best_strips(view, parts, config.split_k, device.rates);
  if (s.count == 0) return std::nullopt;
  DirectWgradPlan plan;
  plan.type = element_type(problem.x.type);
  plan.workspace = direct_wgrad_workspace(problem, config);
  plan.params.splits = u32(config.split_k);
  set_rings(view, parts, s, &plan.params);
  set_filter(problem, view, parts, &plan.params);
  set_tensors(view, s, &plan);
  return plan;
}

std::size_t direct_wgrad_workspace(const Problem& problem, const Config& config) {
  const Parts parts = parts_of(view_of(problem));
  return static_cast<std::size_t>(parts.all * parts.rows * parts.shares) * static_cast<std::size_t>(config.split_k) *
             direct::quads_of(u32(parts.width)) * 16 +
         direct::kWorkspaceAlignment;
}

void direct_wgrad_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  const View view = view_of(problem);
  const Parts parts = parts_of(view);
  // Rows of few pixels, a copy of TMA's each, take longer than the model says: measured on images of 7 to 28 columns.
  const double of_short_rows = view.axis[0].out < 16 ? 1.5 : view.axis[0].out < 32 ? 1.2 : 1.0;
  // Two at least: one split would need no second kernel, but is not worth an epilogue of its own. Where a block has but
  // a few units, fewer splits leave fewer sums to add up.
  const std::int64_t most = std::max<std::int64_t>(2, device.rates.multiprocessors / parts.all);
  for (std::int64_t splits = most; splits >= std::max<std::int64_t>(2, most / 4); splits /= 2) {
    const Strips s = best_strips(view, parts, static_cast<double>(splits), device.rates);
    if (s.count == 0) return;
    const Config config = {.split_k = i32(splits), .tile_name = "k64_taps9"};
    candidates->push_back({config, of_short_rows * s.seconds, direct_wgrad_workspace(problem, config)});
    if (units_of(view, s) > kFewUnits * splits) return;
  }
}

}  // namespace gpudnn::conv
