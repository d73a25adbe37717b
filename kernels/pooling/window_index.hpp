// Which elements a pooling window covers, and which windows cover an element. Plain data and index arithmetic.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/tile/fast_divmod.cuh"

namespace gpudnn::kernels {

// Positions from `begin` up to but not including `end`; none where end <= begin.
struct Range {
  std::int32_t begin;
  std::int32_t end;
};

// Depth, height, width; a missing dimension has extent 1, window 1, stride 1 and no padding.
struct WindowShape {
  std::int32_t window[3] = {1, 1, 1};
  std::int32_t pad[3] = {};
  std::int32_t stride[3] = {1, 1, 1};
  std::int32_t x[3] = {1, 1, 1};  // extents of the image
  std::int32_t y[3] = {1, 1, 1};  // and of the windows' grid
  tile::FastDivmod by_stride[3];

  // Call once the numbers above are set.
  void finish() {
    for (int i = 0; i < 3; ++i) by_stride[i] = tile::FastDivmod(static_cast<std::uint32_t>(stride[i]));
  }

  // The elements of window `index` of dimension `dim` that lie inside the image.
  GPUDNN_HOST_DEVICE Range elements(int dim, std::int32_t index) const {
    // 64 bits: the window and the padding may each come close to 2^31.
    const std::int64_t start = static_cast<std::int64_t>(index) * stride[dim] - pad[dim];
    const std::int64_t end = start + window[dim];
    const std::int64_t begin = start < 0 ? 0 : start < x[dim] ? start : x[dim];
    return {static_cast<std::int32_t>(begin), static_cast<std::int32_t>(end < x[dim] ? end : x[dim])};
  }

  // The positions of window `index` that lie inside the padded image: what an average with padding divides by.
  GPUDNN_HOST_DEVICE std::int32_t padded_extent(int dim, std::int32_t index) const {
    const std::int64_t start = static_cast<std::int64_t>(index) * stride[dim] - pad[dim];
    const std::int64_t left = static_cast<std::int64_t>(x[dim]) + pad[dim] - start;
    return static_cast<std::int32_t>(left < 0 ? 0 : left < window[dim] ? left : window[dim]);
  }

  // The number of windows in dimension `dim` that lie inside the padded image.
  [[nodiscard]] GPUDNN_HOST_DEVICE std::int64_t whole_windows(int dim) const {
    const std::int64_t rest = static_cast<std::int64_t>(x[dim]) + 2 * static_cast<std::int64_t>(pad[dim]) - window[dim];
    return rest < 0 ? 0 : rest / stride[dim] + 1;
  }

  // The windows that cover element `position`: their first elements are position - window + 1 to position.
  GPUDNN_HOST_DEVICE Range windows(int dim, std::int32_t position) const {
    const auto count = static_cast<std::uint32_t>(y[dim]);
    const auto length = static_cast<std::uint32_t>(window[dim]);
    const std::uint32_t padded = static_cast<std::uint32_t>(position) + static_cast<std::uint32_t>(pad[dim]);  // < 2^32
    // The last window that ends before the element, and the last that begins no later than it.
    const std::uint32_t begin = padded < length ? 0 : divide(dim, padded - length) + 1;
    const std::uint32_t end = divide(dim, padded) + 1;
    return {static_cast<std::int32_t>(begin < count ? begin : count),
            static_cast<std::int32_t>(end < count ? end : count)};
  }

  [[nodiscard]] GPUDNN_HOST_DEVICE std::int64_t x_plane() const {
    return static_cast<std::int64_t>(x[0]) * x[1] * x[2];
  }
  [[nodiscard]] GPUDNN_HOST_DEVICE std::int64_t y_plane() const {
    return static_cast<std::int64_t>(y[0]) * y[1] * y[2];
  }

 private:
  // For all 32 bits, where FastDivmod takes 31: the quotient of the half, doubled, is at most one short.
  GPUDNN_HOST_DEVICE std::uint32_t divide(int dim, std::uint32_t value) const {
    const std::uint32_t quotient = 2 * by_stride[dim].quotient(value / 2);
    return quotient + (value - quotient * by_stride[dim].divisor >= by_stride[dim].divisor ? 1 : 0);
  }
};

// True if y has as many windows as lie inside the padded image, the extents that the floor formula gives.
[[nodiscard]] inline bool has_floor_extents(const WindowShape& shape) {
  return shape.y[0] == shape.whole_windows(0) && shape.y[1] == shape.whole_windows(1) &&
         shape.y[2] == shape.whole_windows(2);
}

// True if no window extends past the padding, so that an average with padding divides by the window's volume.
[[nodiscard]] inline bool has_whole_windows(const WindowShape& shape) {
  return shape.y[0] <= shape.whole_windows(0) && shape.y[1] <= shape.whole_windows(1) &&
         shape.y[2] <= shape.whole_windows(2);
}

// The windows that kernels know at compile time, 2x2/2, 3x3/2 and 3x3/1, in two dimensions. Each touches the image.
[[nodiscard]] inline bool has_fixed_window(const WindowShape& shape) {
  for (int i = 0; i < 3; ++i) {
    if (shape.x[i] < 1 || shape.y[i] < 1) return false;
    if (static_cast<std::int64_t>(shape.y[i] - 1) * shape.stride[i] - shape.pad[i] >= shape.x[i]) return false;
  }
  if (shape.x[0] != 1 || shape.y[0] != 1 || shape.window[0] != 1 || shape.pad[0] != 0) return false;
  const std::int32_t window = shape.window[1], step = shape.stride[1];
  return shape.window[2] == window && shape.stride[2] == step && shape.pad[1] < window && shape.pad[2] < window &&
         ((window == 2 && step == 2) || (window == 3 && (step == 2 || step == 1)));
}

}  // namespace gpudnn::kernels
