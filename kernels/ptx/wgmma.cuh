// wgmma.mma_async: D (64 x N, float, in the registers of a warpgroup) += A (64 x K) * B (K x N), both in shared memory.
//
// A and B are described by 64-bit descriptors (see kernels/tile/wgmma_operand.cuh). K is 16 for 16-bit elements, 8 for
// TF32. Thread t of the warpgroup holds of D, for each group j of 8 columns, in d[4j] to d[4j + 3]: row 16 (t / 32) +
// (t % 32) / 4, columns 8j + 2 (t % 4) and the next; and the same columns 8 rows below.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/tile/element_type.hpp"

namespace gpudnn::ptx {

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ __forceinline__ void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// clang-format off
#define GPUDNN_D8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define GPUDNN_D32(i) GPUDNN_D8(i), GPUDNN_D8(i + 8), GPUDNN_D8(i + 16), GPUDNN_D8(i + 24)
#define GPUDNN_D64 GPUDNN_D32(0), GPUDNN_D32(32)
#define GPUDNN_D96 GPUDNN_D64, GPUDNN_D32(64)
#define GPUDNN_D128 GPUDNN_D96, GPUDNN_D32(96)
#define GPUDNN_LIST_32 \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}"
#define GPUDNN_LIST_64 \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
  "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}"
#define GPUDNN_LIST_96 \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
  "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63," \
  "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95}"
#define GPUDNN_LIST_128 \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
  "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63," \
  "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95," \
  "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127}"

// The instruction of one shape. A_, B_, TA_, TB_ are the operand numbers after the N / 2 registers of D; the first 1
// says to add to D.
#define GPUDNN_WGMMA(N, REGISTERS, LIST, A_, B_, TA_, TB_)                                                        \
  if constexpr (std::is_same_v<T, tile::Half>) {                                                                      \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" N "k16.f32.f16.f16 " LIST ", " A_ ", " B_ ", 1, 1, 1, " TA_  \
                 ", " TB_ ";"                                                                                     \
                 : REGISTERS : "l"(a), "l"(b), "n"(kTransposeA), "n"(kTransposeB));                               \
  } else if constexpr (std::is_same_v<T, tile::BFloat16>) {                                                        \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" N "k16.f32.bf16.bf16 " LIST ", " A_ ", " B_ ", 1, 1, 1, "    \
                 TA_ ", " TB_ ";"                                                                                 \
                 : REGISTERS : "l"(a), "l"(b), "n"(kTransposeA), "n"(kTransposeB));                               \
  } else {                                                                                                        \
    static_assert(std::is_same_v<T, float> && kTransposeA == 0 && kTransposeB == 0, "TF32 operands are K-major"); \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" N "k8.f32.tf32.tf32 " LIST ", " A_ ", " B_ ", 1, 1, 1;"      \
                 : REGISTERS : "l"(a), "l"(b));                                                                   \
  }

// Transposed operands are MN-major in shared memory.
template <class T, int kN, int kTransposeA, int kTransposeB>
__device__ __forceinline__ void wgmma(float (&d)[kN / 2], std::uint64_t a, std::uint64_t b) {
  static_assert(kN == 64 || kN == 128 || kN == 192 || kN == 256, "shapes that are built");
  if constexpr (kN == 64) {
    GPUDNN_WGMMA("64", GPUDNN_D32(0), GPUDNN_LIST_32, "%32", "%33", "%34", "%35")
  } else if constexpr (kN == 128) {
    GPUDNN_WGMMA("128", GPUDNN_D64, GPUDNN_LIST_64, "%64", "%65", "%66", "%67")
  } else if constexpr (kN == 192) {
    GPUDNN_WGMMA("192", GPUDNN_D96, GPUDNN_LIST_96, "%96", "%97", "%98", "%99")
  } else {
    GPUDNN_WGMMA("256", GPUDNN_D128, GPUDNN_LIST_128, "%128", "%129", "%130", "%131")
  }
}
#undef GPUDNN_WGMMA

// TF32 with A in registers. Thread t of the warpgroup gives in a[0] row 16 (t / 32) + (t % 32) / 4, column t % 4; in a[1]
// the element 8 rows below; in a[2] and a[3] those 4 columns further. They must not change until the product is done.
template <int kN>
__device__ __forceinline__ void wgmma_tf32_registers(float (&d)[kN / 2], const std::uint32_t (&a)[4], std::uint64_t b) {
  static_assert(kN == 64 || kN == 128, "shapes that are built");
  if constexpr (kN == 64) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 " GPUDNN_LIST_32 ", {%32,%33,%34,%35}, %36, 1, 1, 1;"
                 : GPUDNN_D32(0) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  } else {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 " GPUDNN_LIST_64 ", {%64,%65,%66,%67}, %68, 1, 1, 1;"
                 : GPUDNN_D64 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  }
}

#undef GPUDNN_LIST_128
#undef GPUDNN_LIST_96
#undef GPUDNN_LIST_64
#undef GPUDNN_LIST_32
#undef GPUDNN_D128
#undef GPUDNN_D96
#undef GPUDNN_D64
#undef GPUDNN_D32
#undef GPUDNN_D8
// clang-format on

}  // namespace gpudnn::ptx
