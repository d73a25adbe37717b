// The mapping of convolution problems to the Hopper filter gradient of images with few channels, and its cost model.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/small_c/small_c_wgrad_sm90_params.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/cost_model.hpp"
#include "core/integer.hpp"
#include "ops/conv/small_c/small_c_wgrad_view.hpp"
#include "ops/conv/tile_names.hpp"
#include "ops/element_type.hpp"

namespace gpudnn::conv {
namespace {

namespace few = kernels::small_c_wgrad;
using few::FastDivmod;
using View = SmallCWgradView;

constexpr std::int64_t kVectorBytes = 16;
constexpr std::int64_t kSharedBytes = 227 * 1024;
constexpr std::int64_t kMaxCount = kMaxSmallCCount;

constexpr auto kNames = tile_names(few::kShapes, [](const few::Shape& shape) {
  return TileName().add("taps", 64 * shape.blocks).add("_k", shape.filters);
});

// Blocks that share rows.
struct Parts {
  std::int64_t octets = 1, filters = 1;
  [[nodiscard]] std::int64_t all() const { return octets * filters; }
};
Parts parts_of(const View& view, const few::Shape& shape) {
  return {ceil_div(view.taps_h * view.row_octets(), std::int64_t{few::kOctet} * shape.blocks),
          ceil_div(view.filters, shape.filters)};
}

// --- strips ----------------------------------------------------------------------------------------------------------

struct Strips {
  std::int64_t tile_w = 0, count = 0;
  std::int64_t first_vector = 0, first_shift = 0;  // of column 0's window
  std::int64_t copies = 1, copy_vectors = 0, vectors = 0;
  std::int64_t groups = 1, group_rows = 1;
  std::int64_t copy_bytes = 0, slot_bytes = 0, raw_bytes = 0, stage_bytes = 0;
  std::int64_t slots = 0, stages = 0, raws = 0;
  double seconds = std::numeric_limits<double>::infinity();
};

std::int64_t raws_of(const Strips& s, std::int64_t stages) {
  return std::min<std::int64_t>(few::kMaxStages, stages + s.groups - 1);
}
std::int64_t ring_bytes(const Strips& s, std::int64_t stages) {
  return stages * s.stage_bytes + raws_of(s, stages) * s.raw_bytes + s.slots * s.slot_bytes;
}

Strips strips_of_width(const View& view, const few::Shape& shape, std::int64_t width) {
  Strips s;
  s.count = ceil_div(view.out_w, width);
  s.tile_w = round_up(ceil_div(view.out_w, s.count), few::kStepPixels);
  s.count = ceil_div(view.out_w, s.tile_w);
  const std::int64_t pixel = view.stride_w * view.channels;  // elements
  const std::int64_t before = view.pad_w * view.channels;
  s.first_vector = -ceil_div(before, few::kOctet);
  s.first_shift = -before - s.first_vector * few::kOctet;
  s.copies = few::kOctet / std::gcd(std::int64_t{few::kOctet}, pixel);
  s.copy_vectors = (s.tile_w - s.copies) * pixel / few::kOctet + view.row_octets();
  s.vectors = ceil_div(s.first_shift + (s.copies - 1) * pixel, few::kOctet) + s.copy_vectors;
  s.group_rows = std::min(view.stride_h, view.taps_h);
  s.groups = ceil_div(view.taps_h, s.group_rows);
  std::int64_t copy = s.group_rows * s.copy_vectors;
  // 8 pixels in a row lie in different banks.
  while (s.copies > 1 && copy % few::kOctet != few::kOctet / s.copies) ++copy;
  s.copy_bytes = copy * kVectorBytes;
  s.slot_bytes = s.copies * s.copy_bytes;
  s.raw_bytes = s.group_rows * s.vectors * kVectorBytes;
  s.stage_bytes = s.tile_w * few::dy_boxes(shape.filters) * few::box_filters(shape.filters) * 2;
  s.slots = few::kRowsAhead + 2 * (s.groups - 1);
  for (s.stages = few::kMaxStages; s.stages > 0; --s.stages) {
    if (few::kRingOffset + ring_bytes(s, s.stages) <= kSharedBytes) break;
  }
  s.raws = raws_of(s, s.stages);
  return s;
}

// Cycles of a row of a strip: the making of its copies, which the products slow down (measured: see
// docs/perf-notes.md), its traffic in shared memory or its bytes from the L2, whichever takes longest.
double cycles_of_row(const View& view, const few::Shape& shape, const Strips& s, double clock) {
  constexpr double kRowCycles = 720;
  constexpr double kRoundCycles = 265;  // of the expanders, and for each of their copies
  constexpr double kCopyCycles = 90;
  constexpr double kShareOfProducts = 0.58;
  constexpr double kL2BytesPerCycle = 24.5;
  constexpr double kLatency = 1.2e-6;  // of a copy
  const double steps = static_cast<double>(s.tile_w) / few::kStepPixels;
  const auto copied = static_cast<double>(s.stage_bytes + s.raw_bytes);
  const double shared =
      (steps * shape.blocks * (2048.0 + 32.0 * shape.filters) + copied + 1.5 * static_cast<double>(s.slot_bytes)) / 120;
  const double rounds = std::ceil(static_cast<double>(s.group_rows * s.vectors) / (32.0 * few::kExpanders));
  const double copies = static_cast<double>(few::kOctet) /
                        static_cast<double>(std::gcd(std::int64_t{few::kOctet}, view.stride_w * view.channels));
  const double row = kRowCycles + rounds * (kRoundCycles + kCopyCycles * copies) +
                     kShareOfProducts * steps * shape.blocks * shape.filters / 2.0;
  const double in_flight = static_cast<double>(s.stages - 1) * copied;
  return std::max(
      {row, 1.1 * shared, 1.1 * copied / kL2BytesPerCycle, clock * kLatency * copied / std::max(in_flight, 1.0)});
}

constexpr double kLeadingGroup = 0.37;  // of a row's time

Footprint footprint_of(const View& view, const Parts& parts, const few::Shape& shape, const Strips& s, double splits,
                       const DeviceRates& rates) {
  Footprint f;
  // Blocks beyond the multiprocessors wait for those before them.
  f.tiles = splits * static_cast<double>(parts.all());
  // Rows of strips, and the groups of image rows before the first one's.
  f.k_tiles = std::ceil(static_cast<double>(view.images * view.out_h * s.count) / splits) +
              kLeadingGroup * static_cast<double>(s.groups - 1);
  f.cycles = cycles_of_row(view, shape, s, rates.clock);
  f.dram_bytes =
      2.0 * static_cast<double>(view.images) *
      static_cast<double>(view.image_h * view.image_w * view.channels + view.out_h * view.out_w * view.filters);
  f.start_seconds = 6e-6;
  if (splits > 1) {
    f.partial_bytes = 32.0 * few::quads_of(shape) * static_cast<double>(parts.all()) * splits;
    f.reduce_seconds = 3.5e-6;
  }
  return f;
}

Strips best_strips(const View& view, const Parts& parts, const few::Shape& shape, double splits,
                   const DeviceRates& rates) {
  Strips best;
  for (std::int64_t width = few::kMaxBox; width > 0; width -= few::kStepPixels) {
    Strips s = strips_of_width(view, shape, width);
    width = s.tile_w;  // of all widths down to this one
    if (s.stages < few::kRowsAhead || view.images * view.out_h * s.count > kMaxCount) continue;
    s.seconds = estimate(footprint_of(view, parts, shape, s, splits, rates), rates);
    if (s.seconds < best.seconds) best = s;
  }
  return best;
}

bool has_strips(const View& view, const few::Shape& shape) {
  for (std::int64_t width = few::kStepPixels; width <= few::kMaxBox; width += few::kStepPixels) {
    const Strips s = strips_of_width(view, shape, width);
    if (s.stages >= few::kRowsAhead && view.images * view.out_h * s.count <= kMaxCount) return true;
  }
  return false;
}

// --- parameters ------------------------------------------------------------------------------------------------------

void set_groups(const View& view, const Strips& s, few::Params* p) {
  p->groups = u32(s.groups);
  p->group_rows = u32(s.group_rows);
  p->copies = u32(s.copies);
  p->copy_bytes = u32(s.copy_bytes);
  p->copy_vectors = u32(s.copy_vectors);
  p->strip_vectors = FastDivmod(u32(s.vectors));
  p->first_vector = static_cast<std::int32_t>(s.first_vector);
  p->first_shift = u32(s.first_shift);
  p->row_vectors = static_cast<std::int32_t>(view.image_w * view.channels / few::kOctet);
  p->image_rows = static_cast<std::int32_t>(view.image_h);
  p->row_step = view.x_row;
  p->image_step = view.x_image;
  p->stride_h = static_cast<std::int32_t>(view.stride_h);
  p->pad_h = static_cast<std::int32_t>(view.pad_h);
  p->pixel_elements = u32(view.stride_w * view.channels);
}

void set_rings(const View& view, const few::Shape& shape, const Strips& s, SmallCWgradPlan* plan) {
  few::Params& p = plan->params;
  p.tile_w = u32(s.tile_w);
  p.out_w = u32(view.out_w);
  p.rows = FastDivmod(u32(view.out_h));
  p.strips = FastDivmod(u32(s.count));
  p.units = u32(view.images * view.out_h * s.count);
  p.stages = FastDivmod(u32(s.stages));
  p.stage_bytes = u32(s.stage_bytes);
  p.raws = u32(s.raws);
  p.raw_bytes = u32(s.raw_bytes);
  p.raw_offset = few::kRingOffset + u32(s.stages * s.stage_bytes);
  p.slots = u32(s.slots);
  p.slot_bytes = u32(s.slot_bytes);
  p.slot_offset = p.raw_offset + u32(s.raws * s.raw_bytes);
  const std::int64_t sums = std::int64_t{16} * few::quads_of(shape) * shape.consumers;
  p.shared_bytes = few::kRingOffset + u32(std::max(ring_bytes(s, s.stages), sums));
  plan->dy = {4,
              {view.filters, view.out_w, view.out_h, view.images},
              {view.dy_pixel, view.dy_row, view.dy_image},
              {few::box_filters(shape.filters), static_cast<std::int32_t>(s.tile_w), 1, 1}};
}

// --- legality --------------------------------------------------------------------------------------------------------

// The shapes with the fewest parts, the smallest of them.
int most_useful_blocks(const View& view, int filters) {
  int best = 0;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const few::Shape& shape : few::kShapes) {
    if (shape.filters != filters) continue;
    const std::int64_t octets = parts_of(view, shape).octets;
    if (octets > least || (octets == least && shape.blocks >= best)) continue;
    least = octets;
    best = shape.blocks;
  }
  return best;
}

// The narrowest of 32 and 64 filters that takes them all at once; 96 where that makes fewer blocks.
bool is_offered(const View& view, const few::Shape& shape) {
  if (parts_of(view, shape).all() > kMaxCount / 1024) return false;
  if ((shape.filters == 32) != (view.filters <= 32) && shape.filters != 96) return false;
  if (shape.filters == 96 && (view.filters <= 64 || ceil_div(view.filters, 96) == ceil_div(view.filters, 64))) {
    return false;
  }
  return shape.blocks == most_useful_blocks(view, shape.filters);
}

}  // namespace

