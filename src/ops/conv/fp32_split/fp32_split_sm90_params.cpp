// The mapping of float convolutions to kernels that split their factors, and the footprints of their configs.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/fp32_split/fp32_split_sm90_params.hpp"

#include <algorithm>
#include <cmath>

#include "core/cost_model.hpp"
#include "core/integer.hpp"
#include "ops/conv/extents.hpp"
#include "ops/conv/fp32_split/row_batches.hpp"
#include "ops/conv/implicit_gemm/implicit_gemm_simt_params.hpp"
#include "ops/conv/select/offer_splits.hpp"
#include "ops/conv/tensor_math.hpp"
#include "ops/conv/tile_names.hpp"
#include "ops/conv/tma_layout.hpp"

namespace gpudnn::conv {
namespace {

namespace split = kernels::fp32_split;
namespace sm90 = kernels::sm90;

constexpr double kElement = 4;
constexpr double kTileSeconds = 0.32e-6;
constexpr double kConsumerWarps = 8;
constexpr double kStartSeconds = 3.0e-6;  // of cold code
constexpr double kSplitSeconds = 3.0e-6;  // launch of the filter's kernel, and its start
constexpr double kPartialRate = 0.39;     // of the L2's
constexpr double kReduceLaunch = 1.0e-6;
constexpr int kProductsOfTf32 = 3;  // that six of bfloat16 last

constexpr auto kNames = tile_names(split::kShapes, [](const sm90::TileShape& tile) {
  return TileName().add("bm", tile.bm).add("_bn", tile.bn).add("_s", tile.stages);
});
constexpr auto kWgradNames = tile_names(split::kWgradShapes, [](const sm90::TileShape& tile) {
  return TileName().add("bm", tile.bm).add("_bn", tile.bn).add("_s", tile.stages).add("_wgrad");
});

bool is_wgrad(const Problem& problem) { return problem.direction == Direction::wgrad; }

bool is_dgrad(const Problem& problem) { return problem.direction == Direction::dgrad; }

// Channels of a group that are summed over, and that are columns of the product.
std::int64_t summed_channels(const Problem& problem) {
  return is_dgrad(problem) ? problem.w.dims[0] / problem.groups : problem.w.dims[1];
}
std::int64_t columns_of(const Problem& problem) {
  return is_dgrad(problem) ? problem.w.dims[1] : problem.w.dims[0] / problem.groups;
}

// Whether the output, or z, is stored element by element: it is not packed along channels, or not in whole vectors.
bool stores_planes(const Problem& problem) {
  constexpr std::int64_t kVector = 4;
  if (is_wgrad(problem)) return false;
  const auto element = static_cast<std::int64_t>(kElement);
  return columns_of(problem) % kVector != 0 || copy_unsupported_reason(output(problem), element) != nullptr ||
         (problem.has_z != 0 && copy_unsupported_reason(problem.z, element) != nullptr);
}

std::int64_t channel_step_of(const TensorGeometry& tensor) {
  const auto element = static_cast<std::int64_t>(kElement);
  return tensor.dims[1] > 1 ? tensor.strides[1] * element : element;
}

std::int64_t chunks_of(const Problem& problem) {
  return (summed_channels(problem) + split::kChunkChannels - 1) / split::kChunkChannels;
}

std::int64_t terms_bytes(const Problem& problem) {
  return taps_of(problem) * chunks_of(problem) * split::kPlanes * problem.groups * columns_of(problem) *
         split::kChunkBytes;
}

split::SplitFilterParams filter_params(const Problem& problem) {
  split::SplitFilterParams p;
  const TensorGeometry& w = problem.w;
  p.group_step = w.dims[0] / problem.groups * w.strides[0];
  p.row_step = w.strides[is_dgrad(problem) ? 1 : 0];
  p.channel_step = w.strides[is_dgrad(problem) ? 0 : 1];
  for (int a = 0; a < problem.spatial; ++a) {
    const int dim = 2 + problem.spatial - 1 - a;
    p.taps[a] = static_cast<std::uint32_t>(w.dims[dim]);
    p.tap_step[a] = w.strides[dim];
  }
  p.rows_of_group = tile::FastDivmod(static_cast<std::uint32_t>(columns_of(problem)));
  p.rows = tile::FastDivmod(static_cast<std::uint32_t>(problem.groups * columns_of(problem)));
  p.channels = static_cast<std::uint32_t>(summed_channels(problem));
  p.chunks = static_cast<std::uint32_t>(chunks_of(problem));
  return p;
}

std::size_t partial_bytes(const sm90::TileShape& tile, double tiles, int splits) {
  return splits == 1 ? 0
                     : sm90::partial_bytes(tile, static_cast<std::size_t>(tiles) * static_cast<std::size_t>(splits));
}

// Where the partial sums begin: behind flags and terms.
std::size_t partials_at(const Problem& problem) {
  if (is_wgrad(problem)) return 0;
  return static_cast<std::size_t>(split::kFlagBytes + round_up(terms_bytes(problem), 256));
}

Sm90Work work_of(const Problem& problem, const Sm90Sizes& sizes, const sm90::TileShape& tile) {
  // The filter gradient counts chunks of 32 channels.
  const double columns = is_wgrad(problem) ? tile.bn / split::kChunkChannels : tile.bn;
  return sm90_work(sizes, problem.groups, tile.bm, columns, split::kChunkChannels);
}

Footprint footprint_of(const Problem& problem, const sm90::TileShape& tile, const Sm90Work& work, int splits,
                       const DeviceRates& rates) {
  Footprint f;
  f.tiles = work.tiles * splits;
  f.k_tiles = std::ceil(work.all_k / work.tiles / splits);
  f.flops = 2.0 * tile.bm * tile.bn * split::kChunkChannels;
  f.flops_rate = rates.tf32_flops / kProductsOfTf32;
  f.efficiency = tile.efficiency * (is_wgrad(problem) ? kSplitWgradEfficiency : 1);
  f.l2_bytes =
      tile.bm * sm90::kRowBytes + tile.bn * (is_wgrad(problem) ? sm90::kRowBytes : split::kTerms * split::kChunkBytes);
  f.tile_seconds = kTileSeconds;
  // Rows that begin inside vectors; splits leave their sums in whole ones.
  if (splits == 1 && stores_planes(problem) && output(problem).strides[1] == 1) {
    constexpr double kMeasured = 1.4;  // over modelled time
    const double columns = std::min(static_cast<double>(columns_of(problem)), static_cast<double>(tile.bn));
    f.tile_seconds += kMeasured * store_seconds(tile.bm * columns / (32 * kConsumerWarps), false, kConsumerWarps, 1);
  }
  f.store_bytes = tile.bm * tile.bn * kElement;
  f.dram_bytes = bytes_of_tensors(problem);
  f.start_seconds = kStartSeconds;
  if (!is_wgrad(problem)) {
    // The filter's kernel, whose reads do not fill whole sectors.
    f.start_seconds += kSplitSeconds + 3.0 * static_cast<double>(terms_bytes(problem)) / rates.copy_bytes;
  }
  if (splits > 1) {
    f.partial_bytes = 2.0 * f.tiles * tile.bm * tile.bn * sizeof(float);
    f.partial_rate = kPartialRate;
    f.reduce_seconds = 2 * kReduceLaunch;
  }
  return f;
}

}  // namespace

const char* fp32_split_sm90_unsupported_reason(const Problem& problem) {
  constexpr std::int64_t kMaxTerms = std::int64_t{1} << 31;
  if (const char* reason = fp32_split_unsupported_reason(problem)) return reason;
  if (const char* reason = sm90_layout_unsupported_reason(problem, stores_planes(problem))) return reason;
  if (is_wgrad(problem))
    return is_packed_nhwc(problem.w) ? nullptr : "the filter is not packed in the order k, taps, channels";
  if (problem.groups > 1 && summed_channels(problem) % split::kChunkChannels != 0) {
    return "a group's share of the reduction is no multiple of 32 channels";
  }
  return terms_bytes(problem) < kMaxTerms ? nullptr : "the filter's terms would take 2^31 bytes or more";
}

Fp32SplitPlan fp32_split_sm90_plan(const Problem& problem, const Config& config) {
  Fp32SplitPlan plan;
  const sm90::TileShape& tile = (is_wgrad(problem) ? split::kWgradShapes : split::kShapes)[config.tile];
  plan.tile = config.tile;
  plan.gemm = sm90_plan(problem, tile, config.split_k);
  plan.partials_at = partials_at(problem);
  plan.workspace = plan.partials_at + partial_bytes(tile, plan.gemm.tiles, config.split_k);
  if (is_wgrad(problem)) return plan;
  if (stores_planes(problem)) {
    plan.c_column_step = channel_step_of(output(problem));
    plan.addend_column_step = problem.has_z != 0 ? channel_step_of(problem.z) : plan.c_column_step;
    plan.gemm.params.stores_boxes = false;
  }
  plan.filter = filter_params(problem);
  plan.terms_bytes = static_cast<std::size_t>(terms_bytes(problem));
  return plan;
}

void fp32_split_sm90_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  const Sm90Sizes sizes = sm90_sizes(problem);
  constexpr double kMeasuredOf64Columns = 1.23;  // over modelled time (docs/perf-notes/convolution.md)
  const auto offer_tile = [&](int number, const sm90::TileShape& tile, const char* name) {
    const double measured = !is_wgrad(problem) && tile.bn == 64 ? kMeasuredOf64Columns : 1;
    const Sm90Work work = work_of(problem, sizes, tile);
    const int multiprocessors = std::max(device.rates.multiprocessors, 2);
    offer_full_rounds(work.tiles, work.longest_k, multiprocessors, 1024, [&](int splits) {
      candidates->push_back({{.tile = number, .split_k = splits, .tile_name = name},
                             measured * estimate(footprint_of(problem, tile, work, splits, device.rates), device.rates),
                             partials_at(problem) + partial_bytes(tile, work.tiles, splits)});
    });
  };
  if (is_wgrad(problem)) {
    for (int i = 0; i < split::kWgradShapeCount; ++i)
      offer_tile(i, split::kWgradShapes[i], kWgradNames[static_cast<std::size_t>(i)].text);
  } else {
    for (int i = 0; i < split::kShapeCount; ++i)
      offer_tile(i, split::kShapes[i], kNames[static_cast<std::size_t>(i)].text);
  }
}

}  // namespace gpudnn::conv
