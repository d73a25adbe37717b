// The Hopper implicit GEMM's epilogue of forward in 16 bits for what layers have: f(alpha * scale * sum + addend_scale
// * addend + bias), f being identity, ReLU or a curve of rounded_math.cuh, C and the addend in boxes.
//
//   scale    of each channel: read behind the products, from the L1 but for a block's first tile
//   bias     the sums begin with it (`starts_with_bias`) where there is no scale. It stays in shared memory, with
//   swap-AB in registers, while a
//            consumer's tiles have the same columns; that of other columns is asked for a tile ahead.
//   addend   is added to the sums where they are (implicit_gemm_sm90_addend.cuh)
//   f        ReLU is part of the instruction that rounds. Curves: one branch for the values of a chunk, before the
//            consumer waits for the staging area, so that TMA stores the chunks before meanwhile.
//   sums     of the results by channel, where the call asks for them: implicit_gemm_sm90_sums.cuh
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_addend.cuh"
#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_multiply.cuh"
#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_sums.cuh"
#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_swap_ab.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/tile/stage_ring.cuh"

namespace gpudnn::kernels::sm90 {

// --- bias ------------------------------------------------------------------------------------------------------------

// The bits of the bias of column `column` of the tile; 0 where there is none. Nothing waits for them here.
template <class I>
__device__ __forceinline__ std::uint32_t bias_bits(const Params& p, const Work& work, int column) {
  const int in_group = static_cast<int>(work.n) * I::kColumnsOfC + column;
  if (in_group >= static_cast<int>(p.n_count)) return 0;
  const void* const at = static_cast<const char*>(p.bias) +
                         (static_cast<std::int64_t>(work.group) * p.group_columns + in_group) * p.bias_step;
  return p.float_vectors ? *static_cast<const std::uint32_t*>(at) : *static_cast<const std::uint16_t*>(at);
}
template <class T>
__device__ __forceinline__ float bias_value(std::uint32_t bits, bool is_float) {
  return is_float ? __uint_as_float(bits) : tile::widen<float>(tile::half_of<T>(bits, 0));
}

// The bias of a consumer's tiles.
template <class I>
struct Bias {
  static constexpr int kValues = I::kSwapped ? 2 : (I::kBN + 127) / 128;
  static_assert(!kHasFusedEpilogue<I> || !I::kSwapped || I::kRowBlocks == 1, "two channels of a thread");
  std::uint32_t next[kValues];  // as they lie in memory, of the next tile if its columns are others
  std::uint32_t columns = 0;    // number of the columns whose bias is here: swap-AB in `value`, else in shared memory
  float value[2] = {};

  // From a consumer's tile to its next.
  static __device__ __forceinline__ std::uint32_t step() { return gridDim.x * (I::kPingPong ? I::kConsumers : 1); }
  // Of the columns of a tile, from 1 on.
  static __device__ __forceinline__ std::uint32_t number_of(const Params& p, const Work& work) {
    return work.group * p.n_tiles.divisor + work.n + 1;
  }

  // Of tile number `index`, if its columns are others.
  __device__ __forceinline__ void fetch(const Params& p, std::uint32_t index, int consumer) {
    if (!p.has_bias || index >= end_index<I>(p)) return;
    const Work work = work_item<I>(p, index);
    if (number_of(p, work) == columns) return;
    const int thread = static_cast<int>(threadIdx.x % 128);
#pragma unroll
    for (int i = 0; i < kValues; ++i) {
      const int column = I::kSwapped ? consumer * 64 + thread / 32 * 16 + thread % 32 / 4 + i * 8 : thread + 128 * i;
      next[i] = column < I::kColumnsOfC ? bias_bits<I>(p, work, column) : 0;
    }
  }
  __device__ __forceinline__ void fetch_first(const Params& p, int consumer) {
    fetch(p, first_index<I>(p) + (I::kPingPong ? gridDim.x * static_cast<unsigned>(consumer) : 0), consumer);
  }

  // That of the tile, fetched before, takes its place.
  __device__ __forceinline__ void take(const Params& p, Shared<I>& shared, const Work& work, int consumer) {
    const bool changes = columns != number_of(p, work);
    columns = number_of(p, work);
    if constexpr (I::kSwapped) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (changes) value[i] = bias_value<typename I::T>(next[i], p.float_vectors);
      }
    } else if (changes) {
      const int thread = static_cast<int>(threadIdx.x % 128);
      const int barrier = kStagingBarrier + consumer;
      ptx::barrier_sync(barrier, 128);  // all have read those of the columns before
#pragma unroll
      for (int i = 0; i < kValues; ++i) {
        if (thread + 128 * i < I::kBN)
          shared.bias[consumer][thread + 128 * i] = bias_value<typename I::T>(next[i], p.float_vectors);
      }
      ptx::barrier_sync(barrier, 128);
    }
  }

  // Calls use(block, sum's number, the bias of its column) for all sums of a thread.
  template <class Use>
  __device__ __forceinline__ void for_each_sum(const Params& p, const Shared<I>& shared, int consumer, Use use) const {
    const float* const mine = shared.bias[consumer] + threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < I::kBN / 2; i += 4) {
      float2 pair = make_float2(value[0], value[1]);
      if constexpr (!I::kSwapped)
        pair = p.has_bias ? *reinterpret_cast<const float2*>(mine + 2 * i) : make_float2(0, 0);
#pragma unroll
      for (int block = 0; block < I::kRowBlocks; ++block) {
#pragma unroll
        for (int j = 0; j < 4; ++j) use(block, i + j, (I::kSwapped ? j / 2 : j % 2) == 0 ? pair.x : pair.y);
      }
    }
  }
};

