// Forward convolution of images with few channels: y[pixel, filter] = sum over (r, s, c) of x[...] * w[filter, r, s,
// c].
//
// A block keeps `columns` filters in shared memory, as the matrix instruction wants them, and goes over tiles of up to
// 128 pixels of y: it computes one from its patch of x while the patch of the next one arrives. Warp i has pixels 32 i
// to 32 i + 31 of the tile and all of the block's filters.
//
// The reduction is over words: (row r of taps, word j of the run of S * C elements). With 16-bit elements a run may
// begin in the middle of a word. If stride * C is even, it does so for all pixels or for none: the filter's words are
// shifted by `run_shift` elements to match. Otherwise every second pixel takes its words from a second copy of the
// patch that lies one element earlier. Where a word sticks out of the run, a mask clears what does not belong to the
// window: a zero in the filter would not do, since the neighbour may be infinite.
//
// The columns of an instruction's operand b can be any filters. They are chosen such that a lane's sums of a group of
// 32 filters (16 of floats) are neighbours in y: a vector of 16 bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/launch/launch.hpp"
#include "kernels/conv/small_c/small_c_sm80.cuh"
#include "kernels/gemm/epilogue/activation.cuh"
#include "kernels/gemm/epilogue/channel_value.cuh"

namespace gpudnn::kernels::small_c {

// The filter of the block's n tile that column `column` of the 8 columns `block` stands for.
template <class T>
__device__ __forceinline__ int filter_of_column(int block, int column) {
  constexpr int kBlocks = kVector<T> / 2;  // whose sums make a vector
  return block / kBlocks * (8 * kBlocks) + column / 2 * kVector<T> + block % kBlocks * 2 + column % 2;
}

// Word i of the packed filters: words t and t + 4 of a pair's first block, then of its second, stand at
// ((step * kBn / 16 + pair of blocks) * 32 + lane) * 4.
template <class T, int kBn>
__device__ __forceinline__ std::uint32_t packed_filter_word(const Params& p, const T* w, int first_filter, int i) {
  const int lane = i / 4 % 32;
  const int pair = i / 128 % (kBn / 16);
  const int step = i / 128 / (kBn / 16);
  const int f = first_filter + filter_of_column<T>(pair * 2 + i % 4 / 2, lane / 4);
  const int word = step * 8 + lane % 4 + i % 2 * 4;
  std::uint32_t j = 0;
  const int r = static_cast<int>(p.run_words.divmod(static_cast<std::uint32_t>(word), &j));
  return filter_word<T>([&](int half) {
    const int e = static_cast<int>(j) * elements_of_word(kTypeOf<T>) + half - p.run_shift;
    if (f >= p.filters || r >= p.taps_h || e < 0 || e >= p.taps_w * p.channels) return zero<T>();
    std::uint32_t c = 0;
    const int s = static_cast<int>(p.channel_div.divmod(static_cast<std::uint32_t>(e), &c));
    return w[f * p.ws.n + static_cast<int>(c) * p.ws.c + r * p.ws.h + s * p.ws.w];
  });
}

// The loads of several words are under way at once: one after the other they took up to 60 us of a large filter.
template <class T, int kBn>
__device__ __forceinline__ void pack_forward_filter(const Params& p, int first_filter, std::uint32_t* filter) {
  constexpr int kAtOnce = 8;
  const T* const w = static_cast<const T*>(p.w) + p.w_base;
  const int count = p.k_steps * 8 * kBn;
#pragma unroll 1
  for (int first = static_cast<int>(threadIdx.x); first < count; first += kAtOnce * kForwardThreads) {
    std::uint32_t words[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int i = first + k * kForwardThreads;
      words[k] = i < count ? packed_filter_word<T, kBn>(p, w, first_filter, i) : 0;
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int i = first + k * kForwardThreads;
      if (i < count) filter[i] = words[k];
    }
  }
}

// For lane t of a step: offset and mask of word t, of word t + 4.
template <class T>
__device__ __forceinline__ void set_word_table(const Params& p, uint4* table) {
  constexpr int kElements = elements_of_word(kTypeOf<T>);
  for (int i = static_cast<int>(threadIdx.x); i < p.k_steps * 4; i += kForwardThreads) {
    const Word first = word_of_window(p, kElements, i / 4 * 8 + i % 4);
    const Word second = word_of_window(p, kElements, i / 4 * 8 + i % 4 + 4);
    table[i] = make_uint4(first.offset, first.mask, second.offset, second.mask);
  }
}

// sums[i][b]: pixels 16 i to 16 i + 15 of the warp, columns 8 b to 8 b + 7.
template <class T, int kBn>
__device__ __forceinline__ void multiply_forward(const Params& p, const unsigned char* patch, const uint4* table,
                                                 const uint4* filter, const int (&begin)[2][2],
                                                 float (&sums)[2][kBn / 8][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto word = [&](int offset) { return *reinterpret_cast<const std::uint32_t*>(patch + offset); };
  table += lane % 4;
  filter += lane;
  uint4 entry = *table;
#pragma unroll 2
  for (int step = 0; step < p.k_steps; ++step) {
    std::uint32_t a[2][4];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        a[i][h] = word(begin[i][h] + static_cast<int>(entry.x)) & entry.y;
        a[i][h + 2] = word(begin[i][h] + static_cast<int>(entry.z)) & entry.w;
      }
    }
    table += 4;
    entry = *table;  // the one after the last is the patch's: read, not used
#pragma unroll
    for (int pair = 0; pair < kBn / 16; ++pair) {
      const uint4 b = filter[pair * 32];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        mma<T>(sums[i][pair * 2], a[i], b.x, b.y);
        mma<T>(sums[i][pair * 2 + 1], a[i], b.z, b.w);
      }
    }
    filter += kBn / 16 * 32;
  }
}

