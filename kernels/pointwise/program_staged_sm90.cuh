// A pointwise program, interpreted with its operands in shared memory.
//
// As the vector kernel (program.cuh): a thread works on P packs of N neighbouring elements at once and walks over
// tiles, and its packs of all inputs are staged a tile ahead by cp.async: each input's into the place of those that a
// step has just read for the last time. But an operand comes into the registers of b by a step of its own or with its
// operation (staged_steps.hpp), so that each operation exists once for b and once for a number, each operand once for
// its type, and a step is found by one number: five or six branches that all threads take alike. Two arrays of
// registers, a and b, leave room for 32 elements a thread at 20 warps a multiprocessor. Temporaries lie in shared
// memory as float inputs do.
//
// For: inputs of 16 bits and f32 in packs of 8 or 16 bytes, or the same for a whole pack; outputs of these in packs.
// With kAny also the functions, and the operations that have no kind of their own, these by 8 elements. Issue slots of
// an element, 32 a thread: 1 for an operation, 1 to widen an operand, 0.5 for each step, 0.5 a store, 3 for a tile of
// two inputs; the bytes of two streams and a result in 16 bits take 41.
//
// What is said of aliases in program.cuh holds here too.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/pointwise/pack_positions.cuh"
#include "kernels/pointwise/program_staged_sm90.hpp"
#include "kernels/pointwise/stage_packs.cuh"
#include "kernels/ptx/leave.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/tile/any_pack.cuh"
#include "kernels/tile/dynamic_shared.cuh"
#include "kernels/tile/program.cuh"

namespace gpudnn::kernels {

// Where a thread's packs of a tile lie, by the place of the first one. In whole tiles they have equal distances; else
// each one is worked out when it is wanted, for all at once would take too many registers. Beyond the last one the last
// one stands in. Calls function(p, pack p of the tensor).
template <int P, class Function>
__device__ __forceinline__ void each_pack(const StagedArgs& args, std::uint32_t first, const PackPositions<1>& position,
                                          const VectorTensor& tensor, Function function) {
  std::int64_t offset[1];
  position.byte_offsets(args, tensor, offset);
  function(0, tensor.data + offset[0]);
  if (args.whole_tiles && first + (P - 1) * kProgramThreads < args.packs) {
    const int distance = kProgramThreads * tensor.fastest;
#pragma unroll
    for (int p = 1; p < P; ++p) function(p, tensor.data + offset[0] + std::int64_t{p} * distance);
  } else {
#pragma unroll
    for (int p = 1; p < P; ++p) {
      PackPositions<1>(args, first + p * kProgramThreads).byte_offsets(args, tensor, offset);
      function(p, tensor.data + offset[0]);
    }
  }
}

// Copies the thread's packs of an input of the tile that begins at `first` into the stage.
template <int N, int P>
__device__ __forceinline__ void stage_input(const StagedArgs& args, const VectorTensor& tensor, std::uint32_t first,
                                            const PackPositions<1>& position, unsigned char* stage) {
  const int chunk = N == 8 ? 16 : tensor.chunk;
  const bool is_reused = tensor.is_reused;
  const auto own = static_cast<std::uint32_t>(__cvta_generic_to_shared(stage + tensor.step)) + threadIdx.x * chunk;
  each_pack<P>(args, first, position, tensor, [&](int p, const char* from) {
    const std::uint32_t to = own + p * kProgramThreads * chunk;
    if (N == 4 && chunk == 8) {
      ptx::cp_async<8>(to, from, 8);
    } else if (is_reused) {
      ptx::cp_async_ca_16(to, from);
    } else {
      ptx::cp_async<16>(to, from, 16);
    }
  });
}

template <int N, int P, bool kAny, tile::AnyType kUsual>
struct StagedMachine {
  static constexpr int E = N * P;
  static constexpr int kTurn = 8;  // elements of a step of all operations at once

