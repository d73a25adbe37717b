// wgmma.mma_async with A in registers and B in shared memory, K-major or, of 16-bit elements, MN-major. See wgmma.cuh.
//
// Thread t of the warpgroup gives in a[0] row 16 (t / 32) + (t % 32) / 4, word t % 4 of the step's 8 words of k (two
// 16-bit elements, or a float); in a[1] the word 8 rows below; in a[2] and a[3] those 4 words further. They must not
// change until the product is done.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/ptx/wgmma.cuh"

namespace gpudnn::ptx {

// clang-format off
#define GPUDNN_D8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define GPUDNN_D16 GPUDNN_D8(0), GPUDNN_D8(8)
#define GPUDNN_D32 GPUDNN_D8(0), GPUDNN_D8(8), GPUDNN_D8(16), GPUDNN_D8(24)
#define GPUDNN_D48 GPUDNN_D32, GPUDNN_D8(32), GPUDNN_D8(40)
#define GPUDNN_LIST_16 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}"
#define GPUDNN_LIST_32 \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}"
#define GPUDNN_LIST_48 \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47}"

// A_, B_ and MN_ name the operands after the N / 2 registers of D.
#define GPUDNN_OPERANDS "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)
#define GPUDNN_WGMMA(N, REGISTERS, LIST, A_, B_, MN_)                                                                  \
  if constexpr (std::is_same_v<T, tile::Half>) {                                                                           \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" N "k16.f32.f16.f16 " LIST ", " A_ ", " B_ ", 1, 1, 1, " MN_ ";"   \
                 : REGISTERS : GPUDNN_OPERANDS, "n"(kBIsMnMajor));                                                     \
  } else if constexpr (std::is_same_v<T, tile::BFloat16>) {                                                             \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" N "k16.f32.bf16.bf16 " LIST ", " A_ ", " B_ ", 1, 1, 1, " MN_ ";" \
                 : REGISTERS : GPUDNN_OPERANDS, "n"(kBIsMnMajor));                                                     \
  } else {                                                                                                             \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" N "k8.f32.tf32.tf32 " LIST ", " A_ ", " B_ ", 1, 1, 1;"           \
                 : REGISTERS : GPUDNN_OPERANDS);                                                                       \
  }

template <class T, int kN, bool kBIsMnMajor = false>
__device__ __forceinline__ void wgmma_a_registers(float (&d)[kN / 2], const std::uint32_t (&a)[4], std::uint64_t b) {
  static_assert(kN == 32 || kN == 64 || kN == 96, "shapes that are built");
  static_assert(sizeof(T) == 2 || !kBIsMnMajor, "TF32 is K-major");
  if constexpr (kN == 32) {
    GPUDNN_WGMMA("32", GPUDNN_D16, GPUDNN_LIST_16, "{%16,%17,%18,%19}", "%20", "%21")
  } else if constexpr (kN == 64) {
    GPUDNN_WGMMA("64", GPUDNN_D32, GPUDNN_LIST_32, "{%32,%33,%34,%35}", "%36", "%37")
  } else {
    GPUDNN_WGMMA("96", GPUDNN_D48, GPUDNN_LIST_48, "{%48,%49,%50,%51}", "%52", "%53")
  }
}

#undef GPUDNN_WGMMA
#undef GPUDNN_OPERANDS
#undef GPUDNN_LIST_48
#undef GPUDNN_LIST_32
#undef GPUDNN_LIST_16
#undef GPUDNN_D48
#undef GPUDNN_D32
#undef GPUDNN_D16
#undef GPUDNN_D8
// clang-format on

}  // namespace gpudnn::ptx
