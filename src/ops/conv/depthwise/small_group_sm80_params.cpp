// The mapping of convolution problems to the kernel for small groups, and its cost model.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/depthwise/small_group_sm80_params.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/cost_model.hpp"
#include "core/integer.hpp"
#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/tensor_math.hpp"

namespace gpudnn::conv {
namespace {

using namespace kernels::small_group;  // NOLINT: this file speaks of nothing else

constexpr std::int64_t kMaxIndex = std::numeric_limits<std::int32_t>::max() / 4;
constexpr std::int64_t kVector = 8;  // elements of 16 bytes
constexpr std::int64_t kSharedOfMultiprocessor = 224 * 1024;

// The configs: warps of a thread block. With 4 twice as many blocks take turns at loading and multiplying.
constexpr int kConfigs = 2;
constexpr int kWarps[kConfigs] = {8, 4};
constexpr const char* kNames[kConfigs] = {"c8", "c8_w4"};

const TensorGeometry& image_of(const Problem& problem) {
  return problem.direction == Direction::dgrad ? problem.y : problem.x;
}
const TensorGeometry& out_of(const Problem& problem) {
  return problem.direction == Direction::dgrad ? problem.x : problem.y;
}

const char* layout_unsupported_reason(const TensorGeometry& t) {
  if (t.strides[1] != 1) return "a tensor is not contiguous along channels";
  std::int64_t span = 1;
  for (int i = 0; i < t.rank; ++i) {
    if (i == 1) continue;
    if (t.dims[i] > 1 && t.strides[i] % kVector != 0) return "pixels do not begin at multiples of 16 bytes";
    if (i > 0) span += (t.dims[i] - 1) * t.strides[i];
  }
  return span > kMaxIndex ? "an image spans 2^29 elements or more" : nullptr;
}

const char* window_unsupported_reason(const Problem& problem) {
  if (problem.spatial != 2) return "it takes two spatial dimensions";
  if (problem.stride[0] != problem.stride[1]) return "it takes the same stride along both dimensions";
  for (int i = 0; i < 2; ++i) {
    if (problem.dilation[i] != 1) return "it takes dilation 1";
    if (problem.pad[i] > 64) return "padding over 64";
    if (problem.x.dims[2 + i] > kMaxIndex || problem.y.dims[2 + i] > kMaxIndex) return "2^29 pixels in a row or more";
  }
  if (small_group_row(problem) < 0) {
    return "it takes filters of 3x3, 5x5 and 7x7, with step 2 3x3 and 5x5; with f32, groups of 16, and in the data "
           "gradient of step 2 3x3";
  }
  return nullptr;
}

Strides strides_of(const TensorGeometry& t) {
  const auto of = [&](int dim) { return t.dims[dim] > 1 ? t.strides[dim] : 0; };
  return {of(0), static_cast<std::int32_t>(of(2)), static_cast<std::int32_t>(of(3))};
}

FastDivmod divisor(std::int64_t value) { return FastDivmod(static_cast<std::uint32_t>(value)); }

// Blocks of channels of a thread block with `most` warps beside each other: whole groups that leave the fewest over.
int blocks_of_thread_block(int blocks, int most, int blocks_of_group) {
  int best = std::min(blocks, most);
  const auto rounded = [&](int n) { return static_cast<int>(ceil_div(blocks, n)) * n; };
  for (const int n : {8, 4, 6, 7, 5, 3}) {
    if (n <= std::min(blocks, most) && n % blocks_of_group == 0 && rounded(n) < rounded(best)) best = n;
  }
  return best;
}

// With `pixels` threads for each block of channels.
Walk walk_of(int columns, int pixels) {
  Walk walk;
  walk.columns = divisor(columns);
  walk.step_rows = pixels / columns;
  walk.step_columns = pixels % columns;
  return walk;
}

// The image that a tile sees, in shared memory, and the tiles.
void set_tile(const TileRow& tile, bool wgrad, Params* p) {
  const int images = kTileRows / p->part_rows;
  const auto chunks = static_cast<int>(p->chunks_c.divisor);
  const int columns = p->parts * kWarpColumns;
  // Fragments are loaded in pairs of columns.
  const int seen = static_cast<int>(ceil_div((columns - 1) * tile.step() + tile.window(), 2) * 2);
  const int rows = (p->part_rows - 1) * tile.step() + tile.window();
  const int pixels = 32 * p->parts * p->cross * static_cast<int>(p->blocks_c.divisor) / chunks;
  const auto pitch = [](int least) { return (least + 6) / 8 * 8 + 1; };
  p->in_rows = rows;
  p->phase_rows = static_cast<int>(ceil_div(rows, tile.step()));
  p->in_walk = walk_of(seen, pixels);
  p->in_pitch = pitch(seen * chunks);
  p->out_walk = walk_of(columns, pixels);
  p->out_pitch = pitch(columns * chunks);
  p->phase_chunks = images * p->phase_rows * p->in_pitch;
  const int image_chunks = tile.step() * p->phase_chunks;
  const int out_chunks = kTileRows * p->out_pitch;
  p->rows_offset = 16 * image_chunks;
  p->stage_bytes = 16 * (image_chunks + (wgrad ? out_chunks : 0));
  p->result_bytes = wgrad ? 0 : 16 * out_chunks;
  p->column_tiles = divisor(ceil_div(p->tiled_w, columns));
  p->row_tiles = divisor(ceil_div(p->tiled_h, p->part_rows));
  p->tiles = p->column_tiles.divisor * p->row_tiles.divisor * static_cast<std::uint32_t>(ceil_div(p->images, images));
}

// Rows that the tiles load, those beyond the image too.
std::int64_t rows_loaded(const TileRow& tile, const Params& p) {
  return static_cast<std::int64_t>(p.tiles) * (kTileRows / p.part_rows) * p.in_rows +
         static_cast<std::int64_t>(p.tiles) * kTileRows * tile.step() / 2;
}

bool is_wgrad(const Problem& problem) { return problem.direction == Direction::wgrad; }

int bytes_of(const Problem& problem) { return data_type_bits(problem.x.type) / 8; }

int resident_blocks(const Problem& problem, const Config& config, const Params& p) {
  const int row = small_group_row(problem);
  const std::int64_t of_shared = kSharedOfMultiprocessor / (static_cast<std::int64_t>(shared_bytes(p)) + 1024);
  const int of_registers = is_wgrad(problem) ? kWgradMinBlocks[row] : kTiles[row].min_blocks_of(bytes_of(problem));
  return static_cast<int>(std::clamp<std::int64_t>(of_shared, 1, kMaxWarps / kWarps[config.tile] * of_registers));
}

// The shape of a thread block's tile, of so many warps at the most.
void set_shape(const TileRow& tile, bool wgrad, int warps, int bytes, Params* p) {
  const int most = wgrad ? kMaxWgradShared : kMaxShared;
  p->wide = wgrad && p->group_blocks > 1 && tile.taps == 3 && tile.stride == 1;
  const int group_rows = !wgrad ? 1 : p->wide ? p->group_blocks / 2 : p->group_blocks;
  p->cross = std::min(group_rows, std::max(1, warps / p->group_blocks));
  const int cross_parts = group_rows / p->cross;
  p->cross_parts = divisor(cross_parts);
  const int blocks = blocks_of_thread_block(p->channels / kBlock, warps / p->cross, p->group_blocks);
  p->blocks_c = divisor(blocks);
  p->chunks_c = divisor(blocks * kBlock * bytes / 16);
  p->channel_tiles = divisor(ceil_div(p->channels / kBlock, blocks) * cross_parts);
  Params best;
  for (const int part_rows : {kTileRows, kTileRows / 2}) {
    Params tried = *p;
    tried.part_rows = part_rows;
    tried.parts = warps / (blocks * p->cross);
    // No wider than the image, and one stage where two do not fit.
    while (tried.parts > 1 && (tried.parts - 1) * kWarpColumns >= p->tiled_w) --tried.parts;
    set_tile(tile, wgrad, &tried);
    while (tried.parts > 1 && tried.stage_bytes + tried.result_bytes > most) {
      --tried.parts;
      set_tile(tile, wgrad, &tried);
    }
    tried.stages = (tile.step() == 1 || wgrad) && 2 * tried.stage_bytes + tried.result_bytes <= kMaxShared ? 2 : 1;
    if (wgrad && tile.taps == 7) tried.stages = 2;  // one thread block a multiprocessor
    if (wgrad) {                                    // the sums leave by the same memory
      const std::int64_t floats =
          std::int64_t{blocks} * tried.parts * p->cross * (p->wide ? 2 : 1) * wgrad_sums_of_warp(p->group, tile.taps);
      const std::int64_t of_stage = round_up(4 * floats, 16 * tried.stages) / tried.stages;
      tried.stage_bytes = std::max(tried.stage_bytes, static_cast<std::int32_t>(of_stage));
    }
    tried.threads = static_cast<std::uint32_t>(32 * blocks * tried.parts * p->cross);
    if (part_rows == kTileRows || rows_loaded(tile, tried) < rows_loaded(tile, best)) best = tried;
  }
  *p = best;
}

}  // namespace

int small_group_row(const Problem& problem) {
  // The filter gradient's blocks of dy meet blocks of x, whatever the group.
  const std::int64_t depth = is_wgrad(problem) ? kBlock : std::max<std::int64_t>(kBlock, problem.w.dims[1]);
  for (int i = 0; i < kTileCount; ++i) {
    if (problem.w.dims[2] == kTiles[i].taps && problem.w.dims[3] == kTiles[i].taps &&
        problem.stride[0] == kTiles[i].stride && depth == kTiles[i].depth &&
        kTiles[i].is_dgrad == (problem.direction == Direction::dgrad && problem.stride[0] != 1) &&
        kTiles[i].takes(bytes_of(problem))) {
      return i;
    }
  }
  return -1;
}

const char* small_group_unsupported_reason(const Problem& problem) {
  if (const char* reason = tensor_math_unsupported_reason(problem)) return reason;
  if (is_wgrad(problem) && bytes_of(problem) != 2) return "it takes the filter gradient of f16 and bf16 only";
  const std::int64_t group = problem.w.dims[1];
  if (problem.w.dims[0] != problem.x.dims[1]) return "it takes as many filters as channels";
  if (group > (is_wgrad(problem) ? kMaxGroup : 2 * kBlock) || kMaxGroup % group != 0) {
    return "it takes groups of 1, 2, 4, 8 and 16 channels, and of 32 in the filter gradient";
  }
  if (problem.x.dims[1] % kBlock != 0) return "channels do not fill whole 16-byte vectors";
  if (const char* reason = window_unsupported_reason(problem)) return reason;
  for (const TensorGeometry* tensor : {&problem.x, &problem.y, problem.has_z != 0 ? &problem.z : &problem.y}) {
    if (const char* reason = layout_unsupported_reason(*tensor)) return reason;
  }
  if (problem.x.dims[0] * (problem.x.dims[2] + 16) * (problem.x.dims[3] + 16) > kMaxIndex) return "2^29 pixels or more";
  return channel_scale_unsupported_reason(problem);
}

Params small_group_params(const Problem& problem, const Config& config, int multiprocessors) {
  const TileRow& tile = kTiles[small_group_row(problem)];
  const TensorGeometry& image = image_of(problem);
  const TensorGeometry& out = out_of(problem);
  Params p;
  const auto size = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  p.images = size(image.dims[0]);
  p.channels = size(image.dims[1]);
  p.group = size(problem.w.dims[1]);
  p.group_blocks = std::max(1, p.group / kBlock);
  p.image_h = size(image.dims[2]);
  p.image_w = size(image.dims[3]);
  p.out_h = size(out.dims[2]);
  p.out_w = size(out.dims[3]);
  p.pad_h = size(problem.pad[0]);
  p.pad_w = size(problem.pad[1]);
  p.mirrored = problem.mode == GPUDNN_CONVOLUTION;
  p.tiled_h = p.out_h;
  p.tiled_w = p.out_w;
  p.transposed = problem.direction == Direction::dgrad;
  if (tile.is_dgrad) {
    const auto blocks = [](int extent, int pad) { return (extent - 1 + pad) / 2 - pad / 2 + 1; };
    p.tiled_h = blocks(p.out_h, p.pad_h);
    p.tiled_w = blocks(p.out_w, p.pad_w);
    p.odd_h = p.pad_h % 2;
    p.odd_w = p.pad_w % 2;
    p.pad_h = tile.window() - 1 - p.pad_h / 2;
    p.pad_w = tile.window() - 1 - p.pad_w / 2;
  } else if (p.transposed) {
    p.mirrored = !p.mirrored;
    p.pad_h = tile.taps - 1 - p.pad_h;
    p.pad_w = tile.taps - 1 - p.pad_w;
  }
  p.image_steps = strides_of(image);
  p.out_steps = strides_of(out);
  p.addend_steps = problem.has_z != 0 ? strides_of(problem.z) : p.out_steps;
  p.filter_k = problem.w.strides[0];
  p.filter_c = problem.w.strides[1];
  p.filter_r = problem.w.strides[2];
  p.filter_s = problem.w.strides[3];
  set_activation(problem, &p);
  set_shape(tile, is_wgrad(problem), kWarps[config.tile], bytes_of(problem), &p);
  const std::int64_t slots = static_cast<std::int64_t>(multiprocessors) * resident_blocks(problem, config, p);
  const std::int64_t most = std::max<std::int64_t>(1, slots / p.channel_tiles.divisor);
  const std::int64_t turns = ceil_div(p.tiles, std::min<std::int64_t>(most, p.tiles));
  p.walkers = static_cast<std::uint32_t>(ceil_div(p.tiles, turns));
  return p;
}

std::size_t small_group_workspace(const Problem& problem, const Params& p) {
  if (!is_wgrad(problem)) return 0;
  return static_cast<std::size_t>(p.walkers) * static_cast<std::size_t>(p.parts) *
         static_cast<std::size_t>(element_count(problem.w)) * sizeof(float);
}

void small_group_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  constexpr double kCyclesOfProduct = 2.3;  // of 16 x 8 x 8, of a multiprocessor
  constexpr double kStartSeconds = 4e-6;    // cold code, the filter's loads
  constexpr double kTurnSeconds = 3.0e-6;   // of a tile, alone on its multiprocessor
  const TileRow& tile = kTiles[small_group_row(problem)];
  const double taps = tile.taps * tile.taps;
  const int parts = bytes_of(problem) / 2;  // chunks of a block, and products of TF32 for one of 16 bits
  std::uint32_t former_threads = 0;
  for (std::int32_t i = 0; i < kConfigs; ++i) {
    const Config config = {.tile = i, .tile_name = kNames[i]};
    const Params p = small_group_params(problem, config, std::max(device.multiprocessors, 1));
    if (p.threads == former_threads) continue;
    former_threads = p.threads;
    const double warps = p.threads / 32.0;
    const double turns = std::ceil(static_cast<double>(p.tiles) / p.walkers);
    const int images = kTileRows / p.part_rows;
    const double rows = static_cast<double>(images) * p.in_rows;
    const double chunks = rows * p.in_walk.columns.divisor * p.chunks_c.divisor;
    Footprint f;
    f.tiles = static_cast<double>(p.channel_tiles.divisor) * p.walkers;
    f.resident = resident_blocks(problem, config, p);
    f.warps = warps;
    const double places = tile.is_dgrad ? 4 : 1;  // of dx's pixels in their blocks, one after the other
    f.cycles = turns * (warps * kWarpColumns * taps * parts * kCyclesOfProduct + chunks * 0.16 + 600 * places);
    f.k_tile_latency = turns * places * kTurnSeconds;
    f.dram_bytes = (tile.is_dgrad ? 3.8 : 1.6) * bytes_of_tensors(problem);  // at half the rate of a copy
    f.start_seconds = kStartSeconds;
    const std::size_t workspace = small_group_workspace(problem, p);
    if (workspace > 0) {
      f.partial_bytes = 2.0 * static_cast<double>(workspace);
      f.reduce_seconds = 3e-6;
    }
    // Measured over modelled time: 1.02 to 1.3.
    const double slowdown = workspace == 0 && tile.taps == 3 && tile.stride == 1 ? 1.12 : 1;
    candidates->push_back({config, slowdown * estimate(f, device.rates), workspace});
  }
}

}  // namespace gpudnn::conv
