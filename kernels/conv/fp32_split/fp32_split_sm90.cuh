// Float convolution with float's accuracy on Hopper's tensor cores: forward and data gradient.
//
// C[m, n] = sum over k of A[m, k] * B[k, n] as in implicit_gemm_sm90.hpp, each factor the sum of three bfloat16 terms
// and each product six products of terms (bf16_terms.cuh). Those run at twice TF32's rate, so the whole takes as long
// as three products of TF32, and keeps all 24 bits where those lose two.
//
// Data flow of a block, one per multiprocessor; a k tile is 32 channels of a tap:
//   before       split_filter writes B's terms, in the order that the fragments of A have (split_filter_sm90.hpp).
//   producer     warp 0: A as floats by im2col boxes (rows of 128 bytes), B's three terms by one box.          -> full
//   consumers    two warpgroups of 64 rows each. A thread loads 8 floats of its two rows (two loads of 16 bytes, which
//   meet
//                all banks), splits them in registers, and the warpgroup multiplies: A from registers, B from
//                shared memory. The split of the next 16 channels runs beside the products of these.          -> empty
//
// Sums. The tensor core cuts where it adds, which over a long reduction would bias the sum. So each k tile's sum
// starts at zero, small products first, and is added to the tile's in float, rounded to nearest.
//
// Values that are not finite: A's by its own `finite` term; B's by a second pass over the k tiles with the plane that
// holds nothing else, which runs only where the filter's flags say so.
//
// Shared memory, at 128 bytes a cycle, of a k tile of 128 x 128, which multiplies for 1536 cycles: B by wgmma 96 K,
// copies 40 K, fragments of A 16 K: 1216 cycles.
//
// Registers of a consumer: two sums of 64, 32 of fragments.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/conv/fp32_split/bf16_terms.cuh"
#include "kernels/conv/fp32_split/fp32_split_sm90.hpp"
#include "kernels/conv/fp32_split/store_planes_sm90.cuh"
#include "kernels/conv/implicit_gemm/implicit_gemm_sm90.cuh"
#include "kernels/ptx/wgmma_shape.cuh"

