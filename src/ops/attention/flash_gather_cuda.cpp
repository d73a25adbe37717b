// What the launchers of the gather engines share.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/attention/attention_simt.hpp"
#include "kernels/attention/flash_dbias_sm80.hpp"
#include "ops/attention/flash_gather.hpp"
#include "ops/attention/flash_sm90.hpp"
#include "ops/attention/params.hpp"

namespace gpudnn::attention {
namespace {

bool has_window(const Problem& problem) { return problem.has_left != 0 && problem.has_right != 0; }

// Columns that a tile of rows sees at most.
std::int64_t visible_columns_at_most(const Problem& problem, std::int64_t q_rows) {
  std::int64_t columns = problem.length_kv;
  if (has_window(problem)) {
    const double window = static_cast<double>(problem.left) + static_cast<double>(problem.right);
    columns = static_cast<std::int64_t>(std::clamp(window + static_cast<double>(q_rows), 1.0, double(columns)));
  }
  return columns;
}

// The number of blocks that share the columns that a tile sees, by a model of the time in microseconds: blocks that are
// resident share the memory's rate, and none makes a step faster than it multiplies.
std::int64_t best_splits(const Problem& problem, const Device& device, const GatherTiles& tiles,
                         const GatherShape& shape, std::int64_t visible) {
  constexpr double kBlock = 3;      // of a block's first loads and last stores
  constexpr double kCombine = 2.5;  // of the second kernel
  constexpr double kSplit = 0.09;   // of one split in it
  const bool is_short = shape.rows <= tiles.short_rows && tiles.short_columns != 0;
  const std::int64_t columns = is_short ? tiles.short_columns : tiles.columns;
  const std::int64_t places = std::int64_t{device.multiprocessors} * (is_short ? tiles.short_blocks : 1);
  const std::int64_t tile_rows = shape.rows_of_tile;
  const std::int64_t steps = (visible + columns - 1) / columns;
  const std::int64_t all_tiles = shape.row_tiles * shape.heads * problem.batch();
  const auto dims = static_cast<double>(problem.dim_qk() + problem.dim_v());
  const double multiplies =
      is_short ? tiles.short_step : static_cast<double>(tile_rows * columns) * dims * 2 / tiles.operations;
  // Where two blocks of a multiprocessor have room, one keeps a little less of the memory busy; and where some have
  // two, those take as long as if half of the others had.
  const auto step_of = [&](std::int64_t blocks) {
    double resident = static_cast<double>(blocks);
    if (is_short && tiles.short_blocks > 1) {
      resident = blocks <= device.multiprocessors ? 1.04 * resident : (resident + static_cast<double>(places)) / 2;
    }
    return std::max(static_cast<double>(columns) * dims * 2 * resident / tiles.bytes, multiplies);
  };
  const double row_bytes = static_cast<double>(shape.rows * shape.heads * problem.batch() * problem.dim_v()) * 8;
  std::int64_t best = 1;
  double least = 0;
  const std::int64_t most = std::min<std::int64_t>(steps, kernels::kFlashGatherMaxSplits);
  for (std::int64_t splits = 1; splits <= most;) {
    const std::int64_t whole_waves = all_tiles * splits / places;
    const std::int64_t rest = all_tiles * splits - whole_waves * places;
    const std::int64_t steps_of_split = (steps + splits - 1) / splits;
    const auto steps_each = static_cast<double>(steps_of_split);
    double time = static_cast<double>(whole_waves) * (kBlock + steps_each * step_of(places));
    if (rest > 0) time += kBlock + steps_each * step_of(is_short ? rest : places);
    if (splits > 1) {
      const double combining =
          kCombine + kSplit * static_cast<double>(splits) + static_cast<double>(splits) * row_bytes / tiles.bytes;
      if (kBlock + combining > least) break;  // more splits take longer to combine
      time += combining;
    }
    if (splits == 1 || time < least) least = time, best = splits;
    if (steps_of_split == 1) break;
    // As many steps in more splits take longer: next is the first number with fewer.
    splits = (steps + steps_of_split - 2) / (steps_of_split - 1);
  }
  return best;
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
  params->scale = static_cast<float>(scale);
  params->softmax_scale_log2 = static_cast<float>(params->modifies ? kLog2E : scale * kLog2E);
  params->max_scale = static_cast<float>(params->modifies ? 1 : scale);
  if (problem.has_soft_cap == 0) return;
  params->cap = static_cast<float>(problem.soft_cap);
  params->scale_by_cap = static_cast<float>(scale / problem.soft_cap);
}

std::int64_t pitch_of(const Problem& problem) {
  constexpr std::int64_t kTo = kernels::kFlashBackwardPitch;
  return (problem.length_q() + kTo - 1) / kTo * kTo;
}

// Sums of each row in float, its maximum and its sum of exponentials.
std::size_t bytes_of_split(const Problem& problem, const GatherShape& shape) {
  return static_cast<std::size_t>(shape.rows * shape.heads * problem.batch() * (problem.dim_v() + 2) * 4);
}

std::int64_t padded_rows(const Problem& problem) { return pitch_of(problem) * problem.batch() * problem.heads_q(); }

}  // namespace

int gather_dim(const Problem& problem) {
  const std::int64_t dim = std::max(problem.dim_qk(), problem.dim_v());
  return dim <= 64 ? 64 : dim <= 128 ? 128 : 256;
}

GatherShape gather_shape(const Problem& problem, const GatherTiles& tiles) {
  GatherShape shape;
  const std::int64_t group = problem.heads_q() / problem.heads_k();
  const auto tiles_of = [](std::int64_t rows) { return (rows + 127) / 128; };
  // The rows of a packed tile are not 16 x 16 squares of one head, by which dropout draws.
  const bool packs = problem.heads_k() == problem.heads_v() && group > 1 && problem.has_dropout == 0 &&
                     tiles_of(problem.length_q() * group) * 10 < tiles_of(problem.length_q()) * group * 9;
  shape.packed = packs ? group : 1;
  shape.heads = problem.heads_q() / shape.packed;
  shape.rows = problem.length_q() * shape.packed;
  shape.rows_of_tile = shape.rows <= tiles.short_rows ? tiles.short_rows : tiles.rows;
  shape.row_tiles = (shape.rows + shape.rows_of_tile - 1) / shape.rows_of_tile;
  return shape;
}

std::int64_t gather_splits(const Problem& problem, const Device& device, const GatherTiles& tiles,
                           const GatherShape& shape) {
  // Partial sums are stored in pairs.
  if (problem.dim_v() % 8 != 0) return 1;
  const std::int64_t splits = best_splits(problem, device, tiles, shape, problem.length_kv);
  if (!has_window(problem)) return splits;
  // Never more than of the widest window, for which a graph's plan asks workspace before it knows the bounds.
  const std::int64_t visible = visible_columns_at_most(problem, shape.rows_of_tile / shape.packed + 1);
  return std::min(splits, best_splits(problem, device, tiles, shape, visible));
}

std::size_t gather_workspace(const Problem& problem, const GatherShape& shape, std::int64_t splits) {
  return splits == 1 ? 0 : static_cast<std::size_t>(splits) * bytes_of_split(problem, shape);
}

std::int64_t splits_of_workspace(const Problem& problem, const GatherShape& shape, std::size_t bytes) {
  const std::size_t splits = bytes / std::max<std::size_t>(bytes_of_split(problem, shape), 1);
  return std::max<std::int64_t>(static_cast<std::int64_t>(splits), 1);
}

kernels::FlashGatherParams gather_params(const LaunchSite& site, const Problem& problem, const Args& args,
                                         const GatherShape& shape) {
  const auto narrow = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  kernels::FlashGatherParams params;
  params.problem = attention_params(problem, args);
  params.mask = mask_of(problem, args);
  params.packed = tile::FastDivmod(static_cast<std::uint32_t>(shape.packed));
  params.page_rows_k =
      tile::FastDivmod(static_cast<std::uint32_t>(std::max<std::int64_t>(problem.k.geometry.dims[2], 1)));
  params.page_rows_v =
      tile::FastDivmod(static_cast<std::uint32_t>(std::max<std::int64_t>(problem.v.geometry.dims[2], 1)));
  params.by_splits = tile::FastDivmod(static_cast<std::uint32_t>(shape.splits));
  params.heads = narrow(shape.heads);
  params.group_k = tile::FastDivmod(static_cast<std::uint32_t>(shape.heads / problem.heads_k()));
  params.group_v = tile::FastDivmod(static_cast<std::uint32_t>(shape.heads / problem.heads_v()));
  params.rows = narrow(shape.rows);
  params.row_tiles = narrow(shape.row_tiles);
  params.batch_heads = narrow(problem.batch() * shape.heads);
  params.sections = {heads_of_section(problem, site.device, shape.heads, problem.length_kv), shape.row_tiles,
                     params.batch_heads, shape.heads};
  params.splits = narrow(shape.splits);
  add_scales(problem, &params);
  params.bias_in_eights = is_in_eights(problem.bias, args.bias);
  if (shape.splits > 1) {
    const std::int64_t rows = shape.splits * shape.rows * params.batch_heads;
    params.partial_o = static_cast<float*>(site.workspace);
    params.partial_sums = params.partial_o + rows * problem.dim_v();
  }
  return params;
}

kernels::FlashDbiasParams dbias_shape(const Problem& problem, const Device& device, std::int32_t side,
                                      std::int32_t blocks_each) {
  const auto tiles = [](std::int64_t extent, std::int64_t of) {
    return static_cast<std::int32_t>((extent + of - 1) / of);
  };
  const std::int64_t* const dims = problem.dbias.dims;
  kernels::FlashDbiasParams params;
  if (dims[0] == 1) params.visits[0] = static_cast<std::int32_t>(problem.batch());
  if (dims[1] == 1) params.visits[1] = static_cast<std::int32_t>(problem.heads_q());
  if (dims[2] == 1) params.visits[2] = tiles(problem.length_q(), side);
  if (dims[3] == 1) params.visits[3] = tiles(problem.length_kv, side);
  params.row_tiles = tiles(dims[2], side);
  params.column_tiles = tiles(dims[3], side);
  params.elements = dims[0] * dims[1] * dims[2] * dims[3];
  // Some blocks for each multiprocessor, where the tiles are fewer than that: partial sums stay below 9 MB on 132.
  std::int64_t visits = 1;
  for (const std::int32_t count : params.visits) visits *= count;
  const std::int64_t blocks = dims[0] * dims[1] * params.row_tiles * params.column_tiles;
  const std::int64_t wanted = std::int64_t{blocks_each} * device.multiprocessors;
  if (blocks * 2 <= wanted) params.splits = static_cast<std::int32_t>(std::min(visits, wanted / blocks));
  return params;
}

std::size_t dbias_partial_bytes(const kernels::FlashDbiasParams& dbias) {
  return dbias.splits > 1 ? static_cast<std::size_t>(4 * dbias.splits * dbias.elements) : 0;
}
std::size_t gather_dbias_workspace(const Problem& problem, const Device& device) {
  return problem.dbias.rank == 0 ? 0 : dbias_partial_bytes(dbias_shape(problem, device, kernels::kFlashDbiasRows, 2));
}

void launch_gather_dbias(const LaunchSite& site, const Problem& problem,
                         const kernels::FlashGatherBackwardParams& params, float* partial) {
  if (problem.dbias.rank == 0) return;
  kernels::FlashDbiasParams dbias = dbias_shape(problem, site.device, kernels::kFlashDbiasRows, 2);
  dbias.base = params;
  dbias.group_v = static_cast<std::int32_t>(problem.heads_q() / problem.heads_v());
  dbias.partial = partial;
  kernels::launch_flash_dbias_sm80(dbias, site.stream);
}

void launch_gather_dsink(const LaunchSite& site, const Problem& problem, kernels::FlashGatherBackwardParams params) {
  if (problem.has_dsink == 0) return;
  params.problem.delta = params.delta;
  kernels::launch_attention_dsink_simt(params.problem, params.pitch, site.stream);
}

std::size_t gather_backward_workspace(const Problem& problem, const Device& device) {
  return static_cast<std::size_t>(8 * padded_rows(problem)) + gather_dbias_workspace(problem, device);
}

kernels::FlashGatherBackwardParams gather_backward_params(const LaunchSite& site, const Problem& problem,
                                                          const Args& args) {
  kernels::FlashGatherBackwardParams params;
  params.problem = attention_params(problem, args);
  params.mask = mask_of(problem, args);
  params.lse = static_cast<float*>(site.workspace);
  params.delta = params.lse + padded_rows(problem);
  params.pitch = pitch_of(problem);
  params.group = static_cast<std::int32_t>(problem.heads_q() / problem.heads_k());
  params.modifies = problem.has_soft_cap != 0 || problem.bias.rank != 0 || problem.has_alibi != 0;
  params.bias_in_eights = is_in_eights(problem.bias, args.bias);
  params.scale = static_cast<float>(problem.scale);
  params.scale_log2 = static_cast<float>(problem.scale * kLog2E);
  if (problem.has_soft_cap != 0) {
    params.cap_log2 = static_cast<float>(problem.soft_cap * kLog2E);
    params.scale_by_cap = static_cast<float>(problem.scale / problem.soft_cap);
  }
  return params;
}

void launch_gather_backward(const LaunchSite& site, const Problem& problem, kernels::FlashGatherBackwardParams params,
                            void (*launch)(const kernels::FlashGatherBackwardParams&, kernels::FlashGradient,
                                           CUstream_st*)) {
  using kernels::FlashGradient;
  kernels::launch_flash_gather_delta(params, site.stream);
  const auto make = [&](bool wanted, FlashGradient gradient) {
    if (!wanted) return;
    const bool of_keys = gradient != FlashGradient::dq;
    params.heads_of_section = heads_of_section(problem, site.device, of_keys ? problem.heads_k() : problem.heads_q(),
                                               of_keys ? problem.length_q() : problem.length_kv);
    launch(params, gradient, site.stream);
  };
  make(problem.dq.exists(), FlashGradient::dq);
  if (gather_dim(problem) <= 128) {
    make(problem.dk.exists() || problem.dv.exists(), FlashGradient::dk_dv);
  } else {
    make(problem.dk.exists(), FlashGradient::dk);
    make(problem.dv.exists(), FlashGradient::dv);
  }
  launch_gather_dbias(site, problem, params, params.delta + padded_rows(problem));
  launch_gather_dsink(site, problem, params);
}

const char* unsupported_gather_options(const Problem& problem) {
  if (problem.type() != GPUDNN_DATA_HALF && problem.type() != GPUDNN_DATA_BFLOAT16) return "it takes f16 and bf16";
  if (problem.block_mask.rank != 0) return "it takes no block mask";
  if (problem.dropout_mask.rank != 0) return "it writes no dropout mask";
  if (problem.length_q() * problem.heads_q() >= kMaxLength || problem.length_kv >= kMaxLength) {
    return "it takes lengths below 2^30";
  }
  if (problem.backward == 0) return nullptr;
  if (problem.heads_k() != problem.heads_v()) return "it takes as many heads of k as of v";
  const double rows = static_cast<double>(padded_rows(problem));
  double tiles = 1;
  for (int i = 0; i < 4 && problem.dbias.rank != 0; ++i) tiles *= static_cast<double>(problem.dbias.dims[i]);
  return rows < 0x1p31 && tiles < 0x1p37 ? nullptr : "it takes fewer than 2^31 rows, and 2^37 elements of dBias";
}

}  // namespace gpudnn::attention