  const StagedArgs& args;
  const StagedTable& table;
  unsigned char* stage;
  int4* next_position;  // the thread's own place in shared memory: of its first pack of the next tile
  std::uint32_t first;
  std::uint32_t next;
  float a[E];
  float b[E];
  std::uint32_t predicate;

  // P packs of 2-byte elements, or of floats.
  template <tile::AnyType kType>
  __device__ __forceinline__ static void read(const unsigned char* from, float (&to)[E]) {
    constexpr int kChunk = N * tile::any_type_bytes(kType);
    constexpr int kParts = kChunk > 16 ? kChunk / 16 : 1;  // temporaries of N = 8: two parts of four elements
    constexpr int kPart = kChunk / kParts;
    const unsigned char* const own = from + threadIdx.x * kPart;
    std::uint32_t words[P][N];
#pragma unroll
    for (int p = 0; p < P; ++p) {
#pragma unroll
      for (int i = 0; i < kParts; ++i) {
        const unsigned char* const part = own + (p * kParts + i) * kProgramThreads * kPart;
        if constexpr (kPart == 16) {
          const uint4 bits = *reinterpret_cast<const uint4*>(part);
          words[p][4 * i] = bits.x, words[p][4 * i + 1] = bits.y, words[p][4 * i + 2] = bits.z;
          words[p][4 * i + 3] = bits.w;
        } else {
          const uint2 bits = *reinterpret_cast<const uint2*>(part);
          words[p][0] = bits.x, words[p][1] = bits.y;
        }
      }
    }
    tile::widen_any<N, P>(kType, words, to);
  }

  __device__ __forceinline__ void keep(unsigned char* to) const {
    unsigned char* const own = to + threadIdx.x * 16;
#pragma unroll
    for (int i = 0; i < E / 4; ++i) {
      *reinterpret_cast<float4*>(own + i * kProgramThreads * 16) =
          make_float4(a[4 * i], a[4 * i + 1], a[4 * i + 2], a[4 * i + 3]);
    }
  }

  // One element for each pack, from memory.
  __device__ __forceinline__ void spread(const VectorTensor& tensor) {
    const auto type = static_cast<tile::AnyType>(tensor.type);
    each_pack<P>(args, first, PackPositions<1>(args, first), tensor, [&](int p, const char* from) {
      float one;
      if (type == tile::AnyType::f32) {
        one = *reinterpret_cast<const float*>(from);
      } else {
        const std::uint32_t bits = *reinterpret_cast<const std::uint16_t*>(from);
        one = type == tile::AnyType::bf16 ? __uint_as_float(bits << 16) : ptx::cvt_f32_f16x2(bits).x;
      }
#pragma unroll
      for (int i = 0; i < N; ++i) b[p * N + i] = one;
    });
  }

  template <tile::AnyType kType>
  __device__ __forceinline__ void round() {
    std::uint32_t words[P][N];
    tile::narrow_any<N, P>(kType, a, words);
    tile::widen_any<N, P>(kType, words, a);
  }

  template <tile::AnyType kType>
  __device__ __forceinline__ void store_as(const VectorTensor& tensor) const {
    std::uint32_t words[P][N];
    tile::narrow_any<N, P>(kType, a, words);
    each_pack<P>(args, first, PackPositions<1>(args, first), tensor, [&](int p, char* to) {
      if (first + p * kProgramThreads >= args.packs) return;
      if constexpr (N * tile::any_type_bytes(kType) == 16) {
        ptx::st_global(reinterpret_cast<uint4*>(to), make_uint4(words[p][0], words[p][1], words[p][2], words[p][3]));
      } else {
        ptx::st_global(reinterpret_cast<uint2*>(to), make_uint2(words[p][0], words[p][1]));
      }
    });
  }
  __device__ __forceinline__ void store(const VectorTensor& tensor) const {
    const auto type = static_cast<tile::AnyType>(tensor.type);
    if (type == tile::AnyType::bf16) {
      store_as<tile::AnyType::bf16>(tensor);
    } else if (N == 8 || type == tile::AnyType::f16) {
      store_as<tile::AnyType::f16>(tensor);
    } else {
      store_as<tile::AnyType::f32>(tensor);
    }
  }

