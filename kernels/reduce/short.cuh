// Rows of a few to a thousand packs each, by the usual rules: a group of lanes folds one row and ends. Threads that
// load everything at once and end keep memory busiest: what a block does before its first load and after its last is
// hidden by its neighbours, and the last wave of blocks is short.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/reduce/reduce.cuh"

namespace gpudnn::kernels {

// A pack that was not loaded counts for nothing.
template <class T, int N>
__device__ __forceinline__ Loaded<T, N> empty_pack(const ReduceRule& rule) {
  Loaded<T, N> empty;
  if (rule.family != ReduceFamily::sum) empty.pack.fill(tile::narrow<T>(rule_identity<float>(rule)));
  return empty;
}

// 2^depth lanes for a row, of a warp; each has kLoads packs under way.
template <class T, int N, ReduceKind kKind, int kLoads>
__global__ void __launch_bounds__(kReduceThreads, kReduceShortBlocks)
    reduce_short(const __grid_constant__ ReduceArgs<T> args) {
  using C = ReduceCompute<T>;
  static_assert(kKind != ReduceKind::any && N > 1, "the usual rules over packs");
  const ReduceRule rule = known_rule<kKind>(args.rule);
  const std::uint32_t output = (blockIdx.x * kReduceThreads + threadIdx.x) >> args.depth;
  const std::uint32_t lanes = 1u << args.depth;
  const bool exists = output < args.outputs;
  const auto count = static_cast<std::uint32_t>(args.reduced.count);
  const std::uint32_t lane = threadIdx.x & (lanes - 1);
  const T* const a = args.a + args.template kept_offset<kKind>(0, exists ? output : 0);
  C total = rule_identity<C>(rule);
#pragma unroll 1
  for (std::uint32_t first = lane; first < count; first += kLoads * lanes) {
    Loaded<T, N> packs[kLoads];
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      packs[u] = empty_pack<T, N>(rule);
      const std::uint32_t at = first + static_cast<std::uint32_t>(u) * lanes;
      if (at < count) packs[u].load(args.in_type, a, at * N);
    }
    with_step<C>(rule, [&]<class Step>(Step) {
#pragma unroll
      for (int u = 0; u < kLoads; ++u) {
        C values[N];
        packs[u].widen(values);
#pragma unroll
        for (int i = 0; i < N; ++i) values[i] = Step::term(rule, values[i]);
        total = Step::join(total, join_within<Step>(values));
      }
    });
  }
#pragma unroll
  for (std::uint32_t step = 16; step > 0; step /= 2) {
    if (step < lanes) total = rule_join(rule, total, shuffle_xor(total, step));
  }
  if (exists && lane == 0) args.template store<kKind>(rule, output, 0, 1, total);
}

}  // namespace gpudnn::kernels