namespace gpudnn::kernels::fp32_split {

using sm90::Shared;
using sm90::Work;

constexpr int kStepChannels = 16;  // of a product
constexpr int kSteps = kChunkChannels / kStepChannels;

template <Direction kDir, int kShape>
struct Instance {
  using T = float;
  static constexpr Direction kDirection = kDir;
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
  static constexpr int kConsumerRegisters = 232;
  static constexpr int kRowsOfC = kBM;
  static constexpr int kColumnsOfC = kBN;
  static constexpr int kRowElements = sm90::kRowBytes / 4;
  static constexpr int kChunkBytes = sm90::kRowBytes;  // of C on its epilogue
  static constexpr int kChunkElements = kRowElements;
  static constexpr int kBK = kChunkChannels;
  static constexpr int kRowBlocks = 1;  // of 64 rows, of a warpgroup
  static constexpr int kRowsOfB = kBN;
  static constexpr int kABytes = kBM * sm90::kRowBytes;
  static constexpr int kTermBytes = kBN * kChunkBytes / 2;  // of a term of B
  static constexpr int kBBytes = kTerms * kTermBytes;
  static constexpr int kAreaBytes = 64 * kChunkBytes;
  static constexpr unsigned kThreadsOfBox = 128;
  static constexpr int kTileWarps = 4 * kConsumers;
  static __device__ __forceinline__ std::uint32_t row_of_fragment(std::uint32_t row_block, std::uint32_t thread,
                                                                  std::uint32_t half) {
    return row_block * 64 + thread / 32 * 16 + thread % 32 / 4 + half * 8;
  }
  static_assert(kConsumers == 2 && kBM == 64 * kConsumers, "a consumer has 64 rows");
  static_assert(kTermBytes == kBN * fp32_split::kChunkBytes && kTermBytes % 1024 == 0, "terms are whole swizzles");
};

// --- producer ------------------------------------------------------------------------------------------------------

// The k tiles of a work item: taps fastest, in the order s, r, t, then chunks of channels.
struct KTile {
  std::uint32_t chunk, s, r, t;
};
__device__ __forceinline__ KTile k_tile_at(const sm90::DenseProblem& problem, std::uint32_t k) {
  KTile at = {};
  if (k == 0) return at;
  at.s = k % problem.taps[0];
  std::uint32_t rest = k / problem.taps[0];
  at.r = rest % problem.taps[1];
  rest /= problem.taps[1];
  at.t = rest % problem.taps[2];
  at.chunk = rest / problem.taps[2];
  return at;
}
__device__ __forceinline__ void next_k_tile(const sm90::DenseProblem& problem, KTile* at) {
  if (++at->s < problem.taps[0]) return;
  at->s = 0;
  if (++at->r < problem.taps[1]) return;
  at->r = 0;
  if (++at->t < problem.taps[2]) return;
  at->t = 0;
  ++at->chunk;
}

// `first_plane`: of the terms that are loaded.
template <class I, bool kAIsMatrix>
__device__ __forceinline__ void produce_tile(const Params& params, Shared<I>& shared, const Work& work, int first_plane,
                                             tile::PipelineState<I::kStages>* turn) {
  const sm90::Params& p = params.gemm;
  const sm90::DenseProblem& problem = p.problem[work.stride_phase];
  const std::uint32_t first_pixel = work.m * I::kBM;
  const sm90::Window window = kAIsMatrix ? sm90::Window{} : sm90::window_at(p, problem, first_pixel);
  const auto first_channel = static_cast<std::int32_t>(work.group * p.a_channels);
  const auto row = static_cast<std::int32_t>(work.group * p.b_channels + work.n * I::kRowsOfB +
                                             params.m_tiles_of_batch.quotient(work.m) * params.b_rows_of_batch);
  KTile at = k_tile_at(problem, work.k_begin);
  for (std::uint32_t k = work.k_begin; k < work.k_end; ++k) {
    tile::wait(&shared.empty[turn->stage], turn->parity ^ 1);
    const sm90::TapOffset offset = {static_cast<std::uint16_t>(at.s * static_cast<std::uint32_t>(p.tap_offset[0])),
                                    static_cast<std::uint16_t>(at.r * static_cast<std::uint32_t>(p.tap_offset[1])),
                                    static_cast<std::uint16_t>(at.t * static_cast<std::uint32_t>(p.tap_offset[2]))};
    const std::int32_t tap = problem.first_tap + static_cast<std::int32_t>(at.s) * problem.tap_step[0] +
                             static_cast<std::int32_t>(at.r) * problem.tap_step[1] +
                             static_cast<std::int32_t>(at.t) * problem.tap_step[2];
    if (threadIdx.x == 0) {
      std::uint64_t* const full = &shared.full[turn->stage];
      ptx::mbarrier_arrive_expect_tx(full, I::kABytes + I::kBBytes);
      sm90::load_rows<kAIsMatrix>(p, shared.a[turn->stage], p.a[work.stride_phase], full,
                                  first_channel + static_cast<std::int32_t>(at.chunk * I::kBK), first_pixel, window,
                                  offset);
      const std::int32_t chunk =
          tap * static_cast<std::int32_t>(p.channel_chunks) + static_cast<std::int32_t>(at.chunk);
      ptx::tma_tile_3d(shared.b[turn->stage], &p.b, full, 0, row, chunk * kPlanes + first_plane);
    }
    turn->next();
    next_k_tile(problem, &at);
  }
}

template <class I>
__device__ __forceinline__ void produce(const Params& params, Shared<I>& shared, int passes) {
  const sm90::Params& p = params.gemm;
  tile::PipelineState<I::kStages> turn;
  const std::uint32_t end = sm90::end_index<I>(p);
  for (std::uint32_t index = sm90::first_index<I>(p); index < end; index = sm90::next_index<I>(p, index)) {
    const Work work = sm90::work_item<I>(p, index);
    for (int pass = 0; pass < passes; ++pass) {
      const int first_plane = pass * kTerms;
      if (p.a_is_matrix) {
        produce_tile<I, true>(params, shared, work, first_plane, &turn);
      } else {
        produce_tile<I, false>(params, shared, work, first_plane, &turn);
      }
    }
  }
}

// --- consumers -----------------------------------------------------------------------------------------------------

// A's terms of 16 channels, as wgmma takes them.
struct Fragments {
  std::uint32_t top[4], finite[4], middle[4], low[4];
};

// `from`: the thread's first row in the stage. Its 8 channels of a step lie 4 in a row, 4 in the row 8 below; they come
// in the order of the registers: k positions 2t, then 2t + 8, in each the upper row first.
__device__ __forceinline__ void load_floats(const unsigned char* from, int vector, float (&x)[8]) {
  const float4 upper = *reinterpret_cast<const float4*>(from + vector);
  const float4 lower = *reinterpret_cast<const float4*>(from + vector + 8 * sm90::kRowBytes);
  x[0] = upper.x, x[1] = upper.y, x[2] = lower.x, x[3] = lower.y;
  x[4] = upper.z, x[5] = upper.w, x[6] = lower.z, x[7] = lower.w;
}
__device__ __forceinline__ void split_floats(const float (&x)[8], Fragments* to) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const Terms terms = terms_of_pair(x[2 * i], x[2 * i + 1]);
    to->top[i] = terms.top;
    to->finite[i] = terms.finite;
    to->middle[i] = terms.middle;
    to->low[i] = terms.low;
  }
}

