// Data types: the table, and the conversions of half and bfloat16 against the definitions of the formats.
// SPDX-License-Identifier: Apache-2.0
#include "core/data_type.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>

namespace gpudnn {
namespace {

// A 16-bit format by its definition: sign, `exponent` bits, `mantissa` bits, IEEE 754 rules.
struct Format {
  int mantissa;
  int bias;
  int infinity;  // the bits of +infinity

  [[nodiscard]] double value(int bits) const {
    const double sign = (bits & 0x8000) != 0 ? -1 : 1;
    const int magnitude = bits & 0x7fff;
    if (magnitude == infinity) return sign * std::numeric_limits<double>::infinity();
    if (magnitude > infinity) return std::numeric_limits<double>::quiet_NaN();
    const int exponent = magnitude >> mantissa;
    const int fraction = magnitude & ((1 << mantissa) - 1);
    if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - mantissa);
    return sign * std::ldexp((1 << mantissa) + fraction, exponent - bias - mantissa);
  }

  // The nearest value by search: among two neighbours the nearer, on a tie the one with an even last bit.
  [[nodiscard]] int nearest(double x) const {
    const int sign = std::signbit(x) ? 0x8000 : 0;
    const double magnitude = std::abs(x);
    int low = 0;
    int high = infinity;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (value(middle) <= magnitude ? low : high) = middle;
    }
    if (std::isinf(magnitude)) return sign | infinity;
    // Infinity takes the place of the next value that the format would have.
    const double above = high == infinity ? 2 * value(infinity - 1) - value(infinity - 2) : value(high);
    const double to_low = magnitude - value(low);
    const double to_high = above - magnitude;
    if (to_low == to_high) return sign | (low % 2 == 0 ? low : high);
    return sign | (to_low < to_high ? low : high);
  }
};

constexpr Format kHalf = {10, 15, 0x7c00};
constexpr Format kBFloat16 = {7, 127, 0x7f80};

template <class T>
T from_bits(int bits) {
  T value;
  value.bits = static_cast<std::uint16_t>(bits);
  return value;
}

template <class T>
void check_all_values(const Format& format) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    const double expected = format.value(bits);
    const auto as_float = static_cast<float>(from_bits<T>(bits));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(as_float)) << bits;
      ASSERT_TRUE(std::isnan(to_double(T(as_float)))) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(as_float), expected) << bits;
    ASSERT_EQ(std::signbit(as_float), (bits & 0x8000) != 0) << bits;
    ASSERT_EQ(T(as_float).bits, bits);
    ASSERT_EQ(round_to<T>(expected).bits, bits);
  }
}

TEST(DataType, HalfRoundTripsEveryValue) { check_all_values<Half>(kHalf); }
TEST(DataType, BFloat16RoundTripsEveryValue) { check_all_values<BFloat16>(kBFloat16); }

// Each midpoint of two neighbours, and the doubles and floats right beside it.
template <class T>
void check_ties(const Format& format) {
  for (int bits = 0; bits + 1 < format.infinity; ++bits) {
    const double middle = (format.value(bits) + format.value(bits + 1)) / 2;
    const int even = bits % 2 == 0 ? bits : bits + 1;
    ASSERT_EQ(round_to<T>(middle).bits, even) << bits;
    ASSERT_EQ(round_to<T>(-middle).bits, even | 0x8000) << bits;
    ASSERT_EQ(round_to<T>(std::nextafter(middle, 0.0)).bits, bits) << "a detour through float would round this up";
    ASSERT_EQ(round_to<T>(std::nextafter(middle, 1e300)).bits, bits + 1);
    const auto narrow = static_cast<float>(middle);
    if (static_cast<double>(narrow) != middle) continue;  // below float's own range
    ASSERT_EQ(T(narrow).bits, even) << bits;
    ASSERT_EQ(T(std::nextafter(narrow, 0.0f)).bits, bits);
    ASSERT_EQ(T(std::nextafter(narrow, std::numeric_limits<float>::infinity())).bits, bits + 1);
  }
}