std::optional<SmallCWgradPlan> small_c_wgrad_plan(const Problem& problem, const Config& config, const Device& device) {
  const View view = small_c_wgrad_view(problem);
  const few::Shape& shape = few::kShapes[config.tile];
  const Parts parts = parts_of(view, shape);
  if (!is_offered(view, shape)) return std::nullopt;
  const Strips s = best_strips(view, parts, shape, config.split_k, device.rates);
  if (s.count == 0) return std::nullopt;
  SmallCWgradPlan plan;
  plan.shape = config.tile;
  plan.type = element_type(problem.x.type);
  plan.workspace = small_c_wgrad_workspace(problem, config);
  few::Params& p = plan.params;
  p.parts = FastDivmod(u32(parts.all()));
  p.octet_parts = FastDivmod(u32(parts.octets));
  p.splits = u32(config.split_k);
  set_rings(view, shape, s, &plan);
  set_groups(view, s, &p);
  p.taps = small_c_wgrad_taps(problem, view);
  return plan;
}

std::size_t small_c_wgrad_workspace(const Problem& problem, const Config& config) {
  if (config.split_k <= 1) return 0;
  const few::Shape& shape = few::kShapes[config.tile];
  const auto parts = static_cast<std::size_t>(parts_of(small_c_wgrad_view(problem), shape).all());
  return parts * static_cast<std::size_t>(config.split_k) * few::quads_of(shape) * 16 + few::kWorkspaceAlignment;
}

