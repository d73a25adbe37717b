// The gradient of the sampled image with few channels, each of them by itself in memory: image_gradient.cuh tells the
// steps, tile_queue.cuh in what order tiles are taken.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/spatial_transformer/image_gradient.cuh"
#include "kernels/spatial_transformer/tile_queue.cuh"

namespace gpudnn::kernels {

constexpr int kFewBlocks = 4;                // of a multiprocessor, few channels: they wait more than they compute
constexpr std::uint32_t kLightPatches = 16;  // with which a tile may keep the next one waiting

// Adds up points first, first + step, ... of a pixel: the channels that were staged with them.
template <class Shared, class C>
__device__ __forceinline__ void add_staged(const Shared& shared, const PixelPoints& points, int first, int step,
                                           C (&sums)[kFewStaged]) {
#pragma unroll 4
  for (int k = first; k < points.count; k += step) {
    C weight;
    const C* const staged = shared.staged + points.get(shared, k, &weight);
#pragma unroll
    for (int i = 0; i < kFewStaged; ++i) sums[i] += weight * staged[i * Shared::kPoints];
  }
}

// (4) from what was staged: each thread its own pixel, or, in a warp that has a pixel of many points,
// eight lanes one pixel after the other, each an eighth of its points.
template <class Shared, class C>
__device__ __forceinline__ void gather_staged(const Shared& shared, C (&sums)[kFewStaged]) {
  constexpr int kFewPoints = 24;
  const PixelPoints points(shared, static_cast<int>(threadIdx.x) / Shared::kTileWidth,
                           static_cast<int>(threadIdx.x) % Shared::kTileWidth);
  if (most_of_warp(points.count) <= kFewPoints) {
    add_staged(shared, points, 0, 1, sums);
    return;
  }
  constexpr int kLanes = 8;
  constexpr int kAtOnce = 32 / kLanes;
  const int lane = lane_of_warp();
#pragma unroll 1
  for (int pass = 0; pass < kLanes; ++pass) {
    const int pixel = warp_of_block() * 32 + pass * kAtOnce + lane / kLanes;
    C part[kFewStaged] = {};
    add_staged(shared, PixelPoints(shared, pixel / Shared::kTileWidth, pixel % Shared::kTileWidth), lane % kLanes,
               kLanes, part);
#pragma unroll
    for (int i = 0; i < kFewStaged; ++i) {
#pragma unroll
      for (int step = kLanes / 2; step > 0; step /= 2) part[i] += __shfl_xor_sync(0xffffffffu, part[i], step);
      const C whole = __shfl_sync(0xffffffffu, part[i], lane % kAtOnce * kLanes);
      if (lane / kAtOnce == pass) sums[i] += whole;
    }
  }
}

template <class T>
inline constexpr bool kTakesQueues = sizeof(T) < 8;
template <class T>
__device__ __forceinline__ bool has_queues(const ImageGradientArgs<T>& args) {
  return kTakesQueues<T> && args.space.queues != nullptr;
}

// Leaves the sums of a part of a tile for the block that is done last, which gets those of all parts.
template <class T, class Shared>
__device__ __forceinline__ bool all_parts_joined(const ImageGradientArgs<T>& args, Shared& shared,
                                                 float (&sums)[kFewStaged]) {
  const TilePart mine(shared.queued.w);
  const std::size_t step = kSamplerThreads * kFewStaged;
  float* const of_tile = args.space.part_sums + mine.first * step + threadIdx.x;
  float* const own = of_tile + mine.part * step;
#pragma unroll
  for (int i = 0; i < kFewStaged; ++i) own[i * kSamplerThreads] = sums[i];
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) shared.kept = static_cast<int>(atomicAdd(&args.space.arrived[mine.first], 1u));
  __syncthreads();
  if (shared.kept != static_cast<int>(mine.parts) - 1) return false;
  __threadfence();
#pragma unroll
  for (int i = 0; i < kFewStaged; ++i) sums[i] = 0.0f;
#pragma unroll 1
  for (std::uint32_t part = 0; part < mine.parts; ++part) {
#pragma unroll
    for (int i = 0; i < kFewStaged; ++i) sums[i] += __ldcg(of_tile + part * step + i * kSamplerThreads);
  }
  return true;
}

