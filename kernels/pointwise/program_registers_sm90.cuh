// A pointwise program of few values, interpreted with all of them in registers.
//
// As the vector kernel (program.cuh), but a thread loads and widens its packs of all inputs before the first step, and
// inputs and temporaries are arrays of registers. A register has no address, so a step's operation exists once for each
// array that it may read: the bits of one number lead to both, by branches that all threads take alike
// (register_steps.hpp). What the caches of instructions have to hold is then short: 16 to 24 instructions and half a
// dozen branches for each kind of step that the program has.
//
// For: at most kRegisterSlots inputs and temporaries, types of 16 bits and f32, inputs in packs of 16 bytes and less,
// or the same for a whole pack; outputs in packs. With kAny also the operations that have no number of their own. Issue
// slots of an element, 24 a thread: 2 for a step of one instruction, 1 to widen an input, 1 for a store.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/pointwise/pack_positions.cuh"
#include "kernels/pointwise/program_registers_sm90.hpp"
#include "kernels/ptx/pin.cuh"
#include "kernels/tile/any_pack.cuh"
#include "kernels/tile/program.cuh"

namespace gpudnn::kernels {

template <int N, int P, bool kAny>
struct RegisterMachine {
  static constexpr int E = N * P;
  static constexpr int kWords = 4;  // of a pack
  using Words = std::uint32_t[P][kWords];

  const RegisterArgs& args;
  std::uint32_t first;
  float slot[kRegisterSlots][E];  // a program reads none that it has not filled
  float a[E];
  std::uint32_t predicate;

  __device__ __forceinline__ RegisterMachine(const RegisterArgs& its, std::uint32_t number)
      : args(its), first(number) {}

  __device__ __forceinline__ static void load(const VectorTensor& tensor, const char* from,
                                              std::uint32_t (&words)[kWords]) {
    if (tensor.form != InputForm::staged) {  // one element, in all places
      const std::uint32_t one = tensor.chunk == 2 * N ? *reinterpret_cast<const std::uint16_t*>(from) * 0x10001u
                                                      : *reinterpret_cast<const std::uint32_t*>(from);
#pragma unroll
      for (int i = 0; i < kWords; ++i) words[i] = one;
    } else if (N == 8 || tensor.chunk == 16) {
      const uint4 bits = *reinterpret_cast<const uint4*>(from);
      words[0] = bits.x, words[1] = bits.y, words[2] = bits.z, words[3] = bits.w;
    } else {
      const uint2 bits = *reinterpret_cast<const uint2*>(from);
      words[0] = bits.x, words[1] = bits.y;
    }
  }

  __device__ __forceinline__ static void widen(tile::AnyType type, const Words& from, float (&to)[E]) {
    std::uint32_t words[P][N];
#pragma unroll
    for (int p = 0; p < P; ++p) {
#pragma unroll
      for (int i = 0; i < N; ++i) words[p][i] = from[p][i % kWords];
    }
    if (type == tile::AnyType::bf16) {
      tile::widen_any<N, P>(tile::AnyType::bf16, words, to);
    } else if (N == 8 || type == tile::AnyType::f16) {
      tile::widen_any<N, P>(tile::AnyType::f16, words, to);
    } else {
      tile::widen_any<N, P>(tile::AnyType::f32, words, to);
    }
  }

  // All inputs from kFirst on are loaded before the first of them is widened. What no input fills is set to 0: else its
  // registers would be taken for values of the thread's last tile.
  template <int kFirst = 0>
  __device__ __forceinline__ void load_inputs(const PackPositions<P>& positions) {
    if constexpr (kFirst < kRegisterSlots) {
      if (kFirst < args.code.inputs) {
        const VectorTensor& tensor = args.in[kFirst];
        Words raw;
        std::int64_t offset[P];
        positions.byte_offsets(args, tensor, offset);
#pragma unroll
        for (int p = 0; p < P; ++p) load(tensor, tensor.data + offset[p], raw[p]);
        load_inputs<kFirst + 1>(positions);
        widen(static_cast<tile::AnyType>(tensor.type), raw, slot[kFirst]);
      } else {
#pragma unroll
        for (int t = kFirst; t < kRegisterSlots; ++t) {
#pragma unroll
          for (int i = 0; i < E; ++i) slot[t][i] = 0.0f;
        }
      }
    }
  }

