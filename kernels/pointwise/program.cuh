// A pointwise program over tensors in memory, in one pass: any broadcast, any strides, several inputs and outputs.
//
// vector  float; N neighbouring elements of every tensor make a pack: 8 where no element is wider than 2 bytes, else 4.
//         A thread works on P packs at once (16 elements), 256 threads a block, blocks walk over tiles of 256 P packs.
//         Inputs that are contiguous along the fastest loop are staged: each thread copies its own packs into shared
//         memory by cp.async, a tile ahead, and reads them when a step asks for them. So inputs and temporaries are
//         addressed by number at run time, without a switch over registers, and no thread waits for another. An input
//         that stays put along the fastest loop, one with other strides and an index are read (made) when a step asks.
// scalar  float or double; single elements with 64-bit offsets: whatever the vector kernel does not take.
//
// Issue slots: at 4.3 TB/s an SM of an H200 moves 19 bytes in a cycle and issues 4 instructions of a warp: two streams
// of f16 leave 27 slots an element, three 40, two of f32 54. A step costs some 12 slots a warp of 16 elements a thread,
// 0.7 an element, beside its arithmetic; the fetch of an f16 operand 1.3, its copy 0.6, a store 1.5, the loop 1.
//
// Each thread reads the whole of a step's inputs before it stores, but not those of later steps: an output must not be
// an input of the same call unless the two have one place for each element (then each element is read and written by
// one thread, and a staged input is read before). The next tile is staged ahead; its elements are other threads' or
// this thread's later ones, never those that are being stored.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/pointwise/pack_positions.cuh"
#include "kernels/pointwise/program.hpp"
#include "kernels/pointwise/stage_packs.cuh"
#include "kernels/pointwise/vector_tensor.hpp"
#include "kernels/tile/any_pack.cuh"
#include "kernels/tile/dynamic_shared.cuh"
#include "kernels/tile/program.cuh"

namespace gpudnn::kernels {

constexpr int kProgramElements = 32;       // of a thread at once, in the vector kernel
constexpr int kProgramScalarElements = 8;  // in the scalar kernel

// What is looked up by a number known at run time. Each block copies it to shared memory: a load from there takes a
// quarter of the cycles of an indexed load of the parameters, and 16 bytes at once.
struct VectorTable {
  VectorTensor in[tile::kProgramInputs];
  VectorTensor out[tile::kProgramOutputs];
  tile::ProgramCode<float> code;
};

struct VectorArgs {
  std::uint32_t packs = 0;
  std::int32_t rank = 1;
  std::int32_t inputs = 0;
  std::int32_t stage_bytes = 0;
  std::int32_t temp_bytes = 0;                 // of all temporaries of a block: the stages lie behind them
  tile::FastDivmod dims[kProgramVectorLoops];  // fastest first, in packs
  VectorTable table;
};
static_assert(sizeof(VectorArgs) <= 4000, "kernel parameters");

// Stages the packs at `positions`; beyond the last one the last one stands in.
template <int N, int P>
__device__ __forceinline__ void stage_packs(const VectorArgs& args, const VectorTable& table,
                                            const PackPositions<P>& positions, unsigned char* stage) {
#pragma unroll 1
  for (int t = 0; t < args.inputs; ++t) {
    const VectorTensor tensor = table.in[t];
    if (tensor.form != InputForm::staged) continue;
    std::int64_t offset[P];
    positions.byte_offsets(args, tensor, offset);
    const int chunk = tensor.chunk;
    const bool is_reused = tensor.is_reused;
    unsigned char* const own = stage + tensor.step + threadIdx.x * chunk;
#pragma unroll
    for (int p = 0; p < P; ++p)
      copy_chunk(own + p * kProgramThreads * chunk, tensor.data + offset[p], chunk, is_reused);
  }
}

template <int N, int P>
struct VectorContext {
  static constexpr int E = N * P;
  const VectorArgs& args;
  const VectorTable& table;
  const unsigned char* stage;
  const PackPositions<P>& positions;
  std::uint32_t first;

