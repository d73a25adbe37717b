// wgmma.mma_async of 16-bit elements with A in registers and B MN-major in shared memory. See wgmma.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/ptx/wgmma.cuh"

namespace gpudnn::ptx {

// clang-format off
#define GPUDNN_D8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define GPUDNN_D16 GPUDNN_D8(0), GPUDNN_D8(8)
#define GPUDNN_D32 GPUDNN_D16, GPUDNN_D8(16), GPUDNN_D8(24)
#define GPUDNN_D48 GPUDNN_D32, GPUDNN_D8(32), GPUDNN_D8(40)
#define GPUDNN_LIST_16 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}"
#define GPUDNN_LIST_32 \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}"

#define GPUDNN_LIST_48 \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
  "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47}"

// A_ and B_ are the operand numbers after the N / 2 registers of D.
#define GPUDNN_WGMMA(N, REGISTERS, LIST, A_, B_, TYPE)                                                           \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" N "k16.f32." TYPE "." TYPE " " LIST ", " A_ ", " B_ ", 1, 1, 1, 1;" \
               : REGISTERS : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));

// D (64 x N) += A (64 x 16) * B (16 x N). Thread t of the warpgroup gives in a[0] row 16 (t / 32) + (t % 32) / 4, columns
// 2 (t % 4) and the next; in a[1] the elements 8 rows below; in a[2] and a[3] those 8 columns further. They must not change
// until the product is done.
template <class T, int kN>
__device__ __forceinline__ void wgmma_registers(float (&d)[kN / 2], const std::uint32_t (&a)[4], std::uint64_t b) {
  static_assert(kN == 32 || kN == 64 || kN == 96, "shapes that are built");
  static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>, "16-bit elements");
  if constexpr (kN == 32 && std::is_same_v<T, __half>) {
    GPUDNN_WGMMA("32", GPUDNN_D16, GPUDNN_LIST_16, "{%16,%17,%18,%19}", "%20", "f16")
  } else if constexpr (kN == 32) {
    GPUDNN_WGMMA("32", GPUDNN_D16, GPUDNN_LIST_16, "{%16,%17,%18,%19}", "%20", "bf16")
  } else if constexpr (kN == 64 && std::is_same_v<T, __half>) {
    GPUDNN_WGMMA("64", GPUDNN_D32, GPUDNN_LIST_32, "{%32,%33,%34,%35}", "%36", "f16")
  } else if constexpr (kN == 64) {
    GPUDNN_WGMMA("64", GPUDNN_D32, GPUDNN_LIST_32, "{%32,%33,%34,%35}", "%36", "bf16")
  } else if constexpr (std::is_same_v<T, __half>) {
    GPUDNN_WGMMA("96", GPUDNN_D48, GPUDNN_LIST_48, "{%48,%49,%50,%51}", "%52", "f16")
  } else {
    GPUDNN_WGMMA("96", GPUDNN_D48, GPUDNN_LIST_48, "{%48,%49,%50,%51}", "%52", "bf16")
  }
}

#undef GPUDNN_WGMMA
#undef GPUDNN_LIST_48
#undef GPUDNN_LIST_32
#undef GPUDNN_LIST_16
#undef GPUDNN_D48
#undef GPUDNN_D32
#undef GPUDNN_D16
#undef GPUDNN_D8
// clang-format on

}  // namespace gpudnn::ptx