  __device__ __forceinline__ void stage_next(const VectorTensor& tensor) const {
    if (next >= args.packs) return;
    const int4 at = *next_position;
    stage_input<N, P>(args, tensor, next, PackPositions<1>(at), stage);
  }

  template <class Function>
  __device__ __forceinline__ void each(Function function) {
#pragma unroll
    for (int i = 0; i < E; ++i) a[i] = function(a[i]);
  }
  template <class Function>
  __device__ __forceinline__ void both(Function function) {
#pragma unroll
    for (int i = 0; i < E; ++i) a[i] = function(a[i], b[i]);
  }
  // By an instruction that the compiler does not know for a copy, `zero` being told at run time: else it makes one
  // value of the two and moves whole arrays about wherever steps meet.
  __device__ __forceinline__ static void copy(const float (&from)[E], std::uint32_t zero, float (&to)[E]) {
#pragma unroll
    for (int i = 0; i < E; ++i) to[i] = __uint_as_float(__float_as_uint(from[i]) ^ zero);
  }

  // Elements have their turn in the first places, so that the code of all operations is no longer than for kTurn.
  __device__ __forceinline__ void run_any(const StagedStep& from) {
    const tile::ProgramStep<float> step = {from.word, {from.p[0], from.p[1], from.number}};
    std::uint32_t predicates = 0;
#pragma unroll 1
    for (int turn = 0; turn < E; turn += kTurn) {
      float x[kTurn], y[kTurn];
#pragma unroll
      for (int i = 0; i < kTurn; ++i) x[i] = a[i], y[i] = b[i];
      std::uint32_t bits = predicate >> turn;
      tile::apply_step(step, x, y, &bits);
      predicates |= (bits & ((1u << kTurn) - 1)) << turn;
#pragma unroll
      for (int i = 0; i + kTurn < E; ++i) a[i] = a[i + kTurn], b[i] = b[i + kTurn];
#pragma unroll
      for (int i = 0; i < kTurn; ++i) a[E - kTurn + i] = x[i];
    }
    predicate = predicates;
  }

  // The operation of the interface that the step stands for.
  static constexpr tile::PointwiseOp function_of(StagedOp op) {
    using Op = tile::PointwiseOp;
    return op == StagedOp::exp          ? Op::exp
           : op == StagedOp::tanh       ? Op::tanh
           : op == StagedOp::sigmoid    ? Op::sigmoid
           : op == StagedOp::swish      ? Op::swish
           : op == StagedOp::gelu       ? Op::gelu
           : op == StagedOp::gelu_tanh  ? Op::gelu_tanh
           : op == StagedOp::reciprocal ? Op::reciprocal
           : op == StagedOp::sqrt       ? Op::sqrt
           : op == StagedOp::rsqrt      ? Op::rsqrt
                                        : Op::div;
  }
  template <StagedOp kOp>
  __device__ __forceinline__ void run_function(const StagedStep& from, float number) {
    if constexpr (kOp == StagedOp::div_from) {
      both([](float x, float y) { return y / x; });
    } else {
      const tile::PointwiseParams<float> params{{from.p[0], from.p[1], number}, false};
      both([&](float x, float y) { return tile::apply_one<function_of(kOp)>(x, y, params); });
    }
  }

  // Not worked out before the branches.
  __device__ __forceinline__ static int slot_of(std::uint32_t word) {
    ptx::pin(word);
    return static_cast<int>(word >> 10 & 63u);
  }