  __device__ __forceinline__ void fetch(int input, float (&b)[E]) const {
    const VectorTensor tensor = table.in[input];
    std::uint32_t words[P][N];
    if (tensor.form == InputForm::staged) {
      read_staged(tensor, words);
    } else {
      std::int64_t offset[P];
      positions.byte_offsets(args, tensor, offset);
      if (tensor.form == InputForm::index) {
        const auto start = reinterpret_cast<std::int64_t>(tensor.data);
#pragma unroll
        for (int i = 0; i < E; ++i) b[i] = static_cast<float>(start + offset[i / N] + i % N * tensor.step);
        return;
      }
      gather(tensor, offset, words);
    }
    tile::widen_any<N, P>(static_cast<tile::AnyType>(tensor.type), words, b);
  }

  __device__ __forceinline__ void read_staged(const VectorTensor& tensor, std::uint32_t (&words)[P][N]) const {
    const int chunk = tensor.chunk;
    const unsigned char* const own = stage + tensor.step + threadIdx.x * chunk;
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const unsigned char* const from = own + p * kProgramThreads * chunk;
      if (chunk == 16) {
        const uint4 bits = *reinterpret_cast<const uint4*>(from);
        words[p][0] = bits.x, words[p][1] = bits.y, words[p][2] = bits.z, words[p][3] = bits.w;
      } else if (chunk == 8) {
        const uint2 bits = *reinterpret_cast<const uint2*>(from);
        words[p][0] = bits.x, words[p][1] = bits.y;
      } else {
        words[p][0] = *reinterpret_cast<const std::uint32_t*>(from);
      }
    }
  }

  // Elements one by one, packed as a staged input is: one that stays put is read once for a pack.
  __device__ __forceinline__ static void gather(const VectorTensor& tensor, const std::int64_t (&offset)[P],
                                                std::uint32_t (&words)[P][N]) {
    const int step = tensor.step;
    const int bytes = tensor.chunk / N;
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const char* const from = tensor.data + offset[p];
      if (step == 0) {
        const std::uint32_t one = bytes == 2   ? *reinterpret_cast<const std::uint16_t*>(from) * 0x10001u
                                  : bytes == 4 ? *reinterpret_cast<const std::uint32_t*>(from)
                                               : *reinterpret_cast<const std::uint8_t*>(from) * 0x1010101u;
#pragma unroll
        for (int i = 0; i < N; ++i) words[p][i] = one;
      } else if (bytes == 2) {
#pragma unroll
        for (int i = 0; i < N / 2; ++i) {
          words[p][i] = *reinterpret_cast<const std::uint16_t*>(from + std::int64_t{2 * i} * step) |
                        *reinterpret_cast<const std::uint16_t*>(from + std::int64_t{2 * i + 1} * step) << 16;
        }
      } else if (bytes == 4) {
#pragma unroll
        for (int i = 0; i < N; ++i)
          words[p][i] = *reinterpret_cast<const std::uint32_t*>(from + std::int64_t{i} * step);
      } else {
#pragma unroll
        for (int i = 0; i < N / 4; ++i) words[p][i] = 0;
#pragma unroll
        for (int i = 0; i < N; ++i) {
          words[p][i / 4] |= std::uint32_t{*reinterpret_cast<const std::uint8_t*>(from + std::int64_t{i} * step)}
                             << i % 4 * 8;
        }
      }
    }
  }

  // A temporary lies in shared memory, four elements of each thread side by side.
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
    const VectorTensor tensor = table.out[output];
    std::int64_t offset[P];
    positions.byte_offsets(args, tensor, offset);
    std::uint32_t words[P][N];
    tile::narrow_any<N, P>(static_cast<tile::AnyType>(tensor.type), a, words);
