// The mapping of convolution problems to the Hopper filter gradient of images with few channels, and its cost model.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/small_c/small_c_wgrad_sm90_params.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/integer.hpp"
#include "ops/conv/select/taker.hpp"
#include "ops/conv/small_c/small_c_wgrad_view.hpp"
#include "ops/element_type.hpp"

namespace gpudnn::conv {
namespace {

namespace few = kernels::small_c_wgrad;
using few::FastDivmod;
using View = SmallCWgradView;

constexpr std::int64_t kVectorBytes = 16;
constexpr std::int64_t kSharedBytes = 227 * 1024;
constexpr std::int64_t kMaxCount = kMaxSmallCCount;

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

constexpr double kClock = 1.6e9;
constexpr double kStart = 5e-6;
constexpr double kRowCycles = 680;
constexpr double kRoundCycles = 250;  // of the expanders, and for each of their copies
constexpr double kCopyCycles = 85;
constexpr double kShareOfProducts = 0.55;

double copies_of(const View& view) {
  return static_cast<double>(few::kOctet) /
         static_cast<double>(std::gcd(std::int64_t{few::kOctet}, view.stride_w * view.channels));
}

// Rates are of one multiprocessor. The making of a row's copies in `rounds`, which the products slow down (measured:
// see docs/perf-notes.md).
double cycles_of_copies(const View& view, const few::Shape& shape, double tile_w, double rounds) {
  const double products = tile_w / few::kStepPixels * shape.blocks * shape.filters / 2.0;
  return kRowCycles + rounds * (kRoundCycles + kCopyCycles * copies_of(view)) + kShareOfProducts * products;
}

// A row of a strip takes that, its traffic in shared memory or its bytes from the L2, whichever takes longest.
double row_seconds(const View& view, const few::Shape& shape, const Strips& s) {
  constexpr double kL2BytesPerCycle = 26;
  constexpr double kLatency = 1.2e-6;  // of a copy
  const double steps = static_cast<double>(s.tile_w) / few::kStepPixels;
  const auto copied = static_cast<double>(s.stage_bytes + s.raw_bytes);
  const double shared =
      (steps * shape.blocks * (2048.0 + 32.0 * shape.filters) + copied + 1.5 * static_cast<double>(s.slot_bytes)) / 128;
  const double rounds = std::ceil(static_cast<double>(s.group_rows * s.vectors) / (32.0 * few::kExpanders));
  const double row = cycles_of_copies(view, shape, static_cast<double>(s.tile_w), rounds);
  const double row_cycles = std::max({row, 1.1 * shared, 1.1 * copied / kL2BytesPerCycle});
  const double in_flight = static_cast<double>(s.stages - 1) * copied;
  return std::max(row_cycles / kClock, kLatency * copied / std::max(in_flight, 1.0));
}

// `rows`: seconds of those that a block has one after the other.
double seconds_of(const View& view, const Parts& parts, const few::Shape& shape, double rows, double splits,
                  double multiprocessors) {
  constexpr double kMemoryBytes = 4.27e12 / 132;
  const double memory =
      2.0 * static_cast<double>(view.images) *
      static_cast<double>(view.image_h * view.image_w * view.channels + view.out_h * view.out_w * view.filters) /
      (kMemoryBytes * multiprocessors);
  double seconds = kStart + std::max(rows, memory);
  if (splits > 1) {
    const double sums = 32.0 * few::quads_of(shape) * static_cast<double>(parts.all()) * splits;
    seconds += 3.5e-6 + sums / (3e12 / 132 * multiprocessors);
  }
  return seconds;
}

// What no strips stay below: a block's share of the rows, whole ones, whose copies are made in a round.
double least_of_splits(const View& view, const Parts& parts, const few::Shape& shape, double splits,
                       double multiprocessors) {
  constexpr double kRoundedDown = 1 - 1e-9;  // keeps a bound below what it bounds
  const double share = static_cast<double>(view.images * view.out_h) / splits;
  const double row = cycles_of_copies(view, shape, static_cast<double>(view.out_w), 1) / kClock;
  return kRoundedDown * seconds_of(view, parts, shape, share * row, splits, multiprocessors);
}

Strips best_strips(const View& view, const Parts& parts, const few::Shape& shape, double splits,
                   double multiprocessors) {
  Strips best;
  for (std::int64_t width = few::kMaxBox; width > 0; width -= few::kStepPixels) {
    Strips s = strips_of_width(view, shape, width);
    width = s.tile_w;  // of all widths down to this one
    if (s.stages < few::kRowsAhead || view.images * view.out_h * s.count > kMaxCount) continue;
    const double units = static_cast<double>(view.images * view.out_h * s.count);
    const double rows = std::ceil(units / splits) * row_seconds(view, shape, s);
    s.seconds = seconds_of(view, parts, shape, rows, splits, multiprocessors);
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

std::optional<SmallCWgradPlan> small_c_wgrad_plan(const Problem& problem, const Config& config, int multiprocessors) {
  const View view = small_c_wgrad_view(problem);
  const few::Shape& shape = few::kShapes[config.tile];
  const Parts parts = parts_of(view, shape);
  if (!is_offered(view, shape)) return std::nullopt;
  const Strips s = best_strips(view, parts, shape, config.split_k, multiprocessors);
  if (s.count == 0) return std::nullopt;
  SmallCWgradPlan plan;
  plan.shape = config.tile;
  plan.type = element_type(problem.x.type);
  plan.seconds = s.seconds;
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

// A part makes the copies of each row for as long as these take at the least, and has its share of the products.
double small_c_wgrad_least_seconds(const Problem& problem, int multiprocessors) {
  constexpr int kMaxOctets = few::kOctet * std::ranges::max(few::kShapes, {}, &few::Shape::blocks).blocks;
  constexpr int kMaxFilters = std::ranges::max(few::kShapes, {}, &few::Shape::filters).filters;
  const View view = small_c_wgrad_view(problem);
  const double rows = static_cast<double>(view.images * view.out_h);
  const auto octets = static_cast<double>(view.taps_h * view.row_octets());
  const auto filters = static_cast<double>(view.filters);
  // With more parts than multiprocessors, as many rows as there are wait in line.
  if (std::ceil(octets / few::kOctet) * std::ceil(filters / 32) > multiprocessors) return kStart;
  const double parts = std::ceil(octets / kMaxOctets) * std::ceil(filters / kMaxFilters);
  const double products = static_cast<double>(view.out_w) / few::kStepPixels * octets / few::kOctet * filters / 2;
  const double copies = kRowCycles + kRoundCycles + kCopyCycles * copies_of(view);
  const double cycles = parts * copies + kShareOfProducts * products;
  constexpr double kRoundedDown = 1 - 1e-9;  // keeps a bound below what it bounds
  return kRoundedDown * (kStart + rows * cycles / kClock / multiprocessors);
}

namespace {

void offer_candidates(const Problem& problem, const View& view, int multiprocessors, Taker* taker) {
  for (int i = 0; i < few::kShapeCount; ++i) {
    const few::Shape& shape = few::kShapes[i];
    if (!is_offered(view, shape)) continue;
    const Parts parts = parts_of(view, shape);
    const std::int64_t rows = view.images * view.out_h;
    const std::int64_t most =
        std::clamp<std::int64_t>(multiprocessors / parts.all(), 1, std::max<std::int64_t>(rows, 1));
    const auto offer = [&](std::int64_t count) {
      const auto splits = static_cast<double>(count);
      if (!taker->has_use_for(least_of_splits(view, parts, shape, splits, multiprocessors))) return;
      const Strips s = best_strips(view, parts, shape, splits, multiprocessors);
      if (s.count == 0) return;
      const Config config = {i, static_cast<std::int32_t>(count)};
      taker->take({config, s.seconds, small_c_wgrad_workspace(problem, config)});
    };
    if (most > 1) offer(most);
    offer(1);
  }
}

const char* unsupported_reason_but_for_memory(const Problem& problem) {
  if (problem.direction == Direction::wgrad && problem.x.type == GPUDNN_DATA_FLOAT) {
    return "it takes f16 and bf16 only";
  }
  return small_c_wgrad_view_unsupported_reason(problem);
}

}  // namespace

const char* small_c_wgrad_unsupported_reason(const Problem& problem) {
  if (const char* reason = unsupported_reason_but_for_memory(problem)) return reason;
  const View view = small_c_wgrad_view(problem);
  for (const few::Shape& shape : few::kShapes) {
    if (is_offered(view, shape) && has_strips(view, shape)) return nullptr;
  }
  return "shared memory has no room for the image rows of three rows of y";
}

void small_c_wgrad_candidates(const Problem& problem, int multiprocessors, std::vector<Candidate>* candidates) {
  Taker taker{.all = candidates};
  offer_candidates(problem, small_c_wgrad_view(problem), multiprocessors, &taker);
}

// A problem that shared memory has no room for has no strips, and so no candidates.
bool small_c_wgrad_fastest(const Problem& problem, int multiprocessors, double bound, Candidate* fastest) {
  if (unsupported_reason_but_for_memory(problem) != nullptr) return false;
  Taker taker{.fastest = fastest, .bound = bound};
  offer_candidates(problem, small_c_wgrad_view(problem), multiprocessors, &taker);
  return taker.found;
}

}  // namespace gpudnn::conv
