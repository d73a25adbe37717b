// Data gradient of images with few channels: dx[pixel, c] = sum over (filter, r, s) of dy[...] * w[filter, r, s, c].
//
// With stride t, pixel h of dx meets tap r and position p of dy where h + pad = p * t + r. Let i = (h + pad) / t and
// a = (h + pad) % t: the taps are r = a + t * u, and p = i - u, for each a alike. So the t * t stride phases (a, b)
// of the pixels at (i, j), times the channels, are the columns of one matrix product over (filter, u, v) whose other
// factor is dy at (i - u, j - v). Taps that a phase does not have are zeros of the filter.
//
// A block has 8 warps, side by side and above each other, and each takes 8 rows i by 16 columns j. It goes over the
// filters in steps of 32 bytes of dy's pixels: while the part of dy that the block's positions see arrives for the next
// step, each warp multiplies the present one. For a column v of taps and four rows u, whose filter operands it holds in
// registers, the warp walks down the rows of dy and adds a row p to the sums of i = p + u: dy is read from shared
// memory once for four rows of taps.
//
// The filter lies in shared memory as the instruction wants it, all of it if it fits, else the part of each step.
//
// A zero of the filter times an infinite dy, which this dx does not see, would leave a NaN: such sums are done again,
// term by term.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/small_c/small_c_sm80.cuh"
#include "kernels/tile/launch.hpp"

namespace gpudnn::kernels::small_c {

constexpr int kStepBytes = 32;  // of a pixel of dy

// Where vector `half` of a pixel's 32 bytes lies: any 8 neighbours' vectors fall into different banks.
__device__ __forceinline__ int dy_offset(int pixel, int half) {
  return pixel * kStepBytes + (half ^ (pixel >> 2 & 1)) * 16;
}

// Loads dy's pixels around the tile for one step of filters. With vectors the copies are under way when it returns.
template <class T>
__device__ __forceinline__ void stage_dy(const Params& p, const Place& at, int step, unsigned char* buffer) {
  const T* const dy = static_cast<const T*>(p.y) + at.n * p.ys.n;
  const int first_row = p.first_i + at.row - (p.taps_u - 1);
  const int first_column = p.first_j + at.column - (p.taps_v - 1);
  const std::uint32_t shared = shared_address(buffer);
  // Calls body(where in dy, or 0; where in shared memory; first filter; whether dy has it).
  const auto for_vector = [&](int i, auto&& body) {
    const int pixel = i / 2;
    std::uint32_t patch_column = 0;
    const int row =
        first_row + static_cast<int>(p.dy_columns_div.divmod(static_cast<std::uint32_t>(pixel), &patch_column));
    const int column = first_column + static_cast<int>(patch_column);
    const int f = (step * 2 + i % 2) * kVector<T>;
    const bool inside = row >= 0 && row < p.out_h && column >= 0 && column < p.out_w && f < p.filters;
    body(dy + (inside ? row * p.ys.h + column * p.ys.w + f * p.ys.c : 0), dy_offset(pixel, i % 2), f, inside);
  };
  const int count = p.dy_rows * p.dy_columns * 2;
  if (p.dy_vectors) {
#pragma unroll 2
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kDataThreads) {
      for_vector(i, [&](const T* from, int to, int, bool inside) {
        ptx::cp_async<16>(shared + static_cast<std::uint32_t>(to), from, inside ? 16u : 0u);
      });
    }
    return;
  }
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kDataThreads) {
    for_vector(i, [&](const T* from, int to, int f, bool inside) {
#pragma unroll
      for (int j = 0; j < kVector<T>; ++j) {
        const T value = inside && f + j < p.filters ? from[j * p.ys.c] : zero<T>();
        *reinterpret_cast<T*>(buffer + to + j * static_cast<int>(sizeof(T))) = value;
      }
    });
  }
}

// A column of the product: stride phase and channel.
struct DataColumn {
  int a, b, c;
};
__device__ __forceinline__ DataColumn data_column(const Params& p, int n) {
  std::uint32_t b = 0;
  std::uint32_t c = 0;
  const std::uint32_t a = p.class_w_div.divmod(p.channel_div.divmod(static_cast<std::uint32_t>(n), &c), &b);
  return {static_cast<int>(a), static_cast<int>(b), static_cast<int>(c)};
}

