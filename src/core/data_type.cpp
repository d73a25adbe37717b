// Data types: sizes, names and the storage formats that C++ lacks.
// SPDX-License-Identifier: Apache-2.0
#include "core/data_type.hpp"

#include <cmath>
#include <cstring>
#include <iterator>

namespace gpudnn {
namespace {

struct Row {
  const char* name;
  int bits;
  int lanes;
};

// Indexed by gpudnnDataType_t.
constexpr Row kTypes[] = {
    {"f32", 32, 1},   {"f64", 64, 1},   {"f16", 16, 1},     {"i8", 8, 1},     {"i32", 32, 1},   {"i8x4", 32, 4},
    {"u8", 8, 1},     {"u8x4", 32, 4},  {"i8x32", 256, 32}, {"bf16", 16, 1},  {"i64", 64, 1},   {"bool", 8, 1},
    {"f8e4m3", 8, 1}, {"f8e5m2", 8, 1}, {"f32fp8", 32, 1},  {"f8e8m0", 8, 1}, {"f4e2m1", 4, 1}, {"i4", 4, 1},
    {"u4", 4, 1},     {"u32", 32, 1},   {"c64", 64, 1},     {"c128", 128, 1},
};
static_assert(std::size(kTypes) == GPUDNN_DATA_COMPLEX_FP64 + 1, "one row for each gpudnnDataType_t");

const Row* row(DataType type) noexcept {
  const auto index = static_cast<std::size_t>(type);
  return index < std::size(kTypes) ? &kTypes[index] : nullptr;
}

// Rounds a double to a binary format with `mantissa` stored bits and exponents of `min_exponent` (smallest normal) up;
// the result is exact in double, so one rounding to nearest even happens here and none after.
double round_mantissa(double value, int mantissa, int min_exponent) noexcept {
  if (value == 0.0 || !std::isfinite(value)) return value;
  const int exponent = std::max(std::ilogb(value), min_exponent);
  const double quantum = std::ldexp(1.0, exponent - mantissa);
  return std::nearbyint(value / quantum) * quantum;
}

}  // namespace

int data_type_bits(DataType type) noexcept { return row(type) ? row(type)->bits : 0; }
int data_type_lanes(DataType type) noexcept { return row(type) ? row(type)->lanes : 0; }
const char* data_type_name(DataType type) noexcept { return row(type) ? row(type)->name : "unknown"; }

std::optional<DataType> parse_data_type(std::string_view name) noexcept {
  for (std::size_t i = 0; i < std::size(kTypes); ++i) {
    if (name == kTypes[i].name) return static_cast<DataType>(i);
  }
  return std::nullopt;
}

Half::Half(float value) noexcept {
  const auto f = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (f >> 16) & 0x8000u;
  const std::uint32_t magnitude = f & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {  // NaN stays NaN
    bits = static_cast<std::uint16_t>(sign | 0x7e00u);
  } else if (magnitude >= 0x477ff000u) {  // 65520 and above round to infinity
    bits = static_cast<std::uint16_t>(sign | 0x7c00u);
  } else if (magnitude >= 0x38800000u) {  // normal: rebias, round to nearest even on the 13 dropped bits
    const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    bits = static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
  } else {  // subnormal: adding 0.5 aligns the mantissa to the quantum 2^-24, and the FPU rounds
    const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
    bits = static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(aligned) - 0x3f000000u));
  }
}

Half::operator float() const noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  if (magnitude >= 0x0400u) return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
  const float subnormal = static_cast<float>(magnitude) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(subnormal));
}

BFloat16::BFloat16(float value) noexcept {
  const auto f = std::bit_cast<std::uint32_t>(value);
  if ((f & 0x7fffffffu) > 0x7f800000u) {
    bits = static_cast<std::uint16_t>((f >> 16) | 0x40u);
  } else {
    bits = static_cast<std::uint16_t>((f + 0x7fffu + ((f >> 16) & 1u)) >> 16);
  }
}

template <>
Half round_to<Half>(double value) noexcept {
  return Half(static_cast<float>(round_mantissa(value, 10, -14)));
}
template <>
BFloat16 round_to<BFloat16>(double value) noexcept {
  return BFloat16(static_cast<float>(round_mantissa(value, 7, -126)));
}

}  // namespace gpudnn
