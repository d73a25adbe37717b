// Implicit-GEMM convolution of 8-bit floats for Hopper: warp-specialised, persistent, on wgmma and TMA.
//
// C[m, n] = sum over k of A[m, k] * B[k, n] as float8_sm90.hpp tells for each direction; the producer, the work items
// and the stages are those of implicit_gemm_sm90.cuh.
//
// Sums. The tensor core adds products of 8-bit floats with 14 bits or so. With `promotes` each k tile of 128 starts at
// zero, and its sums are added to the tile's in float; the two consumers take turns at it by themselves, one
// multiplying while the other adds. A consumer of 128 rows multiplies one half of them after the other, so that it
// needs registers for the k tile's sums of one half only: 128 of sums, 64 of a k tile's.
//
// Formats are branches around the whole main loop: an instance serves all four pairs of them, and all types of C.
//
// Limits: channels of a group in whole vectors of 16, both operands K-major; C may have any strides.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/conv/float8/float8_sm90_store.cuh"
#include "kernels/conv/implicit_gemm/implicit_gemm_sm90.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/ptx/wgmma_shape.cuh"

namespace gpudnn::kernels::float8 {

using sm90::Direction;
using sm90::Shared;

template <int kShape>
struct Instance {
  using T = tile::Float8E4M3;  // stands for both formats
  // Of both: a forward convolution is a single phase, and waits for no kernel before it.
  static constexpr Direction kDirection = Direction::data_gradient;
  static constexpr bool kTransposesFilter = true;
  static constexpr bool kFilterIsMnMajor = false;
  static constexpr sm90::TileShape kTile = kShapes[kShape];
  static constexpr int kBM = kTile.bm;
  static constexpr int kBN = kTile.bn;
  static constexpr int kStages = kTile.stages;
  static constexpr int kCluster = 1;
  static constexpr bool kPingPong = false;
  static constexpr bool kClusterSplitK = false;
  static constexpr bool kIsFilterGradient = false;
  static constexpr bool kSwapped = false;
  static constexpr bool kStreamK = false;
  static constexpr int kConsumers = kTile.consumers;
  static constexpr int kThreads = 128 * (1 + kConsumers);
  static constexpr int kBlocks = blocks_of_multiprocessor(kTile);
  static constexpr int kConsumerRegisters = 232;
  static constexpr int kProducerRegisters = kBlocks == 1 ? sm90::kProducerRegisters : 24;
  static constexpr int kRowsOfC = kBM;
  static constexpr int kColumnsOfC = kBN;
  static constexpr int kRowElements = sm90::kRowBytes;
  static constexpr int kBK = sm90::kRowBytes;
  static constexpr int kBoxBytes = kBK * sm90::kRowBytes;
  static constexpr int kRowBlocks = kBM / 64 / kConsumers;  // of 64 rows, of a warpgroup
  static constexpr int kABytes = kBM * kBK;
  static constexpr int kBBytes = kBN * kBK;
  static constexpr int kAreaBytes = 16;  // C goes out from registers
  static constexpr int kTileWarps = 4 * kConsumers;
  static __device__ __forceinline__ std::uint32_t row_of_fragment(std::uint32_t row_block, std::uint32_t thread,
                                                                  std::uint32_t half) {
    return row_block * 64 + thread / 32 * 16 + thread % 32 / 4 + half * 8;
  }
  static_assert(kBM == 64 * kRowBlocks * kConsumers, "consumers take blocks of 64 rows");
  static_assert((kRowBlocks + 1) * kBN / 2 + 32 <= kConsumerRegisters, "sums and a k tile's fit the registers");
};

template <class I>
using Sums = float[I::kRowBlocks][I::kBN / 2];

// The descriptors of the first stage: of the consumer's rows of A, and of B. The others lie whole stages behind.
struct Operands {
  std::uint64_t a, b;
};
template <class I>
__device__ __forceinline__ Operands first_operands(Shared<I>& shared, int consumer) {
  return {tile::operand_descriptor<I::kBK>(shared.a[0] + consumer * I::kRowBlocks * 64 * I::kBK, 16),
          tile::operand_descriptor<I::kBK>(shared.b[0], 16)};
}

// Of 64 rows by the tile's columns; with scale_d zero the sum starts anew.
template <class I, class A, class B>
__device__ __forceinline__ void multiply_block(std::uint64_t a, std::uint64_t b, int scale_d,
                                               float (&sum)[I::kBN / 2]) {
#pragma unroll
  for (int step = 0; step < I::kBK / 32; ++step) {
    ptx::wgmma_ss<A, B, I::kBN>(sum, a + static_cast<std::uint64_t>(step * 32 >> 4),
                                b + static_cast<std::uint64_t>(step * 32 >> 4), step == 0 ? scale_d : 1);
  }
}

template <class I, class A, class B>
__device__ __forceinline__ void multiply_promoted(Shared<I>& shared, std::uint32_t count, const Operands& operands,
                                                  Sums<I>& sum, tile::PipelineState<I::kStages>* turn) {
  float part[I::kBN / 2];
#pragma unroll
  for (float& x : part) x = 0;
#pragma unroll 1
  for (std::uint32_t k = 0; k < count; ++k) {
    tile::wait(&shared.full[turn->stage], turn->parity);
    const std::uint64_t a = operands.a + static_cast<std::uint64_t>(turn->stage) * (I::kABytes >> 4);
    const std::uint64_t b = operands.b + static_cast<std::uint64_t>(turn->stage) * (I::kBBytes >> 4);
#pragma unroll
    for (int block = 0; block < I::kRowBlocks; ++block) {
      ptx::wgmma_fence();
      multiply_block<I, A, B>(a + static_cast<std::uint64_t>(block * 64 * I::kBK >> 4), b, 0, part);
      ptx::wgmma_commit_group();
      ptx::wgmma_wait_group<0>();
      if (block + 1 == I::kRowBlocks) sm90::release<I>(shared, turn->stage);
#pragma unroll
      for (int i = 0; i < I::kBN / 2; ++i) sum[block][i] += part[i];
    }
    turn->next();
  }
}

template <class I, class A, class B>
__device__ __forceinline__ void multiply_plain(Shared<I>& shared, std::uint32_t count, const Operands& operands,
                                               Sums<I>& sum, tile::PipelineState<I::kStages>* turn) {
  int previous = -1;
#pragma unroll 1
  for (std::uint32_t k = 0; k < count; ++k) {
    tile::wait(&shared.full[turn->stage], turn->parity);
    const std::uint64_t a = operands.a + static_cast<std::uint64_t>(turn->stage) * (I::kABytes >> 4);
    const std::uint64_t b = operands.b + static_cast<std::uint64_t>(turn->stage) * (I::kBBytes >> 4);
    ptx::wgmma_fence();
#pragma unroll
    for (int block = 0; block < I::kRowBlocks; ++block) {
      multiply_block<I, A, B>(a + static_cast<std::uint64_t>(block * 64 * I::kBK >> 4), b, 1, sum[block]);
    }
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<1>();
    if (previous >= 0) sm90::release<I>(shared, previous);
    previous = turn->stage;
    turn->next();
  }
  ptx::wgmma_wait_group<0>();
  if (previous >= 0) sm90::release<I>(shared, previous);
}

template <class I, class A, class B>
__device__ __forceinline__ void multiply_formats(const Params& p, Shared<I>& shared, std::uint32_t count,
                                                 const Operands& operands, Sums<I>& sum,
                                                 tile::PipelineState<I::kStages>* turn) {
  if (p.promotes) {
    multiply_promoted<I, A, B>(shared, count, operands, sum, turn);
  } else {
    multiply_plain<I, A, B>(shared, count, operands, sum, turn);
  }
}

template <class I>
__device__ __forceinline__ void multiply(const Params& p, Shared<I>& shared, const Work& work, const Operands& operands,
                                         Sums<I>& sum, tile::PipelineState<I::kStages>* turn) {
  using E4M3 = tile::Float8E4M3;
  using E5M2 = tile::Float8E5M2;
  sm90::clear<I>(sum);
  const std::uint32_t count = work.k_end - work.k_begin;
  if (p.a_is_e5m2) {
    if (p.b_is_e5m2) {
      multiply_formats<I, E5M2, E5M2>(p, shared, count, operands, sum, turn);
    } else {
      multiply_formats<I, E5M2, E4M3>(p, shared, count, operands, sum, turn);
    }
  } else if (p.b_is_e5m2) {
    multiply_formats<I, E4M3, E5M2>(p, shared, count, operands, sum, turn);
  } else {
    multiply_formats<I, E4M3, E4M3>(p, shared, count, operands, sum, turn);
  }
}

template <class I>
__device__ __forceinline__ void consume(const Params& p, Shared<I>& shared, int consumer) {
  tile::PipelineState<I::kStages> turn;
  StoreState state(p);
  const Operands operands = first_operands<I>(shared, consumer);
  const std::uint32_t end = sm90::end_index<I>(p.gemm);
  for (std::uint32_t index = sm90::first_index<I>(p.gemm); index < end; index = sm90::next_index<I>(p.gemm, index)) {
    const Work work = sm90::work_item<I>(p.gemm, index);
    Sums<I> sum;
    multiply<I>(p, shared, work, operands, sum, &turn);
    // Else the compiler reads them earlier, between products, which then wait for one another.
#pragma unroll
    for (int block = 0; block < I::kRowBlocks; ++block) {
#pragma unroll
      for (int i = 0; i < I::kBN / 2; ++i) ptx::pin(&sum[block][i]);
    }
    if (p.gemm.splits > 1) {
      sm90::store_partials<I>(p.gemm, work, consumer, sum);
    } else {
      store_tile<I>(p, work, consumer, &state, sum);
    }
  }
  finish_amax(p, state);
}

template <class I>
__global__ void __launch_bounds__(I::kThreads, I::kBlocks) float8_sm90(const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) unsigned char raw[];
  auto& shared = *reinterpret_cast<Shared<I>*>(raw);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  sm90::make_barriers<I>(p.gemm, shared, threadIdx.x / 32);
  __syncwarp();
  sm90::start_together<I>();
  if (warp < 4) {
    ptx::setmaxnreg_dec<I::kProducerRegisters>();
    if (warp == 0) sm90::produce<I>(p.gemm, shared);
  } else {
    if ((ptx::shared_address(raw) & 1023u) != 0) __trap();  // the swizzle counts on it
    ptx::setmaxnreg_inc<I::kConsumerRegisters>();
    // The same in all lanes, and known to be.
    consume<I>(p, shared, __shfl_sync(0xffffffffu, warp / 4 - 1, 0));
  }
}

