// The 8-bit floating formats on the host (Micikevicius et al. 2022): E4M3, up to 448 and without an infinity, and E5M2,
// up to 57344. Rounded to nearest even; what lies beyond the greatest number, infinities too, becomes that number, as
// NVIDIA's conversion instructions do it. NaN stays NaN.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/data_type.hpp"

namespace gpudnn {

struct Float8E4M3 {
  std::uint8_t bits;
};
struct Float8E5M2 {
  std::uint8_t bits;
};

[[nodiscard]] constexpr bool is_float8(DataType type) noexcept {
  return type == GPUDNN_DATA_FP8_E4M3 || type == GPUDNN_DATA_FP8_E5M2;
}

[[nodiscard]] double to_double(Float8E4M3 value) noexcept;
[[nodiscard]] double to_double(Float8E5M2 value) noexcept;
template <>
[[nodiscard]] Float8E4M3 round_to<Float8E4M3>(double value) noexcept;
template <>
[[nodiscard]] Float8E5M2 round_to<Float8E5M2>(double value) noexcept;

}  // namespace gpudnn