template <class I>
using Sums = float[I::kRowBlocks][I::kBN / 2];

// The products with lower terms, which are small; of a pass over what is not finite, its product.
template <class I, bool kSpecials>
__device__ __forceinline__ void multiply_lower(const Fragments& a, std::uint64_t b, int scale_d,
                                               float (&sum)[I::kBN / 2]) {
  using B = tile::BFloat16;
  constexpr std::uint64_t kTerm = I::kTermBytes >> 4;
  if constexpr (kSpecials) {
    ptx::wgmma_rs<B, B, I::kBN>(sum, a.finite, b, scale_d);
    return;
  }
  ptx::wgmma_rs<B, B, I::kBN>(sum, a.finite, b + 2 * kTerm, scale_d);
  ptx::wgmma_rs<B, B, I::kBN>(sum, a.middle, b + kTerm);
  ptx::wgmma_rs<B, B, I::kBN>(sum, a.low, b);
  ptx::wgmma_rs<B, B, I::kBN>(sum, a.finite, b + kTerm);
  ptx::wgmma_rs<B, B, I::kBN>(sum, a.middle, b);
}

template <class I>
__device__ __forceinline__ void add_to(const float (&part)[I::kBN / 2], Sums<I>& sum) {
#pragma unroll
  for (int i = 0; i < I::kBN / 2; ++i) sum[0][i] += part[i];
}

// One pass over the k tiles of a work item. kSpecials: B's first term is what is not finite, and the others are void.
template <class I, bool kSpecials>
__device__ __forceinline__ void add_products(Shared<I>& shared, const Work& work, int consumer, Sums<I>& sum,
                                             tile::PipelineState<I::kStages>* turn) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int first_row = consumer * 64 + static_cast<int>(threadIdx.x % 128) / 32 * 16 + lane / 4;
  const int vector[kSteps] = {(lane % 4 * 2 ^ (lane / 4)) << 4, ((lane % 4 * 2 + 1) ^ (lane / 4)) << 4};
  if (work.k_begin >= work.k_end) return;
  constexpr std::uint64_t kSecondStep = kStepChannels * 2 >> 4;
  float part[I::kBN / 2];
  Fragments fragments[kSteps];
  tile::wait(&shared.full[turn->stage], turn->parity);
  float first[8];
  float second[8];
  load_floats(shared.a[turn->stage] + first_row * sm90::kRowBytes, vector[0], first);
  for (std::uint32_t k = work.k_begin; k < work.k_end; ++k) {
    const int stage = turn->stage;
    const std::uint64_t b = tile::operand_descriptor<fp32_split::kChunkBytes>(shared.b[stage], 16);
    split_floats(first, &fragments[0]);
    load_floats(shared.a[stage] + first_row * sm90::kRowBytes, vector[1], second);
    ptx::wgmma_fence();
    multiply_lower<I, kSpecials>(fragments[0], b, 0, part);
    ptx::wgmma_commit_group();
    split_floats(second, &fragments[1]);
    ptx::wgmma_fence();
    multiply_lower<I, kSpecials>(fragments[1], b + kSecondStep, 1, part);
    if constexpr (!kSpecials) {
      ptx::wgmma_rs<tile::BFloat16, tile::BFloat16, I::kBN>(part, fragments[0].top, b);
      ptx::wgmma_rs<tile::BFloat16, tile::BFloat16, I::kBN>(part, fragments[1].top, b + kSecondStep);
    }
    ptx::wgmma_commit_group();
    turn->next();
    if (k + 1 < work.k_end) tile::wait(&shared.full[turn->stage], turn->parity);
    // Behind the last k tile they are whatever the stage holds, and nobody uses them.
    load_floats(shared.a[turn->stage] + first_row * sm90::kRowBytes, vector[0], first);
    ptx::wgmma_wait_group<0>();
    sm90::release<I>(shared, stage);
    add_to<I>(part, sum);
  }
}

