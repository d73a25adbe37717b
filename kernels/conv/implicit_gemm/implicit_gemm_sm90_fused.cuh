// The Hopper implicit GEMM's epilogue of forward in 16 bits for what layers have: f(alpha * sum + addend_scale * addend
// + bias), f being identity, ReLU or a curve of rounded_math.cuh, C and the addend in boxes.
//
//   bias     a value for each column of the tile: asked for before the tile is multiplied, then in shared memory as
//            floats (swap-AB: in registers). Loads of each chunk's bias in the epilogue took 700 cycles each.
//   addend   the producer asks for its boxes into the L2 as it begins the tile's loads; TMA brings them into the
//   staging
//            area while the tile is multiplied. Each warp reads what it then overwrites, as fragments.
//   f        one branch for the values of a chunk
//
// What most layers have, a bias and ReLU, costs next to nothing (`starts_with_bias`): the sums begin with the bias,
// which stays in shared memory while a block's tiles have the same columns, and ReLU is part of the instruction that
// rounds.
//
//   sums     of the results by channel, where the call asks for them: implicit_gemm_sm90_sums.cuh
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_sums.cuh"
#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_swap_ab.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/prefetch_tile.cuh"
#include "kernels/tile/stage_ring.cuh"

namespace gpudnn::kernels::sm90 {

// What a consumer knows of its tile's addends before the sums.
template <class I>
struct Addends {
  static constexpr int kBiases = I::kSwapped ? 2 * I::kRowBlocks : (I::kBN + 127) / 128;
  std::uint32_t bias[kBiases];  // as they lie in memory; where the sums begin with it, the next tile's
  // A bit for each staging area: of the addend that comes next. Where the sums begin with the bias: number of the
  // columns whose bias is here, in shared memory or, of swap-AB, in `value`.
  std::uint32_t parity = 0;
  float value[I::kSwapped ? 2 : 1];
};

// --- bias ------------------------------------------------------------------------------------------------------------

// The bits of the bias of column `column` of the tile; 0 where there is none. Nothing waits for them here.
template <class I>
__device__ __forceinline__ std::uint32_t bias_bits(const Params& p, const Work& work, int column) {
  const int in_group = static_cast<int>(work.n) * I::kColumnsOfC + column;
  if (!p.has_bias || in_group >= static_cast<int>(p.n_count)) return 0;
  const void* const at = static_cast<const char*>(p.bias) +
                         (static_cast<std::int64_t>(work.group) * p.group_columns + in_group) * p.bias_step;
  return p.float_vectors ? *static_cast<const std::uint32_t*>(at) : *static_cast<const std::uint16_t*>(at);
}
template <class T>
__device__ __forceinline__ float bias_value(std::uint32_t bits, bool is_float) {
  return is_float ? __uint_as_float(bits) : tile::widen<float>(tile::half_of<T>(bits, 0));
}

template <class I>
__device__ __forceinline__ void fetch_bias(const Params& p, const Work& work, int consumer, Addends<I>* addends) {
  const int thread = static_cast<int>(threadIdx.x % 128);
#pragma unroll
  for (int i = 0; i < Addends<I>::kBiases; ++i) {
    int column = thread + 128 * i;
    if constexpr (I::kSwapped) {
      column = (consumer * I::kRowBlocks + i / 2) * 64 + thread / 32 * 16 + thread % 32 / 4 + i % 2 * 8;
    }
    addends->bias[i] = column < I::kColumnsOfC ? bias_bits<I>(p, work, column) : 0;
  }
}

// Of the columns of a tile, from 1 on.
template <class I>
__device__ __forceinline__ std::uint32_t number_of_columns(const Params& p, const Work& work) {
  return work.group * p.n_tiles.divisor + work.n + 1;
}
template <class I>
__device__ __forceinline__ void fetch_first_bias(const Params& p, std::uint32_t index, int consumer,
                                                 Addends<I>* addends) {
  if (!p.has_bias || index >= end_index<I>(p)) return;
  const Work work = work_item<I>(p, index);
  if (number_of_columns<I>(p, work) != addends->parity) fetch_bias<I>(p, work, consumer, addends);
}

// sum = bias; `next` is the index of the consumer's next tile.
template <class I>
__device__ __forceinline__ void begin_with_bias(const Params& p, Shared<I>& shared, const Work& work,
                                                std::uint32_t next, int consumer, Addends<I>* addends,
                                                float (&sum)[I::kRowBlocks][I::kBN / 2]) {
  using T = typename I::T;
  const std::uint32_t columns = number_of_columns<I>(p, work);
  const bool changes = addends->parity != columns;
  addends->parity = columns;
  if constexpr (I::kSwapped) {
    static_assert(I::kRowBlocks == 1, "two channels of a thread");
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (changes) addends->value[i] = bias_value<T>(addends->bias[i], p.float_vectors);
    }
#pragma unroll
    for (int i = 0; i < I::kBN / 2; ++i) sum[0][i] = addends->value[i % 4 / 2];
  } else {
    const int thread = static_cast<int>(threadIdx.x % 128);
    if (changes) {
      const int barrier = kStagingBarrier + consumer;
      ptx::barrier_sync(barrier, 128);  // all have read those of the columns before
#pragma unroll
      for (int i = 0; i < Addends<I>::kBiases; ++i) {
        if (thread + 128 * i < I::kBN)
          shared.bias[consumer][thread + 128 * i] = bias_value<T>(addends->bias[i], p.float_vectors);
      }
      ptx::barrier_sync(barrier, 128);
    }
    const float* const mine = shared.bias[consumer] + thread % 4 * 2;
#pragma unroll
    for (int i = 0; i < I::kBN / 2; i += 4) {
      const float2 pair = *reinterpret_cast<const float2*>(mine + 2 * i);
#pragma unroll
      for (int block = 0; block < I::kRowBlocks; ++block) {
        sum[block][i] = sum[block][i + 2] = pair.x;
        sum[block][i + 1] = sum[block][i + 3] = pair.y;
      }
    }
  }
  fetch_first_bias<I>(p, next, consumer, addends);
}

