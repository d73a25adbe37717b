// Launcher of the dp4a convolution of integers. Images are taken in portions whose pixels count in 30 bits.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/cost_model.hpp"
#include "core/launch/launch.hpp"
#include "ops/conv/engine.hpp"
#include "ops/conv/extents.hpp"
#include "ops/conv/integer/integer_params.hpp"

namespace gpudnn::conv {
namespace {

namespace integer = kernels::integer;

constexpr std::uint32_t kWord = 4;  // channels

struct Prepared {
  Problem problem;
  integer::Params params;
  bool words_possible = false;
  std::int64_t images = 0;
  std::int64_t images_at_once = 0;
};

Support supports(const Problem& problem, const Device&) {
  if (!is_integer(problem)) return Support::no("it multiplies integers");
  Problem one = problem;
  one.y.dims[0] = 1;
  return {integer_index_unsupported_reason(one)};
}

void candidates(const Problem& problem, const Device& device, std::vector<Candidate>* found) {
  constexpr double kTile = 64;
  constexpr double kStep = 32;  // of k
  const double pixels = static_cast<double>(pixels_of(problem.y) * problem.y.dims[0]);
  const double filters = static_cast<double>(problem.w.dims[0] / problem.groups);
  const double words = std::ceil(static_cast<double>(problem.w.dims[1]) / kWord);
  double taps = 1;
  for (int i = 0; i < problem.spatial; ++i) taps *= static_cast<double>(problem.w.dims[2 + i]);
  Footprint f;
  f.tiles = std::ceil(pixels / kTile) * std::ceil(filters / kTile) * problem.groups;
  f.k_tiles = std::ceil(words * taps * kWord / kStep);
  f.flops = 2 * kTile * kTile * kStep;
  f.flops_rate = 2 * device.rates.fma_flops;  // dp4a: 4 products, at half the rate of fma
  f.efficiency = 0.4;
  f.dram_bytes = bytes_of_tensors(problem);
  found->push_back({{.tile_name = "bm64_bn64"}, estimate(f, device.rates), 0});
}

std::shared_ptr<const void> prepare(const Problem& problem, const Config&, const Device&) {
  constexpr std::int64_t kMaxPixels = std::int64_t{1} << 30;
  auto prepared = std::make_shared<Prepared>();
  prepared->problem = problem;
  prepared->params = integer_params(problem);
  set_chunks(kWord, &prepared->params);
  prepared->words_possible = channels_in_vectors(problem, kWord);
  prepared->images = problem.y.dims[0];
  prepared->images_at_once = std::max<std::int64_t>(1, kMaxPixels / pixels_of(problem.y));
  return prepared;
}

Status launch(const LaunchSite& site, const void* opaque, const Args& args) {
  const auto& prepared = *static_cast<const Prepared*>(opaque);
  const std::int64_t pixels = pixels_of(prepared.problem.y);
  integer::Params p = prepared.params;
  set_integer_epilogue(prepared.problem, args, &p);
  const bool is_aligned =
      (reinterpret_cast<std::uintptr_t>(args.x) | reinterpret_cast<std::uintptr_t>(args.w)) % 4 == 0;
  const std::int64_t bytes = integer::out_bytes(p.epilogue.out);
  const auto* const addend = static_cast<const char*>(p.addend);
  p.w = static_cast<const std::int8_t*>(args.w);
  for (std::int64_t first = 0; first < prepared.images; first += prepared.images_at_once) {
    const std::int64_t images = std::min(prepared.images_at_once, prepared.images - first);
    p.pixels = static_cast<std::uint32_t>(images * pixels);
    p.x = static_cast<const std::int8_t*>(args.x) + first * p.x_at.image;
    p.y = static_cast<char*>(args.out) + first * p.y_at.image * bytes;
    if (p.epilogue.adds) p.addend = addend + first * p.addend_at.image * bytes;
    integer::launch_simt(p, prepared.words_possible && is_aligned, site.stream);
  }
  return cuda::launch_status("integer_simt");
}

}  // namespace

extern const ConvEngine kIntegerSimt = {
    .name = "integer_simt", .supports = &supports, .candidates = &candidates, .prepare = &prepare, .launch = &launch};

}  // namespace gpudnn::conv
