// out = alpha * op(in...) + beta * out for each element of up to three inputs: the one engine of the element-wise
// operations. Memory moves in packs of 16 bytes of the widest type, several in flight for each thread.
//
// Three kernels, chosen at launch:
//   flat     every tensor is one gapless block in the same order; no index arithmetic
//   packed   any nest of loops whose fastest one goes in whole packs (each tensor contiguous there, or broadcast)
//   strided  any strides, an element at a time
// A thread reads all of its inputs before it writes, and no other thread reads what it writes: an input may be the
// output.
//
// An Op is a plain struct:
//   static constexpr int kInputs;         0 to 3
//   using In, Out, C;                     storage of the inputs and the output; the type computed in
//   static constexpr bool kScales;        whether alpha and beta apply (a fill takes the value as it is)
//   static constexpr int kUnroll;         packs in flight for each thread: enough bytes to cover the latency, few
//   enough
//                                         to keep the code small and the registers for full occupancy
//   C operator()(const C (&in)[max(kInputs, 1)]) const;
// or, to decide something once for a pack, and with alpha left out,
//   void pack(const C (&in)[kInputs][N], C (&out)[N]) const;
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/tile/dispatch.hpp"
#include "kernels/tile/launch.hpp"
#include "kernels/tile/loop_nest.hpp"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::tile {

constexpr int kElementwiseThreads = 256;

template <class Op>
inline constexpr int kInputSlots = Op::kInputs > 0 ? Op::kInputs : 1;
// Which of the kernels an Op is compiled into.
enum class ElementwiseKernels { all, flat, strided };

template <class Op>
struct ElementwiseArgs {
  Op op;
  const typename Op::In* in[kInputSlots<Op>];
  typename Op::Out* out;
  typename Op::C alpha;
  typename Op::C beta;
  bool reads_out;  // beta is not zero
};

template <class Op, int N>
__device__ __forceinline__ void elementwise_apply(const ElementwiseArgs<Op>& args,
                                                  const Pack<typename Op::In, N> (&in)[kInputSlots<Op>],
                                                  const Pack<typename Op::Out, N>& old,
                                                  Pack<typename Op::Out, N>* out) {
  using C = typename Op::C;
  C wide[kInputSlots<Op>][N];
  C result[N];
  if constexpr (Op::kInputs > 0) {
#pragma unroll
    for (int t = 0; t < Op::kInputs; ++t) widen_pack<C>(in[t], wide[t]);
  }
  if constexpr (requires { args.op.pack(wide, result); }) {
    args.op.pack(wide, result);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      C operands[kInputSlots<Op>] = {};
      if constexpr (Op::kInputs > 0) {
#pragma unroll
        for (int t = 0; t < Op::kInputs; ++t) operands[t] = wide[t][i];
      }
      result[i] = args.op(operands);
      if constexpr (Op::kScales) result[i] *= args.alpha;
    }
  }
  if constexpr (Op::kScales) {
    if (args.reads_out) {
#pragma unroll
      for (int i = 0; i < N; ++i) result[i] += args.beta * widen<C>(old.get(i));
    }
  }
  *out = narrow_pack<typename Op::Out>(result);
}

template <class Op, int N>
__global__ void __launch_bounds__(kElementwiseThreads) elementwise_flat(ElementwiseArgs<Op> args, std::int64_t count) {
  using In = typename Op::In;
  using Out = typename Op::Out;
  constexpr int kUnroll = Op::kUnroll;
  const std::int64_t packs = count / N;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * (kElementwiseThreads * kUnroll) + threadIdx.x;
  Pack<In, N> in[kUnroll][kInputSlots<Op>];
  Pack<Out, N> old[kUnroll];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const std::int64_t pack = first + u * kElementwiseThreads;
    if (pack < packs) {
#pragma unroll
      for (int t = 0; t < Op::kInputs; ++t) in[u][t] = load_pack<In, N>(args.in[t] + pack * N);
      if (Op::kScales && args.reads_out) old[u] = load_pack<Out, N>(args.out + pack * N);
    }
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const std::int64_t pack = first + u * kElementwiseThreads;
    if (pack < packs) {
      Pack<Out, N> result;
      elementwise_apply<Op, N>(args, in[u], old[u], &result);
      store_pack<Out, N>(args.out + pack * N, result);
    }
  }
  // The elements after the last whole pack: one each for the first threads of the last block.
  const std::int64_t rest = packs * N + threadIdx.x;
  if (N > 1 && blockIdx.x == gridDim.x - 1 && rest < count) {
    Pack<In, 1> one[kInputSlots<Op>];
    Pack<Out, 1> old_one;
    Pack<Out, 1> result;
#pragma unroll
    for (int t = 0; t < Op::kInputs; ++t) one[t].data[0] = args.in[t][rest];
    if (Op::kScales && args.reads_out) old_one.data[0] = args.out[rest];
    elementwise_apply<Op, 1>(args, one, old_one, &result);
    args.out[rest] = result.data[0];
  }
}