// All of a tile's pixels.
template <class T, class Shared>
__device__ __forceinline__ void gradient_of_tile(const ImageGradientArgs<T>& args, Shared& shared,
                                                 const GradientTask& own) {
  using C = tile::Compute<T>;
  const SamplerArgs<T>& sampler = args.sampler;
  if (threadIdx.x == 0) shared.task = own;  // kept there, as registers are few
  __syncthreads();
  const GradientTask& task = shared.task;
  const TileSearch& search = task.search;
  bool complete = false;  // one list holds all of the tile's points, and it is at hand
  for (std::uint32_t c = task.first_channel; c < task.end_channel;
       c += kFewStaged) {  // all conditions are the same for the whole block
    C sums[kFewStaged] = {};
    const std::uint32_t channels = task.end_channel - c;
    const T* const dy =
        sampler.dy + std::int64_t{search.image} * sampler.sample_strides[0] + c * sampler.sample_strides[1];
    PatchWalk walk;
    if (has_queues(args) && shared.queued.z != kNotListed) walk.listed = shared.queued.z;
    bool more = search.patches > 0 || walk.listed > 0;  // many tiles have none
    while (more) {
      const bool fresh = !complete;
      more = false;
      if (fresh) {
        const bool from_start = walk.tested == 0 && walk.taken == 0;
        collect(args, shared, search, &walk);
        more = !walk.is_at_end(search.patches);
        complete = from_start && !more;
      } else {
        __syncthreads();  // the channels staged before have been gathered
      }
      if (shared.kept == 0) continue;
      const int thread = static_cast<int>(threadIdx.x);
      {
        StagedValues<T, 1> values;
        values.load(args, shared, dy, channels, thread);  // they come while the points are sorted
        if (fresh) sort_by_cell(shared);
        values.store(shared, channels, thread);
      }
      for (int first = thread + kSamplerThreads; first < shared.kept; first += 2 * kSamplerThreads) {
        StagedValues<T, 2> values;
        values.load(args, shared, dy, channels, first);
        values.store(shared, channels, first);
      }
      __syncthreads();
      gather_staged(shared, sums);
    }
    if constexpr (kTakesQueues<T>) {
      if (has_queues(args) && shared.queued.w != 0 && !all_parts_joined(args, shared, sums)) return;
    }
    if (const GradientPixel<T, Shared> pixel(sampler, search, static_cast<int>(threadIdx.x)); pixel.exists) {
      T* const to = pixel.to + c * sampler.image_strides[1];
#pragma unroll
      for (int i = 0; i < kFewStaged; ++i) {
        if (static_cast<std::uint32_t>(i) < channels) {
          const C part[1] = {sums[i]};
          write_gradient<T, 1>(sampler, to + i * sampler.image_strides[1], part);
        }
      }
    }
  }
}

// Few channels, each by itself in memory. A block takes its own tile, or tiles from the queues until they are empty.
template <class T>
__global__ void __launch_bounds__(kSamplerThreads, sizeof(tile::Compute<T>) == 8 ? 2 : kFewBlocks)
    sampler_image_gradient(const __grid_constant__ ImageGradientArgs<T> args) {
  using Shared = ImageGradientShared<tile::Compute<T>, kFewStaged>;
  __shared__ Shared shared;
  const bool is_first = threadIdx.x == 0;
  ptx::griddepcontrol_wait();
  if (has_queues(args) && is_first) shared.queued = queued_tile(args.space, blockIdx.x);
  while (true) {  // the same for the whole block
    std::uint32_t image = blockIdx.x / args.blocks;
    std::uint32_t rest = blockIdx.x - image * args.blocks;
    bool is_listed = false;
    std::uint32_t ticket = 0;
    if (has_queues(args)) {
      __syncthreads();
      const uint4 queued = shared.queued;
      if (queued.x == kNotListed) return;
      image = args.tiles.divmod(queued.x, &rest);
      is_listed = queued.z != kNotListed;
      if (is_listed && threadIdx.x < queued.z) {
        shared.listed[threadIdx.x] = args.space.listed[queued.y + threadIdx.x];
      }
      // It is there when the tile is done.
      if (queued.z <= kLightPatches && is_first) ticket = atomicAdd(&args.space.queues->taken, 1u);
    }
    std::uint32_t tile_number;
    const std::uint32_t chunk = args.tiles.divmod(rest, &tile_number);
    gradient_of_tile(args, shared, begin_tile(args, shared, image, chunk, tile_number, is_listed));
    if (!has_queues(args)) return;
    __syncthreads();  // all threads are done with the list
    if (is_first) {
      if (shared.queued.z > kLightPatches) ticket = atomicAdd(&args.space.queues->taken, 1u);
      shared.queued = queued_tile(args.space, gridDim.x + ticket);
    }
  }
}

}  // namespace gpudnn::kernels