// filter[((((step * V + v) * U + u) * 32 + lane) * kNb + block) * 2 + i]: words t and t + 4 of the step, column g of 8.
template <class T, int kNb>
__device__ __forceinline__ void pack_data_filter(const Params& p, int first_column, int first_step, int steps,
                                                 std::uint32_t* filter) {
  const T* const w = static_cast<const T*>(p.w) + p.w_base;
  const int count = steps * p.taps_v * p.taps_u * 64 * kNb;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kDataThreads) {
    const int lane = i / (2 * kNb) % 32;
    std::uint32_t u = 0;
    std::uint32_t v = 0;
    const std::uint32_t step =
        p.taps_v_div.divmod(p.taps_u_div.divmod(static_cast<std::uint32_t>(i / (64 * kNb)), &u), &v);
    const int word = (first_step + static_cast<int>(step)) * 8 + lane % 4 + i % 2 * 4;
    const DataColumn column = data_column(p, first_column + i / 2 % kNb * 8 + lane / 4);
    const int r = column.a + p.stride_h * static_cast<int>(u);
    const int s = column.b + p.stride_w * static_cast<int>(v);
    filter[i] = filter_word<T>([&](int half) {
      const int f = word * elements_of_word(kTypeOf<T>) + half;
      if (f >= p.filters || column.a >= p.stride_h || r >= p.taps_h || s >= p.taps_w) return zero<T>();
      return w[f * p.ws.n + column.c * p.ws.c + r * p.ws.h + s * p.ws.w];
    });
  }
}

template <int kNb>
struct FilterWords {
  std::uint32_t of[2 * kNb];
};
template <int kNb>
__device__ __forceinline__ FilterWords<kNb> load_filter_words(const unsigned char* from) {
  FilterWords<kNb> words;
  if constexpr (kNb == 2) {
    const auto v = *reinterpret_cast<const uint4*>(from);
    words.of[0] = v.x;
    words.of[1] = v.y;
    words.of[2] = v.z;
    words.of[3] = v.w;
  } else {
    const auto v = *reinterpret_cast<const uint2*>(from);
    words.of[0] = v.x;
    words.of[1] = v.y;
  }
  return words;
}

// Adds the products of one step. sums[i]: row i of the warp's positions, their 16 columns, 8 b to 8 b + 7 of the
// product's. `dy` is the shared address of the buffer, `pixel` the lane's first pixel in it, `half` its vector.
template <class T, int kNb>
__device__ __forceinline__ void multiply_data(const Params& p, std::uint32_t dy, int pixel, int half,
                                              const unsigned char* filter, float (&sums)[kDataRowsOfWarp][kNb][4]) {
  constexpr int kGroup = kDataTapGroup;
  constexpr int kFilterBytes = 32 * kNb * 8;  // of a tap
#pragma unroll 1
  for (int v = 0; v < p.taps_v; ++v) {
#pragma unroll 1
    for (int first_u = 0; first_u < p.taps_u; first_u += kGroup) {
      FilterWords<kNb> b[kGroup];
#pragma unroll
      for (int u = 0; u < kGroup; ++u) b[u] = load_filter_words<kNb>(filter + u * kFilterBytes);
      filter += kGroup * kFilterBytes;
      int at = pixel + (p.taps_u - first_u - kGroup) * p.dy_columns - v;
#pragma unroll
      for (int row = 0; row < kDataRowsOfWarp + kGroup - 1; ++row) {
        std::uint32_t a[4];
        ptx::ldmatrix_x4(dy + static_cast<std::uint32_t>(dy_offset(at, half)), a);
        at += p.dy_columns;
#pragma unroll
        for (int u = 0; u < kGroup; ++u) {
          const int i = row + u - (kGroup - 1);
          if (i < 0 || i >= kDataRowsOfWarp) continue;
#pragma unroll
          for (int n = 0; n < kNb; ++n) mma<T>(sums[i][n], a, b[u].of[2 * n], b[u].of[2 * n + 1]);
        }
      }
    }
  }
}

// The sum by its definition.
template <class T>
__device__ __noinline__ float data_sum(const Params& p, int n, int h, int w, int c) {
  float sum = 0;
  for (int r = (h + p.pad_h) % p.stride_h; r < p.taps_h; r += p.stride_h) {
    const int row = (h + p.pad_h - r) / p.stride_h;
    if (h + p.pad_h < r || row >= p.out_h) continue;
    for (int s = (w + p.pad_w) % p.stride_w; s < p.taps_w; s += p.stride_w) {
      const int column = (w + p.pad_w - s) / p.stride_w;
      if (w + p.pad_w < s || column >= p.out_w) continue;
      const T* dy = static_cast<const T*>(p.y) + (n * p.ys.n + row * p.ys.h + column * p.ys.w);
      const T* filter = static_cast<const T*>(p.w) + (p.w_base + c * p.ws.c + r * p.ws.h + s * p.ws.w);
      for (int f = 0; f < p.filters; ++f) {
        sum += tile::widen<float>(dy[f * p.ys.c]) * tile::widen<float>(filter[f * p.ws.n]);
      }
    }
  }
  return sum;
}

