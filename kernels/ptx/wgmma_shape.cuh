// wgmma.mma_async in all its shapes: D (64 x N, in the registers of a warpgroup) = A (64 x K) * B (K x N), plus D where
// scale_d is not zero. B is in shared memory; A is in shared memory (wgmma_ss) or in registers (wgmma_rs).
//
// Element types of A and B: Half, BFloat16 (K = 16), float as TF32 (K = 8), Float8E4M3 and Float8E5M2 in any pair, and
// int8 (K = 32). D is float; of int8 it is int32, and N is then 8, 24 or a multiple of 16. N is a multiple of 8 from 8
// to 256. 16-bit operands in shared memory are K-major or MN-major, all others K-major. A and B in shared memory are
// described by 64-bit descriptors (kernels/tile/wgmma_operand.cuh).
//
// Thread t of the warpgroup holds of D, for each group j of 8 columns, in d[4j] to d[4j + 3]: row 16 (t / 32) +
// (t % 32) / 4, columns 8j + 2 (t % 4) and the next; and the same columns 8 rows below.
//
// A in registers: thread t gives in a[0] row 16 (t / 32) + (t % 32) / 4, word t % 4 of the step's 8 words of k (a word
// is one float, two 16-bit or four 8-bit elements); in a[1] the word 8 rows below; in a[2] and a[3] those 4 words
// further. The registers must not change until the product is done.
//
// The operand lists of an asm statement are literals, so the 32 widths are lines of macros.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/ptx/wgmma_group.cuh"
#include "kernels/tile/element_type.hpp"