  template <tile::AnyType kType>
  __device__ __forceinline__ void round() {
    std::uint32_t words[P][N];
    tile::narrow_any<N, P>(kType, a, words);
    tile::widen_any<N, P>(kType, words, a);
  }

  // The packs' places are worked out anew: kept from the loads, they would take the registers of a slot.
  __device__ __forceinline__ void store(int output) const {
    const VectorTensor& tensor = args.out[output];
    std::int64_t offset[P];
    PackPositions<P>(args, first).byte_offsets(args, tensor, offset);
    const auto type = static_cast<tile::AnyType>(tensor.type);
    std::uint32_t words[P][N];
    if (type == tile::AnyType::bf16) {
      tile::narrow_any<N, P>(tile::AnyType::bf16, a, words);
    } else if (N == 8 || type == tile::AnyType::f16) {
      tile::narrow_any<N, P>(tile::AnyType::f16, a, words);
    } else {
      tile::narrow_any<N, P>(tile::AnyType::f32, a, words);
    }
#pragma unroll
    for (int p = 0; p < P; ++p) {
      if (first + p * kProgramThreads < args.packs) store_chunk(tensor.data + offset[p], tensor.chunk, words[p]);
    }
  }

  template <class Function>
  __device__ __forceinline__ void each(Function function) {
#pragma unroll
    for (int i = 0; i < E; ++i) a[i] = function(a[i]);
  }
  template <class Function>
  __device__ __forceinline__ void each(const float (&b)[E], Function function) {
#pragma unroll
    for (int i = 0; i < E; ++i) a[i] = function(a[i], b[i]);
  }
  // By an instruction that the compiler does not know for a copy, `zero` being told at run time: else it makes one
  // value of the two and moves whole arrays about wherever steps meet. Another one for each slot, so that it does not
  // join the slots' copies to one with a selection of where to.
  template <int kSlot>
  __device__ __forceinline__ static void copy(const float (&from)[E], std::uint32_t zero, float (&to)[E]) {
    static_assert(kRegisterSlots == 4, "an instruction for each");
#pragma unroll
    for (int i = 0; i < E; ++i) {
      const std::uint32_t bits = __float_as_uint(from[i]);
      to[i] = __uint_as_float(kSlot == 0   ? bits ^ zero
                              : kSlot == 1 ? bits | zero
                              : kSlot == 2 ? bits + zero
                                           : bits - zero);
    }
  }

  // The context of tile::fetch_operand: inputs and temporaries are numbered as slots.
  __device__ __forceinline__ void fetch(int number, float (&b)[E]) const { recall(number, b); }
  __device__ __forceinline__ void recall(int number, float (&b)[E]) const {
#pragma unroll
    for (int k = 0; k < kRegisterSlots; ++k) {
      if (number != k) continue;
#pragma unroll
      for (int i = 0; i < E; ++i) b[i] = slot[k][i];
    }
  }

