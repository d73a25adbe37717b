// The Hopper implicit GEMM's epilogue: fragments are combined, rounded, staged in shared memory and stored; or kept as
// partial sums of a split reduction, which a second kernel joins.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/launch/launch.hpp"
#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_work.cuh"
#include "kernels/gemm/epilogue/activation.cuh"
#include "kernels/gemm/epilogue/channel_value.cuh"
#include "kernels/gemm/epilogue/pair_relu.cuh"
#include "kernels/gemm/epilogue/with_number.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/ptx/stmatrix.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/tile/numeric.cuh"
#include "kernels/tile/quads.cuh"

namespace gpudnn::kernels::sm90 {

// Two neighbouring elements, as they lie in memory.
template <class T>
using PairBits = typename tile::VectorOf<2 * sizeof(T)>::type;

template <class T>
__device__ __forceinline__ PairBits<T> pack_pair(float low, float high) {
  const float values[2] = {low, high};
  const tile::Pack<T, 2> pack = tile::narrow_pack<T>(values);
  PairBits<T> bits;
  memcpy(&bits, &pack, sizeof bits);
  return bits;
}

template <class T>
__device__ __forceinline__ void add_pair(float scale, const PairBits<T>& addend, float* low, float* high) {
  tile::Pack<T, 2> pack;
  memcpy(&pack, &addend, sizeof pack);
  *low += scale * tile::widen<float>(pack.get(0));
  *high += scale * tile::widen<float>(pack.get(1));
}

// Where 16 bytes number `vector` of a row of 128 lie in the staging area: spread over the banks.
template <int kBytes = kRowBytes>
__device__ __forceinline__ int staged(int row, int vector) {
  const int spread = kBytes == kRowBytes ? row & 7 : row >> 1 & 3;
  return row * kBytes + ((vector ^ spread) << 4);
}

// Where the pair of columns 8 * group + 2 * (lane % 4) of a row lies there.
template <class T, int kBytes = kRowBytes>
__device__ __forceinline__ PairBits<T>* staged_pair(unsigned char* staging, int row, int group, int lane) {
  const int byte = (8 * group + lane % 4 * 2) * static_cast<int>(sizeof(T));
  return reinterpret_cast<PairBits<T>*>(staging + staged<kBytes>(row, byte / 16) + byte % 16);
}

using gemm::PairRelu;
template <class T, PairRelu kRelu>
__device__ __forceinline__ PairBits<T> pack_pair(float low, float high) {
  if constexpr (kRelu == PairRelu::none) {
    return pack_pair<T>(low, high);
  } else {
    return gemm::round_pair<T, kRelu>(low, high);
  }
}

// Rounds the fragments of 64 rows x 128 bytes into the staging area.
template <class T, int kBytes = kRowBytes, PairRelu kRelu = PairRelu::none>
__device__ __forceinline__ void stage_fragments(unsigned char* staging, int thread, const float* v) {
  constexpr int kGroups = kBytes / static_cast<int>(sizeof(T)) / 8;
  const int lane = thread % 32;
  if constexpr (sizeof(T) == 2) {
    // Two groups of 8 columns at a time: lanes 0-7 and 8-15 give the rows of the first one, the others of the second.
    const int row = thread / 32 * 16 + lane % 16;
    const std::uint32_t base = ptx::shared_address(staging);
#pragma unroll
    for (int j = 0; j < kGroups; j += 2) {
      ptx::stmatrix_x4(base + static_cast<std::uint32_t>(staged<kBytes>(row, j + lane / 16)),
                       pack_pair<T, kRelu>(v[4 * j], v[4 * j + 1]), pack_pair<T, kRelu>(v[4 * j + 2], v[4 * j + 3]),
                       pack_pair<T, kRelu>(v[4 * j + 4], v[4 * j + 5]),
                       pack_pair<T, kRelu>(v[4 * j + 6], v[4 * j + 7]));
    }
  } else {
    const int row = thread / 32 * 16 + lane / 4;
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
      *staged_pair<T, kBytes>(staging, row, j, lane) = pack_pair<T>(v[4 * j], v[4 * j + 1]);
      *staged_pair<T, kBytes>(staging, row + 8, j, lane) = pack_pair<T>(v[4 * j + 2], v[4 * j + 3]);
    }
  }
}

