// The configs of the Hopper implicit GEMM: which tiles and splits of the reduction are worth a try, and their
// footprints. Fitted on an H200 to layers of ResNet-50 and to problems drawn from published networks
// (docs/perf-notes.md).
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/cost_model.hpp"
#include "ops/conv/extents.hpp"
#include "ops/conv/implicit_gemm/implicit_gemm_sm90_params.hpp"
#include "ops/conv/select/offer_splits.hpp"
#include "ops/conv/tile_names.hpp"

namespace gpudnn::conv {
namespace {

namespace sm90 = kernels::sm90;

constexpr double kTileSeconds = 0.5e-6;
constexpr double kStartSeconds = 3.6e-6;      // of cold code, measured where nothing else takes long
constexpr double kTransposeSeconds = 1.8e-6;  // of the filter, in TF32's data gradient
constexpr double kEfficiency = 1.15;          // of a tile's, in products and from the L2
constexpr double kL2Efficiency = 1.57;
constexpr double kTransposedL2Efficiency = 0.9;  // of a filter that is transposed first
constexpr double kCutLinesL2Efficiency = 0.8;    // of pixels that begin inside lines of memory
constexpr double kStoreRate = 1.8;               // of a copy's
constexpr double kPartialBoxEfficiency = 0.7;
constexpr double kSkipEfficiency = 0.8;
constexpr double kNarrowL2Efficiency = 0.8;  // of boxes of 64 bytes a row
constexpr double kPartialRate = 0.8;         // of the L2's
constexpr double kReduceLaunch = 2.1e-6;
constexpr double kClusterSeconds = 5.8e-6;  // the sums of the splits in a cluster, and the start of one
constexpr double kPairSeconds = 4.3e-6;     // of two splits
constexpr double kFixupSeconds = 12e-6;     // storing and fetching of sums, and what fix-up CTAs start and end late

constexpr auto kNames = tile_names(sm90::kShapes, [](const sm90::TileShape& tile) {
  TileName name;
  name.add("bm", tile.bm).add("_bn", tile.bn).add("_s", tile.stages);
  if (tile.k_bytes != sm90::kRowBytes) name.add("_k", tile.k_bytes);
  if (tile.transposes) name.add("_tf32");
  if (tile.cluster_split_k) name.add("_cluster");
  if (tile.swap_ab) name.add("_swap_ab");
  if (tile.stream_k) name.add("_stream_k");
  return name;
});

Sm90Work work_of(const Problem& problem, const Sm90Sizes& sizes, const sm90::TileShape& tile) {
  const double element = data_type_bits(problem.x.type) / 8.0;
  const double columns =
      problem.direction == Direction::wgrad ? tile.bn / (sm90::kRowBytes / element) : tile.columns_of_c();
  return sm90_work(sizes, problem.groups, tile.rows_of_c(), columns, tile.k_bytes / element);
}

// 1x1 filters over fewer channels than a k tile has: cycles of TMA for a row of an operand, fitted to 9 layers. Rows
// that fill no box take longer than whole ones; the data gradient's filter has rows of its own, which are whole.
double cycles_of_narrow_row(const Problem& problem) {
  const bool forward = problem.direction == Direction::forward;
  const TensorGeometry& in = forward ? problem.x : problem.y;
  const std::int64_t bytes = in.dims[1] / problem.groups * data_type_bits(in.type) / 8;
  if (problem.direction == Direction::wgrad || bytes >= sm90::kRowBytes || taps_of(problem) > 1) return 0;
  return bytes == 64 ? 7.8 : forward ? 19.4 : 11.7;
}

// Share of the pixels that windows read which are of the image and not of its padding: of all pairs of an output and a
// tap, or of a pixel of dx and a tap of its phase.
double share_inside(const Problem& problem) {
  double share = 1;
  for (int i = 0; i < problem.spatial; ++i) {
    const std::int64_t in = problem.x.dims[2 + i];
    const std::int64_t out = problem.y.dims[2 + i];
    const std::int64_t taps = problem.w.dims[2 + i];
    const std::int64_t stride = problem.stride[i];
    std::int64_t inside = 0;
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      const std::int64_t at = tap * problem.dilation[i] - problem.pad[i];  // that the first output reads
      const std::int64_t first = at >= 0 ? 0 : (stride - 1 - at) / stride;
      const std::int64_t end = at >= in ? 0 : (in - 1 - at) / stride + 1;
      inside += std::max<std::int64_t>(0, std::min(end, out) - first);
    }
    const double all = problem.direction == Direction::dgrad ? static_cast<double>(in) / static_cast<double>(stride)
                                                             : static_cast<double>(out);
    share *= std::min(1.0, static_cast<double>(inside) / (all * static_cast<double>(taps)));
  }
  return share;
}

// TF32's filter gradient of 1x1 filters: boxes beyond the last channel are neither fetched nor transposed.
bool skips_boxes(const Problem& problem, const sm90::TileShape& tile) {
  return tile.transposes && taps_of(problem) == 1;
}

// Of the boxes of `row` elements that hold `count` elements in tiles of `width`: the mean of a row over all boxes, and
// how many boxes a tile has.
struct BoxRows {
  double cycles = 0, boxes = 0;
};
BoxRows box_rows(double count, double width, double row) {
  const double boxes = std::ceil(count / width) * width / row;  // of all tiles
  const double whole = std::floor(count / row);
  const double cut = whole * row < count ? 1 : 0;
  return {(whole * kTmaRow + cut * kTmaCutRow + (boxes - whole - cut) * kTmaOutsideRow) / boxes, width / row};
}

// Cycles of TMA for a k tile.
double cycles_of_tma(const Problem& problem, const sm90::TileShape& tile, const Sm90Sizes& sizes, double inside) {
  const double element = data_type_bits(problem.x.type) / 8.0;
  const double row = sm90::kRowBytes / element;
  const double of_padding = (1 - inside) * kTmaPaddingRow;
  if (problem.direction == Direction::wgrad) {
    const BoxRows dy = box_rows(sizes.rows[0], tile.bm, row);
    // Chunks of the channels of a tap, of which the last may be cut.
    const std::int64_t channels = problem.x.dims[1] / problem.groups;
    const double chunks = std::ceil(static_cast<double>(channels) / row);
    const double cut = channels % static_cast<std::int64_t>(row) != 0 ? 1 / chunks : 0;
    const double boxes = tile.bn / row;
    const double filled = sizes.columns / std::ceil(sizes.columns / boxes);
    const double outside = skips_boxes(problem, tile) ? 0 : boxes - filled;
    const double x = inside * ((1 - cut) * kTmaRow + cut * kTmaCutRow) + of_padding;
    return row * (dy.boxes * dy.cycles + filled * x + outside * kTmaOutsideRow);
  }
  const double summed = tile.k_bytes / element;
  const double cut = std::fmod(sizes.summed, summed) != 0 ? 1 / std::ceil(sizes.summed / summed) : 0;
  const double there = (1 - cut) * kTmaRow + cut * kTmaCutRow;
  const double pixels = tile.rows_of_c() * (inside * there + of_padding);
  const double scale = tile.k_bytes == sm90::kRowBytes ? 1 : 0.83;
  if (problem.direction == Direction::dgrad && element == 2) {
    const BoxRows filter = box_rows(sizes.columns, tile.columns_of_c(), row);
    return scale * (pixels + summed * filter.boxes * filter.cycles);
  }
  const double tiles = std::ceil(sizes.columns / tile.columns_of_c());
  const double outside = tiles > 1 ? tile.columns_of_c() - sizes.columns / tiles : 0;
  return scale * (pixels + sizes.columns / tiles * there + outside * kTmaOutsideRow);
}

// Cycles of TMA for a row of C that ends inside a sector of memory and fills less than half of a box.
double cycles_of_narrow_store(const Problem& problem) {
  constexpr double kCycles = 28;
  const TensorGeometry& out = output(problem);
  const std::int64_t bytes = out.dims[1] / problem.groups * data_type_bits(out.type) / 8;
  return problem.direction != Direction::wgrad && bytes < sm90::kRowBytes / 2 && bytes % 32 != 0 ? kCycles : 0;
}

// Whether pixels of a tensor that is read begin inside lines of memory.
bool reads_cut_lines(const Problem& problem) {
  const auto cuts = [](const TensorGeometry& t) {
    return t.dims[1] * data_type_bits(t.type) / 8 % sm90::kRowBytes != 0;
  };
  return (problem.direction != Direction::dgrad && cuts(problem.x)) ||
         (problem.direction != Direction::forward && cuts(problem.y));
}

// Clusters of 0 to 8 blocks that run at once, as an H200 of 132 multiprocessors told: a cluster stays within a group of
// at most 18, and some of a group's are missing.
double cluster_slots(int blocks, double multiprocessors) {
  constexpr double kClusters[sm90::kMaxClusterSplits + 1] = {132, 132, 66, 39, 30, 22, 17, 15, 15};
  return std::max(1.0, std::floor(kClusters[blocks] * multiprocessors / 132));
}

Footprint footprint_of(const Problem& problem, const sm90::TileShape& tile, const Sm90Work& work, int splits,
                       double columns, double tma_cycles, const DeviceRates& rates) {
  const double element = data_type_bits(problem.x.type) / 8.0;
  const double bk = (problem.direction == Direction::wgrad ? sm90::kRowBytes : tile.k_bytes) / element;
  Footprint f;
  f.tiles = work.tiles * splits;
  f.k_tiles = std::ceil(work.all_k / work.tiles / splits);
  f.flops = 2.0 * tile.bm * tile.bn * bk;
  f.flops_rate = element < 4 ? rates.half_flops : rates.tf32_flops;
  const bool transposes_filter = problem.direction == Direction::dgrad && element == 4;
  f.efficiency = tile.efficiency * kEfficiency;
  // Transposing boxes of which the channels fill a part takes as long as whole ones.
  const std::int64_t channels = problem.x.dims[1] / problem.groups;
  const bool partial_boxes = static_cast<double>(channels) * element < sm90::kRowBytes;
  if (tile.transposes && partial_boxes) f.efficiency *= kPartialBoxEfficiency;
  const double boxes = tile.bn * element / sm90::kRowBytes;
  if (skips_boxes(problem, tile) && columns < boxes) {
    const double all = tile.bm + tile.bn;
    f.efficiency *= std::max(1.0, kSkipEfficiency * all / (tile.bm + tile.bn * columns / boxes));
  }
  f.l2_bytes = (tile.bm + tile.bn) * bk * element;
  f.l2_efficiency = kL2Efficiency * (transposes_filter ? kTransposedL2Efficiency : 1) *
                    (tile.k_bytes == sm90::kRowBytes ? 1 : kNarrowL2Efficiency) *
                    (reads_cut_lines(problem) ? kCutLinesL2Efficiency : 1);
  f.tma_cycles = tma_cycles;
  f.tile_seconds = kTileSeconds;
  f.start_seconds = kStartSeconds + (transposes_filter ? kTransposeSeconds : 0);
  f.store_bytes = tile.bm * tile.bn * element;
  f.store_rate = kStoreRate;
  f.store_overlaps = tile.ping_pong;
  f.dram_bytes = bytes_of_tensors(problem);
  if (tile.stream_k) {
    f.tiles = rates.multiprocessors;
    f.k_tiles = work.longest_k * work.tiles / rates.multiprocessors;
    f.store_bytes = 0;
    f.tile_seconds += kFixupSeconds;
  } else if (tile.cluster_split_k) {
    f.slots = cluster_slots(splits, rates.multiprocessors) * splits;
    f.start_seconds = splits > 2 ? kClusterSeconds : kPairSeconds;
  } else if (splits > 1) {
    f.partial_bytes = 2.0 * f.tiles * tile.bm * tile.bn * sizeof(float);
    f.partial_rate = kPartialRate;
    f.reduce_seconds = problem.direction == Direction::wgrad ? kReduceLaunch : 2 * kReduceLaunch;
  }
  return f;
}

// Calls offer(splits) for the splits of the tile that are worth a try.
template <class Offer>
void for_each_split(const sm90::TileShape& tile, const Sm90Work& work, int multiprocessors, Offer offer) {
  constexpr double kMinKTiles = 4;        // of a split
  constexpr double kMinFixupKTiles = 40;  // of a tile
  constexpr int kMinFixupCtas = 8;
  if (tile.cluster_split_k) {
    // One round of clusters: their blocks do not stay for a second tile.
    for (int splits = 2; splits <= sm90::kMaxClusterSplits; ++splits) {
      if (work.longest_k / splits >= kMinKTiles && work.tiles <= cluster_slots(splits, multiprocessors)) offer(splits);
    }
    return;
  }
  if (tile.stream_k) {
    const int fixup_ctas = multiprocessors - static_cast<int>(std::min(work.tiles, 1e6));
    const bool fits = fixup_ctas >= kMinFixupCtas && fixup_ctas <= work.tiles;
    if (fits && work.longest_k >= kMinFixupKTiles && work.longest_k <= sm90::kMaxFixupKTiles) offer(fixup_ctas);
    return;
  }
  if (tile.swap_ab) return offer(1);
  offer_full_rounds(work.tiles, work.longest_k, multiprocessors, 1024, offer);
}

}  // namespace

