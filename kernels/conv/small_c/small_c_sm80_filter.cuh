// Filter gradient of images with few channels: dw[filter, r, s, c] = sum over pixels of dy[pixel, filter] * x[...].
//
// The reduction runs over the pixels, so a block holds 64 filters by `columns` (r, s, c) of dw in registers all along
// and goes over its share of the tiles of y's pixels: for each it loads the tile of dy and the patch of x that the
// tile's windows see into shared memory, while it multiplies the ones before. Each of the four warps takes all 64
// filters and a quarter of the columns. Where these are 32 only, it would load dy for next to nothing: there each warp
// takes all columns and every fourth step of the pixels, and the warps' sums are added up in the end.
//
// Operand a, filters by pixels, comes from dy's pixels by filters through transposing loads. Operand b, pixels by
// columns, is gathered from the patch: a lane's column of dw stands for a fixed offset in it. Pixels of the tile that y
// does not have count as zero in both operands, since x may be infinite there.
//
// With one split the block stores dw. With more, each writes its sums to the workspace, and a second kernel adds them
// up in a fixed order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/small_c/small_c_sm80.cuh"
#include "kernels/tile/launch.hpp"

namespace gpudnn::kernels::small_c {

// Loads 64 filters of the tile's pixels of dy. With vectors the copies are under way when it returns.
template <class T>
__device__ __forceinline__ void stage_gradient(const Params& p, const Place& at, int first_filter,
                                               unsigned char* buffer) {
  constexpr ElementType kType = kTypeOf<T>;
  constexpr int kVectors = kFilterRows / kVector<T>;  // of a pixel
  const T* const dy = static_cast<const T*>(p.y) + at.n * p.ys.n;
  const std::uint32_t shared = shared_address(buffer);
  // Calls body(where in dy, or 0; where in shared memory; first filter; whether dy has it).
  const auto for_vector = [&](int i, auto&& body) {
    const int pixel = i / kVectors;
    const int f = first_filter + i % kVectors * kVector<T>;
    std::uint32_t tile_column = 0;
    const int row = at.row + static_cast<int>(p.tile_w_div.divmod(static_cast<std::uint32_t>(pixel), &tile_column));
    const int column = at.column + static_cast<int>(tile_column);
    const bool inside = row < p.out_h && column < p.out_w && f < p.filters;
    body(dy + (inside ? row * p.ys.h + column * p.ys.w + f * p.ys.c : 0),
         pixel * gradient_pitch(kType) + i % kVectors * 16, f, inside);
  };
  constexpr int kCount = filter_pixels(kType) * kVectors;
  if (p.dy_vectors) {
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < kCount; i += kFilterThreads) {
      for_vector(i, [&](const T* from, int to, int, bool inside) {
        ptx::cp_async<16>(shared + static_cast<std::uint32_t>(to), from, inside ? 16u : 0u);
      });
    }
    return;
  }
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < kCount; i += kFilterThreads) {
    for_vector(i, [&](const T* from, int to, int f, bool inside) {
#pragma unroll
      for (int j = 0; j < kVector<T>; ++j) {
        const T value = inside && f + j < p.filters ? from[j * p.ys.c] : zero<T>();
        *reinterpret_cast<T*>(buffer + to + j * static_cast<int>(sizeof(T))) = value;
      }
    });
  }
}

// Operand a of filters 16 i to 16 i + 15 and the pixels of a step, from the first of which `pixels` on dy lies.
template <class T>
__device__ __forceinline__ void load_gradient(const unsigned char* pixels, int i, std::uint32_t (&a)[4]) {
  constexpr int kPitch = gradient_pitch(kTypeOf<T>);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if constexpr (sizeof(T) == 2) {
    const int pixel = lane % 8 + lane / 16 * 8;
    const int filter = i * 16 + lane / 8 % 2 * 8;
    ptx::ldmatrix_x4_trans(shared_address(pixels + pixel * kPitch + filter * 2), a);
  } else {
    const unsigned char* const from = pixels + lane % 4 * kPitch + (i * 16 + lane / 4) * 4;
    a[0] = *reinterpret_cast<const std::uint32_t*>(from);
    a[1] = *reinterpret_cast<const std::uint32_t*>(from + 32);
    a[2] = *reinterpret_cast<const std::uint32_t*>(from + 4 * kPitch);
    a[3] = *reinterpret_cast<const std::uint32_t*>(from + 4 * kPitch + 32);
  }
}

