// The arithmetic of local response and divisive normalization, shared by its kernels.
//
//   s_i = k + weight * sum of z_j^2, j in the window of i        y_i = z_i s_i^-e
//   t_i = dy_i z_i s_i^(-e - 1)                                  dz_i = dy_i s_i^-e - 2 e weight z_i * sum of t_j,
//                                                                       i in the window of j
//
// The power is 2^(-e log2 s). In float the logarithm is the approximate instruction: its error is at most 2^-22 where s
// lies between 1/2 and 2 and 2^-22 of its value elsewhere, so the power is off by at most (4 + 4 e max(1, |log2 s|)) u
// relative, u = 2^-24, the two roundings of exp2f included. s is at least k, a normal number, unless alpha is negative.
// For f16 logarithm and power are the instructions alone: a power that they take for zero, below 2^-126, is far below
// f16, and one of s below 2^-126 far above it. Where the sum overflows, the power is 0, and it meets z before dy does,
// so that no infinity times zero arises. Sums of squares are formed anew for each window: a running sum that drops old
// squares would keep their errors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/lrn/lrn.hpp"
#include "kernels/ptx/ex2.cuh"
#include "kernels/ptx/lg2.cuh"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels {

__device__ __forceinline__ float log2_of(float s) { return __log2f(s); }
__device__ __forceinline__ double log2_of(double s) { return log2(s); }
__device__ __forceinline__ float exp2_of(float v) { return exp2f(v); }
__device__ __forceinline__ double exp2_of(double v) { return exp2(v); }

// log2 s and 2^v for tensors of T.
template <class T, class C>
__device__ __forceinline__ C lrn_log2(C s) {
  if constexpr (std::is_same_v<T, tile::Half>) {
    return ptx::lg2_approx_ftz(s);
  } else {
    return log2_of(s);
  }
}
template <class T, class C>
__device__ __forceinline__ C lrn_exp2(C v) {
  if constexpr (std::is_same_v<T, tile::Half>) {
    return ptx::ex2_approx_ftz(v);
  } else {
    return exp2_of(v);
  }
}

template <class T>
struct LrnArgs {
  using C = tile::Compute<T>;
  const T* x;
  const T* dy;
  T* out;
  C alpha;
  C beta;
  C weight;
  C exponent;
  C k;
  std::int32_t n;
  std::int32_t before;
  std::int64_t channels;
  std::int64_t steps[3];  // from a channel to the next: x, dy, out
};

template <class T>
LrnArgs<T> lrn_args(const LrnParams& params) {
  using C = tile::Compute<T>;
  LrnArgs<T> args = {};
  args.x = static_cast<const T*>(params.x);
  args.dy = static_cast<const T*>(params.dy);
  args.out = static_cast<T*>(params.out);
  args.alpha = static_cast<C>(params.alpha);
  args.beta = static_cast<C>(params.beta);
  args.weight = static_cast<C>(params.weight);
  args.exponent = static_cast<C>(params.exponent);
  args.k = static_cast<C>(params.k);
  args.n = params.n;
  args.before = params.before;
  args.channels = params.channels;
  for (int t = 0; t < 3; ++t) args.steps[t] = params.channel_strides[t];
  return args;
}

// out = alpha * value + beta * out for a pack.
template <class T, int N, class C>
__device__ __forceinline__ void lrn_store(C (&values)[N], C alpha, C beta, T* out) {
  if (alpha != C(1)) {
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] *= alpha;
  }
  if (beta != C(0)) {
    C old[N];
    tile::widen_pack<C>(tile::load_pack<T, N>(out), old);
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] += beta * old[i];
  }
  tile::store_pack<T, N>(out, tile::narrow_pack<T>(values));
}

}  // namespace gpudnn::kernels