// TMA takes the staged 64 rows x 128 bytes to C.
__device__ __forceinline__ void store_box(const Params& p, unsigned char* staging, int barrier,
                                          const ColumnChunk& columns, std::uint32_t m) {
  ptx::fence_proxy_async();
  // The chunk before lies in the other area: whoever passes the barrier may write there.
  if (threadIdx.x % 128 == 0) ptx::bulk_wait_group_read<0>();
  ptx::barrier_sync(barrier, 128);
  if (threadIdx.x % 128 == 0) {
    ptx::tma_store_tile_3d(&p.c_map, staging, columns.x, columns.y, static_cast<std::int32_t>(m));
    ptx::bulk_commit_group();
  }
}

// Rows of a chunk that a thread meets: 128 threads take 16 bytes each.
template <class I>
constexpr int kPasses = 64 * I::kChunkBytes / 16 / 128;

// Only forward has more on its epilogue than a sum and what C holds.
template <class I>
constexpr bool kHasActivation = I::kDirection == Direction::forward;

// The addend by way of the staging area: in by rows, out by fragments.
template <class I, int kSums>
__device__ __forceinline__ void add_chunk(const Params& p, unsigned char* staging, int barrier, const Work& work,
                                          std::uint32_t first_row, const ColumnChunk& columns, float (&v)[kSums]) {
  using T = typename I::T;
  constexpr int kVectors = I::kChunkBytes / 16;  // of a row
  constexpr int kRowsAtOnce = 128 / kVectors;
  const int thread = static_cast<int>(threadIdx.x % 128);
  const int lane = thread % 32;
  const int my_vector = thread % kVectors;
  const bool my_vector_exists = my_vector * 16 / static_cast<int>(sizeof(T)) < columns.valid;
#pragma unroll
  for (int i = 0; i < kPasses<I>; ++i) {
    const std::uint32_t m = first_row + static_cast<std::uint32_t>(thread / kVectors + kRowsAtOnce * i);
    const std::int64_t row = row_offset<I>(p, work, m, p.addend_step, p.addend_is_even);
    if (!my_vector_exists || row < 0) continue;
    const auto* const from =
        reinterpret_cast<const uint4*>(static_cast<const char*>(p.addend) + row + columns.offset + my_vector * 16);
    *reinterpret_cast<uint4*>(staging + staged<I::kChunkBytes>(thread / kVectors + kRowsAtOnce * i, my_vector)) = *from;
  }
  ptx::barrier_sync(barrier, 128);
  const int my_row = thread / 32 * 16 + lane / 4;
#pragma unroll
  for (int j = 0; j < kSums / 4; ++j) {
    add_pair<T>(p.addend_scale, *staged_pair<T, I::kChunkBytes>(staging, my_row, j, lane), &v[4 * j], &v[4 * j + 1]);
    add_pair<T>(p.addend_scale, *staged_pair<T, I::kChunkBytes>(staging, my_row + 8, j, lane), &v[4 * j + 2],
                &v[4 * j + 3]);
  }
  ptx::barrier_sync(barrier, 128);
}