// Which of a lane's pixels of a step y has: the selectors of byte_perm that join two halves, or masks.
struct PixelFilter {
  std::uint32_t of[2];
};
template <class T>
__device__ __forceinline__ PixelFilter pixel_filter(int left) {
  const int t = static_cast<int>(threadIdx.x) % 4;
  PixelFilter filter;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if constexpr (sizeof(T) == 2) {
      // Bytes 2, 3, 6 and 7 of two zero-extended halves are zero.
      const int pixel = 2 * t + 8 * h;
      filter.of[h] = (pixel < left ? 0x10u : 0x32u) | (pixel + 1 < left ? 0x5400u : 0x7600u);
    } else {
      filter.of[h] = t + 4 * h < left ? 0xffffffffu : 0u;
    }
  }
  return filter;
}

// Word h of operand b: `from` is where the lane's column sees the first of the lane's pixels, `next` the bytes to the
// next pixel.
template <class T>
__device__ __forceinline__ std::uint32_t load_pixels(const unsigned char* from, int next, int h,
                                                     const PixelFilter& filter) {
  if constexpr (sizeof(T) == 2) {
    const std::uint32_t low = *reinterpret_cast<const std::uint16_t*>(from + h * 8 * next);
    const std::uint32_t high = *reinterpret_cast<const std::uint16_t*>(from + (h * 8 + 1) * next);
    return __byte_perm(low, high, filter.of[h]);
  } else {
    return *reinterpret_cast<const std::uint32_t*>(from + h * 4 * next) & filter.of[h];
  }
}

// Adds the products of a tile. sums[i][b]: filters 16 i to 16 i + 15, the warp's columns 8 b to 8 b + 7.
template <class T, int kNb, int kWarpsN>
__device__ __forceinline__ void multiply_filter(const Params& p, const Place& at, const unsigned char* gradient,
                                                const unsigned char* patch, const int (&column_offset)[kNb],
                                                float (&sums)[4][kNb][4]) {
  constexpr ElementType kType = kTypeOf<T>;
  constexpr int kStep = pixels_of_step(kType);
  const int next = p.stride_w * p.channels * static_cast<int>(sizeof(T));
  const int t = static_cast<int>(threadIdx.x) % 4;
  patch += (sizeof(T) == 2 ? 2 * t : t) * next;
  int turn = static_cast<int>(threadIdx.x) / 32;  // steps until this warp's next one, where warps take turns
  const int rows = min(p.tile_h, p.out_h - at.row);
  const int columns = min(p.tile_w, p.out_w - at.column);
#pragma unroll 1
  for (int row = 0; row < rows; ++row) {
    const unsigned char* from = patch + row * p.stride_h * p.patch.pitch;
    const unsigned char* pixels = gradient + row * p.tile_w * gradient_pitch(kType);
#pragma unroll 1
    for (int left = columns; left > 0; left -= kStep) {
      if constexpr (kWarpsN == 1) {
        // The steps take turns. A skipped one only moves on.
        const bool mine = turn == 0;
        turn = mine ? kFilterThreads / 32 - 1 : turn - 1;
        if (!mine) {
          from += kStep * next;
          pixels += kStep * gradient_pitch(kType);
          continue;
        }
      }
      const PixelFilter filter = pixel_filter<T>(left);
      std::uint32_t a[4][4];
#pragma unroll
      for (int i = 0; i < 4; ++i) load_gradient<T>(pixels, i, a[i]);
#pragma unroll
      for (int b = 0; b < kNb; ++b) {
        const unsigned char* const column = from + column_offset[b];
        const std::uint32_t b0 = load_pixels<T>(column, next, 0, filter);
        const std::uint32_t b1 = load_pixels<T>(column, next, 1, filter);
#pragma unroll
        for (int i = 0; i < 4; ++i) mma<T>(sums[i][b], a[i], b0, b1);
      }
      from += kStep * next;
      pixels += kStep * gradient_pitch(kType);
    }
  }
}

// The address of element (filter f, column n) of dw, or null.
template <class T>
__device__ __forceinline__ T* filter_element(const Params& p, int f, int n) {
  std::uint32_t c = 0;
  std::uint32_t s = 0;
  const std::uint32_t r = p.taps_w_div.divmod(p.channel_div.divmod(static_cast<std::uint32_t>(n), &c), &s);
  if (f >= p.filters || static_cast<int>(r) >= p.taps_h) return nullptr;
  return static_cast<T*>(p.out) + (p.w_base + f * p.ws.n + static_cast<int>(c) * p.ws.c + static_cast<int>(r) * p.ws.h +
                                   static_cast<int>(s) * p.ws.w);
}

