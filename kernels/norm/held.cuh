// Training over segments (segments.hpp) of which each thread holds all that it reads in registers: for small images.
// SPDX-License-Identifier: Apache-2.0
//
// The mathematics and the order of units, threads, parts of the block and blocks are those of segments.cuh; x is read
// once and y written once. There all units go through slots in shared memory, groups take turns and every option is at
// hand: some 20 KB of code, which a kernel of ten microseconds waits for, since it comes from memory piece by piece.
// Here a group fits its blocks, every group has blocks of its own, all loads of a thread are under way at once, and
// there is nothing but the formula: no activation, no addend, alpha 1, beta 0.
//
// In place works: a thread alone reads the units that it writes, and before it writes them.
#pragma once

#include "kernels/norm/segments_join.cuh"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/tile/dynamic_shared.cuh"

namespace gpudnn::kernels {

// What a block keeps of a group's sets.
struct HeldShared {
  tile::Moments<float> block[kSegmentSets];
  float mean[kSegmentSets];
  float slope[kSegmentSets];
  float bias[kSegmentSets];
  float running_mean[kSegmentSets];
  float running_variance[kSegmentSets];
};

// The moments of one element of a thread's units: `origin` is the first.
__device__ __forceinline__ tile::Moments<float> held_moments(float count, float origin, float sum, float squares) {
  const float drift = sum * (1.0f / count);
  const float around = squares - drift * sum;
  // Beyond the range of float both may be infinite, and their difference no number.
  return {count, origin + drift, isinf(squares) ? squares : around < 0.0f ? 0.0f : around};
}

template <class T, int kOfWord>
__device__ __forceinline__ void widen_word(std::uint32_t word, float (&values)[kOfWord]) {
  tile::Pack<T, kOfWord> pack;
  static_assert(sizeof pack == sizeof word);
  memcpy(&pack, &word, sizeof pack);
  tile::widen_pack<float>(pack, values);
}
template <class T, int kOfWord>
__device__ __forceinline__ std::uint32_t narrow_word(const float (&values)[kOfWord]) {
  const tile::Pack<T, kOfWord> pack = tile::narrow_pack<T>(values);
  std::uint32_t word;
  memcpy(&word, &pack, sizeof word);
  return word;
}

template <class T>
__global__ void __launch_bounds__(kHeldThreads, 1)
    norm_held(const __grid_constant__ NormArgs<T> args, const __grid_constant__ NormSegments segments) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  constexpr int kWidth = NormPack<T>::kWidth;
  constexpr int kOfWord = kWidth / 4;
  auto& shared = *reinterpret_cast<HeldShared*>(tile::dynamic_shared());
  auto* const scratch = reinterpret_cast<tile::Moments<float>*>(tile::dynamic_shared() + sizeof(HeldShared));
  const int thread = static_cast<int>(threadIdx.x);
  const int parts = args.parts;
  const int part = static_cast<int>(blockIdx.x) % parts;
  const int group = static_cast<int>(blockIdx.x) / parts;
  const bool last = group + 1 == static_cast<int>(segments.groups);

  SegmentPlace place;
  place.first = static_cast<std::uint32_t>(part * segments.active + thread);
  place.stride = static_cast<std::uint32_t>(parts) * static_cast<std::uint32_t>(segments.active);
  place.position = thread % static_cast<int>(segments.units.divisor);
  const bool inside = thread < segments.active && (!last || segments.sets == 1 || place.position < segments.last_units);
  const std::uint32_t total = inside ? segments.lines * segments.units.divisor : 0;
  const std::uint32_t base = static_cast<std::uint32_t>(group) * segments.group_packs;
  const auto offset_of_unit = [&](std::uint32_t unit) {
    std::uint32_t within;
    const std::uint32_t line = segments.units.divmod(unit, &within);
    return line * segments.line_packs + within + base;
  };

  std::uint32_t words[kHeldUnits][4] = {};
#pragma unroll
  for (int i = 0; i < kHeldUnits; ++i) {
    const std::uint32_t unit = place.first + i * place.stride;
    if (unit >= total) continue;
    const uint4 pack = reinterpret_cast<const uint4*>(args.x)[offset_of_unit(unit)];
    memcpy(words[i], &pack, sizeof pack);
  }

