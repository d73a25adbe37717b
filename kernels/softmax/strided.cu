// Softmax over groups with any strides: a block for each group, an element at a time, read twice.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/softmax/launch_args.cuh"
#include "kernels/softmax/softmax_math.cuh"
#include "kernels/tile/dispatch.hpp"

namespace gpudnn::kernels {
namespace {

constexpr int kThreads = 128;

template <class T, bool kBackward>
__global__ void __launch_bounds__(kThreads)
    softmax_strided(SoftmaxArgs<T> args, tile::LoopNest<3> within, tile::LoopNest<3> between) {
  using C = tile::Compute<T>;
  __shared__ C scratch[2][32];
  std::int64_t start[3];
  between.offsets(blockIdx.x, start);
  const bool wide = args.length > tile::kMaxIterations;
  const auto locate = [&](std::int64_t element, std::int64_t(&offset)[3]) {
    if (wide) {
      within.offsets_wide(static_cast<std::uint64_t>(element), offset);
    } else {
      within.offsets(static_cast<std::uint32_t>(element), offset);
    }
    for (int t = 0; t < 3; ++t) offset[t] += start[t];
  };
  MaxSum<C> state;
  C sum = C(0);
  for (std::int64_t element = threadIdx.x; element < args.length; element += kThreads) {
    std::int64_t offset[3];
    locate(element, offset);
    const C values[1] = {tile::widen<C>(args.a[offset[0]])};
    if constexpr (kBackward) {
      sum += SoftmaxBackward<T>::term(values[0], tile::widen<C>(args.b[offset[1]]), args.logarithm);
    } else {
      take_in<T>(values, &state);
    }
  }
  if constexpr (!kBackward) {
    const C most = tile::block_reduce(state.most, kLowest<C>, tile::Max{}, scratch[0]);
    sum = most != state.most ? state.sum * softmax_exp<T>(state.most - most) : state.sum;
    state.most = most;
  }
  sum = tile::block_reduce(sum, C(0), tile::Sum{}, scratch[1]);
  const auto write = [&](const auto& finish) {
    for (std::int64_t element = threadIdx.x; element < args.length; element += kThreads) {
      std::int64_t offset[3];
      locate(element, offset);
      const tile::Pack<T, 1> a = {args.a[offset[0]]};
      const tile::Pack<T, 1> b = {kBackward ? args.b[offset[1]] : args.a[offset[0]]};
      finish_pack<T, 1>(finish, a, b, args.beta, args.out + offset[2]);
    }
  };
  if constexpr (kBackward) {
    write(SoftmaxBackward<T>(args, sum));
  } else {
    write(SoftmaxForward<T>(args, state.most, sum));
  }
}

}  // namespace

void launch_softmax_strided(const SoftmaxParams& params, CUstream_st* stream) {
  tile::with_element_type(params.type, [&]<class T>() {
    tile::for_each_piece(params.between, tile::kMaxIterations, {},
                         [&](const tile::HostNest& piece, const std::int64_t(&offsets)[tile::kMaxTensors]) {
                           const SoftmaxArgs<T> args = softmax_args<T>(params, offsets);
                           const tile::LoopNest<3> within(params.within);
                           const tile::LoopNest<3> between(piece);
                           if (params.backward) {
                             softmax_strided<T, true><<<between.count, kThreads, 0, stream>>>(args, within, between);
                           } else {
                             softmax_strided<T, false><<<between.count, kThreads, 0, stream>>>(args, within, between);
                           }
                         });
  });
}

}  // namespace gpudnn::kernels