// Where y, z and the bias have a lane's vector of filters, from filter f on.
template <class T>
struct VectorPlace {
  int f;
  bool inside;
  T* out;
  const T* z;
  std::int64_t bias;  // bytes
};

// The pixel of row 16 i + 8 h + g of the warp, the lane's vector of a group of filters.
template <class T>
__device__ __forceinline__ VectorPlace<T> place_of_vector(const Params& p, const Place& at, int first_filter, int i,
                                                          int h, int group) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int m = static_cast<int>(threadIdx.x) / 32 * 32 + i * 16 + h * 8 + lane / 4;
  std::uint32_t tile_column = 0;
  const int tile_row = static_cast<int>(p.tile_w_div.divmod(static_cast<std::uint32_t>(m), &tile_column));
  const int row = at.row + tile_row;
  const int column = at.column + static_cast<int>(tile_column);
  VectorPlace<T> place = {};
  place.f = first_filter + (group * 4 + lane % 4) * kVector<T>;
  place.inside = tile_row < p.tile_h && row < p.out_h && column < p.out_w && place.f < p.filters;
  if (!place.inside) return place;
  place.out = static_cast<T*>(p.out) + (at.n * p.ys.n + row * p.ys.h + column * p.ys.w + place.f * p.ys.c);
  if (p.has_z) {
    place.z = static_cast<const T*>(p.z) + (at.n * p.zs.n + row * p.zs.h + column * p.zs.w + place.f * p.zs.c);
  }
  place.bias = place.f * p.bias_step;
  return place;
}

// alpha * sum + beta * out + alpha2 * z + bias of a vector that lies in one piece. What does not count is not read.
template <class T>
__device__ __forceinline__ void combine_vector(const Params& p, const VectorPlace<T>& place, float (&v)[kVector<T>]) {
  constexpr int kVec = kVector<T>;
#pragma unroll
  for (int j = 0; j < kVec; ++j) v[j] *= p.alpha;
  if (p.beta != 0.0f) {
    const auto old = tile::load_pack<T, kVec>(place.out);
#pragma unroll
    for (int j = 0; j < kVec; ++j) v[j] += p.beta * tile::widen<float>(old.get(j));
  }
  if (p.has_z && p.alpha2 != 0.0f) {
    const auto addend = tile::load_pack<T, kVec>(place.z);
#pragma unroll
    for (int j = 0; j < kVec; ++j) v[j] += p.alpha2 * tile::widen<float>(addend.get(j));
  }
  if (p.has_bias) {
#pragma unroll
    for (int j = 0; j < kVec; ++j)
      v[j] += gemm::channel_value<T>(p.bias, place.bias + j * p.bias_step, p.float_vectors);
  }
}

// The same of a vector whose elements lie anywhere, and of which y may have a part only.
template <class T>
__device__ __forceinline__ void combine_elements(const Params& p, const VectorPlace<T>& place, float (&v)[kVector<T>]) {
#pragma unroll
  for (int j = 0; j < kVector<T>; ++j) {
    if (place.f + j >= p.filters) break;
    v[j] *= p.alpha;
    if (p.beta != 0.0f) v[j] += p.beta * tile::widen<float>(place.out[j * p.ys.c]);
    if (p.has_z && p.alpha2 != 0.0f) v[j] += p.alpha2 * tile::widen<float>(place.z[j * p.zs.c]);
    if (p.has_bias) v[j] += gemm::channel_value<T>(p.bias, place.bias + j * p.bias_step, p.float_vectors);
  }
}

// Vector (i, h, group) of a lane's sums.
template <class T, int kBn>
__device__ __forceinline__ void take_vector(const float (&sums)[2][kBn / 8][4], int i, int h, int group,
                                            float (&v)[kVector<T>]) {
  constexpr int kVec = kVector<T>;
#pragma unroll
  for (int j = 0; j < kVec; ++j) v[j] = sums[i][group * (kVec / 2) + j / 2][h * 2 + j % 2];
}

// Whole vectors without an activation, or with ReLU: the code is laid out for each of a lane's vectors.
template <class T, int kBn>
__device__ __forceinline__ void store_vectors(const Params& p, const Place& at, int first_filter,
                                              const float (&sums)[2][kBn / 8][4]) {
  constexpr int kVec = kVector<T>;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int group = 0; group < kBn / (4 * kVec); ++group) {
        const auto place = place_of_vector<T>(p, at, first_filter, i, h, group);
        if (!place.inside) continue;
        float v[kVec];
        take_vector<T, kBn>(sums, i, h, group, v);
        combine_vector<T>(p, place, v);
        if (p.activation.mode == gemm::Activation::relu) gemm::activate_relu(p.activation, v);
        tile::store_pack<T, kVec>(place.out, tile::narrow_pack<T>(v));
      }
    }
  }
}

