// Data types: sizes, names and the storage formats that C++ lacks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "gpudnn/graph.h"

namespace gpudnn {

using Status = gpudnnStatus_t;
using DataType = gpudnnDataType_t;

// Bits of one element; a vector type such as INT8x4 counts as one element of its whole width. 0 for an unknown value.
[[nodiscard]] int data_type_bits(DataType type) noexcept;
// Scalars in one element: 4 for INT8x4 and UINT8x4, 32 for INT8x32, else 1.
[[nodiscard]] int data_type_lanes(DataType type) noexcept;
// The short name of the problem language: f32, f64, f16, bf16, i8 ...
[[nodiscard]] const char* data_type_name(DataType type) noexcept;
[[nodiscard]] std::optional<DataType> parse_data_type(std::string_view name) noexcept;

// The four types that every floating-point operation supports.
[[nodiscard]] constexpr bool is_floating(DataType type) noexcept {
  return type == GPUDNN_DATA_FLOAT || type == GPUDNN_DATA_DOUBLE || type == GPUDNN_DATA_HALF ||
         type == GPUDNN_DATA_BFLOAT16;
}

// IEEE binary16 as the host stores it; arithmetic happens in float.
struct Half {
  std::uint16_t bits;
  Half() = default;
  explicit Half(float value) noexcept;
  explicit operator float() const noexcept;
};

// bfloat16: the upper half of a float, rounded to nearest even.
struct BFloat16 {
  std::uint16_t bits;
  BFloat16() = default;
  explicit BFloat16(float value) noexcept;
  explicit operator float() const noexcept { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

// double -> T rounded once: a detour through float would round twice.
template <class T>
[[nodiscard]] inline T round_to(double value) noexcept {
  return static_cast<T>(value);
}
template <>
[[nodiscard]] Half round_to<Half>(double value) noexcept;
template <>
[[nodiscard]] BFloat16 round_to<BFloat16>(double value) noexcept;

template <class T>
[[nodiscard]] inline double to_double(T value) noexcept {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return static_cast<double>(static_cast<float>(value));
  } else {
    return static_cast<double>(value);
  }
}

// Calls f.template operator()<T>() with the storage type of `type`, which must be floating.
template <class F>
decltype(auto) with_floating_type(DataType type, F&& f) {
  switch (type) {
    case GPUDNN_DATA_DOUBLE:
      return f.template operator()<double>();
    case GPUDNN_DATA_HALF:
      return f.template operator()<Half>();
    case GPUDNN_DATA_BFLOAT16:
      return f.template operator()<BFloat16>();
    default:
      return f.template operator()<float>();
  }
}

}  // namespace gpudnn
