// ALiBi, and a bias that all rows share, by the tensor cores: one more step of 16 in the product of scores. The
// operands are a slope in three parts and, three times, the column counted from the tile's middle, exact in 16 bits;
// and, three times, a power of two and three parts of the column's bias over it. Both are in units of scores before the
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
  // The slope to 2^-24 of itself (f16: or 2^-25), and the power of two.
  static __device__ __forceinline__ void write_row(unsigned char* to, int row, float slope, float power) {
    const Parts parts = parts_of(holds(slope) ? slope : 0.0F);
    write(
        to, row,
        {pack_halves<T>(parts.high, parts.middle), pack_halves<T>(parts.low, power), pack_halves<T>(power, power), 0});
  }
  // Column `column` of a tile of kColumns.
  template <int kColumns>
  static __device__ __forceinline__ void write_key(unsigned char* to, int column, float bias) {
    const auto place = static_cast<float>(column - kColumns / 2);
    const Parts parts = parts_of(bias);
    write(
        to, column,
        {pack_halves<T>(place, place), pack_halves<T>(place, parts.high), pack_halves<T>(parts.middle, parts.low), 0});
  }

 private:
  struct Parts {
    float high, middle, low;
  };
  // Of an infinity the first part is all.
  static __device__ __forceinline__ Parts parts_of(float value) {
    const float high = rounded(value);
    if (fabsf(high) == INFINITY) return {high, 0.0F, 0.0F};
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