std::uint32_t sm90_blocks(const Sm90Plan& plan, const Device& device) {
  const std::uint32_t items = plan.params.works.divisor * plan.params.splits;
  if (plan.params.fixup_ctas > 0) return items + plan.params.fixup_ctas;
  if (sm90::kShapes[plan.shape].cluster_split_k) return items;
  return std::min(static_cast<std::uint32_t>(device.multiprocessors), items);
}

sm90::Totals sm90_totals(const Sm90Plan& plan, std::uint32_t blocks) {
  const std::uint32_t m_tiles = plan.params.problem[0].m_tiles.divisor;
  const std::uint32_t n_tiles = plan.params.n_tiles.divisor;
  const std::uint32_t groups = plan.params.works.divisor / (m_tiles * n_tiles);
  return sm90::totals_of(sm90::kShapes[plan.shape], m_tiles, n_tiles, groups, blocks);
}

// The fused epilogue has them, so whatever else the call wants must be what that epilogue has.
std::size_t implicit_gemm_sm90_sums_workspace(const Problem& problem, const Config& config, const Device& device) {
  if (problem.direction != Direction::forward) return 0;
  const Sm90Plan plan = sm90_plan(problem, config);
  const bool is_common = kernels::gemm::is_common(plan.params.activation, true) &&
                         plan.params.activation.mode != kernels::gemm::Activation::swish;  // which depends on beta
  if (!plan.fuses || !sm90::has_channel_sums(sm90::kShapes[plan.shape]) || !is_common ||
      (problem.has_z != 0 && !plan.adds_boxes))
    return 0;
  const sm90::Totals totals = sm90_totals(plan, sm90_blocks(plan, device));
  return static_cast<std::size_t>(totals.rows) * static_cast<std::size_t>(problem.y.dims[1]) *
         sizeof(sm90::ChannelTotal);
}