  // What the sets' parameters are comes meanwhile, without registers.
  const int sets = last ? segments.last_units * kWidth / static_cast<int>(segments.per_set.divisor) : segments.sets;
  const auto first_set = static_cast<std::int64_t>(group) * segments.sets;
  const bool reads_running = part == 0 && args.running_mean != nullptr && args.factor != 1.0f;
  if (thread < sets) {
    const auto copy = [&](float* to, const float* from, std::int64_t step) {
      ptx::cp_async<4>(static_cast<std::uint32_t>(__cvta_generic_to_shared(to + thread)),
                       from + (first_set + thread) * step, 4);
    };
    copy(shared.slope, args.scale, segments.params_step);
    copy(shared.bias, args.bias, segments.params_step);
    if (reads_running) {
      copy(shared.running_mean, args.running_mean, segments.stats_step);
      copy(shared.running_variance, args.running_variance, segments.stats_step);
    }
  }
  ptx::cp_async_commit_group();

  // Word by word, as few registers are left.
  tile::Moments<float> gathered[kWidth];
  if (place.first < total) {
    const auto count = static_cast<float>((total - place.first + place.stride - 1) / place.stride);
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      float origin[kOfWord], sums[kOfWord] = {}, squares[kOfWord] = {};
      widen_word<T>(words[0][w], origin);
#pragma unroll
      for (int i = 0; i < kHeldUnits; ++i) {
        if (place.first + i * place.stride >= total) break;
        float values[kOfWord];
        widen_word<T>(words[i][w], values);
#pragma unroll
        for (int e = 0; e < kOfWord; ++e) {
          const float distance = values[e] - origin[e];
          sums[e] += distance;
          squares[e] += distance * distance;
        }
      }
#pragma unroll
      for (int e = 0; e < kOfWord; ++e) {
        gathered[w * kOfWord + e] = held_moments(count, origin[e], sums[e], squares[e]);
      }
    }
  }
  join_block(segments, place, gathered, scratch, shared.block);
  if (parts > 1) tile::cluster_sync(parts);
  if (thread < sets) {
    const tile::Moments<float> all = tile::column_over_cluster(shared.block, thread, parts);
    const float variance = all.squares / args.count;
    const float inverse = inverse_deviation(variance, args.epsilon);
    shared.mean[thread] = all.mean;
    ptx::cp_async_wait_group<0>();  // the thread's own copies
    shared.slope[thread] *= inverse;
    if (part == 0) {
      const Statistics<float> statistics{all.mean, variance, inverse};
      keep_statistics(args, (first_set + thread) * segments.stats_step, statistics,
                      reads_running ? shared.running_mean[thread] : 0.0f,
                      reads_running ? shared.running_variance[thread] : 0.0f);
    }
  }
  __syncthreads();

  const SegmentSets<kWidth> set_of(segments, place.position);
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    float mean[kOfWord], slope[kOfWord], offset[kOfWord];
#pragma unroll
    for (int e = 0; e < kOfWord; ++e) {
      const int set = set_of(w * kOfWord + e);
      mean[e] = shared.mean[set];
      slope[e] = shared.slope[set];
      offset[e] = shared.bias[set];
    }
#pragma unroll
    for (int i = 0; i < kHeldUnits; ++i) {
      float values[kOfWord];
      widen_word<T>(words[i][w], values);
#pragma unroll
      for (int e = 0; e < kOfWord; ++e) values[e] = (values[e] - mean[e]) * slope[e] + offset[e];
      words[i][w] = narrow_word<T>(values);
    }
  }
#pragma unroll
  for (int i = 0; i < kHeldUnits; ++i) {
    const std::uint32_t unit = place.first + i * place.stride;
    if (unit >= total) break;
    uint4 pack;
    memcpy(&pack, words[i], sizeof pack);
    reinterpret_cast<uint4*>(args.out)[offset_of_unit(unit)] = pack;
  }
  if (parts > 1) tile::cluster_sync(parts);  // no block may leave while others read its part
#endif
}

}  // namespace gpudnn::kernels
