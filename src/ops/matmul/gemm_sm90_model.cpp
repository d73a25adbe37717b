// What a config of the Hopper matrix product costs: a footprint, and from it seconds.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <initializer_list>

#include "kernels/matmul/gemm_sm90.hpp"

namespace gpudnn::kernels::matmul::sm90 {
namespace {

using gemm::sm90::kRowBytes;

// Of an H200, measured (docs/perf-notes.md).
struct Rates {
  double matrix_flops = 800e12;  // 16-bit, sustained, of all multiprocessors
  double dram_bytes = 4.6e12;
  double l2_bytes = 14e12;           // to the shared memory of all multiprocessors
  double bytes_latency = 1.0e-6;     // from a copy's start to its end under load
  double launch_seconds = 5.0e-6;    // of a kernel whose code is in no cache
  double epilogue_seconds = 1.5e-6;  // of 128 x 256 elements of 16 bits, without a chain
  double pair_seconds = 0.4e-6;      // for blocks of a pair to meet
  double join_seconds = 1.5e-6;      // for blocks that share a reduction, and for each of them
  double split_seconds = 0.5e-6;
};

// What a multiprocessor does between the first load and the last store.
struct Footprint {
  double rounds = 0;      // work tiles of the multiprocessor with the most
  double k_tiles = 0;     // of a work tile
  double flops = 0;       // of a k tile
  double l2_bytes = 0;    // of a k tile
  double dram_bytes = 0;  // of the product
  double in_flight = 0;   // bytes of operands that all blocks have under way
  double filled = 1;      // part of a stage that exists: the rest is zeros that TMA writes
  double unevenness = 1;  // of the blocks' shares of the work
  double tile_elements = 0;
  int splits = 1;
  bool pairs = false;
  bool hides_epilogue = false;
  float efficiency = 1;
};

double divide_up(std::int64_t a, std::int64_t b) {
  const std::int64_t quotient = (a + b - 1) / b;
  return static_cast<double>(quotient);
}

Footprint footprint(const Gemm& gemm, const GemmConfig& config, int multiprocessors) {
  const TileShape& tile = kTiles[config.tile];
  const double batches = static_cast<double>(gemm.batch[0] * gemm.batch[1]);
  const int bytes = element_bytes(gemm.a.type);
  const int k_of_tile = kRowBytes / bytes;
  const bool pairs_m = config.multicast == Multicast::b;
  const bool pairs_n = config.multicast == Multicast::a;
  const double tiles_m = pairs_m ? 2 * divide_up(gemm.m, 2 * tile.bm) : divide_up(gemm.m, tile.bm);
  const double tiles_n = pairs_n ? 2 * divide_up(gemm.n, 2 * tile.bn) : divide_up(gemm.n, tile.bn);
  const double works = tiles_m * tiles_n * batches * config.splits;
  Footprint f;
  f.splits = config.splits;
  f.pairs = pairs_m || pairs_n;
  f.efficiency = tile.efficiency;
  f.tile_elements = tile.bm * tile.bn;
  // Large clusters do not fill every group of multiprocessors: measured, 32 of 4 blocks take two rounds where a block
  // has a multiprocessor to itself.
  const bool crowded = config.splits == 8 || (tile.residency == 1 && config.splits == 4);
  const double usable = crowded ? multiprocessors * (config.splits == 4 ? 0.91 : 0.85) : multiprocessors;
  f.rounds = std::ceil(works / usable);
  f.unevenness = f.rounds * usable / works;
  f.hides_epilogue = (tile.ping_pong && tile.consumers > 1 && f.rounds > 1) || tile.residency > 1;
  f.k_tiles = std::ceil(divide_up(gemm.k, k_of_tile) / config.splits);
  f.flops = 2.0 * tile.bm * tile.bn * k_of_tile;
  f.l2_bytes = kRowBytes * (tile.bm * (pairs_n ? 0.5 : 1.0) + tile.bn * (pairs_m ? 0.5 : 1.0));
  const double m = static_cast<double>(gemm.m);
  const double n = static_cast<double>(gemm.n);
  const double k = static_cast<double>(gemm.k);
  const double a_batches = batches / static_cast<double>(gemm.a.repeat[0] * gemm.a.repeat[1]);
  const double b_batches = batches / static_cast<double>(gemm.b.repeat[0] * gemm.b.repeat[1]);
  f.dram_bytes = bytes * k * (m * a_batches + n * b_batches) +
                 element_bytes(gemm.epilogue.d.type) * m * n * batches * (gemm.epilogue.beta != 0 ? 2 : 1);
  const double blocks = std::fmin(works, multiprocessors * tile.residency);
  const double rows = std::fmin(tile.bm, m) + std::fmin(tile.bn, n);
  f.filled = rows / (tile.bm + tile.bn);
  f.in_flight = blocks * std::fmin(tile.stages, f.k_tiles) * rows * kRowBytes;
  return f;
}

double estimate(const Footprint& f, int element_bytes, int multiprocessors, const Rates& rates) {
  // The matrix rate goes with the width of the elements.
  const double flops = rates.matrix_flops * 2 / element_bytes / multiprocessors * f.efficiency;
  const double l2 = rates.l2_bytes / multiprocessors;
  // Loads that hide behind the products still cost a tenth of their time: measured, pairs that share loads are faster.
  const double products = f.flops / flops;
  const double loads = f.l2_bytes / l2;
  const double k_tile = std::fmax(products, loads) + 0.1 * std::fmin(products, loads);
  const double epilogue = rates.epilogue_seconds * f.tile_elements / (128 * 256);
  const double tiles = f.rounds * f.k_tiles * k_tile + epilogue * (f.hides_epilogue ? 1 : f.rounds);
  // Few bytes under way leave the memory idle between them; an uneven last round leaves part of it idle, measured two
  // fifths.
  const double most = rates.dram_bytes * std::fmin(1.0, 1.2 * f.filled);
  const double rate = std::fmin(most, f.in_flight / rates.bytes_latency);
  const double dram = f.dram_bytes / rate * (1 + 0.4 * (f.unevenness - 1));
  const double joining = f.splits > 1 ? rates.join_seconds + rates.split_seconds * f.splits : 0;
  const double meeting = f.pairs ? rates.pair_seconds : 0;
  const double code = 1.0e-6 * f.tile_elements / (128 * 256);  // the larger the tile, the more of it is cold
  return rates.launch_seconds + rates.bytes_latency + std::fmax(tiles, dram) + 0.25 * std::fmin(tiles, dram) + joining +
         meeting + code;
}

}  // namespace

double gemm_sm90_seconds(const Gemm& gemm, const GemmConfig& config, int multiprocessors) noexcept {
  return estimate(footprint(gemm, config, multiprocessors), element_bytes(gemm.a.type), multiprocessors, Rates{});
}

int gemm_sm90_candidates(const Gemm& gemm, int multiprocessors, GemmConfig* configs, int most) noexcept {
  constexpr int kMaxCandidates = 64;
  double seconds[kMaxCandidates];
  int count = 0;
  const auto offer = [&](const GemmConfig& config) {
    if (unsupported_reason(gemm, config) != nullptr) return;
    const double mine = gemm_sm90_seconds(gemm, config, multiprocessors);
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
    for (const int splits : {2, 4, 8}) {
      config.splits = splits;
      if (tiles * splits <= multiprocessors * shape.residency) offer(config);
    }
  }
  return count;
}

}  // namespace gpudnn::kernels::matmul::sm90
