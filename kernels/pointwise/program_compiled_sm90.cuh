// A pointwise program whose steps the compiler knows, in one pass over memory. The same functions as the interpreter's
// (kernels/tile/program.cuh), so the same bits; types, strides and numbers are told at run time.
//
// A thread works on 2 or 4 packs of 4 neighbouring elements, 512 elements of a block apart. All packs of all inputs are
// loaded first, so that their latencies overlap; accumulator and temporaries are registers; an output's packs are
// stored as soon as the step that makes them is done. So an output must not be an input of the same call unless the two
// have one place for each element.
//
// Floor: the bytes. Issue slots at 4.3 TB/s of an H200: 27 an element for two streams of f16, 40 for three. A pack's
// index costs 1 to 4 an element, a load with its conversion 1.5, a store 1; no step costs anything beside its
// arithmetic.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <type_traits>
#include <utility>

#include "kernels/pointwise/pack_positions.cuh"
#include "kernels/pointwise/program_compiled_sm90.hpp"
#include "kernels/tile/any_pack.cuh"
#include "kernels/tile/program.cuh"

namespace gpudnn::kernels::compiled {

constexpr int N = kCompiledPack;

// A step's word, taken apart.
struct KnownStep {
  int op, slot, round, keep, store;
  tile::StepSource source;
  bool drops_nan;
};
constexpr KnownStep known_step(std::uint32_t word) {
  const auto bits = [word](int first, int count) { return static_cast<int>(word >> first & ((1u << count) - 1)); };
  return {bits(0, 7),      bits(10, 6), bits(18, 4),
          bits(22, 5),     bits(27, 3), static_cast<tile::StepSource>(bits(7, 3)),
          bits(17, 1) != 0};
}

// The greatest number of a kind that a program has, plus 1.
template <class Number>
constexpr int count_of(const Program& program, Number number) {
  int count = 0;
  for (int s = 0; s < program.steps; ++s) {
    const int one = number(known_step(program.words[s]));
    if (one > count) count = one;
  }
  return count;
}
constexpr int inputs_of(const Program& program) {
  return count_of(program, [](const KnownStep& s) { return s.source == tile::StepSource::input ? s.slot + 1 : 0; });
}
constexpr int temps_of(const Program& program) {
  return count_of(program, [](const KnownStep& s) { return s.keep; });
}
constexpr int outputs_of(const Program& program) {
  return count_of(program, [](const KnownStep& s) { return s.store; });
}

// Packs of a thread. Few cheap steps need their loads in flight together; a long program's code is too long for the
// cache of instructions when it is there four times.
constexpr int packs_of(const Program& program) { return inputs_of(program) > 3 || program.steps > 4 ? 2 : 4; }

// The packs of an input as they lie in memory; of one that stays put in a pack, as if it did not.
template <int P>
__device__ __forceinline__ void load_packs(const CompiledArgs& args, const VectorTensor& tensor,
                                           const PackPositions<P>& positions, std::uint32_t (&words)[P][N]) {
  std::int64_t offset[P];
  positions.byte_offsets(args, tensor, offset);
  const int chunk = tensor.chunk;
  if (tensor.form == InputForm::index) {
    // Floats count exactly up to 2^24, beyond which the program is interpreted.
    const auto start = static_cast<std::int32_t>(reinterpret_cast<std::intptr_t>(tensor.data));
    const auto step = static_cast<float>(tensor.step);
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const auto base = static_cast<float>(start + static_cast<std::int32_t>(offset[p]));
#pragma unroll
      for (int i = 0; i < N; ++i) words[p][i] = __float_as_uint(base + static_cast<float>(i) * step);
    }
  } else if (tensor.form == InputForm::gathered) {
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const char* const from = tensor.data + offset[p];
      const std::uint32_t one = chunk == 2 * N   ? *reinterpret_cast<const std::uint16_t*>(from) * 0x10001u
                                : chunk == 4 * N ? *reinterpret_cast<const std::uint32_t*>(from)
                                                 : *reinterpret_cast<const std::uint8_t*>(from) * 0x1010101u;
#pragma unroll
      for (int i = 0; i < N; ++i) words[p][i] = one;
    }
  } else if (chunk == 16) {
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const uint4 bits = *reinterpret_cast<const uint4*>(tensor.data + offset[p]);
      words[p][0] = bits.x, words[p][1] = bits.y, words[p][2] = bits.z, words[p][3] = bits.w;
    }
  } else if (chunk == 8) {
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const uint2 bits = *reinterpret_cast<const uint2*>(tensor.data + offset[p]);
      words[p][0] = bits.x, words[p][1] = bits.y;
    }
  } else {
#pragma unroll
    for (int p = 0; p < P; ++p) words[p][0] = *reinterpret_cast<const std::uint32_t*>(tensor.data + offset[p]);
  }
}