// Position of sum q of fragment (i, b) of a lane in the block's 64 filters and columns.
struct SumPlace {
  int filter, column;
};
template <int kNb>
__device__ __forceinline__ SumPlace place_of_sum(int warp, int i, int b, int lane, int q) {
  return {i * 16 + q / 2 * 8 + lane / 4, (warp * kNb + b) * 8 + lane % 4 * 2 + q % 2};
}

// Adds up the sums of the four warps. What a warp has of it afterwards is in sums[0]: filters 16 warp to 16 warp + 15.
template <int kNb>
__device__ __forceinline__ void add_warps(float4* scratch, float (&sums)[4][kNb][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const auto place = [&](int of_warp, int i, int b) { return ((of_warp * 4 + i) * kNb + b) * 32 + lane; };
  __syncthreads();  // the tile's buffers are not read any more
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int b = 0; b < kNb; ++b) {
      scratch[place(warp, i, b)] = make_float4(sums[i][b][0], sums[i][b][1], sums[i][b][2], sums[i][b][3]);
    }
  }
  __syncthreads();
#pragma unroll
  for (int b = 0; b < kNb; ++b) {
    float4 sum = scratch[place(0, warp, b)];
#pragma unroll
    for (int other = 1; other < 4; ++other) {
      const float4 more = scratch[place(other, warp, b)];
      sum = make_float4(sum.x + more.x, sum.y + more.y, sum.z + more.z, sum.w + more.w);
    }
    sums[0][b][0] = sum.x;
    sums[0][b][1] = sum.y;
    sums[0][b][2] = sum.z;
    sums[0][b][3] = sum.w;
  }
}

// kWarpsN of the four warps share the columns, kNb blocks of 8 each.
template <class T, int kNb, int kWarpsN, int kMinBlocks>
__global__ void __launch_bounds__(kFilterThreads, kMinBlocks) small_c_wgrad(const __grid_constant__ Params p) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  constexpr ElementType kType = kTypeOf<T>;
  constexpr int kColumns = 8 * kNb * kWarpsN;
  constexpr int kGradientBytes = filter_pixels(kType) * gradient_pitch(kType);
  extern __shared__ __align__(16) unsigned char storage[];
  unsigned char* const patches = storage + 2 * kGradientBytes;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_n = kWarpsN == 1 ? 0 : warp;
  // Blocks of one split share their tiles.
  const std::uint32_t part = blockIdx.x % (p.n_tiles * p.m_tiles);
  const std::uint32_t split = blockIdx.x / (p.n_tiles * p.m_tiles);
  const int first_column = static_cast<int>(part % p.n_tiles) * kColumns;
  const int first_filter = static_cast<int>(part / p.n_tiles) * kFilterRows;

  int column_offset[kNb];
#pragma unroll
  for (int b = 0; b < kNb; ++b) {
    const int n = first_column + (warp_n * kNb + b) * 8 + lane / 4;
    std::uint32_t c = 0;
    std::uint32_t s = 0;
    const std::uint32_t r = p.taps_w_div.divmod(p.channel_div.divmod(static_cast<std::uint32_t>(n), &c), &s);
    column_offset[b] =
        static_cast<int>(r) >= p.taps_h
            ? 0  // such a column is not stored
            : static_cast<int>(r) * p.patch.pitch +
                  (static_cast<int>(s) * p.channels + static_cast<int>(c) + p.patch.lead) * static_cast<int>(sizeof(T));
  }

  float sums[4][kNb][4] = {};
  std::uint32_t tile = split;
  Place at = place_of(p, tile);
  stage_patch<T, kFilterThreads>(p, at, patches);
  stage_gradient<T>(p, at, first_filter, storage);
  ptx::cp_async_commit_group();
  int buffer = 0;
  while (true) {
    const std::uint32_t next = tile + p.splits;
    Place next_at = {};
    if (next < p.tiles) {
      next_at = place_of(p, next);
      stage_patch<T, kFilterThreads>(p, next_at, patches + (buffer ^ 1) * p.patch.bytes);
      stage_gradient<T>(p, next_at, first_filter, storage + (buffer ^ 1) * kGradientBytes);
    }
    ptx::cp_async_commit_group();
    ptx::cp_async_wait_group<1>();
    __syncthreads();
    multiply_filter<T, kNb, kWarpsN>(p, at, storage + buffer * kGradientBytes, patches + buffer * p.patch.bytes,
                                     column_offset, sums);
    if (next >= p.tiles) break;
    __syncthreads();  // the buffers just used are overwritten next
    tile = next;
    at = next_at;
    buffer ^= 1;
  }

  if constexpr (kWarpsN == 1) {
    static_assert(2 * kGradientBytes >= kFilterThreads * 4 * kNb * 16, "the tiles of dy make room for the warps' sums");
    add_warps<kNb>(reinterpret_cast<float4*>(storage), sums);
  }
  auto* const to = reinterpret_cast<float4*>(p.workspace) +
                   (static_cast<std::size_t>(part) * p.splits + split) * (kFilterRows * kColumns / 4);