// --- addend ----------------------------------------------------------------------------------------------------------

// Chunks of C that a consumer stores: kChunks of 64 rows each, or with swap-AB columns for all rows of the tile.
template <class I>
constexpr int kChunksOfRow = I::kSwapped ? 1 : I::kBN / I::kChunkElements;
template <class I>
constexpr int kChunksOfConsumer = I::kRowBlocks* kChunksOfRow<I>;

struct Box {
  ColumnChunk columns;
  std::int32_t row;
};
template <class I>
__device__ __forceinline__ Box box_at(const Params& p, const Work& work, int consumer, int number) {
  const int first_block = I::kPingPong ? 0 : consumer * I::kRowBlocks;
  const int block = first_block + number / kChunksOfRow<I>;
  return {column_chunk<I>(p, work, I::kSwapped ? block : number % kChunksOfRow<I>),
          static_cast<std::int32_t>(work.m * I::kRowsOfC) + (I::kSwapped ? 0 : block * 64)};
}

// One thread: the addend of chunk `number` into a staging area that TMA has read.
template <class I>
__device__ __forceinline__ void fetch_addend(const Params& p, Shared<I>& shared, const Work& work, int consumer,
                                             int number, int area) {
  const Box box = box_at<I>(p, work, consumer, number);
  if (box.columns.valid <= 0) return;
  std::uint64_t* const full = &shared.addend[consumer][area];
  ptx::mbarrier_arrive_expect_tx(full, I::kAreaBytes);
  ptx::tma_tile_3d(shared.staging[consumer][area], &p.addend_map, full, box.columns.x, box.columns.y, box.row);
}
template <class I>
__device__ __forceinline__ void fetch_addend_pair(const Params& p, Shared<I>& shared, const Work& work, int consumer,
                                                  int first) {
  ptx::bulk_wait_group_read<0>();
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (first + i < kChunksOfConsumer<I>) fetch_addend<I>(p, shared, work, consumer, first + i, i);
  }
}

template <class I>
__device__ __forceinline__ void wait_for_addend(Shared<I>& shared, int consumer, int area, Addends<I>* addends) {
  tile::wait(&shared.addend[consumer][area], addends->parity >> area & 1u);
  addends->parity ^= 1u << area;
}

// One thread: the addend of the consumer's next tile into the L2. Not by the producer: its loop is slower with any
// more code.
template <class I>
__device__ __forceinline__ void prefetch_next_addend(const Params& p, std::uint32_t index, int consumer) {
  const std::uint32_t next = index + gridDim.x * (I::kPingPong ? I::kConsumers : 1);
  if (next >= end_index<I>(p)) return;
  const Work work = work_item<I>(p, next);
#pragma unroll 1
  for (int i = 0; i < kChunksOfConsumer<I>; ++i) {
    const Box box = box_at<I>(p, work, consumer, i);
    if (box.columns.valid > 0) ptx::prefetch_tile_3d(&p.addend_map, box.columns.x, box.columns.y, box.row);
  }
}

