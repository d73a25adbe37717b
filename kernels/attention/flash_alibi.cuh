// ALiBi by the tensor cores: one more step of 16 in the product of scores, whose operands are a slope in three parts
// and, three times, the column counted from the tile's middle, both exact in 16 bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_tile.cuh"

namespace gpudnn::kernels::flash {

// Rows of 64 bytes, swizzled as TMA does, of which the first 32 are used.
template <class T>
struct AlibiOperands {
  static constexpr int kKeyBytes = 128 * 64;
  static constexpr int kRowBytes = 64 * 64;
  static constexpr int kBytes = kKeyBytes + 2 * kRowBytes;  // those of the keys first
  static __device__ __forceinline__ unsigned char* rows(unsigned char* operands, int warpgroup) {
    return operands + kKeyBytes + warpgroup * kRowBytes;
  }

  static __device__ __forceinline__ void write_keys(unsigned char* to) {
    if (threadIdx.x >= 128) return;
    const int column = static_cast<int>(threadIdx.x);
    const std::uint32_t twice = pack_halves<T>(static_cast<float>(column - 64), static_cast<float>(column - 64));
    write(to, column, {twice, twice & 0xffffU, 0, 0});
  }
  // Slopes that T does not hold are added to the scores one by one.
  static __device__ __forceinline__ bool holds(float slope) {
    return !std::is_same_v<T, tile::Half> || fabsf(slope) < 32768.0F;
  }
  // The slope to 2^-24 of itself (f16: or 2^-25).
  static __device__ __forceinline__ void write_row(unsigned char* to, int row, float slope) {
    if (!holds(slope)) slope = 0.0F;
    const float high = tile::widen<float>(tile::half_of<T>(pack_halves<T>(slope, 0), 0));
    const float middle = tile::widen<float>(tile::half_of<T>(pack_halves<T>(slope - high, 0), 0));
    write(to, row, {pack_halves<T>(high, middle), pack_halves<T>(slope - high - middle, 0), 0, 0});
  }

 private:
  static __device__ __forceinline__ void write(unsigned char* to, int row, uint4 first_chunk) {
    const int swizzle = row / 2 % 4;
    *reinterpret_cast<uint4*>(to + row * 64 + swizzle * 16) = first_chunk;
    *reinterpret_cast<uint4*>(to + row * 64 + (1 ^ swizzle) * 16) = uint4{};
  }
};

}  // namespace gpudnn::kernels::flash
