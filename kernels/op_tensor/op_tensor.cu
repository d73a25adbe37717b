// Instances and launches of the two-operand tensor kernels.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>

#include "kernels/op_tensor/op_tensor.cuh"

namespace gpudnn::kernels {
namespace {

template <class C>
OpTensorRule<C> rule_of(const OpTensorParams& params) {
  const C sign = params.op == OpTensorOp::min ? C(-1) : C(1);
  return {params.op, params.propagate_nan, sign * static_cast<C>(params.alpha1), sign * static_cast<C>(params.alpha2)};
}

template <class Op>
void launch_typed(const OpTensorParams& params, cudaStream_t stream) {
  using C = typename Op::C;
  tile::ElementwiseArgs<Op> args{};
  static_cast<OpTensorRule<C>&>(args.op) = rule_of<C>(params);
  args.in[0] = static_cast<const typename Op::In*>(params.a);
  if constexpr (Op::kInputs == 2) args.in[1] = static_cast<const typename Op::In*>(params.b);
  args.out = static_cast<typename Op::Out*>(params.c);
  args.alpha = C(1);
  args.beta = static_cast<C>(params.beta);
  args.reads_out = params.beta != 0;
  if constexpr (std::is_same_v<typename Op::In, typename Op::Out>) {
    tile::launch_elementwise(args, params.nest, stream);
  } else if (!tile::launch_elementwise<Op, tile::ElementwiseKernels::flat>(args, params.nest, stream)) {
    launch_op_tensor_mixed(params, stream);
  }
}

template <class A, class B>
void launch_pair(const OpTensorParams& params, cudaStream_t stream) {
  if (params.nest.tensors == 3) {
    launch_typed<OpTensorBinary<A, B>>(params, stream);
  } else if constexpr (std::is_same_v<A, B>) {
    launch_typed<OpTensorUnary<A, B>>(params, stream);
  } else {
    launch_op_tensor_mixed(params, stream);
  }
}

template <class Narrow>
void launch_with_float(const OpTensorParams& params, bool out_is_float, cudaStream_t stream) {
  out_is_float ? launch_pair<Narrow, float>(params, stream) : launch_pair<float, Narrow>(params, stream);
}

template <class C>
void launch_mixed(const OpTensorParams& params, const tile::HostNest& nest, cudaStream_t stream) {
  tile::for_each_piece(
      nest, tile::kMaxIterations, {},
      [&](const tile::HostNest& piece, const std::int64_t(&offsets)[tile::kMaxTensors]) {
        const auto shift = [&](int t, tile::AnyType type) { return offsets[t] * any_type_bytes(type); };
        OpTensorMixedArgs<C> args;
        args.rule = rule_of<C>(params);
        args.a_type = params.a_type;
        args.b_type = params.b_type;
        args.c_type = params.c_type;
        args.a = static_cast<const std::byte*>(params.a) + shift(0, params.a_type);
        args.b = params.nest.tensors == 2 ? nullptr : static_cast<const std::byte*>(params.b) + shift(1, params.b_type);
        args.c = static_cast<std::byte*>(params.c) + shift(2, params.c_type);
        args.beta = static_cast<C>(params.beta);
        args.nest = tile::LoopNest<3>(piece);
        constexpr int kPerBlock = kMixedThreads * kMixedLoads;
        const auto blocks = static_cast<unsigned>((piece.count() + kPerBlock - 1) / kPerBlock);
        op_tensor_mixed<C><<<blocks, kMixedThreads, 0, stream>>>(args);
      });
}

}  // namespace

void launch_op_tensor(const OpTensorParams& params, CUstream_st* stream) {
  using tile::AnyType;
  const AnyType in = params.a_type;
  const AnyType out = params.c_type;
  if (in == out) {
    switch (in) {
      case AnyType::f64:
        return launch_pair<double, double>(params, stream);
      case AnyType::f16:
        return launch_pair<tile::Half, tile::Half>(params, stream);
      case AnyType::bf16:
        return launch_pair<tile::BFloat16, tile::BFloat16>(params, stream);
      default:
        return launch_pair<float, float>(params, stream);
    }
  }
  const AnyType narrow = in == AnyType::f32 ? out : in;
  if (narrow == AnyType::f16) return launch_with_float<tile::Half>(params, out == AnyType::f32, stream);
  launch_with_float<tile::BFloat16>(params, out == AnyType::f32, stream);
}

void launch_op_tensor_mixed(const OpTensorParams& params, CUstream_st* stream) {
  tile::HostNest nest = params.nest;
  if (nest.tensors == 2) {  // c's place is the third; the second stands idle
    std::memcpy(nest.strides[2], nest.strides[1], sizeof nest.strides[0]);
    nest.tensors = 3;
  }
  // 32-bit integers need more digits than float has.
  const bool wide = params.c_type == tile::AnyType::f64 || params.a_type == tile::AnyType::i32 ||
                    params.b_type == tile::AnyType::i32 || params.c_type == tile::AnyType::i32;
  wide ? launch_mixed<double>(params, nest, stream) : launch_mixed<float>(params, nest, stream);
}

}  // namespace gpudnn::kernels