namespace gpudnn::ptx {

enum class Major : int { k = 0, mn = 1 };

template <class A>
using WgmmaSum = std::conditional_t<std::is_same_v<A, std::int8_t>, std::int32_t, float>;

template <class A>
inline constexpr int kWgmmaK = 32 / static_cast<int>(sizeof(A));

template <int kN>
struct WgmmaShape;

// clang-format off
#define GPUDNN_QUAD(c, i) c(d[i]), c(d[i + 1]), c(d[i + 2]), c(d[i + 3])
#define GPUDNN_LIST_4 "%0,%1,%2,%3"
#define GPUDNN_LIST_8 GPUDNN_LIST_4 ",%4,%5,%6,%7"
#define GPUDNN_LIST_12 GPUDNN_LIST_8 ",%8,%9,%10,%11"
#define GPUDNN_LIST_16 GPUDNN_LIST_12 ",%12,%13,%14,%15"
#define GPUDNN_LIST_20 GPUDNN_LIST_16 ",%16,%17,%18,%19"
#define GPUDNN_LIST_24 GPUDNN_LIST_20 ",%20,%21,%22,%23"
#define GPUDNN_LIST_28 GPUDNN_LIST_24 ",%24,%25,%26,%27"
#define GPUDNN_LIST_32 GPUDNN_LIST_28 ",%28,%29,%30,%31"
#define GPUDNN_LIST_36 GPUDNN_LIST_32 ",%32,%33,%34,%35"
#define GPUDNN_LIST_40 GPUDNN_LIST_36 ",%36,%37,%38,%39"
#define GPUDNN_LIST_44 GPUDNN_LIST_40 ",%40,%41,%42,%43"
#define GPUDNN_LIST_48 GPUDNN_LIST_44 ",%44,%45,%46,%47"
#define GPUDNN_LIST_52 GPUDNN_LIST_48 ",%48,%49,%50,%51"
#define GPUDNN_LIST_56 GPUDNN_LIST_52 ",%52,%53,%54,%55"
#define GPUDNN_LIST_60 GPUDNN_LIST_56 ",%56,%57,%58,%59"
#define GPUDNN_LIST_64 GPUDNN_LIST_60 ",%60,%61,%62,%63"
#define GPUDNN_LIST_68 GPUDNN_LIST_64 ",%64,%65,%66,%67"
#define GPUDNN_LIST_72 GPUDNN_LIST_68 ",%68,%69,%70,%71"
#define GPUDNN_LIST_76 GPUDNN_LIST_72 ",%72,%73,%74,%75"
#define GPUDNN_LIST_80 GPUDNN_LIST_76 ",%76,%77,%78,%79"
#define GPUDNN_LIST_84 GPUDNN_LIST_80 ",%80,%81,%82,%83"
#define GPUDNN_LIST_88 GPUDNN_LIST_84 ",%84,%85,%86,%87"
#define GPUDNN_LIST_92 GPUDNN_LIST_88 ",%88,%89,%90,%91"
#define GPUDNN_LIST_96 GPUDNN_LIST_92 ",%92,%93,%94,%95"
#define GPUDNN_LIST_100 GPUDNN_LIST_96 ",%96,%97,%98,%99"
#define GPUDNN_LIST_104 GPUDNN_LIST_100 ",%100,%101,%102,%103"
#define GPUDNN_LIST_108 GPUDNN_LIST_104 ",%104,%105,%106,%107"
#define GPUDNN_LIST_112 GPUDNN_LIST_108 ",%108,%109,%110,%111"
#define GPUDNN_LIST_116 GPUDNN_LIST_112 ",%112,%113,%114,%115"
#define GPUDNN_LIST_120 GPUDNN_LIST_116 ",%116,%117,%118,%119"
#define GPUDNN_LIST_124 GPUDNN_LIST_120 ",%120,%121,%122,%123"
#define GPUDNN_LIST_128 GPUDNN_LIST_124 ",%124,%125,%126,%127"
#define GPUDNN_D_4(c) GPUDNN_QUAD(c, 0)
#define GPUDNN_D_8(c) GPUDNN_D_4(c), GPUDNN_QUAD(c, 4)
#define GPUDNN_D_12(c) GPUDNN_D_8(c), GPUDNN_QUAD(c, 8)
#define GPUDNN_D_16(c) GPUDNN_D_12(c), GPUDNN_QUAD(c, 12)
#define GPUDNN_D_20(c) GPUDNN_D_16(c), GPUDNN_QUAD(c, 16)
#define GPUDNN_D_24(c) GPUDNN_D_20(c), GPUDNN_QUAD(c, 20)
#define GPUDNN_D_28(c) GPUDNN_D_24(c), GPUDNN_QUAD(c, 24)
#define GPUDNN_D_32(c) GPUDNN_D_28(c), GPUDNN_QUAD(c, 28)
#define GPUDNN_D_36(c) GPUDNN_D_32(c), GPUDNN_QUAD(c, 32)
#define GPUDNN_D_40(c) GPUDNN_D_36(c), GPUDNN_QUAD(c, 36)
#define GPUDNN_D_44(c) GPUDNN_D_40(c), GPUDNN_QUAD(c, 40)
#define GPUDNN_D_48(c) GPUDNN_D_44(c), GPUDNN_QUAD(c, 44)
#define GPUDNN_D_52(c) GPUDNN_D_48(c), GPUDNN_QUAD(c, 48)
#define GPUDNN_D_56(c) GPUDNN_D_52(c), GPUDNN_QUAD(c, 52)
#define GPUDNN_D_60(c) GPUDNN_D_56(c), GPUDNN_QUAD(c, 56)
#define GPUDNN_D_64(c) GPUDNN_D_60(c), GPUDNN_QUAD(c, 60)
#define GPUDNN_D_68(c) GPUDNN_D_64(c), GPUDNN_QUAD(c, 64)
#define GPUDNN_D_72(c) GPUDNN_D_68(c), GPUDNN_QUAD(c, 68)
#define GPUDNN_D_76(c) GPUDNN_D_72(c), GPUDNN_QUAD(c, 72)
#define GPUDNN_D_80(c) GPUDNN_D_76(c), GPUDNN_QUAD(c, 76)
#define GPUDNN_D_84(c) GPUDNN_D_80(c), GPUDNN_QUAD(c, 80)
#define GPUDNN_D_88(c) GPUDNN_D_84(c), GPUDNN_QUAD(c, 84)
#define GPUDNN_D_92(c) GPUDNN_D_88(c), GPUDNN_QUAD(c, 88)
#define GPUDNN_D_96(c) GPUDNN_D_92(c), GPUDNN_QUAD(c, 92)
#define GPUDNN_D_100(c) GPUDNN_D_96(c), GPUDNN_QUAD(c, 96)
#define GPUDNN_D_104(c) GPUDNN_D_100(c), GPUDNN_QUAD(c, 100)
#define GPUDNN_D_108(c) GPUDNN_D_104(c), GPUDNN_QUAD(c, 104)
#define GPUDNN_D_112(c) GPUDNN_D_108(c), GPUDNN_QUAD(c, 108)
#define GPUDNN_D_116(c) GPUDNN_D_112(c), GPUDNN_QUAD(c, 112)
#define GPUDNN_D_120(c) GPUDNN_D_116(c), GPUDNN_QUAD(c, 116)
#define GPUDNN_D_124(c) GPUDNN_D_120(c), GPUDNN_QUAD(c, 120)
#define GPUDNN_D_128(c) GPUDNN_D_124(c), GPUDNN_QUAD(c, 124)

// One statement. TYPES is the end of the instruction's name; A_, B_ and SCALE_ name its operands after D, and TAIL what
// follows scale_d: the signs of A and B, and the majors of 16-bit operands.
#define GPUDNN_WGMMA(N, R, C, TYPES, A_, B_, SCALE_, TAIL, ...)                                                              \
  asm volatile("{.reg .pred p; setp.ne.b32 p, " SCALE_ ", 0; wgmma.mma_async.sync.aligned.m64n" #N TYPES " {"                \
               GPUDNN_LIST_##R "}, " A_ ", " B_ ", p" TAIL ";}" : GPUDNN_D_##R(C) : __VA_ARGS__)
#define GPUDNN_MAJORS(...) __VA_ARGS__
// The element types. MAJORS are the operands that TAIL16 names.
#define GPUDNN_WGMMA_TYPES(N, R, A_, B_, SCALE_, TAIL16, MAJORS, ...)                                                        \
  if constexpr (std::is_same_v<A, tile::Half>) {                                                                             \
    GPUDNN_WGMMA(N, R, "+f", "k16.f32.f16.f16", A_, B_, SCALE_, TAIL16, __VA_ARGS__, MAJORS);                                \
  } else if constexpr (std::is_same_v<A, tile::BFloat16>) {                                                                  \
    GPUDNN_WGMMA(N, R, "+f", "k16.f32.bf16.bf16", A_, B_, SCALE_, TAIL16, __VA_ARGS__, MAJORS);                              \
  } else if constexpr (std::is_same_v<A, float>) {                                                                           \
    GPUDNN_WGMMA(N, R, "+f", "k8.f32.tf32.tf32", A_, B_, SCALE_, ", 1, 1", __VA_ARGS__);                                     \
  } else if constexpr (std::is_same_v<A, tile::Float8E4M3> && std::is_same_v<B, tile::Float8E4M3>) {                         \
    GPUDNN_WGMMA(N, R, "+f", "k32.f32.e4m3.e4m3", A_, B_, SCALE_, ", 1, 1", __VA_ARGS__);                                    \
  } else if constexpr (std::is_same_v<A, tile::Float8E4M3>) {                                                                \
    GPUDNN_WGMMA(N, R, "+f", "k32.f32.e4m3.e5m2", A_, B_, SCALE_, ", 1, 1", __VA_ARGS__);                                    \
  } else if constexpr (std::is_same_v<A, tile::Float8E5M2> && std::is_same_v<B, tile::Float8E4M3>) {                         \
    GPUDNN_WGMMA(N, R, "+f", "k32.f32.e5m2.e4m3", A_, B_, SCALE_, ", 1, 1", __VA_ARGS__);                                    \
  } else if constexpr (std::is_same_v<A, tile::Float8E5M2>) {                                                                \
    GPUDNN_WGMMA(N, R, "+f", "k32.f32.e5m2.e5m2", A_, B_, SCALE_, ", 1, 1", __VA_ARGS__);                                    \
  } else {                                                                                                                   \
    GPUDNN_WGMMA(N, R, "+r", "k32.s32.s8.s8", A_, B_, SCALE_, "", __VA_ARGS__);                                              \
  }

// The operands after D: of wgmma_ss A, B, scale_d and the majors have the numbers P0 to P4; of wgmma_rs the four registers
// of A are P0 to P3, then B, scale_d and the major of B.
#define GPUDNN_WGMMA_SHAPE(N, R, P0, P1, P2, P3, P4, P5, P6)                                                                    \
  template <>                                                                                                                  \
  struct WgmmaShape<N> {                                                                                                       \
    template <class A, class B, Major kMajorA, Major kMajorB>                                                                  \
    static __device__ __forceinline__ void ss(WgmmaSum<A> (&d)[R], std::uint64_t a, std::uint64_t b, int scale_d) {            \
      GPUDNN_WGMMA_TYPES(N, R, "%" #P0, "%" #P1, "%" #P2, ", 1, 1, %" #P3 ", %" #P4,                                           \
                         GPUDNN_MAJORS("n"(static_cast<int>(kMajorA)), "n"(static_cast<int>(kMajorB))),                        \
                         "l"(a), "l"(b), "r"(scale_d))                                                                         \
    }                                                                                                                          \
    template <class A, class B, Major kMajorB>                                                                                 \
    static __device__ __forceinline__ void rs(WgmmaSum<A> (&d)[R], const std::uint32_t (&a)[4], std::uint64_t b, int scale_d) { \
      GPUDNN_WGMMA_TYPES(N, R, "{%" #P0 ", %" #P1 ", %" #P2 ", %" #P3 "}", "%" #P4, "%" #P5, ", 1, 1, %" #P6,                  \
                         GPUDNN_MAJORS("n"(static_cast<int>(kMajorB))),                                                        \
                         "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(scale_d))                                     \
    }                                                                                                                          \
  };

GPUDNN_WGMMA_SHAPE(8, 4, 4, 5, 6, 7, 8, 9, 10)
GPUDNN_WGMMA_SHAPE(16, 8, 8, 9, 10, 11, 12, 13, 14)
GPUDNN_WGMMA_SHAPE(24, 12, 12, 13, 14, 15, 16, 17, 18)
GPUDNN_WGMMA_SHAPE(32, 16, 16, 17, 18, 19, 20, 21, 22)
GPUDNN_WGMMA_SHAPE(40, 20, 20, 21, 22, 23, 24, 25, 26)
GPUDNN_WGMMA_SHAPE(48, 24, 24, 25, 26, 27, 28, 29, 30)
GPUDNN_WGMMA_SHAPE(56, 28, 28, 29, 30, 31, 32, 33, 34)
GPUDNN_WGMMA_SHAPE(64, 32, 32, 33, 34, 35, 36, 37, 38)
GPUDNN_WGMMA_SHAPE(72, 36, 36, 37, 38, 39, 40, 41, 42)
GPUDNN_WGMMA_SHAPE(80, 40, 40, 41, 42, 43, 44, 45, 46)
GPUDNN_WGMMA_SHAPE(88, 44, 44, 45, 46, 47, 48, 49, 50)
GPUDNN_WGMMA_SHAPE(96, 48, 48, 49, 50, 51, 52, 53, 54)
GPUDNN_WGMMA_SHAPE(104, 52, 52, 53, 54, 55, 56, 57, 58)
GPUDNN_WGMMA_SHAPE(112, 56, 56, 57, 58, 59, 60, 61, 62)
GPUDNN_WGMMA_SHAPE(120, 60, 60, 61, 62, 63, 64, 65, 66)
GPUDNN_WGMMA_SHAPE(128, 64, 64, 65, 66, 67, 68, 69, 70)
GPUDNN_WGMMA_SHAPE(136, 68, 68, 69, 70, 71, 72, 73, 74)
GPUDNN_WGMMA_SHAPE(144, 72, 72, 73, 74, 75, 76, 77, 78)
GPUDNN_WGMMA_SHAPE(152, 76, 76, 77, 78, 79, 80, 81, 82)
GPUDNN_WGMMA_SHAPE(160, 80, 80, 81, 82, 83, 84, 85, 86)
GPUDNN_WGMMA_SHAPE(168, 84, 84, 85, 86, 87, 88, 89, 90)
GPUDNN_WGMMA_SHAPE(176, 88, 88, 89, 90, 91, 92, 93, 94)
GPUDNN_WGMMA_SHAPE(184, 92, 92, 93, 94, 95, 96, 97, 98)
GPUDNN_WGMMA_SHAPE(192, 96, 96, 97, 98, 99, 100, 101, 102)
GPUDNN_WGMMA_SHAPE(200, 100, 100, 101, 102, 103, 104, 105, 106)
GPUDNN_WGMMA_SHAPE(208, 104, 104, 105, 106, 107, 108, 109, 110)
GPUDNN_WGMMA_SHAPE(216, 108, 108, 109, 110, 111, 112, 113, 114)
GPUDNN_WGMMA_SHAPE(224, 112, 112, 113, 114, 115, 116, 117, 118)
GPUDNN_WGMMA_SHAPE(232, 116, 116, 117, 118, 119, 120, 121, 122)
GPUDNN_WGMMA_SHAPE(240, 120, 120, 121, 122, 123, 124, 125, 126)
GPUDNN_WGMMA_SHAPE(248, 124, 124, 125, 126, 127, 128, 129, 130)
GPUDNN_WGMMA_SHAPE(256, 128, 128, 129, 130, 131, 132, 133, 134)

#undef GPUDNN_WGMMA_SHAPE
#undef GPUDNN_WGMMA_TYPES
#undef GPUDNN_MAJORS
#undef GPUDNN_WGMMA
#undef GPUDNN_D_128
#undef GPUDNN_LIST_128
#undef GPUDNN_D_124
#undef GPUDNN_LIST_124
#undef GPUDNN_D_120
#undef GPUDNN_LIST_120
#undef GPUDNN_D_116
#undef GPUDNN_LIST_116
#undef GPUDNN_D_112
#undef GPUDNN_LIST_112
#undef GPUDNN_D_108
#undef GPUDNN_LIST_108
#undef GPUDNN_D_104
#undef GPUDNN_LIST_104
#undef GPUDNN_D_100
#undef GPUDNN_LIST_100
#undef GPUDNN_D_96
#undef GPUDNN_LIST_96
#undef GPUDNN_D_92
#undef GPUDNN_LIST_92
#undef GPUDNN_D_88
#undef GPUDNN_LIST_88
#undef GPUDNN_D_84
#undef GPUDNN_LIST_84
#undef GPUDNN_D_80
#undef GPUDNN_LIST_80
#undef GPUDNN_D_76
#undef GPUDNN_LIST_76
#undef GPUDNN_D_72
#undef GPUDNN_LIST_72
#undef GPUDNN_D_68
#undef GPUDNN_LIST_68
#undef GPUDNN_D_64
#undef GPUDNN_LIST_64
#undef GPUDNN_D_60
#undef GPUDNN_LIST_60
#undef GPUDNN_D_56
#undef GPUDNN_LIST_56
#undef GPUDNN_D_52
#undef GPUDNN_LIST_52
#undef GPUDNN_D_48
#undef GPUDNN_LIST_48
#undef GPUDNN_D_44
#undef GPUDNN_LIST_44
#undef GPUDNN_D_40
#undef GPUDNN_LIST_40
#undef GPUDNN_D_36
#undef GPUDNN_LIST_36
#undef GPUDNN_D_32
#undef GPUDNN_LIST_32
#undef GPUDNN_D_28
#undef GPUDNN_LIST_28
#undef GPUDNN_D_24
#undef GPUDNN_LIST_24
#undef GPUDNN_D_20
#undef GPUDNN_LIST_20
#undef GPUDNN_D_16
#undef GPUDNN_LIST_16
#undef GPUDNN_D_12
#undef GPUDNN_LIST_12
#undef GPUDNN_D_8
#undef GPUDNN_LIST_8
#undef GPUDNN_D_4
#undef GPUDNN_LIST_4
#undef GPUDNN_QUAD
// clang-format on

template <class A, class B, int kN>
constexpr bool wgmma_has_shape() {
  constexpr bool kIs8Bit = sizeof(A) == 1;
  if (kN < 8 || kN > 256 || kN % 8 != 0 || sizeof(A) != sizeof(B)) return false;
  if (!kIs8Bit && !std::is_same_v<A, B>) return false;
  return !std::is_same_v<A, std::int8_t> || (std::is_same_v<B, std::int8_t> && (kN == 8 || kN == 24 || kN % 16 == 0));
}

// A and B in shared memory. With scale_d zero, D = A B.
template <class A, class B, int kN, Major kMajorA = Major::k, Major kMajorB = Major::k>
__device__ __forceinline__ void wgmma_ss(WgmmaSum<A> (&d)[kN / 2], std::uint64_t a, std::uint64_t b, int scale_d = 1) {
  static_assert(wgmma_has_shape<A, B, kN>(), "types and width that wgmma has");
  static_assert(sizeof(A) == 2 || (kMajorA == Major::k && kMajorB == Major::k), "only 16-bit operands are MN-major");
  WgmmaShape<kN>::template ss<A, B, kMajorA, kMajorB>(d, a, b, scale_d);
}

// A in registers, B in shared memory.
template <class A, class B, int kN, Major kMajorB = Major::k>
__device__ __forceinline__ void wgmma_rs(WgmmaSum<A> (&d)[kN / 2], const std::uint32_t (&a)[4], std::uint64_t b,
                                         int scale_d = 1) {
  static_assert(wgmma_has_shape<A, B, kN>(), "types and width that wgmma has");
  static_assert(sizeof(A) == 2 || kMajorB == Major::k, "only 16-bit operands are MN-major");
  WgmmaShape<kN>::template rs<A, B, kMajorB>(d, a, b, scale_d);
}

}  // namespace gpudnn::ptx