template <class I>
__device__ __forceinline__ void multiply(Shared<I>& shared, const Work& work, int consumer, int passes, Sums<I>& sum,
                                         tile::PipelineState<I::kStages>* turn) {
  sm90::clear<I>(sum);
  add_products<I, false>(shared, work, consumer, sum, turn);
  if (passes > 1) add_products<I, true>(shared, work, consumer, sum, turn);
}

template <class I>
__device__ __forceinline__ void consume(const Params& params, Shared<I>& shared, int consumer, int passes) {
  const sm90::Params& p = params.gemm;
  tile::PipelineState<I::kStages> turn;
  int area = 0;
  const std::uint32_t end = sm90::end_index<I>(p);
  for (std::uint32_t index = sm90::first_index<I>(p); index < end; index = sm90::next_index<I>(p, index)) {
    const Work work = sm90::work_item<I>(p, index);
    Sums<I> sum;
    multiply<I>(shared, work, consumer, passes, sum, &turn);
    if (p.splits > 1) {
      sm90::store_partials<I>(p, work, consumer, sum);
    } else if (params.c_column_step != 0) {
      store_planes<I>(params, shared, work, consumer, sum);
    } else {
      sm90::store<I>(p, shared, work, consumer, sum, &area);
    }
  }
  // TMA reads the staging area until then.
  if (threadIdx.x % I::kThreadsOfBox == 0) ptx::bulk_wait_group_read<0>();
}

// 2 where the filter holds a value that is not finite, else 1. A barrier of the block. Without flags it is finite.
template <int kThreads>
__device__ __forceinline__ int passes_of(const std::uint32_t* flags) {
  std::uint32_t any = 0;
  if (flags != nullptr) {
    for (int i = static_cast<int>(threadIdx.x); i < kMaxSplitBlocks; i += kThreads) any |= flags[i];
  }
  return __syncthreads_or(static_cast<int>(any)) != 0 ? 2 : 1;
}

template <class I>
__global__ void __launch_bounds__(I::kThreads, 1) fp32_split_sm90(const __grid_constant__ Params params) {
  extern __shared__ __align__(1024) unsigned char raw[];
  auto& shared = *reinterpret_cast<Shared<I>*>(raw);
  const sm90::Params& p = params.gemm;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  sm90::make_barriers<I>(p, shared, threadIdx.x / 32);
  __syncwarp();
  ptx::griddepcontrol_wait();  // the filter is being split
  const int passes = passes_of<I::kThreads>(params.flags);
  if (warp < 4) {
    ptx::setmaxnreg_dec<sm90::kProducerRegisters>();
    if (warp == 0) produce<I>(params, shared, passes);
  } else {
    if ((ptx::shared_address(raw) & 1023u) != 0) __trap();  // the swizzle counts on it
    ptx::setmaxnreg_inc<I::kConsumerRegisters>();
    consume<I>(params, shared, warp / 4 - 1, passes);
  }
}

template <class I>
void launch_instance(const Params& params, std::uint32_t blocks, CUstream_st* stream) {
  constexpr int kBytes = static_cast<int>(sizeof(Shared<I>));
  static_assert(kBytes <= 227 * 1024, "shared memory of a block");
  cuda::allow_shared_memory<&fp32_split_sm90<I>>(kBytes);
  cuda::launch_kernel(&fp32_split_sm90<I>, {blocks, I::kThreads, kBytes, 1, true}, stream, params);
  if (params.gemm.splits == 1) return;
  if (params.c_column_step != 0) {
    launch_reduction_of_planes<I>(params, stream);
  } else {
    sm90::launch_reduction<I>(params.gemm, stream);
  }
}

template <Direction kDirection>
LaunchShape launch_of(int shape) {
  return [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    static constexpr LaunchShape kLaunches[] = {&launch_instance<Instance<kDirection, static_cast<int>(kIndex)>>...};
    return kLaunches[shape];
  }
  (std::make_index_sequence<kShapeCount>());
}

}  // namespace gpudnn::kernels::fp32_split
