// c = op(alpha1 * a, alpha2 * b) + beta * c, by the element-wise engine: each tensor is moved once, b as often as its
// elements are repeated (from the caches). Bound by memory, so the operation is told at run time: every one costs a few
// instructions, fewer than a load does.
//
//   add  x + y     mul  x * y     max  the larger     min  -max(-x, -y)     sqrt  sqrt(x)     complement  1 - x
//
// for x = alpha1 * a, y = alpha2 * b. A NaN operand of min and max is the result if it is to be propagated, else the
// other operand is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/op_tensor/op_tensor.hpp"
#include "kernels/ptx/max_nan.cuh"
#include "kernels/tile/any_type.cuh"
#include "kernels/tile/elementwise.cuh"

namespace gpudnn::kernels {

__device__ __forceinline__ float max_with_nan(float x, float y) { return ptx::max_nan(x, y); }
__device__ __forceinline__ double max_with_nan(double x, double y) { return x != x || x > y ? x : y; }

template <class C>
struct OpTensorRule {
  OpTensorOp op;
  bool propagate_nan;
  C alpha1;  // for min already negated, so that the larger is sought
  C alpha2;

  __device__ __forceinline__ C both(C a, C b) const {
    const C x = alpha1 * a;
    const C y = alpha2 * b;
    if (op == OpTensorOp::add) return x + y;
    if (op == OpTensorOp::mul) return x * y;
    const C larger = propagate_nan ? max_with_nan(x, y) : fmax(x, y);
    return op == OpTensorOp::min ? -larger : larger;
  }
  // Which operation is asked once for a pack.
  template <int N>
  __device__ __forceinline__ void both_of_pack(const C (&a)[N], const C (&b)[N], C (&out)[N]) const {
    if (op == OpTensorOp::add) {
#pragma unroll
      for (int i = 0; i < N; ++i) out[i] = alpha1 * a[i] + alpha2 * b[i];
    } else if (op == OpTensorOp::mul) {
#pragma unroll
      for (int i = 0; i < N; ++i) out[i] = (alpha1 * a[i]) * (alpha2 * b[i]);
    } else {
      const C sign = op == OpTensorOp::min ? C(-1) : C(1);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const C x = alpha1 * a[i], y = alpha2 * b[i];
        out[i] = sign * (propagate_nan ? max_with_nan(x, y) : fmax(x, y));
      }
    }
  }
  __device__ __forceinline__ C one(C a) const {
    const C x = alpha1 * a;
    return op == OpTensorOp::sqrt ? sqrt(x) : C(1) - x;
  }
};

template <class A, class B>
struct OpTensorBinary : OpTensorRule<tile::Compute<A>> {
  static constexpr int kInputs = 2;
  static constexpr int kUnroll = 2;
  static constexpr bool kScales = true;
  using In = A;
  using Out = B;
  using C = tile::Compute<A>;
  template <int N>
  __device__ __forceinline__ void pack(const C (&in)[2][N], C (&out)[N]) const {
    this->both_of_pack(in[0], in[1], out);
  }
};

template <class A, class B>
struct OpTensorUnary : OpTensorRule<tile::Compute<A>> {
  static constexpr int kInputs = 1;
  static constexpr int kUnroll = 2;
  static constexpr bool kScales = true;
  using In = A;
  using Out = B;
  using C = tile::Compute<A>;
  __device__ __forceinline__ C operator()(const C (&in)[1]) const { return this->one(in[0]); }
};

template <class C>
struct OpTensorMixedArgs {
  OpTensorRule<C> rule;
  tile::AnyType a_type;
  tile::AnyType b_type;
  tile::AnyType c_type;
  const void* a;
  const void* b;  // null: one operand
  void* c;
  C beta;
  tile::LoopNest<3> nest;
};

constexpr int kMixedThreads = 256;
constexpr int kMixedLoads = 4;

template <class C>
__global__ void __launch_bounds__(kMixedThreads) op_tensor_mixed(const __grid_constant__ OpTensorMixedArgs<C> args) {
  const std::uint32_t first = blockIdx.x * (kMixedThreads * kMixedLoads) + threadIdx.x;
  std::uint32_t index[kMixedLoads];
  std::int64_t offset[kMixedLoads][3];
  C a[kMixedLoads];
  C b[kMixedLoads];
#pragma unroll
  for (int u = 0; u < kMixedLoads; ++u) index[u] = first + u * kMixedThreads;
  args.nest.template offsets_of<kMixedLoads>(index, offset);
#pragma unroll
  for (int u = 0; u < kMixedLoads; ++u) {
    if (first + u * kMixedThreads >= args.nest.count) break;
    a[u] = tile::load_any<C>(args.a_type, args.a, offset[u][0]);
    if (args.b != nullptr) b[u] = tile::load_any<C>(args.b_type, args.b, offset[u][1]);
  }
#pragma unroll
  for (int u = 0; u < kMixedLoads; ++u) {
    if (first + u * kMixedThreads >= args.nest.count) break;
    C value = args.b != nullptr ? args.rule.both(a[u], b[u]) : args.rule.one(a[u]);
    if (args.beta != C(0)) value += args.beta * tile::load_any<C>(args.c_type, args.c, offset[u][2]);
    tile::store_any<C>(args.c_type, args.c, offset[u][2], value);
  }
}

}  // namespace gpudnn::kernels
