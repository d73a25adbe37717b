// The launcher of the matrix product by mma.sync.
// SPDX-License-Identifier: Apache-2.0
#include "ops/matmul/gemm_sm80.hpp"

#include <algorithm>

#include "core/cost_model.hpp"
#include "core/integer.hpp"
#include "core/math_type.hpp"
#include "kernels/matmul/gemm_sm80.hpp"
#include "ops/matmul/any_strides.hpp"

namespace gpudnn::matmul {
namespace {

namespace k = kernels::matmul;

struct Prepared {
  AnyStrides any;
  int tile = 0;
};

// Whether neighbours in k are the closest ones in memory: what the kernel then calls along_k.
bool is_along_k(const TensorGeometry& tensor, int row, int depth) {
  return tensor.dims[depth] > 1 && (tensor.dims[row] == 1 || tensor.strides[depth] <= tensor.strides[row]);
}

int tile_index(const Config& config) {
  for (int i = 0; i < k::kGemmSm80TileCount; ++i) {
    if (config == k::kGemmSm80Tiles[i].name) return i;
  }
  return -1;
}

// Of the rate of mma.sync, and cycles of a k tile that is alone on its multiprocessor; measured on an H200.
constexpr double kEfficiency[] = {0.21, 0.17};
constexpr double kLatencyCycles[] = {3000, 1100};
constexpr double kTileSeconds = 3e-6;
constexpr double kStartSeconds = 3e-6;

double mma_rate(const Problem& problem, const DeviceRates& rates) {
  switch (data_type_bits(problem.a.type)) {
    case 32:
      return rates.mma_tf32_flops;
    case 16:
      return rates.mma_half_flops;
    default:
      return 2 * rates.mma_half_flops;
  }
}

Footprint footprint_of(const Problem& problem, int tile, const Device& device) {
  const k::GemmSm80Tile& shape = k::kGemmSm80Tiles[tile];
  const double bytes = data_type_bits(problem.a.type) / 8.0;
  const auto k_tile = static_cast<std::int64_t>(k::kGemmSm80DepthBytes / bytes);
  const auto tiles =
      static_cast<double>(ceil_div(rows(problem), shape.m) * ceil_div(columns(problem), shape.n) * batches(problem));
  const double flops = 2.0 * tiles * shape.m * shape.n *
                       static_cast<double>(round_up(std::max<std::int64_t>(depth(problem), 1), k_tile));
  const double l2_bytes = tiles * (shape.m + shape.n) * static_cast<double>(depth(problem)) * bytes;
  Footprint f;
  f.tiles = tiles;
  f.resident = tile == 0 ? 1 : 2;
  f.k_tiles = static_cast<double>(ceil_div(std::max<std::int64_t>(depth(problem), 1), k_tile));
  f.flops = flops / tiles / f.k_tiles;
  f.flops_rate = mma_rate(problem, device.rates);
  f.efficiency = kEfficiency[tile];
  f.l2_bytes = l2_bytes / tiles / f.k_tiles;
  f.k_tile_latency = kLatencyCycles[tile] / device.rates.clock;
  f.tile_seconds = kTileSeconds;
  f.dram_bytes = bytes_of_tensors(problem);
  f.start_seconds = kStartSeconds;
  return f;
}

}  // namespace

Support gemm_sm80_supports(const Problem& problem, const Device& device) {
  if (device.compute_capability() < 80) return Support::no("it needs compute capability 8.0");
  if (problem.math == GPUDNN_FMA_MATH) return Support::no("the math type rules out tensor cores");
  switch (problem.a.type) {
    case GPUDNN_DATA_HALF:
    case GPUDNN_DATA_BFLOAT16:
      break;
    case GPUDNN_DATA_FLOAT:
      if (!allows_tf32(problem.math)) return Support::no("floats need a math type that allows TF32");
      break;
    case GPUDNN_DATA_INT8: {
      const int last = problem.d.rank - 1;
      if (!is_along_k(problem.a, last - 1, last) || !is_along_k(problem.b, last, last - 1)) {
        return Support::no("operands of i8 must be contiguous along k");
      }
      break;
    }
    default:
      return Support::no("mma.sync from Ampere on takes f16, bf16, TF32 and i8");
  }
  if (!device.is_present()) return Support::yes();
  static const bool available = k::gemm_sm80_available();
  return available ? Support::yes() : Support::no("the build has no code for compute capability 8.0 or later");
}

void gemm_sm80_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  for (int tile = 0; tile < k::kGemmSm80TileCount; ++tile) {
    candidates->push_back({k::kGemmSm80Tiles[tile].name, estimate(footprint_of(problem, tile, device), device.rates)});
  }
}

std::size_t gemm_sm80_workspace(const Problem&, const Config&, const Device&) { return 0; }

std::shared_ptr<const void> gemm_sm80_prepare(const Problem& problem, const Config& config, const Device&) {
  auto prepared = std::make_shared<Prepared>();
  prepared->tile = tile_index(config);
  if (prepared->tile < 0) return nullptr;
  prepared->any = any_strides(problem, is_columnwise(problem.d), 16);
  return prepared;
}

Status gemm_sm80_launch(const LaunchSite& site, const void* prepared_plan, const Args& args) {
  const auto& prepared = *static_cast<const Prepared*>(prepared_plan);
  k::launch_gemm_sm80(with_pointers(prepared.any, args), prepared.tile, site.stream);
  return cuda::launch_status("gemm_sm80");
}

}  // namespace gpudnn::matmul