// The nest counts packs; bit t of `broadcast` says that input t stays put along the fastest loop.
template <class Op, int N>
__global__ void __launch_bounds__(kElementwiseThreads)
    elementwise_nest(ElementwiseArgs<Op> args, LoopNest<Op::kInputs + 1> nest, unsigned broadcast) {
  using In = typename Op::In;
  using Out = typename Op::Out;
  constexpr int kUnroll = Op::kUnroll;
  const std::uint32_t first = blockIdx.x * (kElementwiseThreads * kUnroll) + threadIdx.x;
  Pack<In, N> in[kUnroll][kInputSlots<Op>];
  Pack<Out, N> old[kUnroll];
  std::uint32_t index[kUnroll];
  std::int64_t offset[kUnroll][Op::kInputs + 1];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) index[u] = first + u * kElementwiseThreads;
  nest.template offsets_of<kUnroll>(index, offset);
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    if (first + u * kElementwiseThreads >= nest.count) break;
#pragma unroll
    for (int t = 0; t < Op::kInputs; ++t) {
      if (N > 1 && (broadcast >> t & 1u) != 0) {
        in[u][t].fill(args.in[t][offset[u][t]]);
      } else {
        in[u][t] = load_pack<In, N>(args.in[t] + offset[u][t]);
      }
    }
    if (Op::kScales && args.reads_out) old[u] = load_pack<Out, N>(args.out + offset[u][Op::kInputs]);
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    if (first + u * kElementwiseThreads >= nest.count) break;
    Pack<Out, N> result;
    elementwise_apply<Op, N>(args, in[u], old[u], &result);
    store_pack<Out, N>(args.out + offset[u][Op::kInputs], result);
  }
}

template <class Op, int N>
void launch_elementwise_nest(const ElementwiseArgs<Op>& args, const HostNest& nest, cudaStream_t stream) {
  unsigned broadcast = 0;
  for (int t = 0; t < Op::kInputs; ++t) {
    if (nest.strides[t][nest.rank - 1] == 0) broadcast |= 1u << t;
  }
  constexpr int kPerBlock = kElementwiseThreads * Op::kUnroll;
  for_each_piece(nest, kMaxIterations, {}, [&](const HostNest& piece, const std::int64_t(&offsets)[kMaxTensors]) {
    ElementwiseArgs<Op> part = args;
    for (int t = 0; t < Op::kInputs; ++t) part.in[t] += offsets[t];
    part.out += offsets[Op::kInputs];
    const auto blocks = static_cast<unsigned>((piece.count() + kPerBlock - 1) / kPerBlock);
    launch_kernel(&elementwise_nest<Op, N>, {blocks, kElementwiseThreads}, stream, part,
                  LoopNest<Op::kInputs + 1>(piece), broadcast);
  });
}

// The nest's tensors are the inputs in order, then the output. Returns false, with nothing launched, when the tensors
// need a kernel that is not among `kKernels`.
template <class Op, ElementwiseKernels kKernels = ElementwiseKernels::all>
bool launch_elementwise(const ElementwiseArgs<Op>& args, const HostNest& nest, cudaStream_t stream) {
  using In = typename Op::In;
  using Out = typename Op::Out;
  constexpr int N = Op::kInputs > 0 ? kPackWidth<In, Out> : kPackWidth<Out>;
  const std::int64_t count = nest.count();
  if (count == 0) return true;
  bool aligned = is_aligned(args.out, alignof(Pack<Out, N>));
  for (int t = 0; t < Op::kInputs; ++t) {
    const std::size_t bytes = nest.strides[t][nest.rank - 1] == 0 ? alignof(In) : alignof(Pack<In, N>);
    aligned = aligned && is_aligned(args.in[t], bytes);
  }
  if constexpr (kKernels != ElementwiseKernels::strided) {
    if (aligned && is_flat(nest)) {
      constexpr int kPerBlock = kElementwiseThreads * Op::kUnroll;
      const std::int64_t packs = count / N;
      const auto blocks = static_cast<unsigned>(packs == 0 ? 1 : (packs + kPerBlock - 1) / kPerBlock);
      launch_kernel(&elementwise_flat<Op, N>, {blocks, kElementwiseThreads}, stream, args, count);
      return true;
    }
  }
  if constexpr (kKernels == ElementwiseKernels::all && N > 1) {
    if (aligned && can_pack(nest, N, Op::kInputs)) {
      launch_elementwise_nest<Op, N>(args, packed_nest(nest, N), stream);
      return true;
    }
  }
  if constexpr (kKernels != ElementwiseKernels::flat) {
    launch_elementwise_nest<Op, 1>(args, nest, stream);
    return true;
  }
  return false;
}

}  // namespace gpudnn::tile
