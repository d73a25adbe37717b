// Products of extents.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/problem.hpp"

namespace gpudnn::conv {

[[nodiscard]] inline std::int64_t taps_of(const Problem& problem) noexcept {
  std::int64_t taps = 1;
  for (int i = 0; i < problem.spatial; ++i) taps *= problem.w.dims[2 + i];
  return taps;
}

// Of an image.
[[nodiscard]] inline std::int64_t pixels_of(const TensorGeometry& tensor) noexcept {
  std::int64_t pixels = 1;
  for (int i = 2; i < tensor.rank; ++i) pixels *= tensor.dims[i];
  return pixels;
}

}  // namespace gpudnn::conv