#pragma unroll
    for (int p = 0; p < P; ++p) {
      if (first + p * kProgramThreads >= args.packs) break;
      char* const to = tensor.data + offset[p];
      if (tensor.form == InputForm::staged) {
        store_chunk(to, tensor.chunk, words[p]);
      } else {
        scatter(to, tensor.step, tensor.chunk / N, words[p]);
      }
    }
  }

  __device__ __forceinline__ static void scatter(char* to, int step, int bytes, const std::uint32_t (&words)[N]) {
    if (bytes == 2) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        *reinterpret_cast<std::uint16_t*>(to + std::int64_t{i} * step) =
            static_cast<std::uint16_t>(words[i / 2] >> i % 2 * 16);
      }
    } else if (bytes == 4) {
#pragma unroll
      for (int i = 0; i < N; ++i) *reinterpret_cast<std::uint32_t*>(to + std::int64_t{i} * step) = words[i];
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        *reinterpret_cast<std::uint8_t*>(to + std::int64_t{i} * step) =
            static_cast<std::uint8_t>(words[i / 4] >> i % 4 * 8);
      }
    }
  }
};

template <int N, int P>
__global__ void __launch_bounds__(kProgramThreads, 3) program_vector(const __grid_constant__ VectorArgs args) {
  __shared__ SharedCopy<VectorTable> copy;
  copy_to_shared(args.table, &copy);
  const VectorTable& table = copy.get();
  unsigned char* const stages = tile::dynamic_shared() + args.temp_bytes;
  constexpr std::uint32_t kTile = kProgramThreads * P;
  std::uint32_t first = blockIdx.x * kTile + threadIdx.x;
  const std::uint32_t step = gridDim.x * kTile;
  if (first >= args.packs) return;
  stage_packs<N, P>(args, table, PackPositions<P>(args, first), stages);
  end_of_copies();
  int stage = 0;
  while (first < args.packs) {
    const std::uint32_t next = first + step;
    if (next < args.packs) {
      stage_packs<N, P>(args, table, PackPositions<P>(args, next), stages + (stage ^ 1) * args.stage_bytes);
    }
    end_of_copies();
    wait_for_copies();
    const PackPositions<P> positions(args, first);
    VectorContext<N, P> context{args, table, stages + stage * args.stage_bytes, positions, first};
    float a[N * P] = {};
    tile::run_program(table.code, a, context);
    first = next;
    stage ^= 1;
  }
}

// The scalar kernel: dimensions from the fastest to the slowest, strides in elements.
struct ScalarTensor {
  char* data = nullptr;
  std::int64_t strides[tile::kMaxLoops] = {};
  std::uint8_t type = 0;
  bool is_index = false;
};

template <class C>
struct ScalarArgs {
  std::uint32_t count = 0;
  std::int32_t rank = 1;
  tile::FastDivmod dims[tile::kMaxLoops];
  ScalarTensor in[tile::kProgramInputs];
  ScalarTensor out[tile::kProgramOutputs];
  tile::ProgramCode<C> code;
};

constexpr int bytes_of_type(tile::AnyType type) { return tile::any_type_bytes(type); }

// Elements of one tensor by their offsets. The type is told apart outside the loop, so that the loads go out together.
template <class C, int E>
__device__ __forceinline__ void fetch_elements(const ScalarTensor& tensor, const std::int64_t (&offset)[E], C (&b)[E]) {
  if (tensor.is_index) {
    const auto start = reinterpret_cast<std::int64_t>(tensor.data);
#pragma unroll
    for (int i = 0; i < E; ++i) b[i] = static_cast<C>(start + offset[i]);
    return;
  }
  const auto type = static_cast<tile::AnyType>(tensor.type);
  const int bytes = bytes_of_type(type);
  if (type == tile::AnyType::f16) {
#pragma unroll
    for (int i = 0; i < E; ++i) b[i] = tile::read_any<C>(tile::AnyType::f16, tensor.data + offset[i] * 2);
  } else if (type == tile::AnyType::bf16) {
#pragma unroll
    for (int i = 0; i < E; ++i) b[i] = tile::read_any<C>(tile::AnyType::bf16, tensor.data + offset[i] * 2);
  } else if (type == tile::AnyType::f32) {
#pragma unroll
    for (int i = 0; i < E; ++i) b[i] = tile::read_any<C>(tile::AnyType::f32, tensor.data + offset[i] * 4);
  } else {
#pragma unroll
    for (int i = 0; i < E; ++i) b[i] = tile::read_any<C>(type, tensor.data + offset[i] * bytes);
  }
}