// 64 rows x 128 bytes of C, from alpha times the fragments of a warpgroup through the staging area to rows in memory:
// f(alpha * scale * sum + addend_scale * addend + bias). Steps that a call does not need cost one branch.
template <class I, int kSums>
__device__ __forceinline__ void store_chunk(const Params& p, const Work& work, unsigned char* staging, int barrier,
                                            float (&v)[kSums], const ColumnChunk& columns, std::uint32_t first_row) {
  using T = typename I::T;
  constexpr int kGroups = kSums / 4;
  constexpr int kVectors = I::kChunkBytes / 16;  // of a row
  constexpr int kRowsAtOnce = 128 / kVectors;
  const int thread = static_cast<int>(threadIdx.x % 128);
  const int inside = thread % 4 * 2;
  const std::int64_t channel = static_cast<std::int64_t>(work.group) * p.group_columns + columns.first + inside;
  if constexpr (kHasActivation<I>) {
    if (p.has_scale) {
      gemm::for_each_channel_pair<T, kGroups>(p.scale, channel, p.scale_step, p.float_vectors, columns.valid - inside,
                                              [&v](int j, float low, float high) {
                                                v[4 * j] *= low;
                                                v[4 * j + 1] *= high;
                                                v[4 * j + 2] *= low;
                                                v[4 * j + 3] *= high;
                                              });
    }
  }
  if (p.addend_scale != 0.0f) add_chunk<I>(p, staging, barrier, work, first_row, columns, v);
  if constexpr (kHasActivation<I>) {
    if (p.has_bias) {
      gemm::for_each_channel_pair<T, kGroups>(p.bias, channel, p.bias_step, p.float_vectors, columns.valid - inside,
                                              [&v](int j, float low, float high) {
                                                v[4 * j] += low;
                                                v[4 * j + 1] += high;
                                                v[4 * j + 2] += low;
                                                v[4 * j + 3] += high;
                                              });
    }
    gemm::activate(p.activation, sizeof(T) == 2, v);
  }
  stage_fragments<T, I::kChunkBytes>(staging, thread, v);
  if (p.stores_boxes) {
    return store_box(p, staging, barrier, columns,
                     I::kIsFilterGradient ? work.group * p.group_columns + first_row : first_row);
  }
  ptx::barrier_sync(barrier, 128);
  const int my_vector = thread % kVectors;
  if (my_vector * 16 / static_cast<int>(sizeof(T)) >= columns.valid) return;
#pragma unroll
  for (int i = 0; i < kPasses<I>; ++i) {
    const int at = thread / kVectors + kRowsAtOnce * i;
    const std::int64_t row = row_offset<I>(p, work, first_row + static_cast<std::uint32_t>(at), p.c_step, p.c_is_even);
    if (row < 0) continue;
    const uint4 bits = *reinterpret_cast<const uint4*>(staging + staged<I::kChunkBytes>(at, my_vector));
    ptx::st_global(reinterpret_cast<uint4*>(static_cast<char*>(p.c) + row + columns.offset + my_vector * 16), bits);
  }
}

// The chunks of a block of 64 rows, from number `first_chunk` of the tile on. C = sums, in boxes: nothing to combine,
// so little code, in one piece. A block meets its code for the first time here and waits for each line of it.
template <class I, int kChunks>
__device__ __forceinline__ void store_plain(const Params& p, Shared<I>& shared, const Work& work, int consumer,
                                            int row_block, int first_chunk, const float* sum, int* area) {
  const std::uint32_t first = work.m * I::kBM + static_cast<std::uint32_t>(row_block * 64);
  const std::uint32_t box_row = I::kIsFilterGradient ? work.group * p.group_columns + first : first;
#pragma unroll
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    const ColumnChunk columns = column_chunk<I>(p, work, first_chunk + chunk);
    if (columns.valid <= 0) break;
    unsigned char* const staging = shared.staging[consumer][*area];
    stage_fragments<typename I::T, I::kChunkBytes>(staging, static_cast<int>(threadIdx.x % 128),
                                                   sum + chunk * I::kChunkElements / 2);
    store_box(p, staging, kStagingBarrier + consumer, columns, box_row);
    *area ^= 1;
  }
}

// The same for a whole tile, two chunks at once: with one at a time each waits until TMA has read the one
// before it. Measured: 1 to 5 % less where 16-bit tiles leave between products of the same warpgroups. In ping-pong the
// stores, which come in bursts then, hold up the loads of the tile that is multiplied meanwhile, but for narrow tiles.
template <class I>
constexpr bool kStoresPairs = !I::kIsFilterGradient && sizeof(typename I::T) == 2 && (!I::kPingPong || I::kBN == 64) &&
                              I::kRowBlocks * (I::kBN / I::kChunkElements) > 1;

