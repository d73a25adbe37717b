// The mapping of convolution problems to the Hopper filter gradient by rows of patches, and its cost model.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/small_c/smem_im2col_wgrad_sm90_params.hpp"

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

namespace rows = kernels::smem_im2col_wgrad;
using rows::FastDivmod;
using View = SmallCWgradView;

constexpr std::int64_t kVectorBytes = 16;
constexpr std::int64_t kSharedBytes = 227 * 1024;
constexpr std::int64_t kInFlight = 48 * 1024;  // of a multiprocessor, that memory should be asked for
constexpr std::int64_t kMaxRaws = 6;
constexpr std::int64_t kSlotsAhead = 4;  // groups in patches before their row's turn
constexpr std::int64_t kMinStages = 2;

std::int64_t filter_blocks_of(const View& view) { return ceil_div(view.filters, rows::kFilters); }

bool has_too_many_filters(const View& view) { return filter_blocks_of(view) > kMaxSmallCCount / 1024; }

// The narrowest shape that takes all taps, or -1.
int shape_of(const View& view, rows::ElementType type) {
  const std::int64_t octets = view.row_octets();
  const std::int64_t taps = view.taps_h * octets * rows::kOctet;
  for (int i = 0; i < rows::kShapeCount; ++i) {
    const rows::Shape& shape = rows::kShapes[i];
    if (taps <= shape.taps && (shape.row_octets == 0 || shape.row_octets == octets || type == rows::ElementType::f32))
      return i;
  }
  return -1;
}

// --- strips ----------------------------------------------------------------------------------------------------------

struct Strips {
  std::int64_t tile_w = 0, count = 0;
  std::int64_t first_vector = 0, first_shift = 0, vectors = 0;  // of column 0's window; of a strip
  std::int64_t groups = 1, group_rows = 1;
  std::int64_t plane_bytes = 0, slot_bytes = 0, raw_bytes = 0, stage_bytes = 0;
  std::int64_t slots = 0, stages = 0, raws = 0, slots_bytes = 0;
  double seconds = std::numeric_limits<double>::infinity();

  [[nodiscard]] std::int64_t shared_bytes() const {
    return rows::kRingOffset + stages * stage_bytes + raws * raw_bytes + slots_bytes;
  }
};

// The rings: as many groups ahead as leave room for what memory should be asked for.
bool set_lengths(const View& view, const rows::Shape& shape, Strips* s) {
  s->raws = kMaxRaws;
  const std::int64_t octets = std::max(view.taps_h * view.row_octets(), std::int64_t{shape.taps} / rows::kOctet);
  for (s->slots = std::min<std::int64_t>(s->groups + kSlotsAhead, rows::kMaxStages); s->slots > s->groups; --s->slots) {
    // The last window begins in the last place, and a product may read on behind it.
    s->slots_bytes = std::max((s->slots - 1) * s->slot_bytes + octets * s->plane_bytes, s->slots * s->slot_bytes);
    s->stages = 0;
    const std::int64_t room = kSharedBytes - s->shared_bytes();
    if (room < 0) continue;
    s->stages = std::min<std::int64_t>(room / s->stage_bytes, rows::kMaxStages);
    const bool suffices = (s->stages - 1) * s->stage_bytes >= kInFlight || s->stages == rows::kMaxStages;
    if (suffices || (s->slots == s->groups + 1 && s->stages >= kMinStages)) return true;
  }
  return false;
}

Strips strips_of_width(const View& view, rows::ElementType type, std::int64_t width) {
  const std::int64_t bytes = rows::bytes_of(type);
  const std::int64_t vector = kVectorBytes / bytes;  // elements
  Strips s;
  s.count = ceil_div(view.out_w, width);
  s.tile_w = round_up(ceil_div(view.out_w, s.count), rows::step_pixels(type));
  s.count = ceil_div(view.out_w, s.tile_w);
  const std::int64_t pixel = view.stride_w * view.channels;  // elements
  const std::int64_t before = view.pad_w * view.channels;
  const std::int64_t octets = view.row_octets();
  s.first_vector = -ceil_div(before, vector);
  s.first_shift = -before - s.first_vector * vector;
  // An octet of 16 bits is made of the five words that it may touch.
  s.vectors = ceil_div(s.first_shift + (s.tile_w - 1) * pixel + octets * rows::kOctet + 2, vector);
  s.group_rows = std::min(view.stride_h, view.taps_h);
  s.groups = ceil_div(view.taps_h, s.group_rows);
  s.plane_bytes = s.tile_w * rows::kOctet * bytes;
  s.slot_bytes = s.group_rows * octets * s.plane_bytes;
  s.raw_bytes = round_up(s.group_rows * s.vectors * kVectorBytes, rows::kRawAlignment);
  s.stage_bytes = s.tile_w * rows::kFilters * bytes;
  return s;
}

