// The mapping of convolution problems to the Hopper halo convolution, and its cost model.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/halo_sm90_params.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

#include "ops/conv/tensor_math.hpp"

namespace gpudnn::conv {
namespace {

namespace halo = kernels::halo;
using halo::FastDivmod;

constexpr int kAxes = 3;  // w, h, d
constexpr std::int64_t kOctetBytes = 16;
constexpr std::int64_t kSharedBytes = 227 * 1024;
constexpr std::int64_t kLargestBox = 256;
constexpr std::int64_t kMostTaps = kSharedBytes / 256;  // of the least filter
constexpr std::int64_t kMostCount = std::numeric_limits<std::int32_t>::max() / 2;

struct Axis {
  std::int64_t in = 1, out = 1, taps = 1;
  std::int64_t pad = 0;  // before the first pixel; negative where the first window begins inside of the image
  std::int64_t in_step = kOctetBytes, out_step = kOctetBytes, addend_step = kOctetBytes;  // bytes
};

// The problem as a correlation: the data gradient is one of dy with the mirrored filter.
struct View {
  Axis axis[kAxes];
  std::int64_t images = 0;
  std::int64_t in_image = 0, out_image = 0, addend_image = 0;
  std::int64_t k = 0, m = 0;  // channels of a group of the input and of the output
  std::int64_t groups = 1;
  std::int64_t element = 2;  // bytes
  bool f32 = false;
  bool transposed = false;  // the data gradient
  std::int64_t taps = 1;
};

std::int64_t element_size(const TensorGeometry& tensor) { return tensor.type == GPUDNN_DATA_FLOAT ? 4 : 2; }

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

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::uint32_t u32(std::int64_t value) { return static_cast<std::uint32_t>(value); }

// What does not depend on the tile. Octets are 16 bytes of channels, steps 32.
struct Operands {
  std::int64_t row_blocks;  // of a group
  std::int64_t m_octets, k_octets, k_blocks, filter_bytes;
  std::int64_t channel_bytes;  // of a position in a patch
  std::int64_t channel_blocks, block_steps, last_steps;
};

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

struct TileChoice {
  std::int64_t w = 0, h = 0, pitch = 0, stages = 0, stage_bytes = 0;
  Operands o = {};
  double seconds = std::numeric_limits<double>::infinity();
};

// --- the cost model --------------------------------------------------------------------------------------------------

// Rates are of one multiprocessor. A block's tiles follow one another; a tile takes the longest of its products, its
// loads from the L2, and half of its way out, as two consumers take turns. A patch's load may take as long as the
// patches before it last. The kernel is not faster than its bytes.
constexpr double kHalfRate = 767e12 / 132;
constexpr double kL2Rate = 4e12 / 132;
constexpr double kMemoryRate = 4.2e12 / 132;
constexpr double kStoreRate = 40e9;  // bytes of a tile's sums, from registers to memory, of one consumer
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
  const double one = std::max({products * product + kPerTile, loads, stored / kStoreRate / 2});
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
  const char* cb = std::getenv("HALO_CB");
  if (cb && view.f32) { cut_channels(view, std::atoi(cb), &o); for_each_tile(view, o, shape, visit); return; }
  if (!for_each_tile(view, o, shape, visit) || !view.f32) return;
  while (o.channel_bytes > 32) {
    cut_channels(view, o.channel_bytes / 2, &o);
    if (!for_each_tile(view, o, shape, visit)) return;
  }
}

TileChoice best_tile(const View& view, const halo::Shape& shape, double multiprocessors) {
  TileChoice best;
  for_each_choice(view, shape, [&](TileChoice tile) {
    tile.seconds = seconds_of(view, tile, shape, multiprocessors);
    if (tile.seconds < best.seconds) best = tile;
    return true;
  });
  return best;
}

bool has_tile(const View& view, int number) {
  bool found = false;
  for_each_choice(view, halo::kShapes[number], [&](const TileChoice&) { return !(found = true); });
  return found;
}

// The filter of f32 for the copy engine: channel, tap, filter, in rows of 32 channels.
HaloFilterMap filter_map(const Problem& problem, const View& view) {
  HaloFilterMap map;
  map.extent[0] = problem.w.dims[1];
  map.extent[1] = view.taps;
  map.extent[2] = problem.w.dims[0];
  map.step[0] = map.extent[0] * view.element;
  map.step[1] = map.step[0] * map.extent[1];
  return map;
}

void set_filter(const Problem& problem, const View& view, const Operands& o, halo::Params* p) {
  const std::int64_t octet = kOctetBytes / view.element;
  p->m_octets = u32(o.m_octets);
  p->k_octets = u32(o.k_octets);
  p->k_blocks = u32(o.k_blocks);
  p->all_m_octets = u32(view.m / octet);
  p->filter_channels = u32(problem.w.dims[1] / octet);
  p->filter_count = u32(problem.w.dims[0] / problem.groups);
  p->group_parts = FastDivmod(u32(o.row_blocks));
  p->group_channels = u32(view.k);
  p->group_filter_bytes = problem.w.dims[0] / problem.groups * view.taps * problem.w.dims[1] * view.element;
  p->all_taps = u32(view.taps);
  p->transposed = problem.direction == Direction::backward_data;
  p->mirrored = p->transposed != (problem.mode == GPUDNN_CONVOLUTION);
  const std::int64_t along_channels = p->transposed ? o.m_octets : o.k_octets;
  const std::int64_t along_filters = p->transposed ? o.k_octets : o.m_octets;
  p->filter_quads = FastDivmod(u32(ceil_div(along_channels, 4)));
  p->filter_items = u32(ceil_div(along_channels, 4) * along_filters);
}

void set_patches(const View& view, const TileChoice& tile, HaloPlan* plan) {
  const Operands& o = tile.o;
  halo::Params& p = plan->params;
  p.stages = FastDivmod(u32(tile.stages));
  p.stage_bytes = u32(tile.stage_bytes);
  p.position_bytes = u32(o.channel_bytes);
  p.load_bytes = u32(tile.pitch * (tile.h + view.axis[1].taps - 1)) * p.position_bytes;
  p.pitch = FastDivmod(u32(tile.pitch));
  p.channel_blocks = u32(o.channel_blocks);
  p.block_channels = u32(o.channel_bytes / view.element);
  p.block_steps = u32(o.block_steps);
  p.last_steps = u32(o.last_steps);
  // wgmma's names of the swizzles over 128, 64 and 32 bytes are 1, 2 and 3; then the distance of 8 positions.
  const std::uint64_t swizzle = o.channel_bytes == 128 ? 1 : o.channel_bytes == 64 ? 2 : 3;
  p.patch_descriptor = swizzle << 62 | std::uint64_t{8 * p.position_bytes >> 4} << 32 | std::uint64_t{1} << 16;
  HaloMap& map = plan->input;
  map.extent[0] = view.k * view.groups;
  map.extent[4] = view.images;
  map.step[3] = view.in_image;
  for (int a = 0; a < kAxes; ++a) {
    const Axis& axis = view.axis[a];
    p.taps[a] = u32(axis.taps);
    p.corner[a] = static_cast<std::int32_t>(-axis.pad);
    map.extent[1 + a] = axis.in;
    map.step[a] = axis.in_step;
  }
  map.box[0] = static_cast<std::int32_t>(o.channel_bytes / view.element);
  map.box[1] = static_cast<std::int32_t>(tile.pitch);
  map.box[2] = static_cast<std::int32_t>(tile.h + view.axis[1].taps - 1);
}

void set_output(const Problem& problem, const View& view, const TileChoice& tile, HaloPlan* plan) {
  const Operands& o = tile.o;
  halo::Params& p = plan->params;
  p.octets = FastDivmod(u32(o.m_octets));
  // The swizzles of 128, 64 and 32 bytes.
  p.spread_shift = o.m_octets == 8 ? 0 : o.m_octets == 4 ? 1 : 2;
  p.spread_mask = o.m_octets == 8 ? 7 : o.m_octets == 4 ? 3 : o.m_octets == 2 ? 1 : 0;
  HaloMap& map = plan->output;
  map.extent[0] = view.m * view.groups;
  map.extent[4] = view.images;
  map.step[3] = view.out_image;
  for (int a = 0; a < kAxes; ++a) {
    map.extent[1 + a] = view.axis[a].out;
    map.step[a] = view.axis[a].out_step;
    p.addend_step[a] = view.axis[a].addend_step;
    p.out_step[a] = view.axis[a].out_step;
  }
  p.out_step[3] = view.out_image;
  map.box[0] = static_cast<std::int32_t>(o.m_octets * kOctetBytes / view.element);
  map.box[1] = static_cast<std::int32_t>(tile.w);
  map.box[2] = static_cast<std::int32_t>(tile.h);
  p.addend_step[3] = view.addend_image;
  p.has_bias = problem.has_bias != 0;
  p.bias_step = problem.bias_stride * view.element;
  p.clipped = problem.activation == GPUDNN_ACTIVATION_CLIPPED_RELU;
  p.relu = p.clipped || problem.activation == GPUDNN_ACTIVATION_RELU;
}

// --- legality --------------------------------------------------------------------------------------------------------

const char* layout_obstacle(const TensorGeometry& tensor) {
  if (tensor.dims[1] > 1 && tensor.strides[1] != 1) return "a tensor is not contiguous along channels";
  for (int dim = 0; dim < tensor.rank; ++dim) {
    if (dim == 1 || tensor.dims[dim] == 1) continue;
    const std::int64_t step = tensor.strides[dim] * element_size(tensor);
    if (step % kOctetBytes != 0) return "pixels do not begin at multiples of 16 bytes";
    if (step >= std::int64_t{1} << 40) return "a stride of 2^40 bytes or more";
  }
  return nullptr;
}

const char* geometry_obstacle(const Problem& problem) {
  std::int64_t taps = 1;
  std::int64_t pixels = problem.y.dims[0];
  for (int i = 0; i < problem.spatial; ++i) {
    if (problem.stride[i] != 1) return "strides over 1";
    if (problem.dilation[i] != 1 && problem.w.dims[2 + i] > 1) return "a dilated filter";
    taps *= problem.w.dims[2 + i];
    pixels *= std::max(problem.x.dims[2 + i], problem.y.dims[2 + i]);
    if (taps > kMostTaps) return "more taps than shared memory has room for";
    if (problem.pad[i] > kMostCount) return "padding of 2^30 or more";
  }
  if (taps == 1) return "a filter of one tap shares nothing between taps";
  if (pixels > kMostCount) return "about 2^30 pixels or more";
  return nullptr;
}

}  // namespace

