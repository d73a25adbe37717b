// Reductions by channel: what threads gathered of a channel, joined over warp, block and cluster in a fixed order.
//
// A gathered value is a plain struct with `merge(other)`, which makes the value of both parts together, and
// `shuffled(step)`, the value of the lane that many lanes away. Three exist: Total (a sum), Totals (two sums) and
// Moments (count, mean, sum of squared deviations).
//
//   rows      a block works on one channel: every thread brings one value
//   columns   a block works on lanes * kWidth channels: a thread brings kWidth neighbouring ones; `lanes` (a power of
//             two up to 32) threads lie side by side, the others above them hold further rows of the same channels
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstring>
#include <type_traits>

#include "kernels/tile/cluster.cuh"

namespace gpudnn::tile {

template <class C>
struct Total {
  C sum = C(0);
  __device__ __forceinline__ void merge(const Total& other) { sum += other.sum; }
  __device__ __forceinline__ Total shuffled(int step) const { return {__shfl_xor_sync(0xffffffffu, sum, step)}; }
};

template <class C>
struct Totals {
  C first = C(0);
  C second = C(0);
  __device__ __forceinline__ void merge(const Totals& other) {
    first += other.first;
    second += other.second;
  }
  __device__ __forceinline__ Totals shuffled(int step) const {
    return {__shfl_xor_sync(0xffffffffu, first, step), __shfl_xor_sync(0xffffffffu, second, step)};
  }
};

// A quotient of counts, within 2 units in the last place for float: a weight, whose rounding moves a mean by that part
// of the distance between two means.
__device__ __forceinline__ float share_of(float part, float all) { return __fdividef(part, all); }
__device__ __forceinline__ double share_of(double part, double all) { return part / all; }

// The moments of two parts give those of the whole by Chan, Golub and LeVeque 1983: no difference of large squares is
// ever taken, so a mean far above the deviation costs no digits of the variance.
template <class C>
struct Moments {
  C count = C(0);
  C mean = C(0);
  C squares = C(0);  // sum of (x - mean)^2

  // Without branches, as the code of the many merges of a reduction tree is what a cold kernel waits for.
  __device__ __forceinline__ void merge(const Moments& other) {
    const C share = count == C(0) ? C(1) : share_of(other.count, count + other.count);
    const C distance = other.mean - mean;
    const C weight = count * share;
    squares += other.squares + (weight > C(0) ? distance * distance * weight : C(0));
    mean += distance * share;
    count += other.count;
  }
  __device__ __forceinline__ Moments shuffled(int step) const {
    return {__shfl_xor_sync(0xffffffffu, count, step), __shfl_xor_sync(0xffffffffu, mean, step),
            __shfl_xor_sync(0xffffffffu, squares, step)};
  }
};

// Moments gathered from many small batches. A late batch moves the mean by a small share of a small distance, less than
// the mean's last place, and thousands of those would be lost in the same direction: what rounding takes from the mean
// is carried on to the next batch (Kahan 1965).
template <class C>
struct GatheredMoments {
  Moments<C> sum;
  C carry = C(0);

  __device__ __forceinline__ void merge(const Moments<C>& batch) {
    if (batch.count == C(0)) return;
    if (sum.count == C(0)) {
      sum = batch;
      return;
    }
    const C all = sum.count + batch.count;
    const C share = share_of(batch.count, all);
    const C distance = batch.mean - sum.mean + carry;
    sum.squares += batch.squares + distance * distance * (sum.count * share);
    const C step = distance * share - carry;
    const C moved = sum.mean + step;
    carry = (moved - sum.mean) - step;
    sum.mean = moved;
    sum.count = all;
  }
};

// *total becomes the value of the whole block, visible to all threads. `scratch` has room for blockDim.x / 32 values.
template <class V>
__device__ __forceinline__ void rows_reduce(V value, V* scratch, V* total) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
#pragma unroll 1
  for (int step = 16; step > 0; step /= 2) value.merge(value.shuffled(step));
  if (lane == 0) scratch[warp] = value;
  __syncthreads();
  if (warp == 0) {
    V sum{};
    if (lane < warps) sum = scratch[lane];
#pragma unroll 1
    for (int step = 16; step > 0; step /= 2) sum.merge(sum.shuffled(step));
    if (lane == 0) *total = sum;
  }
  __syncthreads();
}

// Lane 0's value in every lane.
template <class V>
__device__ __forceinline__ V from_first_lane(V value) {
  static_assert(sizeof(V) % sizeof(unsigned) == 0 && std::is_trivially_copyable_v<V>, "shuffles move words");
  unsigned words[sizeof(V) / sizeof(unsigned)];
  memcpy(words, &value, sizeof(V));
#pragma unroll
  for (unsigned& word : words) word = __shfl_sync(0xffffffffu, word, 0);
  memcpy(&value, words, sizeof(V));
  return value;
}

// The value over the blocks of the cluster, given that each has its own in `total`. The same bits in every thread. The
// blocks must meet once more (cluster_sync) before any of them leaves. Each warp fetches all values at once, a lane for
// each block: one after the other they would take as many trips to another multiprocessor.
template <class V>
__device__ __forceinline__ V rows_over_cluster(V* total, int blocks) {
  if (blocks == 1) return *total;
  cluster_sync(blocks);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  V sum{};
  if (lane < blocks) sum = *cluster_shared(total, lane, blocks);
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum.merge(sum.shuffled(step));
  return from_first_lane(sum);
}

// totals[lane * kWidth + i] becomes the value of the block's channel; all threads may read it afterwards. `scratch` has
// room for blockDim.x / 32 * lanes * kWidth values.
template <int kWidth, class V>
__device__ __forceinline__ void columns_reduce(V (&values)[kWidth], int lanes, V* scratch, V* totals) {
#pragma unroll 1
  for (int step = lanes; step < 32; step *= 2) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values[i].merge(values[i].shuffled(step));
  }
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int channels = lanes * kWidth;
  if (lane < lanes) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) scratch[warp * channels + lane * kWidth + i] = values[i];
  }
  __syncthreads();
  for (int channel = static_cast<int>(threadIdx.x); channel < channels; channel += static_cast<int>(blockDim.x)) {
    V sum = scratch[channel];
#pragma unroll 1
    for (int w = 1; w < warps; ++w) sum.merge(scratch[w * channels + channel]);
    totals[channel] = sum;
  }
  __syncthreads();
}

// One channel over the blocks of the cluster. Before the first call the blocks must have met (cluster_sync), and so
// they must once more before any of them leaves or writes its `totals` again.
template <class V>
__device__ __forceinline__ V column_over_cluster(V* totals, int channel, int blocks) {
  constexpr int kAtOnce = 4;  // trips to other multiprocessors under way
  V sum{};
#pragma unroll 1
  for (int first = 0; first < blocks; first += kAtOnce) {
    V parts[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i < blocks) parts[i] = *cluster_shared(totals + channel, first + i, blocks);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i < blocks) sum.merge(parts[i]);
    }
  }
  return sum;
}

}  // namespace gpudnn::tile