constexpr double kClock = 1.7e9;
constexpr double kMemoryBytes = 4.27e12 / 132;
constexpr double kStart = 6.5e-6;

// Rates are of one multiprocessor. A row of a strip takes its products, its traffic in shared memory, the way from a
// group as it comes to patches (measured: see docs/perf-notes.md) or its bytes from memory, whichever takes longest.
// `copied`: bytes of it.
double row_seconds(const View& view, rows::ElementType type, const rows::Shape& shape, double tile_w, double copied) {
  const double bytes = rows::bytes_of(type);
  const auto octets = static_cast<double>(view.row_octets());
  const double steps = tile_w / rows::step_pixels(type);
  const double pixels = static_cast<double>(std::min(view.stride_h, view.taps_h)) * tile_w;
  const double products = steps * std::max(shape.taps / 2.0, 16 + shape.taps / 4.0);
  const double shared = (steps * (2048 + 32.0 * shape.taps) + copied + pixels * bytes * (20 * octets + 2)) / 128;
  const double rounds = std::ceil(pixels * (bytes == 4 ? 2 * octets : 1) / (32 * rows::kExpanders));
  const std::int64_t pixel_bytes = view.stride_w * view.channels * rows::bytes_of(type);
  const auto same_banks = static_cast<double>(pixel_bytes % 4 == 0 ? std::gcd(pixel_bytes / 4, std::int64_t{32}) : 1);
  const double patches =
      bytes == 4 ? 500 + 330 * rounds : 330 + rounds * (150 + 165 * octets * (0.8 + 0.2 * same_banks));
  return std::max({1.1 * products / kClock, 1.2 * shared / kClock, patches / kClock, 1.05 * copied / kMemoryBytes});
}

// `rows`: seconds of those that a block has one after the other.
double seconds_of(const View& view, rows::ElementType type, const rows::Shape& shape, double rows, double splits,
                  double multiprocessors) {
  const double memory =
      rows::bytes_of(type) * static_cast<double>(view.images) *
      static_cast<double>(view.image_h * view.image_w * view.channels + view.out_h * view.out_w * view.filters) /
      (kMemoryBytes * multiprocessors);
  double seconds = kStart + std::max(rows, memory);
  if (splits > 1) {
    const double sums = 32.0 * rows::quads_of(shape) * static_cast<double>(filter_blocks_of(view)) * splits;
    seconds += 3e-6 + sums / (3e12 / 132 * multiprocessors);
  }
  return seconds;
}

bool fits(const View& view, const rows::Shape& shape, Strips* s) {
  // A box has 256 elements along a dimension, here of 8 bytes.
  if (2 * s->vectors > rows::kMaxBox || s->group_rows > rows::kMaxBox) return false;
  return view.images * view.out_h * s->count <= kMaxSmallCCount && set_lengths(view, shape, s);
}

Strips best_strips(const View& view, rows::ElementType type, const rows::Shape& shape, double splits,
                   double multiprocessors) {
  Strips best;
  for (std::int64_t width = rows::kMaxBox; width > 0; width -= rows::step_pixels(type)) {
    Strips s = strips_of_width(view, type, width);
    width = s.tile_w;  // of all widths down to this one
    if (!fits(view, shape, &s)) continue;
    const auto copied = static_cast<double>(s.stage_bytes + s.raw_bytes);
    const double units = static_cast<double>(view.images * view.out_h * s.count);
    const double row = row_seconds(view, type, shape, static_cast<double>(s.tile_w), copied);
    s.seconds = seconds_of(view, type, shape, std::ceil(units / splits) * row, splits, multiprocessors);
    if (s.seconds < best.seconds) best = s;
  }
  return best;
}

