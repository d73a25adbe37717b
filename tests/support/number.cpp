// The tests' own reading and rounding of the library's number formats, written apart from the library's.
// SPDX-License-Identifier: Apache-2.0
#include "support/number.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

namespace gpudnn::test {
namespace {

// Of an exponent that a normal double has.
double power_of_two(int exponent) { return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52); }

// A 16-bit format as the ascending list of its non-negative finite values: index = bit pattern.
struct SmallFormat {
  int mantissa_bits;
  int bias;
  std::vector<double> values;

  SmallFormat(int mantissa, int exponent_bits) : mantissa_bits(mantissa), bias((1 << (exponent_bits - 1)) - 1) {
    const int infinity = ((1 << exponent_bits) - 1) << mantissa;
    for (int bits = 0; bits < infinity; ++bits) {
      const int exponent = bits >> mantissa;
      const double fraction = static_cast<double>(bits & ((1 << mantissa) - 1)) / (1 << mantissa);
      values.push_back(exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias));
    }
  }

  [[nodiscard]] std::uint16_t nearest(double value) const {
    const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
    const auto infinity = static_cast<std::uint16_t>(values.size());
    if (std::isnan(value)) return static_cast<std::uint16_t>(sign | infinity | (1u << (mantissa_bits - 1)));
    const double magnitude = std::fabs(value);
    if (std::isinf(magnitude)) return static_cast<std::uint16_t>(sign | infinity);
    // In units of the last place, which are those of the least normal number below it; both roundings are exact but the
    // one to an integer, which takes the even one of two.
    // (Of a subnormal double the exponent field is 0, which the greater of the two makes good.)
    const auto field = static_cast<int>(std::bit_cast<std::uint64_t>(magnitude) >> 52);
    const int exponent = std::max(field - 1023, 1 - bias);
    const double units = std::nearbyint(magnitude * power_of_two(mantissa_bits - exponent));
    const double index = (exponent + bias - 1) * power_of_two(mantissa_bits) + units;
    return static_cast<std::uint16_t>(sign | (index < infinity ? static_cast<std::uint16_t>(index) : infinity));
  }

  [[nodiscard]] double value(std::uint16_t bits) const {
    const std::size_t magnitude = bits & 0x7fffu;
    const double unsigned_value = magnitude < values.size()    ? values[magnitude]
                                  : magnitude == values.size() ? std::numeric_limits<double>::infinity()
                                                               : std::numeric_limits<double>::quiet_NaN();
    return (bits & 0x8000u) != 0 ? -unsigned_value : unsigned_value;
  }
};

const SmallFormat& half() {
  static const SmallFormat format(10, 5);
  return format;
}
const SmallFormat& bfloat16() {
  static const SmallFormat format(7, 8);
  return format;
}

// An 8-bit format as its non-negative finite values: index = bit pattern. It has `greatest` + 1 of them.
struct TinyFormat {
  std::vector<double> values;
  bool has_infinity;

  TinyFormat(int mantissa, int bias, int greatest) : has_infinity(mantissa == 2) {
    for (int bits = 0; bits <= greatest; ++bits) {
      const int exponent = bits >> mantissa;
      const double fraction = static_cast<double>(bits & ((1 << mantissa) - 1)) / (1 << mantissa);
      values.push_back(exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias));
    }
  }

  // The nearest, of two equally near ones the even one; never beyond the last.
  [[nodiscard]] std::uint8_t nearest(double value) const {
    const auto sign = static_cast<std::uint8_t>(std::signbit(value) ? 0x80 : 0);
    if (std::isnan(value)) return static_cast<std::uint8_t>(sign | 0x7f);
    const double magnitude = std::min(std::fabs(value), values.back());
    const auto above = std::lower_bound(values.begin(), values.end(), magnitude);
    auto index = static_cast<std::size_t>(above - values.begin());
    if (index > 0) {
      const double up = values[index] - magnitude;
      const double down = magnitude - values[index - 1];
      if (down < up || (down == up && index % 2 == 1)) --index;
    }
    return static_cast<std::uint8_t>(sign | index);
  }

  [[nodiscard]] double value(std::uint8_t bits) const {
    const std::size_t magnitude = bits & 0x7fu;
    const bool infinite = has_infinity && magnitude == values.size();
    const double unsigned_value = magnitude < values.size() ? values[magnitude]
                                  : infinite                ? std::numeric_limits<double>::infinity()
                                                            : std::numeric_limits<double>::quiet_NaN();
    return (bits & 0x80u) != 0 ? -unsigned_value : unsigned_value;
  }
};

const TinyFormat& e4m3() {
  static const TinyFormat format(3, 7, 0x7e);
  return format;
}
const TinyFormat& e5m2() {
  static const TinyFormat format(2, 15, 0x7b);
  return format;
}

