// What the convolutions through stored transforms (Winograd, Fourier) have in common: what a direction reads by windows
// and what it writes, taps, the rows of the workspace; and what their launches cost.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/device_rates.hpp"
#include "kernels/conv/winograd/batched_product_simt.hpp"
#include "ops/conv/problem.hpp"

namespace gpudnn::conv {

constexpr std::size_t kTransformAlignment = 16;

[[nodiscard]] constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) noexcept { return (a + b - 1) / b; }

// Rows of whole vectors.
[[nodiscard]] constexpr std::int64_t pitch_of(std::int64_t floats) noexcept { return ceil_div(floats, 4) * 4; }

[[nodiscard]] inline bool runs_along_channels(const TensorGeometry& t) noexcept {
  return t.dims[1] > 1 && (t.dims[3] == 1 || t.strides[1] < t.strides[3]);
}

// The image that windows read, and the one whose pixels have a window each.
[[nodiscard]] inline const TensorGeometry& windows_of(const Problem& p) noexcept {
  return p.direction == Direction::dgrad ? p.y : p.x;
}
[[nodiscard]] inline const TensorGeometry& pixels_of(const Problem& p) noexcept {
  return p.direction == Direction::dgrad ? p.x : p.y;
}

// From a pixel to the first element of its window.
[[nodiscard]] inline std::int32_t origin_of(const Problem& p, int axis) noexcept {
  const std::int64_t pad = p.pad[axis];
  return static_cast<std::int32_t>(p.direction == Direction::dgrad ? pad - (p.w.dims[2 + axis] - 1) : -pad);
}

// Strides of the taps; returns the offset of the first one. They run backwards in a mirrored filter and in the data
// gradient, but not in both.
[[nodiscard]] inline std::int64_t set_taps(const Problem& p, std::int64_t* r, std::int64_t* s) noexcept {
  *r = p.w.strides[2];
  *s = p.w.strides[3];
  const bool mirrored = p.mode == GPUDNN_CONVOLUTION;
  if (mirrored == (p.direction == Direction::dgrad)) return 0;
  const std::int64_t last = (p.w.dims[2] - 1) * *r + (p.w.dims[3] - 1) * *s;
  *r = -*r;
  *s = -*s;
  return last;
}

// A reason against any of them, or null.
[[nodiscard]] const char* transform_unsupported_reason(const Problem& problem);

[[nodiscard]] inline double bytes_of(const TensorGeometry& tensor) noexcept {
  return 4.0 * static_cast<double>(element_count(tensor));
}

// Bytes between two launches as if they came from memory: what fits the L2 takes less time.
[[nodiscard]] double resident_bytes(double bytes);
// What a call stores between its launches, in bytes.
struct TransformBytes {
  double filter = 0, data = 0, products = 0;  // the filter gradient's dy counts as filter
  double filled = 1;                          // share of data's and products' rows that are tiles; the others are zeros
};
// Seconds of the product.
[[nodiscard]] double batched_product_seconds(const kernels::winograd::BatchedProduct& product, int product_row,
                                             const TransformBytes& bytes, const DeviceRates& rates);
// Shares of the copy rate that transforms reach.
struct TransformRates {
  double images = 1, filter = 1;
};
// Seconds of all launches, with those of a chunk's product. `chunks` of the images take turns.
[[nodiscard]] double transform_seconds(const Problem& problem, double product, double chunks,
                                       const TransformBytes& bytes, const TransformRates& transform,
                                       const DeviceRates& rates);

}  // namespace gpudnn::conv
