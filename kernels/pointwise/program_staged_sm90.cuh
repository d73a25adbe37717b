// A pointwise program, interpreted with its operands in shared memory.
//
// As the vector kernel (program.cuh): a thread works on P packs of N neighbouring elements at once and walks over
// tiles, and its packs of all inputs are staged a tile ahead by cp.async: each input's into the place of those that a
// step has just read for the last time. But an operand comes into the registers of b by a step of its own or with its
// operation (staged_steps.hpp), so that each operation exists once for b and once for a number, each operand once for
// its type, and a step is found by one number, in a table (kernels/ptx/staged_steps.cuh). Two arrays of registers, a
// and b, leave room for 32 elements a thread at 20 warps a multiprocessor, with the functions 16. Temporaries lie in
// shared memory as float inputs do.
//
// For: inputs of 16 bits and f32 in packs of 8 or 16 bytes, or the same for a whole pack; outputs of these in packs.
// With kAny also the functions, and the operations that have no kind of their own, these by 8 elements. Issue slots of
// an element, 32 a thread: 1 for an operation, 1 to widen an operand, 0.3 for each step, 3 to stage an input, 5 for the
// tile and its store; the bytes of two streams and a result in 16 bits take 41.
//
// What is said of aliases in program.cuh holds here too.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/pointwise/pack_positions.cuh"
#include "kernels/pointwise/program_staged_sm90.hpp"
#include "kernels/pointwise/stage_packs.cuh"
#include "kernels/ptx/leave.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/ptx/staged_steps.cuh"
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
  char* const data = tensor.data;  // once: copies and stores may change memory, for all that the compiler knows
  const int distance = kProgramThreads * tensor.fastest;
  function(0, data + offset[0]);
  if (args.whole_tiles && first + (P - 1) * kProgramThreads < args.packs) {
#pragma unroll
    for (int p = 1; p < P; ++p) function(p, data + offset[0] + std::int64_t{p} * distance);
  } else {
#pragma unroll
    for (int p = 1; p < P; ++p) {
      PackPositions<1>(args, first + p * kProgramThreads).byte_offsets(args, tensor, offset);
      function(p, data + offset[0]);
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
  // 16 elements have their turn in the first places: twice the code would wait for instructions longer than this for
  // its copies.
  template <StagedOp kOp>
  __device__ __forceinline__ void run_function(const StagedStep& from, float number) {
    constexpr int kEach = 16;
    const tile::PointwiseParams<float> params{{from.p[0], from.p[1], number}, false};
#pragma unroll 1
    for (int turn = 0; turn < E; turn += kEach) {
      float done[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        done[i] = kOp == StagedOp::div_from ? b[i] / a[i] : tile::apply_one<function_of(kOp)>(a[i], b[i], params);
      }
#pragma unroll
      for (int i = 0; i + kEach < E; ++i) a[i] = a[i + kEach];
      if constexpr (kOp == StagedOp::div || kOp == StagedOp::div_from) {
#pragma unroll
        for (int i = 0; i + kEach < E; ++i) {
          const float first = b[i];
          b[i] = b[i + kEach];
          b[i + kEach] = first;
        }
      }
#pragma unroll
      for (int i = 0; i < kEach; ++i) a[E - kEach + i] = done[i];
    }
  }

  // The steps from `step` on, up to one of the others.
  __device__ __forceinline__ void run_common(std::uint32_t own, std::uint32_t own_halves, std::uint32_t* step) {
    if constexpr (E == 16) {
      if constexpr (N == 8) ptx::staged_steps_of_8(a, b, own, own_halves, args.zero, step);
      if constexpr (N == 4) ptx::staged_steps_of_4(a, b, own, own_halves, args.zero, step);
    } else if constexpr (kUsual == tile::AnyType::f16) {
      ptx::staged_steps_f16(a, b, own, own_halves, args.zero, step);
    } else {
      ptx::staged_steps_bf16(a, b, own, own_halves, args.zero, step);
    }
  }

  // A function. kEnd: one behind the last one that it may be.
  template <int kFirst, int kEnd>
  __device__ __forceinline__ void find_function(const StagedStep& from, StagedOp op) {
    if constexpr (kFirst + 1 == kEnd) {
      run_function<static_cast<StagedOp>(kFirst)>(from, from.number);
    } else if (static_cast<int>(op) >= (kFirst + kEnd) / 2) {
      find_function<(kFirst + kEnd) / 2, kEnd>(from, op);
    } else {
      find_function<kFirst, (kFirst + kEnd) / 2>(from, op);
    }
  }

  __device__ __forceinline__ void run() {
    const auto* const steps = reinterpret_cast<const unsigned char*>(table.code.step);
    const auto begin = static_cast<std::uint32_t>(__cvta_generic_to_shared(steps));
    const auto memory = static_cast<std::uint32_t>(__cvta_generic_to_shared(tile::dynamic_shared()));
    std::uint32_t own = memory + threadIdx.x * 16;
    ptx::pin(own);  // else it is worked out anew after each step that is not common
    std::uint32_t step = begin;
    predicate = 0;
#pragma unroll
    for (int i = 0; i < E; ++i) ptx::leave(&a[i]), ptx::leave(&b[i]);
#pragma unroll 1
    for (;; step += sizeof(StagedStep)) {
      run_common(own, N == 8 ? own : own - threadIdx.x * 8, &step);
      const StagedStep& from = *reinterpret_cast<const StagedStep*>(steps + (step - begin));
      const StagedOp op = staged_op(from);
      if (kAny && op >= StagedOp::exp) {
        find_function<static_cast<int>(StagedOp::exp), static_cast<int>(StagedOp::count)>(from, op);
      } else if (op == StagedOp::stage) {
        stage_next(table.in[staged_slot(from)]);
      } else if (op == StagedOp::store) {  // needs the registers of b
        store(table.out[staged_slot(from)]);
#pragma unroll
        for (int i = 0; i < E; ++i) ptx::leave(&b[i]);
      } else if (op == StagedOp::end) {
        return;
      } else if (op == StagedOp::fetch_spread) {
        spread(table.in[staged_slot(from)]);
      } else if (kAny && op == StagedOp::set_operand) {
#pragma unroll
        for (int i = 0; i < E; ++i) b[i] = from.number;
      } else if (kAny && op == StagedOp::copy_operand) {
        copy(a, args.zero, b);
      } else if (kAny) {
        run_any(from);
      }
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