template <class I, int kChunks>
__device__ __forceinline__ void store_pairs(const Params& p, Shared<I>& shared, const Work& work, int consumer,
                                            int first_block, const float (&sum)[I::kRowBlocks][I::kBN / 2]) {
  constexpr int kAll = I::kRowBlocks * kChunks;
  const auto box_row = static_cast<std::int32_t>(work.m * I::kBM) + first_block * 64;
  const int barrier = kStagingBarrier + consumer;
  const bool leads = threadIdx.x % 128 == 0;
#pragma unroll
  for (int begin = 0; begin < kAll; begin += 2) {
    if (leads) ptx::bulk_wait_group_read<0>();
    ptx::barrier_sync(barrier, 128);
#pragma unroll
    for (int i = begin; i < kAll && i < begin + 2; ++i) {
      stage_fragments<typename I::T, I::kChunkBytes>(shared.staging[consumer][i - begin],
                                                     static_cast<int>(threadIdx.x % 128),
                                                     sum[i / kChunks] + i % kChunks * I::kChunkElements / 2);
    }
    ptx::fence_proxy_async();
    ptx::barrier_sync(barrier, 128);
    if (!leads) continue;
#pragma unroll
    for (int i = begin; i < kAll && i < begin + 2; ++i) {
      const ColumnChunk columns = column_chunk<I>(p, work, i % kChunks);
      if (columns.valid <= 0) continue;
      ptx::tma_store_tile_3d(&p.c_map, shared.staging[consumer][i - begin], columns.x, columns.y,
                             box_row + i / kChunks * 64);
    }
    ptx::bulk_commit_group();
  }
}

// The chunks of a block of 64 rows where C's rows lie apart, as those of a data gradient with strides: 16-byte stores.
// Where a row lies takes divisions, so that is found once for all its chunks.
template <class I, int kChunks>
__device__ __forceinline__ void store_plain_rows(const Params& p, Shared<I>& shared, const Work& work, int consumer,
                                                 int row_block, const float* sum, int* area) {
  using T = typename I::T;
  constexpr int kVectors = I::kChunkBytes / 16;  // of a row
  constexpr int kRowsAtOnce = 128 / kVectors;
  const int thread = static_cast<int>(threadIdx.x % 128);
  const int my_vector = thread % kVectors;
  const std::uint32_t first = work.m * I::kBM + static_cast<std::uint32_t>(row_block * 64 + thread / kVectors);
  std::int64_t row[kPasses<I>];
#pragma unroll
  for (int i = 0; i < kPasses<I>; ++i)
    row[i] = row_offset<I>(p, work, first + static_cast<std::uint32_t>(kRowsAtOnce * i), p.c_step, p.c_is_even);
#pragma unroll
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    const ColumnChunk columns = column_chunk<I>(p, work, chunk);
    if (columns.valid <= 0) break;
    // Two areas in turn: whoever writes to one has passed a barrier that its last readers reached before.
    unsigned char* const staging = shared.staging[consumer][*area];
    stage_fragments<T, I::kChunkBytes>(staging, thread, sum + chunk * I::kChunkElements / 2);
    *area ^= 1;
    ptx::barrier_sync(kStagingBarrier + consumer, 128);
    if (my_vector * 16 / static_cast<int>(sizeof(T)) >= columns.valid) continue;
#pragma unroll
    for (int i = 0; i < kPasses<I>; ++i) {
      if (row[i] < 0) continue;
      const uint4 bits = *reinterpret_cast<const uint4*>(
          staging + staged<I::kChunkBytes>(thread / kVectors + kRowsAtOnce * i, my_vector));
      ptx::st_global(reinterpret_cast<uint4*>(static_cast<char*>(p.c) + row[i] + columns.offset + my_vector * 16),
                     bits);
    }
  }
}

// v = alpha * the sums of chunk number `number` of all of a thread's.
template <int kChunks, int kBlocks, int kSums, int kChunkSums>
__device__ __forceinline__ void take_chunk(float alpha, const float (&sum)[kBlocks][kSums], int number,
                                           float (&v)[kChunkSums]) {
  static_assert(kChunks * kChunkSums == kSums, "chunks hold all sums");
  gemm::with_number<kBlocks * kChunks>(number, [&](auto chunk) {
#pragma unroll
    for (int i = 0; i < kChunkSums; ++i) v[i] = alpha * sum[chunk / kChunks][chunk % kChunks * kChunkSums + i];
  });
}

// kBlocks blocks of 64 rows, kChunks chunks of each. One piece of code serves all chunks: the functions of the epilogue
// stand in it once.
template <class I, int kBlocks, int kChunks, int kSums>
__device__ __forceinline__ void store_combined(const Params& p, Shared<I>& shared, const Work& work, int consumer,
                                               int first_block, int first_chunk, const float (&sum)[kBlocks][kSums],
                                               int* area) {
#pragma unroll 1
  for (int number = 0; number < kBlocks * kChunks; ++number) {
    const ColumnChunk columns = column_chunk<I>(p, work, first_chunk + number % kChunks);
    if (columns.valid <= 0) continue;
    float v[I::kChunkElements / 2];
    take_chunk<kChunks>(p.alpha, sum, number, v);
    // Two areas in turn: whoever writes to one has passed a barrier that its last readers reached before.
    store_chunk<I>(p, work, shared.staging[consumer][*area], kStagingBarrier + consumer, v, columns,
                   work.m * I::kBM + static_cast<std::uint32_t>((first_block + number / kChunks) * 64));
    *area ^= 1;
  }
}