const char* halo_obstacle(const Problem& problem) {
  if (problem.direction == Direction::backward_filter) return "it does forward and the data gradient only";
  if (const char* obstacle = tensor_math_obstacle(problem)) return obstacle;
  if (problem.groups != 1 && problem.x.type == GPUDNN_DATA_FLOAT) return "groups of f32";
  if (const char* obstacle = geometry_obstacle(problem)) return obstacle;
  for (const TensorGeometry* tensor : {&problem.x, &problem.y, problem.has_z != 0 ? &problem.z : &problem.y}) {
    if (const char* obstacle = layout_obstacle(*tensor)) return obstacle;
  }
  if (!is_packed_nhwc(problem.w)) return "the filter is not packed in the order k, taps, channels";
  const std::int64_t octet = kOctetBytes / element_size(problem.x);
  if (problem.x.dims[1] / problem.groups % octet != 0 || problem.y.dims[1] / problem.groups % octet != 0) {
    return "channels or filters do not fill whole 16-byte vectors";
  }
  switch (problem.activation) {
    case -1:
    case GPUDNN_ACTIVATION_IDENTITY:
    case GPUDNN_ACTIVATION_RELU:
    case GPUDNN_ACTIVATION_CLIPPED_RELU:
      break;
    default:
      return "of the activations, it fuses ReLU, clipped ReLU and identity only";
  }
  const View view = view_of(problem);
  for (int i = halo::kShapeCount - 1; i >= 0; --i) {
    if (has_tile(view, i)) return nullptr;
  }
  return problem.groups > 1 ? "a group fills no whole patches of 16, 32 or 64 channels, or its filter is too large"
                            : "the filter leaves shared memory no room for two patches of the image";
}

