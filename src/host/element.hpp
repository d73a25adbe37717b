// What every host operation does with one element: how it is written, and how an index becomes an offset.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/geometry.hpp"

namespace gpudnn::host {

// *out = value + beta * *out, rounded once; beta == 0 never reads the output. `value` carries alpha already.
template <class T>
inline void store(T* out, double value, double beta) noexcept {
  *out = round_to<T>(beta == 0 ? value : value + beta * to_double(*out));
}

// The offset of element `index`, counted in row-major order of the dims. The strides may belong to another tensor of
// the same dims, and be 0 along a dimension that it is repeated along.
[[nodiscard]] inline std::int64_t offset_of(std::int64_t index, int rank, const std::int64_t* dims,
                                            const std::int64_t* strides) noexcept {
  std::int64_t offset = 0;
  for (int i = rank - 1; i >= 0; --i) {
    offset += index % dims[i] * strides[i];
    index /= dims[i];
  }
  return offset;
}

// Elements that pay for a thread, for work of about `cost` simple steps for each.
[[nodiscard]] inline std::int64_t grain_for(std::int64_t cost) noexcept {
  constexpr std::int64_t kStepsThatPay = 20000;
  return cost >= kStepsThatPay ? 1 : kStepsThatPay / (cost > 0 ? cost : 1);
}

}  // namespace gpudnn::host
