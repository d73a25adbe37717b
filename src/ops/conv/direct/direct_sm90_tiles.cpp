// The tiles of the Hopper direct convolution, and its cost model.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/direct/direct_sm90_tiles.hpp"

#include <algorithm>
#include <cmath>

#include "core/cost_model.hpp"
#include "core/integer.hpp"
#include "ops/conv/tma_layout.hpp"

namespace gpudnn::conv::direct_tiles {
namespace {

namespace direct = kernels::direct;

constexpr std::int64_t kSharedBytes = 227 * 1024;
constexpr int kLargestBox = 256;
constexpr std::int64_t kMaxCount = std::numeric_limits<std::int32_t>::max() / 2;

// Without taps along w and h both are one axis, and d is the next: so that a patch holds the depths of all taps.
void join_axes_without_taps(View* view) {
  Axis(&a)[kAxes] = view->axis;
  if (a[2].taps == 1 || a[0].taps * a[1].taps > 1 || a[0].pad != 0 || a[1].pad != 0) return;
  const bool even =
      a[1].in == 1 || (a[0].in > 1 && a[1].in_step == a[0].in * a[0].in_step &&
                       a[1].out_step == a[0].out * a[0].out_step && a[1].addend_step == a[0].out * a[0].addend_step);
  if (!even || a[0].in * a[1].in > kMaxCount) return;
  a[0].in *= a[1].in;
  a[0].out *= a[1].out;
  a[1] = a[2];
  a[2] = Axis{};
}

}  // namespace

View view_of(const Problem& problem) {
  const bool forward = problem.direction == Direction::forward;
  const TensorGeometry& in = forward ? problem.x : problem.y;
  const TensorGeometry& out = forward ? problem.y : problem.x;
  const TensorGeometry& addend = problem.has_z != 0 ? problem.z : out;
  View view;
  view.images = in.dims[0];
  view.transposed = !forward;
  view.f32 = problem.x.type == GPUDNN_DATA_FLOAT;
  view.element = element_size(problem.x);
  view.groups = problem.groups;
  view.k = in.dims[1] / problem.groups;
  view.m = out.dims[1] / problem.groups;
  view.in_image = copy_step(in, 0, view.element);
  view.out_image = copy_step(out, 0, view.element);
  view.addend_image = copy_step(addend, 0, view.element);
  for (int a = 0; a < kAxes; ++a) {
    const int i = problem.spatial - 1 - a;
    if (i < 0) continue;
    Axis& axis = view.axis[a];
    axis.in = in.dims[2 + i];
    axis.out = out.dims[2 + i];
    axis.taps = problem.w.dims[2 + i];
    axis.pad = forward ? problem.pad[i] : axis.taps - 1 - problem.pad[i];
    axis.in_step = copy_step(in, 2 + i, view.element);
    axis.out_step = copy_step(out, 2 + i, view.element);
    axis.addend_step = copy_step(addend, 2 + i, view.element);
    view.taps *= axis.taps;
  }
  join_axes_without_taps(&view);
  return view;
}

namespace {

void cut_channels(const View& view, std::int64_t channel_bytes, Operands* o) {
  const std::int64_t bytes = view.k * view.element;
  o->channel_bytes = channel_bytes;
  o->channel_blocks = ceil_div(bytes, channel_bytes);
  o->block_steps = channel_bytes / 32;
  o->last_steps = ceil_div(bytes - (o->channel_blocks - 1) * channel_bytes, 32);
  if (o->channel_blocks == 1) o->block_steps = o->last_steps;
}

std::int64_t widest_channels(const View& view) {
  const std::int64_t bytes = view.k * view.element;
  return bytes <= 32 ? 32 : bytes <= 64 ? 64 : 128;
}

Operands operands_of(const View& view, const direct::Shape& shape) {
  Operands o;
  const std::int64_t octet = kOctetBytes / view.element;
  const std::int64_t all_m = view.m / octet;
  o.row_blocks = ceil_div(all_m, shape.channels / octet);
  o.m_octets = ceil_div(all_m, o.row_blocks);
  if (!view.f32 && shape.channels > 8) o.m_octets = ceil_div(o.m_octets, 2) * 2;  // a warp stages two at once
  o.k_octets = ceil_div(view.k, 2 * octet) * 2;
  o.k_blocks = ceil_div(view.k, 32);
  o.filter_bytes =
      view.taps * (view.f32 ? o.k_blocks * direct::kFilterBlockBytes : o.k_octets * o.m_octets * direct::kCoreBytes);
  cut_channels(view, widest_channels(view), &o);
  return o;
}

// --- the cost model --------------------------------------------------------------------------------------------------

// A tile takes the longest of its products, its loads from the L2, and half of its products and its epilogue, as two
// consumers take turns. A patch's load may take as long as the patches before it last. That is more than a Footprint
// says, so the engine works out the seconds of a tile itself; estimate() has the rounds of tiles and the memory.
constexpr double kL2Efficiency = 0.5;
constexpr double kStoreBytes = 13;  // in a cycle: of a tile's sums, from registers to memory, of one consumer
// Of a position, filter first: 64 rows, whether there are as many channels or not.
constexpr double kEpilogueCycles = 12.6;
constexpr double kStart = 5.4e-6;        // beyond a launch
constexpr double kFilterBytes = 24;      // in a cycle: of the filter on its way to its place
constexpr double kFilterBytesF32 = 200;  // by TMA
constexpr double kTranspositionBytes = 70;
constexpr double kLoadLatency = 0.8e-6;
constexpr double kTileSeconds = 0.15e-6;  // of a tile's barriers

double start_of(const View& view, const Operands& o, double clock) {
  const auto bytes = static_cast<double>(o.filter_bytes);
  if (!view.f32) return kStart + bytes / kFilterBytes / clock;
  return kStart + (bytes / kFilterBytesF32 + (view.transposed ? bytes / kTranspositionBytes : 0)) / clock;
}

double bytes_of(const View& view) {
  return static_cast<double>(view.images * view.groups * view.element) *
         (static_cast<double>(view.axis[0].in * view.axis[1].in * view.axis[2].in) * static_cast<double>(view.k) +
          static_cast<double>(view.axis[0].out * view.axis[1].out * view.axis[2].out) * static_cast<double>(view.m));
}

// f16 rates hold for f32, too: steps are of 32 bytes.
double seconds_of_tile(const View& view, const Operands& o, const direct::Shape& shape, const TileChoice& tile,
                       double stored, const DeviceRates& rates) {
  const double steps = static_cast<double>((o.channel_blocks - 1) * o.block_steps + o.last_steps);
  const double products = static_cast<double>(view.taps) * steps * 2.0 * shape.channels * 16 * shape.positions /
                          (rates.half_flops / rates.multiprocessors * shape.efficiency);
  const double patches = static_cast<double>(view.axis[2].taps * o.channel_blocks);
  const double load = static_cast<double>(tile.stage_bytes) / (rates.l2_bytes / rates.multiprocessors * kL2Efficiency);
  const double loads = patches * std::max(load, (load + kLoadLatency) / static_cast<double>(tile.stages - 1));
  const double epilogue = shape.filter_first ? shape.positions * kEpilogueCycles / rates.clock : stored;
  return std::max({products, loads, (products + epilogue) / 2}) + kTileSeconds;
}

Footprint footprint_of(const View& view, const Operands& o, const direct::Shape& shape, const TileChoice& tile,
                       const DeviceRates& rates) {
  const auto row_blocks = static_cast<double>(view.groups * o.row_blocks);
  const double sharers = std::max(1.0, std::floor(rates.multiprocessors / row_blocks));  // blocks that share the tiles
  const double waves = std::ceil(row_blocks * sharers / rates.multiprocessors);
  const double stored = static_cast<double>(tile.w * tile.h * o.m_octets * kOctetBytes) / kStoreBytes / rates.clock;
  Footprint f;
  f.tiles = waves * std::ceil(tile.tiles / sharers);
  f.slots = 1;  // tiles of one block, one after another
  f.tile_seconds = seconds_of_tile(view, o, shape, tile, stored, rates);
  f.dram_bytes = bytes_of(view);
  f.start_seconds = start_of(view, o, rates.clock) + stored;
  return f;
}

// --- tiles -----------------------------------------------------------------------------------------------------------

// Of a group: what a patch or a tile had beyond its channels would be another group's.
bool fills_patches_and_tiles(const View& view, const Operands& o) {
  return o.channel_blocks * o.channel_bytes == view.k * view.element &&
         o.row_blocks * o.m_octets * kOctetBytes == view.m * view.element;
}

// Positions come first where all channels are of one block.
bool takes(const View& view, const Operands& o, const direct::Shape& shape) {
  if (view.f32) return shape.for_f32 && o.k_blocks <= direct::kMaxFilterBlocks;
  if (view.groups > 1 && !fills_patches_and_tiles(view, o)) return false;
  return shape.filter_first || o.row_blocks == 1;
}

}  // namespace

// f32 needs none: its sums leave from registers.
std::int64_t staging_bytes(const View& view, const Operands& o, const direct::Shape& shape) {
  return view.f32 ? 0 : round_up(shape.positions * o.m_octets * kOctetBytes, direct::kAlignment);
}

// What lies behind the patches: staging areas, the filter, and room for what products read beyond it, 64 rows in all. A
// product reads up to as many positions beyond the last patch.
std::int64_t bytes_behind_patches(const View& view, const Operands& o, const direct::Shape& shape) {
  const std::int64_t beyond = view.f32 ? 0 : (8 - o.m_octets) * 256;
  const std::int64_t bytes = direct::kConsumers * staging_bytes(view, o, shape) + o.filter_bytes + beyond;
  return std::max(bytes, shape.positions * o.channel_bytes);
}

namespace {

// Calls visit(tile) for tiles of widths that divide the image into equal parts, a sixteenth apart at least, each as
// high as positions and room for two patches allow, until visit says that it has seen enough. Sizes fit 32 bits (see
// direct_unsupported_reason).
template <class Visit>
bool for_each_tile(const View& view, const Operands& o, const direct::Shape& shape, Visit visit) {
  using std::int32_t;
  constexpr int32_t kNarrowest = 8;
  const auto room = static_cast<int32_t>(
      std::max<std::int64_t>(0, kSharedBytes - direct::kBarrierBytes - bytes_behind_patches(view, o, shape)));
  const auto channel_bytes = static_cast<int32_t>(o.channel_bytes);
  const auto out_w = static_cast<int32_t>(view.axis[0].out);
  const auto out_h = static_cast<int32_t>(view.axis[1].out);
  const auto beyond_w = static_cast<int32_t>(view.axis[0].taps - 1);
  const auto beyond_h = static_cast<int32_t>(view.axis[1].taps - 1);
  const double depths = static_cast<double>(view.axis[2].out * view.images);
  const int32_t patch = room / 2 / direct::kAlignment * direct::kAlignment / channel_bytes;  // positions
  const int32_t highest = std::min({kLargestBox - beyond_h, out_h});
  int32_t next = std::min({shape.positions, kLargestBox - beyond_w, out_w});
  while (next >= std::min(kNarrowest, out_w) && next >= 1) {
    const int32_t across = (out_w + next - 1) / next;
    const int32_t w = (out_w + across - 1) / across;
    next = w - std::max(1, w / 16);
    const int32_t pitch = w + beyond_w;
    const int32_t rows = std::min({(shape.positions - w) / pitch + 1, patch / pitch - beyond_h, highest});
    if (rows < 1) continue;
    const int32_t down = (out_h + rows - 1) / rows;
    const int32_t h = (out_h + down - 1) / down;
    TileChoice tile;
    tile.w = w;
    tile.h = h;
    tile.pitch = pitch;
    tile.tiles = static_cast<double>(across) * down * depths;
    const int32_t bytes = pitch * (h + beyond_h) * channel_bytes;
    tile.stage_bytes = (bytes + direct::kAlignment - 1) / direct::kAlignment * direct::kAlignment;
    tile.stages = std::min(room / static_cast<int32_t>(tile.stage_bytes), direct::kMaxStages);
    if (!visit(tile)) return false;
  }
  return true;
}

}  // namespace

TileChoice best_tile(const View& view, const direct::Shape& shape, const DeviceRates& rates) {
  TileChoice best;
  Operands o = operands_of(view, shape);
  if (!takes(view, o, shape)) return best;
  // Patches of as many channels as a position may have, and of f32, whose filter leaves little room, of fewer.
  while (true) {
    for_each_tile(view, o, shape, [&](TileChoice& tile) {
      tile.seconds = estimate(footprint_of(view, o, shape, tile, rates), rates);
      if (tile.seconds >= best.seconds) return true;
      best = tile;
      best.o = o;
      return true;
    });
    if (!view.f32 || o.channel_bytes <= 32) return best;
    cut_channels(view, o.channel_bytes / 2, &o);
  }
}

bool has_tile(const View& view, int number) {
  const direct::Shape& shape = direct::kShapes[number];
  Operands o = operands_of(view, shape);
  if (!takes(view, o, shape)) return false;
  while (true) {
    if (!for_each_tile(view, o, shape, [](const TileChoice&) { return false; })) return true;
    if (!view.f32 || o.channel_bytes <= 32) return false;
    cut_channels(view, o.channel_bytes / 2, &o);
  }
}

}  // namespace gpudnn::conv::direct_tiles