std::optional<HaloPlan> halo_plan(const Problem& problem, const Config& config, int multiprocessors) {
  const View view = view_of(problem);
  const halo::Shape& shape = halo::kShapes[config.tile];
  const TileChoice tile = best_tile(view, shape, multiprocessors);
  if (tile.stages < 2) return std::nullopt;
  const Operands& o = tile.o;
  HaloPlan plan;
  plan.shape = config.tile;
  plan.type = view.f32                             ? halo::ElementType::f32
              : problem.x.type == GPUDNN_DATA_HALF ? halo::ElementType::f16
                                                   : halo::ElementType::bf16;
  if (view.f32) plan.filter = filter_map(problem, view);
  plan.seconds = tile.seconds;
  halo::Params& p = plan.params;
  const std::int64_t tiles_w = ceil_div(view.axis[0].out, tile.w);
  const std::int64_t tiles_h = ceil_div(view.axis[1].out, tile.h);
  p.tiles_w = FastDivmod(u32(tiles_w));
  p.tiles_h = FastDivmod(u32(tiles_h));
  p.depths = FastDivmod(u32(view.axis[2].out));
  p.tiles = u32(tiles_w * tiles_h * view.axis[2].out * view.images);
  p.row_blocks = FastDivmod(u32(view.groups * o.row_blocks));
  p.tile_w = static_cast<std::int32_t>(tile.w);
  p.tile_h = static_cast<std::int32_t>(tile.h);
  p.tile_w_div = FastDivmod(u32(tile.w));
  p.extent[0] = static_cast<std::int32_t>(view.axis[0].out);
  p.extent[1] = static_cast<std::int32_t>(view.axis[1].out);
  set_patches(view, tile, &plan);
  set_filter(problem, view, o, &p);
  set_output(problem, view, tile, &plan);
  p.staging_offset = halo::kBarrierBytes + u32(tile.stages) * p.stage_bytes;
  p.staging_bytes = u32(staging_bytes(view, o, shape));
  p.filter_offset = p.staging_offset + halo::kConsumers * p.staging_bytes;
  p.shared_bytes = p.staging_offset + u32(bytes_behind_patches(view, o, shape));
  return plan;
}

void halo_candidates(const Problem& problem, int multiprocessors, std::vector<Candidate>* candidates) {
  for (int i = 0; i < halo::kShapeCount; ++i) {
    const std::optional<HaloPlan> plan = halo_plan(problem, {i, 1}, multiprocessors);
    if (plan) candidates->push_back({{i, 1}, plan->seconds, 0});
  }
}

}  // namespace gpudnn::conv
