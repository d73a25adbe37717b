// brx.idx, and around it the commonest steps of staged pointwise programs (kernels/pointwise/staged_steps.hpp): each
// one ends with a jump to the next by a table, whose place there was read a step ahead. The compiler makes a tree of
// branches of a switch, with a wait of 18 cycles for each of six, and no jump goes from one asm to another.
//
// The registers of the machine are those of the caller: a in the operands %0 to %15 and %32 to %47, b in %16 to %31 and
// %48 to %63; of 16 elements the first ones of each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gpudnn::ptx {

// clang-format off
// F(a, b) for each element.
#define GPUDNN_ELEMENTS_16(F) \
  F(0, 16) F(1, 17) F(2, 18) F(3, 19) F(4, 20) F(5, 21) F(6, 22) F(7, 23) \
  F(8, 24) F(9, 25) F(10, 26) F(11, 27) F(12, 28) F(13, 29) F(14, 30) F(15, 31)
#define GPUDNN_ELEMENTS_32(F) GPUDNN_ELEMENTS_16(F) \
  F(32, 48) F(33, 49) F(34, 50) F(35, 51) F(36, 52) F(37, 53) F(38, 54) F(39, 55) \
  F(40, 56) F(41, 57) F(42, 58) F(43, 59) F(44, 60) F(45, 61) F(46, 62) F(47, 63)
// F(bytes from the first pack, registers) for each four floats of a and of b; packs of a block's threads lie side by side.
#define GPUDNN_FLOATS_A_16(F) F(0, 0, 1, 2, 3) F(2048, 4, 5, 6, 7) F(4096, 8, 9, 10, 11) F(6144, 12, 13, 14, 15)
#define GPUDNN_FLOATS_B_16(F) F(0, 16, 17, 18, 19) F(2048, 20, 21, 22, 23) F(4096, 24, 25, 26, 27) F(6144, 28, 29, 30, 31)
#define GPUDNN_FLOATS_A_32(F) GPUDNN_FLOATS_A_16(F) \
  F(8192, 32, 33, 34, 35) F(10240, 36, 37, 38, 39) F(12288, 40, 41, 42, 43) F(14336, 44, 45, 46, 47)
#define GPUDNN_FLOATS_B_32(F) GPUDNN_FLOATS_B_16(F) \
  F(8192, 48, 49, 50, 51) F(10240, 52, 53, 54, 55) F(12288, 56, 57, 58, 59) F(14336, 60, 61, 62, 63)
// The same of numbers of 16 bits, in packs of 8 elements and of 4.
#define GPUDNN_HALVES_A_8_16(F) F(0, 0, 1, 2, 3, 4, 5, 6, 7) F(2048, 8, 9, 10, 11, 12, 13, 14, 15)
#define GPUDNN_HALVES_B_8_16(F) F(0, 16, 17, 18, 19, 20, 21, 22, 23) F(2048, 24, 25, 26, 27, 28, 29, 30, 31)
#define GPUDNN_HALVES_A_8_32(F) GPUDNN_HALVES_A_8_16(F) \
  F(4096, 32, 33, 34, 35, 36, 37, 38, 39) F(6144, 40, 41, 42, 43, 44, 45, 46, 47)
#define GPUDNN_HALVES_B_8_32(F) GPUDNN_HALVES_B_8_16(F) \
  F(4096, 48, 49, 50, 51, 52, 53, 54, 55) F(6144, 56, 57, 58, 59, 60, 61, 62, 63)
#define GPUDNN_HALVES_A_4_16(F) F(0, 0, 1, 2, 3) F(1024, 4, 5, 6, 7) F(2048, 8, 9, 10, 11) F(3072, 12, 13, 14, 15)
#define GPUDNN_HALVES_B_4_16(F) F(0, 16, 17, 18, 19) F(1024, 20, 21, 22, 23) F(2048, 24, 25, 26, 27) F(3072, 28, 29, 30, 31)
// F(even, odd) for each two elements of a.
#define GPUDNN_TWOS_16(F) F(0, 1) F(2, 3) F(4, 5) F(6, 7) F(8, 9) F(10, 11) F(12, 13) F(14, 15)
#define GPUDNN_TWOS_32(F) GPUDNN_TWOS_16(F) F(32, 33) F(34, 35) F(36, 37) F(38, 39) F(40, 41) F(42, 43) F(44, 45) F(46, 47)