// Before the tile is multiplied.
template <class I>
__device__ __forceinline__ void fetch_addends(const Params& p, Shared<I>& shared, const Work& work, std::uint32_t index,
                                              int consumer, int area, Addends<I>* addends) {
  fetch_bias<I>(p, work, consumer, addends);
  if (p.addend_scale == 0.0f || threadIdx.x % 128 != 0) return;
  if constexpr (I::kSwapped) {
    // The area's last reader is done: store_box has waited for it.
    fetch_addend<I>(p, shared, work, consumer, 0, area);
  } else {
    fetch_addend_pair<I>(p, shared, work, consumer, 0);
  }
  prefetch_next_addend<I>(p, index, consumer);
}

// --- values ----------------------------------------------------------------------------------------------------------

// v = alpha * sum + bias of chunk number `number` of a thread's sums. The pins keep the branches apart: without them
// the compiler selects each value among those of all chunks.
template <class I>
__device__ __forceinline__ void take_with_bias(float alpha, const float* bias,
                                               const float (&sum)[I::kRowBlocks][I::kBN / 2], int number,
                                               float (&v)[I::kChunkElements / 2]) {
  constexpr int kSums = I::kChunkElements / 2;
  gemm::with_number<kChunksOfConsumer<I>>(number, [&](auto known) {
    constexpr int kBlock = known / kChunksOfRow<I>;
    constexpr int kChunk = known % kChunksOfRow<I>;
#pragma unroll
    for (int i = 0; i < kSums; i += 4) {
      const float2 pair = *reinterpret_cast<const float2*>(bias + kChunk * I::kChunkElements + 2 * i);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        v[i + j] = fmaf(alpha, sum[kBlock][kChunk * kSums + i + j], j % 2 == 0 ? pair.x : pair.y);
        ptx::pin(&v[i + j]);
      }
    }
  });
}

// The addend of a chunk, at the places where stage_fragments puts its results.
template <class I>
__device__ __forceinline__ void add_staged(float scale, unsigned char* staging, float (&v)[I::kChunkElements / 2]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int row = static_cast<int>(threadIdx.x % 128) / 32 * 16 + lane % 16;
  const std::uint32_t base = ptx::shared_address(staging);
#pragma unroll
  for (int j = 0; j < I::kChunkElements / 8; j += 2) {
    std::uint32_t words[4];
    ptx::ldmatrix_x4(base + static_cast<std::uint32_t>(staged<I::kChunkBytes>(row, j + lane / 16)), words);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      add_pair<typename I::T>(scale, words[i], &v[4 * j + 2 * i], &v[4 * j + 2 * i + 1]);
    }
  }
}

// Pixels beyond the last one are 0, for the sums: those of the rows of a fragment, and of its columns.
template <class I, int kSums>
__device__ __forceinline__ void clear_rows_beyond(const Params& p, std::int32_t first_row, float (&v)[kSums]) {
  const auto pixels = static_cast<std::int32_t>(p.problem[0].pixels);
  if (first_row + 64 <= pixels) return;
  const int row = first_row + static_cast<int>(threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4);
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    if (row + i % 4 / 2 * 8 >= pixels) v[i] = 0;
  }
}
template <class I>
__device__ __forceinline__ void clear_columns_beyond(const Params& p, std::int32_t first_row, float (&v)[I::kBN / 2]) {
  const auto pixels = static_cast<std::int32_t>(p.problem[0].pixels);
  if (first_row + I::kBN <= pixels) return;
  const int pixel = first_row + static_cast<int>(threadIdx.x % 4 * 2);
#pragma unroll
  for (int i = 0; i < I::kBN / 2; ++i) {
    if (pixel + i / 4 * 8 + i % 2 >= pixels) v[i] = 0;
  }
}

// --- tiles -----------------------------------------------------------------------------------------------------------