template <class I>
__device__ __forceinline__ void store(const Params& p, Shared<I>& shared, const Work& work, int consumer,
                                      const float (&sum)[I::kRowBlocks][I::kBN / 2], int* area) {
  constexpr int kChunks = I::kBN / I::kChunkElements;
  const int first_block = I::kPingPong ? 0 : consumer * I::kRowBlocks;
  if constexpr (I::kDirection == Direction::data_gradient) {
    if (p.is_plain && !p.stores_boxes) {
#pragma unroll
      for (int block = 0; block < I::kRowBlocks; ++block)
        store_plain_rows<I, kChunks>(p, shared, work, consumer, first_block + block, sum[block], area);
      return;
    }
  }
  if (kIsPlain<I> || (!kHasFusedEpilogue<I> && p.is_plain && p.stores_boxes)) {
    if constexpr (kStoresPairs<I>) {
      store_pairs<I, kChunks>(p, shared, work, consumer, first_block, sum);
    } else {
#pragma unroll
      for (int block = 0; block < I::kRowBlocks; ++block) {
        store_plain<I, kChunks>(p, shared, work, consumer, first_block + block, 0, sum[block], area);
      }
    }
    return;
  }
  if constexpr (!kIsPlain<I>)
    store_combined<I, I::kRowBlocks, kChunks>(p, shared, work, consumer, first_block, 0, sum, area);
}

// Sums keep the order of the fragments: four of a thread together, then the threads of a warpgroup.
template <class I>
__device__ __forceinline__ void store_quads(float4* tile, int consumer, const float (&sum)[I::kRowBlocks][I::kBN / 2]) {
  float4* const quads = tile + threadIdx.x % 128;
#pragma unroll
  for (int block = 0; block < I::kRowBlocks; ++block) {
    const int row_block = (I::kPingPong ? 0 : consumer * I::kRowBlocks) + block;
#pragma unroll
    for (int j = 0; j < I::kBN / 8; ++j) {
      quads[(row_block * (I::kBN / 8) + j) * 128] =
          make_float4(sum[block][4 * j], sum[block][4 * j + 1], sum[block][4 * j + 2], sum[block][4 * j + 3]);
    }
  }
}

// Params and Work: the implicit GEMM's, or those of one that counts tiles and splits alike.
template <class I, class Params, class Work>
__device__ __forceinline__ void store_partials(const Params& p, const Work& work, int consumer,
                                               const float (&sum)[I::kRowBlocks][I::kBN / 2]) {
  const std::size_t tile = static_cast<std::size_t>(work.split) * p.works.divisor + work.tile;
  store_quads<I>(reinterpret_cast<float4*>(p.partials + tile * (I::kBM * I::kBN)), consumer, sum);
}

// alpha * scale * sum + addend_scale * addend + bias of two neighbouring columns of a row: what store_chunk does,
// without the staging.
template <class I>
__device__ __forceinline__ void combine_pair(const Params& p, const Work& work, const ColumnChunk& columns, int column,
                                             std::int64_t addend_at, float* low, float* high) {
  using T = typename I::T;
  const std::int64_t channel = static_cast<std::int64_t>(work.group) * p.group_columns + columns.first + column;
  *low *= p.alpha;
  *high *= p.alpha;
  if constexpr (kHasActivation<I>) {
    if (p.has_scale) {
      *low *= gemm::channel_value<T>(p.scale, channel * p.scale_step, p.float_vectors);
      *high *= gemm::channel_value<T>(p.scale, (channel + 1) * p.scale_step, p.float_vectors);
    }
  }
  if (p.addend_scale != 0.0f) {
    add_pair<T>(p.addend_scale, *reinterpret_cast<const PairBits<T>*>(static_cast<const char*>(p.addend) + addend_at),
                low, high);
  }
  if constexpr (kHasActivation<I>) {
    if (p.has_bias) {
      *low += gemm::channel_value<T>(p.bias, channel * p.bias_step, p.float_vectors);
      *high += gemm::channel_value<T>(p.bias, (channel + 1) * p.bias_step, p.float_vectors);
    }
  }
}

