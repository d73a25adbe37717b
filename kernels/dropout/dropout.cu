// Instances and launches of the dropout kernels.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/dropout/dropout.cuh"
#include "kernels/tile/dispatch.hpp"
#include "kernels/tile/least.hpp"

namespace gpudnn::kernels {
namespace {

DropoutLoops loops_of(const tile::HostNest& nest) {
  DropoutLoops loops;
  loops.wide = nest.count() > tile::kMaxIterations;
  loops.rank = nest.rank;
  if (!loops.wide) {
    loops.nest = tile::LoopNest<2>(nest);
    return loops;
  }
  for (int i = 0; i < nest.rank; ++i) {
    const int from = nest.rank - 1 - i;
    loops.dims[i] = static_cast<std::uint64_t>(nest.dims[from]);
    for (int t = 0; t < 2; ++t) loops.strides[t][i] = nest.strides[t][from];
  }
  return loops;
}

template <class T, int N, bool kFlat, bool kBackward>
void launch(const DropoutArgs<T>& args, const DropoutLoops& loops, cudaStream_t stream) {
  constexpr int kRounds = kMaskGroup / N;
  constexpr int kTiles = kFlat && kRounds < 4 ? 4 / kRounds : 1;
  constexpr std::uint64_t kPerBlock = std::uint64_t{kDropoutTile} * kTiles * (kDropoutThreads / 32);
  const auto blocks = static_cast<unsigned>((args.count + kPerBlock - 1) / kPerBlock);
  dropout_kernel<T, N, kFlat, kBackward><<<blocks, kDropoutThreads, 0, stream>>>(args, loops);
}

template <class T, int N>
void launch_forward_flat(const DropoutArgs<T>& args, int multiprocessors, cudaStream_t stream) {
  constexpr std::uint64_t kPerBlock = std::uint64_t{kDropoutTile} * kForwardTiles<N> * (kDropoutThreads / 32);
  const std::uint64_t most = static_cast<std::uint64_t>(multiprocessors) * kForwardBlocks<N>;
  const std::uint64_t blocks = tile::least((args.count + kPerBlock - 1) / kPerBlock, most);
  dropout_forward_flat<T, N><<<static_cast<unsigned>(blocks), kDropoutThreads, 0, stream>>>(args);
}

template <class T>
DropoutArgs<T> args_of(const DropoutParams& params) {
  DropoutArgs<T> args{};
  args.in = static_cast<const T*>(params.in);
  args.out = static_cast<T*>(params.out);
  args.reserve = params.reserve;
  args.states = params.states;
  args.count = static_cast<std::uint64_t>(params.nest.count());
  args.scale = static_cast<DropoutCompute<T>>(params.scale);
  args.threshold = params.threshold;
  args.type = params.type;
  args.order = params.order;
  return args;
}

__global__ void dropout_states_kernel(DropoutStates* states, std::uint64_t seed) { *states = {seed, 0, 0, 0}; }

}  // namespace

void launch_dropout(const DropoutParams& params, CUstream_st* stream) {
  if (tile::is_flat(params.nest) && tile::is_aligned(params.in, 16) && tile::is_aligned(params.out, 16)) {
    tile::with_element_type(params.type, [&]<class T>() {
      constexpr int N = tile::kPackWidth<T>;
      const DropoutArgs<T> args = args_of<T>(params);
      params.backward ? launch<T, N, true, true>(args, {}, stream)
                      : launch_forward_flat<T, N>(args, params.multiprocessors, stream);
    });
    return;
  }
  const DropoutArgs<AnyElement> args = args_of<AnyElement>(params);
  const DropoutLoops loops = loops_of(params.nest);
  params.backward ? launch<AnyElement, 1, false, true>(args, loops, stream)
                  : launch<AnyElement, 1, false, false>(args, loops, stream);
}

void launch_dropout_states(DropoutStates* states, std::uint64_t seed, CUstream_st* stream) {
  dropout_states_kernel<<<1, 1, 0, stream>>>(states, seed);
}

}  // namespace gpudnn::kernels