// --- sums ------------------------------------------------------------------------------------------------------------

// Before the tile is multiplied.
template <class I>
__device__ __forceinline__ void begin_sums(const Params& p, const Shared<I>& shared, int consumer, const Bias<I>& bias,
                                           float (&sum)[I::kRowBlocks][I::kBN / 2]) {
  if (!p.has_bias) return clear<I>(sum);
  if (!kIsBiasRelu<I> && (!starts_with_bias(I::kTile) || !p.is_fused || p.has_scale || p.alpha != 1.0f))
    return clear<I>(sum);
  bias.for_each_sum(p, shared, consumer, [&sum](int block, int i, float of_column) { sum[block][i] = of_column; });
}

// The sums times the scale of their channel.
template <class I>
__device__ __forceinline__ void scale_sums(const Params& p, const Work& work, int consumer,
                                           float (&sum)[I::kRowBlocks][I::kBN / 2]) {
  if constexpr (I::kSwapped) {
    with_column_values<I>(p, work, box_at<I>(p, work, consumer, 0).columns, p.scale, p.scale_step, sum[0],
                          [](float x, float scale) { return x * scale; });
  } else {
    const int column = static_cast<int>(work.n) * I::kColumnsOfC + static_cast<int>(threadIdx.x % 4) * 2;
    const std::int64_t channel = static_cast<std::int64_t>(work.group) * p.group_columns + column;
    gemm::for_each_channel_pair<typename I::T, I::kBN / 8>(p.scale, channel, p.scale_step, p.float_vectors,
                                                           static_cast<int>(p.n_count) - column,
                                                           [&sum](int j, float low, float high) {
#pragma unroll
                                                             for (int block = 0; block < I::kRowBlocks; ++block) {
                                                               sum[block][4 * j] *= low;
                                                               sum[block][4 * j + 1] *= high;
                                                               sum[block][4 * j + 2] *= low;
                                                               sum[block][4 * j + 3] *= high;
                                                             }
                                                           });
  }
}

// Adds 64 rows of the addend, which lie where stage_fragments would put them, to their fragments.
template <class I>
__device__ __forceinline__ void add_staged(float scale, unsigned char* staging, float* v) {
  std::uint32_t number = threadIdx.x % 128;
  ptx::pin(number);  // addresses that were known before the products would take registers from them
  const int row = static_cast<int>(number / 32 * 16 + number % 16);
  const int half = static_cast<int>(number % 32 / 16);
  const std::uint32_t base = ptx::shared_address(staging);
#pragma unroll
  for (int j = 0; j < I::kChunkElements / 8; j += 2) {
    std::uint32_t words[4];
    ptx::ldmatrix_x4(base + static_cast<std::uint32_t>(staged<I::kChunkBytes>(row, j + half)), words);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      add_pair<typename I::T>(scale, words[i], &v[4 * j + 2 * i], &v[4 * j + 2 * i + 1]);
    }
  }
}

// Adds the addend to the sums.
template <class I>
__device__ __forceinline__ void add_addend(const Params& p, Shared<I>& shared, int consumer,
                                           float (&sum)[I::kRowBlocks][I::kBN / 2],
                                           tile::PipelineState<I::kStages>* turn) {
  using Stages = AddendStages<I>;
  wait_for_addend<I>(shared, *turn);
  auto first = static_cast<std::uint32_t>(first_chunk<I>(consumer));
  ptx::pin(first);
#pragma unroll
  for (int i = 0; i < kChunksOfConsumer<I>; ++i) {
    const std::uint32_t number = first + static_cast<std::uint32_t>(i);
    int stage = turn->stage + static_cast<int>(number / Stages::kInStage);
    if (stage >= I::kStages) stage -= I::kStages;
    unsigned char* const place = addend_place<I>(shared, stage, static_cast<int>(number % Stages::kInStage));
    if constexpr (I::kSwapped) {
      add_transposed<I>(p.addend_scale, place, sum[i]);
    } else {
      add_staged<I>(p.addend_scale, place, sum[i / kChunksOfRow<I>] + i % kChunksOfRow<I> * I::kChunkElements / 2);
    }
  }
#pragma unroll 1
  for (int i = 0; i < Stages::kStages; ++i, turn->next()) release<I>(shared, turn->stage);
}

