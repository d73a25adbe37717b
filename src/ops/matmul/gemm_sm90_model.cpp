// What a config of the Hopper matrix product costs: a footprint for the cost model.
// SPDX-License-Identifier: Apache-2.0
#include "ops/matmul/gemm_sm90_model.hpp"

#include <cmath>
#include <initializer_list>

#include "ops/matmul/footprint.hpp"

namespace gpudnn::kernels::matmul::sm90 {
namespace {

using gemm::sm90::kRowBytes;

double divide_up(std::int64_t a, std::int64_t b) {
  const std::int64_t quotient = (a + b - 1) / b;
  return static_cast<double>(quotient);
}

gpudnn::matmul::Unit unit_of(Element type) {
  using gpudnn::matmul::Unit;
  const int bytes = element_bytes(type);
  return bytes == 4 ? Unit::tensor_tf32 : bytes == 2 ? Unit::tensor_f16 : Unit::tensor_8bit;
}

// Bytes of the operands, each once, and of D.
double tensor_bytes(const Gemm& gemm) {
  const double batches = static_cast<double>(gemm.batch[0] * gemm.batch[1]);
  const double m = static_cast<double>(gemm.m);
  const double n = static_cast<double>(gemm.n);
  const double a_batches = batches / static_cast<double>(gemm.a.repeat[0] * gemm.a.repeat[1]);
  const double b_batches = batches / static_cast<double>(gemm.b.repeat[0] * gemm.b.repeat[1]);
  return element_bytes(gemm.a.type) * static_cast<double>(gemm.k) * (m * a_batches + n * b_batches) +
         element_bytes(gemm.epilogue.d.type) * m * n * batches * (gemm.epilogue.beta != 0 ? 2 : 1);
}

}  // namespace

Footprint footprint_of(const Gemm& gemm, const GemmConfig& config, const DeviceRates& rates, const Costs& costs,
                       const TileShape* shapes) noexcept {
  const TileShape& tile = shapes[config.tile];
  const int k_of_tile = kRowBytes / element_bytes(gemm.a.type);
  const bool pairs_m = config.multicast == Multicast::b;
  const bool pairs_n = config.multicast == Multicast::a;
  const double tiles_m = pairs_m ? 2 * divide_up(gemm.m, 2 * tile.bm) : divide_up(gemm.m, tile.bm);
  const double tiles_n = pairs_n ? 2 * divide_up(gemm.n, 2 * tile.bn) : divide_up(gemm.n, tile.bn);
  const double tile_elements = tile.bm * tile.bn;
  Footprint f;
  f.tiles = tiles_m * tiles_n * static_cast<double>(gemm.batch[0] * gemm.batch[1]) * config.splits;
  f.resident = tile.residency;
  // Large clusters do not fill every group of multiprocessors: measured, 32 of 4 blocks take two rounds where a block
  // has a multiprocessor to itself.
  const bool crowded = config.splits == 8 || (tile.residency == 1 && config.splits == 4);
  f.slots = rates.multiprocessors * (crowded ? costs.crowded : 1);
  f.k_tiles = std::ceil(divide_up(gemm.k, k_of_tile) / config.splits);
  f.flops = 2 * tile_elements * k_of_tile;
  f.flops_rate = gpudnn::matmul::flops_rate(unit_of(gemm.a.type), rates);
  const bool pairs = pairs_m || pairs_n;
  f.efficiency = tile.efficiency;
  f.l2_bytes = kRowBytes * (tile.bm * (pairs_n ? costs.multicast : 1) * (gemm.a.mn_major ? costs.mn_major : 1) +
                            tile.bn * (pairs_m ? costs.multicast : 1) * (gemm.b.mn_major ? costs.mn_major : 1));
  f.l2_efficiency = costs.l2_efficiency;
  f.k_tile_latency = costs.load_latency / tile.stages;
  f.tile_seconds = costs.tile_seconds;
  f.store_bytes = tile_elements * element_bytes(gemm.epilogue.d.type);
  f.store_rate = costs.store_rate;
  const double rounds = std::ceil(f.tiles / f.slots);
  f.store_overlaps = (tile.ping_pong && tile.consumers > 1 && rounds > 1) || tile.residency > 1;
  // Stages that are half zeros and uneven last rounds leave the memory idle.
  const double rows = std::fmin(tile.bm, static_cast<double>(gemm.m)) + std::fmin(tile.bn, static_cast<double>(gemm.n));
  const double filled = std::fmin(1.0, costs.filled * rows / (tile.bm + tile.bn));
  const double uneven = rounds * f.slots / f.tiles - 1;
  f.dram_bytes = tensor_bytes(gemm) / filled * (1 + costs.uneven * uneven);
  f.shown = costs.shown;
  f.start_seconds = costs.start_seconds + costs.load_latency + costs.code_seconds * tile_elements / (128 * 256);
  const double join = tile.swap_ab ? costs.swap_ab_join_seconds + costs.swap_ab_split_seconds * config.splits
                      : config.splits == 2 && gemm::sm90::exchanges_halves(tile)
                          ? costs.halves_seconds
                          : costs.join_seconds + costs.split_seconds * config.splits;
  f.reduce_seconds = (config.splits > 1 ? join : 0) + (pairs ? costs.pair_seconds : 0);
  return f;
}

double gemm_sm90_seconds(const Gemm& gemm, const GemmConfig& config, const DeviceRates& rates) noexcept {
  return estimate(footprint_of(gemm, config, rates), rates);
}

int gemm_sm90_candidates(const Gemm& gemm, const DeviceRates& rates, GemmConfig* configs, int most) noexcept {
  constexpr int kMaxCandidates = 64;
  double seconds[kMaxCandidates];
  int count = 0;
  const auto offer = [&](const GemmConfig& config) {
    if (unsupported_reason(gemm, config) != nullptr) return;
    const double mine = gemm_sm90_seconds(gemm, config, rates);
    int at = count < most && count < kMaxCandidates ? count++ : count;
    if (at == count && (count == 0 || seconds[count - 1] <= mine)) return;
    if (at == count) --at;
    for (; at > 0 && seconds[at - 1] > mine; --at) {
      seconds[at] = seconds[at - 1];
      configs[at] = configs[at - 1];
    }
    seconds[at] = mine;
    configs[at] = config;
  };
  for (int tile = 0; tile < kTileCount; ++tile) {
    GemmConfig config;
    config.tile = tile;
    for (const Multicast multicast : {Multicast::b, Multicast::a, Multicast::none}) {
      config.multicast = multicast;
      offer(config);
    }
    // Blocks that share a tile do not stay for another one.
    const TileShape& shape = kTiles[tile];
    const double tiles =
        divide_up(gemm.m, shape.bm) * divide_up(gemm.n, shape.bn) * static_cast<double>(gemm.batch[0] * gemm.batch[1]);
    for (const int splits : {2, 3, 4, 8}) {
      config.splits = splits;
      if (tiles * splits <= rates.multiprocessors * shape.residency) offer(config);
    }
  }
  return count;
}

}  // namespace gpudnn::kernels::matmul::sm90