// Where four sums belong, number `inside` of a tile in the order of store_quads: two neighbours of two rows each.
struct QuadPlace {
  ColumnChunk columns;
  int column;  // of the chunk
  std::int64_t row[2];
  std::int64_t addend_row[2];
};
template <class I>
__device__ __forceinline__ QuadPlace place_of_quad(const Params& p, const Work& work, std::uint32_t inside) {
  const std::uint32_t thread = inside % 128;
  const std::uint32_t group_of_8 = inside / 128 % (I::kBN / 8);
  const std::uint32_t row_block = inside / 128 / (I::kBN / 8);
  constexpr std::uint32_t kGroups = I::kChunkElements / 8;
  QuadPlace place;
  place.columns = column_chunk<I>(p, work, static_cast<int>(group_of_8 / kGroups));
  place.column = static_cast<int>(group_of_8 % kGroups * 8 + thread % 4 * 2);
#pragma unroll
  for (std::uint32_t half = 0; half < 2; ++half) {
    const std::uint32_t m = work.m * I::kBM + I::row_of_fragment(row_block, thread, half);
    place.row[half] =
        place.column < place.columns.valid ? row_offset<I>(p, work, m, p.c_step, p.c_is_even) : std::int64_t{-1};
    place.addend_row[half] = p.addend_scale != 0.0f ? row_offset<I>(p, work, m, p.addend_step, p.addend_is_even) : 0;
  }
  return place;
}

template <class I>
__device__ __forceinline__ void finish_quad(const Params& p, const Work& work, const QuadPlace& place,
                                            const float4& sum) {
  using T = typename I::T;
  float v[4] = {sum.x, sum.y, sum.z, sum.w};
  const std::int64_t offset = place.columns.offset + place.column * static_cast<std::int64_t>(sizeof(T));
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (place.row[half] < 0) continue;
    combine_pair<I>(p, work, place.columns, place.column, place.addend_row[half] + offset, &v[2 * half],
                    &v[2 * half + 1]);
  }
  if constexpr (kHasActivation<I>) gemm::activate<1>(p.activation, sizeof(T) == 2, v);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (place.row[half] < 0) continue;
    *reinterpret_cast<PairBits<T>*>(static_cast<char*>(p.c) + place.row[half] + offset) =
        pack_pair<T>(v[2 * half], v[2 * half + 1]);
  }
}

constexpr int kReduceThreads = 256;

// A quad of the tiles, and whose it is to store.
struct QuadOfTiles {
  std::size_t quad;
  bool stores;
  float4 sum;
};
// Joins the splits in order: a thread sums a quad over every `lanes`-th split, and the lanes of an element add up as a
// tree.
__device__ __forceinline__ QuadOfTiles sum_quad(const float* partials, std::size_t count, std::uint32_t splits,
                                                int lanes) {
  const int columns = kReduceThreads / lanes;
  const int column = static_cast<int>(threadIdx.x) % columns;
  const int lane = static_cast<int>(threadIdx.x) / columns;
  const std::size_t quad =
      static_cast<std::size_t>(blockIdx.x) * static_cast<std::size_t>(columns) + static_cast<std::size_t>(column);
  float4 sum = make_float4(0, 0, 0, 0);
  if (quad < count) {
    sum = tile::sum_of_splits(reinterpret_cast<const float4*>(partials) + quad, count, splits, lane, lanes);
  }
  sum = tile::sum_of_lanes<kReduceThreads>(sum, lane, lanes, columns);
  return {quad, lane == 0 && quad < count, sum};
}

template <class I>
__global__ void __launch_bounds__(kReduceThreads) reduce_splits(const __grid_constant__ Params p, int lanes) {
  constexpr std::uint32_t kTileQuads = I::kBM * I::kBN / 4;
  const std::size_t count = static_cast<std::size_t>(p.works.divisor) * kTileQuads;
  const QuadOfTiles mine = sum_quad(p.partials, count, p.splits, lanes);
  if (!mine.stores) return;
  const Work work = work_item<I>(p, static_cast<std::uint32_t>(mine.quad / kTileQuads));
  finish_quad<I>(p, work, place_of_quad<I>(p, work, static_cast<std::uint32_t>(mine.quad % kTileQuads)), mine.sum);
}