#pragma unroll
  for (int row = 0; row < (kWarpsN == 1 ? 1 : 4); ++row) {
    const int i = kWarpsN == 1 ? warp : row;
#pragma unroll
    for (int b = 0; b < kNb; ++b) {
      const float(&sum)[4] = sums[row][b];
      if (p.splits > 1) {
        to[((warp_n * 4 + i) * kNb + b) * 32 + lane] = make_float4(sum[0], sum[1], sum[2], sum[3]);
        continue;
      }
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        const SumPlace place = place_of_sum<kNb>(warp_n, i, b, lane, q);
        T* const out = filter_element<T>(p, first_filter + place.filter, first_column + place.column);
        if (out != nullptr) combine_and_store<T>(p, sum[q], out);
      }
    }
  }
#endif
}

// --- the sum over the splits -----------------------------------------------------------------------------------------

constexpr int kSumThreads = 256;
constexpr int kSumLanes = 8;  // that share an element

// Lane y of an element's adds splits y, y + 8 and so on; then the lanes are added up as a tree.
template <class T, int kNb, int kWarpsN>
__global__ void __launch_bounds__(kSumThreads) small_c_sum_splits(const __grid_constant__ Params p) {
  constexpr int kColumns = 8 * kNb * kWarpsN;
  constexpr int kSums = kFilterRows * kColumns;
  constexpr int kElements = kSumThreads / kSumLanes;  // of a block
  __shared__ float partial[kSumThreads];
  const int lane = static_cast<int>(threadIdx.x) / kElements;
  const auto e =
      static_cast<int>(blockIdx.x % (kSums / kElements)) * kElements + static_cast<int>(threadIdx.x) % kElements;
  const std::uint32_t part = blockIdx.x / (kSums / kElements);
  const float* const from = p.workspace + static_cast<std::size_t>(part) * p.splits * kSums + e;
  float sum = 0;
#pragma unroll 8
  for (auto split = static_cast<std::uint32_t>(lane); split < p.splits; split += kSumLanes) {
    sum += from[static_cast<std::size_t>(split) * kSums];
  }
  partial[threadIdx.x] = sum;
#pragma unroll
  for (int half = kSumLanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (lane < half) partial[threadIdx.x] += partial[threadIdx.x + static_cast<unsigned>(half * kElements)];
  }
  if (lane != 0) return;
  const int fragment = e / 128;
  const SumPlace place = place_of_sum<kNb>(fragment / (4 * kNb), fragment / kNb % 4, fragment % kNb, e / 4 % 32, e % 4);
  const int first_column = static_cast<int>(part % p.n_tiles) * kColumns;
  const int first_filter = static_cast<int>(part / p.n_tiles) * kFilterRows;
  T* const out = filter_element<T>(p, first_filter + place.filter, first_column + place.column);
  if (out != nullptr) combine_and_store<T>(p, partial[threadIdx.x], out);
}

template <int kRow>
void launch_filter_row(const Params& params, CUstream_st* stream) {
  constexpr TileRow row = kTiles[kRow];
  using T = StorageOf<row.type>;
  constexpr int kWarpsN = row.columns == 32 ? 1 : 4;
  constexpr int kNb = row.columns / (8 * kWarpsN);
  constexpr auto kKernel = &small_c_wgrad<T, kNb, kWarpsN, row.min_blocks>;
  tile::allow_shared_memory<kKernel>(tile::kAllThatABlockMayHave, true);
  tile::launch_kernel(kKernel, {params.blocks, kFilterThreads, params.shared_bytes}, stream, params);
  if (params.splits <= 1) return;
  constexpr unsigned kBlocksOfPart = kFilterRows * row.columns * kSumLanes / kSumThreads;
  tile::launch_kernel(&small_c_sum_splits<T, kNb, kWarpsN>,
                      {kBlocksOfPart * params.n_tiles * params.m_tiles, kSumThreads}, stream, params);
}

}  // namespace gpudnn::kernels::small_c
