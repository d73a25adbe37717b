// A pointwise program whose steps and types the compiler knows, in one pass over memory. The same functions as the
// interpreter's (kernels/tile/program.cuh), so the same bits; strides and numbers, and which of f16 and bf16 or of the
// types of a byte it is, are told at run time.
//
// A thread works on 1 to 4 packs of 8 neighbouring elements (4 where all are floats), 128 packs of a block apart. All
// packs of all inputs are loaded first, so that their latencies overlap; accumulator and temporaries are registers; an
// output's packs are stored as soon as the step that makes them is done. So an output must not be an input of the same
// call unless the two have one place for each element.
//
// Floor: the bytes. Issue slots at 4.3 TB/s of an H200: 27 an element for two streams of f16, 40 for three. A pack's
// index costs half a slot an element, a load with its conversion 1.2, a store 0.6; no step costs anything beside its
// arithmetic. Element by element (an odd instance): some 10 for the index, 3 for each input that is read so.
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

// A step's word, taken apart.
struct KnownStep {
  int op, slot, keep, store;
  tile::StepSource source;
  bool drops_nan;
};
constexpr KnownStep known_step(std::uint32_t word) {
  const auto bits = [word](int first, int count) { return static_cast<int>(word >> first & ((1u << count) - 1)); };
  return {bits(0, 7),      bits(10, 6), bits(22, 5), bits(27, 3), static_cast<tile::StepSource>(bits(7, 3)),
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

// Packs of a thread. Few cheap steps need their loads in flight together; a long program's code is too long for the
// cache of instructions when it is there four times.
constexpr int packs_of(const Instance& instance) {
  const Program& program = kPrograms[instance.row];
  const bool is_long = inputs_of(program) > 3 || program.steps > 4;
  if (pack_of(instance) == 4) return is_long ? 2 : 4;
  return instance.odd || is_long ? 1 : 2;
}

// The 16, 32 or 8 bytes of a pack, as they lie in memory.
template <int kBytes>
__device__ __forceinline__ void load_pack(const char* from, std::uint32_t* words) {
  if constexpr (kBytes >= 16) {
#pragma unroll
    for (int i = 0; i < kBytes / 16; ++i) {
      const uint4 bits = reinterpret_cast<const uint4*>(from)[i];
      words[4 * i] = bits.x, words[4 * i + 1] = bits.y, words[4 * i + 2] = bits.z, words[4 * i + 3] = bits.w;
    }
  } else if constexpr (kBytes == 8) {
    const uint2 bits = *reinterpret_cast<const uint2*>(from);
    words[0] = bits.x, words[1] = bits.y;
  } else {
    words[0] = *reinterpret_cast<const std::uint32_t*>(from);
  }
}
template <int kBytes>
__device__ __forceinline__ void store_pack(char* to, const std::uint32_t* words) {
  if constexpr (kBytes >= 16) {
#pragma unroll
    for (int i = 0; i < kBytes / 16; ++i) {
      ptx::st_global(reinterpret_cast<uint4*>(to) + i,
                     make_uint4(words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]));
    }
  } else if constexpr (kBytes == 8) {
    ptx::st_global(reinterpret_cast<uint2*>(to), make_uint2(words[0], words[1]));
  } else {
    *reinterpret_cast<std::uint32_t*>(to) = words[0];
  }
}

// One element, in the low bits of a word.
template <int kBytes>
__device__ __forceinline__ std::uint32_t load_element(const char* from) {
  if constexpr (kBytes == 4) return *reinterpret_cast<const std::uint32_t*>(from);
  if constexpr (kBytes == 2) return *reinterpret_cast<const std::uint16_t*>(from);
  return *reinterpret_cast<const std::uint8_t*>(from);
}
// N of them side by side, as a pack lies in memory.
template <int kBytes, int N>
__device__ __forceinline__ void join_elements(const std::uint32_t (&elements)[N], std::uint32_t* words) {
  constexpr int kOfWord = 4 / kBytes;
#pragma unroll
  for (int i = 0; i < N / kOfWord; ++i) {
    words[i] = elements[i * kOfWord];
#pragma unroll
    for (int j = 1; j < kOfWord; ++j) words[i] |= elements[i * kOfWord + j] << (j * 8 * kBytes);
  }
}

// N elements from their words, of a type that the letter leaves open.
template <char kLetter, int N>
__device__ __forceinline__ void widen(tile::AnyType type, const std::uint32_t (&words)[N], float* values) {
  if constexpr (kLetter == 'h') {
    const auto* const known = reinterpret_cast<const std::uint32_t(*)[1][N]>(&words);
    type == tile::AnyType::bf16 ? tile::widen_any<N, 1>(tile::AnyType::bf16, *known, values)
                                : tile::widen_any<N, 1>(tile::AnyType::f16, *known, values);
  } else if constexpr (kLetter == 'b') {
    const auto each = [&](tile::AnyType known) {
#pragma unroll
      for (int i = 0; i < N; ++i)
        values[i] = tile::widen_byte<float>(known, static_cast<std::uint8_t>(words[i / 4] >> i % 4 * 8));
    };
    switch (type) {
      case tile::AnyType::i8:
        return each(tile::AnyType::i8);
      case tile::AnyType::boolean:
        return each(tile::AnyType::boolean);
      case tile::AnyType::e4m3:
        return each(tile::AnyType::e4m3);
      case tile::AnyType::e5m2:
        return each(tile::AnyType::e5m2);
      default:
        return each(tile::AnyType::u8);
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = __uint_as_float(words[i]);
  }
}
template <char kLetter, int N>
__device__ __forceinline__ void narrow(tile::AnyType type, const float* values, std::uint32_t (&words)[N]) {
  auto* const place = reinterpret_cast<std::uint32_t(*)[1][N]>(&words);
  if constexpr (kLetter == 'h') {
    type == tile::AnyType::bf16 ? tile::narrow_any<N, 1>(tile::AnyType::bf16, values, *place)
                                : tile::narrow_any<N, 1>(tile::AnyType::f16, values, *place);
  } else if constexpr (kLetter == 'b') {
    tile::narrow_any<N, 1>(type, values, *place);
  } else {
    tile::narrow_any<N, 1>(tile::AnyType::f32, values, *place);
  }
}

template <int kNumber>
struct Machine {
  static constexpr Instance kInstance = kInstances.all[kNumber];
  static constexpr Program kProgram = kPrograms[kInstance.row];
  static constexpr int kInputs = inputs_of(kProgram);
  static constexpr int kTemps = temps_of(kProgram);
  static constexpr int N = pack_of(kInstance);
  static constexpr int P = packs_of(kInstance);
  static constexpr int E = N * P;
  // Of an odd instance: the elements of the thread's only pack.
  static constexpr int kPositions = kInstance.odd ? N : P;

  const CompiledArgs& args;
  const PackPositions<kPositions>& positions;
  std::uint32_t first;
  std::uint32_t words[kInputs][P][N];
  float temps[kTemps == 0 ? 1 : kTemps][E];
  float a[E];
  std::uint32_t predicate;

  // --- loads

  template <int kInput>
  __device__ __forceinline__ void load() {
    constexpr char kLetter = kInstance.in[kInput];
    constexpr int kBytes = bytes_of(kLetter);
    const VectorTensor& tensor = args.in[kInput];
    if constexpr (kInstance.odd) {
      if (tensor.form == InputForm::staged) {
        load_pack<kBytes * N>(tensor.data + flat_offset<kBytes>(), words[kInput][0]);
        return;
      }
    }
    std::int64_t offset[kPositions];
    positions.byte_offsets(args, tensor, offset);
    if constexpr (kLetter == 'i') {
      load_index(tensor, offset, words[kInput]);
    } else if constexpr (kInstance.odd) {
      std::uint32_t elements[N];
#pragma unroll
      for (int i = 0; i < N; ++i) elements[i] = load_element<kBytes>(tensor.data + offset[i]);
      join_elements<kBytes>(elements, words[kInput][0]);
    } else if (tensor.form == InputForm::staged) {
#pragma unroll
      for (int p = 0; p < P; ++p) load_pack<kBytes * N>(tensor.data + offset[p], words[kInput][p]);
    } else {
#pragma unroll
      for (int p = 0; p < P; ++p) {
        std::uint32_t elements[N];
        elements[0] = load_element<kBytes>(tensor.data + offset[p]);
#pragma unroll
        for (int i = 1; i < N; ++i) elements[i] = elements[0];
        join_elements<kBytes>(elements, words[kInput][p]);
      }
    }
  }

  // Floats count exactly up to 2^24, beyond which the program is interpreted.
  static __device__ __forceinline__ void load_index(const VectorTensor& tensor, const std::int64_t (&offset)[P],
                                                    std::uint32_t (&to)[P][N]) {
    const auto start = static_cast<std::int32_t>(reinterpret_cast<std::intptr_t>(tensor.data));
    const auto step = static_cast<float>(tensor.step);
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const auto base = static_cast<float>(start + static_cast<std::int32_t>(offset[p]));
#pragma unroll
      for (int i = 0; i < N; ++i) to[p][i] = __float_as_uint(base + static_cast<float>(i) * step);
    }
  }

  // Of an odd instance's pack in a tensor without gaps.
  template <int kBytes>
  __device__ __forceinline__ std::int64_t flat_offset() const {
    static_assert(P == 1, "one pack of a thread");
    return static_cast<std::int64_t>(first) * (kBytes * N);
  }

  template <int... kAll>
  __device__ __forceinline__ void load_all(std::integer_sequence<int, kAll...>) {
    (load<kAll>(), ...);
  }

  // --- steps

  template <int kStep>
  __device__ __forceinline__ void operand(float (&b)[E]) const {
    constexpr KnownStep step = known_step(kProgram.words[kStep]);
    if constexpr (step.source == tile::StepSource::input) {
#pragma unroll
      for (int p = 0; p < P; ++p) {
        widen<kInstance.in[step.slot], N>(static_cast<tile::AnyType>(args.in[step.slot].type), words[step.slot][p],
                                          b + p * N);
      }
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
    if constexpr (step.keep != 0) {
#pragma unroll
      for (int i = 0; i < E; ++i) temps[step.keep - 1][i] = a[i];
    }
    if constexpr (step.store != 0) store<step.store - 1>();
  }

  template <int kOutput>
  __device__ __forceinline__ void store() const {
    constexpr char kLetter = kInstance.out[kOutput];
    constexpr int kBytes = bytes_of(kLetter);
    const VectorTensor& tensor = args.out[kOutput];
    std::int64_t offset[P];
    if constexpr (kInstance.odd) {
      offset[0] = flat_offset<kBytes>();
    } else {
      positions.byte_offsets(args, tensor, offset);
    }
#pragma unroll
    for (int p = 0; p < P; ++p) {
      std::uint32_t packed[N];
      narrow<kLetter, N>(static_cast<tile::AnyType>(tensor.type), a + p * N, packed);
      if (first + p * kProgramThreads < args.packs) store_pack<kBytes * N>(tensor.data + offset[p], packed);
    }
  }

  template <int... kSteps>
  __device__ __forceinline__ void run_all(std::integer_sequence<int, kSteps...>) {
    (run<kSteps>(), ...);
  }
};

template <int kNumber>
__device__ __forceinline__ auto positions_of(const CompiledArgs& args, std::uint32_t first) {
  using M = Machine<kNumber>;
  if constexpr (M::kInstance.odd) {
    std::uint32_t elements[M::N];
#pragma unroll
    for (int i = 0; i < M::N; ++i) elements[i] = first * M::N + static_cast<std::uint32_t>(i);
    return PackPositions<M::N>(args, elements);
  } else {
    return PackPositions<M::P>(args, first);
  }
}

template <int kNumber>
__global__ void __launch_bounds__(kProgramThreads) program_compiled_sm90(const __grid_constant__ CompiledArgs args) {
  using M = Machine<kNumber>;
  const std::uint32_t first = blockIdx.x * (kProgramThreads * M::P) + threadIdx.x;
  if (first >= args.packs) return;
  const auto positions = positions_of<kNumber>(args, first);
  M machine{args, positions, first, {}, {}, {}, 0};
  machine.load_all(std::make_integer_sequence<int, M::kInputs>());
  machine.run_all(std::make_integer_sequence<int, M::kProgram.steps>());
}

}  // namespace gpudnn::kernels::compiled
