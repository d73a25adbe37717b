// The tiles of the Hopper halo convolution, and its cost model.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/halo_sm90_tiles.hpp"

#include <algorithm>
#include <cmath>

namespace gpudnn::conv::halo_tiles {
namespace {

namespace halo = kernels::halo;

constexpr std::int64_t kSharedBytes = 227 * 1024;
constexpr std::int64_t kLargestBox = 256;
constexpr std::int64_t kMostCount = std::numeric_limits<std::int32_t>::max() / 2;

// A stride of an extent of 1 says nothing, so it gets one that TMA takes.
std::int64_t step_of(const TensorGeometry& tensor, int dim) {
  return tensor.dims[dim] > 1 ? tensor.strides[dim] * element_size(tensor) : kOctetBytes;
}

// Without taps along w and h both are one axis, and d is the next: so that a patch holds the depths of all taps.
void join_axes_without_taps(View* view) {
  Axis(&a)[kAxes] = view->axis;
  if (a[2].taps == 1 || a[0].taps * a[1].taps > 1 || a[0].pad != 0 || a[1].pad != 0) return;
  const bool even =
      a[1].in == 1 || (a[0].in > 1 && a[1].in_step == a[0].in * a[0].in_step &&
                       a[1].out_step == a[0].out * a[0].out_step && a[1].addend_step == a[0].out * a[0].addend_step);
  if (!even || a[0].in * a[1].in > kMostCount) return;
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
  view.in_image = step_of(in, 0);
  view.out_image = step_of(out, 0);
  view.addend_image = step_of(addend, 0);
  for (int a = 0; a < kAxes; ++a) {
    const int i = problem.spatial - 1 - a;
    if (i < 0) continue;
    Axis& axis = view.axis[a];
    axis.in = in.dims[2 + i];
    axis.out = out.dims[2 + i];
    axis.taps = problem.w.dims[2 + i];
    axis.pad = forward ? problem.pad[i] : axis.taps - 1 - problem.pad[i];
    axis.in_step = step_of(in, 2 + i);
    axis.out_step = step_of(out, 2 + i);
    axis.addend_step = step_of(addend, 2 + i);
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

Operands operands_of(const View& view, const halo::Shape& shape) {
  Operands o;
  const std::int64_t octet = kOctetBytes / view.element;
  const std::int64_t all_m = view.m / octet;
  o.row_blocks = ceil_div(all_m, shape.channels / octet);
  o.m_octets = ceil_div(all_m, o.row_blocks);
  if (!view.f32 && shape.channels > 8) o.m_octets = ceil_div(o.m_octets, 2) * 2;  // a warp stages two at once
  o.k_octets = ceil_div(view.k, 2 * octet) * 2;
  o.k_blocks = ceil_div(view.k, 32);
  o.filter_bytes =
      view.taps * (view.f32 ? o.k_blocks * halo::kFilterBlockBytes : o.k_octets * o.m_octets * halo::kCoreBytes);
  cut_channels(view, widest_channels(view), &o);
  return o;
}

// --- the cost model --------------------------------------------------------------------------------------------------

// Rates are of one multiprocessor. A block's tiles follow one another; a tile takes the longest of its products, its
// loads from the L2, and half of its products and its way out, as two consumers take turns. A patch's load may take as
// long as the patches before it last. The kernel is not faster than its bytes.
constexpr double kHalfRate = 767e12 / 132;
constexpr double kL2Rate = 4e12 / 132;
constexpr double kMemoryRate = 4.2e12 / 132;
constexpr double kStoreRate = 40e9;  // bytes of a tile's sums, from registers to memory, of one consumer
constexpr double kWayOut = 6e-9;     // of a position, filter first: 64 rows, whether there are as many channels or not
constexpr double kLaunch = 4.5e-6;
constexpr double kPerTile = 0.2e-6;
constexpr double kFilterRate = 16e9;
constexpr double kFilterRateF32 = 40e9;  // by the copy engine
constexpr double kTranspositionRate = 120e9;
constexpr double kLoadLatency = 1.0e-6;

double start_of(const View& view, const Operands& o) {
  const auto bytes = static_cast<double>(o.filter_bytes);
  if (!view.f32) return bytes / kFilterRate;
  return bytes / kFilterRateF32 + (view.transposed ? bytes / kTranspositionRate : 0);
}

double seconds_of(const View& view, const TileChoice& tile, const halo::Shape& shape, double multiprocessors) {
  const Operands& o = tile.o;
  const double tiles = static_cast<double>(ceil_div(view.axis[0].out, tile.w) * ceil_div(view.axis[1].out, tile.h) *
                                           view.axis[2].out * view.images);
  const double steps = static_cast<double>((o.channel_blocks - 1) * o.block_steps + o.last_steps);
  const double products = static_cast<double>(view.taps) * steps;
  const double product = 2.0 * shape.channels * 16 * shape.positions / (kHalfRate * shape.efficiency);
  const double load = static_cast<double>(tile.stage_bytes) / kL2Rate;
  const double loads = static_cast<double>(view.axis[2].taps * o.channel_blocks) *
                       std::max(load, (load + kLoadLatency) / static_cast<double>(tile.stages - 1));
  const double stored = static_cast<double>(tile.w * tile.h * o.m_octets * kOctetBytes);
  const double way_out = shape.filter_first ? static_cast<double>(shape.positions) * kWayOut : stored / kStoreRate;
  const double one = std::max({products * product + kPerTile, loads, (products * product + way_out) / 2});
  const auto row_blocks = static_cast<double>(view.groups * o.row_blocks);
  const double sharers = std::max(1.0, std::floor(multiprocessors / row_blocks));  // of the tiles
  const double waves = std::ceil(row_blocks * sharers / multiprocessors);
  const double bytes =
      static_cast<double>(view.images * view.groups * view.element) *
      (static_cast<double>(view.axis[0].in * view.axis[1].in * view.axis[2].in) * static_cast<double>(view.k) +
       static_cast<double>(view.axis[0].out * view.axis[1].out * view.axis[2].out) * static_cast<double>(view.m));
  return kLaunch + start_of(view, o) + stored / kStoreRate +
         std::max(waves * std::ceil(tiles / sharers) * one, bytes / (kMemoryRate * multiprocessors));
}

// --- tiles -----------------------------------------------------------------------------------------------------------

std::int64_t round_up(std::int64_t value, std::int64_t unit) { return ceil_div(value, unit) * unit; }

// Of a group: what a patch or a tile had beyond its channels would be another group's.
bool fills_patches_and_tiles(const View& view, const Operands& o) {
  return o.channel_blocks * o.channel_bytes == view.k * view.element &&
         o.row_blocks * o.m_octets * kOctetBytes == view.m * view.element;
}

// Positions come first where all channels are of one block.
bool takes(const View& view, const Operands& o, const halo::Shape& shape) {
  if (view.f32) return shape.for_f32 && o.k_blocks <= halo::kMostFilterBlocks;
  if (view.groups > 1 && !fills_patches_and_tiles(view, o)) return false;
  return shape.filter_first || o.row_blocks == 1;
}

}  // namespace

// f32 needs none: its sums leave from registers.
std::int64_t staging_bytes(const View& view, const Operands& o, const halo::Shape& shape) {
  return view.f32 ? 0 : round_up(shape.positions * o.m_octets * kOctetBytes, halo::kAlignment);
}

// What lies behind the patches: staging areas, the filter, and room for what products read beyond it, 64 rows in all. A
// product reads up to as many positions beyond the last patch.
std::int64_t bytes_behind_patches(const View& view, const Operands& o, const halo::Shape& shape) {
  const std::int64_t beyond = view.f32 ? 0 : (8 - o.m_octets) * 256;
  const std::int64_t bytes = halo::kConsumers * staging_bytes(view, o, shape) + o.filter_bytes + beyond;
  return std::max(bytes, shape.positions * o.channel_bytes);
}

namespace {

// Calls visit(tile) for tiles of widths that divide the image into equal parts, a sixteenth apart at least, each as
// high as positions and room for two patches allow, until visit says that it has seen enough.
template <class Visit>
bool for_each_tile(const View& view, const Operands& o, const halo::Shape& shape, Visit visit) {
  constexpr std::int64_t kNarrowest = 8;
  const std::int64_t room = kSharedBytes - halo::kBarrierBytes - bytes_behind_patches(view, o, shape);
  const Axis& w = view.axis[0];
  const Axis& h = view.axis[1];
  const std::int64_t patch = room / 2 / halo::kAlignment * halo::kAlignment / o.channel_bytes;  // positions
  const std::int64_t widest = std::min<std::int64_t>(shape.positions, kLargestBox - w.taps + 1);
  std::int64_t next = std::min(widest, w.out);
  while (next >= std::min(kNarrowest, w.out) && next >= 1) {
    TileChoice tile;
    tile.o = o;
    tile.w = ceil_div(w.out, ceil_div(w.out, next));
    next = tile.w - std::max<std::int64_t>(1, tile.w / 16);
    tile.pitch = tile.w + w.taps - 1;
    const std::int64_t rows = std::min({(shape.positions - tile.w) / tile.pitch + 1, kLargestBox - h.taps + 1,
                                        patch / tile.pitch - h.taps + 1, h.out});
    if (rows < 1) continue;
    tile.h = ceil_div(h.out, ceil_div(h.out, rows));
    tile.stage_bytes = round_up(tile.pitch * (tile.h + h.taps - 1) * o.channel_bytes, halo::kAlignment);
    tile.stages = std::min<std::int64_t>(room / tile.stage_bytes, halo::kMostStages);
    if (!visit(tile)) return false;
  }
  return true;
}

// The same for patches of as many channels as a position may have, and of f32, whose filter leaves little room, of
// fewer.
template <class Visit>
void for_each_choice(const View& view, const halo::Shape& shape, Visit visit) {
  Operands o = operands_of(view, shape);
  if (!takes(view, o, shape)) return;
  if (!for_each_tile(view, o, shape, visit) || !view.f32) return;
  while (o.channel_bytes > 32) {
    cut_channels(view, o.channel_bytes / 2, &o);
    if (!for_each_tile(view, o, shape, visit)) return;
  }
}

}  // namespace

TileChoice best_tile(const View& view, const halo::Shape& shape, double multiprocessors) {
  TileChoice best;
  for_each_choice(view, shape, [&](TileChoice tile) {
    tile.seconds = seconds_of(view, tile, shape, multiprocessors);
    if (tile.seconds < best.seconds) best = tile;
    return true;
  });
  return best;
}

bool has_tile(const View& view, int shape) {
  bool found = false;
  for_each_choice(view, halo::kShapes[shape], [&](const TileChoice&) { return !(found = true); });
  return found;
}

}  // namespace gpudnn::conv::halo_tiles