  // The step of that number; `numbers` are its parameters.
  template <int kNumber>
  __device__ __forceinline__ void run_step(std::uint32_t word, float number, const float* numbers) {
    namespace math = tile::pointwise;
    if constexpr (kNumber >= kFirstSlotStep) {
      constexpr auto kOp = static_cast<SlotStep>((kNumber - kFirstSlotStep) / kRegisterSlots);
      constexpr int kSlot = kNumber % kRegisterSlots;
      float(&b)[E] = slot[kSlot];
      if constexpr (kOp == SlotStep::load) copy<kSlot>(b, args.zero, a);
      if constexpr (kOp == SlotStep::keep) copy<kSlot>(a, args.zero, b);
      if constexpr (kOp == SlotStep::add) each(b, [](float x, float y) { return math::rounded_sum(x, y); });
      if constexpr (kOp == SlotStep::sub) each(b, [](float x, float y) { return math::rounded_sum(x, -y); });
      if constexpr (kOp == SlotStep::sub_from) each(b, [](float x, float y) { return math::rounded_sum(y, -x); });
      if constexpr (kOp == SlotStep::mul) each(b, [](float x, float y) { return math::rounded_product(x, y); });
      if constexpr (kOp == SlotStep::max) each(b, [](float x, float y) { return math::larger(x, y); });
      if constexpr (kOp == SlotStep::min) each(b, [](float x, float y) { return math::smaller(x, y); });
    } else {
      constexpr auto kOp = static_cast<OneStep>(kNumber);
      if constexpr (kOp == OneStep::square) each([](float x) { return math::rounded_product(x, x); });
      if constexpr (kOp == OneStep::add_number) each([=](float x) { return math::rounded_sum(x, number); });
      if constexpr (kOp == OneStep::mul_number) each([=](float x) { return math::rounded_product(x, number); });
      if constexpr (kOp == OneStep::max_number) each([=](float x) { return math::larger(x, number); });
      if constexpr (kOp == OneStep::min_number) each([=](float x) { return math::smaller(x, number); });
      if constexpr (kOp == OneStep::set_number) each([=](float) { return number; });
      if constexpr (kOp == OneStep::abs) each([](float x) { return fabsf(x); });
      if constexpr (kOp == OneStep::neg) each([](float x) { return -x; });
      if constexpr (kOp == OneStep::round_f16) round<tile::AnyType::f16>();
      if constexpr (kOp == OneStep::round_bf16) round<tile::AnyType::bf16>();
      if constexpr (kOp == OneStep::store) store(static_cast<int>(word >> 10 & 63u));
      if constexpr (kOp == OneStep::any && kAny) {
        const tile::ProgramStep<float> step = {word, {numbers[0], numbers[1], number}};
        float b[E];
        tile::fetch_operand(step, *this, a, b);
        tile::apply_step(step, a, b, &predicate);
      }
    }
  }

  // Finds the step of a word by the bits of its number, from kBit down; those above are in kNumber.
  template <int kBit, int kNumber>
  __device__ __forceinline__ void find_step(std::uint32_t word, float number, const float* numbers) {
    if constexpr (kBit < 0) {
      run_step<kNumber>(word, number, numbers);
    } else if constexpr ((kNumber | 1 << kBit) >= kStepNumbers ||
                         (kNumber < kFirstSlotStep && (kNumber | 1 << kBit) >= kOneSteps &&
                          (kNumber | 1 << kBit) < kFirstSlotStep)) {
      find_step<kBit - 1, kNumber>(word, number, numbers);
    } else if ((word >> (kRegisterStepBit + kBit) & 1u) != 0) {
      find_step<kBit - 1, kNumber | 1 << kBit>(word, number, numbers);
    } else {
      find_step<kBit - 1, kNumber>(word, number, numbers);
    }
  }

  __device__ __forceinline__ void run(const tile::ProgramStep<float>* step) {
    predicate = 0;
#pragma unroll
    for (int i = 0; i < E; ++i) a[i] = 0.0f;
#pragma unroll 1
    for (std::uint32_t word = step->word; word != 0; ++step) {
      const std::uint32_t next = step[1].word;
      float number = step->p[tile::kStepImmediate];
      ptx::pin(&number);  // read before the branches, which its arrival then does not delay
      find_step<kStepNumberBits - 1, 0>(word, number, step->p);
      word = next ^ args.zero;  // here: a copy would stand at the top, and wait for the load
    }
  }
};

template <int N, int P, int kBlocks, bool kAny>
__global__ void __launch_bounds__(kProgramThreads, kBlocks)
    program_registers(const __grid_constant__ RegisterArgs args) {
  __shared__ tile::ProgramStep<float> steps[kRegisterSteps];
  if (threadIdx.x < kRegisterSteps) steps[threadIdx.x] = args.code.step[threadIdx.x];
  __syncthreads();
  constexpr std::uint32_t kTile = kProgramThreads * P;
  for (std::uint32_t first = blockIdx.x * kTile + threadIdx.x; first < args.packs; first += gridDim.x * kTile) {
    RegisterMachine<N, P, kAny> machine(args, first);
    machine.load_inputs(PackPositions<P>(args, first));
    machine.run(steps);
  }
}

}  // namespace gpudnn::kernels
