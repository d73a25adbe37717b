// The mapping of convolution problems to the Hopper direct convolution.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/direct/direct_sm90_params.hpp"

#include <algorithm>
#include <limits>

#include "core/integer.hpp"
#include "ops/conv/direct/direct_sm90_tiles.hpp"
#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/tensor_math.hpp"
#include "ops/conv/tile_names.hpp"
#include "ops/conv/tma_layout.hpp"
#include "ops/element_type.hpp"

namespace gpudnn::conv {
namespace {

namespace direct = kernels::direct;
using direct::FastDivmod;
using namespace direct_tiles;  // NOLINT: this file speaks of nothing else

constexpr std::int64_t kMaxTaps = 227 * 1024 / 256;  // of the least filter
constexpr std::int64_t kMaxCount = std::numeric_limits<std::int32_t>::max() / 2;

constexpr auto kNames = tile_names(direct::kShapes, [](const direct::Shape& shape) {
  return TileName().add("positions", shape.positions).add("_k", shape.channels);
});

// The filter of f32 for TMA: channel, tap, filter, in boxes of 32 channels of 32 filters.
TmaBoxes filter_map(const Problem& problem, const View& view) {
  TmaBoxes map;
  map.rank = 3;
  map.box[0] = map.box[2] = 32;
  map.extent[0] = problem.w.dims[1];
  map.extent[1] = view.taps;
  map.extent[2] = problem.w.dims[0];
  map.step[0] = map.extent[0] * view.element;
  map.step[1] = map.step[0] * map.extent[1];
  return map;
}

void set_filter(const Problem& problem, const View& view, const Operands& o, direct::Params* p) {
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
  p->transposed = problem.direction == Direction::dgrad;
  p->mirrored = p->transposed != (problem.mode == GPUDNN_CONVOLUTION);
  const std::int64_t along_channels = p->transposed ? o.m_octets : o.k_octets;
  const std::int64_t along_filters = p->transposed ? o.k_octets : o.m_octets;
  p->filter_quads = FastDivmod(u32(ceil_div(along_channels, 4)));
  p->filter_items = u32(ceil_div(along_channels, 4) * along_filters);
}

void set_patches(const View& view, const TileChoice& tile, DirectPlan* plan) {
  const Operands& o = tile.o;
  direct::Params& p = plan->params;
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
  TmaBoxes& map = plan->input;
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

void set_output(const Problem& problem, const View& view, const TileChoice& tile, DirectPlan* plan) {
  const Operands& o = tile.o;
  direct::Params& p = plan->params;
  p.octets = FastDivmod(u32(o.m_octets));
  // The swizzles of 128, 64 and 32 bytes.
  p.spread_shift = o.m_octets == 8 ? 0 : o.m_octets == 4 ? 1 : 2;
  p.spread_mask = o.m_octets == 8 ? 7 : o.m_octets == 4 ? 3 : o.m_octets == 2 ? 1 : 0;
  TmaBoxes& map = plan->output;
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
  plan->adds_z = problem.has_z != 0 && !view.f32;
  plan->addend = map;
  for (int a = 0; a < 4; ++a) plan->addend.step[a] = p.addend_step[a];
  set_activation(problem, &p);
}

// --- legality --------------------------------------------------------------------------------------------------------

const char* geometry_unsupported_reason(const Problem& problem) {
  std::int64_t taps = 1;
  std::int64_t pixels = problem.y.dims[0];
  for (int i = 0; i < problem.spatial; ++i) {
    if (problem.stride[i] != 1) return "strides over 1";
    if (problem.dilation[i] != 1 && problem.w.dims[2 + i] > 1) return "a dilated filter";
    taps *= problem.w.dims[2 + i];
    pixels *= std::max(problem.x.dims[2 + i], problem.y.dims[2 + i]);
    if (taps > kMaxTaps) return "more taps than shared memory has room for";
    if (problem.pad[i] > kMaxCount) return "padding of 2^30 or more";
  }
  if (taps == 1) return "a filter of one tap shares nothing between taps";
  if (pixels > kMaxCount) return "about 2^30 pixels or more";
  return nullptr;
}

}  // namespace

const char* direct_unsupported_reason(const Problem& problem) {
  if (problem.direction == Direction::wgrad) return "it does forward and the data gradient only";
  if (const char* reason = tensor_math_unsupported_reason(problem)) return reason;
  if (problem.groups != 1 && problem.x.type == GPUDNN_DATA_FLOAT) return "groups of f32";
  if (const char* reason = geometry_unsupported_reason(problem)) return reason;
  for (const TensorGeometry* tensor : {&problem.x, &problem.y, problem.has_z != 0 ? &problem.z : &problem.y}) {
    if (const char* reason = copy_unsupported_reason(*tensor, element_size(*tensor))) return reason;
  }
  if (!is_packed_nhwc(problem.w)) return "the filter is not packed in the order k, taps, channels";
  const std::int64_t octet = kOctetBytes / element_size(problem.x);
  if (problem.x.dims[1] / problem.groups % octet != 0 || problem.y.dims[1] / problem.groups % octet != 0) {
    return "channels or filters do not fill whole 16-byte vectors";
  }
  if (const char* reason = channel_scale_unsupported_reason(problem)) return reason;
  const View view = view_of(problem);
  for (int i = direct::kShapeCount - 1; i >= 0; --i) {
    if (has_tile(view, i)) return nullptr;
  }
  return problem.groups > 1 ? "a group fills no whole patches of 16, 32 or 64 channels, or its filter is too large"
                            : "the filter leaves shared memory no room for two patches of the image";
}

std::optional<DirectPlan> direct_plan(const Problem& problem, const Config& config, const Device& device) {
  const View view = view_of(problem);
  const direct::Shape& shape = direct::kShapes[config.tile];
  const TileChoice tile = best_tile(view, shape, device.rates);
  if (tile.stages < 2) return std::nullopt;
  const Operands& o = tile.o;
  DirectPlan plan;
  plan.shape = config.tile;
  plan.type = element_type(problem.x.type);
  if (view.f32) plan.filter = filter_map(problem, view);
  direct::Params& p = plan.params;
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
  p.staging_offset = direct::kBarrierBytes + u32(tile.stages) * p.stage_bytes;
  p.staging_bytes = u32(staging_bytes(view, o, shape));
  p.filter_offset = p.staging_offset + direct::kConsumers * p.staging_bytes;
  p.shared_bytes = p.staging_offset + u32(bytes_behind_patches(view, o, shape));
  return plan;
}

void direct_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  constexpr double kMeasured = 1.15;  // over modelled time
  const View view = view_of(problem);
  for (int i = 0; i < direct::kShapeCount; ++i) {
    const TileChoice tile = best_tile(view, direct::kShapes[i], device.rates);
    if (tile.stages < 2) continue;
    candidates->push_back(
        {{.tile = i, .tile_name = kNames[static_cast<std::size_t>(i)].text}, kMeasured * tile.seconds, 0});
  }
}

}  // namespace gpudnn::conv