// Anything: one piece of code serves all of a lane's vectors, which move up to its place one after the other. Laid out
// like the above it would be ten times as long, and take registers from the multiplication.
template <class T, int kBn>
__device__ __forceinline__ void store_anything(const Params& p, const Place& at, int first_filter,
                                               float (&sums)[2][kBn / 8][4]) {
  constexpr int kVec = kVector<T>;
  constexpr int kGroups = kBn / (4 * kVec);
#pragma unroll 1
  for (int vector = 0; vector < 4 * kGroups; ++vector) {
    float v[kVec];
    take_vector<T, kBn>(sums, 0, 0, 0, v);
#pragma unroll
    for (int to = 0; to + 1 < 4 * kGroups; ++to) {
      const int from = to + 1;
#pragma unroll
      for (int j = 0; j < kVec; ++j) {
        sums[to / (2 * kGroups)][to % kGroups * (kVec / 2) + j / 2][to / kGroups % 2 * 2 + j % 2] =
            sums[from / (2 * kGroups)][from % kGroups * (kVec / 2) + j / 2][from / kGroups % 2 * 2 + j % 2];
      }
    }
    const auto place =
        place_of_vector<T>(p, at, first_filter, vector / (2 * kGroups), vector / kGroups % 2, vector % kGroups);
    if (!place.inside) continue;
    if (p.out_vectors) {
      combine_vector<T>(p, place, v);
    } else {
      combine_elements<T>(p, place, v);
    }
    gemm::activate<1>(p.activation, sizeof(T) == 2, v);
    if (p.out_vectors) {
      tile::store_pack<T, kVec>(place.out, tile::narrow_pack<T>(v));
    } else {
#pragma unroll
      for (int j = 0; j < kVec; ++j) {
        if (place.f + j < p.filters) place.out[j * p.ys.c] = tile::narrow<T>(v[j]);
      }
    }
  }
}

template <class T, int kBn, int kMinBlocks>
__global__ void __launch_bounds__(kForwardThreads, kMinBlocks) small_c_fwd(const __grid_constant__ Params p) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  extern __shared__ __align__(16) unsigned char storage[];
  auto* const filter = reinterpret_cast<std::uint32_t*>(storage);
  auto* const table = reinterpret_cast<uint4*>(storage + p.k_steps * 8 * kBn * 4);
  unsigned char* const patches = storage + p.k_steps * (8 * kBn * 4 + 64);
  const int first_filter = static_cast<int>(blockIdx.x % p.n_tiles) * kBn;
  const std::uint32_t step = gridDim.x / p.n_tiles;
  std::uint32_t tile = blockIdx.x / p.n_tiles;

  Place at = place_of(p, tile);
  stage_patch<T, kForwardThreads>(p, at, patches);
  ptx::cp_async_commit_group();
  pack_forward_filter<T, kBn>(p, first_filter, filter);
  set_word_table<T>(p, table);

  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  int begin[2][2];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    begin[i / 2][i % 2] = window_begin(p, elements_of_word(kTypeOf<T>), warp * 32 + i * 8 + lane / 4);
  }

  const bool simple =
      p.out_vectors && (p.activation.mode == gemm::Activation::identity || p.activation.mode == gemm::Activation::relu);
  int buffer = 0;
  while (true) {
    const std::uint32_t next = tile + step;
    Place next_at = {};
    if (next < p.tiles) {
      next_at = place_of(p, next);
      stage_patch<T, kForwardThreads>(p, next_at, patches + (buffer ^ 1) * p.patch.bytes);
    }
    ptx::cp_async_commit_group();
    ptx::cp_async_wait_group<1>();
    __syncthreads();

    float sums[2][kBn / 8][4] = {};
    multiply_forward<T, kBn>(p, patches + buffer * p.patch.bytes, table, reinterpret_cast<const uint4*>(filter), begin,
                             sums);
    if (simple) {
      store_vectors<T, kBn>(p, at, first_filter, sums);
    } else {
      store_anything<T, kBn>(p, at, first_filter, sums);
    }
    if (next >= p.tiles) return;
    __syncthreads();  // the patch just used is overwritten next
    tile = next;
    at = next_at;
    buffer ^= 1;
  }
#endif
}

template <int kRow>
void launch_forward_row(const Params& params, CUstream_st* stream) {
  constexpr TileRow row = kTiles[kRow];
  constexpr auto kKernel = &small_c_fwd<StorageOf<row.type>, row.columns, row.min_blocks>;
  cuda::allow_shared_memory<kKernel>(cuda::kAllThatABlockMayHave, true);
  cuda::launch_kernel(kKernel, {params.blocks, kForwardThreads, params.shared_bytes}, stream, params);
}

}  // namespace gpudnn::kernels::small_c