const char* small_c_wgrad_unsupported_reason(const Problem& problem) {
  if (problem.direction == Direction::wgrad && problem.x.type == GPUDNN_DATA_FLOAT) {
    return "it takes f16 and bf16 only";
  }
  if (const char* reason = small_c_wgrad_view_unsupported_reason(problem)) return reason;
  const View view = small_c_wgrad_view(problem);
  for (const few::Shape& shape : few::kShapes) {
    if (is_offered(view, shape) && has_strips(view, shape)) return nullptr;
  }
  return "shared memory has no room for the image rows of three rows of y";
}

void small_c_wgrad_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  const View view = small_c_wgrad_view(problem);
  for (int i = 0; i < few::kShapeCount; ++i) {
    const few::Shape& shape = few::kShapes[i];
    if (!is_offered(view, shape)) continue;
    const Parts parts = parts_of(view, shape);
    const std::int64_t rows = std::max<std::int64_t>(view.images * view.out_h, 1);
    const std::int64_t most = std::clamp<std::int64_t>(device.rates.multiprocessors / parts.all(), 1, rows);
    for (const std::int64_t splits : {most, std::int64_t{1}}) {
      const Strips s = best_strips(view, parts, shape, static_cast<double>(splits), device.rates);
      if (s.count == 0) continue;
      const Config config = {.tile = i,
                             .split_k = static_cast<std::int32_t>(splits),
                             .tile_name = kNames[static_cast<std::size_t>(i)].text};
      candidates->push_back({config, s.seconds, small_c_wgrad_workspace(problem, config)});
      if (most == 1) break;
    }
  }
}

}  // namespace gpudnn::conv
