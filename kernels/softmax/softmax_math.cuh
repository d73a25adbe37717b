// The mathematics of softmax, shared by its kernels.
//
//   forward     y = exp(x - m) / sum(exp(x - m))          log:  y = x - m - log(sum(exp(x - m)))
//   backward    dx = y * (dy - sum(y * dy))               log:  dx = dy - exp(y) * sum(dy)
//
// The maximum m is searched from the lowest finite value on, not from -infinity: then x - m is never infinity -
// infinity unless x holds +infinity, padding elements of -infinity add 0 to every sum, and a row of -infinity ends as 0
// / 0. A NaN is passed over by the maximum and comes back through the sum, which makes the whole group NaN.
//
// 16-bit types take the approximate exponential: its relative error is below 2^-18 wherever the result is not rounded
// to zero (x - m > -18), and half a unit of f16 is 2^-12. Their logarithm is the approximate one too: of a sum of 1 or
// more it is off by less than 2^-20.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cfloat>

#include "kernels/ptx/ex2.cuh"
#include "kernels/softmax/softmax.hpp"
#include "kernels/tile/half_math.cuh"
#include "kernels/tile/reduce.cuh"

namespace gpudnn::kernels {

template <class C>
inline constexpr C kLowest = C(-FLT_MAX);
template <>
inline constexpr double kLowest<double> = -DBL_MAX;

template <class T, class C>
__device__ __forceinline__ C softmax_exp(C v) {
  if constexpr (sizeof(T) == 2) {
    return ptx::ex2_approx_ftz(v * 1.44269504f);  // two instructions; __expf takes four more for subnormal results
  } else if constexpr (sizeof(T) == 4) {
    return expf(v);
  } else {
    return exp(v);
  }
}

template <class T, class C>
__device__ __forceinline__ C softmax_log(C v) {
  if constexpr (sizeof(T) == 2) {
    return __logf(v);
  } else {
    return log(v);
  }
}

template <class T>
struct SoftmaxArgs {
  using C = tile::Compute<T>;
  const T* a;  // x; backward y
  const T* b;  // backward dy
  T* out;
  C alpha;
  C beta;
  bool logarithm;
  std::int64_t length;  // of a group
  int cluster;
};

// Long rows through shared memory (ring_sm90.cu), for float and the 16-bit types. False, with nothing launched, where a
// row is too long or the device has no clusters for it.
template <class T>
bool launch_softmax_ring(const SoftmaxArgs<T>& args, const tile::LoopNest<3>& rows, bool backward, CUstream_st* stream);

// Columns through shared memory (staged_sm80.cu), for the 16-bit types; `piece` holds single groups. False, with
// nothing launched, where it does not suit. `aligned`: packs of 16 bytes fit in every tensor.
template <class T>
bool launch_softmax_staged(const SoftmaxParams& params, const tile::HostNest& piece, const SoftmaxArgs<T>& args,
                           bool aligned, CUstream_st* stream);

// Columns whose rows begin anywhere (skewed_sm90.cu), for float and the 16-bit types; as above.
template <class T>
bool launch_softmax_skewed(const SoftmaxParams& params, const tile::HostNest& piece, const SoftmaxArgs<T>& args,
                           CUstream_st* stream);

// The running maximum, and the sum of exp(x - maximum).
template <class C>
struct MaxSum {
  C most = kLowest<C>;
  C sum = C(0);
};

// The larger elements of two packs, a NaN losing to a number; 16-bit types two at a time.
template <class T, int N>
__device__ __forceinline__ tile::Pack<T, N> larger_of(const tile::Pack<T, N>& a, const tile::Pack<T, N>& b) {
  tile::Pack<T, N> larger;
  if constexpr (tile::kPackHasWords<T, N>) {
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      larger.words[i] = tile::as_word<T>(__hmax2(tile::as_two<T>(a.words[i]), tile::as_two<T>(b.words[i])));
    }
  } else {
    using C = tile::Compute<T>;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      larger.data[i] = tile::narrow<T>(tile::Max{}(tile::widen<C>(a.data[i]), tile::widen<C>(b.data[i])));
    }
  }
  return larger;
}

// Takes N more elements in, with at most one rescaling of the sum.
template <class T, int N, class C>
__device__ __forceinline__ void take_in(const C (&values)[N], MaxSum<C>* state) {
  C most = state->most;
#pragma unroll
  for (int i = 0; i < N; ++i) most = tile::Max{}(most, values[i]);
  if (most != state->most) {
    state->sum *= softmax_exp<T>(state->most - most);
    state->most = most;
  }
#pragma unroll
  for (int i = 0; i < N; ++i) state->sum += softmax_exp<T>(values[i] - most);
}

// From the group's totals to an element of the output, alpha included.
template <class T>
struct SoftmaxForward {
  using C = tile::Compute<T>;
  C most;
  C scale;  // alpha / sum, or alpha
  C log_sum;
  bool logarithm;

  __device__ __forceinline__ SoftmaxForward(const SoftmaxArgs<T>& args, C most_, C sum)
      : most(most_), scale(args.alpha), log_sum(C(0)), logarithm(args.logarithm) {
    if (logarithm) {
      log_sum = softmax_log<T>(sum);
    } else {
      scale = args.alpha / sum;
    }
  }
  __device__ __forceinline__ C operator()(C x, C) const {
    return logarithm ? scale * (x - most - log_sum) : scale * softmax_exp<T>(x - most);
  }
};

// The same for 16-bit types where alpha is positive and no logarithm is asked for: the factor goes into the exponent,
// whose error of 2^-24 of some ten to twenty is far below a unit of theirs.
template <class T>
struct SoftmaxFolded {
  float most;
  float shift;  // log2(alpha / sum)

  __device__ __forceinline__ SoftmaxFolded(const SoftmaxArgs<T>& args, float most_, float sum)
      : most(most_), shift(__log2f(args.alpha / sum)) {}
  __device__ __forceinline__ float operator()(float x, float) const {
    return ptx::ex2_approx_ftz(fmaf(x - most, 1.44269504f, shift));
  }
};

template <class T>
struct SoftmaxBackward {
  using C = tile::Compute<T>;
  C sum;
  C alpha;
  bool logarithm;

  __device__ __forceinline__ SoftmaxBackward(const SoftmaxArgs<T>& args, C sum_)
      : sum(sum_), alpha(args.alpha), logarithm(args.logarithm) {}
  __device__ __forceinline__ static C term(C y, C dy, bool logarithm) { return logarithm ? dy : y * dy; }
  __device__ __forceinline__ C operator()(C y, C dy) const {
    return alpha * (logarithm ? dy - softmax_exp<T>(y) * sum : y * (dy - sum));
  }
};

// One pack of the output from packs of the inputs.
template <class T, int N, class Finish>
__device__ __forceinline__ void finish_pack(const Finish& finish, const tile::Pack<T, N>& a, const tile::Pack<T, N>& b,
                                            tile::Compute<T> beta, T* out) {
  using C = tile::Compute<T>;
  C wide_a[N], wide_b[N], result[N];
  tile::widen_pack<C>(a, wide_a);
  tile::widen_pack<C>(b, wide_b);
#pragma unroll
  for (int i = 0; i < N; ++i) result[i] = finish(wide_a[i], wide_b[i]);
  if (beta != C(0)) {
    C old[N];
    tile::widen_pack<C>(tile::load_pack<T, N>(out), old);
#pragma unroll
    for (int i = 0; i < N; ++i) result[i] += beta * old[i];
  }
  tile::store_pack<T, N>(out, tile::narrow_pack<T>(result));
}

}  // namespace gpudnn::kernels