// What a thread keeps of a program between its steps, in shared memory, and the rounding of values to a type.
template <class C, int E, int kThreads>
struct KeptValues {
  __device__ __forceinline__ C* place_of(int temp) const {
    return reinterpret_cast<C*>(tile::dynamic_shared()) + temp * E * kThreads + threadIdx.x;
  }
  __device__ __forceinline__ void keep(int temp, const C (&a)[E]) const {
#pragma unroll
    for (int i = 0; i < E; ++i) place_of(temp)[i * kThreads] = a[i];
  }
  __device__ __forceinline__ void recall(int temp, C (&b)[E]) const {
#pragma unroll
    for (int i = 0; i < E; ++i) b[i] = place_of(temp)[i * kThreads];
  }
  __device__ __forceinline__ void round(tile::AnyType type, C (&a)[E]) const {
#pragma unroll
    for (int i = 0; i < E; ++i) a[i] = tile::rounded_to(type, a[i]);
  }
};

template <class C, int E>
struct ScalarContext : KeptValues<C, E, kProgramThreads> {
  const ScalarArgs<C>& args;
  std::uint32_t first;

  __device__ __forceinline__ void offsets(const ScalarTensor& tensor, std::int64_t (&offset)[E]) const {
    std::uint32_t rest[E];
#pragma unroll
    for (int i = 0; i < E; ++i) {
      rest[i] = min(first + i * kProgramThreads, args.count - 1);
      offset[i] = 0;
    }
#pragma unroll 1
    for (int d = 0; d + 1 < args.rank; ++d) {
      const tile::FastDivmod by = args.dims[d];
      const std::int64_t stride = tensor.strides[d];
#pragma unroll
      for (int i = 0; i < E; ++i) {
        std::uint32_t at;
        rest[i] = by.divmod(rest[i], &at);
        offset[i] += at * stride;
      }
    }
    const std::int64_t slowest = tensor.strides[args.rank - 1];
#pragma unroll
    for (int i = 0; i < E; ++i) offset[i] += rest[i] * slowest;
  }

  __device__ __forceinline__ void fetch(int input, C (&b)[E]) const {
    const ScalarTensor& tensor = args.in[input];
    std::int64_t offset[E];
    offsets(tensor, offset);
    fetch_elements(tensor, offset, b);
  }

  __device__ __forceinline__ void store(int output, const C (&a)[E]) const {
    const ScalarTensor& tensor = args.out[output];
    const auto type = static_cast<tile::AnyType>(tensor.type);
    const int bytes = bytes_of_type(type);
    std::int64_t offset[E];
    offsets(tensor, offset);
#pragma unroll
    for (int i = 0; i < E; ++i) {
      if (first + i * kProgramThreads < args.count) tile::write_any(type, tensor.data + offset[i] * bytes, a[i]);
    }
  }
};

template <class C, int E>
__global__ void __launch_bounds__(kProgramThreads) program_scalar(const __grid_constant__ ScalarArgs<C> params) {
  __shared__ SharedCopy<ScalarArgs<C>> copy;
  copy_to_shared(params, &copy);
  const ScalarArgs<C>& args = copy.get();
  const std::uint32_t first = blockIdx.x * (kProgramThreads * E) + threadIdx.x;
  if (first >= args.count) return;
  ScalarContext<C, E> context{{}, args, first};
  C a[E] = {};
  tile::run_program(args.code, a, context);
}

}  // namespace gpudnn::kernels