TEST(DataType, HalfRoundsTiesToEven) { check_ties<Half>(kHalf); }
TEST(DataType, BFloat16RoundsTiesToEven) { check_ties<BFloat16>(kBFloat16); }

template <class T>
void check_random(const Format& format) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 200000; ++i) {
    const auto number = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isnan(number)) continue;
    ASSERT_EQ(T(number).bits, format.nearest(number)) << number;
    ASSERT_EQ(round_to<T>(number).bits, format.nearest(number)) << number;
    // A double in the range of the format, with all of its digits.
    const double fine =
        std::ldexp(1.0 + static_cast<double>(random() >> 12) * 0x1p-52, static_cast<int>(random() % 40) - 26);
    ASSERT_EQ(round_to<T>(fine).bits, format.nearest(fine)) << fine;
  }
}

TEST(DataType, HalfOfRandomNumbersIsTheNearest) { check_random<Half>(kHalf); }
TEST(DataType, BFloat16OfRandomNumbersIsTheNearest) { check_random<BFloat16>(kBFloat16); }

TEST(DataType, OverflowAndUnderflow) {
  EXPECT_EQ(Half(65519.0f).bits, 0x7bff);
  EXPECT_EQ(Half(65520.0f).bits, 0x7c00);
  EXPECT_EQ(round_to<Half>(65519.999999).bits, 0x7bff);
  EXPECT_EQ(round_to<Half>(1e300).bits, 0x7c00);
  EXPECT_EQ(round_to<Half>(-1e300).bits, 0xfc00);
  EXPECT_EQ(round_to<Half>(0x1p-25).bits, 0) << "a tie with zero";
  EXPECT_EQ(round_to<Half>(0x1.8p-25).bits, 1);
  EXPECT_EQ(round_to<Half>(-1e-300).bits, 0x8000);
  EXPECT_EQ(round_to<BFloat16>(1e300).bits, 0x7f80);
  EXPECT_EQ(round_to<BFloat16>(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_EQ(round_to<float>(1e300), std::numeric_limits<float>::infinity());
}

TEST(DataType, TableAndNames) {
  EXPECT_EQ(data_type_bits(GPUDNN_DATA_FLOAT), 32);
  EXPECT_EQ(data_type_bits(GPUDNN_DATA_DOUBLE), 64);
  EXPECT_EQ(data_type_bits(GPUDNN_DATA_HALF), 16);
  EXPECT_EQ(data_type_bits(GPUDNN_DATA_INT8x32), 256);
  EXPECT_EQ(data_type_bits(GPUDNN_DATA_INT4), 4);
  EXPECT_EQ(data_type_lanes(GPUDNN_DATA_INT8x4), 4);
  EXPECT_EQ(data_type_bits(static_cast<DataType>(99)), 0);
  EXPECT_EQ(data_type_bits(static_cast<DataType>(-1)), 0);
  for (int i = 0; i <= GPUDNN_DATA_COMPLEX_FP64; ++i) {
    const auto type = static_cast<DataType>(i);
    EXPECT_EQ(parse_data_type(data_type_name(type)), type) << i;
    EXPECT_EQ(is_floating(type),
              i == GPUDNN_DATA_FLOAT || i == GPUDNN_DATA_DOUBLE || i == GPUDNN_DATA_HALF || i == GPUDNN_DATA_BFLOAT16);
  }
  EXPECT_FALSE(parse_data_type("float"));
  EXPECT_FALSE(parse_data_type(""));
}

TEST(DataType, DispatchFindsTheStorageType) {
  const auto size = [](DataType type) { return with_floating_type(type, []<class T>() { return sizeof(T); }); };
  EXPECT_EQ(size(GPUDNN_DATA_DOUBLE), 8u);
  EXPECT_EQ(size(GPUDNN_DATA_FLOAT), 4u);
  EXPECT_TRUE(with_floating_type(GPUDNN_DATA_HALF, []<class T>() { return std::is_same_v<T, Half>; }));
  EXPECT_TRUE(with_floating_type(GPUDNN_DATA_BFLOAT16, []<class T>() { return std::is_same_v<T, BFloat16>; }));
}

}  // namespace
}  // namespace gpudnn
