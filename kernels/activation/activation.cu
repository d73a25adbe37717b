// Instances and launches of the activation kernels.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/activation/activation.cuh"
#include "kernels/tile/dispatch.hpp"

namespace gpudnn::kernels {
namespace {

using tile::ElementwiseArgs;
using tile::ElementwiseKernels;

template <class F>
void with_mode(ActivationMode mode, F&& f) {
  switch (mode) {
    case ActivationMode::sigmoid:
      return f.template operator()<ActivationMode::sigmoid>();
    case ActivationMode::relu:
      return f.template operator()<ActivationMode::relu>();
    case ActivationMode::tanh:
      return f.template operator()<ActivationMode::tanh>();
    case ActivationMode::clipped_relu:
      return f.template operator()<ActivationMode::clipped_relu>();
    case ActivationMode::elu:
      return f.template operator()<ActivationMode::elu>();
    case ActivationMode::identity:
      return f.template operator()<ActivationMode::identity>();
    case ActivationMode::swish:
      return f.template operator()<ActivationMode::swish>();
  }
}

template <class Op>
ElementwiseArgs<Op> common_args(const ActivationParams& params) {
  using C = typename Op::C;
  ElementwiseArgs<Op> args{};
  args.op.coef = static_cast<C>(params.coef);
  args.op.propagate_nan = params.propagate_nan;
  args.out = static_cast<typename Op::Out*>(params.out);
  args.alpha = static_cast<C>(params.alpha);
  args.beta = static_cast<C>(params.beta);
  args.reads_out = params.beta != 0;
  return args;
}

}  // namespace

void launch_activation_forward(const ActivationParams& params, CUstream_st* stream) {
  tile::with_element_type(params.type, [&]<class T>() {
    bool launched = false;
    with_mode(params.mode, [&]<ActivationMode kMode>() {
      using Op = ActivationForward<T, ModeAtCompileTime<kMode>>;
      auto args = common_args<Op>(params);
      args.in[0] = static_cast<const T*>(params.x);
      launched = tile::launch_elementwise<Op, ElementwiseKernels::flat>(args, params.nest, stream);
    });
    if (launched) return;
    using Op = ActivationForward<T, ModeAtRunTime>;
    auto args = common_args<Op>(params);
    args.op.mode = params.mode;
    args.in[0] = static_cast<const T*>(params.x);
    tile::launch_elementwise<Op, ElementwiseKernels::strided>(args, params.nest, stream);
  });
}

void launch_activation_backward(const ActivationParams& params, CUstream_st* stream) {
  tile::with_element_type(params.type, [&]<class T>() {
    bool launched = false;
    with_mode(params.mode, [&]<ActivationMode kMode>() {
      using Op = ActivationBackward<T, kMode>;
      auto args = common_args<Op>(params);
      tile::HostNest nest = params.nest;  // of the tensors that are read, and the output
      nest.tensors = 0;
      const auto add = [&](int tensor, const void* data) {
        std::memcpy(nest.strides[nest.tensors], params.nest.strides[tensor], sizeof nest.strides[0]);
        if (tensor < 3) args.in[nest.tensors] = static_cast<const T*>(data);
        ++nest.tensors;
      };
      if (Op::kX) add(0, params.x);
      if (Op::kY) add(1, params.y);
      add(2, params.dy);
      add(3, nullptr);
      launched = tile::launch_elementwise<Op, ElementwiseKernels::flat>(args, nest, stream);
    });
    if (launched) return;
    using Op = ActivationBackwardAny<T>;
    auto args = common_args<Op>(params);
    args.op.mode = params.mode;
    tile::HostNest nest = params.nest;
    const auto add = [&](int slot, bool reads, const void* data) {
      if (!reads) std::memcpy(nest.strides[slot], params.nest.strides[2], sizeof nest.strides[0]);
      args.in[slot] = static_cast<const T*>(reads ? data : params.dy);
    };
    add(0, gradient_reads_x(params.mode), params.x);
    add(1, gradient_reads_y(params.mode), params.y);
    add(2, true, params.dy);
    tile::launch_elementwise<Op, ElementwiseKernels::strided>(args, nest, stream);
  });
}

}  // namespace gpudnn::kernels