// A lane's columns of the product.
template <int kNb>
struct DataColumns {
  DataColumn of[2 * kNb];
};

// Does sums that are no numbers again: v[n][q] of the position's row i and the column of lane group and half.
template <class T, int kNb>
__device__ __noinline__ void repair(const Params& p, const Place& at, const DataColumns<kNb>& columns, int i, int j,
                                    float (&v)[kNb][4]) {
  for (int n = 0; n < kNb; ++n) {
    for (int q = 0; q < 4; ++q) {
      const DataColumn& column = columns.of[2 * n + q % 2];
      const int h = (p.first_i + i) * p.stride_h + column.a - p.pad_h;
      const int w = (p.first_j + j + q / 2 * 8) * p.stride_w + column.b - p.pad_w;
      const bool inside = column.a < p.stride_h && h >= 0 && h < p.image_h && w >= 0 && w < p.image_w;
      if (inside && v[n][q] != v[n][q]) v[n][q] = data_sum<T>(p, at.n, h, w, column.c);
    }
  }
}

// Stores row i of a warp's positions through shared memory, as the rows of dx in one piece: the block has all phases
// and channels, and beta is zero.
template <class T, int kNb>
__device__ __forceinline__ void store_rows(const Params& p, T* dx, const DataColumns<kNb>& columns, int i, int first_j,
                                           const float (&v)[kNb][4], float* scratch) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int step = p.stride_w * p.channels;  // elements of a position
  const int length = kDataColumnsOfWarp * step;
#pragma unroll
  for (int n = 0; n < kNb; ++n) {
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const DataColumn& column = columns.of[2 * n + q % 2];
      if (column.a >= p.stride_h) continue;
      scratch[column.a * length + (q / 2 * 8 + lane / 4) * step + column.b * p.channels + column.c] = p.alpha * v[n][q];
    }
  }
  __syncwarp();
  const int first = ((p.first_j + first_j) * p.stride_w - p.pad_w) * p.channels;  // element of the row of dx
  const int begin = max(0, -first);
  const int end = min(length, p.image_w * p.channels - first);
#pragma unroll 1
  for (int a = 0; a < p.stride_h; ++a) {
    const int h = (p.first_i + i) * p.stride_h + a - p.pad_h;
    if (h < 0 || h >= p.image_h) continue;
    T* const row = dx + h * p.xs.h + first;
    const float* const from = scratch + a * length;
    if constexpr (sizeof(T) == 2) {
      // Aligned words; at both ends a half may be missing.
      const int odd = static_cast<int>(reinterpret_cast<std::uintptr_t>(row + begin) / 2 % 2);
      for (int e = begin - odd + 2 * lane; e < end; e += 64) {
        const bool low = e >= begin;
        const bool high = e + 1 < end;
        const T first_half = low ? tile::narrow<T>(from[e]) : zero<T>();
        const T second_half = high ? tile::narrow<T>(from[e + 1]) : zero<T>();
        if (low && high) {
          *reinterpret_cast<std::uint32_t*>(row + e) = tile::word_of<T>(first_half, second_half);
        } else if (low) {
          row[e] = first_half;
        } else if (high) {
          row[e + 1] = second_half;
        }
      }
    } else {
      for (int e = begin + lane; e < end; e += 32) row[e] = from[e];
    }
  }
  __syncwarp();
}

// Stores a warp's positions, one row after the other, which move up to the first place: one piece of code serves all.
template <class T, int kNb>
__device__ __forceinline__ void store_data(const Params& p, const Place& at, int first_column, int warp_row,
                                           int warp_column, float (&sums)[kDataRowsOfWarp][kNb][4], float* scratch) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  T* const dx = static_cast<T*>(p.out) + at.n * p.xs.n;
  DataColumns<kNb> columns;
#pragma unroll
  for (int n = 0; n < 2 * kNb; ++n) {
    columns.of[n] = data_column(p, first_column + n / 2 * 8 + lane % 4 * 2 + n % 2);
  }
  const int first_j = at.column + warp_column;
#pragma unroll 1
  for (int row = 0; row < kDataRowsOfWarp; ++row) {
    const int i = at.row + warp_row + row;
    float v[kNb][4];
    float check = 0;  // a NaN if any sum is one, or infinite
#pragma unroll
    for (int n = 0; n < kNb; ++n) {
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        v[n][q] = sums[0][n][q];
        check += 0.0f * v[n][q];
#pragma unroll
        for (int to = 0; to + 1 < kDataRowsOfWarp; ++to) sums[to][n][q] = sums[to + 1][n][q];
      }
    }
    if (check != check) {
      float copy[kNb][4];  // what a function gets lies in memory; v stays in registers
#pragma unroll
      for (int n = 0; n < 4 * kNb; ++n) copy[n / 4][n % 4] = v[n / 4][n % 4];
      repair<T, kNb>(p, at, columns, i, first_j + lane / 4, copy);
#pragma unroll
      for (int n = 0; n < 4 * kNb; ++n) v[n / 4][n % 4] = copy[n / 4][n % 4];
    }
    if (p.dx_rows && p.beta == 0.0f) {
      store_rows<T, kNb>(p, dx, columns, i, first_j, v, scratch);
      continue;
    }
