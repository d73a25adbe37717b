// The gradient of the sampled image with many channels, each of them by itself in memory (NCHW): step (4) of
// image_gradient.cuh in another form.
// SPDX-License-Identifier: Apache-2.0
//
// dy comes to shared memory as in the form for few channels, but 32 channels side by side for each point, and four
// lanes take a pixel, eight channels each. So a point's weight serves eight channels, lanes read 16 bytes at a time
// that lie next to each other, and a warp waits for the fullest of eight pixels instead of 32. A list of up to 1024
// points is staged in portions of 512; sums stay in registers until all lists are through.
#pragma once

#include "kernels/spatial_transformer/image_gradient.cuh"

namespace gpudnn::kernels {

constexpr int kWideChannels = 32;
constexpr int kWideStride = kWideChannels + 4;  // from point to point: lanes of neighbouring points meet in no bank

// Channels of the points at places from `from` on, as many as there is room for: a warp takes four of the channels.
template <class T, class Shared>
__device__ __forceinline__ void stage_wide(const ImageGradientArgs<T>& args, Shared& shared, const T* dy,
                                           std::uint32_t channels, int from) {
  const std::uint32_t first = 4 * static_cast<std::uint32_t>(warp_of_block());
  if (first >= channels) return;
  const std::int64_t stride = args.sampler.sample_strides[1];
  dy += first * stride;
  constexpr int kAtOnce = 4;  // points whose loads are in flight
  const int kept = shared.kept;
  for (int begin = lane_of_warp(); begin < kept; begin += kAtOnce * 32) {
    float values[kAtOnce][4];
    int at[kAtOnce];
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      const int e = begin + u * 32;
      at[u] = e < kept ? static_cast<int>(shared.place[e]) - from : -1;
      if (at[u] < 0 || at[u] >= Shared::kStagedPoints) continue;
      const T* const place = dy + point_offset(args, shared.found[e]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        values[u][i] = first + i < channels ? tile::widen<float>(place[i * stride]) : 0.0f;
      }
    }
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      if (at[u] < 0 || at[u] >= Shared::kStagedPoints) continue;
      *reinterpret_cast<float4*>(shared.staged + at[u] * kWideStride + first) =
          make_float4(values[u][0], values[u][1], values[u][2], values[u][3]);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kSamplerThreads, 2)
    sampler_image_gradient_wide(const __grid_constant__ ImageGradientArgs<T> args) {
  using Shared = ImageGradientShared<float, kWideStride>;
  static_assert(kWarps * 4 == kWideChannels);
  constexpr int kPasses = 4;
  auto& shared = *reinterpret_cast<Shared*>(tile::dynamic_shared());
  const SamplerArgs<T>& sampler = args.sampler;
  const GradientTask task = begin_task(args, shared);
  const int lane = lane_of_warp() % 4;  // of a pixel: takes channels 4 lane and 16 + 4 lane and the three after each
  const auto pixel_of_pass = [](int pass) { return warp_of_block() * 32 + pass * 8 + lane_of_warp() / 4; };
  bool complete = false;  // one list holds all of the tile's points, and it is at hand
  for (std::uint32_t c = task.first_channel; c < task.end_channel; c += kWideChannels) {  // the same for all threads
    float sums[kPasses][8] = {};
    const std::uint32_t channels = task.end_channel - c;
    const T* const dy =
        sampler.dy + std::int64_t{task.search.image} * sampler.sample_strides[0] + c * sampler.sample_strides[1];
    PatchWalk walk;
    bool more = task.search.patches > 0;
    while (more) {
      more = false;
      if (!complete) {
        const bool from_start = walk.tested == 0;
        collect(args, shared, task.search, &walk);
        more = !walk.is_at_end(task.search.patches);
        complete = from_start && !more;
        if (shared.kept > 0) sort_by_cell(shared);
      }
      for (int from = 0; from < shared.kept; from += Shared::kStagedPoints) {
        __syncthreads();  // what was staged before has been gathered
        stage_wide(args, shared, dy, channels, from);
        __syncthreads();
#pragma unroll
        for (int pass = 0; pass < kPasses; ++pass) {
          const int pixel = pixel_of_pass(pass);
          PixelPoints points(shared, pixel / Shared::kTileWidth, pixel % Shared::kTileWidth);
          points.keep(from, from + Shared::kStagedPoints);
#pragma unroll 2
          for (int k = 0; k < points.count; ++k) {
            float weight;
            const int at = points.get(shared, k, &weight);
            const auto* const staged = reinterpret_cast<const float4*>(shared.staged + (at - from) * kWideStride);
            const float4 low = staged[lane];
            const float4 high = staged[lane + 4];
            sums[pass][0] += weight * low.x;
            sums[pass][1] += weight * low.y;
            sums[pass][2] += weight * low.z;
            sums[pass][3] += weight * low.w;
            sums[pass][4] += weight * high.x;
            sums[pass][5] += weight * high.y;
            sums[pass][6] += weight * high.z;
            sums[pass][7] += weight * high.w;
          }
        }
      }
    }
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
      const GradientPixel<T, Shared> pixel(sampler, task.search, pixel_of_pass(pass));
      if (!pixel.exists) continue;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const auto channel = static_cast<std::uint32_t>(4 * lane + (j < 4 ? j : 12 + j));
        if (channel >= channels) continue;
        const float part[1] = {sums[pass][j]};
        write_gradient<T, 1>(sampler, pixel.to + (c + channel) * sampler.image_strides[1], part);
      }
    }
  }
}

}  // namespace gpudnn::kernels
