// The mapping of convolution problems to the Hopper forward convolution for few channels, and its cost model.
//
// Longer than most files: the tile is chosen by the model, which needs what the tile sets.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/small_c/small_c_fwd_sm90_params.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/cost_model.hpp"
#include "core/integer.hpp"
#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/small_c/small_c_sm80_params.hpp"
#include "ops/conv/tensor_math.hpp"
#include "ops/conv/tile_names.hpp"
#include "ops/conv/tma_layout.hpp"

namespace gpudnn::conv {
namespace {

namespace few = kernels::small_c_fwd;
using few::FastDivmod;
using few::Taps;
using std::int64_t;

constexpr int64_t kOctetBytes = 16;
constexpr int64_t kSharedBytes = 227 * 1024;
constexpr int64_t kLargestBox = 256;
constexpr int64_t kMaxTiles = int64_t{1} << 30;
constexpr int64_t kMaxReduction = kSharedBytes / 2;  // bytes of a filter, long before which shared memory is full

constexpr auto kNames = tile_names(few::kShapes, [](const few::Shape& shape) {
  return TileName().add("k", shape.filters).add("_wg", shape.warpgroups);
});

// What does not depend on the tile.
struct View {
  few::ElementType type = few::ElementType::f16;
  int64_t bytes = 2, per_word = 2;  // of an element; elements
  int64_t images = 0, channels = 0, filters = 0;
  int64_t in_w = 1, in_h = 1, out_w = 1, out_h = 1;
  int64_t taps_w = 1, taps_h = 1, pad_w = 0, pad_h = 0, stride_w = 1, stride_h = 1;
  int64_t pixel_elements = 0;  // from a window to the next
  int64_t row_elements = 0;    // of a row of taps
  int64_t lead = 0;            // elements before the first window in the patch, which begins with a quad
  int64_t shift = 0;           // and in the window's first word
  bool by_parity = false;
  int64_t row_quads = 0, quads = 0, versions = 1;
  Taps taps = Taps::any;
};

Taps taps_of(int64_t row_quads, int64_t rows) {
  if (rows == 7) return row_quads == 3 ? Taps::quads_3_rows_7 : row_quads == 6 ? Taps::quads_6_rows_7 : Taps::any;
  if (rows != 3) return Taps::any;
  return row_quads == 1   ? Taps::quads_1_rows_3
         : row_quads == 2 ? Taps::quads_2_rows_3
         : row_quads == 3 ? Taps::quads_3_rows_3
                          : Taps::any;
}

View view_of(const Problem& problem) {
  View v;
  v.type = small_c_type(problem);
  v.bytes = tile::element_bytes(v.type);
  v.per_word = few::elements_of_word(v.type);
  const int w = problem.spatial - 1;
  v.images = problem.x.dims[0];
  v.channels = problem.x.dims[1];
  v.filters = problem.y.dims[1];
  v.in_w = problem.x.dims[2 + w];
  v.out_w = problem.y.dims[2 + w];
  v.taps_w = problem.w.dims[2 + w];
  v.pad_w = problem.pad[w];
  v.stride_w = problem.stride[w];
  if (problem.spatial == 2) {
    v.in_h = problem.x.dims[2];
    v.out_h = problem.y.dims[2];
    v.taps_h = problem.w.dims[2];
    v.pad_h = problem.pad[0];
    v.stride_h = problem.stride[0];
  }
  v.pixel_elements = v.stride_w * v.channels;
  v.row_elements = v.taps_w * v.channels;
  v.by_parity = v.per_word == 2 && v.pixel_elements % 2 != 0;
  const int64_t octet = kOctetBytes / v.bytes;
  v.lead = (octet - v.pad_w * v.channels % octet) % octet;
  v.shift = v.lead % v.per_word;
  v.versions = v.by_parity ? 2 : 1;
  v.row_quads = ceil_div(v.row_elements + (v.by_parity ? 1 : v.shift), 4 * v.per_word);
  v.taps = taps_of(v.row_quads, v.taps_h);
  v.quads = round_up(v.row_quads * v.taps_h, v.taps == Taps::any ? 4 : 2);
  return v;
}

// --- the order of pixels ---------------------------------------------------------------------------------------------

// How often the banks have to serve a load of eight windows' quads that are `words` apart. Quads that overlap are one
// piece of less than 32 words.
int wavefronts(int64_t words) {
  if (words < 4) return 1;
  int count[32] = {};
  int most = 1;
  for (int64_t g = 0; g < 8; ++g) {
    for (int64_t t = 0; t < 4; ++t) most = std::max(most, ++count[(g * words + t) % 32]);
  }
  return most;
}

struct Order {
  int64_t warp_step = 16, row_step = 1, half_step = 8;
  int conflicts = 1;
};
Order order_of(const View& v) {
  if (v.by_parity) return {32, 2, 16, wavefronts(v.pixel_elements)};
  const int64_t words = v.pixel_elements / v.per_word;
  const Order plain{16, 1, 8, wavefronts(words)};
  const Order alternating{16, 2, 1, wavefronts(2 * words)};
  return alternating.conflicts < plain.conflicts ? alternating : plain;
}

// --- tiles and the cost model ----------------------------------------------------------------------------------------

struct TileChoice {
  int64_t w = 0, h = 0, units = 0, pitch = 0, rows = 0, stage_bytes = 0, tiles = 0;
  double seconds = std::numeric_limits<double>::infinity();
};

constexpr double kStart = 3.4e-6;  // beyond a launch

int64_t filter_bytes(const View& v, int columns) { return v.versions * v.quads * columns * few::kQuadBytes; }

// Bytes of shared memory for a patch.
int64_t patch_room(const View& v, const few::Shape& shape) {
  return (kSharedBytes - few::kBarrierBytes - filter_bytes(v, shape.filters) - shape.filters * int64_t{4}) /
         (shape.warpgroups * few::kStages);
}

// Cycles of a multiprocessor for a unit: the matrix units, shared memory or the issue of instructions, whichever takes
// longest. A warpgroup alone waits in between.
double cycles_of_unit(const View& v, const few::Shape& shape, int conflicts) {
  const int columns = shape.filters;
  const double steps = static_cast<double>(v.quads) / 2;
  const double products = steps * columns / 2;
  const double stores = static_cast<double>(columns * v.bytes) / 2;
  const double shared = steps * (16.0 * conflicts + columns / 4.0) + stores;
  const double issue = 150 + steps * (v.taps == Taps::any ? 45 : 14) + 1.5 * columns;
  return 1.3 * std::max({products, shared, issue});
}

Footprint footprint_of(const View& v, const few::Shape& shape, int conflicts, const TileChoice& tile,
                       const DeviceRates& rates) {
  const double blocks =
      std::max(1.0, std::floor(rates.multiprocessors / static_cast<double>(ceil_div(v.filters, shape.filters))));
  const auto tiles = static_cast<double>(tile.tiles);
  const auto units = static_cast<double>(tile.units);
  const double unit = cycles_of_unit(v, shape, conflicts);
  const double unit_alone = unit + 400 + static_cast<double>(v.quads) * (v.taps == Taps::any ? 30 : 5);
  const double together = std::min<double>(shape.warpgroups, std::ceil(tiles / blocks));
  Footprint f;
  f.tiles = tiles;
  f.slots = blocks * shape.warpgroups;
  f.cycles = std::max(together * units * unit, units * unit_alone) + 300;
  f.dram_bytes = static_cast<double>(v.bytes * v.images) *
                 (static_cast<double>(v.in_w * v.in_h * v.channels) +
                  static_cast<double>(v.out_w * v.out_h) * static_cast<double>(v.filters));
  f.shown = 0.15;
  const double filter = static_cast<double>(filter_bytes(v, shape.filters)) / 4 / (128.0 * shape.warpgroups) * 40;
  // The first patches come before all else.
  const double patches = 0.2 * shape.warpgroups * few::kStages * static_cast<double>(tile.stage_bytes);
  f.start_seconds = kStart + (filter + 1500) / rates.clock + patches / (rates.copy_bytes / rates.multiprocessors);
  return f;
}

// Fills in what a tile of `units` of width w needs; false where TMA does not take it. A tile is whole rows
// of units. Tiles side by side begin with a quad, as w is a multiple of 8.
bool set_tile(const View& v, std::int32_t w, std::int32_t units, TileChoice* tile) {
  const std::int32_t h = units * few::kUnit / w;
  tile->w = w;
  tile->h = h;
  tile->units = units;
  const int64_t bytes = ((w - 1) * v.pixel_elements + v.lead + v.row_elements) * v.bytes;
  tile->pitch = (bytes + kOctetBytes - 1) / kOctetBytes * kOctetBytes;
  tile->rows = (h - 1) * v.stride_h + v.taps_h;
  if (tile->pitch > kLargestBox * 4 || tile->rows > kLargestBox) return false;
  tile->stage_bytes = (tile->pitch * tile->rows + few::kAlignment - 1) / few::kAlignment * few::kAlignment;
  const auto out_w = static_cast<std::int32_t>(v.out_w);
  const auto out_h = static_cast<std::int32_t>(v.out_h);
  tile->tiles = int64_t{(out_w + w - 1) / w} * ((out_h + h - 1) / h) * v.images;
  return tile->tiles <= kMaxTiles;
}

constexpr std::int32_t kWidths[] = {8, 16, 32, 64};
std::int32_t min_units(const View& v) { return v.by_parity ? 2 : 1; }

// Calls visit(tile) for tiles of one unit to eight until visit says that it has seen enough.
template <class Visit>
void for_each_tile(const View& v, Visit visit) {
  for (const std::int32_t units : {4, 8, 2, 1}) {
    if (units < min_units(v)) continue;
    for (const std::int32_t w : kWidths) {
      TileChoice tile;
      if (set_tile(v, w, units, &tile) && !visit(tile)) return;
    }
  }
}

bool has_tile(const View& v) {
  if (v.quads > kMaxReduction / few::kQuadBytes) return false;
  bool found = false;
  for (const few::Shape& shape : few::kShapes) {
    for_each_tile(v,
                  [&](const TileChoice& tile) { return !(found = found || tile.stage_bytes <= patch_room(v, shape)); });
  }
  return found;
}

// The best tile of the shape; of no units where there is none.
TileChoice best_tile(const View& v, const few::Shape& shape, int conflicts, const DeviceRates& rates) {
  TileChoice best;
  for_each_tile(v, [&](TileChoice& tile) {
    if (tile.stage_bytes > patch_room(v, shape)) return true;
    tile.seconds = estimate(footprint_of(v, shape, conflicts, tile, rates), rates);
    if (tile.seconds < best.seconds) best = tile;
    return true;
  });
  return best;
}

// --- parameters ------------------------------------------------------------------------------------------------------

void set_steps(const Problem& problem, const TensorGeometry& tensor, int64_t bytes, int64_t (&step)[3]) {
  step[0] = copy_step(tensor, 1 + problem.spatial, bytes);
  step[1] = problem.spatial == 2 ? copy_step(tensor, 2, bytes) : kOctetBytes;
  step[2] = copy_step(tensor, 0, bytes);
}

void set_patch(const Problem& problem, const View& v, const TileChoice& tile, SmallCFwdPlan* plan) {
  few::Params& p = plan->params;
  p.stage_bytes = u32(tile.stage_bytes);
  p.load_bytes = u32(tile.pitch * tile.rows);
  p.pitch = u32(tile.pitch);
  p.tile_row_step = u32(tile.pitch * v.stride_h);
  p.pixel_elements = i32(v.pixel_elements);
  p.lead = i32(v.lead);
  p.shift = i32(v.shift);
  p.corner_w = i32(-(v.pad_w * v.channels + v.lead) / v.per_word);
  p.corner_h = i32(-v.pad_h);
  p.tile_words = i32(tile.w * v.pixel_elements / v.per_word);
  p.tile_rows = i32(tile.h * v.stride_h);
  TmaBoxes& map = plan->input;
  map.rank = 3;
  map.extent[0] = v.in_w * v.channels / v.per_word;
  map.extent[1] = v.in_h;
  map.extent[2] = v.images;
  map.step[0] = problem.spatial == 2 ? copy_step(problem.x, 2, v.bytes) : kOctetBytes;
  map.step[1] = copy_step(problem.x, 0, v.bytes);
  map.box[0] = i32(tile.pitch / 4);
  map.box[1] = i32(tile.rows);
}

void set_filter(const Problem& problem, const View& v, few::Params* p) {
  const kernels::small_c::Params steps = small_c_params(problem);
  p->filter_base = steps.w_base;
  p->filter_step = steps.ws.n;
  p->tap_step_h = steps.ws.h;
  p->tap_step_w = steps.ws.w;
  p->channel_step = steps.ws.c;
  p->channels = FastDivmod(u32(v.channels));
  p->filters = u32(v.filters);
}

void set_reduction(const View& v, const few::Shape& shape, few::Params* p) {
  const int columns = shape.filters;
  p->taps = v.taps;
  p->rows = u32(v.taps_h);
  p->row_elements = u32(v.row_elements);
  p->row_quads = FastDivmod(u32(v.row_quads));
  p->quads = FastDivmod(u32(v.quads));
  p->versions = u32(v.versions);
  p->filter_words = FastDivmod(u32(v.versions * v.quads * 4));
  p->filter_lanes = u32(std::max<int64_t>(1, 128 * shape.warpgroups / (v.versions * v.quads * 4)));
  p->version_bytes = u32(v.quads * columns * few::kQuadBytes);
  p->filter_offset = few::kBarrierBytes + u32(shape.warpgroups * few::kStages) * p->stage_bytes;
  p->bias_offset = p->filter_offset + p->versions * p->version_bytes;
  p->shared_bytes = p->bias_offset + u32(columns) * 4;
}

void set_epilogue(const Problem& problem, const View& v, few::Params* p) {
  set_steps(problem, problem.y, v.bytes, p->out_step);
  set_steps(problem, problem.has_z != 0 ? problem.z : problem.y, v.bytes, p->addend_step);
  set_activation(problem, p);
}

void set_tiles(const View& v, const TileChoice& tile, const Order& order, few::Params* p) {
  const int64_t tiles_w = ceil_div(v.out_w, tile.w);
  const int64_t tiles_h = ceil_div(v.out_h, tile.h);
  p->tiles_w = FastDivmod(u32(tiles_w));
  p->tiles_h = FastDivmod(u32(tiles_h));
  p->tiles = u32(tile.tiles);
  p->tile_w = i32(tile.w);
  p->tile_h = i32(tile.h);
  p->tile_w_div = FastDivmod(u32(tile.w));
  p->out_w = i32(v.out_w);
  p->out_h = i32(v.out_h);
  p->units = u32(tile.units);
  p->unit_rows = i32((v.by_parity ? 2 : 1) * few::kUnit / tile.w);
  p->unit_bytes = u32(p->unit_rows * v.stride_h * tile.pitch);
  p->odd_bytes = u32((v.pixel_elements + v.shift) / 2 * 4);
  p->by_parity = v.by_parity;
  p->warp_step = u32(order.warp_step);
  p->row_step = u32(order.row_step);
  p->half_step = u32(order.half_step);
}

// --- legality --------------------------------------------------------------------------------------------------------

bool are_octets(const TensorGeometry& tensor, int64_t bytes) {
  if (tensor.dims[1] > 1 && tensor.strides[1] != 1) return false;
  for (int dim = 0; dim < tensor.rank; ++dim) {
    if (dim != 1 && tensor.dims[dim] > 1 && tensor.strides[dim] * bytes % kOctetBytes != 0) return false;
  }
  return true;
}

const char* input_unsupported_reason(const Problem& problem, int64_t bytes) {
  const TensorGeometry& x = problem.x;
  const int64_t channels = x.dims[1];
  const int last = 1 + problem.spatial;
  if ((channels > 1 && x.strides[1] != 1) || (x.dims[last] > 1 && x.strides[last] != channels)) {
    return "a row of x is not one piece of pixels, channels last";
  }
  if (channels * x.dims[last] * bytes % 4 != 0) return "a row of x is no whole number of 4-byte words";
  for (int dim = 0; dim < last; ++dim) {
    if (dim != 1 && x.dims[dim] > 1 && x.strides[dim] * bytes % kOctetBytes != 0) {
      return "rows of x do not begin at multiples of 16 bytes";
    }
  }
  return nullptr;
}

const char* shape_unsupported_reason(const Problem& problem) {
  if (problem.direction != Direction::forward) return "it does forward only";
  if (const char* reason = tensor_math_unsupported_reason(problem)) return reason;
  if (const char* reason = small_c_shape_unsupported_reason(problem)) return reason;
  const int64_t bytes = tile::element_bytes(small_c_type(problem));
  if (const char* reason = input_unsupported_reason(problem, bytes)) return reason;
  if (problem.y.dims[1] * bytes % kOctetBytes != 0 || !are_octets(problem.y, bytes) ||
      (problem.has_z != 0 && !are_octets(problem.z, bytes))) {
    return "pixels of y or z are no whole 16-byte vectors of filters";
  }
  return channel_scale_unsupported_reason(problem);
}

}  // namespace

const char* small_c_fwd_unsupported_reason(const Problem& problem) {
  if (const char* reason = shape_unsupported_reason(problem)) return reason;
  return has_tile(view_of(problem)) ? nullptr
                                    : "shared memory does not hold the filter and the least part of the image";
}

std::optional<SmallCFwdPlan> small_c_fwd_plan(const Problem& problem, const Config& config, const Device& device) {
  const View view = view_of(problem);
  const few::Shape& shape = few::kShapes[config.tile];
  const Order order = order_of(view);
  const TileChoice tile = best_tile(view, shape, order.conflicts, device.rates);
  if (tile.units == 0) return std::nullopt;
  SmallCFwdPlan plan;
  plan.shape = config.tile;
  plan.type = view.type;
  few::Params& p = plan.params;
  set_tiles(view, tile, order, &p);
  set_patch(problem, view, tile, &plan);
  set_filter(problem, view, &p);
  set_reduction(view, shape, &p);
  set_epilogue(problem, view, &p);
  const int64_t row_blocks = ceil_div(view.filters, shape.filters);
  p.row_blocks = FastDivmod(u32(row_blocks));
  const int64_t slots = std::max<int64_t>(1, device.rates.multiprocessors / row_blocks);
  plan.blocks = u32(std::min(slots, tile.tiles) * row_blocks);
  return plan;
}

void small_c_fwd_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  const View view = view_of(problem);
  const int conflicts = order_of(view).conflicts;
  for (int i = 0; i < few::kShapeCount; ++i) {
    const TileChoice tile = best_tile(view, few::kShapes[i], conflicts, device.rates);
    if (tile.units == 0) continue;
    candidates->push_back({{.tile = i, .tile_name = kNames[static_cast<std::size_t>(i)].text}, tile.seconds, 0});
  }
}

}  // namespace gpudnn::conv
