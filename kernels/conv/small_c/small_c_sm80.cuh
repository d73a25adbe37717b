// Convolution of images with few channels on tensor cores: what the kernels of the three directions share.
//
// A row of a filter sees a contiguous run of (pixel, channel) in a row of an NHWC image: with 3 channels and 7 taps, 21
// elements in one piece. So the reduction goes over the words (4 bytes: two halves or a float) of such runs, and no
// channel is padded. A block loads the patch of x that its tile of pixels needs into shared memory once, as it lies in
// memory, zeros where the image ends, and each lane picks its words of the matrix instructions' operands from there.
//
// One step of the reduction is 8 words: 16 halves or 8 floats, for which the operands' words are spread over the lanes
// in the same way. With g = lane / 4 and t = lane % 4:
//   a   (row g, word t), (row g + 8, word t), (row g, word t + 4), (row g + 8, word t + 4)
//   b   (word t, column g), (word t + 4, column g)
//
// The instruction cuts floats to TF32.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "kernels/conv/small_c/small_c_sm80.hpp"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/mma_sync.cuh"
#include "kernels/tile/numeric.cuh"
#include "kernels/tile/shared_memory.hpp"

namespace gpudnn::kernels::small_c {

template <class T>
inline constexpr ElementType kTypeOf = std::is_same_v<T, float>        ? ElementType::f32
                                       : std::is_same_v<T, tile::Half> ? ElementType::f16
                                                                       : ElementType::bf16;
template <class T>
inline constexpr int kVector = 16 / static_cast<int>(sizeof(T));

template <class T>
__device__ __forceinline__ void mma(float (&sums)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  if constexpr (std::is_same_v<T, tile::Half>) {
    ptx::mma_m16n8k16_f16(sums, a, b0, b1);
  } else if constexpr (std::is_same_v<T, tile::BFloat16>) {
    ptx::mma_m16n8k16_bf16(sums, a, b0, b1);
  } else {
    ptx::mma_m16n8k8_tf32(sums, a, b0, b1);
  }
}

__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

template <class T>
__device__ __forceinline__ T load_element(const void* tensor, std::int64_t at) {
  return static_cast<const T*>(tensor)[at];
}
template <class T>
__device__ __forceinline__ T zero() {
  return tile::narrow<T>(0.0f);
}

// A word of filter elements: element(i) for i below the elements of a word.
template <class T, class F>
__device__ __forceinline__ std::uint32_t filter_word(F&& element) {
  if constexpr (std::is_same_v<T, float>) {
    return __float_as_uint(element(0));
  } else {
    const T low = element(0);
    const T high = element(1);
    return tile::word_of<T>(low, high);
  }
}

// A tile of positions: image, row and column.
struct Place {
  int n, row, column;
};
__device__ __forceinline__ Place place_of(const Params& p, std::uint32_t tile) {
  std::uint32_t x = 0;
  std::uint32_t y = 0;
  const std::uint32_t n = p.tiles_h.divmod(p.tiles_w.divmod(tile, &x), &y);
  return {static_cast<int>(n), static_cast<int>(y) * p.tile_h, static_cast<int>(x) * p.tile_w};
}

// Loads the patch of x for a tile of y. With vectors the copies are under way when it returns.
template <class T, int kThreads>
__device__ __forceinline__ void stage_patch(const Params& p, const Place& at, unsigned char* buffer) {
  const Patch& patch = p.patch;
  const T* const x = static_cast<const T*>(p.x) + at.n * p.xs.n;
  const int h0 = at.row * p.stride_h - p.pad_h;
  const int w0 = at.column * p.stride_w - p.pad_w;
  const int items = patch.rows * static_cast<int>(patch.items.divisor);
  if (patch.vectors) {
    const int row_elements = p.image_w * p.channels;
    const int first = w0 * p.channels - patch.lead;  // a multiple of a vector
    const std::uint32_t shared = shared_address(buffer);
    for (int i = static_cast<int>(threadIdx.x); i < items; i += kThreads) {
      std::uint32_t chunk = 0;
      const int row = static_cast<int>(patch.items.divmod(static_cast<std::uint32_t>(i), &chunk));
      const int h = h0 + row;
      const int e = first + static_cast<int>(chunk) * kVector<T>;
      const bool inside = h >= 0 && h < p.image_h && e >= 0 && e < row_elements;
      const T* const from = inside ? x + h * p.xs.h + e : x;
      const int bytes = inside ? min(16, (row_elements - e) * static_cast<int>(sizeof(T))) : 0;
      ptx::cp_async<16>(shared + static_cast<std::uint32_t>(row * patch.pitch + static_cast<int>(chunk) * 16), from,
                        static_cast<std::uint32_t>(bytes));
    }
    return;
  }
  constexpr int kBatch = 4;  // loads in flight
  for (int i0 = static_cast<int>(threadIdx.x); i0 < items; i0 += kBatch * kThreads) {
    T value[kBatch];
    int to[kBatch];
    int position[kBatch];
#pragma unroll
    for (int u = 0; u < kBatch; ++u) {
      const int i = i0 + u * kThreads;
      value[u] = zero<T>();
      position[u] = -1;
      if (i >= items) continue;
      std::uint32_t item = 0;
      std::uint32_t fast = 0;
      const int row = static_cast<int>(patch.items.divmod(static_cast<std::uint32_t>(i), &item));
      const int slow = static_cast<int>(patch.inner.divmod(item, &fast));
      const int column = patch.planar ? static_cast<int>(fast) : slow;
      const int c = patch.planar ? slow : static_cast<int>(fast);
      const int h = h0 + row;
      const int w = w0 + column;
      if (h >= 0 && h < p.image_h && w >= 0 && w < p.image_w) value[u] = x[h * p.xs.h + w * p.xs.w + c * p.xs.c];
      position[u] = column * p.channels + c;
      to[u] = row * patch.pitch + position[u] * static_cast<int>(sizeof(T));
    }
#pragma unroll
    for (int u = 0; u < kBatch; ++u) {
      if (position[u] < 0) continue;
      *reinterpret_cast<T*>(buffer + to[u]) = value[u];
      if (patch.copy_bytes != 0 && position[u] > 0) {
        *reinterpret_cast<T*>(buffer + patch.copy_bytes + to[u] - static_cast<int>(sizeof(T))) = value[u];
      }
    }
  }
}

// alpha * sum + beta * out; `out` is not read unless it counts.
template <class T>
__device__ __forceinline__ void combine_and_store(const Params& p, float sum, T* out) {
  float v = p.alpha * sum;
  if (p.beta != 0.0f) v += p.beta * tile::widen<float>(*out);
  *out = tile::narrow<T>(v);
}

template <ElementType kType>
using StorageOf = std::conditional_t<kType == ElementType::f32, float,
                                     std::conditional_t<kType == ElementType::f16, tile::Half, tile::BFloat16>>;

}  // namespace gpudnn::kernels::small_c
