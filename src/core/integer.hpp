// Whole numbers: division that rounds up, and the narrow ones that kernels' parameters have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gpudnn {

// Of numbers that are not negative.
[[nodiscard]] constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) noexcept { return (a + b - 1) / b; }
[[nodiscard]] constexpr std::int64_t round_up(std::int64_t value, std::int64_t unit) noexcept {
  return ceil_div(value, unit) * unit;
}

// The value is known to fit.
[[nodiscard]] constexpr std::uint32_t u32(std::int64_t value) noexcept { return static_cast<std::uint32_t>(value); }
[[nodiscard]] constexpr std::int32_t i32(std::int64_t value) noexcept { return static_cast<std::int32_t>(value); }

}  // namespace gpudnn
