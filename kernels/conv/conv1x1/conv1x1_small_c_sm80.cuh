// Pointwise convolution of up to 64 channels in NHWC, 16-bit types: mma.sync with operands straight from memory.
//
// Such a layer is bound by its bytes, most of them the output's; a pixel of 24 channels is 48 bytes, which the copy
// engine takes as long for as for 128. Here no pixel passes through shared memory. The order of k in a product is free
// as long as both operands have the same: a lane takes 16 bytes of a pixel, eight k in a row, where the instruction's
// layout has pairs of k that lie apart. Four lanes have 32 channels of a pixel, a load of a warp 8 pixels, which are
// one run of memory. In the same way the filter's rows are dealt to tiles of 8 columns, so that a lane's sums of four
// tiles are 8 channels in a row: it stores 16 bytes, four lanes 64.
//
// Data flow of a warp: 16 pixels at a time, the next ones under way meanwhile; 32 channels of the output at a time. The
// filter lies in shared memory as fragments, 16 bytes to a lane, in the order of reading.
//
// Bytes: input and output once. Products: k is filled up to a multiple of 32, m too.
//
// Limits: one tap, stride 1, no padding, no groups; whole 16-byte vectors of channels on both sides, pixels at even
// distances, and a filter that fits shared memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/conv/conv1x1/conv1x1_small_c_sm80.hpp"
#include "kernels/gemm/epilogue/activation.cuh"
#include "kernels/gemm/epilogue/channel_value.cuh"
#include "kernels/tile/mma.cuh"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels::conv1x1_small_c {

// 16 bytes as words: pairs of k.
struct Words {
  std::uint32_t word[4];
};
__device__ __forceinline__ Words words_of(uint4 bits) { return {{bits.x, bits.y, bits.z, bits.w}}; }

// Eight k of entry number `i` of the filter in shared memory.
template <class T>
__device__ __forceinline__ uint4 filter_entry(const Params& p, std::uint32_t i) {
  const std::uint32_t rest = i / 32 / p.steps;
  const Entry entry = entry_of(rest / 4, rest % 4, i / 32 % p.steps, i % 32);
  if (entry.m >= p.m || entry.first_k >= p.k) return make_uint4(0, 0, 0, 0);
  const T* const row = static_cast<const T*>(p.filter) + entry.m * p.filter_m_step + entry.first_k * p.filter_k_step;
  if (p.filter_vectors) return *reinterpret_cast<const uint4*>(row);
  std::uint32_t words[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    words[j] = tile::word_of(row[2 * j * p.filter_k_step], row[(2 * j + 1) * p.filter_k_step]);
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

// Several entries of a thread are under way at once.
template <class T>
__device__ __forceinline__ void load_filter(const Params& p, uint4* filter, float* bias) {
  const std::uint32_t count = p.groups * 4 * p.steps * 32;
#pragma unroll 1
  for (std::uint32_t first = threadIdx.x; first < count; first += kEntriesTogether * kThreads) {
    uint4 bits[kEntriesTogether];
#pragma unroll
    for (std::uint32_t j = 0; j < kEntriesTogether; ++j) {
      bits[j] = first + j * kThreads < count ? filter_entry<T>(p, first + j * kThreads) : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (std::uint32_t j = 0; j < kEntriesTogether; ++j) {
      if (first + j * kThreads < count) filter[first + j * kThreads] = bits[j];
    }
  }
  for (std::uint32_t m = threadIdx.x; m < p.groups * kGroupChannels; m += kThreads) {
    bias[m] = p.has_bias && m < p.m ? gemm::channel_value<T>(p.bias, m * p.bias_step, p.float_vectors) : 0.0f;
  }
  __syncthreads();
}

// Of the tile's pixels lane / 4 + 8 r, the lane's 16 bytes of each step. Zeros stand for what does not exist.
template <int kSteps>
__device__ __forceinline__ void load_pixels(const Params& p, std::uint32_t tile, Words (&pixel)[2][kSteps]) {
  const std::uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (std::uint32_t r = 0; r < 2; ++r) {
    const std::uint32_t number = tile * kTilePixels + r * 8 + lane / 4;
    const char* const from = static_cast<const char*>(p.input) + number * p.in_step + lane % 4 * 16;
#pragma unroll
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      const bool exists = number < p.pixels && step * kStepChannels + lane % 4 * 8 < p.k;
      pixel[r][step] = words_of(exists ? __ldg(reinterpret_cast<const uint4*>(from + step * kStepChannels * 2))
                                       : make_uint4(0, 0, 0, 0));
    }
  }
}

// All 16 pixels and the 32 channels of a group: the sums of its four tiles.
template <class T, int kSteps>
__device__ __forceinline__ void multiply_group(const uint4* filter, const Words (&pixel)[2][kSteps],
                                               float (&sum)[4][4]) {
#pragma unroll
  for (int t = 0; t < 4; ++t) {
#pragma unroll
    for (float& each : sum[t]) each = 0;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const Words b = words_of(filter[(t * kSteps + step) * 32]);
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        const std::uint32_t a[4] = {pixel[0][step].word[2 * part], pixel[1][step].word[2 * part],
                                    pixel[0][step].word[2 * part + 1], pixel[1][step].word[2 * part + 1]};
        tile::mma_m16n8k16<T>(sum[t], a, b.word[2 * part], b.word[2 * part + 1]);
      }
    }
  }
}

