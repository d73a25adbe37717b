// A pointwise program as an epilogue or a score modifier: it runs on E accumulators of a thread, neighbours along a row
// of a matrix (or of each batch's matrix), and reads what else it needs by row and column.
//
//   float acc[8] = ...;                                    // of (batch, row, column .. column + 7)
//   run_epilogue(params.epilogue, acc, batch, row, column, valid);
//   ... the kernel stores acc
//
// Input `accumulator` of the program is the accumulators; the value of its store 0 is left in them; further stores are
// made here. Tensors have strides by batch, row and column, 0 where they are repeated: a bias by column has {0, 0, 1},
// a scale by row {0, 1, 0}, a residual {M * N, N, 1}. A load that is an index counts by the same strides: {0, 0, 1} is
// the column. Temporaries are few and lie in local memory, which a program that needs none does not touch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/tile/any_pack.cuh"
#include "kernels/tile/program.cuh"
#include "kernels/tile/program_epilogue.hpp"

namespace gpudnn::tile {

template <int E>
struct EpilogueContext {
  static_assert(E % 4 == 0, "packs of four elements and more");
  const EpilogueProgram& program;
  std::int64_t batch;
  std::int64_t row;
  std::int64_t column;
  int valid;  // elements of the E that exist
  float temps[kEpilogueTemps][E];

  __device__ __forceinline__ std::int64_t offset_in(const EpilogueTensor& tensor) const {
    return batch * tensor.batch + row * tensor.row + column * tensor.column;
  }

  __device__ __forceinline__ void fetch(int input, float (&b)[E]) const {
    const EpilogueTensor& tensor = program.in[input];
    const std::int64_t offset = offset_in(tensor);
    if (tensor.is_index) {
#pragma unroll
      for (int i = 0; i < E; ++i) b[i] = static_cast<float>(offset + i * tensor.column);
      return;
    }
    const int bytes = any_type_bytes(tensor.type);
    const char* const from = static_cast<const char*>(tensor.data) + offset * bytes;
    if (tensor.column == 0) {
      const float one = read_any<float>(tensor.type, from);
#pragma unroll
      for (int i = 0; i < E; ++i) b[i] = one;
      return;
    }
    if (tensor.column == 1 && valid == E && bytes == 2 && reinterpret_cast<std::uintptr_t>(from) % (2 * E) == 0) {
      std::uint32_t words[1][E];
#pragma unroll
      for (int i = 0; i < E / 2; i += 2) {
        const uint2 two = __ldg(reinterpret_cast<const uint2*>(from) + i / 2);
        words[0][i] = two.x, words[0][i + 1] = two.y;
      }
      widen_any<E, 1>(tensor.type, words, b);
      return;
    }
#pragma unroll
    for (int i = 0; i < E; ++i) {
      const std::int64_t at = i < valid ? i : valid - 1;
      b[i] = read_any<float>(tensor.type, from + at * tensor.column * bytes);
    }
  }

  __device__ __forceinline__ void keep(int temp, const float (&a)[E]) {
#pragma unroll
    for (int i = 0; i < E; ++i) temps[temp][i] = a[i];
  }
  __device__ __forceinline__ void recall(int temp, float (&b)[E]) const {
#pragma unroll
    for (int i = 0; i < E; ++i) b[i] = temps[temp][i];
  }

  __device__ __forceinline__ void round(AnyType type, float (&a)[E]) const {
#pragma unroll
    for (int i = 0; i < E; ++i) a[i] = rounded_to(type, a[i]);
  }

  __device__ __forceinline__ void store(int output, const float (&a)[E]) const {
    const EpilogueTensor& tensor = program.out[output];
    const int bytes = any_type_bytes(tensor.type);
    char* const to = static_cast<char*>(tensor.data) + offset_in(tensor) * bytes;
#pragma unroll
    for (int i = 0; i < E; ++i) {
      if (i < valid) write_any(tensor.type, to + i * tensor.column * bytes, a[i]);
    }
  }
};

// At least one of the E elements exists.
template <int E>
__device__ __forceinline__ void run_epilogue(const EpilogueProgram& program, float (&acc)[E], std::int64_t batch,
                                             std::int64_t row, std::int64_t column, int valid = E) {
  EpilogueContext<E> context{program, batch, row, column, valid, {}};
  run_program(program.code, acc, context);
}

}  // namespace gpudnn::tile
