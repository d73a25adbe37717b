// Launcher of the fused Winograd convolution: problem -> parameters -> launch.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "core/cost_model.hpp"
#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/transform_params.hpp"
#include "ops/conv/winograd/winograd_simt_params.hpp"

namespace gpudnn::conv {
namespace {

namespace winograd = kernels::winograd;

constexpr const char* kTileName = "f2x3_bk64_bt32";
constexpr double kStep = 4;  // channels of a k tile
constexpr double kPoints = 16;
constexpr double kEfficiency = 0.3;      // share of the multiply-add rate
constexpr double kStepLatency = 0.7e-6;  // of a k tile, alone on its multiprocessor

struct Prepared {
  winograd::FusedParams params;
  Direction direction = Direction::forward;
  std::int64_t first_tap = 0;
};

Support supports(const Problem& problem, const Device&) {
  if (problem.direction == Direction::wgrad) return Support::no("it has no filter gradient (winograd_simt does)");
  return {winograd_unsupported_reason(problem)};
}

// Those of F(2x2, 3x3) through the workspace, with all tiles at once.
WinogradLaunch whole_launch(const Problem& problem) {
  Config config;
  config.tile = winograd::kProductTileCount;
  return winograd_launch(problem, config);
}

void candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  const WinogradLaunch l = whole_launch(problem);
  Footprint f;
  f.tiles = std::ceil(static_cast<double>(l.tiles) / winograd::kFusedTiles) *
            std::ceil(static_cast<double>(l.filter.outer_count) / winograd::kFusedChannels) * problem.groups;
  f.k_tiles = std::ceil(l.filter.inner_count / kStep);
  f.flops = 2 * kPoints * winograd::kFusedTiles * winograd::kFusedChannels * kStep;
  f.flops_rate = device.rates.fma_flops;
  f.efficiency = kEfficiency;
  f.warps = 8;
  f.k_tile_latency = kStepLatency;
  f.wave_seconds = 3e-6;
  f.start_seconds = 5e-6;
  f.dram_bytes = bytes_of_tensors(problem);
  Config config;
  config.tile_name = kTileName;
  candidates->push_back({config, estimate(f, device.rates), 0});
}

std::shared_ptr<const void> prepare(const Problem& problem, const Config&, const Device&) {
  const WinogradLaunch l = whole_launch(problem);
  auto prepared = std::make_shared<Prepared>();
  prepared->params = {l.data, l.filter, l.output};
  prepared->params.data.tiles.count = prepared->params.output.tiles.count = static_cast<std::int32_t>(l.tiles);
  prepared->direction = problem.direction;
  prepared->first_tap = l.first_tap;
  return prepared;
}

Status launch(const LaunchSite& site, const void* state, const Args& args) {
  const auto& prepared = *static_cast<const Prepared*>(state);
  winograd::FusedParams p = prepared.params;
  p.data.in = static_cast<const float*>(prepared.direction == Direction::forward ? args.x : args.y);
  p.filter.in = static_cast<const float*>(args.w) + prepared.first_tap;
  p.output.out = args.out;
  p.output.vectors = p.output.vectors && reinterpret_cast<std::uintptr_t>(args.out) % 8 == 0;
  set_epilogue(args, &p.output);
  winograd::launch_fused(p, site.stream);
  return cuda::launch_status("winograd_fused_simt");
}

}  // namespace

extern const ConvEngine kWinogradFusedSimt = {.name = "winograd_fused_simt",
                                              .family = Family::winograd,
                                              .supports = &supports,
                                              .candidates = &candidates,
                                              .prepare = &prepare,
                                              .launch = &launch};

}  // namespace gpudnn::conv
