// ALiBi, and a bias that all rows share, by the tensor cores: one more step of 16 in the product of scores. The
// operands are a slope in three parts and, three times, the column counted from the tile's middle, exact in 16 bits;
// and one over the scale in three parts, and three times the column's bias. Both are in units of scores before the
// scale.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_tile.cuh"

namespace gpudnn::kernels::flash {

// Rows of 64 bytes, swizzled as TMA does, of which the first 32 are used.
template <class T>
struct AddedStep {
  static constexpr int kRowBytes = 64;

  // Slopes that T does not hold are added to the scores one by one.
  static __device__ __forceinline__ bool holds(float slope) {
    return !std::is_same_v<T, tile::Half> || fabsf(slope) < 32768.0F;
  }
  // The slope to 2^-24 of itself (f16: or 2^-25). The bias's parts are positive, as 0 times an infinity is a NaN.
  static __device__ __forceinline__ void write_row(unsigned char* to, int row, float slope, const float (&bias)[3]) {
    const Parts parts = parts_of(holds(slope) ? slope : 0.0F);
    write(to, row,
          {pack_halves<T>(parts.high, parts.middle), pack_halves<T>(parts.low, bias[0]),
           pack_halves<T>(bias[1], bias[2]), 0});
  }
  // Column `column` of a tile of kColumns.
  template <int kColumns>
  static __device__ __forceinline__ void write_key(unsigned char* to, int column, std::uint16_t bias) {
    const auto place = static_cast<float>(column - kColumns / 2);
    const std::uint32_t places = pack_halves<T>(place, place);
    const std::uint32_t high = static_cast<std::uint32_t>(bias) << 16;
    write(to, column, {places, (places & 0xffffU) | high, bias | high, 0});
  }
  // A bias of bf16 whose quotient by the scale (or that times log2(e)) is no float becomes the greatest power of two
  // that has one: a row that sees nothing greater counts all of them alike, any other none of them. f16 stays below.
  static __device__ __forceinline__ std::uint16_t cut(std::uint16_t bias, float scale) {
    const std::uint32_t most = most_bits(scale);
    const std::uint32_t magnitude = bias & 0x7fffU;
    return magnitude > most && magnitude < 0x7f80U ? static_cast<std::uint16_t>(most | (bias & 0x8000U)) : bias;
  }
  // Whether a row's maximum may be such a bias.
  static __device__ __forceinline__ bool may_be_cut(float most, float scale) {
    return fabsf(most) >= 0.99F * __uint_as_float(most_bits(scale) << 16) && fabsf(most) != INFINITY;
  }

 private:
  // 2^125, or that times the power of two below the scale.
  static __device__ __forceinline__ std::uint32_t most_bits(float scale) {
    return (min(__float_as_uint(scale) >> 23, 127U) + 125U) << 7;
  }
  struct Parts {
    float high, middle, low;
  };
  static __device__ __forceinline__ Parts parts_of(float value) {
    const float high = rounded(value);
    const float middle = rounded(value - high);
    return {high, middle, value - high - middle};
  }
  static __device__ __forceinline__ float rounded(float value) {
    return tile::widen<float>(tile::half_of<T>(pack_halves<T>(value, 0), 0));
  }
  static __device__ __forceinline__ void write(unsigned char* to, int row, uint4 first_chunk) {
    const int swizzle = row / 2 % 4;
    *reinterpret_cast<uint4*>(to + row * kRowBytes + swizzle * 16) = first_chunk;
    *reinterpret_cast<uint4*>(to + row * kRowBytes + (1 ^ swizzle) * 16) = uint4{};
  }
};

}  // namespace gpudnn::kernels::flash
