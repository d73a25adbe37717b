// out = alpha * in + beta * out between any two floating types and layouts, and fills: instances of the element-wise
// engine.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "kernels/tensor/tensor.hpp"
#include "kernels/tile/dispatch.hpp"
#include "kernels/tile/elementwise.cuh"

namespace gpudnn::kernels {
namespace {

template <class A, class B>
struct Linear {
  static constexpr int kInputs = 1;
  static constexpr int kUnroll = 4;
  static constexpr bool kScales = true;
  using In = A;
  using Out = B;
  using C = std::conditional_t<std::is_same_v<A, double> || std::is_same_v<B, double>, double, float>;
  __device__ __forceinline__ C operator()(const C (&in)[1]) const { return in[0]; }
};

template <class Raw>
struct Fill {
  static constexpr int kInputs = 0;
  static constexpr int kUnroll = 4;
  static constexpr bool kScales = false;
  using In = Raw;
  using Out = Raw;
  using C = Raw;
  Raw value;
  __device__ __forceinline__ C operator()(const C (&)[1]) const { return value; }
};

template <class Raw>
void fill(const FillParams& params, cudaStream_t stream) {
  tile::ElementwiseArgs<Fill<Raw>> args{};
  std::memcpy(&args.op.value, params.value, sizeof(Raw));
  args.out = static_cast<Raw*>(params.out);
  tile::launch_elementwise(args, params.nest, stream);
}

struct alignas(16) Bytes32 {
  uint4 halves[2];
};

}  // namespace

void launch_fill(const FillParams& params, CUstream_st* stream) {
  switch (params.element_bytes) {
    case 1:
      return fill<std::uint8_t>(params, stream);
    case 2:
      return fill<std::uint16_t>(params, stream);
    case 4:
      return fill<std::uint32_t>(params, stream);
    case 8:
      return fill<std::uint64_t>(params, stream);
    case 16:
      return fill<uint4>(params, stream);
    default:
      return fill<Bytes32>(params, stream);
  }
}

void launch_linear(const LinearParams& params, CUstream_st* stream) {
  tile::with_element_type(params.in_type, [&]<class A>() {
    tile::with_element_type(params.out_type, [&]<class B>() {
      using Op = Linear<A, B>;
      tile::ElementwiseArgs<Op> args{};
      args.in[0] = static_cast<const A*>(params.in);
      args.out = static_cast<B*>(params.out);
      args.alpha = static_cast<typename Op::C>(params.alpha);
      args.beta = static_cast<typename Op::C>(params.beta);
      args.reads_out = params.beta != 0;
      // Between unequal types there is no broadcast, and a layout that changes goes to the transpose: the packed nest
      // would have no work.
      if constexpr (std::is_same_v<A, B>) {
        tile::launch_elementwise(args, params.nest, stream);
      } else if (!tile::launch_elementwise<Op, tile::ElementwiseKernels::flat>(args, params.nest, stream)) {
        tile::launch_elementwise<Op, tile::ElementwiseKernels::strided>(args, params.nest, stream);
      }
    });
  });
}

}  // namespace gpudnn::kernels