// f of all sums, where they are: before the consumer waits for the staging area, so that TMA stores the tile before
// meanwhile.
template <class I>
__device__ __forceinline__ void apply_curve(const Params& p, float (&sum)[I::kRowBlocks][I::kBN / 2]) {
  if (p.activation.mode == gemm::Activation::relu) {
#pragma unroll
    for (int block = 0; block < I::kRowBlocks; ++block) gemm::activate_relu(p.activation, sum[block]);
    return;
  }
  gemm::with_rounded_curve(p.activation, [&sum](auto f) {
#pragma unroll
    for (int block = 0; block < I::kRowBlocks; ++block) {
#pragma unroll
      for (float& x : sum[block]) x = f(x);
    }
  });
}

// Behind the products: f(alpha * scale * sum + bias + addend_scale * addend), but for a ReLU that rounding does.
template <class I>
__device__ __forceinline__ void finish_fused(const Params& p, Shared<I>& shared, const Work& work, int consumer,
                                             const Bias<I>& bias, float (&sum)[I::kRowBlocks][I::kBN / 2],
                                             tile::PipelineState<I::kStages>* turn) {
  if (p.has_scale) scale_sums<I>(p, work, consumer, sum);
  if (p.alpha != 1.0f || (p.has_bias && (!starts_with_bias(I::kTile) || p.has_scale))) {
    bias.for_each_sum(p, shared, consumer, [&sum, alpha = p.alpha](int block, int i, float of_column) {
      sum[block][i] = fmaf(alpha, sum[block][i], of_column);
    });
  }
  if (p.adds_boxes) add_addend<I>(p, shared, consumer, sum, turn);
  if (p.has_curve) apply_curve<I>(p, sum);
}

// --- values ----------------------------------------------------------------------------------------------------------

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

// Pixels beyond the last one count as 0 in the sums by channel.
template <class I>
__device__ __forceinline__ void clear_beyond(const Params& p, const Work& work, int consumer,
                                             float (&sum)[I::kRowBlocks][I::kBN / 2]) {
  if (!wants_totals<I>(p)) return;
#pragma unroll
  for (int block = 0; block < I::kRowBlocks; ++block)
    clear_rows_beyond<I>(p, box_at<I>(p, work, consumer, block * kChunksOfRow<I>).row, sum[block]);
}

// The sums to memory, or ReLU of them.
template <class I, PairRelu kRelu>
__device__ __forceinline__ void store_rows(const Params& p, Shared<I>& shared, const Work& work, int consumer,
                                           const float (&sum)[I::kRowBlocks][I::kBN / 2], ChannelTotals<I>* totals) {
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

// With swap-AB: the consumer's 64 columns of all rows.
template <class I>
__device__ __forceinline__ void store_columns_of_consumer(const Params& p, Shared<I>& shared, const Work& work,
                                                          int consumer, float (&v)[I::kBN / 2], int* area,
                                                          ChannelTotals<I>* totals) {
  const Box box = box_at<I>(p, work, consumer, 0);
  if (box.columns.valid <= 0) return;
  if ((kIsBiasRelu<I> || !p.has_curve) && p.activation.mode == gemm::Activation::relu)
    gemm::activate_relu(p.activation, v);
  if (wants_totals<I>(p)) {
    clear_columns_beyond<I>(p, box.row, v);
    total_columns<I>(v, totals);
  }
  unsigned char* const staging = shared.staging[consumer][*area];
  stage_transposed<I>(staging, v);
  store_box(p, staging, kStagingBarrier + consumer, box.columns, static_cast<std::uint32_t>(box.row));
  *area ^= 1;
}

template <class I>
__device__ __forceinline__ void store_fused(const Params& p, Shared<I>& shared, const Work& work, int consumer,
                                            float (&sum)[I::kRowBlocks][I::kBN / 2], int* area,
                                            ChannelTotals<I>* totals) {
  if constexpr (I::kSwapped) {
    store_columns_of_consumer<I>(p, shared, work, consumer, sum[0], area, totals);
  } else {
    clear_beyond<I>(p, work, consumer, sum);
    if (!kIsBiasRelu<I> && p.has_curve) {
      store_rows<I, PairRelu::none>(p, shared, work, consumer, sum, totals);
    } else {
      gemm::with_pair_relu(p.activation,
                           [&](auto relu) { store_rows<I, relu()>(p, shared, work, consumer, sum, totals); });
    }
  }
  store_totals_of_tile<I>(p, work, consumer, totals);
}

}  // namespace gpudnn::kernels::sm90
