// What the filter gradients of images with few channels have in common: the problem in two dimensions, and what they
// leave to others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>

#include "core/integer.hpp"
#include "kernels/conv/wgrad_taps.hpp"
#include "ops/conv/problem.hpp"

namespace gpudnn::conv {

constexpr std::int64_t kMaxSmallCCount = std::numeric_limits<std::int32_t>::max() / 2;

// The problem in two dimensions; one of a single dimension has rows alone.
struct SmallCWgradView {
  std::int64_t images = 1, channels = 1, filters = 1;
  std::int64_t image_h = 1, image_w = 1, out_h = 1, out_w = 1, taps_h = 1, taps_w = 1;
  std::int64_t pad_h = 0, pad_w = 0, stride_h = 1, stride_w = 1;
  std::int64_t x_row = 16, x_image = 16;  // bytes
  std::int64_t dy_pixel = 16, dy_row = 16, dy_image = 16;

  // Octets of taps of a filter row, the last one perhaps in part.
  [[nodiscard]] std::int64_t row_octets() const { return ceil_div(taps_w * channels, kernels::kOctet); }
};

[[nodiscard]] SmallCWgradView small_c_wgrad_view(const Problem& problem);

[[nodiscard]] kernels::FilterTaps small_c_wgrad_taps(const Problem& problem, const SmallCWgradView& view);

// Null, or why no engine of these takes the problem, whatever it makes of shared memory.
[[nodiscard]] const char* small_c_wgrad_view_unsupported_reason(const Problem& problem);

}  // namespace gpudnn::conv
