// Between the two passes of a normalization in parts: joins each set's partials, writes the results that the second
// pass reads, and what the caller gets of them. A warp's lanes take neighbouring sets, so reads are whole sectors; the
// 32 threads of a set take its parts in turn, and join what they have in a fixed order.
//
// Where GPUs share statistics, the thread that has a set's own ones writes them to every other GPU's buffer, waits for
// those of the others in its own, and joins all in the order of the buffers, which gives all GPUs the same bits. A word
// and the mark that it is there are 8 bytes that are written at once, so nothing has to be ordered. What is taken is
// marked as taken, and nothing is written where the last was not taken yet: so buffers need zeros once, at first, and a
// captured launch can be replayed. A block waits for the same block of the others alone.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/norm/launch_args.cuh"
#include "kernels/ptx/sys_relaxed.cuh"
#include "kernels/tile/dispatch.hpp"

namespace gpudnn::kernels {
namespace {

constexpr int kFinishThreads = 256;
constexpr int kFinishSets = 8;  // of a block
constexpr unsigned kThere = 1;  // the mark behind a posted word
constexpr int kPause = 64;      // nanoseconds between two looks

template <class T, bool kBackward>
using Joined = std::conditional_t<kBackward, tile::Totals<T>, tile::Moments<T>>;

// What all parts have together of the block's sets, in `scratch[0]`; `set` is the thread's one.
template <class T, bool kBackward>
__device__ __forceinline__ Joined<T, kBackward> join_parts(const NormArgs<T>& args, std::int64_t sets, std::int64_t set,
                                                           Joined<T, kBackward> (*scratch)[kFinishSets]) {
  Joined<T, kBackward> value{};
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
  const int column = static_cast<int>(threadIdx.x) % kFinishSets;
  if (threadIdx.x % 32 < kFinishSets) scratch[threadIdx.x / 32][column] = value;
  __syncthreads();
  Joined<T, kBackward> all = scratch[0][column];
  for (int warp = 1; warp < kFinishThreads / 32; ++warp) all.merge(scratch[warp][column]);
  return all;
}

// The results of a set, for the second pass and for the caller.
template <class T, bool kBackward>
__device__ __forceinline__ void keep(const NormArgs<T>& args, const NormWalk& walk, std::int64_t sets, std::int64_t set,
                                     const Joined<T, kBackward>& all) {
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

__device__ __forceinline__ std::int64_t set_of_thread() {
  return static_cast<std::int64_t>(blockIdx.x) * kFinishSets + static_cast<int>(threadIdx.x) % kFinishSets;
}

// T is float or double: the type of all that this kernel touches.
template <class T, bool kBackward>
__global__ void __launch_bounds__(kFinishThreads)
    norm_finish(const __grid_constant__ NormArgs<T> args, const __grid_constant__ NormWalk walk) {
  __shared__ Joined<T, kBackward> scratch[kFinishThreads / 32][kFinishSets];
  const std::int64_t sets = walk.sets();
  const std::int64_t set = set_of_thread();
  const Joined<T, kBackward> all = join_parts<T, kBackward>(args, sets, set, scratch);
  if (threadIdx.x < kFinishSets && set < sets) keep<T, kBackward>(args, walk, sets, set, all);
}

__device__ __forceinline__ unsigned mark_of(unsigned long long word) { return static_cast<unsigned>(word >> 32); }
__device__ __forceinline__ unsigned long long marked(float value) {
  return static_cast<unsigned long long>(kThere) << 32 | __float_as_uint(value);
}
__device__ __forceinline__ float value_of(unsigned long long word) {
  return __uint_as_float(static_cast<unsigned>(word));
}

// Where GPU `from` posts the set's statistics to GPU `to`.
__device__ __forceinline__ void* place_of(const NormPeers& peers, int from, int to, std::int64_t sets,
                                          std::int64_t set) {
  const int row = (from - to + peers.count) % peers.count;
  return static_cast<float*>(peers.buffers[to]) + (row * sets + set) * 4;
}

template <bool kBackward>
__device__ __forceinline__ Joined<float, kBackward> exchange(const NormPeers& peers, std::int64_t sets,
                                                             std::int64_t set, const Joined<float, kBackward>& mine) {
  ulonglong2 posted;
  if constexpr (kBackward) {
    posted = {marked(mine.first), marked(mine.second)};
  } else {
    posted = {marked(mine.mean), marked(mine.squares)};
  }
  for (int step = 1; step < peers.count; ++step) {
    void* const place = place_of(peers, peers.own, (peers.own + step) % peers.count, sets, set);
    for (;;) {
      const ulonglong2 last = ptx::ld_relaxed_sys_v2(place);
      if (mark_of(last.x) != kThere && mark_of(last.y) != kThere) break;
      __nanosleep(kPause);
    }
    ptx::st_relaxed_sys_v2(place, posted);
  }
  Joined<float, kBackward> all{};
  for (int peer = 0; peer < peers.count; ++peer) {
    ulonglong2 words = posted;
    if (peer != peers.own) {
      void* const place = place_of(peers, peer, peers.own, sets, set);
      for (;;) {
        words = ptx::ld_relaxed_sys_v2(place);
        if (mark_of(words.x) == kThere && mark_of(words.y) == kThere) break;
        __nanosleep(kPause);
      }
      ptx::st_relaxed_sys_v2(place, {0, 0});
    }
    if constexpr (kBackward) {
      all.merge({value_of(words.x), value_of(words.y)});
    } else {
      all.merge({mine.count, value_of(words.x), value_of(words.y)});
    }
  }
  return all;
}

template <bool kBackward>
__global__ void __launch_bounds__(kFinishThreads)
    norm_finish_with_peers(const __grid_constant__ NormArgs<float> args, const __grid_constant__ NormWalk walk,
                           const __grid_constant__ NormPeers peers) {
  __shared__ Joined<float, kBackward> scratch[kFinishThreads / 32][kFinishSets];
  const std::int64_t sets = walk.sets();
  const std::int64_t set = set_of_thread();
  const Joined<float, kBackward> mine = join_parts<float, kBackward>(args, sets, set, scratch);
  if (threadIdx.x >= kFinishSets || set >= sets) return;
  keep<float, kBackward>(args, walk, sets, set, exchange<kBackward>(peers, sets, set, mine));
}

unsigned blocks_of(const NormParams& params) {
  return static_cast<unsigned>((params.walk.sets() + kFinishSets - 1) / kFinishSets);
}

template <class T>
void launch(const NormParams& params, cudaStream_t stream) {
  const NormArgs<T> args = norm_args<T>(params);
  if (params.backward) {
    cuda::launch_kernel(norm_finish<T, true>, {blocks_of(params), kFinishThreads}, stream, args, params.walk);
  } else {
    cuda::launch_kernel(norm_finish<T, false>, {blocks_of(params), kFinishThreads}, stream, args, params.walk);
  }
}

}  // namespace

void launch_norm_finish(const NormParams& params, CUstream_st* stream) {
  params.type == tile::ElementType::f64 ? launch<double>(params, stream) : launch<float>(params, stream);
}

void launch_norm_finish_with_peers(const NormParams& params, const NormPeers& peers, CUstream_st* stream) {
  const NormArgs<float> args = norm_args<float>(params);
  const auto kernel = params.backward ? norm_finish_with_peers<true> : norm_finish_with_peers<false>;
  cuda::launch_kernel(kernel, {blocks_of(params), kFinishThreads}, stream, args, params.walk, peers);
}

}  // namespace gpudnn::kernels