  // The step of that kind.
  template <int kKind>
  __device__ __forceinline__ void run_step(const StagedStep& from, std::uint32_t word, float number) {
    namespace math = tile::pointwise;
    constexpr auto kOp = static_cast<StagedOp>(kKind);
    const int place = __float_as_int(number);
    unsigned char* const temps = tile::dynamic_shared();
    if constexpr (kOp == StagedOp::load_f16) read<tile::AnyType::f16>(stage + place, a);
    if constexpr (kOp == StagedOp::load_bf16) read<tile::AnyType::bf16>(stage + place, a);
    if constexpr (kOp == StagedOp::load_f32 && N == 4) read<tile::AnyType::f32>(stage + place, a);
    if constexpr (kOp == StagedOp::load_temp) read<tile::AnyType::f32>(temps + place, a);
    if constexpr (kOp == StagedOp::fetch_f16) read<tile::AnyType::f16>(stage + place, b);
    if constexpr (kOp == StagedOp::fetch_bf16) read<tile::AnyType::bf16>(stage + place, b);
    if constexpr (kOp == StagedOp::fetch_f32 && N == 4) read<tile::AnyType::f32>(stage + place, b);
    if constexpr (kOp == StagedOp::fetch_temp) read<tile::AnyType::f32>(temps + place, b);
    if constexpr (kOp == StagedOp::fetch_spread) spread(table.in[slot_of(word)]);
    if constexpr (kOp == StagedOp::take) copy(b, args.zero, a);
    if constexpr (kOp >= StagedOp::add_input && kOp <= StagedOp::min_input) {
      if constexpr (!kAny) read<kUsual>(stage + place, b);
    }
    if constexpr (kOp == StagedOp::add || kOp == StagedOp::add_input)
      both([](float x, float y) { return math::rounded_sum(x, y); });
    if constexpr (kOp == StagedOp::sub || kOp == StagedOp::sub_input)
      both([](float x, float y) { return math::rounded_sum(x, -y); });
    if constexpr (kOp == StagedOp::sub_from || kOp == StagedOp::sub_from_input)
      both([](float x, float y) { return math::rounded_sum(y, -x); });
    if constexpr (kOp == StagedOp::mul || kOp == StagedOp::mul_input)
      both([](float x, float y) { return math::rounded_product(x, y); });
    if constexpr (kOp == StagedOp::max || kOp == StagedOp::max_input)
      both([](float x, float y) { return math::larger(x, y); });
    if constexpr (kOp == StagedOp::min || kOp == StagedOp::min_input)
      both([](float x, float y) { return math::smaller(x, y); });
    if constexpr (kOp == StagedOp::add_number) each([=](float x) { return math::rounded_sum(x, number); });
    if constexpr (kOp == StagedOp::mul_number) each([=](float x) { return math::rounded_product(x, number); });
    if constexpr (kOp == StagedOp::max_number) each([=](float x) { return math::larger(x, number); });
    if constexpr (kOp == StagedOp::min_number) each([=](float x) { return math::smaller(x, number); });
    if constexpr (kOp == StagedOp::mul_add_numbers) {
      const float second = from.p[0];
      each([=](float x) { return math::rounded_sum(math::rounded_product(x, number), second); });
    }
    if constexpr (kOp == StagedOp::add_mul_numbers) {
      const float second = from.p[0];
      each([=](float x) { return math::rounded_product(math::rounded_sum(x, number), second); });
    }
    if constexpr (kOp == StagedOp::clamp) {
      const float second = from.p[0];
      each([=](float x) { return math::smaller(math::larger(x, number), second); });
    }
    if constexpr (kOp == StagedOp::set_number) each([=](float) { return number; });
    if constexpr (kOp == StagedOp::square) each([](float x) { return math::rounded_product(x, x); });
    if constexpr (kOp == StagedOp::abs) each([](float x) { return fabsf(x); });
    if constexpr (kOp == StagedOp::neg) each([](float x) { return -x; });
    if constexpr (kOp == StagedOp::round_f16) round<tile::AnyType::f16>();
    if constexpr (kOp == StagedOp::round_bf16) round<tile::AnyType::bf16>();
    if constexpr (kOp == StagedOp::keep) keep(temps + place);
    if constexpr (kOp == StagedOp::store) {  // needs the registers of b
      store(table.out[slot_of(word)]);
#pragma unroll
      for (int i = 0; i < E; ++i) ptx::leave(&b[i]);
    }
    if constexpr (kOp == StagedOp::stage) stage_next(table.in[slot_of(word)]);
    if constexpr (kOp == StagedOp::set_operand && kAny) {
#pragma unroll
      for (int i = 0; i < E; ++i) b[i] = number;
    }
    if constexpr (kOp == StagedOp::copy_operand && kAny) copy(a, args.zero, b);
    if constexpr (kOp == StagedOp::any && kAny) run_any(from);
    if constexpr (kAny && kOp >= StagedOp::exp) run_function<kOp>(from, number);
  }

