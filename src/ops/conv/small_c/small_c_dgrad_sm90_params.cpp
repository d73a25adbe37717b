// The mapping of data gradients to the Hopper kernel for images of few channels, and its cost model.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/small_c/small_c_dgrad_sm90_params.hpp"

#include <algorithm>
#include <limits>

#include "core/cost_model.hpp"
#include "core/integer.hpp"
#include "ops/conv/small_c/small_c_sm80_params.hpp"
#include "ops/conv/tensor_math.hpp"
#include "ops/conv/tile_names.hpp"
#include "ops/conv/tma_layout.hpp"

namespace gpudnn::conv {
namespace {

namespace data = kernels::small_c_dgrad;
namespace few = kernels::small_c;
using data::FastDivmod;
using std::int64_t;

constexpr int64_t kSharedBytes = 227 * 1024;
constexpr int64_t kVectorBytes = 16;
constexpr int64_t kLargestBox = 256;
constexpr int64_t kMaxCount = std::numeric_limits<std::int32_t>::max() / 2;
constexpr int64_t kInstructionRows = 64;
constexpr int64_t kLeastRows = 2;  // of positions for a warpgroup: fewer cost more in rows of dy than they share

// What the problem says.
struct View {
  few::Params few;
  tile::ElementType type = tile::ElementType::f16;
  int64_t bytes = 2;                 // of an element
  int64_t taps_u = 1, taps_v = 1;    // of a stride phase
  int64_t rows = 1, columns = 1;     // of positions
  int64_t class_row = 1, group = 1;  // rows of the product: of a row of pixels, of a row of positions
  int64_t filter_blocks = 1, last_steps = 1;
};

View view_of(const Problem& problem) {
  View v;
  v.few = small_c_params(problem);
  v.type = small_c_type(problem);
  v.bytes = tile::element_bytes(v.type);
  const few::Params& p = v.few;
  v.taps_u = ceil_div(p.taps_h, p.stride_h);
  v.taps_v = ceil_div(p.taps_w, p.stride_w);
  v.rows = (p.image_h - 1 + p.pad_h) / p.stride_h - p.pad_h / p.stride_h + 1;
  v.columns = (p.image_w - 1 + p.pad_w) / p.stride_w - p.pad_w / p.stride_w + 1;
  v.class_row = static_cast<int64_t>(p.stride_w) * p.channels;
  v.group = round_up(v.class_row, 8) * p.stride_h;
  const int64_t of_block = data::filters_of_block(v.type);
  v.filter_blocks = ceil_div(p.filters, of_block);
  v.last_steps = ceil_div(p.filters - (v.filter_blocks - 1) * of_block, data::filters_of_step(v.type));
  return v;
}

// Tiles of columns and shared memory for a shape and a number of warpgroups.
struct Layout {
  int64_t column_tiles = 0, tile_w = 0;
  int64_t panel_bytes = 0, filter_bytes = 0;
  int64_t staging_bytes = 0;
  int64_t raw_filters = 0;  // in the staging areas before there are sums
  int64_t load_bytes = 0, stage_bytes = 0, stages = 0;
  int64_t behind_stages = 0;  // bytes
};

Layout layout_of(const View& v, const data::Shape& shape, int64_t warpgroups) {
  Layout l;
  l.column_tiles = ceil_div(v.columns, shape.positions);
  l.tile_w = ceil_div(v.columns, l.column_tiles);
  const int64_t filter_rows = (v.taps_u - 1) * v.group + shape.row_blocks * kInstructionRows;
  l.panel_bytes = round_up(filter_rows, 8) * data::kRowBytes;
  l.filter_bytes = l.panel_bytes * v.taps_v * v.filter_blocks;
  l.staging_bytes = round_up(
      v.group / 8 * std::max(data::halves_octet_bytes(shape.positions), data::floats_octet_bytes(shape.positions)),
      128);
  const int64_t octet_of_filters = 8 * static_cast<int64_t>(v.few.taps_h) * v.few.taps_w * v.few.channels * v.bytes;
  l.raw_filters = warpgroups * l.staging_bytes / octet_of_filters * 8;
  l.load_bytes = (l.tile_w + v.taps_v - 1) * data::kRowBytes;
  l.stage_bytes = round_up(l.load_bytes, data::kAlignment);
  // A product reads the columns of all positions of the shape, those of the tile or not.
  l.behind_stages =
      std::max(l.filter_bytes + warpgroups * l.staging_bytes, (shape.positions - l.tile_w) * data::kRowBytes);
  const int64_t room = kSharedBytes - data::kBarrierBytes - l.behind_stages;
  l.stages = room <= 0 ? 0 : std::min<int64_t>(room / warpgroups / l.stage_bytes, data::kMaxStages);
  return l;
}

bool is_possible(const View& v, const data::Shape& shape, int64_t warpgroups, const Layout& l) {
  return v.taps_u * v.group <= shape.row_blocks * kInstructionRows && warpgroups <= shape.most_warpgroups &&
         l.tile_w + v.taps_v - 1 <= kLargestBox && l.stages >= 2 && l.stages >= v.filter_blocks && l.raw_filters > 0;
}

// --- the footprint ---------------------------------------------------------------------------------------------------

// Fitted to an H200, see "small_c_dgrad_sm90" in docs/perf-notes.md. A row of dy costs a warpgroup its products,
// what it does between them, and a part of what the other warpgroups of the block do: they share the matrix units,
// shared memory and issue slots.
constexpr double kStart = 5.6e-6;         // beyond a launch: the first rows of dy
constexpr double kTapSeconds = 20e-9;     // of a filter on its way to its place, 64 filters at most at a time
constexpr double kProductShare = 1.2;     // of the products' time, of a warpgroup's own
constexpr double kRowCycles = 570;        // for each block of rows of the product
constexpr double kElementCycles = 100;    // for each element of dx that a thread stores
constexpr double kCutCycles = 1250;       // of vectors that are cut by a tile's end
constexpr double kNeighbourShare = 0.33;  // of the products' time, for each warpgroup
constexpr double kNeighbourCycles = 330;

int64_t all_rows_of(const View& v, const Layout& l) { return v.few.images * l.column_tiles * v.rows; }

int64_t blocks_of(const View& v, const Layout& l, int64_t warpgroups, int multiprocessors) {
  return std::min<int64_t>(multiprocessors, ceil_div(all_rows_of(v, l), warpgroups * kLeastRows));
}

double cycles_of_row(const View& v, const data::Shape& shape, const Layout& l, int64_t warpgroups) {
  const few::Params& p = v.few;
  const double steps = static_cast<double>((v.filter_blocks - 1) * 4 + v.last_steps) * static_cast<double>(v.taps_v);
  const double products = steps * shape.row_blocks * std::max(shape.positions / 2.0, 16 + shape.positions / 4.0);
  const double elements = static_cast<double>(l.tile_w * v.class_row * p.stride_h) / data::kWarpgroup;
  const int64_t vector = kVectorBytes / v.bytes;
  const int64_t begin = (static_cast<int64_t>(p.pad_w / p.stride_w) * p.stride_w - p.pad_w) * p.channels;
  const bool cuts = l.column_tiles > 1 && (begin % vector != 0 || l.tile_w * v.class_row % vector != 0);
  const double row = kProductShare * products + kRowCycles * shape.row_blocks + kElementCycles * elements +
                     (cuts ? kCutCycles : 0) +
                     static_cast<double>(warpgroups) * (kNeighbourShare * products + kNeighbourCycles);
  return std::max(row, static_cast<double>(warpgroups) * products);
}

Footprint footprint_of(const View& v, const data::Shape& shape, const Layout& l, int64_t warpgroups,
                       int multiprocessors) {
  const few::Params& p = v.few;
  const int64_t blocks = blocks_of(v, l, warpgroups, multiprocessors);
  const double share = static_cast<double>(ceil_div(all_rows_of(v, l), blocks * warpgroups));
  // A share that reaches over several images has its first rows of dy in each.
  const double parts = 1 + (share - 1) / static_cast<double>(v.rows);
  const double rounds = static_cast<double>(ceil_div(p.filters, std::min<int64_t>(l.raw_filters, 64)));
  // Windows that do not overlap have one row of dy for each of dx: measured over layers of published networks.
  const bool apart = v.taps_u == 1 && v.taps_v == 1;
  const double slowdown = !apart ? 1 : shape.positions > 64 && v.bytes == 4 ? 1.8 : 1.3;
  Footprint f;
  f.k_tiles = share + parts * static_cast<double>(v.taps_u - 1);  // rows of dy
  f.cycles = slowdown * cycles_of_row(v, shape, l, warpgroups);
  f.dram_bytes =
      static_cast<double>(p.images) * static_cast<double>(v.bytes) *
      (static_cast<double>(p.out_h) * p.out_w * p.filters + static_cast<double>(p.image_h) * p.image_w * p.channels);
  f.start_seconds = kStart + kTapSeconds * rounds * p.taps_h * p.taps_w * p.channels;
  return f;
}

// --- legality --------------------------------------------------------------------------------------------------------

void set_map(const Problem& problem, const View& v, const Layout& l, TmaBoxes* map) {
  const TensorGeometry& dy = problem.y;
  const auto step = [&](int dim) { return copy_step(dy, dim, v.bytes); };
  map->extent[0] = v.few.filters;
  map->extent[1] = v.few.out_w;
  map->step[0] = step(1 + problem.spatial);
  map->extent[2] = v.few.out_h;
  if (problem.spatial == 2) map->step[1] = step(2);
  map->extent[4] = v.few.images;
  map->step[3] = step(0);
  map->box[0] = data::filters_of_block(v.type);
  map->box[1] = static_cast<std::int32_t>(l.tile_w + v.taps_v - 1);
}

void set_problem(const View& v, data::Params* p) {
  const few::Params& f = v.few;
  p->channels = f.channels;
  p->filters = f.filters;
  p->image_h = f.image_h;
  p->image_w = f.image_w;
  p->out_h = f.out_h;
  p->out_w = f.out_w;
  p->taps_h = f.taps_h;
  p->taps_w = f.taps_w;
  p->pad_h = f.pad_h;
  p->pad_w = f.pad_w;
  p->stride_h = f.stride_h;
  p->stride_w = f.stride_w;
  p->xs = f.xs;
  p->ws = f.ws;
  p->ys = f.ys;
  p->w_base = f.w_base;
  p->first_i = f.pad_h / f.stride_h;
  p->first_j = f.pad_w / f.stride_w;
  p->taps_u = static_cast<std::int32_t>(v.taps_u);
  p->taps_v = static_cast<std::int32_t>(v.taps_v);
  p->class_row = FastDivmod(u32(v.class_row));
  p->class_pitch = u32(round_up(v.class_row, 8));
  p->group = static_cast<std::int32_t>(v.group);
  p->rows = FastDivmod(u32(v.rows));
  p->filters_of_block = data::filters_of_block(v.type);
  p->filter_blocks = u32(v.filter_blocks);
  p->last_steps = u32(v.last_steps);
  p->filter_taps = u32(static_cast<int64_t>(f.taps_h) * f.taps_w * f.channels);
  p->channel_div = FastDivmod(u32(f.channels));
  p->taps_w_div = FastDivmod(u32(f.taps_w));
  p->taps_h_div = FastDivmod(u32(f.taps_h));
  p->stride_h_div = FastDivmod(u32(f.stride_h));
  p->stride_w_div = FastDivmod(u32(f.stride_w));
}

void set_shared_memory(const Layout& l, int64_t warpgroups, data::Params* p) {
  p->column_tiles = FastDivmod(u32(l.column_tiles));
  p->tile_w = static_cast<std::int32_t>(l.tile_w);
  p->warpgroups = u32(warpgroups);
  p->stages = u32(l.stages);
  p->stage_bytes = u32(l.stage_bytes);
  p->load_bytes = u32(l.load_bytes);
  p->panel_bytes = u32(l.panel_bytes);
  p->filter_offset = u32(data::kBarrierBytes + warpgroups * l.stages * l.stage_bytes);
  p->staging_offset = p->filter_offset + u32(l.filter_bytes);
  p->staging_bytes = u32(l.staging_bytes);
  p->shared_bytes = p->filter_offset + u32(l.behind_stages);
}

// config.tile: the shape, and in the lowest bits the warpgroups.
constexpr int kGroupBits = 2;
constexpr auto kNames = [] {
  std::array<TileName, static_cast<std::size_t>(data::kShapeCount) << kGroupBits> names;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const data::Shape& shape = data::kShapes[i >> kGroupBits];
    names[i].add("m", 64 * shape.row_blocks).add("_n", shape.positions).add("_wg", static_cast<int>(i & 3));
  }
  return names;
}();

}  // namespace

