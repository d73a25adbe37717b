// The mapping of convolutions of integers to the Hopper kernel.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/integer/integer_sm90_params.hpp"

#include <algorithm>
#include <cmath>

#include "core/cost_model.hpp"
#include "ops/conv/extents.hpp"
#include "ops/conv/integer/integer_params.hpp"
#include "ops/conv/tile_names.hpp"
#include "ops/conv/tma_layout.hpp"

namespace gpudnn::conv {
namespace {

namespace integer = kernels::integer;

constexpr std::int64_t kVector = 16;

// Elements from each pixel to the next, where all are as far apart; else 0.
std::int64_t even_step(const TensorGeometry& tensor) {
  std::int64_t step = 0;
  std::int64_t count = 1;
  for (int i = tensor.rank; i-- > 0;) {
    const int dim = i == 1 ? -1 : i;
    if (dim < 0 || tensor.dims[dim] == 1) continue;
    if (step == 0) step = tensor.strides[dim];
    if (tensor.strides[dim] != step * count) return 0;
    count *= tensor.dims[dim];
  }
  return step != 0 ? step : std::max<std::int64_t>(tensor.dims[1], 1);
}

bool is_pointwise(const Problem& problem) {
  for (int i = 0; i < problem.spatial; ++i) {
    if (problem.w.dims[2 + i] != 1 || problem.pad[i] != 0 || problem.stride[i] != 1) return false;
  }
  return true;
}

// Of TMA's im2col mode: a reason against, or null.
const char* window_unsupported_reason(const Problem& problem) {
  const std::int64_t low = problem.spatial == 3 ? -16 : -128;
  const std::int64_t high = -low - 1;
  const std::int64_t most_offset = problem.spatial == 3 ? 31 : 255;
  for (int i = 0; i < problem.spatial; ++i) {
    const std::int64_t reach = (problem.w.dims[2 + i] - 1) * problem.dilation[i];
    if (problem.stride[i] > 8) return "a stride above 8";
    if (reach > most_offset) return "the dilated filter is larger than TMA's offsets";
    if (-problem.pad[i] < low || problem.pad[i] - reach > high || problem.pad[i] - reach < low) {
      return "padding or filter are beyond TMA's corners";
    }
  }
  return nullptr;
}

const char* output_unsupported_reason(const TensorGeometry& tensor, std::int64_t bytes) {
  if (data_type_lanes(tensor.type) > 1) return "an output or addend of vectors";
  if (tensor.dims[1] > 1 && tensor.strides[1] != 1) return "an output or addend is not contiguous along channels";
  for (int i = 0; i < tensor.rank; ++i) {
    if (i != 1 && tensor.dims[i] > 1 && tensor.strides[i] * bytes % 8 != 0)
      return "pixels do not begin at multiples of 8 bytes";
  }
  return nullptr;
}

// Half a box of zeros is half of the products for nothing.
bool tile_fits(const Problem& problem, const integer::Sm90Tile& tile) {
  const std::int64_t channels = problem.w.dims[1];
  return tile.k_bytes == 64 ? channels % 128 != 0 : channels > 64;
}

constexpr auto kNames = tile_names(integer::kSm90Tiles, [](const integer::Sm90Tile& tile) {
  return TileName()
      .add("bm", tile.bm)
      .add("_bn", tile.bn)
      .add("_k", tile.k_bytes)
      .add("_c", tile.consumers)
      .add(tile.cluster_split ? "_cluster" : "");
});

void set_pixel_map(const Problem& problem, const integer::Sm90Tile& tile, IntegerSm90Plan* plan) {
  TmaBoxes& boxes = plan->pixels;
  const std::int64_t even = even_step(problem.x);
  plan->params.x_is_matrix = is_pointwise(problem) && even != 0;
  plan->params.three_dimensional = problem.spatial == 3;
  boxes.extent[0] = problem.x.dims[1];
  boxes.box[0] = tile.k_bytes;
  if (plan->params.x_is_matrix) {
    boxes.rank = 3;
    boxes.extent[2] = problem.x.dims[0];
    for (int i = 0; i < problem.spatial; ++i) boxes.extent[2] *= problem.x.dims[2 + i];
    boxes.step[1] = even;
    boxes.box[2] = tile.bm;
    return;
  }
  const int axes = problem.spatial == 3 ? 3 : 2;
  boxes.rank = 2 + axes;
  for (int axis = 0; axis < problem.spatial; ++axis) {
    const int i = problem.spatial - 1 - axis;
    boxes.extent[1 + axis] = problem.x.dims[2 + i];
    boxes.step[axis] = copy_step(problem.x, 2 + i, 1);
    plan->lower[axis] = static_cast<std::int32_t>(-problem.pad[i]);
    plan->upper[axis] = static_cast<std::int32_t>(problem.pad[i] - (problem.w.dims[2 + i] - 1) * problem.dilation[i]);
    plan->traversal[axis] = static_cast<std::int32_t>(problem.stride[i]);
  }
  boxes.extent[1 + axes] = problem.x.dims[0];
  boxes.step[axes] = copy_step(problem.x, 0, 1);
  boxes.box[4] = tile.bm;
}

void set_filter(const Problem& problem, const integer::Sm90Tile& tile, IntegerSm90Plan* plan) {
  const std::int64_t taps = taps_of(problem);
  const std::int64_t channels = problem.w.dims[1];
  plan->filter.rank = 3;
  plan->filter.extent[0] = channels;
  plan->filter.extent[1] = taps;
  plan->filter.extent[2] = problem.w.dims[0];
  plan->filter.step[0] = channels;
  plan->filter.step[1] = channels * taps;
  plan->filter.box[0] = tile.k_bytes;
  plan->filter.box[2] = tile.bn;
  std::int32_t step = 1;
  for (int axis = 0; axis < problem.spatial; ++axis) {
    const int i = problem.spatial - 1 - axis;
    const auto count = static_cast<std::int32_t>(problem.w.dims[2 + i]);
    const bool mirrored = problem.mode == GPUDNN_CONVOLUTION;
    plan->params.taps[axis] = static_cast<std::uint32_t>(count);
    plan->params.tap_step[axis] = mirrored ? -step : step;
    if (mirrored) plan->params.first_tap += (count - 1) * step;
    step *= count;
  }
}

}  // namespace

const char* integer_sm90_unsupported_reason(const Problem& problem) {
  if (!is_integer(problem)) return "it multiplies integers";
  if (problem.x.type != GPUDNN_DATA_INT8) return "x is unsigned or of vectors";
  if (problem.w.dims[1] % kVector != 0) return "channels of a group are no multiple of 16";
  if (problem.w.dims[0] / problem.groups % kVector != 0) return "filters of a group are no multiple of 16";
  if (const char* const reason = integer_index_unsupported_reason(problem)) return reason;
  if (const char* const reason = copy_unsupported_reason(problem.x, 1)) return reason;
  if (!is_packed_nhwc(problem.w)) return "the filter is not packed in NHWC";
  const std::int64_t bytes = data_type_bits(problem.y.type) / 8;
  if (const char* const reason = output_unsupported_reason(problem.y, bytes)) return reason;
  if (problem.has_z != 0) {
    if (const char* const reason = output_unsupported_reason(problem.z, bytes)) return reason;
  }
  return window_unsupported_reason(problem);
}

IntegerSm90Plan integer_sm90_plan(const Problem& problem, const Config& config) {
  IntegerSm90Plan plan;
  const integer::Sm90Tile& shape = integer::kSm90Tiles[config.tile];
  plan.tile = config.tile;
  integer::Sm90Params& s = plan.params;
  s.p = integer_params(problem);
  set_pixel_map(problem, shape, &plan);
  set_filter(problem, shape, &plan);
  const TensorGeometry& addend = problem.has_z != 0 ? problem.z : problem.y;
  s.y_is_even = even_step(problem.y) != 0;
  if (s.y_is_even) s.p.y_at.spatial[0] = even_step(problem.y);
  s.addend_is_even = even_step(addend) != 0;
  if (s.addend_is_even) s.p.addend_at.spatial[0] = even_step(addend);
  const auto bm = static_cast<std::uint32_t>(shape.bm);
  const auto bn = static_cast<std::uint32_t>(shape.bn);
  const auto k_bytes = static_cast<std::uint32_t>(shape.k_bytes);
  s.n_tiles = integer::FastDivmod((s.p.filters + bn - 1) / bn);
  s.m_tiles = integer::FastDivmod((s.p.pixels + bm - 1) / bm);
  s.tiles = s.n_tiles.divisor * s.m_tiles.divisor * s.p.groups;
  s.k_tiles = (s.p.channels + k_bytes - 1) / k_bytes * s.p.tap_count;
  s.splits = static_cast<std::uint32_t>(config.split_k);
  s.k_tiles_per_split = (s.k_tiles + s.splits - 1) / s.splits;
  return plan;
}

void integer_sm90_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  constexpr double kStartSeconds = 2e-6;     // of cold code
  constexpr double kEpilogueSeconds = 3e-6;  // of 128 x 128 bytes, by one warpgroup
  const double filters = static_cast<double>(problem.w.dims[0]) / problem.groups;
  const double channels = static_cast<double>(problem.w.dims[1]);
  const auto pixels = static_cast<double>(problem.y.dims[0] * pixels_of(problem.y));
  const auto taps = static_cast<double>(taps_of(problem));
  for (int tile = 0; tile < integer::kSm90TileCount; ++tile) {
    const integer::Sm90Tile& shape = integer::kSm90Tiles[tile];
    if (!tile_fits(problem, shape)) continue;
    for (int splits = shape.cluster_split ? 2 : 1; splits <= (shape.cluster_split ? integer::kSm90MaxSplits : 1);
         splits *= 2) {
      Footprint f;
      const double tiles = std::ceil(pixels / shape.bm) * std::ceil(filters / shape.bn) * problem.groups;
      const double k_tiles = std::ceil(channels / shape.k_bytes) * taps;
      if (shape.cluster_split && (tiles * splits > device.multiprocessors || k_tiles < 2 * splits)) break;
      f.tiles = tiles * splits;
      f.k_tiles = std::ceil(k_tiles / splits);
      f.flops = 2.0 * shape.bm * shape.bn * shape.k_bytes;
      f.flops_rate = 2 * device.rates.half_flops;
      f.efficiency = shape.efficiency;
      f.l2_bytes = static_cast<double>(shape.bm + shape.bn) * shape.k_bytes;
      f.store_bytes = static_cast<double>(shape.bm * shape.bn) * data_type_bits(problem.y.type) / 8;
      const double epilogue = kEpilogueSeconds * shape.bm * shape.bn / 16384;
      f.tile_seconds = (0.3e-6 + epilogue) / (shape.ping_pong ? shape.consumers : 1);
      f.store_overlaps = shape.ping_pong;
      f.dram_bytes = bytes_of_tensors(problem);
      // The last tile's epilogue hides behind nothing; consumers that share a tile share it.
      f.start_seconds =
          kStartSeconds + (shape.cluster_split ? 1e-6 : 0) + epilogue / (shape.ping_pong ? 1 : shape.consumers);
      Config config = {.tile = tile, .tile_name = kNames[static_cast<std::size_t>(tile)].text};
      config.split_k = splits;
      candidates->push_back({config, estimate(f, device.rates), 0});
    }
  }
}

}  // namespace gpudnn::conv