  // Finds the step of a word by the bits of its number, from kBit down; those above are in kKind.
  template <int kBit, int kKind>
  __device__ __forceinline__ void find_step(const StagedStep& from, std::uint32_t word, float number) {
    ptx::pin(word);  // else all bits are told apart before the first branch, by an instruction more each
    if constexpr (kBit < 0) {
      run_step<kKind>(from, word, number);
    } else if constexpr (!is_staged_op(kAny, kKind | 1 << kBit, 1 << kBit)) {
      find_step<kBit - 1, kKind>(from, word, number);
    } else if constexpr (!is_staged_op(kAny, kKind, 1 << kBit)) {
      find_step<kBit - 1, kKind | 1 << kBit>(from, word, number);
    } else if ((word >> (kStagedOpBit + kBit) & 1u) != 0) {
      find_step<kBit - 1, kKind | 1 << kBit>(from, word, number);
    } else {
      find_step<kBit - 1, kKind>(from, word, number);
    }
  }

  __device__ __forceinline__ void run() {
    const StagedStep* step = table.code.step;
    predicate = 0;
#pragma unroll
    for (int i = 0; i < E; ++i) ptx::leave(&a[i]), ptx::leave(&b[i]);
#pragma unroll 1
    for (std::uint32_t word = step->word; word != 0; ++step) {
      const std::uint32_t next = step[1].word;
      float number = step->number;
      ptx::pin(&number);  // read before the branches, which its arrival then does not delay
      find_step<kStagedOpBits - 1, 0>(*step, word, number);
      word = next ^ args.zero;  // here: a copy would stand at the top, and wait for the load
    }
  }
};

template <int N, int P, int kBlocks, bool kAny, tile::AnyType kUsual>
__global__ void __launch_bounds__(kProgramThreads, kBlocks) program_staged(const __grid_constant__ StagedArgs args) {
  __shared__ SharedCopy<StagedTable> copy;
  __shared__ int4 positions[kProgramThreads];
  copy_to_shared(args.table, &copy);
  const StagedTable& table = copy.get();
  unsigned char* const stage = tile::dynamic_shared() + args.temp_bytes;
  constexpr std::uint32_t kTile = kProgramThreads * P;
  std::uint32_t first = blockIdx.x * kTile + threadIdx.x;
  if (first >= args.packs) return;
  const PackPositions<1> position(args, first);
#pragma unroll 1
  for (int t = 0; t < args.inputs; ++t) {
    if (table.in[t].form == InputForm::staged) stage_input<N, P>(args, table.in[t], first, position, stage);
  }
  int4* const next_position = positions + threadIdx.x;
  while (first < args.packs) {
    const std::uint32_t next = first + gridDim.x * kTile;
    *next_position = PackPositions<1>(args, next).first();
    end_of_copies();
    ptx::cp_async_wait_group<0>();
    StagedMachine<N, P, kAny, kUsual> machine{args, table, stage, next_position, first, next};
    machine.run();
    first = next;
  }
}

}  // namespace gpudnn::kernels
