// wgmma.mma_async with further widths N, of 16-bit elements and TF32, both operands K-major. See wgmma.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/ptx/wgmma.cuh"

namespace gpudnn::ptx {

// clang-format off
#define GPUDNN_D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define GPUDNN_D8(i) GPUDNN_D4(i), GPUDNN_D4(i + 4)
#define GPUDNN_D32(i) GPUDNN_D8(i), GPUDNN_D8(i + 8), GPUDNN_D8(i + 16), GPUDNN_D8(i + 24)
#define GPUDNN_D16(i) GPUDNN_D8(i), GPUDNN_D8(i + 8)
#define GPUDNN_D68 GPUDNN_D32(0), GPUDNN_D32(32), GPUDNN_D4(64)
#define GPUDNN_D104 GPUDNN_D32(0), GPUDNN_D32(32), GPUDNN_D32(64), GPUDNN_D8(96)
#define GPUDNN_D116 GPUDNN_D104, GPUDNN_D8(104), GPUDNN_D4(112)
#define GPUDNN_D128 GPUDNN_D32(0), GPUDNN_D32(32), GPUDNN_D32(64), GPUDNN_D32(96)
#define GPUDNN_LIST_4 "{%0,%1,%2,%3}"
#define GPUDNN_LIST_16 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}"
#define GPUDNN_LIST_68 \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
  "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63," \
  "%64,%65,%66,%67}"
#define GPUDNN_LIST_104 \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
  "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63," \
  "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95," \
  "%96,%97,%98,%99,%100,%101,%102,%103}"
#define GPUDNN_LIST_116 \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
  "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63," \
  "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95," \
  "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115}"
#define GPUDNN_LIST_128 \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
  "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63," \
  "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95," \
  "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127}"

// A_, B_ are the operand numbers after the N / 2 registers of D.
#define GPUDNN_WGMMA(N, REGISTERS, LIST, A_, B_)                                                                  \
  if constexpr (std::is_same_v<T, tile::Half>) {                                                                      \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" N "k16.f32.f16.f16 " LIST ", " A_ ", " B_ ", 1, 1, 1, 0, 0;" \
                 : REGISTERS : "l"(a), "l"(b));                                                                   \
  } else if constexpr (std::is_same_v<T, tile::BFloat16>) {                                                        \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" N "k16.f32.bf16.bf16 " LIST ", " A_ ", " B_                  \
                 ", 1, 1, 1, 0, 0;"                                                                               \
                 : REGISTERS : "l"(a), "l"(b));                                                                   \
  } else {                                                                                                        \
    static_assert(std::is_same_v<T, float>, "16-bit elements, and float cut to TF32");                            \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" N "k8.f32.tf32.tf32 " LIST ", " A_ ", " B_ ", 1, 1, 1;"      \
                 : REGISTERS : "l"(a), "l"(b));                                                                   \
  }

template <class T, int kN>
__device__ __forceinline__ void wgmma_k_major(float (&d)[kN / 2], std::uint64_t a, std::uint64_t b) {
  static_assert(kN == 8 || kN == 32 || kN == 136 || kN == 208 || kN == 232 || kN == 256, "shapes that are built");
  if constexpr (kN == 8) {
    GPUDNN_WGMMA("8", GPUDNN_D4(0), GPUDNN_LIST_4, "%4", "%5")
  } else if constexpr (kN == 32) {
    GPUDNN_WGMMA("32", GPUDNN_D16(0), GPUDNN_LIST_16, "%16", "%17")
  } else if constexpr (kN == 136) {
    GPUDNN_WGMMA("136", GPUDNN_D68, GPUDNN_LIST_68, "%68", "%69")
  } else if constexpr (kN == 208) {
    GPUDNN_WGMMA("208", GPUDNN_D104, GPUDNN_LIST_104, "%104", "%105")
  } else if constexpr (kN == 232) {
    GPUDNN_WGMMA("232", GPUDNN_D116, GPUDNN_LIST_116, "%116", "%117")
  } else {
    GPUDNN_WGMMA("256", GPUDNN_D128, GPUDNN_LIST_128, "%128", "%129")
  }
}

#undef GPUDNN_WGMMA
#undef GPUDNN_LIST_128
#undef GPUDNN_LIST_116
#undef GPUDNN_LIST_104
#undef GPUDNN_LIST_68
#undef GPUDNN_LIST_16
#undef GPUDNN_LIST_4
#undef GPUDNN_D128
#undef GPUDNN_D116
#undef GPUDNN_D104
#undef GPUDNN_D68
#undef GPUDNN_D32
#undef GPUDNN_D16
#undef GPUDNN_D8
#undef GPUDNN_D4
// clang-format on

}  // namespace gpudnn::ptx