#pragma unroll
    for (int n = 0; n < kNb; ++n) {
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        const DataColumn& column = columns.of[2 * n + q % 2];
        const int h = (p.first_i + i) * p.stride_h + column.a - p.pad_h;
        const int w = (p.first_j + first_j + q / 2 * 8 + lane / 4) * p.stride_w + column.b - p.pad_w;
        if (column.a >= p.stride_h || h < 0 || h >= p.image_h || w < 0 || w >= p.image_w) continue;
        combine_and_store<T>(p, v[n][q], dx + (h * p.xs.h + w * p.xs.w + column.c * p.xs.c));
      }
    }
  }
}

template <class T, int kNb, int kMinBlocks>
__global__ void __launch_bounds__(kDataThreads, kMinBlocks) small_c_dgrad(const __grid_constant__ Params p) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  extern __shared__ __align__(16) unsigned char storage[];
  const int dy_bytes = p.dy_rows * p.dy_columns * kStepBytes;
  unsigned char* const filter = storage + 2 * dy_bytes;
  const int filter_bytes_of_step = p.taps_v * p.taps_u * 32 * kNb * 8;
  const int first_column = static_cast<int>(blockIdx.x % p.n_tiles) * 8 * kNb;
  const std::uint32_t tile_step = gridDim.x / p.n_tiles;
  std::uint32_t tile = blockIdx.x / p.n_tiles;

  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_row = warp / p.warps_j * kDataRowsOfWarp;
  const int warp_column = warp % p.warps_j * kDataColumnsOfWarp;
  // Lanes 0 to 15 point at the first vectors of 16 pixels, lanes 16 to 31 at the second ones.
  const int pixel = warp_row * p.dy_columns + warp_column + lane % 16 + p.taps_v - 1;

  Place at = place_of(p, tile);
  stage_dy<T>(p, at, 0, storage);
  ptx::cp_async_commit_group();
  if (p.filter_resident) {
    pack_data_filter<T, kNb>(p, first_column, 0, p.k_steps, reinterpret_cast<std::uint32_t*>(filter));
  }
  int buffer = 0;
  while (true) {
    const std::uint32_t next = tile + tile_step;
    const Place next_at = place_of(p, min(next, p.tiles - 1));
    float sums[kDataRowsOfWarp][kNb][4] = {};
#pragma unroll 1
    for (int step = 0; step < p.k_steps; ++step) {
      const bool last_step = step + 1 == p.k_steps;
      if (!last_step || next < p.tiles) {
        stage_dy<T>(p, last_step ? next_at : at, last_step ? 0 : step + 1, storage + (buffer ^ 1) * dy_bytes);
      }
      ptx::cp_async_commit_group();
      if (!p.filter_resident) {
        pack_data_filter<T, kNb>(p, first_column, step, 1, reinterpret_cast<std::uint32_t*>(filter));
      }
      ptx::cp_async_wait_group<1>();
      __syncthreads();
      const int filter_step = p.filter_resident ? step : 0;
      multiply_data<T, kNb>(p, shared_address(storage + buffer * dy_bytes), pixel, lane / 16,
                            filter + filter_step * filter_bytes_of_step + lane * (kNb * 8), sums);
      __syncthreads();  // the buffer just used, and the step's filter, are overwritten next
      buffer ^= 1;
    }
    // The last step's buffer is free until the next tile's second step is loaded into it.
    auto* const scratch = reinterpret_cast<float*>(storage + (buffer ^ 1) * dy_bytes);
    store_data<T, kNb>(p, at, first_column, warp_row, warp_column, sums,
                       scratch + warp * (kDataScratchBytes * kNb / 4));
    if (next >= p.tiles) return;
    __syncthreads();
    tile = next;
    at = next_at;
  }
#endif
}

template <int kRow>
void launch_data_row(const Params& params, CUstream_st* stream) {
  constexpr TileRow row = kTiles[kRow];
  constexpr auto kKernel = &small_c_dgrad<StorageOf<row.type>, row.columns / 8, row.min_blocks>;
  tile::allow_shared_memory<kKernel>(tile::kAllThatABlockMayHave, true);
  tile::launch_kernel(kKernel, {params.blocks, kDataThreads, params.shared_bytes}, stream, params);
}

}  // namespace gpudnn::kernels::small_c