// To nearest even, held at the ends of the range.
template <class T>
T to_integer(double value) {
  if (std::isnan(value)) return 0;
  return static_cast<T>(std::nearbyint(std::clamp(value, static_cast<double>(std::numeric_limits<T>::min()),
                                                  static_cast<double>(std::numeric_limits<T>::max()))));
}

template <class T>
void store(T value, void* place) {
  std::memcpy(place, &value, sizeof value);
}
template <class T>
T load(const void* place) {
  T value;
  std::memcpy(&value, place, sizeof value);
  return value;
}

[[noreturn]] void unknown(gpudnnDataType_t type) {
  throw std::logic_error("the tests have no format of data type " + std::to_string(static_cast<int>(type)));
}

}  // namespace

std::size_t element_size(gpudnnDataType_t type) {
  switch (type) {
    case GPUDNN_DATA_DOUBLE:
    case GPUDNN_DATA_INT64:
      return 8;
    case GPUDNN_DATA_FLOAT:
    case GPUDNN_DATA_INT32:
      return 4;
    case GPUDNN_DATA_HALF:
    case GPUDNN_DATA_BFLOAT16:
      return 2;
    case GPUDNN_DATA_INT8:
    case GPUDNN_DATA_UINT8:
    case GPUDNN_DATA_FP8_E4M3:
    case GPUDNN_DATA_FP8_E5M2:
      return 1;
    default:
      unknown(type);
  }
}

void encode(double value, gpudnnDataType_t type, void* place) {
  switch (type) {
    case GPUDNN_DATA_DOUBLE:
      return store(value, place);
    case GPUDNN_DATA_FLOAT:
      return store(static_cast<float>(value), place);
    case GPUDNN_DATA_HALF:
      return store(half().nearest(value), place);
    case GPUDNN_DATA_BFLOAT16:
      return store(bfloat16().nearest(value), place);
    case GPUDNN_DATA_INT64:
      return store(static_cast<std::int64_t>(value), place);
    case GPUDNN_DATA_INT32:
      return store(to_integer<std::int32_t>(value), place);
    case GPUDNN_DATA_INT8:
      return store(to_integer<std::int8_t>(value), place);
    case GPUDNN_DATA_UINT8:
      return store(to_integer<std::uint8_t>(value), place);
    case GPUDNN_DATA_FP8_E4M3:
      return store(e4m3().nearest(value), place);
    case GPUDNN_DATA_FP8_E5M2:
      return store(e5m2().nearest(value), place);
    default:
      unknown(type);
  }
}

double decode(const void* place, gpudnnDataType_t type) {
  switch (type) {
    case GPUDNN_DATA_DOUBLE:
      return load<double>(place);
    case GPUDNN_DATA_FLOAT:
      return static_cast<double>(load<float>(place));
    case GPUDNN_DATA_HALF:
      return half().value(load<std::uint16_t>(place));
    case GPUDNN_DATA_BFLOAT16:
      return bfloat16().value(load<std::uint16_t>(place));
    case GPUDNN_DATA_INT64:
      return static_cast<double>(load<std::int64_t>(place));
    case GPUDNN_DATA_INT32:
      return load<std::int32_t>(place);
    case GPUDNN_DATA_INT8:
      return load<std::int8_t>(place);
    case GPUDNN_DATA_UINT8:
      return load<std::uint8_t>(place);
    case GPUDNN_DATA_FP8_E4M3:
      return e4m3().value(load<std::uint8_t>(place));
    case GPUDNN_DATA_FP8_E5M2:
      return e5m2().value(load<std::uint8_t>(place));
    default:
      unknown(type);
  }
}

double round_to_type(double value, gpudnnDataType_t type) {
  unsigned char bytes[8];
  encode(value, type, bytes);
  return decode(bytes, type);
}

double unit_roundoff(gpudnnDataType_t type) {
  switch (type) {
    case GPUDNN_DATA_DOUBLE:
      return 0x1p-53;
    case GPUDNN_DATA_FLOAT:
      return 0x1p-24;
    case GPUDNN_DATA_HALF:
      return 0x1p-11;
    case GPUDNN_DATA_BFLOAT16:
      return 0x1p-8;
    default:
      return 0;
  }
}

double greatest_finite(gpudnnDataType_t type) {
  switch (type) {
    case GPUDNN_DATA_DOUBLE:
      return std::numeric_limits<double>::max();
    case GPUDNN_DATA_FLOAT:
      return static_cast<double>(std::numeric_limits<float>::max());
    case GPUDNN_DATA_HALF:
      return half().values.back();
    case GPUDNN_DATA_BFLOAT16:
      return bfloat16().values.back();
    default:
      unknown(type);
  }
}

}  // namespace gpudnn::test