template <int kRow>
struct Machine {
  static constexpr Program kProgram = kPrograms[kRow];
  static constexpr int kInputs = inputs_of(kProgram);
  static constexpr int kTemps = temps_of(kProgram);
  static constexpr int P = packs_of(kProgram);
  static constexpr int E = N * P;

  const CompiledArgs& args;
  const PackPositions<P>& positions;
  std::uint32_t first;
  std::uint32_t words[kInputs][P][N];
  float temps[kTemps == 0 ? 1 : kTemps][E];
  float a[E];
  std::uint32_t predicate;

  __device__ __forceinline__ void widen(int input, float (&b)[E]) const {
    tile::widen_any<N, P>(static_cast<tile::AnyType>(args.in[input].type), words[input], b);
  }

  template <int kStep>
  __device__ __forceinline__ void operand(float (&b)[E]) const {
    constexpr KnownStep step = known_step(kProgram.words[kStep]);
    if constexpr (step.source == tile::StepSource::input) {
      widen(step.slot, b);
    } else {
#pragma unroll
      for (int i = 0; i < E; ++i) {
        b[i] = step.source == tile::StepSource::temp        ? temps[step.slot < kTemps ? step.slot : 0][i]
               : step.source == tile::StepSource::immediate ? args.numbers[kStep][tile::kStepImmediate]
                                                            : a[i];
      }
    }
  }

  template <int kStep>
  __device__ __forceinline__ void run() {
    constexpr KnownStep step = known_step(kProgram.words[kStep]);
    if constexpr (step.op == tile::kStepLoad) {
      operand<kStep>(a);
    } else {
      const float* const numbers = args.numbers[kStep];
      float b[E];
      operand<kStep>(b);
      if constexpr (step.op > tile::kStepLoad) {
        tile::apply_machine_step(step.op, numbers[tile::kStepImmediate], a, b, &predicate);
      } else if constexpr (step.op == static_cast<int>(tile::PointwiseOp::select)) {
#pragma unroll
        for (int i = 0; i < E; ++i) a[i] = (predicate >> i & 1u) != 0 ? a[i] : b[i];
      } else {
        tile::apply_each<static_cast<tile::PointwiseOp>(step.op)>(
            a, b, tile::PointwiseParams<float>{{numbers[0], numbers[1], numbers[2]}, step.drops_nan});
      }
    }
    if constexpr (step.round != 0) round(static_cast<tile::AnyType>(step.round - 1));
    if constexpr (step.keep != 0) {
#pragma unroll
      for (int i = 0; i < E; ++i) temps[step.keep - 1][i] = a[i];
    }
    if constexpr (step.store != 0) store(args.out[step.store - 1]);
  }

  __device__ __forceinline__ void round(tile::AnyType type) {
    std::uint32_t rounded[P][N];
    tile::narrow_any<N, P>(type, a, rounded);
    tile::widen_any<N, P>(type, rounded, a);
  }

  __device__ __forceinline__ void store(const VectorTensor& tensor) const {
    std::int64_t offset[P];
    positions.byte_offsets(args, tensor, offset);
    std::uint32_t narrow[P][N];
    tile::narrow_any<N, P>(static_cast<tile::AnyType>(tensor.type), a, narrow);
#pragma unroll
    for (int p = 0; p < P; ++p) {
      if (first + p * kProgramThreads < args.packs) store_chunk(tensor.data + offset[p], tensor.chunk, narrow[p]);
    }
  }

  template <int... kSteps>
  __device__ __forceinline__ void run_all(std::integer_sequence<int, kSteps...>) {
    (run<kSteps>(), ...);
  }
};

template <int kRow>
__global__ void __launch_bounds__(kProgramThreads) program_compiled_sm90(const __grid_constant__ CompiledArgs args) {
  constexpr int P = Machine<kRow>::P;
  const std::uint32_t first = blockIdx.x * (kProgramThreads * P) + threadIdx.x;
  if (first >= args.packs) return;
  const PackPositions<P> positions(args, first);
  Machine<kRow> machine{args, positions, first, {}, {}, {}, 0};
#pragma unroll
  for (int t = 0; t < Machine<kRow>::kInputs; ++t) load_packs(args, args.in[t], positions, machine.words[t]);
  machine.run_all(std::make_integer_sequence<int, Machine<kRow>::kProgram.steps>());
}

}  // namespace gpudnn::kernels::compiled
