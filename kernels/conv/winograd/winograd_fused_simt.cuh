// Winograd F(2x2, 3x3) in one kernel, forward and data gradient: no workspace. The mathematics is in winograd_simt.hpp.
//
// Data flow of a block, which computes 64 channels of 32 tiles of the result, with 4 channels of the sum at a time:
//   patches (4 x 4) of 32 tiles and filters (3 x 3) of 64 channels: global -> registers, one of each a thread, while
//            the channels before are multiplied -> transformed in registers -> shared[point][channel][tile or filter]
//   the 16 points' products: shared -> registers -> multiply-adds into 16 x 4 x 2 sums: a thread has all points of 4
//            channels of 2 tiles, so that
//   the result's transform and the epilogue work in its registers -> global.
// A step is 128 multiply-adds a thread for 32 loads from shared memory, which a warp's lanes share: both take as long.
//
// Limits: those of winograd_simt.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/winograd/winograd_simt.cuh"

namespace gpudnn::kernels::winograd {

struct FusedShape {
  static constexpr int kM = 2;
  static constexpr int kSide = 4;  // of a patch
  static constexpr int kPoints = kSide * kSide;
  static constexpr int kThreads = 256;
  static constexpr int kChannels = kFusedChannels;
  static constexpr int kTiles = kFusedTiles;
  static constexpr int kStep = 4;        // channels of the sum
  static constexpr int kOfChannels = 4;  // of a thread
  static constexpr int kOfTiles = 2;
  static_assert(kChannels * kTiles == kThreads * kOfChannels * kOfTiles, "the threads cover the tile");
  static_assert(kChannels * kStep == kThreads && kTiles * kStep <= kThreads, "a filter a thread, and a patch at most");
};

struct FusedShared {
  float filters[FusedShape::kPoints][FusedShape::kStep][FusedShape::kChannels];
  float patches[FusedShape::kPoints][FusedShape::kStep][FusedShape::kTiles];
};

// What a thread loads for a step.
struct FusedLoads {
  float patch[FusedShape::kSide][FusedShape::kSide];
  float filter[kFilter][kFilter];
};

// Where a thread's patch and filter are.
struct FusedSources {
  const float* patch = nullptr;
  const float* filter = nullptr;
  std::int64_t patch_step = 0, filter_step = 0;
  int patch_channel = 0, filter_channel = 0;
  int h0 = 0, w0 = 0;
  bool has_patch = false, has_filter = false;
};

__device__ __forceinline__ FusedSources fused_sources(const FusedParams& p) {
  using S = FusedShape;
  FusedSources s;
  const int thread = static_cast<int>(threadIdx.x);
  const int group = static_cast<int>(blockIdx.z);
  s.patch_channel = thread / S::kTiles;
  if (s.patch_channel < S::kStep) {
    const int tile = static_cast<int>(blockIdx.x) * S::kTiles + thread % S::kTiles;
    const Place at(p.data.tiles, tile, group * p.filter.inner_count);
    s.has_patch = at.inside;
    s.h0 = p.data.origin_h + static_cast<int>(at.row) * S::kM;
    s.w0 = p.data.origin_w + static_cast<int>(at.column) * S::kM;
    s.patch = p.data.in + at.image * p.data.image.n +
              (static_cast<std::int64_t>(group) * p.filter.inner_count + s.patch_channel) * p.data.image.c +
              s.h0 * p.data.image.h + s.w0 * p.data.image.w;
    s.patch_step = S::kStep * p.data.image.c;
  }
  const int outer = static_cast<int>(blockIdx.y) * S::kChannels + thread / S::kStep;
  s.filter_channel = thread % S::kStep;
  s.has_filter = outer < p.filter.outer_count;
  s.filter = p.filter.in + group * p.filter.group + outer * p.filter.outer + s.filter_channel * p.filter.inner;
  s.filter_step = S::kStep * p.filter.inner;
  return s;
}

__device__ __forceinline__ void load_fused(const FusedParams& p, FusedSources* s, int channels_left,
                                           FusedLoads* loads) {
  const bool patch = s->has_patch && s->patch_channel < channels_left;
#pragma unroll
  for (int i = 0; i < FusedShape::kSide; ++i) {
    const bool row = patch && static_cast<unsigned>(s->h0 + i) < static_cast<unsigned>(p.data.image.height);
#pragma unroll
    for (int j = 0; j < FusedShape::kSide; ++j) {
      const bool inside = row && static_cast<unsigned>(s->w0 + j) < static_cast<unsigned>(p.data.image.width);
      loads->patch[i][j] = inside ? __ldg(s->patch + i * p.data.image.h + j * p.data.image.w) : 0.0f;
    }
  }
  const bool filter = s->has_filter && s->filter_channel < channels_left;
#pragma unroll
  for (int r = 0; r < kFilter; ++r) {
#pragma unroll
    for (int c = 0; c < kFilter; ++c) {
      loads->filter[r][c] = filter ? __ldg(s->filter + r * p.filter.r + c * p.filter.s) : 0.0f;
    }
  }
  s->patch += s->patch_step;
  s->filter += s->filter_step;
}

__device__ __forceinline__ void store_fused(const FusedLoads& loads, FusedShared* shared) {
  using S = FusedShape;
  const int thread = static_cast<int>(threadIdx.x);
  float filter[S::kSide][S::kSide];
  apply_on_both_sides<FilterMatrix<S::kSide, kFilter>>(loads.filter, filter);
#pragma unroll
  for (int t = 0; t < S::kPoints; ++t) {
    shared->filters[t][thread % S::kStep][thread / S::kStep] = filter[t / S::kSide][t % S::kSide];
  }
  if (thread >= S::kTiles * S::kStep) return;
  float patch[S::kSide][S::kSide];
  apply_on_both_sides<InputMatrix<S::kM>>(loads.patch, patch);
#pragma unroll
  for (int t = 0; t < S::kPoints; ++t) {
    shared->patches[t][thread / S::kTiles][thread % S::kTiles] = patch[t / S::kSide][t % S::kSide];
  }
}

using FusedSums = float[FusedShape::kPoints][FusedShape::kOfChannels][FusedShape::kOfTiles];

__device__ __forceinline__ void multiply_fused(const FusedShared& shared, int channel, int tile, FusedSums& sums) {
  using S = FusedShape;
#pragma unroll
  for (int c = 0; c < S::kStep; ++c) {
#pragma unroll
    for (int t = 0; t < S::kPoints; ++t) {
      const float4 a = *reinterpret_cast<const float4*>(&shared.filters[t][c][channel]);
      const float2 b = *reinterpret_cast<const float2*>(&shared.patches[t][c][tile]);
      const float filters[S::kOfChannels] = {a.x, a.y, a.z, a.w};
      const float patches[S::kOfTiles] = {b.x, b.y};
#pragma unroll
      for (int i = 0; i < S::kOfChannels; ++i) {
#pragma unroll
        for (int j = 0; j < S::kOfTiles; ++j) sums[t][i][j] += filters[i] * patches[j];
      }
    }
  }
}

__global__ void __launch_bounds__(FusedShape::kThreads) winograd_fused_simt(const __grid_constant__ FusedParams p) {
  using S = FusedShape;
  __shared__ alignas(16) FusedShared shared[2];
  FusedSources sources = fused_sources(p);
  FusedLoads loads;
  int left = p.filter.inner_count;
  load_fused(p, &sources, left, &loads);
  store_fused(loads, &shared[0]);
  __syncthreads();

  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int tile = (lane % 8 + warp % 2 * 8) * S::kOfTiles;
  const int channel = (lane / 8 + warp / 2 * 4) * S::kOfChannels;
  FusedSums sums = {};
  int current = 0;
  while (true) {
    left -= S::kStep;
    const bool more = left > 0;
    if (more) load_fused(p, &sources, left, &loads);
    multiply_fused(shared[current], channel, tile, sums);
    if (!more) break;
    current ^= 1;
    store_fused(loads, &shared[current]);
    __syncthreads();
  }

  const OutputParams& o = p.output;
#pragma unroll
  for (int j = 0; j < S::kOfTiles; ++j) {
#pragma unroll
    for (int i = 0; i < S::kOfChannels; ++i) {
      const int outer = static_cast<int>(blockIdx.y) * S::kChannels + channel + i;
      const int all = static_cast<int>(blockIdx.z) * p.filter.outer_count + outer;
      const Place at(o.tiles, static_cast<int>(blockIdx.x) * S::kTiles + tile + j, all);
      if (!at.inside || outer >= p.filter.outer_count) continue;
      float products[S::kSide][S::kSide];
#pragma unroll
      for (int t = 0; t < S::kPoints; ++t) products[t / S::kSide][t % S::kSide] = sums[t][i][j];
      store_tile<S::kSide, S::kM>(o, at, products);
    }
  }
}

}  // namespace gpudnn::kernels::winograd
