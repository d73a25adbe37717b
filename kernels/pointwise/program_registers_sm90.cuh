// A pointwise program of few inputs, interpreted with all of them in registers.
//
// As the vector kernel (program.cuh), but a thread loads its own packs of all inputs before the first step and keeps
// them as they lie in memory, four words each; a step's number chooses among them by a switch that all threads take
// alike. So nothing goes through shared memory but the steps and temporaries, and more blocks fit on a multiprocessor.
//
// For: at most kRegisterInputs tensors, each in packs of 16 bytes and less, or the same for a whole pack.
// Issue slots of an element: 0.5 to choose an operand, 1 to widen it, 0.8 for a step's decoding, beside its arithmetic.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/pointwise/program.cuh"
#include "kernels/pointwise/program_registers_sm90.hpp"

namespace gpudnn::kernels {

static_assert(kRegisterInputs == 3, "widen() and fetch() know them");

template <int N, int P>
struct RegisterContext {
  static constexpr int E = N * P;
  const VectorArgs& args;
  const VectorTable& table;
  const PackPositions<P>& positions;
  std::uint32_t first;
  std::uint32_t raw[kRegisterInputs][P][kRegisterWords];

  __device__ __forceinline__ void load_all() {
#pragma unroll
    for (int t = 0; t < kRegisterInputs; ++t) {
      if (t >= args.inputs) break;
      const VectorTensor tensor = table.in[t];
      std::int64_t offset[P];
      positions.byte_offsets(args, tensor, offset);
#pragma unroll
      for (int p = 0; p < P; ++p) load(tensor, tensor.data + offset[p], raw[t][p]);
    }
  }

  // A tensor that stays put along a pack is read once, and fills all words.
  __device__ __forceinline__ static void load(const VectorTensor& tensor, const char* from,
                                              std::uint32_t (&words)[kRegisterWords]) {
    if (tensor.form != InputForm::staged) {
      const int bytes = tensor.chunk / N;
      const std::uint32_t one = bytes == 2   ? *reinterpret_cast<const std::uint16_t*>(from) * 0x10001u
                                : bytes == 4 ? *reinterpret_cast<const std::uint32_t*>(from)
                                             : *reinterpret_cast<const std::uint8_t*>(from) * 0x1010101u;
#pragma unroll
      for (int i = 0; i < kRegisterWords; ++i) words[i] = one;
    } else if (tensor.chunk == 16) {
      const uint4 bits = *reinterpret_cast<const uint4*>(from);
      words[0] = bits.x, words[1] = bits.y, words[2] = bits.z, words[3] = bits.w;
    } else if (tensor.chunk == 8) {
      const uint2 bits = *reinterpret_cast<const uint2*>(from);
      words[0] = bits.x, words[1] = bits.y;
    } else {
      words[0] = *reinterpret_cast<const std::uint32_t*>(from);
    }
  }

  template <tile::AnyType kType>
  __device__ __forceinline__ void widen(int input, float (&b)[E]) const {
    if (input == 0) {
      widen_words<kType>(raw[0], b);
    } else if (input == 1) {
      widen_words<kType>(raw[1], b);
    } else {
      widen_words<kType>(raw[2], b);
    }
  }
  template <tile::AnyType kType>
  __device__ __forceinline__ static void widen_words(const std::uint32_t (&from)[P][kRegisterWords], float (&b)[E]) {
    std::uint32_t words[P][N];
#pragma unroll
    for (int p = 0; p < P; ++p) {
#pragma unroll
      for (int i = 0; i < N; ++i) words[p][i] = from[p][i % kRegisterWords];
    }
    tile::widen_any<N, P>(kType, words, b);
  }