// The second kernel of a split reduction: a thread has four sums, two neighbours of two rows, in the order of the
// fragments.
template <class I>
__global__ void __launch_bounds__(sm90::kReduceThreads)
    float8_join_splits(const __grid_constant__ Params p, int lanes) {
  constexpr std::uint32_t kTileQuads = I::kBM * I::kBN / 4;
  const sm90::Params& g = p.gemm;
  StoreState state(p);
  const std::size_t count = static_cast<std::size_t>(g.works.divisor) * kTileQuads;
  const sm90::QuadOfTiles mine = sm90::sum_quad(g.partials, count, g.splits, lanes);
  if (mine.stores) {
    const auto tile = static_cast<std::uint32_t>(mine.quad / kTileQuads);
    const auto inside = static_cast<std::uint32_t>(mine.quad % kTileQuads);
    const Work work = sm90::work_item<I>(g, tile);
    const std::uint32_t thread = inside % 128;
    const std::uint32_t first = work.n * I::kBN + inside / 128 % (I::kBN / 8) * 8 + thread % 4 * 2;
    std::int64_t row[2];
#pragma unroll
    for (std::uint32_t half = 0; half < 2; ++half) {
      const std::uint32_t m = work.m * I::kBM + I::row_of_fragment(inside / 128 / (I::kBN / 8), thread, half);
      row[half] = sm90::row_offset<I>(g, work, m, g.c_step, g.c_is_even);
    }
    float v[4] = {mine.sum.x, mine.sum.y, mine.sum.z, mine.sum.w};
    const auto column = [&](int i) { return first + static_cast<std::uint32_t>(i % 2); };
    const auto exists = [&](int i) { return row[i / 2] >= 0 && column(i) < g.n_count; };
    finish(p, work.group, &state, column, exists, v);
    const std::int64_t channel = static_cast<std::int64_t>(work.group) * g.group_columns + first;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (exists(i)) store_element(p, row[i / 2] + (channel + i % 2) * p.c_column_step, v[i]);
    }
  }
  __syncwarp();
  finish_amax(p, state);
}

template <class I>
void launch_instance(const Params& params, std::uint32_t blocks, CUstream_st* stream) {
  constexpr int kBytes = static_cast<int>(sizeof(Shared<I>));
  static_assert(I::kBlocks * (kBytes + 1024) <= 228 * 1024, "shared memory of a multiprocessor");
  cuda::allow_shared_memory<&float8_sm90<I>>(kBytes);
  const cuda::LaunchConfig config = {blocks, I::kThreads, kBytes, 1, params.gemm.filter_by_pdl};
  cuda::launch_kernel(&float8_sm90<I>, config, stream, params);
  if (params.gemm.splits == 1) return;
  const auto [lanes, reduction] =
      sm90::reduction_launch(params.gemm.works.divisor, I::kBM * I::kBN, params.gemm.splits);
  cuda::launch_kernel(&float8_join_splits<I>, reduction, stream, params, lanes);
}

}  // namespace gpudnn::kernels::float8
