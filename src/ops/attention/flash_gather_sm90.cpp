// The launchers of flash_gather_sm90: attention forward with options, and of few rows, in 16-bit types on Hopper.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/flash_gather_sm90.hpp"

#include <algorithm>
#include <cmath>

#include "core/tensor_map_cuda.hpp"
#include "ops/attention/cuda_engines.hpp"
#include "ops/attention/flash_sm90.hpp"
#include "ops/attention/params.hpp"
#include "ops/element_type.hpp"

namespace gpudnn::attention {
namespace {

// How the kernel cuts a problem.
struct GatherShape {
  int dim = 0;
  int consumers = 2;
  std::int64_t packed = 1;  // heads of q in a tile
  std::int64_t heads = 0;   // of the grid
  std::int64_t rows = 0;    // of one of its heads
  std::int64_t row_tiles = 0;
  std::int64_t splits = 1;
};

// Columns that a tile of rows sees at most.
std::int64_t visible_columns_at_most(const Problem& problem, std::int64_t q_rows) {
  std::int64_t columns = problem.length_kv;
  if (problem.has_left != 0 && problem.has_right != 0) {
    const double window = static_cast<double>(problem.left) + static_cast<double>(problem.right);
    columns = static_cast<std::int64_t>(std::clamp(window + static_cast<double>(q_rows), 1.0, double(columns)));
  }
  return columns;
}

// The number of blocks that share a tile's columns, by a model of the time in microseconds.
std::int64_t best_splits(const Problem& problem, const Device& device, const GatherShape& shape) {
  constexpr double kBlock = 3;           // of a block's first loads and last stores
  constexpr double kCombine = 2.5;       // of the second kernel
  constexpr double kBytes = 4.3e6;       // a microsecond, of the device
  constexpr double kOperations = 4.2e6;  // of one multiprocessor
  const int columns = kernels::flash_gather_columns(shape.dim);
  const std::int64_t tile_rows = 64 * shape.consumers;
  const std::int64_t visible = visible_columns_at_most(problem, tile_rows / shape.packed + 1);
  const std::int64_t steps = (visible + columns - 1) / columns;
  const std::int64_t tiles = shape.row_tiles * shape.heads * problem.batch();
  const auto dims = static_cast<double>(problem.dim_qk() + problem.dim_v());
  const double step = std::max(columns * dims * 2 * device.multiprocessors / kBytes,
                               static_cast<double>(tile_rows) * columns * dims * 2 / kOperations);
  const double row_bytes = static_cast<double>(shape.rows * shape.heads * problem.batch() * problem.dim_v()) * 8;
  std::int64_t best = 1;
  double least = 0;
  for (std::int64_t splits = 1; splits <= std::min<std::int64_t>(steps, kernels::kFlashGatherMaxSplits); ++splits) {
    const std::int64_t waves = (tiles * splits + device.multiprocessors - 1) / device.multiprocessors;
    const auto steps_each = static_cast<double>((steps + splits - 1) / splits);
    double time = static_cast<double>(waves) * (kBlock + steps_each * step);
    if (splits > 1) time += kCombine + static_cast<double>(splits) * row_bytes / kBytes;
    if (splits == 1 || time < least) least = time, best = splits;
  }
  return best;
}

GatherShape gather_shape(const Problem& problem, const Device& device) {
  GatherShape shape;
  const std::int64_t dim = std::max(problem.dim_qk(), problem.dim_v());
  shape.dim = dim <= 64 ? 64 : dim <= 128 ? 128 : 256;
  const std::int64_t group = problem.heads_q() / problem.heads_k();
  const auto tiles_of = [](std::int64_t rows) { return (rows + 127) / 128; };
  // The rows of a packed tile are not 16 x 16 squares of one head, by which dropout draws.
  const bool packs = problem.heads_k() == problem.heads_v() && group > 1 && problem.has_dropout == 0 &&
                     tiles_of(problem.length_q() * group) * 10 < tiles_of(problem.length_q()) * group * 9;
  shape.packed = packs ? group : 1;
  shape.heads = problem.heads_q() / shape.packed;
  shape.rows = problem.length_q() * shape.packed;
  shape.consumers = shape.rows <= 64 ? 1 : 2;
  shape.row_tiles = (shape.rows + 64 * shape.consumers - 1) / (64 * shape.consumers);
  shape.splits = best_splits(problem, device, shape);
  return shape;
}

// Whether 8 columns of bias are one aligned load.
bool is_in_eights(const TensorGeometry& bias, const void* data) {
  const bool is_short = bias.type == GPUDNN_DATA_HALF || bias.type == GPUDNN_DATA_BFLOAT16;
  if (bias.rank == 0 || !is_short || bias.dims[3] % 8 != 0 || bias.strides[3] != 1) return false;
  for (int i = 0; i < 3; ++i) {
    if (bias.dims[i] != 1 && bias.strides[i] % 8 != 0) return false;
  }
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
}

void add_scales(const Problem& problem, kernels::FlashGatherParams* params) {
  const double scale = problem.scale;
  params->modifies = problem.has_soft_cap != 0 || problem.bias.rank != 0 || problem.has_alibi != 0 || !(scale > 0);
  params->scale_log2 = static_cast<float>(scale * kLog2E);
  params->softmax_scale_log2 = params->modifies ? 1.0F : params->scale_log2;
  params->max_scale = static_cast<float>(params->modifies ? 1 / kLog2E : scale);
  if (problem.has_soft_cap == 0) return;
  params->cap_log2 = static_cast<float>(problem.soft_cap * kLog2E);
  params->scale_by_cap = static_cast<float>(scale / problem.soft_cap);
}

// Rows of the boxes by which TMA takes tiles of `columns` rows, and their map; 0 where it cannot.
std::int32_t encode_boxes_of(const Tensor& tensor, const void* data, bool is_paged, std::int64_t columns,
                             tile::TensorMap* map) {
  Tensor rows = tensor;
  TensorGeometry& g = rows.geometry;
  for (int i = 0; i < 3; ++i) {
    if (g.dims[i] != 1 && (g.strides[i] <= 0 || g.strides[i] >= std::int64_t{1} << 38)) return 0;
  }
  std::int64_t box = columns;
  if (is_paged) {
    box = std::min(g.dims[2], columns);
    if (box % 8 != 0 || columns % box != 0 || g.dims[2] % box != 0) return 0;
  } else if (g.dims[2] < columns) {
    return 0;
  }
  if (rows.is_ragged()) {
    // All sequences in one; only whole tiles within them are taken.
    g.dims[0] = 1;
    g.dims[2] = kMaxLength + g.dims[2];
  }
  return cuda::makes_tensor_maps() && encode(rows, data, box, map) ? static_cast<std::int32_t>(box) : 0;
}

}  // namespace

const char* unsupported_gather_layout(const Tensor& tensor) {
  const TensorGeometry& g = tensor.geometry;
  if (g.dims[3] % 8 != 0 || g.dims[3] > 256) return "it takes head dimensions that are multiples of 8 up to 256";
  if (g.strides[3] != 1) return "it takes tensors whose last stride is 1";
  for (int i = 0; i < 3; ++i) {
    if (g.dims[i] != 1 && g.strides[i] % 8 != 0) return "it takes strides that are multiples of 8 elements";
  }
  return nullptr;
}

const char* unsupported_gather(const Problem& problem, const Device& device) {
  if (device.compute_capability() != 90) return "it needs compute capability 9.0";
  if (problem.type() != GPUDNN_DATA_HALF && problem.type() != GPUDNN_DATA_BFLOAT16) return "it takes f16 and bf16";
  if (problem.block_mask.rank != 0) return "it takes no block mask";
  if (problem.length_q() * problem.heads_q() >= kMaxLength || problem.length_kv >= kMaxLength) {
    return "it takes lengths below 2^30";
  }
  for (const Tensor* tensor : {&problem.q, &problem.k, &problem.v, &problem.o}) {
    if (const char* const reason = unsupported_gather_layout(*tensor)) return reason;
  }
  return nullptr;
}

Support supports_flash_gather_sm90(const Problem& problem, const Device& device) {
  if (problem.backward != 0) return Support::no("it is a forward engine");
  if (const char* const reason = unsupported_gather(problem, device)) return Support::no(reason);
  if (problem.dropout_mask.rank != 0) return Support::no("it writes no dropout mask");
  const GatherShape shape = gather_shape(problem, device);
  const double blocks = static_cast<double>(shape.row_tiles) * static_cast<double>(shape.heads * problem.batch()) *
                        static_cast<double>(shape.splits);
  return blocks < 0x1p31 ? Support::yes() : Support::no("it takes fewer than 2^31 tiles");
}

// Few rows for each head of k, or too few tiles to fill the device without splits.
Support supports_decode_sm90(const Problem& problem, const Device& device) {
  if (const Support common = supports_flash_gather_sm90(problem, device); !common) return common;
  const GatherShape shape = gather_shape(problem, device);
  constexpr std::int64_t kFewRows = 16;
  if (shape.splits == 1 && shape.packed == 1 && shape.rows > kFewRows && is_short_forward_sm90(problem) &&
      supports_flash_forward_sm90(problem, device)) {
    return Support::no("flash_forward_sm90 has a tile for short sequences");
  }
  if (shape.splits > 1 || shape.consumers == 1 || shape.packed > 1) return Support::yes();
  return Support::no("it takes few rows for each head of k, or tiles that gain by splits");
}

std::size_t flash_gather_sm90_workspace(const Problem& problem, const Device& device) {
  const GatherShape shape = gather_shape(problem, device);
  if (shape.splits == 1) return 0;
  const std::int64_t rows = shape.splits * shape.rows * shape.heads * problem.batch();
  return static_cast<std::size_t>(rows * (problem.dim_v() + 2) * 4);
}

Status flash_gather_sm90(const LaunchSite& site, const Problem& problem, const Args& args) {
  const GatherShape shape = gather_shape(problem, site.device);
  const auto narrow = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  kernels::FlashGatherParams params;
  params.problem = attention_params(problem, args);
  params.mask = mask_of(problem, args);
  params.packed = tile::FastDivmod(static_cast<std::uint32_t>(shape.packed));
  params.page_rows_k =
      tile::FastDivmod(static_cast<std::uint32_t>(std::max<std::int64_t>(problem.k.geometry.dims[2], 1)));
  params.page_rows_v =
      tile::FastDivmod(static_cast<std::uint32_t>(std::max<std::int64_t>(problem.v.geometry.dims[2], 1)));
  params.heads = narrow(shape.heads);
  params.group_k = narrow(shape.heads / problem.heads_k());
  params.group_v = narrow(shape.heads / problem.heads_v());
  params.rows = narrow(shape.rows);
  params.row_tiles = narrow(shape.row_tiles);
  params.batch_heads = narrow(problem.batch() * shape.heads);
  params.heads_of_section = heads_of_section(problem, site.device, shape.heads, problem.length_kv);
  params.splits = narrow(shape.splits);
  add_scales(problem, &params);
  params.bias_in_eights = is_in_eights(problem.bias, args.bias);
  // Where TMA takes neither, rows come one by one.
  [[maybe_unused]] const bool by_boxes = cuda::with_context(site.device.ordinal, [&] {
    const std::int64_t columns = kernels::flash_gather_columns(shape.dim);
    params.k_box = encode_boxes_of(problem.k, args.k.data, problem.is_paged(), columns, &params.k_map);
    params.v_box = encode_boxes_of(problem.v, args.v.data, problem.is_paged(), columns, &params.v_map);
    return params.k_box != 0 && params.v_box != 0;
  });
  if (shape.splits > 1) {
    const std::int64_t rows = shape.splits * shape.rows * params.batch_heads;
    params.partial_o = static_cast<float*>(site.workspace);
    params.partial_sums = params.partial_o + rows * problem.dim_v();
  }
  kernels::launch_flash_gather_sm90(params, element_type(problem.type()), shape.dim, shape.consumers, site.stream);
  return cuda::launch_status("flash_gather_sm90");
}

}  // namespace gpudnn::attention
