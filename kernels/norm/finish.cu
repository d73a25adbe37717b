// Between the two passes of a normalization in parts: joins each set's partials, writes the results that the second
// pass reads, and what the caller gets of them. A warp's lanes take neighbouring sets, so reads are whole sectors; the
// 32 threads of a set take its parts in turn, and join what they have in a fixed order.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/norm/launch_args.cuh"
#include "kernels/tile/dispatch.hpp"

namespace gpudnn::kernels {
namespace {

constexpr int kFinishThreads = 256;
constexpr int kFinishSets = 8;  // of a block

// T is float or double: the type of all that this kernel touches.
template <class T, bool kBackward>
__global__ void __launch_bounds__(kFinishThreads)
    norm_finish(const __grid_constant__ NormArgs<T> args, const __grid_constant__ NormWalk walk) {
  using V = std::conditional_t<kBackward, tile::Totals<T>, tile::Moments<T>>;
  __shared__ V scratch[kFinishThreads / 32][kFinishSets];
  const int column = static_cast<int>(threadIdx.x) % kFinishSets;
  const std::int64_t sets = walk.sets();
  const std::int64_t set = static_cast<std::int64_t>(blockIdx.x) * kFinishSets + column;
  V value{};
  if (set < sets) {
    for (int part = static_cast<int>(threadIdx.x) / kFinishSets; part < args.parts;
         part += kFinishThreads / kFinishSets) {
      if constexpr (kBackward) {
        const T* const from = args.partials + static_cast<std::int64_t>(part) * 2 * sets + set;
        value.merge({from[0], from[sets]});
      } else {
        const T* const from = args.partials + static_cast<std::int64_t>(part) * 3 * sets + set;
        value.merge({from[0], from[sets], from[2 * sets]});
      }
    }
  }
#pragma unroll
  for (int step = kFinishSets; step < 32; step *= 2) value.merge(value.shuffled(step));
  if (threadIdx.x % 32 < kFinishSets) scratch[threadIdx.x / 32][column] = value;
  __syncthreads();
  if (threadIdx.x >= kFinishSets || set >= sets) return;
  V all = scratch[0][column];
  for (int warp = 1; warp < kFinishThreads / 32; ++warp) all.merge(scratch[warp][column]);
  if constexpr (kBackward) {
    const T inverse =
        args.given_mean != nullptr ? args.given_deviation[set_offset(walk, kSlotStats, set)] : args.results[sets + set];
    args.results[2 * sets + set] = all.first;
    args.results[3 * sets + set] = all.second;
    keep_gradients(args, set_offset(walk, kSlotParams, set), all.first, all.second, inverse);
  } else {
    const T variance = all.squares / args.count;
    const T inverse = inverse_deviation(variance, args.epsilon);
    args.results[set] = all.mean;
    args.results[sets + set] = inverse;
    keep_statistics(args, set_offset(walk, kSlotStats, set), all.mean, variance, inverse);
  }
}

template <class T>
void launch(const NormParams& params, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((params.walk.sets() + kFinishSets - 1) / kFinishSets);
  const NormArgs<T> args = norm_args<T>(params);
  if (params.backward) {
    cuda::launch_kernel(norm_finish<T, true>, {blocks, kFinishThreads}, stream, args, params.walk);
  } else {
    cuda::launch_kernel(norm_finish<T, false>, {blocks, kFinishThreads}, stream, args, params.walk);
  }
}

}  // namespace

void launch_norm_finish(const NormParams& params, CUstream_st* stream) {
  params.type == tile::ElementType::f64 ? launch<double>(params, stream) : launch<float>(params, stream);
}

}  // namespace gpudnn::kernels
