// The mapping of convolution problems to the depthwise kernels, and their cost model.
//
// Two spatial axes always, and a third for volumes: a sequence lies along w, so that a thread has neighbouring windows
// of it, whose loads are all under way together.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/depthwise/depthwise_simt_params.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/cost_model.hpp"
#include "core/integer.hpp"
#include "ops/conv/epilogue_args.hpp"
#include "ops/element_type.hpp"

namespace gpudnn::conv {
namespace {

using namespace kernels::depthwise;  // NOLINT: this file speaks of nothing else

constexpr std::int64_t kMaxIndex = std::numeric_limits<std::int32_t>::max() / 2;
constexpr std::uint32_t kMaxShared = 48 * 1024;  // what a block may have on every device

// The configs, by Config::tile. Smaller blocks are for what fills the device once and not evenly.
struct Form {
  const char* name;
  bool vectors;
  int threads;
  int chunks;  // of rows; 0: as the span of the longest multiprocessor wants them
};
constexpr Form kForms[] = {{"", false, 0, 0},
                           {"c1", false, kMaxThreads, 0},
                           {"c2", true, kMaxThreads, 0},
                           {"c2_b128", true, 128, 0},
                           {"c2_b128_h2", true, 128, 2}};

// The tensor that is read by windows, and the one with an element for each.
const TensorGeometry& image_of(const Problem& problem) {
  return problem.direction == Direction::dgrad ? problem.y : problem.x;
}
const TensorGeometry& rows_of(const Problem& problem) {
  return problem.direction == Direction::dgrad ? problem.x : problem.y;
}

std::int64_t multiplier_of(const Problem& problem) { return problem.w.dims[0] / problem.groups; }

bool runs_along_channels(const Problem& problem) {
  const TensorGeometry& image = image_of(problem);
  return image.strides[1] == 1 && image.strides[image.rank - 1] >= image.dims[1];
}

// The spatial dimension that is axis h, w or d, or -1.
struct SpatialDims {
  int h, w;
  int d = -1;
};
SpatialDims spatial_dims(const Problem& problem) {
  if (problem.spatial == 3) return {1, 2, 0};
  if (problem.spatial == 2) return {0, 1};
  return {-1, 0};
}

Strides strides_of(const TensorGeometry& t, SpatialDims dims) {
  const auto of = [&](int dim) { return t.dims[dim] > 1 ? t.strides[dim] : 0; };
  Strides s;
  s.n = of(0);
  s.c = t.dims[1] > 1 ? t.strides[1] : 1;
  s.h = dims.h < 0 ? 0 : static_cast<std::int32_t>(of(2 + dims.h));
  s.w = dims.w < 0 ? 0 : static_cast<std::int32_t>(of(2 + dims.w));
  s.d = dims.d < 0 ? 0 : static_cast<std::int32_t>(of(2 + dims.d));
  return s;
}

Axis axis_of(const Problem& problem, int dim) {
  Axis axis;
  if (dim < 0) return axis;
  axis.image = static_cast<std::int32_t>(image_of(problem).dims[2 + dim]);
  axis.rows = axis.windows = static_cast<std::int32_t>(rows_of(problem).dims[2 + dim]);
  axis.taps = static_cast<std::int32_t>(problem.w.dims[2 + dim]);
  axis.pad = static_cast<std::int32_t>(problem.pad[dim]);
  axis.stride = static_cast<std::int32_t>(problem.stride[dim]);
  axis.dilation = axis.taps > 1 ? static_cast<std::int32_t>(problem.dilation[dim]) : 1;
  return axis;
}

// The instance for the axes that has the most channels a thread, up to `vector`, or -1. One channel is a matter of its
// own.
int find_row(Kernel kernel, int height, int width, int stride, int vector) {
  int best = -1;
  for (int i = 0; i < kTileCount; ++i) {
    const TileRow& row = kTiles[i];
    if (row.kernel == kernel && row.height == height && row.width == width && row.stride == stride &&
        row.vector <= vector && (row.vector == 1) == (vector == 1) && (best < 0 || row.vector > kTiles[best].vector)) {
      best = i;
    }
  }
  return best;
}

// Makes the data gradient of step 1 a forward convolution with the mirrored filter.
void mirror(Params* p) {
  p->mirrored = !p->mirrored;
  for (Axis* axis : {&p->h, &p->w, &p->d}) axis->pad = (axis->taps - 1) * axis->dilation - axis->pad;
}

int wgrad_row(const Params& p, int vector) {
  const bool same_stride = p.h.stride == p.w.stride;
  const bool dilated = p.h.dilation != 1 || p.w.dilation != 1;
  if (same_stride && (!dilated || p.h.stride == 1)) {
    const int row = find_row(Kernel::wgrad, p.h.taps, p.w.taps, p.h.stride, vector);
    if (row >= 0) return row;
  }
  return p.w.stride == 1 && p.w.taps > 2 ? find_row(Kernel::wgrad, 1, 8, 1, vector)
                                         : find_row(Kernel::wgrad, 1, 1, 0, vector);
}

// Chooses the instance, and turns the parameters to what it computes.
int choose_row(const Problem& problem, int vector, Params* p) {
  if (problem.direction == Direction::wgrad) return wgrad_row(*p, vector);
  const bool step_one = p->h.stride == 1 && p->w.stride == 1 && p->d.stride == 1;
  const bool volume = problem.spatial == 3;
  const bool same_stride = p->h.stride == p->w.stride;
  const bool dilated = p->h.dilation != 1 || p->w.dilation != 1;
  if (problem.direction == Direction::dgrad) {
    if (!step_one) {
      const int row = same_stride && !dilated && !volume
                          ? find_row(Kernel::sweep_dgrad, p->h.taps, p->w.taps, p->h.stride, vector)
                          : -1;
      if (row >= 0) return row;
      p->transposed = true;
      return find_row(Kernel::rows, 0, 0, 0, vector);
    }
    mirror(p);
  }
  if (same_stride && !volume && (!dilated || step_one)) {
    const int row = find_row(Kernel::sweep, p->h.taps, p->w.taps, p->h.stride, vector);
    if (row >= 0) return row;
  }
  return find_row(Kernel::rows, 0, 0, p->w.stride == 1 ? 1 : 0, vector);
}

bool is_line_problem(const Problem& problem, const Params& p) {
  if (p.h.taps != 1 || p.h.rows != 1 || p.h.image != 1 || problem.spatial == 3) return false;
  if (p.w.stride != 1 || (p.w.dilation != 1 && p.w.taps > 1) || p.channels_last) return false;
  return p.image_steps.w == 1 && p.rows_steps.w == 1;
}

// Threads share an axis in chunks of `chunk` windows that are a step apart.
void set_chunk(std::int64_t chunk, Axis* axis) {
  axis->chunk = static_cast<std::int32_t>(chunk);
  axis->chunks = FastDivmod(static_cast<std::uint32_t>(ceil_div(ceil_div(axis->windows, axis->step), chunk)));
}
std::int64_t units_of(const Axis& axis) {
  return static_cast<std::int64_t>(axis.chunks.divisor) * std::min(axis.step, axis.windows);
}

// Windows that a thread has along the axes, and which of them share elements.
void set_axes(const TileRow& tile, Params* p) {
  const bool phases = tile.stride == 1;
  p->w.step = phases ? p->w.dilation : 1;
  p->h.step = phases && tile.height > 1 ? p->h.dilation : 1;
  if (tile.kernel == Kernel::sweep_dgrad) {
    for (Axis* axis : {&p->h, &p->w}) {
      axis->windows = (axis->rows - 1 + axis->pad) / axis->stride - axis->pad / axis->stride + 1;
    }
  }
  set_chunk(tile.columns, &p->w);
}

// Vectors of channels of a block where memory runs along channels: as few as possible beyond the last one, and whole
// sectors of memory.
std::int64_t channel_lanes(std::int64_t vectors, std::int64_t most) {
  if (vectors <= std::min<std::int64_t>(most, 40)) return vectors;
  std::int64_t best = std::min<std::int64_t>(32, most);
  for (std::int64_t lanes : {32, 40, 24, 48, 16}) {
    if (lanes <= most && ceil_div(vectors, lanes) * lanes < ceil_div(vectors, best) * best) best = lanes;
  }
  return best;
}

// How the block's threads share channels and units.
void set_lanes(const TileRow& tile, const Form& form, std::int64_t images, Params* p) {
  const std::int64_t vectors = ceil_div(p->channels, tile.vector);
  const std::int64_t plane = units_of(p->h) * units_of(p->w);
  const std::int64_t units = plane * images;
  const std::int64_t filter = tile.kernel == Kernel::rows ? p->w.taps : tile.height * tile.width;
  const std::int64_t most = std::clamp<std::int64_t>(kMaxShared / (4 * filter * tile.vector), 1, kMaxThreads);
  std::int64_t lanes_c = 0;
  std::int64_t lanes_s = 0;
  if (p->channels_last) {
    lanes_c = channel_lanes(vectors, most);
    lanes_s = std::clamp<std::int64_t>(form.threads / lanes_c, 1, units);
  } else {
    lanes_s = std::min<std::int64_t>(plane, kMaxThreads);
    lanes_c = std::min({kMaxThreads / lanes_s, vectors, most});
    lanes_c = ceil_div(vectors, ceil_div(vectors, lanes_c));
  }
  p->lanes_c = FastDivmod(static_cast<std::uint32_t>(lanes_c));
  p->lanes_s = FastDivmod(static_cast<std::uint32_t>(lanes_s));
  p->channel_blocks = FastDivmod(static_cast<std::uint32_t>(ceil_div(vectors, lanes_c)));
  p->row_units = FastDivmod(static_cast<std::uint32_t>(units_of(p->h)));
  p->col_units = FastDivmod(static_cast<std::uint32_t>(units_of(p->w)));
  p->units = static_cast<std::uint32_t>(units);
  p->threads = static_cast<std::uint32_t>(ceil_div(lanes_c * lanes_s, 32) * 32);
  const std::int64_t floats = tile.kernel == Kernel::wgrad ? std::int64_t{p->threads} * tile.width * tile.vector
                                                           : lanes_c * tile.vector * filter;
  p->shared_bytes = static_cast<std::uint32_t>(4 * floats);
  const std::int64_t unit_blocks = ceil_div(units, lanes_s);
  const std::int64_t shares = tile.kernel == Kernel::wgrad ? p->splits : unit_blocks;
  p->blocks = static_cast<std::uint32_t>(p->channel_blocks.divisor * shares);
}

// Image rows that a unit costs: those of its windows, those that open and close it, and its start.
double rows_of_unit(const TileRow& tile, const Params& p) {
  const int stride = std::max(tile.stride, 1);
  return p.h.chunk + (tile.height + stride - 1.0) / stride - 1 + 1.5;
}

// Time of the longest multiprocessor in rows.
double span(const TileRow& tile, const Params& p, int multiprocessors) {
  const double slots = static_cast<double>(multiprocessors) * tile.min_blocks * kMaxThreads / p.threads;
  if (tile.kernel == Kernel::wgrad) {
    const double turns = std::ceil(static_cast<double>(p.units) / (static_cast<double>(p.splits) * p.lanes_s.divisor));
    return turns * rows_of_unit(tile, p) * std::max(1.0, p.blocks / slots);
  }
  const double waves = p.blocks / slots;
  return (waves < 4 ? std::ceil(waves) : waves) * rows_of_unit(tile, p);
}

// The height of a chunk: tall ones load fewer rows twice, low ones fill the device.
void set_chunks(const TileRow& tile, const Form& form, std::int64_t images, int multiprocessors, Params* p) {
  if (tile.kernel == Kernel::rows) {
    set_chunk(1, &p->h);
    return set_lanes(tile, form, images, p);
  }
  const std::int64_t whole = ceil_div(p->h.windows, p->h.step);
  if (form.chunks > 0) {
    set_chunk(ceil_div(whole, form.chunks), &p->h);
    return set_lanes(tile, form, images, p);
  }
  double least = 0;
  Params best;
  for (std::int64_t parts = 1; parts <= 64 && parts <= whole; ++parts) {
    const std::int64_t chunk = ceil_div(whole, parts);
    if (parts > 1 && (ceil_div(whole, chunk) != parts || chunk < 2)) continue;
    Params tried = *p;
    set_chunk(chunk, &tried.h);
    set_lanes(tile, form, images, &tried);
    const double time = span(tile, tried, multiprocessors);
    if (parts == 1 || time < 0.98 * least) {
      least = time;
      best = tried;
    }
  }
  *p = best;
}

bool allows_vectors(const Strides& s, int vector) {
  return s.c == 1 && s.n % vector == 0 && s.h % vector == 0 && s.w % vector == 0 && s.d % vector == 0;
}
// Channels that a thread of the layout may have: 4, 2 or 1.
int widest_vector(const Params& p) {
  for (int vector : {4, 2}) {
    if (p.channels % static_cast<std::uint32_t>(vector) == 0 && p.multiplier.divisor == 1 &&
        allows_vectors(p.image_steps, vector) && allows_vectors(p.rows_steps, vector) &&
        allows_vectors(p.addend_steps, vector)) {
      return vector;
    }
  }
  return 1;
}

// Lines of packs: how threads share them. False where they have too many units to count.
bool set_line(const Problem& problem, Params* p) {
  const bool wgrad = problem.direction == Direction::wgrad;
  const int elements = 16 / tile::element_bytes(element_type(problem.x.type));
  const std::int64_t packs = ceil_div(p->w.rows + elements - 1, elements);  // where a line begins within a pack
  const std::int64_t units = ceil_div(packs, 2 * kLineTurns);
  const std::int64_t lines = problem.x.dims[0] * (wgrad ? 1 : std::int64_t{p->channels});
  if (units * lines > kMaxIndex) return false;
  p->image_count = element_span(image_of(problem));
  p->rows_count = element_span(rows_of(problem));
  p->col_units = FastDivmod(static_cast<std::uint32_t>(units));
  p->channel_blocks = FastDivmod(p->channels);
  p->units = static_cast<std::uint32_t>(units * lines);
  p->threads = kMaxThreads;
  p->lanes_c = FastDivmod(1);
  p->lanes_s = FastDivmod(kMaxThreads);
  if (!wgrad) {
    p->blocks = static_cast<std::uint32_t>(ceil_div(units * lines, kMaxThreads));
    return true;
  }
  // Several channels of few units share a block.
  const std::int64_t lanes = std::min<std::int64_t>(p->units, kMaxThreads);
  const std::int64_t channels = std::min<std::int64_t>(kMaxThreads / lanes, p->channels);
  p->lanes_c = FastDivmod(static_cast<std::uint32_t>(channels));
  p->lanes_s = FastDivmod(static_cast<std::uint32_t>(lanes));
  p->threads = static_cast<std::uint32_t>(ceil_div(channels * lanes, 32) * 32);
  p->channel_blocks = FastDivmod(static_cast<std::uint32_t>(ceil_div(p->channels, channels)));
  p->blocks = p->channel_blocks.divisor * p->splits;
  return true;
}

const char* sizes_unsupported_reason(const Problem& problem) {
  for (const TensorGeometry* t : {&problem.x, &problem.y, &problem.w, &problem.z}) {
    std::int64_t span = 1;
    for (int i = 1; i < t->rank; ++i) span += (t->dims[i] - 1) * t->strides[i];
    if (span > kMaxIndex) return "an image spans 2^30 elements or more";
  }
  std::int64_t pixels = problem.x.dims[0];
  for (int i = 0; i < problem.spatial; ++i) {
    const std::int64_t reach = problem.dilation[i] * (problem.w.dims[2 + i] - 1);
    if (problem.pad[i] > kMaxIndex / 4 || reach > kMaxIndex / 4 || problem.stride[i] > kMaxIndex / 4) {
      return "padding, stride or the dilated filter is over 2^28";
    }
    pixels *= std::max(problem.x.dims[2 + i], problem.y.dims[2 + i]) + 2;
    if (pixels > kMaxIndex) return "2^30 pixels or more";
  }
  if (pixels > kMaxIndex * 64 / std::max<std::int64_t>(problem.w.dims[0], 1)) return "2^36 elements or more";
  return nullptr;
}

}  // namespace

const char* depthwise_unsupported_reason(const Problem& problem) {
  if (problem.x.type == GPUDNN_DATA_DOUBLE) return "it takes f16, bf16 and f32";
  if (problem.w.dims[1] != 1) return "it takes one input channel a group only";
  if (multiplier_of(problem) != 1) {
    if (problem.groups == 1) return "one group of one channel is a dense convolution";
    if (problem.direction == Direction::dgrad) return "it takes the data gradient of one filter a channel only";
  }
  std::int64_t taps = 1;
  for (int i = 0; i < problem.spatial; ++i) taps *= std::min<std::int64_t>(problem.w.dims[2 + i], 4097);
  if (problem.direction == Direction::wgrad && taps > 65535) return "it takes the filter gradient of up to 65535 taps";
  for (int i = 0; i < problem.spatial; ++i) {
    if (problem.w.dims[2 + i] > 4096) return "a row or column of the filter has over 4096 taps";
  }
  if (const char* reason = channel_scale_unsupported_reason(problem)) return reason;
  return sizes_unsupported_reason(problem);
}

DepthwiseLaunch depthwise_launch(const Problem& problem, int config_tile, int splits, int multiprocessors) {
  const Form& form = kForms[config_tile];
  const SpatialDims dims = spatial_dims(problem);
  DepthwiseLaunch launch;
  Params& p = launch.params;
  p.h = axis_of(problem, dims.h);
  p.w = axis_of(problem, dims.w);
  p.d = axis_of(problem, dims.d);
  p.depth = FastDivmod(static_cast<std::uint32_t>(p.d.rows));
  p.image_steps = strides_of(image_of(problem), dims);
  p.rows_steps = strides_of(rows_of(problem), dims);
  p.addend_steps = problem.has_z != 0 ? strides_of(problem.z, dims) : p.rows_steps;
  p.channels_last = runs_along_channels(problem);
  p.channels = static_cast<std::uint32_t>(problem.y.dims[1]);
  p.multiplier = FastDivmod(static_cast<std::uint32_t>(multiplier_of(problem)));
  const bool line = form.vectors && is_line_problem(problem, p);
  const int vector = form.vectors ? widest_vector(p) : 1;
  if (form.vectors && vector == 1 && !line) return launch;
  p.filter_k = problem.w.strides[0];
  p.filter_r = dims.h < 0 ? 0 : problem.w.strides[2 + dims.h];
  p.filter_s = dims.w < 0 ? 0 : problem.w.strides[2 + dims.w];
  p.filter_t = dims.d < 0 ? 0 : problem.w.strides[2 + dims.d];
  p.mirrored = problem.mode == GPUDNN_CONVOLUTION;
  set_activation(problem, &p);

  // A stride that no second window takes is any stride.
  if (problem.direction != Direction::dgrad) {
    if (p.w.rows == 1 && p.w.taps > 1) p.w.stride = p.h.stride;
    if (p.h.rows == 1 && p.h.taps > 1) p.h.stride = p.w.stride;
  }
  if (line) {
    if (problem.direction == Direction::dgrad) mirror(&p);
    const Kernel kernel = problem.direction == Direction::wgrad ? Kernel::line_wgrad : Kernel::line;
    launch.row = find_row(kernel, 1, p.w.taps <= 4 ? 4 : 8, 1, 1);
  } else {
    launch.row = choose_row(problem, vector, &p);
  }
  const TileRow& tile = kTiles[launch.row];
  launch.resident = tile.min_blocks * (kMaxThreads / form.threads);
  launch.alignment = tile::element_bytes(element_type(problem.x.type)) * tile.vector;
  if (is_wgrad(tile.kernel)) {
    p.splits = static_cast<std::uint32_t>(splits);
    p.tap_tiles_w = FastDivmod(static_cast<std::uint32_t>(ceil_div(p.w.taps, tile.width)));
    p.tap_tiles_h = FastDivmod(static_cast<std::uint32_t>(ceil_div(p.h.taps, tile.height)));
    p.tap_tiles = p.tap_tiles_w.divisor * p.tap_tiles_h.divisor * static_cast<std::uint32_t>(p.d.taps);
  }
  if (line) {
    launch.alignment = 16;
    if (!set_line(problem, &p)) launch.row = -1;
    p.shared_bytes = tile.kernel == Kernel::line_wgrad ? 4 * p.threads * static_cast<std::uint32_t>(tile.width) : 0;
    return launch;
  }
  set_axes(tile, &p);
  set_chunks(tile, form, problem.x.dims[0] * p.d.rows, multiprocessors, &p);
  return launch;
}

std::size_t depthwise_workspace(const Problem& problem, int splits) {
  if (splits == 1) return 0;
  return static_cast<std::size_t>(splits) * static_cast<std::size_t>(element_count(problem.w)) * sizeof(float);
}

namespace {

// Instructions of a warp for a row of the image.
double instructions_of_row(const TileRow& tile, const Params& p, int element_bytes) {
  const double v = tile.vector;
  if (is_line(tile.kernel)) {
    // Of a unit: shifts and conversions, and the multiply-adds, for each tile of taps.
    const double elements = 16.0 / element_bytes;
    const double tiles = tile.kernel == Kernel::line ? static_cast<double>(ceil_div(p.w.taps, tile.width)) : 1;
    return 100 + kLineTurns * 2 * (20 + tiles * (50 + 2 * elements + elements * tile.width));
  }
  if (tile.kernel == Kernel::rows) {
    const double rows = static_cast<double>(p.d.taps) * p.h.taps;
    const bool slides = tile.stride == 1;
    return rows * p.w.taps * (tile.columns * v + 8 + 2 * v + (slides ? 0 : 10)) + 60.0 * rows;
  }
  const double fma = tile.height * tile.width * tile.columns * v;
  const int stride = tile.kernel == Kernel::sweep_dgrad ? 1 : std::max(tile.stride, 1);
  const double loads = stride * ((tile.columns - 1.0) * stride + tile.width);
  const double stores = tile.kernel == Kernel::sweep_dgrad ? 4.0 * tile.columns : tile.columns;
  return fma + loads * (5 + v) + stores * (5 + v) + 20;
}

double seconds_of(const Problem& problem, const DepthwiseLaunch& launch, const Device& device) {
  const TileRow& tile = kTiles[launch.row];
  const Params& p = launch.params;
  const bool wgrad = is_wgrad(tile.kernel);
  const double turns =
      wgrad ? std::ceil(static_cast<double>(p.units) / (static_cast<double>(p.splits) * p.lanes_s.divisor)) : 1;
  const double rows = tile.kernel == Kernel::rows || is_line(tile.kernel) ? 1 : rows_of_unit(tile, p);
  Footprint f;
  f.tiles = static_cast<double>(p.blocks) * p.tap_tiles;
  f.resident = launch.resident;
  f.warps = p.threads / 32.0;
  f.latency_warps = 6;
  // Measured over modelled time; of the filter gradient on planes and of 5 x 5 more.
  const double slowdown = !wgrad || is_line(tile.kernel) ? 1.35
                          : !p.channels_last             ? 1.75
                          : tile.height == 5             ? 1.7
                                                         : 1.35;
  f.cycles = slowdown * turns * rows * instructions_of_row(tile, p, tile::element_bytes(element_type(problem.x.type))) *
             f.warps / 4;
  f.k_tile_latency = turns * rows * (wgrad ? 0.45e-6 : 0.3e-6);
  f.tile_seconds = 0.3e-6;
  f.start_seconds = wgrad ? 5e-6 : 2.7e-6;  // of cold code
  f.dram_bytes = 1.2 * bytes_of_tensors(problem) * (wgrad ? p.tap_tiles : 1);
  f.wave_seconds = 0.5e-6;
  if (p.splits > 1) {
    f.partial_bytes = 2.0 * static_cast<double>(depthwise_workspace(problem, static_cast<int>(p.splits)));
    f.reduce_seconds = 3e-6;
  }
  return estimate(f, device.rates);
}

constexpr int kRowsOfSplit = 4;  // of a thread, at the least

// Splits that fill the device once.
int splits_of(const Problem& problem, int config_tile, int multiprocessors) {
  const DepthwiseLaunch whole = depthwise_launch(problem, config_tile, 1, multiprocessors);
  if (whole.row < 0) return 1;
  const double slots = static_cast<double>(multiprocessors) * kTiles[whole.row].min_blocks;
  const double blocks = static_cast<double>(whole.params.blocks) * whole.params.tap_tiles;
  const double most = std::ceil(static_cast<double>(whole.params.units) * whole.params.h.chunk / kRowsOfSplit /
                                whole.params.lanes_s.divisor);
  return static_cast<int>(std::clamp(std::floor(slots / blocks), 1.0, std::max(1.0, most)));
}

}  // namespace

void depthwise_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  const int multiprocessors = std::max(device.multiprocessors, 1);
  // Pointers that do not allow vectors get one channel a thread at the launch.
  const DepthwiseLaunch vectors = depthwise_launch(problem, kDepthwiseVectors, 1, multiprocessors);
  const int tile = vectors.row >= 0 ? kDepthwiseVectors : kDepthwiseSingle;
  const auto offer = [&](int config_tile, int splits) {
    candidates->push_back({{.tile = config_tile, .split_k = splits, .tile_name = kForms[config_tile].name},
                           seconds_of(problem, depthwise_launch(problem, config_tile, splits, multiprocessors), device),
                           depthwise_workspace(problem, splits)});
  };
  offer(tile, 1);
  const int splits = problem.direction == Direction::wgrad ? splits_of(problem, tile, multiprocessors) : 1;
  if (splits > 1) offer(tile, splits);
  // Smaller blocks gain with 3 x 3 in 16 bits; larger filters, of which a multiprocessor has fewer blocks, lose.
  if (vectors.row < 0 || !vectors.params.channels_last || data_type_bits(problem.x.type) != 16) return;
  const TileRow& row = kTiles[vectors.row];
  if (row.kernel != Kernel::sweep || row.height != 3 || row.stride != 1) return;
  for (int i = kDepthwiseVectors + 1; i < static_cast<int>(std::size(kForms)); ++i) {
    offer(i, 1);
    candidates->back().seconds *= 1.07;  // measured
  }
}

}  // namespace gpudnn::conv