// What no strips stay below: a block's share of the rows, whole ones and without what is copied.
double least_seconds(const View& view, rows::ElementType type, const rows::Shape& shape, double splits,
                     double multiprocessors) {
  constexpr double kRoundedDown = 1 - 1e-9;  // keeps a bound below what it bounds
  const double share = static_cast<double>(view.images * view.out_h) / splits;
  const double row = row_seconds(view, type, shape, static_cast<double>(view.out_w), 0);
  return kRoundedDown * seconds_of(view, type, shape, share * row, splits, multiprocessors);
}

bool has_strips(const View& view, rows::ElementType type, const rows::Shape& shape) {
  for (std::int64_t width = rows::step_pixels(type); width <= rows::kMaxBox; width += rows::step_pixels(type)) {
    Strips s = strips_of_width(view, type, width);
    if (fits(view, shape, &s)) return true;
  }
  return false;
}

// --- parameters ------------------------------------------------------------------------------------------------------

void set_rings(const View& view, const rows::Shape& shape, const Strips& s, rows::Params* p) {
  p->units = u32(view.images * view.out_h * s.count);
  p->rows = FastDivmod(u32(view.out_h));
  p->strips = FastDivmod(u32(s.count));
  p->tile_w = FastDivmod(u32(s.tile_w));
  p->out_w = u32(view.out_w);
  p->stages = u32(s.stages);
  p->stage_bytes = u32(s.stage_bytes);
  p->raws = u32(s.raws);
  p->raw_bytes = u32(s.raw_bytes);
  p->raw_offset = rows::kRingOffset + u32(s.stages * s.stage_bytes);
  p->slots = u32(s.slots);
  p->slot_bytes = u32(s.slot_bytes);
  p->slot_offset = p->raw_offset + u32(s.raws * s.raw_bytes);
  const std::int64_t sums = std::int64_t{16} * rows::quads_of(shape);
  p->shared_bytes = u32(std::max(s.shared_bytes(), rows::kRingOffset + sums));
}

void set_groups(const View& view, std::int64_t vector, const Strips& s, rows::Params* p) {
  const std::int64_t pixel = view.stride_w * view.channels;
  p->groups = u32(s.groups);
  p->group_rows = u32(s.group_rows);
  p->raw_row_words = u32(s.vectors * kVectorBytes / 4);
  p->raw_copy_bytes = u32(s.group_rows * s.vectors * kVectorBytes);
  p->first_vector = static_cast<std::int32_t>(s.first_vector);
  p->first_shift = u32(s.first_shift);
  p->strip_vectors = u32(s.tile_w * pixel / vector);
  p->stride_h = static_cast<std::int32_t>(view.stride_h);
  p->pad_h = static_cast<std::int32_t>(view.pad_h);
  p->pixel_elements = u32(pixel);
  p->plane_bytes = u32(s.plane_bytes);
  p->row_octets = u32(view.row_octets());
  p->row_columns = FastDivmod(u32(view.row_octets() * rows::kOctet));
  p->tile_groups = FastDivmod(u32(s.tile_w / 8));
}

void set_maps(const View& view, const Strips& s, SmemIm2colWgradPlan* plan) {
  const std::int64_t bytes = rows::bytes_of(plan->type);
  plan->dy = {4,
              {view.filters, view.out_w, view.out_h, view.images},
              {view.dy_pixel, view.dy_row, view.dy_image},
              {rows::kBoxBytes / rows::bytes_of(plan->type), static_cast<std::int32_t>(s.tile_w), 1, 1}};
  plan->x = {3,
             {view.image_w * view.channels * bytes / 8, view.image_h, view.images},
             {view.x_row, view.x_image},
             {static_cast<std::int32_t>(2 * s.vectors), static_cast<std::int32_t>(s.group_rows), 1}};
}

}  // namespace

const char* smem_im2col_wgrad_unsupported_reason(const Problem& problem) {
  if (const char* reason = small_c_wgrad_view_unsupported_reason(problem)) return reason;
  const View view = small_c_wgrad_view(problem);
  const rows::ElementType type = element_type(problem.x.type);
  const int shape = shape_of(view, type);
  if (shape < 0)
    return "more than 64 taps, rows of them rounded up to eights, but up to 7 rows of 24; in TF32 more than 168";
  if (has_too_many_filters(view)) return "2^26 filters or more";
  if (!has_strips(view, type, rows::kShapes[shape])) {
    return "shared memory has no room for the image rows of two rows of y";
  }
  return nullptr;
}