// Two chunks at a time.
template <class I>
__device__ __forceinline__ void store_fused_rows(const Params& p, Shared<I>& shared, const Work& work, int consumer,
                                                 const float (&sum)[I::kRowBlocks][I::kBN / 2], Addends<I>* addends,
                                                 ChannelTotals<I>* totals) {
  using T = typename I::T;
  constexpr int kAll = kChunksOfConsumer<I>;
  const int barrier = kStagingBarrier + consumer;
  const int thread = static_cast<int>(threadIdx.x % 128);
  const bool leads = thread == 0;
  const bool adds = p.addend_scale != 0.0f;
  float* const bias = shared.bias[consumer];
#pragma unroll
  for (int i = 0; i < Addends<I>::kBiases; ++i) {
    if (thread + 128 * i < I::kBN) bias[thread + 128 * i] = bias_value<T>(addends->bias[i], p.float_vectors);
  }
  const float* const my_bias = bias + thread % 4 * 2;
#pragma unroll 1
  for (int begin = 0; begin < kAll; begin += 2) {
    if (leads && !adds) ptx::bulk_wait_group_read<0>();
    ptx::barrier_sync(barrier, 128);
#pragma unroll 1
    for (int i = 0; i < 2 && begin + i < kAll; ++i) {
      const Box box = box_at<I>(p, work, consumer, begin + i);
      if (box.columns.valid <= 0) continue;
      unsigned char* const staging = shared.staging[consumer][i];
      float v[I::kChunkElements / 2];
      take_with_bias<I>(p.alpha, my_bias, sum, begin + i, v);
      if (adds) {
        wait_for_addend<I>(shared, consumer, i, addends);
        add_staged<I>(p.addend_scale, staging, v);
      }
      gemm::activate_common(p.activation, v);
      if (wants_totals<I>(p)) clear_rows_beyond<I>(p, box.row, v);
      stage_fragments<T, I::kChunkBytes>(staging, thread, v);
    }
    ptx::fence_proxy_async();
    ptx::barrier_sync(barrier, 128);
    if (leads) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (begin + i >= kAll) break;
        const Box box = box_at<I>(p, work, consumer, begin + i);
        if (box.columns.valid <= 0) continue;
        ptx::tma_store_tile_3d(&p.c_map, shared.staging[consumer][i], box.columns.x, box.columns.y, box.row);
      }
      ptx::bulk_commit_group();
    }
    if (wants_totals<I>(p)) {
      __syncwarp();
#pragma unroll 1
      for (int i = 0; i < 2 && begin + i < kAll; ++i) {
        if (box_at<I>(p, work, consumer, begin + i).columns.valid <= 0) continue;
        total_rows<I>(shared.staging[consumer][i], (begin + i) % kChunksOfRow<I>, totals);
      }
      // The next addend comes into the area that all have read.
      if (adds) ptx::barrier_sync(barrier, 128);
    }
    if (leads && adds && begin + 2 < kAll) fetch_addend_pair<I>(p, shared, work, consumer, begin + 2);
  }
}

// The consumer's 64 columns of all rows.
template <class I>
__device__ __forceinline__ void store_fused_columns(const Params& p, Shared<I>& shared, const Work& work, int consumer,
                                                    float (&sum)[I::kRowBlocks][I::kBN / 2], Addends<I>* addends,
                                                    int* area, ChannelTotals<I>* totals) {
  using T = typename I::T;
  static_assert(I::kRowBlocks == 1, "a chunk for each consumer");
  const Box box = box_at<I>(p, work, consumer, 0);
  if (box.columns.valid <= 0) return;
  unsigned char* const staging = shared.staging[consumer][*area];
  float(&v)[I::kBN / 2] = sum[0];
  const float bias[2] = {bias_value<T>(addends->bias[0], p.float_vectors),
                         bias_value<T>(addends->bias[1], p.float_vectors)};
#pragma unroll
  for (int i = 0; i < I::kBN / 2; ++i) v[i] = fmaf(p.alpha, v[i], bias[i % 4 / 2]);
  if (p.addend_scale != 0.0f) {
    wait_for_addend<I>(shared, consumer, *area, addends);
    add_transposed<I>(p.addend_scale, staging, v);
  }
  gemm::activate_common(p.activation, v);
  if (wants_totals<I>(p)) {
    clear_columns_beyond<I>(p, box.row, v);
    total_columns<I>(v, totals);
  }
  stage_transposed<I>(staging, v);
  store_box(p, staging, kStagingBarrier + consumer, box.columns, static_cast<std::uint32_t>(box.row));
  *area ^= 1;
}

