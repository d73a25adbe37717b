// Launcher of the mma.sync convolution of integers.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/integer/integer_sm80.hpp"

#include <cmath>

#include "core/cost_model.hpp"
#include "core/launch/launch.hpp"
#include "ops/conv/engine.hpp"
#include "ops/conv/extents.hpp"
#include "ops/conv/integer/integer_params.hpp"
#include "ops/conv/tile_names.hpp"

namespace gpudnn::conv {
namespace {

namespace integer = kernels::integer;

struct Prepared {
  Problem problem;
  integer::Params params;
  int tile = 0;
  int vector = 16;
};

constexpr auto kNames = tile_names(integer::kSm80Tiles, [](const integer::Sm80Tile& tile) {
  return TileName().add("bm", tile.bm).add("_bn", tile.bn);
});

Support supports(const Problem& problem, const Device& device) {
  if (device.compute_capability() < 80) return Support::no("mma.sync of 8-bit integers, k = 32, came with sm_80");
  if (!is_integer(problem)) return Support::no("it multiplies integers");
  if (!channels_in_vectors(problem, 4)) return Support::no("channels of a group do not come in aligned vectors of 4");
  if (const char* const reason = integer_index_unsupported_reason(problem)) return Support::no(reason);
  return Support::yes();
}

void candidates(const Problem& problem, const Device& device, std::vector<Candidate>* found) {
  const double filters = static_cast<double>(problem.w.dims[0] / problem.groups);
  const auto pixels = static_cast<double>(problem.y.dims[0] * pixels_of(problem.y));
  const auto taps = static_cast<double>(taps_of(problem));
  const bool by_16 = channels_in_vectors(problem, 16);
  for (int tile = 0; tile < integer::kSm80TileCount; ++tile) {
    const integer::Sm80Tile& shape = integer::kSm80Tiles[tile];
    constexpr double kStage = integer::kSm80Chunk * integer::kSm80ChunksOfStage;
    Footprint f;
    f.tiles = std::ceil(pixels / shape.bm) * std::ceil(filters / shape.bn) * problem.groups;
    f.k_tiles = std::ceil(std::ceil(static_cast<double>(problem.w.dims[1]) / integer::kSm80Chunk) * taps /
                          integer::kSm80ChunksOfStage);
    f.resident = tile == 0 ? 2 : 4;
    f.flops = 2.0 * shape.bm * shape.bn * kStage;
    f.flops_rate = 2 * device.rates.mma_half_flops;
    f.efficiency = (tile == 0 ? 0.3 : 0.2) * (by_16 ? 1.0 : 0.4);
    f.tile_seconds = 3e-6 * shape.bm * shape.bn / 16384;
    f.start_seconds = 5e-6;  // of cold code
    f.l2_bytes = (shape.bm + shape.bn) * kStage;
    f.dram_bytes = bytes_of_tensors(problem);
    found->push_back(
        {{.tile = tile, .tile_name = kNames[static_cast<std::size_t>(tile)].text}, estimate(f, device.rates), 0});
  }
}

std::shared_ptr<const void> prepare(const Problem& problem, const Config& config, const Device&) {
  auto prepared = std::make_shared<Prepared>();
  prepared->problem = problem;
  prepared->params = integer_params(problem);
  set_chunks(integer::kSm80Chunk, &prepared->params);
  prepared->tile = config.tile;
  prepared->vector = channels_in_vectors(problem, 16) ? 16 : 4;
  return prepared;
}

Status launch(const LaunchSite& site, const void* opaque, const Args& args) {
  const auto& prepared = *static_cast<const Prepared*>(opaque);
  integer::Params p = prepared.params;
  p.x = static_cast<const std::int8_t*>(args.x);
  p.w = static_cast<const std::int8_t*>(args.w);
  p.y = args.out;
  set_integer_epilogue(prepared.problem, args, &p);
  integer::launch_sm80(prepared.tile, prepared.vector, p, site.stream);
  return cuda::launch_status("integer_sm80");
}

}  // namespace

extern const ConvEngine kIntegerSm80 = {.name = "integer_sm80",
                                        .math = GPUDNN_TENSOR_OP_MATH,
                                        .alignment = 16,
                                        .supports = &supports,
                                        .candidates = &candidates,
                                        .prepare = &prepare,
                                        .launch = &launch};

}  // namespace gpudnn::conv
