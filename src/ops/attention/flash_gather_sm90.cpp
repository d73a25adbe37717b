// The launchers of flash_gather_sm90: attention forward with options, and of few rows, in 16-bit types on Hopper.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/tensor_map_cuda.hpp"
#include "kernels/attention/flash_gather.hpp"
#include "ops/attention/cuda_engines.hpp"
#include "ops/attention/flash_gather.hpp"
#include "ops/attention/flash_sm90.hpp"
#include "ops/element_type.hpp"

namespace gpudnn::attention {
namespace {

// Whether flash_decode_sm90 takes its tiles of 64 rows, if TMA takes k and v.
bool decodes(const Problem& problem) {
  for (const Tensor* tensor : {&problem.q, &problem.k, &problem.v, &problem.o}) {
    if (tensor->is_ragged()) return false;
  }
  return problem.bias.rank == 0 && problem.has_alibi == 0 && problem.has_soft_cap == 0 && problem.has_dropout == 0 &&
         problem.scale > 0;
}

GatherTiles tiles_of(const Problem& problem) {
  const int dim = gather_dim(problem);
  GatherTiles tiles;
  tiles.rows = 128;
  tiles.short_rows = 64;
  tiles.columns = kernels::flash_gather_columns(dim);
  if (decodes(problem)) {
    tiles.short_columns = kernels::flash_decode_columns(dim);
    tiles.short_blocks = kernels::flash_decode_blocks(dim);
    tiles.short_step = 0.85;
  }
  tiles.bytes = 4.3e6;
  tiles.operations = 4.2e6;
  return tiles;
}
GatherShape shape_of(const Problem& problem) { return gather_shape(problem, tiles_of(problem)); }

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
  return cuda::makes_tensor_maps() && encode(rows, data, box, map, true) ? static_cast<std::int32_t>(box) : 0;
}

// Tiles of bias by TMA, where its rows lie at one stride; 0: row by row.
std::int32_t encode_bias(const Problem& problem, const Args& args, const GatherShape& shape,
                         kernels::FlashGatherParams* params) {
  const TensorGeometry& bias = problem.bias;
  if (bias.rank == 0 || shape.packed != 1 || shape.rows_of_tile != 128) return 0;
  const bool is_biased = params->kind == kernels::FlashGatherKind::biased;
  Tensor rows;
  rows.geometry = bias;
  for (int i = 0; i < 3; ++i) {
    if (bias.dims[i] != 1 && (bias.strides[i] <= 0 || bias.strides[i] >= std::int64_t{1} << 38)) return 0;
  }
  const std::int32_t box = bias.dims[2] == 1 ? 1 : is_biased ? 64 : shape.rows_of_tile;
  return cuda::makes_tensor_maps() && encode(rows, args.bias, box, &params->bias_map) ? box : 0;
}

// The kernel's instance.
void choose_kind(const Problem& problem, const GatherShape& shape, int dim, kernels::FlashGatherParams* params) {
  if (shape.rows_of_tile != 128 || dim > 128) return;
  if (!params->modifies) params->kind = kernels::FlashGatherKind::plain;
  if (problem.bias.rank != 0 && problem.has_alibi == 0 && problem.has_soft_cap == 0 && problem.has_dropout == 0 &&
      shape.packed == 1) {
    params->kind = kernels::FlashGatherKind::biased;
  }
}

// Bias is loaded by 8 columns at once.
const char* unsupported_bias(const Problem& problem) {
  const TensorGeometry& bias = problem.bias;
  if (bias.rank == 0) return nullptr;
  if (bias.type != problem.type()) return "it takes bias in the tensors' type";
  if (bias.dims[3] % 8 != 0 || bias.strides[3] != 1) return "it takes bias whose columns lie in eights, side by side";
  for (int i = 0; i < 3; ++i) {
    if (bias.dims[i] != 1 && bias.strides[i] % 8 != 0)
      return "it takes strides of bias that are multiples of 8 elements";
  }
  return nullptr;
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
  if (const char* const reason = unsupported_gather_options(problem)) return reason;
  for (const Tensor* tensor : {&problem.q, &problem.k, &problem.v, &problem.o}) {
    if (const char* const reason = unsupported_gather_layout(*tensor)) return reason;
  }
  return nullptr;
}

Support supports_flash_gather_sm90(const Problem& problem, const Device& device) {
  if (problem.backward != 0) return Support::no("it is a forward engine");
  if (const char* const reason = unsupported_gather(problem, device)) return Support::no(reason);
  if (const char* const reason = unsupported_bias(problem)) return Support::no(reason);
  // So many are never split.
  return shape_of(problem).blocks(problem) < 0x1p30 ? Support::yes() : Support::no("it takes fewer than 2^30 tiles");
}

// Few rows for each head of k, or too few tiles to fill the device without splits.
Support supports_decode_sm90(const Problem& problem, const Device& device) {
  if (const Support common = supports_flash_gather_sm90(problem, device); !common) return common;
  const GatherShape shape = shape_of(problem);
  constexpr std::int64_t kFewRows = 16;
  const bool has_short_tile = shape.packed == 1 && shape.rows > kFewRows && is_short_forward_sm90(problem) &&
                              supports_flash_forward_sm90(problem, device);
  const bool has_few_rows = shape.rows_of_tile == 64 || shape.packed > 1;
  if (has_few_rows && !has_short_tile) return Support::yes();
  if (gather_splits(problem, device, tiles_of(problem), shape) > 1) return Support::yes();
  return has_short_tile ? Support::no("flash_forward_sm90 has a tile for short sequences")
                        : Support::no("it takes few rows for each head of k, or tiles that gain by splits");
}

std::size_t flash_gather_sm90_workspace(const Problem& problem, const Device& device) {
  // Of partial sums, or of the counter of tiles.
  const GatherTiles tiles = tiles_of(problem);
  const GatherShape shape = gather_shape(problem, tiles);
  const std::int64_t splits = gather_splits(problem, device, tiles, shape);
  return std::max(gather_workspace(problem, shape, splits), sizeof(std::int32_t));
}

Status flash_gather_sm90(const LaunchSite& site, const Problem& problem, const Args& args) {
  GatherShape shape = shape_of(problem);
  shape.splits = splits_of_workspace(problem, shape, site.workspace_bytes);
  const int dim = gather_dim(problem);
  kernels::FlashGatherParams params = gather_params(site, problem, args, shape);
  // Tiles of different lengths go to whoever is free; others go round.
  const bool differs =
      problem.has_left != 0 || problem.has_right != 0 || problem.has_length_kv != 0 || problem.has_length_q != 0;
  if (differs && shape.splits == 1 && shape.blocks(problem) > site.device.multiprocessors) {
    params.next_tile = static_cast<std::int32_t*>(site.workspace);
  }
  choose_kind(problem, shape, dim, &params);
  const bool may_decode = shape.rows_of_tile == 64 && decodes(problem);
  // Where TMA takes neither, rows come one by one.
  const bool by_boxes = cuda::with_context(site.device.ordinal, [&] {
    const std::int64_t columns = may_decode ? kernels::flash_decode_columns(dim) : kernels::flash_gather_columns(dim);
    params.k_box = encode_boxes_of(problem.k, args.k.data, problem.is_paged(), columns, &params.k_map);
    params.v_box = encode_boxes_of(problem.v, args.v.data, problem.is_paged(), columns, &params.v_map);
    params.bias_box = encode_bias(problem, args, shape, &params);
    if (params.bias_box == 0 && params.kind == kernels::FlashGatherKind::biased) {
      params.kind = kernels::FlashGatherKind::general;
    }
    return params.k_box != 0 && params.v_box != 0;
  });
  if (may_decode && by_boxes) {
    kernels::launch_flash_decode_sm90(params, element_type(problem.type()), dim, site.stream);
    return cuda::launch_status("flash_decode_sm90");
  }
  if (may_decode) params.k_box = params.v_box = 0;  // of other tiles
  kernels::launch_flash_gather_sm90(params, element_type(problem.type()), dim, shape.rows_of_tile / 64,
                                    site.device.multiprocessors, site.stream);
  return cuda::launch_status("flash_gather_sm90");
}

}  // namespace gpudnn::attention