std::optional<SmemIm2colWgradPlan> smem_im2col_wgrad_plan(const Problem& problem, const Config& config,
                                                          int multiprocessors) {
  const View view = small_c_wgrad_view(problem);
  const rows::ElementType type = element_type(problem.x.type);
  if (config.tile != shape_of(view, type)) return std::nullopt;
  const Strips s = best_strips(view, type, rows::kShapes[config.tile], config.split_k, multiprocessors);
  if (s.count == 0) return std::nullopt;
  SmemIm2colWgradPlan plan;
  plan.shape = config.tile;
  plan.type = type;
  plan.seconds = s.seconds;
  plan.workspace = smem_im2col_wgrad_workspace(problem, config);
  plan.params.parts = FastDivmod(u32(filter_blocks_of(view)));
  plan.params.splits = u32(config.split_k);
  set_rings(view, rows::kShapes[config.tile], s, &plan.params);
  set_groups(view, kVectorBytes / rows::bytes_of(type), s, &plan.params);
  plan.params.taps = small_c_wgrad_taps(problem, view);
  set_maps(view, s, &plan);
  return plan;
}

std::size_t smem_im2col_wgrad_workspace(const Problem& problem, const Config& config) {
  if (config.split_k <= 1) return 0;
  const auto blocks = static_cast<std::size_t>(filter_blocks_of(small_c_wgrad_view(problem)));
  return blocks * static_cast<std::size_t>(config.split_k) * rows::quads_of(rows::kShapes[config.tile]) * 16 +
         rows::kWorkspaceAlignment;
}

namespace {

std::int64_t most_splits(const View& view, int multiprocessors) {
  const std::int64_t units = std::max<std::int64_t>(view.images * view.out_h, 1);
  return std::clamp<std::int64_t>(multiprocessors / filter_blocks_of(view), 1, units);
}

void offer_candidates(const Problem& problem, const View& view, int multiprocessors, Taker* taker) {
  const rows::ElementType type = element_type(problem.x.type);
  const int shape = shape_of(view, type);
  if (shape < 0) return;
  const auto offer = [&](std::int64_t parts) {
    const auto splits = static_cast<double>(parts);
    if (!taker->has_use_for(least_seconds(view, type, rows::kShapes[shape], splits, multiprocessors))) return;
    const Strips s = best_strips(view, type, rows::kShapes[shape], splits, multiprocessors);
    if (s.count == 0) return;
    const Config config = {shape, static_cast<std::int32_t>(parts)};
    taker->take({config, s.seconds, smem_im2col_wgrad_workspace(problem, config)});
  };
  const std::int64_t most = most_splits(view, multiprocessors);
  if (most > 1) offer(most);
  offer(1);
}

}  // namespace

double smem_im2col_wgrad_least_seconds(const Problem& problem, int multiprocessors) {
  const View view = small_c_wgrad_view(problem);
  const rows::ElementType type = element_type(problem.x.type);
  const int shape = shape_of(view, type);
  if (shape < 0) return std::numeric_limits<double>::infinity();
  const auto least = [&](std::int64_t splits) {
    return least_seconds(view, type, rows::kShapes[shape], static_cast<double>(splits), multiprocessors);
  };
  const std::int64_t most = most_splits(view, multiprocessors);
  return most > 1 ? std::min(least(most), least(1)) : least(1);
}

void smem_im2col_wgrad_candidates(const Problem& problem, int multiprocessors, std::vector<Candidate>* candidates) {
  Taker taker{.all = candidates};
  offer_candidates(problem, small_c_wgrad_view(problem), multiprocessors, &taker);
}

// A problem without an reason has strips, and one without strips no candidates.
bool smem_im2col_wgrad_fastest(const Problem& problem, int multiprocessors, double bound, Candidate* fastest) {
  if (bound < kStart || small_c_wgrad_view_unsupported_reason(problem) != nullptr) return false;
  const View view = small_c_wgrad_view(problem);
  Taker taker{.fastest = fastest, .bound = bound};
  if (!has_too_many_filters(view)) offer_candidates(problem, view, multiprocessors, &taker);
  return taker.found;
}

}  // namespace gpudnn::conv
