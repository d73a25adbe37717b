// Elements of every data type as double.
// SPDX-License-Identifier: Apache-2.0
#include "graph/interpret/element.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "host/any_element.hpp"

namespace gpudnn::graph {
namespace {

// A floating format of a few bits: sign, exponent, mantissa.
struct Format {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  double greatest;
  bool has_nan;
  bool has_infinity;
};
constexpr Format kE4M3{4, 3, 7, 448, true, false};
constexpr Format kE5M2{5, 2, 15, 57344, true, true};
constexpr Format kE2M1{2, 1, 1, 6, false, false};

double decode(const Format& f, unsigned bits) {
  const int sign_at = f.exponent_bits + f.mantissa_bits;
  const auto mantissa = static_cast<int>(bits & ((1U << f.mantissa_bits) - 1));
  const auto exponent = static_cast<int>((bits >> f.mantissa_bits) & ((1U << f.exponent_bits) - 1));
  const double sign = ((bits >> sign_at) & 1) != 0 ? -1 : 1;
  const int top = (1 << f.exponent_bits) - 1;
  if (f.has_infinity && exponent == top)
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  if (f.has_nan && exponent == top && mantissa == (1 << f.mantissa_bits) - 1)
    return std::numeric_limits<double>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - f.bias - f.mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << f.mantissa_bits), exponent - f.bias - f.mantissa_bits);
}

unsigned encode(const Format& f, double value) {
  const int sign_at = f.exponent_bits + f.mantissa_bits;
  const unsigned sign = std::signbit(value) ? 1U << sign_at : 0;
  if (std::isnan(value)) return f.has_nan ? (1U << sign_at) - 1 : 0;
  double size = std::min(std::fabs(value), f.greatest);
  if (size == 0) return sign;
  int exponent = std::max(std::ilogb(size), 1 - f.bias);
  size = std::min(std::ldexp(std::nearbyint(std::ldexp(size, f.mantissa_bits - exponent)), exponent - f.mantissa_bits),
                  f.greatest);
  if (size == 0) return sign;
  exponent = std::max(std::ilogb(size), 1 - f.bias);
  const auto scaled = static_cast<unsigned>(std::ldexp(size, f.mantissa_bits - exponent));
  const unsigned hidden = 1U << f.mantissa_bits;
  return scaled < hidden ? sign | scaled
                         : sign | static_cast<unsigned>(exponent + f.bias) << f.mantissa_bits | (scaled - hidden);
}

double decode_e8m0(unsigned bits) {
  return bits == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, static_cast<int>(bits) - 127);
}
unsigned encode_e8m0(double value) {
  if (std::isnan(value)) return 255;
  if (value <= 0) return 0;
  int exponent = 0;
  const double part = std::frexp(value, &exponent);  // value = part * 2^exponent, part in [0.5, 1)
  return static_cast<unsigned>(std::clamp((part == 0.5 ? exponent - 1 : exponent) + 127, 0, 254));
}

unsigned byte_at(const void* data, std::int64_t offset) { return static_cast<const unsigned char*>(data)[offset]; }
void put_byte(void* data, std::int64_t offset, unsigned bits) {
  static_cast<unsigned char*>(data)[offset] = static_cast<unsigned char>(bits);
}
// Two to a byte, the first in the lower half.
unsigned half_byte_at(const void* data, std::int64_t offset) {
  return byte_at(data, offset / 2) >> (offset % 2 * 4) & 15;
}
void put_half_byte(void* data, std::int64_t offset, unsigned bits) {
  const auto shift = static_cast<unsigned>(offset % 2 * 4);
  put_byte(data, offset / 2, (byte_at(data, offset / 2) & ~(15U << shift)) | (bits & 15) << shift);
}

template <class T>
double load_plain(const void* data, std::int64_t offset) {
  T value;  // packs may hold numbers by value at any address
  std::memcpy(&value, static_cast<const char*>(data) + offset * static_cast<std::int64_t>(sizeof(T)), sizeof value);
  return to_double(value);
}
template <class T>
void store_plain(void* data, std::int64_t offset, double value) {
  T rounded_value;
  if constexpr (std::is_same_v<T, std::int64_t>) {
    // 2^63 itself is no int64.
    rounded_value = std::isnan(value)  ? 0
                    : value >= 0x1p63  ? std::numeric_limits<T>::max()
                    : value <= -0x1p63 ? std::numeric_limits<T>::min()
                                       : static_cast<T>(std::nearbyint(value));
  } else {
    rounded_value = host::round_any<T>(value);
  }
  std::memcpy(static_cast<char*>(data) + offset * static_cast<std::int64_t>(sizeof(T)), &rounded_value, sizeof(T));
}

double clamp_integer(double value, double least, double most) {
  return std::isnan(value) ? 0 : std::nearbyint(std::clamp(value, least, most));
}

}  // namespace

