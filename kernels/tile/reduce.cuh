// Reductions over the lanes of a warp and the warps of a block, in a fixed order: the same bits every time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

namespace gpudnn::tile {

struct Sum {
  template <class C>
  __device__ __forceinline__ C operator()(C a, C b) const {
    return a + b;
  }
};

// The larger; a NaN loses to a number.
struct Max {
  __device__ __forceinline__ float operator()(float a, float b) const { return fmaxf(a, b); }
  __device__ __forceinline__ double operator()(double a, double b) const { return fmax(a, b); }
};

// Every lane gets the result over groups of `Lanes` neighbouring lanes. All 32 lanes must take part.
template <int Lanes = 32, class V, class Op>
__device__ __forceinline__ V warp_reduce(V value, Op op) {
#pragma unroll
  for (int step = Lanes / 2; step > 0; step /= 2) value = op(value, __shfl_xor_sync(0xffffffffu, value, step));
  return value;
}

// Every thread gets the result over the block, whose size is a multiple of 32 and at most 1024. `scratch` has room for
// 32 values; a block may use it again at once for another reduction only after its own __syncthreads().
template <class V, class Op>
__device__ __forceinline__ V block_reduce(V value, V identity, Op op, V* scratch) {
  value = warp_reduce(value, op);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  if (lane == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  return warp_reduce(lane < warps ? scratch[lane] : identity, op);
}

}  // namespace gpudnn::tile