// alpha * sum + addend_scale * addend + bias, and the activation, of 8 channels of a pixel.
template <class T>
__device__ __forceinline__ void combine(const Params& p, const tile::Pack<T, 8>& addend, const float* bias,
                                        float (&v)[8]) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    v[i] *= p.alpha;
    if (p.addend_scale != 0.0f) v[i] += p.addend_scale * tile::widen<float>(addend.get(i));
    v[i] += bias[i];
  }
  gemm::activate<2>(p.activation, true, v);
}

template <class T, bool kPlain>
__device__ __forceinline__ void store_group(const Params& p, std::uint32_t tile, std::uint32_t group, const float* bias,
                                            const float (&sum)[4][4]) {
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t first = group * kGroupChannels + lane % 4 * 8;
  if (first >= p.m) return;
  tile::Pack<T, 8> addend[2];
#pragma unroll
  for (std::uint32_t r = 0; r < 2 && !kPlain; ++r) {
    const std::uint32_t number = tile * kTilePixels + r * 8 + lane / 4;
    addend[r].fill(tile::narrow<T>(0.0f));
    if (p.addend_scale != 0.0f && number < p.pixels) {
      const char* const from = static_cast<const char*>(p.addend) + number * p.addend_step;
      addend[r] = tile::load_pack<T, 8>(reinterpret_cast<const T*>(from) + first);
    }
  }
#pragma unroll
  for (std::uint32_t r = 0; r < 2; ++r) {
    const std::uint32_t number = tile * kTilePixels + r * 8 + lane / 4;
    float v[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = sum[i / 2][r * 2 + i % 2];
    if constexpr (!kPlain) combine<T>(p, addend[r], bias + first, v);
    if (number < p.pixels) {
      char* const to = static_cast<char*>(p.out) + number * p.out_step;
      tile::store_pack<T, 8>(reinterpret_cast<T*>(to) + first, tile::narrow_pack<T>(v));
    }
  }
}

// The first pixels are on their way before the filter is.
template <class T, int kSteps, bool kPlain>
__device__ __forceinline__ void walk(const Params& p, uint4* filter, float* bias) {
  const std::uint32_t stride = gridDim.x * kWarps;
  std::uint32_t tile = blockIdx.x * kWarps + threadIdx.x / 32;
  Words next[2][kSteps];
  load_pixels<kSteps>(p, tile, next);
  load_filter<T>(p, filter, bias);
  for (; tile < p.tiles; tile += stride) {
    Words pixel[2][kSteps];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) pixel[r][step] = next[r][step];
    }
    load_pixels<kSteps>(p, tile + stride, next);
#pragma unroll 1
    for (std::uint32_t group = 0; group < p.groups; ++group) {
      float sum[4][4];
      multiply_group<T, kSteps>(filter + group * kSteps * kEntriesPerStep + threadIdx.x % 32, pixel, sum);
      store_group<T, kPlain>(p, tile, group, bias, sum);
    }
  }
}

template <class T, int kSteps>
__global__ void __launch_bounds__(kThreads, blocks_per_multiprocessor(kSteps))
    conv1x1_small_c_sm80(const __grid_constant__ Params p) {
  extern __shared__ uint4 filter[];
  auto* const bias = reinterpret_cast<float*>(filter + p.groups * kSteps * kEntriesPerStep);
  if (p.is_plain) {
    walk<T, kSteps, true>(p, filter, bias);
  } else {
    walk<T, kSteps, false>(p, filter, bias);
  }
}

template <class T, int kSteps>
void launch_instance(const Params& params, std::uint32_t blocks, CUstream_st* stream) {
  cuda::allow_shared_memory<&conv1x1_small_c_sm80<T, kSteps>>(cuda::kAllThatABlockMayHave);
  cuda::launch_kernel(&conv1x1_small_c_sm80<T, kSteps>, {blocks, kThreads, params.shared_bytes}, stream, params);
}

}  // namespace gpudnn::kernels::conv1x1_small_c
