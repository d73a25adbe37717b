// The launchers of flash_sm90: attention in 16-bit types on Hopper.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/flash_sm90.hpp"

#include <algorithm>
#include <cmath>

#include "core/tensor_map_cuda.hpp"
#include "kernels/attention/flash_fused_backward_sm90.hpp"
#include "ops/attention/cuda_engines.hpp"
#include "ops/attention/flash_sm90.hpp"
#include "ops/attention/params.hpp"
#include "ops/element_type.hpp"

namespace gpudnn::attention {

kernels::FlashMask mask_of(const Problem& problem, const Args& args) {
  const auto clamped = [](std::int64_t bound) {
    return static_cast<std::int32_t>(std::clamp(bound, -kMaxLength, kMaxLength - 1));
  };
  kernels::FlashMask mask;
  mask.lengths_q = problem.has_length_q != 0 ? args.length_q : nullptr;
  mask.lengths_kv = problem.has_length_kv != 0 ? args.length_kv : nullptr;
  mask.length_q = static_cast<std::int32_t>(problem.length_q());
  mask.length_kv = static_cast<std::int32_t>(problem.length_kv);
  mask.has_left = problem.has_left != 0;
  mask.has_right = problem.has_right != 0;
  mask.bottom_right = problem.bottom_right != 0;
  mask.left = clamped(problem.left);
  mask.right = clamped(problem.right);
  return mask;
}

std::int32_t heads_of_section(const Problem& problem, const Device& device, std::int64_t heads, std::int64_t length) {
  if (problem.has_right == 0 && problem.has_left == 0) return 1;
  const std::int64_t group = std::max(heads / std::max(problem.heads_k(), problem.heads_v()), std::int64_t{1});
  const std::int64_t size = data_type_bits(problem.type()) / 8;
  const std::int64_t bytes = std::max<std::int64_t>(length * (problem.dim_qk() + problem.dim_v()) * size, 1);
  const auto budget = static_cast<std::int64_t>(device.l2_bytes) * 5 / 8;
  const std::int64_t most = std::max(budget / bytes, std::int64_t{1}) * group;
  // Sections of one size, or the longest tiles of a smaller last one would end alone.
  const std::int64_t all = problem.batch() * heads;
  const std::int64_t sections = (all + most - 1) / most;
  const std::int64_t in_each = (all + sections - 1) / sections;
  return static_cast<std::int32_t>(std::min((in_each + group - 1) / group * group, all));
}

bool encode(const Tensor& tensor, const void* data, std::int64_t rows, tile::TensorMap* map, bool is_streamed) {
  // The driver takes 0.1 us for a map, a fifth of what a call costs beside its launch. What a thread had made stays,
  // but for the address.
  struct Known {
    TensorGeometry geometry;
    std::int64_t rows = 0;
    bool is_streamed = false;
    tile::TensorMap map;
  };
  thread_local Known known[8];
  thread_local unsigned oldest = 0;
  const TensorGeometry& g = tensor.geometry;
  for (const Known& its : known) {
    if (its.rows != rows || its.is_streamed != is_streamed || !(its.geometry == g)) continue;
    *map = its.map;
    return cuda::replace_address(map, data);
  }
  TmaBoxes boxes;
  const int order[4] = {3, 2, 1, 0};
  for (int i = 0; i < 4; ++i) {
    boxes.extent[i] = g.dims[order[i]];
    if (i > 0) boxes.step[i - 1] = g.dims[order[i]] == 1 ? 16 : 2 * g.strides[order[i]];
  }
  boxes.box[0] = 64;
  boxes.box[1] = static_cast<std::int32_t>(rows);
  const cuda::MapFormat format{cuda::map_type(element_type(g.type)), CU_TENSOR_MAP_SWIZZLE_128B,
                               is_streamed ? CU_TENSOR_MAP_L2_PROMOTION_L2_128B : CU_TENSOR_MAP_L2_PROMOTION_L2_256B};
  if (!cuda::encode_boxes(boxes, format, map)) return false;
  known[oldest++ % 8] = {g, rows, is_streamed, *map};
  return cuda::replace_address(map, data);
}

namespace {

// What TMA asks of a tensor: elements of the head dimension side by side, all else at multiples of 16 bytes.
const char* unsupported_layout(const Tensor& tensor, bool takes_ragged) {
  const TensorGeometry& g = tensor.geometry;
  if (tensor.is_ragged() && !takes_ragged) return "it takes no ragged offsets";
  if (g.dims[3] % 8 != 0 || g.dims[3] > 256) return "it takes head dimensions that are multiples of 8 up to 256";
  if (g.strides[3] != 1) return "it takes tensors whose last stride is 1";
  for (int i = 0; i < 3; ++i) {
    const bool has_rows = i == 2 && tensor.is_ragged();  // the map has those of all sequences
    if (g.dims[i] == 1 && !has_rows) continue;
    if (g.strides[i] % 8 != 0 || g.strides[i] == 0 || g.strides[i] >= std::int64_t{1} << 38) {
      return "it takes strides that are multiples of 8 elements, not 0";
    }
  }
  return nullptr;
}

// What a step of the product of scores adds: ALiBi, or a bias that all rows share.
bool adds(const Problem& problem) { return problem.has_alibi != 0 || problem.bias.rank != 0; }
const char* unsupported_to_add(const Problem& problem) {
  if (!adds(problem)) return nullptr;
  if (problem.dim_qk() > 128 || problem.dim_v() > 128) return "it adds to scores with head dimensions up to 128";
  // Below, what is added over the scale leaves the range of f16.
  if (!(problem.scale > 0x1p-14 && problem.scale < 0x1p14)) return "it adds to scores of scales from 2^-14 to 2^14";
  const TensorGeometry& bias = problem.bias;
  if (bias.rank == 0) return nullptr;
  if (bias.dims[2] != 1 || bias.dims[3] == 1) return "it takes bias of keys alone, the same for all rows";
  if (bias.type != problem.type()) return "it takes bias in the tensors' type";
  // Beyond, the parts of one over the scale leave the range of f16.
  return bias.type != GPUDNN_DATA_HALF || problem.scale <= 4 ? nullptr : "it takes bias in f16 at scales up to 4";
}

const char* unsupported_options(const Problem& problem, const FlashTakes& takes) {
  if (problem.has_soft_cap != 0) return "it takes no soft cap";
  if (problem.has_dropout != 0 && !takes.dropout) return "it takes no dropout";
  if (problem.dropout_mask.rank != 0) return "it writes no dropout mask";
  if (problem.block_mask.rank != 0) return "it takes no block mask";
  if (problem.is_paged()) return "it takes no paged keys";
  if (problem.length_q() >= kMaxLength || problem.length_kv >= kMaxLength) return "it takes lengths below 2^30";
  for (const Tensor* rows : {&problem.stats, &problem.max, &problem.sum_exp}) {
    if (rows->is_ragged() && !takes.ragged) return "it takes no ragged offsets";
  }
  return nullptr;
}

Support supports_common(const Problem& problem, const Device& device, const FlashTakes& takes = {}) {
  if (device.compute_capability() != 90) return Support::no("it needs compute capability 9.0");
  if (problem.type() != GPUDNN_DATA_HALF && problem.type() != GPUDNN_DATA_BFLOAT16) {
    return Support::no("it takes f16 and bf16");
  }
  if (const char* const reason = unsupported_options(problem, takes)) return Support::no(reason);
  for (const Tensor* tensor : {&problem.q, &problem.k, &problem.v, &problem.o}) {
    if (const char* const reason = unsupported_layout(*tensor, takes.ragged)) return Support::no(reason);
  }
  return cuda::makes_tensor_maps(device) ? Support::yes() : Support::no("the driver does not make tensor maps");
}

// A scale of 0 becomes one that is next to it, as -inf times 0 is a NaN.
float magnitude_of(double scale) { return std::max(static_cast<float>(std::fabs(scale)), 1e-30F); }

// A positive number as the sum of three positive ones of `bits` bits each. None is below the type's least number, where
// it would become 0: 0 times a bias of -inf is a NaN.
void split(double value, int bits, double least, float (&parts)[3]) {
  for (int i = 0; i < 3; ++i) {
    double part = least;
    if (value > least) {
      const double unit = std::exp2(std::floor(std::log2(value)) - (bits - 1));
      const double units = value / unit;
      part = std::max((i < 2 ? std::ceil(units) - 1 : std::round(units)) * unit, least);
    }
    parts[i] = static_cast<float>(part);
    value -= part;
  }
}

bool holds(const kernels::FlashForwardShape& shape, const Problem& problem) {
  return shape.adds == adds(problem) && problem.dim_qk() <= shape.dim_qk && problem.dim_v() <= shape.dim_v;
}

std::int64_t whole(std::int64_t length, std::int64_t of) { return (length + of - 1) / of * of; }
bool has_bounds(const Problem& problem) { return problem.has_left != 0 || problem.has_right != 0; }

// Of the shapes for short sequences and up to 64 columns of o, the one whose tiles of keys compute less.
const kernels::FlashForwardShape& narrow_shape(const Problem& problem) {
  const kernels::FlashForwardShape& first = kernels::kFlashForwardShapes[0];
  const kernels::FlashForwardShape& other = kernels::kFlashForwardShapes[1];
  const std::int64_t keys = problem.length_kv;
  return !has_bounds(problem) && whole(keys, other.columns) < whole(keys, first.columns) ? other : first;
}

// The first shape that holds the head dimensions, those for short sequences only where they are.
int forward_shape(const Problem& problem) {
  const bool is_short = is_short_forward_sm90(problem);
  const kernels::FlashForwardShape& narrow = narrow_shape(problem);
  int shape = 0;
  while (shape < kernels::kFlashForwardShapeCount - 1) {
    const kernels::FlashForwardShape& its = kernels::kFlashForwardShapes[shape];
    const bool is_narrow = its.blocks > 1 && its.dim_v <= 64;
    if (holds(its, problem) && (its.blocks == 1 || is_short) && (!is_narrow || &its == &narrow)) break;
    ++shape;
  }
  return shape;
}

// Where the last round of tiles leaves most blocks without one, blocks share its tiles, a warpgroup's rows each: alone,
// a warpgroup takes little more than half of a tile's time.
void share_last_round(const kernels::FlashForwardShape& shape, std::int32_t multiprocessors,
                      kernels::FlashForwardParams* params) {
  const std::int32_t parts = shape.rows / 64;
  const std::int32_t rest = params->tiles % multiprocessors;
  if (shape.blocks != 1 || shape.dim_qk > 128 || shape.adds || params->mask.lengths_kv != nullptr) return;
  if (rest * parts > multiprocessors) return;
  params->whole_tiles = params->tiles - rest;
  params->tiles = params->whole_tiles + rest * parts;
}

}  // namespace

kernels::FlashRowValues row_values(const Tensor& tensor, void* data) {
  kernels::FlashRowValues values;
  if (!tensor.exists()) return values;
  values.data = static_cast<float*>(data);
  for (int i = 0; i < 3; ++i) values.strides[i] = tensor.geometry.strides[i];
  return values;
}

std::int64_t parts_of_group(const Problem& problem, std::int64_t tiles, std::int64_t blocks) {
  const std::int64_t group = problem.heads_q() / problem.heads_k();
  if (tiles >= 2 * blocks || group * problem.length_q() < kWorthSharing) return 1;
  std::int64_t parts = 1;
  while (parts < group && (group % parts != 0 || tiles * parts < 3 * blocks)) ++parts;
  return parts;
}

std::int32_t walk_period(const kernels::FlashMask& mask, std::int64_t keys, std::int64_t stream, std::int64_t read,
                         const Device& device) {
  const bool is_held = read <= static_cast<std::int64_t>(device.l2_bytes);
  std::int64_t rows = mask.length_q;
  if (mask.has_left && mask.has_right && !is_held) rows = std::min(rows, keys - 1 + mask.left + mask.right);
  return static_cast<std::int32_t>(std::max<std::int64_t>((rows + stream - 1) / stream, 1));
}

kernels::FlashDeltaParams delta_params(const Problem& problem, const Args& args, std::int64_t pitch, void* workspace) {
  const kernels::AttentionParams tensors = attention_params(problem, args);
  kernels::FlashDeltaParams params;
  params.o = tensors.o;
  params.d_o = tensors.d_o;
  params.stats = tensors.stats;
  params.mask = mask_of(problem, args);
  params.pitch = pitch;
  params.heads = static_cast<std::int32_t>(problem.heads_q());
  params.batch_heads = static_cast<std::int32_t>(problem.batch() * problem.heads_q());
  params.dim_v = static_cast<std::int32_t>(problem.dim_v());
  params.lse = static_cast<float*>(workspace);
  params.delta = params.lse + params.pitch * params.batch_heads;
  return params;
}

bool is_short_forward_sm90(const Problem& problem) {
  const std::int64_t dim = std::max(problem.dim_qk(), problem.dim_v());
  const std::int64_t longer = std::max(problem.length_q(), problem.length_kv);
  if (dim > 128 || adds(problem)) return false;
  // With up to 128 columns of o at one tile of rows.
  if (dim > 64) return longer <= 64;
  // Up to 64 columns of o, where the two shapes' time crosses on an H200: under a causal mask or a window late, as wide
  // tiles compute more that is hidden; else by what tiles compute, of which short ones take 1.24 times as long.
  constexpr double kOfShort = 1.24;
  const kernels::FlashForwardShape& narrow = narrow_shape(problem);
  const kernels::FlashForwardShape& wide = kernels::kFlashForwardShapes[kernels::kFlashForwardWide];
  if (has_bounds(problem)) {
    if (longer <= 1024 || problem.has_left == 0 || problem.has_right == 0) return longer <= 1024;
    // Columns that a row's tile computes, whose window begins anywhere in a tile.
    const double window = static_cast<double>(problem.left) + static_cast<double>(problem.right);
    const auto computed = [&](const kernels::FlashForwardShape& its) { return window + its.rows + its.columns; };
    return kOfShort * computed(narrow) < computed(wide);
  }
  if (longer <= 256) return true;
  const auto computed = [&](const kernels::FlashForwardShape& its) {
    return static_cast<double>(whole(problem.length_q(), its.rows) * whole(problem.length_kv, its.columns));
  };
  return (longer <= 512 || problem.length_kv <= 256) && kOfShort * computed(narrow) < computed(wide);
}

Support supports_flash_forward_sm90(const Problem& problem, const Device& device) {
  if (problem.backward != 0) return Support::no("it is a forward engine");
  if (const char* const reason = unsupported_to_add(problem)) return Support::no(reason);
  return supports_common(problem, device);
}

std::size_t flash_forward_sm90_workspace(const Problem&, const Device&) { return sizeof(std::int32_t); }

Status flash_forward_sm90(const LaunchSite& site, const Problem& problem, const Args& args) {
  const int shape = forward_shape(problem);
  const kernels::FlashForwardShape& its = kernels::kFlashForwardShapes[shape];
  kernels::FlashForwardParams params;
  const bool encoded = cuda::with_context(site.device.ordinal, [&] {
    return encode(problem.q, args.q.data, its.rows, &params.q) &&
           encode(problem.k, args.k.data, its.columns, &params.k) &&
           encode(problem.v, args.v.data, its.columns, &params.v) && encode(problem.o, args.o.data, 64, &params.o);
  });
  GPUDNN_REQUIRE(encoded, GPUDNN_STATUS_INTERNAL_ERROR,
                 "the driver refused a tensor map for this problem; please report it with the problem's line");
  params.mask = mask_of(problem, args);
  params.stats = row_values(problem.stats, args.stats.data);
  params.max = row_values(problem.max, args.max.data);
  params.sum_exp = row_values(problem.sum_exp, args.sum_exp.data);
  params.sink = problem.has_sink != 0 ? args.sink : nullptr;
  if (problem.has_alibi != 0) params.alibi_slopes = args.alibi_slopes;
  params.slope_scale = static_cast<float>(1 / problem.scale);
  if (problem.bias.rank != 0) {
    params.bias = args.bias;
    for (int i = 0; i < 3; ++i) {
      const int of = i < 2 ? i : 3;
      params.bias_strides[i] = problem.bias.dims[of] == 1 ? 0 : problem.bias.strides[of];
    }
    const bool is_half = problem.type() == GPUDNN_DATA_HALF;
    split(1 / problem.scale, is_half ? 11 : 8, is_half ? 0x1p-24 : 0x1p-126, params.bias_parts);
  }
  params.o_data = args.o.data;
  for (int i = 0; i < 4; ++i) params.o_strides[i] = problem.o.geometry.strides[i];
  params.group_k = tile::FastDivmod(static_cast<std::uint32_t>(problem.heads_q() / problem.heads_k()));
  params.group_v = tile::FastDivmod(static_cast<std::uint32_t>(problem.heads_q() / problem.heads_v()));
  params.dim_v = static_cast<std::int32_t>(problem.dim_v());
  params.row_tiles = static_cast<std::int32_t>((problem.length_q() + its.rows - 1) / its.rows);
  const std::int64_t batch_heads = problem.batch() * problem.heads_q();
  params.tiles = params.whole_tiles = params.row_tiles * static_cast<std::int32_t>(batch_heads);
  const std::int32_t together = heads_of_section(problem, site.device, problem.heads_q(), problem.length_kv);
  params.sections = {together, params.row_tiles, batch_heads, problem.heads_q()};
  // Tiles of different lengths go to whoever is free; others are the same for all.
  const bool differs = has_bounds(problem) || problem.has_length_kv != 0;
  if (differs && params.tiles > its.blocks * site.device.multiprocessors) {
    params.next_tile = static_cast<std::int32_t*>(site.workspace);
  } else {
    share_last_round(its, site.device.multiprocessors, &params);
  }
  params.scale = magnitude_of(problem.scale);
  params.scale_log2 = static_cast<float>(static_cast<double>(params.scale) * kLog2E);
  // The maximum itself is an output where it is asked for.
  params.slack = problem.max.exists() || problem.sum_exp.exists() ? 0.0F : 8.0F;
  params.negates = problem.scale < 0;
  kernels::launch_flash_forward_sm90(params, element_type(problem.type()), shape, site.device.multiprocessors,
                                     site.stream);
  return cuda::launch_status("flash_forward_sm90");
}

Support supports_backward_sm90(const Problem& problem, const Device& device, const FlashTakes& takes) {
  if (problem.backward == 0) return Support::no("it is a backward engine");
  if (problem.has_alibi != 0 && !takes.alibi) return Support::no("it takes no ALiBi");
  if (const Support common = supports_common(problem, device, takes); !common) return common;
  if (problem.dim_qk() > takes.widest || problem.dim_v() > takes.widest) {
    return Support::no(takes.widest == 128   ? "it takes head dimensions up to 128"
                       : takes.widest == 192 ? "it takes head dimensions up to 192"
                                             : "it takes head dimensions up to 256");
  }
  if (problem.heads_k() != problem.heads_v()) return Support::no("it takes as many heads of k as of v");
  if (const char* const reason = unsupported_layout(problem.d_o, takes.ragged)) return Support::no(reason);
  for (const Tensor* gradient : {&problem.dq, &problem.dk, &problem.dv}) {
    if (!gradient->exists()) continue;
    if (const char* const reason = unsupported_layout(*gradient, takes.ragged)) return Support::no(reason);
  }
  return Support::yes();
}

}  // namespace gpudnn::attention