const char* small_c_dgrad_unsupported_reason(const Problem& problem) {
  if (problem.direction != Direction::dgrad) return "it does the data gradient only";
  if (const char* reason = tensor_math_unsupported_reason(problem)) return reason;
  if (const char* reason = small_c_shape_unsupported_reason(problem)) return reason;
  const int64_t bytes = tile::element_bytes(small_c_type(problem));
  if (const char* reason = copy_unsupported_reason(problem.y, bytes)) return reason;
  if (problem.y.dims[1] * bytes % kCopyVector != 0) return "the filters do not fill whole 16-byte vectors";
  const View v = view_of(problem);
  if (v.few.images * v.rows * v.columns > kMaxCount) return "about 2^30 positions or more";
  if ((v.few.image_w + static_cast<int64_t>(v.few.pad_w)) * v.few.channels > kMaxCount) {
    return "a row of dx of about 2^30 elements or more";
  }
  if (v.taps_u * v.group > 2 * kInstructionRows) return "more sums for a row of dy than 128 rows of the product hold";
  for (const data::Shape& shape : data::kShapes) {
    if (is_possible(v, shape, 1, layout_of(v, shape, 1))) return nullptr;
  }
  return "the filter leaves shared memory no room for rows of dy";
}

std::optional<SmallCDgradPlan> small_c_dgrad_plan(const Problem& problem, const Config& config, const Device& device) {
  const View v = view_of(problem);
  const int64_t warpgroups = config.tile & ((1 << kGroupBits) - 1);
  SmallCDgradPlan plan;
  plan.shape = config.tile >> kGroupBits;
  const data::Shape& shape = data::kShapes[plan.shape];
  const Layout l = layout_of(v, shape, warpgroups);
  if (!is_possible(v, shape, warpgroups, l)) return std::nullopt;
  plan.type = v.type;
  data::Params& p = plan.params;
  set_problem(v, &p);
  p.filter_is_packed = is_packed_nhwc(problem.w) && problem.mode == GPUDNN_CROSS_CORRELATION;
  p.raw_filters = u32(l.raw_filters);
  set_shared_memory(l, warpgroups, &p);
  set_map(problem, v, l, &plan.dy);
  p.all_rows = u32(all_rows_of(v, l));
  plan.blocks = u32(blocks_of(v, l, warpgroups, device.rates.multiprocessors));
  const int64_t vector = kVectorBytes / v.bytes;
  p.row_vectors = FastDivmod(u32(ceil_div(l.tile_w * v.class_row + vector - 1, vector)));
  plan.dx_allows_vectors = p.xs.c == 1 && p.xs.w == p.channels && p.xs.h % vector == 0 && p.xs.n % vector == 0;
  return plan;
}

void small_c_dgrad_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  const View v = view_of(problem);
  for (int i = 0; i < data::kShapeCount; ++i) {
    const data::Shape& shape = data::kShapes[i];
    bool found = false;
    for (int warpgroups = shape.most_warpgroups; warpgroups >= 1; --warpgroups) {
      if (warpgroups == 1 && found) continue;
      const Layout l = layout_of(v, shape, warpgroups);
      if (!is_possible(v, shape, warpgroups, l)) continue;
      const Footprint f = footprint_of(v, shape, l, warpgroups, device.rates.multiprocessors);
      const int tile = i << kGroupBits | warpgroups;
      candidates->push_back(
          {{.tile = tile, .tile_name = kNames[static_cast<std::size_t>(tile)].text}, estimate(f, device.rates), 0});
      found = true;
    }
  }
}

}  // namespace gpudnn::conv
