// The launcher of the general matrix product kernel.
// SPDX-License-Identifier: Apache-2.0
#include "ops/matmul/gemm_simt.hpp"

#include <algorithm>

#include "core/integer.hpp"
#include "kernels/matmul/gemm_simt.hpp"
#include "ops/matmul/any_strides.hpp"
#include "ops/matmul/element.hpp"
#include "ops/matmul/footprint.hpp"

namespace gpudnn::matmul {
namespace {

namespace k = kernels::matmul;

struct Prepared {
  AnyStrides any;
  int tile = 0;
};

int tile_index(const Config& config) {
  for (int i = 0; i < k::kGemmSimtTileCount; ++i) {
    if (config.starts_with(k::kGemmSimtTiles[i].name)) return i;
  }
  return -1;
}

Unit unit_of(DataType type) { return type == GPUDNN_DATA_DOUBLE ? Unit::fma_f64 : Unit::fma_f32; }

// Of the rate, measured on large products of floats; smaller tiles read shared memory more often. A tile that is alone
// on its multiprocessor waits for its loads, and elements that are no floats are converted.
constexpr double kEfficiency[] = {0.72, 0.5, 0.25};
constexpr double kAlone[] = {0.65, 0.38, 0.2};
constexpr double kConverted = 0.6;
constexpr int kTogether[] = {1, 3, 4};
constexpr double kTileSeconds = 2e-6;

Footprint footprint_of(const Problem& problem, int tile, bool swapped, const DeviceRates& rates) {
  const k::GemmSimtTile& shape = k::kGemmSimtTiles[tile];
  const std::int64_t m = swapped ? columns(problem) : rows(problem);
  const std::int64_t n = swapped ? rows(problem) : columns(problem);
  const std::int64_t down = ceil_div(m, shape.m);
  const std::int64_t across = ceil_div(n, shape.n);
  const auto bytes = static_cast<double>(data_type_bits(problem.a.type)) / 8;
  const auto tiles = static_cast<double>(down * across * batches(problem));
  const double flops = 2.0 * tiles * shape.m * shape.n *
                       static_cast<double>(round_up(std::max<std::int64_t>(depth(problem), 1), k::kGemmSimtDepth));
  const double l2_bytes = tiles * (shape.m + shape.n) * static_cast<double>(depth(problem)) * bytes;
  Footprint f =
      footprint_of_tiles(unit_of(problem.a.type), rates, tiles, kTogether[tile], flops, l2_bytes, kTileSeconds);
  f.dram_bytes = bytes_of_tensors(problem);
  const bool converts = problem.a.type != GPUDNN_DATA_FLOAT && problem.a.type != GPUDNN_DATA_DOUBLE;
  const double share = problem.a.type == GPUDNN_DATA_INT8 ? 0.5 : converts ? kConverted : 1;
  f.efficiency = kEfficiency[tile] * share;
  f.k_tile_latency = f.flops / (f.flops_rate / rates.multiprocessors * kAlone[tile] * share);
  return f;
}

}  // namespace

Support gemm_simt_supports(const Problem&, const Device&) { return Support::yes(); }

void gemm_simt_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  const bool usual = is_columnwise(problem.d);
  for (int tile = 0; tile < k::kGemmSimtTileCount; ++tile) {
    if (!k::gemm_simt_has(element_of(problem.a.type), tile)) continue;
    const std::string name = k::kGemmSimtTiles[tile].name;
    candidates->push_back(
        {usual ? name + " swap" : name, estimate(footprint_of(problem, tile, usual, device.rates), device.rates)});
    // The other way round only where the tile is not square and fits better so.
    const std::int64_t down = usual ? columns(problem) : rows(problem);
    const std::int64_t across = usual ? rows(problem) : columns(problem);
    if (k::kGemmSimtTiles[tile].m != k::kGemmSimtTiles[tile].n && across <= k::kGemmSimtTiles[tile].m &&
        across < down) {
      candidates->push_back(
          {usual ? name : name + " swap", estimate(footprint_of(problem, tile, !usual, device.rates), device.rates)});
    }
  }
}

std::size_t gemm_simt_workspace(const Problem&, const Config&, const Device&) { return 0; }

std::shared_ptr<const void> gemm_simt_prepare(const Problem& problem, const Config& config, const Device&) {
  auto prepared = std::make_shared<Prepared>();
  prepared->tile = tile_index(config);
  if (prepared->tile < 0 || !k::gemm_simt_has(element_of(problem.a.type), prepared->tile)) return nullptr;
  prepared->any = any_strides(problem, config.ends_with(" swap"), 0);
  return prepared;
}

Status gemm_simt_launch(const LaunchSite& site, const void* prepared_plan, const Args& args) {
  const auto& prepared = *static_cast<const Prepared*>(prepared_plan);
  k::launch_gemm_simt(with_pointers(prepared.any, args), prepared.tile, site.stream);
  return cuda::launch_status("gemm_simt");
}

}  // namespace gpudnn::matmul