// Pixels beyond the last one count as 0 in the sums by channel.
template <class I>
__device__ __forceinline__ void clear_beyond(const Params& p, const Work& work, int consumer,
                                             float (&sum)[I::kRowBlocks][I::kBN / 2]) {
  if (!wants_totals<I>(p)) return;
#pragma unroll
  for (int block = 0; block < I::kRowBlocks; ++block) {
    if constexpr (I::kSwapped) {
      clear_columns_beyond<I>(p, box_at<I>(p, work, consumer, 0).row, sum[block]);
    } else {
      clear_rows_beyond<I>(p, box_at<I>(p, work, consumer, block * kChunksOfRow<I>).row, sum[block]);
    }
  }
}

// f(sum) to memory, f being identity or ReLU.
template <class I, PairRelu kRelu>
__device__ __forceinline__ void store_simple_rows(const Params& p, Shared<I>& shared, const Work& work, int consumer,
                                                  const float (&sum)[I::kRowBlocks][I::kBN / 2],
                                                  ChannelTotals<I>* totals) {
  using T = typename I::T;
  constexpr int kAll = kChunksOfConsumer<I>;
  const int barrier = kStagingBarrier + consumer;
  const int thread = static_cast<int>(threadIdx.x % 128);
#pragma unroll
  for (int begin = 0; begin < kAll; begin += 2) {
    if (thread == 0) ptx::bulk_wait_group_read<0>();
    ptx::barrier_sync(barrier, 128);
#pragma unroll
    for (int i = begin; i < kAll && i < begin + 2; ++i) {
      stage_fragments<T, I::kChunkBytes, kRelu>(shared.staging[consumer][i - begin], thread,
                                                sum[i / kChunksOfRow<I>] + i % kChunksOfRow<I> * I::kChunkElements / 2);
    }
    ptx::fence_proxy_async();
    ptx::barrier_sync(barrier, 128);
    if (thread == 0) {
#pragma unroll
      for (int i = begin; i < kAll && i < begin + 2; ++i) {
        const Box box = box_at<I>(p, work, consumer, i);
        if (box.columns.valid <= 0) continue;
        ptx::tma_store_tile_3d(&p.c_map, shared.staging[consumer][i - begin], box.columns.x, box.columns.y, box.row);
      }
      ptx::bulk_commit_group();
    }
    if (!wants_totals<I>(p)) continue;
    __syncwarp();
#pragma unroll 1
    for (int i = begin; i < kAll && i < begin + 2; ++i)
      total_rows<I>(shared.staging[consumer][i - begin], i % kChunksOfRow<I>, totals);
  }
}

template <class I>
__device__ __forceinline__ void store_simple(const Params& p, Shared<I>& shared, const Work& work, int consumer,
                                             float (&sum)[I::kRowBlocks][I::kBN / 2], int* area,
                                             ChannelTotals<I>* totals) {
  clear_beyond<I>(p, work, consumer, sum);
  const bool is_relu = p.activation.mode == gemm::Activation::relu;
  if constexpr (I::kSwapped) {
    const Box box = box_at<I>(p, work, consumer, 0);
    if (box.columns.valid <= 0) return;
    if (is_relu) gemm::activate_relu(p.activation, sum[0]);
    if (wants_totals<I>(p)) total_columns<I>(sum[0], totals);
    unsigned char* const staging = shared.staging[consumer][*area];
    stage_transposed<I>(staging, sum[0]);
    store_box(p, staging, kStagingBarrier + consumer, box.columns, static_cast<std::uint32_t>(box.row));
    *area ^= 1;
  } else if (!is_relu) {
    store_simple_rows<I, PairRelu::none>(p, shared, work, consumer, sum, totals);
  } else if (!p.activation.drops_nan) {
    store_simple_rows<I, PairRelu::keeps_nan>(p, shared, work, consumer, sum, totals);
  } else {
    store_simple_rows<I, PairRelu::drops_nan>(p, shared, work, consumer, sum, totals);
  }
  store_totals_of_tile<I>(p, work, consumer, totals);
}

template <class I>
__device__ __forceinline__ void store_fused(const Params& p, Shared<I>& shared, const Work& work, int consumer,
                                            float (&sum)[I::kRowBlocks][I::kBN / 2], Addends<I>* addends, int* area,
                                            ChannelTotals<I>* totals) {
  if constexpr (I::kSwapped) {
    store_fused_columns<I>(p, shared, work, consumer, sum, addends, area, totals);
  } else {
    store_fused_rows<I>(p, shared, work, consumer, sum, addends, totals);
  }
  store_totals_of_tile<I>(p, work, consumer, totals);
}

}  // namespace gpudnn::kernels::sm90