LoadElement loader_of(DataType type) noexcept {
  switch (type) {
    case GPUDNN_DATA_DOUBLE:
      return load_plain<double>;
    case GPUDNN_DATA_HALF:
      return load_plain<Half>;
    case GPUDNN_DATA_BFLOAT16:
      return load_plain<BFloat16>;
    case GPUDNN_DATA_INT8:
    case GPUDNN_DATA_INT8x4:
    case GPUDNN_DATA_INT8x32:
      return load_plain<std::int8_t>;
    case GPUDNN_DATA_UINT8:
    case GPUDNN_DATA_UINT8x4:
      return load_plain<std::uint8_t>;
    case GPUDNN_DATA_INT32:
      return load_plain<std::int32_t>;
    case GPUDNN_DATA_UINT32:
      return load_plain<std::uint32_t>;
    case GPUDNN_DATA_INT64:
      return load_plain<std::int64_t>;
    case GPUDNN_DATA_BOOLEAN:
      return [](const void* data, std::int64_t offset) { return byte_at(data, offset) != 0 ? 1.0 : 0.0; };
    case GPUDNN_DATA_FP8_E4M3:
      return [](const void* data, std::int64_t offset) { return decode(kE4M3, byte_at(data, offset)); };
    case GPUDNN_DATA_FP8_E5M2:
      return [](const void* data, std::int64_t offset) { return decode(kE5M2, byte_at(data, offset)); };
    case GPUDNN_DATA_FP8_E8M0:
      return [](const void* data, std::int64_t offset) { return decode_e8m0(byte_at(data, offset)); };
    case GPUDNN_DATA_FP4_E2M1:
      return [](const void* data, std::int64_t offset) { return decode(kE2M1, half_byte_at(data, offset)); };
    case GPUDNN_DATA_INT4:
      return [](const void* data, std::int64_t offset) {
        return static_cast<double>(static_cast<int>(half_byte_at(data, offset) ^ 8U) - 8);
      };
    case GPUDNN_DATA_UINT4:
      return [](const void* data, std::int64_t offset) { return static_cast<double>(half_byte_at(data, offset)); };
    default:
      return load_plain<float>;
  }
}

StoreElement storer_of(DataType type) noexcept {
  switch (type) {
    case GPUDNN_DATA_DOUBLE:
      return store_plain<double>;
    case GPUDNN_DATA_HALF:
      return store_plain<Half>;
    case GPUDNN_DATA_BFLOAT16:
      return store_plain<BFloat16>;
    case GPUDNN_DATA_INT8:
    case GPUDNN_DATA_INT8x4:
    case GPUDNN_DATA_INT8x32:
      return store_plain<std::int8_t>;
    case GPUDNN_DATA_UINT8:
    case GPUDNN_DATA_UINT8x4:
      return store_plain<std::uint8_t>;
    case GPUDNN_DATA_INT32:
      return store_plain<std::int32_t>;
    case GPUDNN_DATA_UINT32:
      return store_plain<std::uint32_t>;
    case GPUDNN_DATA_INT64:
      return store_plain<std::int64_t>;
    case GPUDNN_DATA_BOOLEAN:
      return [](void* data, std::int64_t offset, double value) { put_byte(data, offset, value != 0 ? 1 : 0); };
    case GPUDNN_DATA_FP8_E4M3:
      return [](void* data, std::int64_t offset, double value) { put_byte(data, offset, encode(kE4M3, value)); };
    case GPUDNN_DATA_FP8_E5M2:
      return [](void* data, std::int64_t offset, double value) { put_byte(data, offset, encode(kE5M2, value)); };
    case GPUDNN_DATA_FP8_E8M0:
      return [](void* data, std::int64_t offset, double value) { put_byte(data, offset, encode_e8m0(value)); };
    case GPUDNN_DATA_FP4_E2M1:
      return [](void* data, std::int64_t offset, double value) { put_half_byte(data, offset, encode(kE2M1, value)); };
    case GPUDNN_DATA_INT4:
      return [](void* data, std::int64_t offset, double value) {
        put_half_byte(data, offset, static_cast<unsigned>(static_cast<int>(clamp_integer(value, -8, 7))));
      };
    case GPUDNN_DATA_UINT4:
      return [](void* data, std::int64_t offset, double value) {
        put_half_byte(data, offset, static_cast<unsigned>(clamp_integer(value, 0, 15)));
      };
    default:
      return store_plain<float>;
  }
}

double rounded(DataType type, double value) noexcept {
  if (type == GPUDNN_DATA_FLOAT) return static_cast<double>(static_cast<float>(value));
  if (type == GPUDNN_DATA_DOUBLE) return value;
  alignas(8) unsigned char memory[8] = {};
  storer_of(type)(memory, 0, value);
  return loader_of(type)(memory, 0);
}

double greatest_of(DataType type) noexcept {
  switch (type) {
    case GPUDNN_DATA_HALF:
      return 65504;
    case GPUDNN_DATA_BFLOAT16:
      return 0x1.fep127;
    case GPUDNN_DATA_FP8_E4M3:
      return kE4M3.greatest;
    case GPUDNN_DATA_FP8_E5M2:
      return kE5M2.greatest;
    case GPUDNN_DATA_FP4_E2M1:
      return kE2M1.greatest;
    case GPUDNN_DATA_INT8:
      return 127;
    default:
      return std::numeric_limits<float>::max();
  }
}

}  // namespace gpudnn::graph
