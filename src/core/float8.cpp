// The 8-bit floating formats on the host.
// SPDX-License-Identifier: Apache-2.0
#include "core/float8.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gpudnn {
namespace {

struct Format {
  int mantissa;           // stored bits
  int bias;               // of the exponent
  std::uint8_t greatest;  // the finite number, by its bits
  std::uint8_t nan;
};
constexpr Format kE4M3 = {3, 7, 0x7e, 0x7f};
constexpr Format kE5M2 = {2, 15, 0x7b, 0x7f};

double magnitude_of(const Format& format, unsigned bits) noexcept {
  const int exponent = static_cast<int>(bits >> format.mantissa);
  const int fraction = static_cast<int>(bits) & ((1 << format.mantissa) - 1);
  const int whole = exponent == 0 ? fraction : fraction + (1 << format.mantissa);
  return std::ldexp(whole, std::max(exponent, 1) - format.bias - format.mantissa);
}

double decode(const Format& format, std::uint8_t bits) noexcept {
  const unsigned magnitude = bits & 0x7fu;
  double value = magnitude_of(format, magnitude);
  if (magnitude > format.greatest) {
    const bool infinite = format.mantissa == 2 && magnitude == 0x7c;
    value = infinite ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  return (bits & 0x80u) != 0 ? -value : value;
}

// In units of the last place, counted from 0: neighbours in bits are neighbours in value, so a carry is right.
std::uint8_t encode(const Format& format, double value) noexcept {
  const unsigned sign = std::signbit(value) ? 0x80u : 0u;
  if (std::isnan(value)) return static_cast<std::uint8_t>(sign | format.nan);
  const double magnitude = std::abs(value);
  unsigned bits = format.greatest;
  if (magnitude < magnitude_of(format, format.greatest)) {
    const int least = 1 - format.bias;
    const int exponent = magnitude > 0 ? std::max(std::ilogb(magnitude), least) : least;
    const auto units = static_cast<unsigned>(std::nearbyint(std::ldexp(magnitude, format.mantissa - exponent)));
    // A normal number's units hold the leading 1, which stands for one more in the exponent.
    bits = std::min<unsigned>((static_cast<unsigned>(exponent - least) << format.mantissa) + units, format.greatest);
  }
  return static_cast<std::uint8_t>(sign | bits);
}

}  // namespace

double to_double(Float8E4M3 value) noexcept { return decode(kE4M3, value.bits); }
double to_double(Float8E5M2 value) noexcept { return decode(kE5M2, value.bits); }

template <>
Float8E4M3 round_to<Float8E4M3>(double value) noexcept {
  return {encode(kE4M3, value)};
}
template <>
Float8E5M2 round_to<Float8E5M2>(double value) noexcept {
  return {encode(kE5M2, value)};
}

}  // namespace gpudnn
