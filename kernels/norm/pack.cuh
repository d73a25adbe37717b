// Packs of 16 bytes: 8 elements of the 16-bit types, 4 of float.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/norm/unit.cuh"

namespace gpudnn::kernels {

template <class T>
struct NormPack {
  static constexpr int kWidth = 16 / static_cast<int>(sizeof(T));
  using Values = float[kWidth];

  static __device__ __forceinline__ void widen(uint4 bits, Values& values) {
    tile::Pack<T, kWidth> pack;
    memcpy(&pack, &bits, sizeof pack);
    tile::widen_pack<float>(pack, values);
  }
  static __device__ __forceinline__ uint4 narrow(const Values& values) {
    const tile::Pack<T, kWidth> pack = tile::narrow_pack<T>(values);
    uint4 bits;
    memcpy(&bits, &pack, sizeof bits);
    return bits;
  }
  // Zeros where the mask has no bit.
  static __device__ __forceinline__ void mask(unsigned bits, uint4* pack) {
    if constexpr (kWidth == kUnit) {
      Unit<T> unit;
      memcpy(&unit, pack, sizeof unit);
      apply_mask(bits, &unit);
      memcpy(pack, &unit, sizeof unit);
    }
  }
};

}  // namespace gpudnn::kernels
