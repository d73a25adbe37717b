// wgmma.mma_async with N of 32 and 120, of 16-bit elements and TF32, both operands K-major. See wgmma.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/ptx/wgmma.cuh"

namespace gpudnn::ptx {

// clang-format off
#define GPUDNN_D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define GPUDNN_D8(i) GPUDNN_D4(i), GPUDNN_D4(i + 4)
#define GPUDNN_D16(i) GPUDNN_D8(i), GPUDNN_D8(i + 8)
#define GPUDNN_D60 GPUDNN_D16(0), GPUDNN_D16(16), GPUDNN_D16(32), GPUDNN_D8(48), GPUDNN_D4(56)
#define GPUDNN_LIST_16 \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}"
#define GPUDNN_LIST_60 \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
  "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59}"

// A_, B_ are the operand numbers after the N / 2 registers of D.
#define GPUDNN_WGMMA(N, REGISTERS, LIST, A_, B_)                                                                    \
  if constexpr (std::is_same_v<T, tile::Half>) {                                                                        \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" N "k16.f32.f16.f16 " LIST ", " A_ ", " B_ ", 1, 1, 1, 0, 0;"   \
                 : REGISTERS : "l"(a), "l"(b));                                                                     \
  } else if constexpr (std::is_same_v<T, tile::BFloat16>) {                                                          \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" N "k16.f32.bf16.bf16 " LIST ", " A_ ", " B_ ", 1, 1, 1, 0, 0;" \
                 : REGISTERS : "l"(a), "l"(b));                                                                     \
  } else {                                                                                                          \
    static_assert(std::is_same_v<T, float>, "16-bit elements, or floats as TF32");                                  \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" N "k8.f32.tf32.tf32 " LIST ", " A_ ", " B_ ", 1, 1, 1;"        \
                 : REGISTERS : "l"(a), "l"(b));                                                                     \
  }

template <class T, int kN>
__device__ __forceinline__ void wgmma_positions(float (&d)[kN / 2], std::uint64_t a, std::uint64_t b) {
  static_assert(kN == 32 || kN == 120, "shapes that are built");
  if constexpr (kN == 32) {
    GPUDNN_WGMMA("32", GPUDNN_D16(0), GPUDNN_LIST_16, "%16", "%17")
  } else {
    GPUDNN_WGMMA("120", GPUDNN_D60, GPUDNN_LIST_60, "%60", "%61")
  }
}

#undef GPUDNN_WGMMA
#undef GPUDNN_LIST_60
#undef GPUDNN_LIST_16
#undef GPUDNN_D60
#undef GPUDNN_D16
#undef GPUDNN_D8
#undef GPUDNN_D4
// clang-format on

}  // namespace gpudnn::ptx
