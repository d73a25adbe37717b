// From a convolution problem to the parameters of the kernels for few channels, and the model of their time.
//
// Longer than most files: the tile is chosen by the model, which needs what the tile sets.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/small_c/small_c_sm80_params.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/cost_model.hpp"
#include "core/integer.hpp"
#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/select/offer_splits.hpp"
#include "ops/conv/tile_names.hpp"

namespace gpudnn::conv {
namespace {

using namespace kernels::small_c;  // NOLINT: this file speaks of nothing else
using std::int64_t;

constexpr int kMaxChannels = 8;
constexpr int64_t kMaxElements = int64_t{1} << 30;  // of one image, with the padding: 32-bit offsets
constexpr std::uint32_t kReservedShared = 1024;     // by the system for each block

int round_up(int64_t a, int64_t b) { return static_cast<int>(ceil_div(a, b) * b); }
int floor_mod(int a, int b) { return (a % b + b) % b; }
// A division of 64 bits takes many times as long as one of 32.
int narrow_ceil_div(int a, int b) { return (a + b - 1) / b; }

// A tensor's strides with the spatial dimensions at the back: with one of them it is the width. Where an extent is 1
// the stride says nothing, and is made to look packed with channels last.
Strides steps_of(const TensorGeometry& t, int spatial) {
  Strides steps;
  const int64_t channels = t.dims[1];
  const int64_t width = t.dims[1 + spatial];
  steps.n = t.strides[0];
  steps.c = static_cast<std::int32_t>(channels == 1 ? 1 : t.strides[1]);
  steps.w = static_cast<std::int32_t>(width == 1 ? channels : t.strides[1 + spatial]);
  const bool one_row = spatial == 1 || t.dims[2] == 1;
  steps.h = static_cast<std::int32_t>(one_row ? width * channels : t.strides[2]);
  if (t.dims[0] == 1) steps.n = 0;
  return steps;
}

// The span of one image (or filter) in elements.
int64_t inner_span(const TensorGeometry& t) {
  int64_t span = 1;
  for (int i = 1; i < t.rank; ++i) span += (t.dims[i] - 1) * t.strides[i];
  return span;
}

}  // namespace

tile::ElementType small_c_type(const Problem& problem) {
  switch (problem.x.type) {
    case DataType{GPUDNN_DATA_HALF}:
      return tile::ElementType::f16;
    case DataType{GPUDNN_DATA_BFLOAT16}:
      return tile::ElementType::bf16;
    default:
      return tile::ElementType::f32;
  }
}

Kernel small_c_kernel(Direction direction) {
  return direction == Direction::forward ? Kernel::forward
         : direction == Direction::dgrad ? Kernel::dgrad
                                         : Kernel::wgrad;
}

const char* small_c_shape_unsupported_reason(const Problem& problem) {
  if (problem.spatial > 2) return "it takes one or two spatial dimensions";
  if (problem.groups != 1) return "it takes one group only";
  if (problem.x.dims[1] > kMaxChannels) return "it takes up to 8 channels";
  for (int i = 0; i < problem.spatial; ++i) {
    if (problem.w.dims[2 + i] > 1 && problem.dilation[i] != 1) return "it takes dilation 1 only";
    const int64_t sizes[] = {problem.x.dims[2 + i], problem.w.dims[2 + i], problem.y.dims[2 + i], problem.pad[i],
                             problem.stride[i]};
    for (const int64_t size : sizes) {
      if (size > (1 << 24)) return "a spatial size is over 2^24";
    }
  }
  if (inner_span(problem.x) > kMaxElements || inner_span(problem.y) > kMaxElements ||
      inner_span(problem.w) > kMaxElements || (problem.has_z != 0 && inner_span(problem.z) > kMaxElements)) {
    return "an image or a filter spans over 2^30 elements";
  }
  if (problem.w.dims[0] > (1 << 24)) return "there are over 2^24 filters";
  // Tiles hold at least one pixel, and their numbers fit 31 bits.
  int64_t positions = problem.x.dims[0];
  for (int i = 0; i < problem.spatial; ++i) {
    positions *= std::max(problem.y.dims[2 + i], problem.x.dims[2 + i] + problem.pad[i]);
    if (positions > kMaxElements * 8) return "there are over 2^33 pixels";
  }
  if (problem.x.dims[0] > (1 << 26)) return "there are over 2^26 images";
  return nullptr;
}

Params small_c_params(const Problem& problem) {
  Params p;
  const int spatial = problem.spatial;
  const int last = spatial - 1;
  const auto size = [](int64_t value) { return static_cast<std::int32_t>(value); };
  p.images = size(problem.x.dims[0]);
  p.channels = size(problem.x.dims[1]);
  p.filters = size(problem.w.dims[0]);
  p.image_w = size(problem.x.dims[2 + last]);
  p.out_w = size(problem.y.dims[2 + last]);
  p.taps_w = size(problem.w.dims[2 + last]);
  p.pad_w = size(problem.pad[last]);
  p.stride_w = size(problem.stride[last]);
  p.image_h = p.out_h = p.taps_h = 1;
  if (spatial == 2) {
    p.image_h = size(problem.x.dims[2]);
    p.out_h = size(problem.y.dims[2]);
    p.taps_h = size(problem.w.dims[2]);
    p.pad_h = size(problem.pad[0]);
    p.stride_h = size(problem.stride[0]);
  }
  p.xs = steps_of(problem.x, spatial);
  p.ws = steps_of(problem.w, spatial);
  p.ys = steps_of(problem.y, spatial);
  if (problem.has_z != 0) p.zs = steps_of(problem.z, spatial);
  if (problem.mode == GPUDNN_CONVOLUTION) {
    p.w_base = static_cast<int64_t>(p.taps_h - 1) * p.ws.h + static_cast<int64_t>(p.taps_w - 1) * p.ws.w;
    p.ws.h = -p.ws.h;
    p.ws.w = -p.ws.w;
  }
  set_activation(problem, &p);
  p.has_z = problem.has_z != 0;
  return p;
}

bool image_allows_vectors(const Params& p, tile::ElementType type, Kernel kernel) {
  const int vector = 16 / tile::element_bytes(type);
  // Halves of odd steps need a second copy of the patch, which a plain copy does not make.
  if (kernel == Kernel::forward && type != tile::ElementType::f32 && p.stride_w * p.channels % 2 != 0) return false;
  // Tiles begin at whole vectors, as the columns of each are a multiple of 8.
  return p.xs.c == 1 && p.xs.w == p.channels && p.xs.h % vector == 0 && p.xs.n % vector == 0;
}

bool filters_allow_vectors(const Params& p, const Strides& strides, tile::ElementType type) {
  const int vector = 16 / tile::element_bytes(type);
  return strides.c == 1 && p.filters % vector == 0 && strides.h % vector == 0 && strides.w % vector == 0 &&
         strides.n % vector == 0;
}

namespace {

FastDivmod divisor(std::int64_t value) { return FastDivmod(static_cast<std::uint32_t>(value)); }

}  // namespace

void set_small_c_patch(int row, bool vectors, Params* params) {
  Params& p = *params;
  const TileRow& tile = kTiles[row];
  if (tile.kernel == Kernel::dgrad) return;
  const int bytes = tile::element_bytes(tile.type);
  const int per_word = elements_of_word(tile.type);
  const int columns = (p.tile_w - 1) * p.stride_w + p.taps_w;
  const int elements = columns * p.channels;
  Patch& patch = p.patch;
  patch = {};
  patch.vectors = vectors;
  patch.rows = (p.tile_h - 1) * p.stride_h + p.taps_h;
  if (vectors) {
    patch.lead = floor_mod(-p.pad_w * p.channels, 16 / bytes);
    patch.pitch = round_up((patch.lead + elements) * bytes, 16);
    patch.items = divisor(patch.pitch / 16);
  } else {
    patch.pitch = 4 * (narrow_ceil_div(elements, per_word) + 1);
    patch.items = divisor(elements);
    patch.planar = p.xs.w == 1 && p.channels > 1;
    patch.inner = divisor(patch.planar ? columns : p.channels);
  }
  patch.bytes = round_up(static_cast<int64_t>(patch.rows) * patch.pitch, 16);
  if (tile.kernel == Kernel::wgrad) {
    p.shared_bytes =
        static_cast<std::uint32_t>(2 * patch.bytes + 2 * filter_pixels(tile.type) * gradient_pitch(tile.type));
    return;
  }
  if (per_word == 2 && p.stride_w * p.channels % 2 != 0) {
    patch.copy_bytes = patch.bytes;
    patch.bytes *= 2;
  }
  p.run_shift = per_word == 2 ? patch.lead % 2 : 0;
  const int words = narrow_ceil_div(p.run_shift + p.taps_w * p.channels, per_word);
  p.run_words = divisor(words);
  p.k_steps = narrow_ceil_div(p.taps_h * words, 8);
  p.shared_bytes = static_cast<std::uint32_t>(p.k_steps * (tile.columns * 32 + 64) + 2 * patch.bytes);
}

namespace {

// Tiles of positions that cover rows x columns.
void set_positions(int tile_h, int tile_w, int rows, int columns, Params* p) {
  p->tile_h = tile_h;
  p->tile_w = tile_w;
  p->tile_w_div = divisor(tile_w);
  const int64_t down = narrow_ceil_div(rows, tile_h);
  const int64_t across = narrow_ceil_div(columns, tile_w);
  p->tiles_h = divisor(down);
  p->tiles_w = divisor(across);
  p->tiles = static_cast<std::uint32_t>(down * across * p->images);
}

// The sizes in shared memory could overflow before they are compared with the limit: no patch of interest is larger.
bool patch_is_sane(const Params& p) {
  const double rows = static_cast<double>(p.tile_h - 1) * p.stride_h + p.taps_h;
  const double columns = static_cast<double>(p.tile_w - 1) * p.stride_w + p.taps_w;
  return rows * (columns * p.channels + 32) < 1e6 && static_cast<double>(p.taps_h) * p.taps_w * p.channels < 1e5;
}

// Cycles of a multiprocessor for a tile of positions: matrix instructions at the rate that mma.sync reaches, or the
// words from shared memory at 128 bytes a cycle, whichever takes longer; the loads, the stores and the barriers.
constexpr double kCyclesOfMma = 6.9 / 4;  // four quarters of the multiprocessor work at once

double forward_products(double k_steps, int columns) {
  const double mma = k_steps * columns * kCyclesOfMma;
  const double shared = k_steps * 4.25 * (9 + columns / 4.0);
  return 1.15 * std::max(mma, shared);
}

double filter_step_cycles(int columns) {
  const double mma = columns / 2.0 * kCyclesOfMma;
  // Each warp loads dy; with 32 columns, where warps take turns, one of them does.
  const double shared = (columns == 32 ? 1 : 4) * 17.0 + columns / 1.9;
  return 1.15 * std::max(mma, shared) + 20;
}

double data_group_cycles(int columns) {
  const int blocks = columns / 8;
  const double mma = 8.0 * 32 * blocks * kCyclesOfMma;
  const double shared = 8.5 * (11 * 4 + 4 * 2 * blocks);
  return std::max(mma, shared);
}

double forward_cycles(const Params& p, const TileRow& tile) {
  const double staging =
      p.patch.vectors ? p.patch.bytes / 45.0 : p.patch.rows * static_cast<int>(p.patch.items.divisor) * 0.45;
  // Filters that lie apart, and rows of y that end inside a vector, are stored one by one.
  const int vector = tile.type == ElementType::f32 ? 4 : 8;
  const double stores = p.ys.c == 1 && p.filters % vector == 0 ? 9.0 : kForwardPixels * 0.4;
  const double slowdown = tile.columns == 64 ? 1.65 : 1;  // measured over layers of published networks
  return slowdown * (forward_products(p.k_steps, tile.columns) + staging + stores * tile.columns + 150);
}

double filter_cycles(const Params& p, const TileRow& tile) {
  const double steps = static_cast<double>(filter_pixels(tile.type)) / pixels_of_step(tile.type);
  const double staging =
      p.patch.vectors ? p.patch.bytes / 32.0 : p.patch.rows * static_cast<int>(p.patch.items.divisor) / 4.0;
  return steps * filter_step_cycles(tile.columns) + 2.3 * staging + (p.dy_vectors ? 0 : 2000) + 150;
}

double data_cycles(const Params& p, const TileRow& tile) {
  const double groups = static_cast<double>(p.taps_v) * p.taps_u / kDataTapGroup;
  const double staging = p.dy_rows * p.dy_columns * (p.dy_vectors ? 0.25 : 2.0);
  constexpr double kSlowdown = 1.3;  // measured over layers of published networks
  return kSlowdown *
         (1.5 * p.k_steps * (groups * 1.15 * data_group_cycles(tile.columns) + staging + 150) + 260.0 * tile.columns);
}

double tile_cycles(const Params& p, const TileRow& tile) {
  return tile.kernel == Kernel::forward ? forward_cycles(p, tile)
         : tile.kernel == Kernel::dgrad ? data_cycles(p, tile)
                                        : filter_cycles(p, tile);
}

std::uint32_t shared_limit(const Device& device) { return static_cast<std::uint32_t>(device.shared_memory_per_block); }

// Blocks that a multiprocessor holds at once.
std::uint32_t blocks_at_once(const Params& p, const TileRow& tile, const Device& device) {
  const auto by_memory =
      static_cast<std::uint32_t>(device.shared_memory_per_multiprocessor) / (p.shared_bytes + kReservedShared);
  return std::clamp<std::uint32_t>(by_memory, 1, static_cast<std::uint32_t>(tile.min_blocks));
}

// Few warps leave gaps where they wait.
double slowdown(double blocks_here, const TileRow& tile) {
  const double alone = tile.kernel == Kernel::wgrad ? 1.2 : 0.3;
  return 1 + alone * (1 - std::min(1.0, blocks_here / tile.min_blocks));
}

// Sets the tile that takes the fewest cycles over all of those that `set` can make of the shapes first, second ...
// `set` returns false where the shared memory does not hold it.
template <class Set>
bool choose(const TileRow& tile, int shapes, const Device& device, Params* p, Set&& set) {
  double best = std::numeric_limits<double>::infinity();
  int chosen = -1;
  for (int i = 0; i < shapes; ++i) {
    if (!set(i)) continue;
    const double cycles = p->tiles * tile_cycles(*p, tile) * slowdown(blocks_at_once(*p, tile, device), tile);
    if (cycles >= best) continue;
    best = cycles;
    chosen = i;
  }
  return chosen >= 0 && set(chosen);
}

// Forward and filter gradient: the patch as any pointers would have it, then, with `vectors`, as the layouts would.
bool set_patches(int row, bool vectors, std::uint32_t limit, Params* p) {
  if (!patch_is_sane(*p)) return false;
  set_small_c_patch(row, false, p);
  if (!vectors || p->shared_bytes > limit) return p->shared_bytes <= limit;
  set_small_c_patch(row, true, p);
  return p->shared_bytes <= limit;
}

bool set_forward_tile(int row, const Device& device, Params* p) {
  const TileRow& tile = kTiles[row];
  const bool vectors = image_allows_vectors(*p, tile.type, tile.kernel);
  return choose(tile, kForwardPixels / 8, device, p, [&](int i) {
    const int tile_w = 8 * (i + 1);
    set_positions(kForwardPixels / tile_w, tile_w, p->out_h, p->out_w, p);
    return set_patches(row, vectors, shared_limit(device), p);
  });
}

bool set_filter_tile(int row, const Device& device, Params* p) {
  const TileRow& tile = kTiles[row];
  const int pixels = filter_pixels(tile.type);
  p->dy_vectors = filters_allow_vectors(*p, p->ys, tile.type);
  const bool vectors = image_allows_vectors(*p, tile.type, tile.kernel);
  return choose(tile, 4, device, p, [&](int i) {
    const int tile_w = pixels_of_step(tile.type) << i;
    set_positions(pixels / tile_w, tile_w, p->out_h, p->out_w, p);
    return set_patches(row, vectors, shared_limit(device), p);
  });
}

bool set_data_tile(int row, const Device& device, Params* params) {
  Params& p = *params;
  const TileRow& tile = kTiles[row];
  p.dy_vectors = filters_allow_vectors(p, p.ys, tile.type);
  p.k_steps = static_cast<int>(ceil_div(static_cast<int64_t>(p.filters) * tile::element_bytes(tile.type), 32));
  p.taps_u = round_up(ceil_div(p.taps_h, p.stride_h), kDataTapGroup);
  p.taps_v = static_cast<int>(ceil_div(p.taps_w, p.stride_w));
  p.taps_u_div = divisor(p.taps_u);
  p.taps_v_div = divisor(p.taps_v);
  p.class_w_div = divisor(p.stride_w);
  p.first_i = p.pad_h / p.stride_h;
  p.first_j = p.pad_w / p.stride_w;
  const int rows = (p.image_h - 1 + p.pad_h) / p.stride_h - p.first_i + 1;
  const int columns = (p.image_w - 1 + p.pad_w) / p.stride_w - p.first_j + 1;
  p.dx_rows = p.n_tiles == 1 && p.xs.c == 1 && p.xs.w == p.channels;
  const int64_t filter_step = static_cast<int64_t>(p.taps_v) * p.taps_u * tile.columns * 32;
  return choose(tile, 4, device, params, [&](int i) {
    p.warps_j = 1 << i;
    set_positions(kDataRowsOfWarp * (8 / p.warps_j), kDataColumnsOfWarp * p.warps_j, rows, columns, params);
    p.dy_rows = p.tile_h + p.taps_u - 1;
    p.dy_columns = p.tile_w + p.taps_v - 1;
    p.dy_columns_div = divisor(p.dy_columns);
    const int64_t dy = 2LL * p.dy_rows * p.dy_columns * 32;
    p.filter_resident = dy + filter_step * p.k_steps <= shared_limit(device);
    const int64_t shared = dy + filter_step * (p.filter_resident ? p.k_steps : 1);
    p.shared_bytes = static_cast<std::uint32_t>(std::min<int64_t>(shared, UINT32_MAX));
    return shared <= shared_limit(device);
  });
}

bool set_tile(int row, const Device& device, Params* params) {
  Params& p = *params;
  const TileRow& tile = kTiles[row];
  const int64_t columns = tile.kernel == Kernel::forward ? p.filters
                          : tile.kernel == Kernel::dgrad ? static_cast<int64_t>(p.stride_h) * p.stride_w * p.channels
                                                         : static_cast<int64_t>(p.taps_h) * p.taps_w * p.channels;
  if (columns > (1 << 24)) return false;
  p.n_tiles = static_cast<std::uint32_t>(ceil_div(columns, tile.columns));
  p.channel_div = divisor(p.channels);
  p.taps_w_div = divisor(p.taps_w);
  return tile.kernel == Kernel::forward ? set_forward_tile(row, device, params)
         : tile.kernel == Kernel::dgrad ? set_data_tile(row, device, params)
                                        : set_filter_tile(row, device, params);
}

}  // namespace

bool set_small_c_tile(int row, int splits, const Device& device, Params* params) {
  if (!set_tile(row, device, params)) return false;
  set_small_c_splits(row, splits, device, params);
  return true;
}

void set_small_c_splits(int row, int splits, const Device& device, Params* params) {
  Params& p = *params;
  const TileRow& tile = kTiles[row];
  const auto all = static_cast<std::uint32_t>(device.multiprocessors) * blocks_at_once(p, tile, device);
  if (tile.kernel == Kernel::wgrad) {
    p.m_tiles = static_cast<std::uint32_t>(ceil_div(p.filters, kFilterRows));
    // As many splits as fill the device once, all of about the same size; or what the config says.
    const std::uint32_t most = std::max(all / (p.n_tiles * p.m_tiles), 1u);
    const auto even = static_cast<std::uint32_t>(ceil_div(p.tiles, ceil_div(p.tiles, most)));
    p.splits = splits > 0 ? std::min(static_cast<std::uint32_t>(splits), p.tiles) : even;
    p.blocks = p.splits * p.n_tiles * p.m_tiles;
    return;
  }
  const std::uint32_t most = std::max(all / p.n_tiles, 1u);
  const auto share = ceil_div(p.tiles, most);
  p.blocks = static_cast<std::uint32_t>(ceil_div(p.tiles, share)) * p.n_tiles;
}

std::size_t small_c_workspace_bytes(int row, const Params& p, int splits) {
  const TileRow& tile = kTiles[row];
  if (tile.kernel != Kernel::wgrad || splits <= 1) return 0;
  const auto n_tiles =
      static_cast<std::size_t>(ceil_div(static_cast<int64_t>(p.taps_h) * p.taps_w * p.channels, tile.columns));
  const auto m_tiles = static_cast<std::size_t>(ceil_div(p.filters, kFilterRows));
  const auto block = static_cast<std::size_t>(kFilterRows) * static_cast<std::size_t>(tile.columns) * sizeof(float);
  return n_tiles * m_tiles * static_cast<std::size_t>(splits) * block + kWorkspaceAlignment;
}

bool small_c_row_matches(int row, const Problem& problem) {
  return kTiles[row].kernel == small_c_kernel(problem.direction) && kTiles[row].type == small_c_type(problem);
}

namespace {

// Forward: the block's filters are packed into shared memory word by word.
double packing_seconds(const Params& p, const TileRow& tile) {
  constexpr double kWordSeconds = 0.22e-6;
  const double words = tile.kernel == Kernel::forward ? 8.0 * p.k_steps * tile.columns : 0;
  return words / kForwardThreads * kWordSeconds;
}

Footprint footprint_of(int row, const Params& p, double bytes, int multiprocessors) {
  const TileRow& tile = kTiles[row];
  const double groups = p.n_tiles * (tile.kernel == Kernel::wgrad ? p.m_tiles : 1.0);
  const double streams = p.blocks / groups;
  const double blocks_here = std::ceil(static_cast<double>(p.blocks) / multiprocessors);
  Footprint f;
  f.k_tiles = std::ceil(p.tiles / streams) * blocks_here;  // tiles of positions of a multiprocessor
  f.cycles = tile_cycles(p, tile) * slowdown(blocks_here, tile);
  f.dram_bytes = bytes;
  f.shown = 0.3;
  f.start_seconds = 3.5e-6 + packing_seconds(p, tile);  // the first tile's wait, cold code
  if (tile.kernel == Kernel::wgrad && p.splits > 1) {
    f.partial_bytes = 2.0 * static_cast<double>(small_c_workspace_bytes(row, p, static_cast<int>(p.splits)));
    f.reduce_seconds = 3e-6;
  }
  return f;
}

// Measured over modelled time, medians of two lists of drawn problems (docs/perf-notes/convolution.md).
double measured_share(const TileRow& row) {
  if (row.kernel == Kernel::forward) return row.columns == 32 ? 1.25 : 1.0;
  if (row.kernel == Kernel::dgrad) return 1;
  return row.columns == 32 ? 1.3 : row.columns == 160 ? 1.1 : 1.0;
}

constexpr auto kNames = tile_names(kTiles, [](const TileRow& row) { return TileName().add("n", row.columns); });

}  // namespace

// Of each row no split, the splits that fill the device once, and as many as fit into less workspace.
void small_c_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  const double bytes =
      bytes_of_tensors(problem) + (problem.has_z != 0 ? static_cast<double>(size_in_bytes(problem.z)) : 0.0);
  for (int row = 0; row < kTileCount; ++row) {
    if (!small_c_row_matches(row, problem)) continue;
    Params params = small_c_params(problem);
    if (!set_tile(row, device, &params)) continue;
    const auto offer = [&](int splits) {  // 0 leave the number to the row
      set_small_c_splits(row, splits, device, &params);
      const auto taken = static_cast<std::int32_t>(params.splits);
      const Footprint f = footprint_of(row, params, bytes, std::max(device.multiprocessors, 1));
      candidates->push_back({{.tile = row, .split_k = taken, .tile_name = kNames[static_cast<std::size_t>(row)].text},
                             measured_share(kTiles[row]) * estimate(f, device.rates),
                             small_c_workspace_bytes(row, params, taken)});
      return candidates->back();
    };
    const Candidate best = offer(0);
    if (best.config.split_k <= 1) continue;
    (void)offer(1);
    for (const std::size_t limit : kSplitWorkspaces) {
      if (best.workspace <= limit) continue;
      const auto splits = static_cast<int>(limit * static_cast<std::size_t>(best.config.split_k) / best.workspace);
      if (splits > 1) (void)offer(splits);
    }
  }
}

}  // namespace gpudnn::conv