void sm90_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  const DeviceRates& rates = device.rates;
  const Sm90Sizes sizes = sm90_sizes(problem);
  const double inside = share_inside(problem);
  const double narrow_row = cycles_of_narrow_row(problem) / rates.clock;
  const double narrow_store = cycles_of_narrow_store(problem) / rates.clock;
  for (int i = 0; i < sm90::kShapeCount; ++i) {
    const sm90::TileShape& tile = sm90::kShapes[i];
    if (!sm90_shape_fits(problem, tile)) continue;
    const Sm90Work work = work_of(problem, sizes, tile);
    const double tma_cycles = cycles_of_tma(problem, tile, sizes, inside);
    for_each_split(tile, work, std::max(rates.multiprocessors, 2), [&](int splits) {
      // TMA loads and stores by turns.
      const double waves = std::ceil(work.tiles * (tile.cluster_split_k ? 1 : splits) / rates.multiprocessors);
      const double loads =
          std::max(std::ceil(work.longest_k / splits) * tma_cycles / rates.clock, (tile.bm + tile.bn) * narrow_row);
      const double tma = rates.launch_seconds + waves * (loads + tile.rows_of_c() * narrow_store);
      Candidate candidate = {
          {.tile = i,
           .split_k = splits,
           .tile_name = kNames[static_cast<std::size_t>(i)].text,
           .sums_workspace = &implicit_gemm_sm90_sums_workspace},
          std::max(estimate(footprint_of(problem, tile, work, splits, sizes.columns, tma_cycles, rates), rates), tma),
          sizes.workspace};
      const auto tiles = static_cast<std::size_t>(work.tiles);
      if (tile.stream_k) {
        candidate.workspace += 2 * sm90::partial_bytes(tile, tiles);
      } else if (splits > 1 && !tile.cluster_split_k) {
        candidate.workspace += sm90::partial_bytes(tile, tiles * static_cast<std::size_t>(splits));
      }
      candidates->push_back(candidate);
    });
  }
}

}  // namespace gpudnn::conv
