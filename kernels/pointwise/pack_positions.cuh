// Where the packs of a thread lie in the tensors of a pointwise program, and their stores.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/pointwise/vector_tensor.hpp"
#include "kernels/ptx/mul_wide.cuh"
#include "kernels/ptx/st_global.cuh"

namespace gpudnn::kernels {

// The index of P packs (or of P elements) in each loop, the fastest first. Made once for all tensors. Args has packs,
// rank and dims.
template <int P>
struct PackPositions {
  std::int32_t at[kProgramVectorLoops][P];

  template <class Args>
  __device__ __forceinline__ PackPositions(const Args& args, std::uint32_t first) {
    std::uint32_t rest[P];
#pragma unroll
    for (int p = 0; p < P; ++p) rest[p] = min(first + p * kProgramThreads, args.packs - 1);
    divide(args, rest);
  }
  __device__ __forceinline__ explicit PackPositions(int4 its) {
    static_assert(P == 1 && kProgramVectorLoops == 4, "four indices");
    at[0][0] = its.x, at[1][0] = its.y, at[2][0] = its.z, at[3][0] = its.w;
  }
  [[nodiscard]] __device__ __forceinline__ int4 first() const {
    return make_int4(at[0][0], at[1][0], at[2][0], at[3][0]);
  }
  // Of numbers that exist.
  template <class Args>
  __device__ __forceinline__ PackPositions(const Args& args, std::uint32_t (&numbers)[P]) {
    divide(args, numbers);
  }

  template <class Args>
  __device__ __forceinline__ void divide(const Args& args, std::uint32_t (&rest)[P]) {
#pragma unroll
    for (int i = 0; i + 1 < kProgramVectorLoops; ++i) {
#pragma unroll
      for (int p = 0; p < P; ++p) at[i][p] = 0;
      if (i + 1 < args.rank) {
#pragma unroll
        for (int p = 0; p < P; ++p) {
          std::uint32_t index;
          rest[p] = args.dims[i].divmod(rest[p], &index);
          at[i][p] = static_cast<std::int32_t>(index);
        }
      } else {  // the slowest one
#pragma unroll
        for (int p = 0; p < P; ++p) at[i][p] = static_cast<std::int32_t>(rest[p]), rest[p] = 0;
      }
    }
#pragma unroll
    for (int p = 0; p < P; ++p) at[kProgramVectorLoops - 1][p] = static_cast<std::int32_t>(rest[p]);
  }

  template <class Args>
  __device__ __forceinline__ void byte_offsets(const Args& args, const VectorTensor& tensor,
                                               std::int64_t (&offset)[P]) const {
#pragma unroll
    for (int p = 0; p < P; ++p) offset[p] = ptx::mul_wide(at[0][p], tensor.fastest);
#pragma unroll
    for (int i = 1; i < kProgramVectorLoops; ++i) {
      if (i >= args.rank) break;
#pragma unroll
      for (int p = 0; p < P; ++p) offset[p] += ptx::mul_wide(at[i][p], tensor.strides[i - 1]);
    }
  }
};

template <int N>
__device__ __forceinline__ void store_chunk(char* to, int chunk, const std::uint32_t (&words)[N]) {
  if (chunk == 16) {
    ptx::st_global(reinterpret_cast<uint4*>(to), make_uint4(words[0], words[1], words[2], words[3]));
  } else if (chunk == 8) {
    ptx::st_global(reinterpret_cast<uint2*>(to), make_uint2(words[0], words[1]));
  } else {
    *reinterpret_cast<std::uint32_t*>(to) = words[0];
  }
}

}  // namespace gpudnn::kernels
