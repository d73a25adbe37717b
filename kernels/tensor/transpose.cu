// Instances and launches of the transpose kernels.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/tensor/transpose.cuh"
#include "kernels/tile/dispatch.hpp"

namespace gpudnn::kernels {
namespace {

// Squares of V x V fit: extents, every other stride and both pointers are multiples of V elements.
template <class T>
bool squares_fit(const LinearParams& params, int in_loop) {
  constexpr int V = tile::kPackWidth<T>;
  const tile::HostNest& nest = params.nest;
  const int last = nest.rank - 1;
  if (nest.dims[in_loop] % V != 0 || nest.dims[last] % V != 0) return false;
  for (int i = 0; i < nest.rank; ++i) {
    if (i != in_loop && nest.strides[0][i] % V != 0) return false;
    if (i != last && nest.strides[1][i] % V != 0) return false;
  }
  return tile::is_aligned(params.in, 16) && tile::is_aligned(params.out, 16);
}

template <class T>
void launch_registers(const LinearParams& params, int in_loop, cudaStream_t stream) {
  using C = tile::Compute<T>;
  TransposeArgs<T> args;
  args.in = static_cast<const T*>(params.in);
  args.out = static_cast<T*>(params.out);
  args.alpha = static_cast<C>(params.alpha);
  args.beta = static_cast<C>(params.beta);
  args.plain = params.alpha == 1 && params.beta == 0;
  TransposeGrid grid;
  const std::int64_t blocks = make_transpose_grid(params.nest, in_loop, kSquares * tile::kPackWidth<T>, &grid);
  cuda::launch_kernel(&transpose_registers<T>, {static_cast<unsigned>(blocks), kTransposeThreads}, stream, args, grid);
}

template <class A, class B>
void launch_shared(const LinearParams& params, int in_loop, cudaStream_t stream) {
  using C = std::conditional_t<std::is_same_v<A, double> || std::is_same_v<B, double>, double, float>;
  TransposeGrid grid;
  const std::int64_t blocks = make_transpose_grid(params.nest, in_loop, kTile, &grid);
  cuda::launch_kernel(&transpose_shared<A, B, C>, {static_cast<unsigned>(blocks), kTransposeThreads}, stream,
                      static_cast<const A*>(params.in), static_cast<B*>(params.out), static_cast<C>(params.alpha),
                      static_cast<C>(params.beta), grid);
}

}  // namespace

void launch_transpose(const LinearParams& params, int in_loop, CUstream_st* stream) {
  tile::with_element_type(params.in_type, [&]<class A>() {
    if (params.in_type == params.out_type && squares_fit<A>(params, in_loop)) {
      return launch_registers<A>(params, in_loop, stream);
    }
    tile::with_element_type(params.out_type, [&]<class B>() { launch_shared<A, B>(params, in_loop, stream); });
  });
}

}  // namespace gpudnn::kernels