#define GPUDNN_WIDEN_bf16(word, even, odd) \
  "shl.b32 t0, " word ", 16; and.b32 t1, " word ", 0xffff0000; mov.b32 %" #even ", t0; mov.b32 %" #odd ", t1;\n"
#define GPUDNN_WIDEN_f16(word, even, odd) \
  "mov.b32 {h0, h1}, " word "; cvt.f32.f16 %" #even ", h0; cvt.f32.f16 %" #odd ", h1;\n"
#define GPUDNN_READ_8(WIDEN, at, e0, e1, e2, e3, e4, e5, e6, e7) \
  "ld.shared.v4.b32 {w0, w1, w2, w3}, [place + " #at "];\n" \
  WIDEN("w0", e0, e1) WIDEN("w1", e2, e3) WIDEN("w2", e4, e5) WIDEN("w3", e6, e7)
#define GPUDNN_READ_4(WIDEN, at, e0, e1, e2, e3) \
  "ld.shared.v2.b32 {w0, w1}, [place + " #at "];\n" WIDEN("w0", e0, e1) WIDEN("w1", e2, e3)
#define GPUDNN_READ_8_f16(...) GPUDNN_READ_8(GPUDNN_WIDEN_f16, __VA_ARGS__)
#define GPUDNN_READ_8_bf16(...) GPUDNN_READ_8(GPUDNN_WIDEN_bf16, __VA_ARGS__)
#define GPUDNN_READ_4_f16(...) GPUDNN_READ_4(GPUDNN_WIDEN_f16, __VA_ARGS__)
#define GPUDNN_READ_4_bf16(...) GPUDNN_READ_4(GPUDNN_WIDEN_bf16, __VA_ARGS__)
#define GPUDNN_READ_FLOATS(at, e0, e1, e2, e3) \
  "ld.shared.v4.f32 {%" #e0 ", %" #e1 ", %" #e2 ", %" #e3 "}, [place + " #at "];\n"
#define GPUDNN_WRITE_FLOATS(at, e0, e1, e2, e3) \
  "st.shared.v4.f32 [place + " #at "], {%" #e0 ", %" #e1 ", %" #e2 ", %" #e3 "};\n"
#define GPUDNN_ROUND_f16(even, odd) "cvt.rn.f16x2.f32 w0, %" #odd ", %" #even ";\n" GPUDNN_WIDEN_f16("w0", even, odd)
#define GPUDNN_ROUND_bf16(even, odd) "cvt.rn.bf16x2.f32 w0, %" #odd ", %" #even ";\n" GPUDNN_WIDEN_bf16("w0", even, odd)

#define GPUDNN_ADD(a, b) "add.rn.f32 %" #a ", %" #a ", %" #b ";\n"
#define GPUDNN_SUB(a, b) "sub.rn.f32 %" #a ", %" #a ", %" #b ";\n"
#define GPUDNN_SUB_FROM(a, b) "sub.rn.f32 %" #a ", %" #b ", %" #a ";\n"
#define GPUDNN_MUL(a, b) "mul.rn.f32 %" #a ", %" #a ", %" #b ";\n"
#define GPUDNN_MAX(a, b) "max.NaN.f32 %" #a ", %" #a ", %" #b ";\n"
#define GPUDNN_MIN(a, b) "min.NaN.f32 %" #a ", %" #a ", %" #b ";\n"
#define GPUDNN_ADD_NUMBER(a, b) "add.rn.f32 %" #a ", %" #a ", number;\n"
#define GPUDNN_MUL_NUMBER(a, b) "mul.rn.f32 %" #a ", %" #a ", number;\n"
#define GPUDNN_MAX_NUMBER(a, b) "max.NaN.f32 %" #a ", %" #a ", number;\n"
#define GPUDNN_MIN_NUMBER(a, b) "min.NaN.f32 %" #a ", %" #a ", number;\n"
#define GPUDNN_ADD_MUL(a, b) GPUDNN_ADD_NUMBER(a, b) "mul.rn.f32 %" #a ", %" #a ", second;\n"
#define GPUDNN_MUL_ADD(a, b) GPUDNN_MUL_NUMBER(a, b) "add.rn.f32 %" #a ", %" #a ", second;\n"
#define GPUDNN_CLAMP(a, b) GPUDNN_MAX_NUMBER(a, b) "min.NaN.f32 %" #a ", %" #a ", second;\n"
#define GPUDNN_SET(a, b) "mov.f32 %" #a ", number;\n"
#define GPUDNN_SQUARE(a, b) "mul.rn.f32 %" #a ", %" #a ", %" #a ";\n"
#define GPUDNN_ABS(a, b) "abs.f32 %" #a ", %" #a ";\n"
#define GPUDNN_NEG(a, b) "neg.f32 %" #a ", %" #a ";\n"
// A copy that the compiler does not know for one: else it makes one value of the two, and moves arrays about wherever steps meet.
#define GPUDNN_TAKE(a, b) "mov.b32 t0, %" #b "; xor.b32 t0, t0, zero; mov.b32 %" #a ", t0;\n"

