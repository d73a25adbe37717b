// The 8-bit floating types by integer arithmetic, for the host and for devices without the instructions.
//
//   e4m3  bias 7, 3 bits of mantissa, greatest 448, no infinity; 0x7f and 0xff are NaN
//   e5m2  bias 15, 2 bits of mantissa, greatest 57344, infinity 0x7c: the upper half of an f16
//
// From float: rounded to nearest even; what lies beyond the greatest number, infinity too, becomes the greatest number
// (cvt.rn.satfinite), a NaN 0x7f.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/tile/fast_divmod.cuh"

namespace gpudnn::tile {

GPUDNN_HOST_DEVICE float float_of_bits(std::uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
GPUDNN_HOST_DEVICE std::uint32_t bits_of_float(float value) {
  std::uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

// `kMantissa` stored bits, exponents biased by `kBias`, the greatest number `kMax`.
template <int kMantissa, int kBias, int kMax>
GPUDNN_HOST_DEVICE std::uint8_t fp8_of_float(float value) {
  constexpr int kDropped = 23 - kMantissa;
  constexpr std::uint32_t kLeastNormal = static_cast<std::uint32_t>(127 - kBias + 1) << 23;
  const std::uint32_t all = bits_of_float(value);
  const std::uint32_t sign = all >> 24 & 0x80u;
  const std::uint32_t magnitude = all & 0x7fffffffu;
  std::uint32_t result;
  if (magnitude > 0x7f800000u) {
    result = 0x7f;
  } else if (magnitude >= bits_of_float(static_cast<float>(kMax))) {
    result = kMantissa == 3 ? 0x7e : 0x7b;
  } else if (magnitude >= kLeastNormal) {
    const std::uint32_t rounded = magnitude + ((1u << (kDropped - 1)) - 1u) + (magnitude >> kDropped & 1u);
    result = (rounded - (static_cast<std::uint32_t>(127 - kBias) << 23)) >> kDropped;
  } else {
    // Subnormal: the sum with a power of two whose last bit is the spacing is rounded by the adder.
    constexpr std::uint32_t kAligner = static_cast<std::uint32_t>(127 - kBias + 1 + kDropped) << 23;
    result = bits_of_float(float_of_bits(magnitude) + float_of_bits(kAligner)) - kAligner;
  }
  return static_cast<std::uint8_t>(sign | result);
}

template <int kMantissa, int kBias>
GPUDNN_HOST_DEVICE float float_of_fp8(std::uint8_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80u) << 24;
  const std::uint32_t magnitude = bits & 0x7fu;
  if (kMantissa == 3 ? magnitude == 0x7f : magnitude > 0x7c) return float_of_bits(sign | 0x7fc00000u);
  if (kMantissa == 2 && magnitude == 0x7c) return float_of_bits(sign | 0x7f800000u);
  // The bits as those of a float are the number times 2^-(127 - bias), subnormal ones too.
  constexpr std::uint32_t kScale = static_cast<std::uint32_t>(127 + 127 - kBias) << 23;
  const std::uint32_t shifted = magnitude << (23 - kMantissa);
  return float_of_bits(sign | bits_of_float(float_of_bits(shifted) * float_of_bits(kScale)));
}

GPUDNN_HOST_DEVICE std::uint8_t e4m3_of_float(float value) { return fp8_of_float<3, 7, 448>(value); }
GPUDNN_HOST_DEVICE std::uint8_t e5m2_of_float(float value) { return fp8_of_float<2, 15, 57344>(value); }
GPUDNN_HOST_DEVICE float float_of_e4m3(std::uint8_t bits) { return float_of_fp8<3, 7>(bits); }
GPUDNN_HOST_DEVICE float float_of_e5m2(std::uint8_t bits) { return float_of_fp8<2, 15>(bits); }

// The float next to value towards zero, its last bit set unless it is value itself: rounded once more to fewer bits, it
// gives what value would have given.
GPUDNN_HOST_DEVICE float odd_float(double value) {
  const float nearest = static_cast<float>(value);
  if (nearest != nearest || static_cast<double>(nearest) == value) return nearest;
  std::uint32_t bits = bits_of_float(nearest);
  const bool beyond = nearest > 0 ? static_cast<double>(nearest) > value : static_cast<double>(nearest) < value;
  if (beyond && nearest != 0) --bits;
  return float_of_bits(bits | 1u);
}

}  // namespace gpudnn::tile
