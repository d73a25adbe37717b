// The footprints of convolutions through stored transforms: of each launch one of its own.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/transform_params.hpp"

#include <cmath>

#include "core/cost_model.hpp"
#include "ops/conv/padding.hpp"

namespace gpudnn::conv {
namespace {

namespace winograd = kernels::winograd;

constexpr double kProductLatency = 0.35e-6;  // of a k tile, with its barrier
constexpr double kWaveSeconds = 0.3e-6;      // prologue and epilogue of a wave of blocks
constexpr double kStartSeconds = 1.0e-6;     // of each launch
constexpr double kResidentBytes = 25e6;      // of a transform that the next launch finds in the L2 ...
constexpr double kResidentShare = 0.65;      // ... at this share of the time from memory
constexpr double kZerosShare = 0.5;          // of a copy's time: rows of zeros, which are written alone

}  // namespace

const char* transform_unsupported_reason(const Problem& p) {
  const bool is_float = p.x.type == GPUDNN_DATA_FLOAT && p.w.type == GPUDNN_DATA_FLOAT && p.y.type == GPUDNN_DATA_FLOAT;
  if (!is_float) return "it takes f32 only";
  if (p.spatial != 2) return "it takes two spatial dimensions only";
  for (int i = 0; i < 2; ++i) {
    if (p.stride[i] != 1 || p.dilation[i] != 1) return "the stride or the dilation is not 1";
    if (p.pad[i] > 1 << 20) return "a padding of more than 2^20";
  }
  if (const char* const against = uneven_padding_unsupported_reason(p)) return against;
  if (p.groups > 65535) return "more than 65535 groups";
  for (const TensorGeometry* t : {&p.x, &p.y}) {
    if (t->dims[1] > 65535) return "more than 65535 channels";
    if (t->dims[2] >= 1 << 24 || t->dims[3] >= 1 << 24) return "an image of 2^24 pixels or more along a side";
  }
  return nullptr;
}

double resident_bytes(double bytes) { return bytes < kResidentBytes ? kResidentShare * bytes : bytes; }

double batched_product_seconds(const winograd::BatchedProduct& product, int product_row, const TransformBytes& bytes,
                               const DeviceRates& rates) {
  const winograd::ProductRow& row = winograd::kProductTiles[product_row];
  Footprint f;
  f.tiles = std::ceil(static_cast<double>(product.m) / row.bm) * std::ceil(static_cast<double>(product.n) / row.bn) *
            product.batches * product.splits;
  f.resident = row.min_blocks;
  f.k_tiles = std::ceil(static_cast<double>(product.k_per_split) / winograd::kProductTileK);
  f.warps = row.threads() / 32.0;
  f.latency_warps = 3;
  f.flops = 2.0 * row.bm * row.bn * winograd::kProductTileK;
  f.flops_rate = rates.fma_flops;
  f.efficiency = row.efficiency;
  f.k_tile_latency = kProductLatency;
  f.wave_seconds = kWaveSeconds;
  f.start_seconds = kStartSeconds;
  f.shown = 0.3;
  f.dram_bytes = resident_bytes(bytes.filter + bytes.data + bytes.products);
  return estimate(f, rates);
}

double transform_seconds(const Problem& p, double product, double chunks, const TransformBytes& bytes,
                         const TransformRates& transform, const DeviceRates& rates) {
  const auto pass = [&](double tensor, double transformed, double rate, double zeros = 0) {
    const double copied = (tensor + resident_bytes(transformed)) / rate + kZerosShare * zeros;
    return rates.launch_seconds + kStartSeconds + copied / rates.copy_bytes;
  };
  const auto images = [&](double tensor, double transformed, double zeros) {
    return pass(tensor, transformed, transform.images, zeros);
  };
  const auto filter = [&](double transformed) { return pass(bytes_of(p.w), transformed, transform.filter); };
  const double data = bytes.filled * bytes.data;
  const double zeros = bytes.data - data;
  if (p.direction == Direction::wgrad) {
    const double dy = bytes.filled * bytes.filter;
    return chunks * (images(bytes_of(p.y) / chunks, dy, bytes.filter - dy) +
                     images(bytes_of(p.x) / chunks, data, zeros) + product) +
           filter(bytes.products);
  }
  const double addends = p.has_z != 0 ? bytes_of(p.z) : 0;
  return filter(bytes.filter) +
         chunks * (images(bytes_of(windows_of(p)) / chunks, data, zeros) + product +
                   images((bytes_of(pixels_of(p)) + addends) / chunks, bytes.filled * bytes.products, 0));
}

}  // namespace gpudnn::conv