// A step's word tells the kind of the next one, so that the table is read before the work; the next step's word and its
// numbers are read meanwhile.
#define GPUDNN_STAGED_STEP(name, work) \
  name ":\n" \
  "shr.u32 kind, word, 26; ld.shared.v4.b32 {next_word, next_number, next_second, t2}, [step + 16];\n" work \
  "add.u32 step, step, 16; mov.b32 word, next_word; mov.b32 number, next_number; mov.b32 second, next_second;\n" \
  "brx.idx.uni kind, kinds;\n"
#define GPUDNN_PLACE "add.u32 place, number, own;\n"
#define GPUDNN_PLACE_HALVES "add.u32 place, number, own_halves;\n"
#define GPUDNN_USUAL_f16(E, N) GPUDNN_PLACE_HALVES GPUDNN_HALVES_B_##N##_##E(GPUDNN_READ_##N##_f16)
#define GPUDNN_USUAL_bf16(E, N) GPUDNN_PLACE_HALVES GPUDNN_HALVES_B_##N##_##E(GPUDNN_READ_##N##_bf16)
#define GPUDNN_USUAL_f32(E, N) GPUDNN_PLACE GPUDNN_FLOATS_B_##E(GPUDNN_READ_FLOATS)

#define GPUDNN_STEPS(E, N, USUAL) \
  GPUDNN_STAGED_STEP("load_f16", GPUDNN_PLACE_HALVES GPUDNN_HALVES_A_##N##_##E(GPUDNN_READ_##N##_f16)) \
  GPUDNN_STAGED_STEP("load_bf16", GPUDNN_PLACE_HALVES GPUDNN_HALVES_A_##N##_##E(GPUDNN_READ_##N##_bf16)) \
  GPUDNN_STAGED_STEP("load_floats", GPUDNN_PLACE GPUDNN_FLOATS_A_##E(GPUDNN_READ_FLOATS)) \
  GPUDNN_STAGED_STEP("fetch_f16", GPUDNN_PLACE_HALVES GPUDNN_HALVES_B_##N##_##E(GPUDNN_READ_##N##_f16)) \
  GPUDNN_STAGED_STEP("fetch_bf16", GPUDNN_PLACE_HALVES GPUDNN_HALVES_B_##N##_##E(GPUDNN_READ_##N##_bf16)) \
  GPUDNN_STAGED_STEP("fetch_floats", GPUDNN_PLACE GPUDNN_FLOATS_B_##E(GPUDNN_READ_FLOATS)) \
  GPUDNN_STAGED_STEP("take", GPUDNN_ELEMENTS_##E(GPUDNN_TAKE)) \
  GPUDNN_STAGED_STEP("max_number", GPUDNN_ELEMENTS_##E(GPUDNN_MAX_NUMBER)) \
  GPUDNN_STAGED_STEP("min_number", GPUDNN_ELEMENTS_##E(GPUDNN_MIN_NUMBER)) \
  GPUDNN_STAGED_STEP("set_number", GPUDNN_ELEMENTS_##E(GPUDNN_SET)) \
  GPUDNN_STAGED_STEP("add_mul_numbers", GPUDNN_ELEMENTS_##E(GPUDNN_ADD_MUL)) \
  GPUDNN_STAGED_STEP("square", GPUDNN_ELEMENTS_##E(GPUDNN_SQUARE)) \
  GPUDNN_STAGED_STEP("abs_", GPUDNN_ELEMENTS_##E(GPUDNN_ABS)) \
  GPUDNN_STAGED_STEP("neg_", GPUDNN_ELEMENTS_##E(GPUDNN_NEG)) \
  GPUDNN_STAGED_STEP("round_f16", GPUDNN_TWOS_##E(GPUDNN_ROUND_f16)) \
  GPUDNN_STAGED_STEP("round_bf16", GPUDNN_TWOS_##E(GPUDNN_ROUND_bf16)) \
  GPUDNN_STAGED_STEP("keep", GPUDNN_PLACE GPUDNN_FLOATS_A_##E(GPUDNN_WRITE_FLOATS)) \
  GPUDNN_STAGED_STEP("add_", GPUDNN_ELEMENTS_##E(GPUDNN_ADD)) \
  GPUDNN_STAGED_STEP("sub_", GPUDNN_ELEMENTS_##E(GPUDNN_SUB)) \
  GPUDNN_STAGED_STEP("sub_from", GPUDNN_ELEMENTS_##E(GPUDNN_SUB_FROM)) \
  GPUDNN_STAGED_STEP("mul_", GPUDNN_ELEMENTS_##E(GPUDNN_MUL)) \
  GPUDNN_STAGED_STEP("max_", GPUDNN_ELEMENTS_##E(GPUDNN_MAX)) \
  GPUDNN_STAGED_STEP("min_", GPUDNN_ELEMENTS_##E(GPUDNN_MIN)) \
  GPUDNN_STAGED_STEP("add_input", USUAL(E, N) GPUDNN_ELEMENTS_##E(GPUDNN_ADD)) \
  GPUDNN_STAGED_STEP("sub_input", USUAL(E, N) GPUDNN_ELEMENTS_##E(GPUDNN_SUB)) \
  GPUDNN_STAGED_STEP("sub_from_input", USUAL(E, N) GPUDNN_ELEMENTS_##E(GPUDNN_SUB_FROM)) \
  GPUDNN_STAGED_STEP("mul_input", USUAL(E, N) GPUDNN_ELEMENTS_##E(GPUDNN_MUL)) \
  GPUDNN_STAGED_STEP("max_input", USUAL(E, N) GPUDNN_ELEMENTS_##E(GPUDNN_MAX)) \
  GPUDNN_STAGED_STEP("min_input", USUAL(E, N) GPUDNN_ELEMENTS_##E(GPUDNN_MIN)) \
  GPUDNN_STAGED_STEP("add_number", GPUDNN_ELEMENTS_##E(GPUDNN_ADD_NUMBER)) \
  GPUDNN_STAGED_STEP("mul_number", GPUDNN_ELEMENTS_##E(GPUDNN_MUL_NUMBER)) \
  GPUDNN_STAGED_STEP("mul_add_numbers", GPUDNN_ELEMENTS_##E(GPUDNN_MUL_ADD)) \
  GPUDNN_STAGED_STEP("clamp", GPUDNN_ELEMENTS_##E(GPUDNN_CLAMP))

// In the order of StagedOp; `leave`: not here.
#define GPUDNN_KINDS \
  "kinds: .branchtargets leave, load_f16, load_bf16, load_floats, load_floats, fetch_f16, fetch_bf16, fetch_floats, " \
  "fetch_floats, leave, take, max_number, min_number, set_number, add_mul_numbers, square, abs_, neg_, round_f16, " \
  "round_bf16, keep, leave, leave, leave, leave, leave, add_, sub_, sub_from, mul_, max_, min_, add_input, sub_input, " \
  "sub_from_input, mul_input, max_input, min_input, add_number, mul_number, mul_add_numbers, clamp, leave, leave, " \
  "leave, leave, leave, leave, leave, leave, leave, leave, leave;\n"

#define GPUDNN_ARRAYS_16 \
  "+f"(a[0]), "+f"(a[1]), "+f"(a[2]), "+f"(a[3]), "+f"(a[4]), "+f"(a[5]), "+f"(a[6]), "+f"(a[7]), \
  "+f"(a[8]), "+f"(a[9]), "+f"(a[10]), "+f"(a[11]), "+f"(a[12]), "+f"(a[13]), "+f"(a[14]), "+f"(a[15]), \
  "+f"(b[0]), "+f"(b[1]), "+f"(b[2]), "+f"(b[3]), "+f"(b[4]), "+f"(b[5]), "+f"(b[6]), "+f"(b[7]), \
  "+f"(b[8]), "+f"(b[9]), "+f"(b[10]), "+f"(b[11]), "+f"(b[12]), "+f"(b[13]), "+f"(b[14]), "+f"(b[15])
#define GPUDNN_ARRAYS_32 GPUDNN_ARRAYS_16, \
  "+f"(a[16]), "+f"(a[17]), "+f"(a[18]), "+f"(a[19]), "+f"(a[20]), "+f"(a[21]), "+f"(a[22]), "+f"(a[23]), \
  "+f"(a[24]), "+f"(a[25]), "+f"(a[26]), "+f"(a[27]), "+f"(a[28]), "+f"(a[29]), "+f"(a[30]), "+f"(a[31]), \
  "+f"(b[16]), "+f"(b[17]), "+f"(b[18]), "+f"(b[19]), "+f"(b[20]), "+f"(b[21]), "+f"(b[22]), "+f"(b[23]), \
  "+f"(b[24]), "+f"(b[25]), "+f"(b[26]), "+f"(b[27]), "+f"(b[28]), "+f"(b[29]), "+f"(b[30]), "+f"(b[31])

#define GPUDNN_INTERPRETER(E, N, USUAL, step_operand, own_operand, own_halves_operand, zero_operand) \
  asm volatile("{\n" \
    ".reg .b32 step, own, own_halves, zero, kind, place, word, number, second, next_word, next_number, next_second;\n" \
    ".reg .b32 t0, t1, t2, w0, w1, w2, w3;\n.reg .b16 h0, h1;\n" \
    "mov.b32 step, " step_operand "; mov.b32 own, " own_operand "; mov.b32 own_halves, " own_halves_operand ";\n" \
    "mov.b32 zero, " zero_operand ";\n" \
    GPUDNN_KINDS \
    "ld.shared.v4.b32 {word, number, second, t2}, [step]; bfe.u32 kind, word, 18, 6;\n" \
    "brx.idx.uni kind, kinds;\n" \
    GPUDNN_STEPS(E, N, USUAL) \
    "leave:\n" \
    "mov.b32 " step_operand ", step;\n}" \
    : GPUDNN_ARRAYS_##E, "+r"(*step) : "r"(own), "r"(own_halves), "r"(zero) : "memory")
// clang-format on

// Run the steps from `step` on, a place in shared memory, up to one that is not here. own: the thread's place in packs
// of 16 bytes, and own_halves in packs of halves, from where the steps' numbers count; zero: one that the compiler does
// not know. Of 32 elements in packs of 8, the usual input being of the name's type; of 16 in packs of 8 and of 4.
#define GPUDNN_STAGED_OPERANDS(E) \
  float(&a)[E], float(&b)[E], std::uint32_t own, std::uint32_t own_halves, std::uint32_t zero, std::uint32_t *step
__device__ __forceinline__ void staged_steps_f16(GPUDNN_STAGED_OPERANDS(32)) {
  GPUDNN_INTERPRETER(32, 8, GPUDNN_USUAL_f16, "%64", "%65", "%66", "%67");
}
__device__ __forceinline__ void staged_steps_bf16(GPUDNN_STAGED_OPERANDS(32)) {
  GPUDNN_INTERPRETER(32, 8, GPUDNN_USUAL_bf16, "%64", "%65", "%66", "%67");
}
__device__ __forceinline__ void staged_steps_of_8(GPUDNN_STAGED_OPERANDS(16)) {
  GPUDNN_INTERPRETER(16, 8, GPUDNN_USUAL_f32, "%32", "%33", "%34", "%35");
}
__device__ __forceinline__ void staged_steps_of_4(GPUDNN_STAGED_OPERANDS(16)) {
  GPUDNN_INTERPRETER(16, 4, GPUDNN_USUAL_f32, "%32", "%33", "%34", "%35");
}

}  // namespace gpudnn::ptx
