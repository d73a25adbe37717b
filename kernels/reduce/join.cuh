// The second stage: adds up the runs that the elements of an output were cut into. One thread after another would take
// a trip to the L2 for each; here all of them are under way at once, and meet in shared memory in a tree of fixed
// shape.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/reduce/rule.cuh"
#include "kernels/tile/loop_nest.hpp"

namespace gpudnn::kernels {

template <class C>
struct ReduceJoinArgs {
  const void* partials;
  ReduceRule rule;
  ReduceOutput<C> output;
  tile::LoopNest<3> kept;  // of elements
  std::uint32_t outputs;
  std::uint32_t splits;
  std::uint32_t lanes;
};

// `lanes` threads stand on neighbouring outputs; the rows of the block share the splits.
template <class C, bool kIndexed, ReduceKind kKind>
__global__ void __launch_bounds__(kReduceJoinThreads) reduce_join(const __grid_constant__ ReduceJoinArgs<C> args) {
  using V = std::conditional_t<kIndexed, Found<C>, C>;
  constexpr int kLoads = 8;
  const ReduceRule rule = known_rule<kKind>(args.rule);
  __shared__ V results[kReduceJoinThreads];
  const std::uint32_t lanes = args.lanes;
  const std::uint32_t row = threadIdx.x / lanes;
  const std::uint32_t rows = kReduceJoinThreads / lanes;
  const V* const partials = static_cast<const V*>(args.partials);
#pragma unroll 1
  for (std::uint32_t first = blockIdx.x * lanes; first < args.outputs; first += gridDim.x * lanes) {
    const std::uint32_t output = first + (threadIdx.x & (lanes - 1));
    V total;
    if constexpr (kIndexed) {
      total = {rule_identity<C>(rule), kNoPlace};
    } else {
      total = rule_identity<C>(rule);
    }
#pragma unroll 1
    for (std::uint32_t split = row; output < args.outputs && split < args.splits; split += rows * kLoads) {
      V loaded[kLoads];
#pragma unroll
      for (int u = 0; u < kLoads; ++u) {
        if (split + u * rows < args.splits)
          loaded[u] = partials[static_cast<std::int64_t>(split + u * rows) * args.outputs + output];
      }
#pragma unroll
      for (int u = 0; u < kLoads; ++u) {
        if (split + u * rows < args.splits) total = rule_join(rule, total, loaded[u]);
      }
    }
    results[threadIdx.x] = total;
    __syncthreads();
#pragma unroll 1
    for (std::uint32_t half = rows / 2; half > 0; half /= 2) {
      if (row < half) {
        results[threadIdx.x] = rule_join(rule, results[threadIdx.x], results[threadIdx.x + half * lanes]);
      }
      __syncthreads();
    }
    if (row == 0 && output < args.outputs) {
      std::int64_t at[3];
      args.kept.offsets(output, at);
      args.output.store(rule, at[1], at[2], results[threadIdx.x]);
    }
    __syncthreads();
  }
}

}  // namespace gpudnn::kernels