  // Types of 16 and 32 bits without a choice among words; others are rare.
  __device__ __forceinline__ void fetch(int input, float (&b)[E]) const {
    const auto type = static_cast<tile::AnyType>(table.in[input].type);
    if (type == tile::AnyType::bf16) return widen<tile::AnyType::bf16>(input, b);
    if (type == tile::AnyType::f16) return widen<tile::AnyType::f16>(input, b);
    if (N == 4 && type == tile::AnyType::f32) return widen<tile::AnyType::f32>(input, b);
    std::uint32_t words[P][N];
#pragma unroll
    for (int p = 0; p < P; ++p) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const int k = i % kRegisterWords;
        words[p][i] = input == 0 ? raw[0][p][k] : input == 1 ? raw[1][p][k] : raw[2][p][k];
      }
    }
    tile::widen_any<N, P>(type, words, b);
  }

  __device__ __forceinline__ float4* place_of(int temp) const {
    return reinterpret_cast<float4*>(tile::dynamic_shared()) + temp * (E / 4) * kProgramThreads + threadIdx.x;
  }
  __device__ __forceinline__ void keep(int temp, const float (&a)[E]) const {
#pragma unroll
    for (int i = 0; i < E / 4; ++i) {
      place_of(temp)[i * kProgramThreads] = make_float4(a[4 * i], a[4 * i + 1], a[4 * i + 2], a[4 * i + 3]);
    }
  }
  __device__ __forceinline__ void recall(int temp, float (&b)[E]) const {
#pragma unroll
    for (int i = 0; i < E / 4; ++i) {
      const float4 four = place_of(temp)[i * kProgramThreads];
      b[4 * i] = four.x, b[4 * i + 1] = four.y, b[4 * i + 2] = four.z, b[4 * i + 3] = four.w;
    }
  }

  __device__ __forceinline__ void round(tile::AnyType type, float (&a)[E]) const {
    std::uint32_t words[P][N];
    tile::narrow_any<N, P>(type, a, words);
    tile::widen_any<N, P>(type, words, a);
  }

  __device__ __forceinline__ void store(int output, const float (&a)[E]) const {
    const VectorContext<N, P> to{args, table, nullptr, positions, first};
    to.store(output, a);
  }
};

// As tile::run_program, but steps without an operand prepare none.
template <int E, class Context>
__device__ __forceinline__ void run_in_registers(const tile::ProgramCode<float>& code, float (&a)[E],
                                                 Context& context) {
  std::uint32_t predicate = 0;
#pragma unroll 1
  for (int s = 0; s < code.steps; ++s) {
    const tile::ProgramStep<float> step = code.step[s];
    const int op = static_cast<int>(step.word & 127u);
    const float number = step.p[tile::kStepImmediate];
    if (op >= tile::kStepAddImmediate && op <= tile::kStepMinImmediate) {
      if (op <= tile::kStepMulImmediate) {
        if (op == tile::kStepAddImmediate) {
#pragma unroll
          for (int i = 0; i < E; ++i) a[i] = tile::pointwise::rounded_sum(a[i], number);
        } else {
#pragma unroll
          for (int i = 0; i < E; ++i) a[i] = tile::pointwise::rounded_product(a[i], number);
        }
      } else if (op == tile::kStepMaxImmediate) {
#pragma unroll
        for (int i = 0; i < E; ++i) a[i] = tile::pointwise::larger(a[i], number);
      } else {
#pragma unroll
        for (int i = 0; i < E; ++i) a[i] = tile::pointwise::smaller(a[i], number);
      }
    } else if (op == tile::kStepLoad) {
      tile::fetch_operand(step, context, a, a);
    } else {
      float b[E];
      if (static_cast<tile::StepSource>(step.word >> 7 & 7u) == tile::StepSource::none) {
#pragma unroll
        for (int i = 0; i < E; ++i) b[i] = 0.0f;
      } else {
        tile::fetch_operand(step, context, a, b);
      }
      tile::apply_step(step, a, b, &predicate);
    }
    if (step.word >> 18 != 0) {
      const int round = static_cast<int>(step.word >> 18 & 15u);
      const int keep = static_cast<int>(step.word >> 22 & 31u);
      const int store = static_cast<int>(step.word >> 27 & 7u);
      if (round != 0) context.round(static_cast<tile::AnyType>(round - 1), a);
      if (keep != 0) context.keep(keep - 1, a);
      if (store != 0) context.store(store - 1, a);
    }
  }
}

template <int N, int P>
__global__ void __launch_bounds__(kProgramThreads, 5) program_registers(const __grid_constant__ VectorArgs args) {
  __shared__ SharedCopy<VectorTable> copy;
  copy_to_shared(args.table, &copy);
  const VectorTable& table = copy.get();
  constexpr std::uint32_t kTile = kProgramThreads * P;
  for (std::uint32_t first = blockIdx.x * kTile + threadIdx.x; first < args.packs; first += gridDim.x * kTile) {
    const PackPositions<P> positions(args, first);
    RegisterContext<N, P> context{args, table, positions, first, {}};
    context.load_all();
    float a[N * P] = {};
    run_in_registers(table.code, a, context);
  }
}

}  // namespace gpudnn::kernels