// The same where a thread has four splits and more: it asks for eight of them before all else, and finds out meanwhile
// where their sum belongs. lanes * columns are the threads, and both powers of two.
template <class I>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_many_splits(const __grid_constant__ Params p, int lanes, int columns) {
  constexpr std::uint32_t kTileQuads = I::kBM * I::kBN / 4;
  constexpr std::uint32_t kAtOnce = 8;
  const int column = static_cast<int>(threadIdx.x) & (columns - 1);
  const int lane = static_cast<int>(threadIdx.x) * lanes / kReduceThreads;
  const std::size_t count = static_cast<std::size_t>(p.works.divisor) * kTileQuads;
  const std::size_t quad =
      static_cast<std::size_t>(blockIdx.x) * static_cast<std::size_t>(columns) + static_cast<std::size_t>(column);
  const std::size_t here = quad < count ? quad : count - 1;
  const auto* const first = reinterpret_cast<const float4*>(p.partials) + here;
  const auto step = static_cast<std::uint32_t>(lanes);
  auto s = static_cast<std::uint32_t>(lane);
  float4 part[kAtOnce];
#pragma unroll
  for (std::uint32_t i = 0; i < kAtOnce; ++i) {
    part[i] = s + i * step < p.splits ? first[(s + i * step) * count] : make_float4(0, 0, 0, 0);
  }
  const Work work = work_item<I>(p, static_cast<std::uint32_t>(here / kTileQuads));
  QuadPlace place = place_of_quad<I>(p, work, static_cast<std::uint32_t>(here % kTileQuads));
  ptx::pin(&place.row[0]);
  ptx::pin(&place.row[1]);
  float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
  for (std::uint32_t i = 0; i < kAtOnce; ++i) tile::add_to(&sum, part[i]);
#pragma unroll 8
  for (s += kAtOnce * step; s < p.splits; s += step) tile::add_to(&sum, first[s * count]);
  sum = tile::sum_of_lanes<kReduceThreads>(sum, lane, lanes, columns);
  if (lane == 0 && quad < count) finish_quad<I>(p, work, place, sum);
}

// Lanes that share an element: enough threads to fill a device while splits last.
inline int lanes_of_reduction(std::size_t quads, std::uint32_t splits) {
  constexpr std::size_t kThreadsToFill = std::size_t{1} << 17;
  constexpr int kMaximum = 64;
  int lanes = 1;
  while (lanes < kMaximum && static_cast<std::uint32_t>(2 * lanes) <= splits &&
         quads * static_cast<std::size_t>(lanes) < kThreadsToFill) {
    lanes *= 2;
  }
  return lanes;
}

struct ReductionLaunch {
  int lanes;
  cuda::LaunchConfig config;
};
inline ReductionLaunch reduction_launch(std::uint32_t tiles, int elements_of_tile, std::uint32_t splits) {
  const std::size_t quads = static_cast<std::size_t>(tiles) * static_cast<std::size_t>(elements_of_tile / 4);
  const int lanes = lanes_of_reduction(quads, splits);
  const auto columns = static_cast<std::size_t>(kReduceThreads / lanes);
  return {lanes, {static_cast<unsigned>((quads + columns - 1) / columns), kReduceThreads}};
}

// The second kernel of a split reduction.
template <class I>
void launch_reduction(const Params& params, CUstream_st* stream) {
  const auto [lanes, config] = reduction_launch(params.works.divisor, I::kBM * I::kBN, params.splits);
  // Of the large tiles alone, which long reductions take.
  if constexpr (I::kIsFilterGradient && sizeof(typename I::T) == 2 && I::kBM == 128 && I::kBN >= 128) {
    if (params.splits >= 4 * static_cast<std::uint32_t>(lanes)) {
      cuda::launch_kernel(&reduce_many_splits<I>, config, stream, params, lanes, kReduceThreads / lanes);
      return;
    }
  }
  cuda::launch_kernel(&reduce_splits<I>, config, stream, params, lanes);
}

}  // namespace gpudnn::kernels::sm90
