// The ring of stages in shared memory between the producer warp and the consumer warpgroups of a matrix product, and
// the order of ping-pong consumers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "kernels/gemm/sm90/params.hpp"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/tile/element_type.hpp"
#include "kernels/tile/stage_ring.cuh"

namespace gpudnn::kernels::gemm::sm90 {

using tile::PipelineState;

constexpr int kProducerRegisters = 40;
constexpr int kStagingBytes = 16384;  // of a consumer: 64 x 64 floats, or two boxes of 16 rows of D for each warp

enum NamedBarrier : int { kStagingBarrier = 1, kConsumersBarrier = 5 };  // a staging barrier for each consumer

// One instance: elements of type T (Float8E4M3 stands for all 8-bit floats), a tile, and whether D = alpha * sum is all
// that it stores. Such an instance is a seventh of the code of one with the chain; the code of a small product comes
// from memory, line by line.
template <class Element_, class Tile, bool kPlain_>
struct Instance {
  using T = Element_;
  static constexpr bool kPlain = kPlain_;
  static constexpr TileShape kTile = Tile::value;
  static constexpr bool kSwapAb = kTile.swap_ab;
  static constexpr int kBM = kTile.wgmma_rows();  // with swap-AB columns of D
  static constexpr int kBN = kTile.wgmma_columns();
  static constexpr int kBK = kRowBytes / static_cast<int>(sizeof(T));
  static constexpr int kStages = kTile.stages;
  static constexpr bool kPingPong = kTile.ping_pong;
  static constexpr int kConsumers = kTile.consumers;
  static constexpr bool kTakesTurns = kPingPong && kConsumers > 1;
  static constexpr int kThreads = 128 * (1 + kConsumers);
  static constexpr int kRowBlocks = kTile.row_blocks();
  static constexpr int kRegistersOfSm = 65536 / 128 / kTile.residency;
  static constexpr int kFreeRegisters = (kRegistersOfSm - kProducerRegisters) / kConsumers / 8 * 8;
  static constexpr int kConsumerRegisters = kFreeRegisters > 232 ? 232 : kFreeRegisters;
  static constexpr int kInstructionK = 32 / static_cast<int>(sizeof(T));
  static constexpr int kABytes = kBM * kRowBytes;
  static constexpr int kBBytes = kBN * kRowBytes;
  static constexpr int kBoxElements = kRowBytes / static_cast<int>(sizeof(T));  // m or n of an MN-major box
  static constexpr int kBoxBytes = kBK * kRowBytes;                             // of an MN-major box
  static constexpr int kWarpsOfTile = kPingPong ? 4 : 4 * kConsumers;
  static constexpr int kChunks = kBN / 64;  // of 64 columns
  static constexpr bool kPromotes = sizeof(T) == 1 && kRowBlocks * kBN / 2 <= 64;
  static_assert(kBM == 64 * kRowBlocks * (kPingPong ? 1 : kConsumers), "warpgroups take blocks of 64 rows");
  // Swap-AB stages sums where the k tiles were; small ones of other blocks come to a place of their own.
  static constexpr int kStaging = !kSwapAb ? kStagingBytes : kBN <= 16 ? kBM * kBN * 4 : 16;
  static_assert((kSwapAb || kBN % (kPlain ? 16 : 64) == 0) && kRowBlocks * kBN / 2 <= 160,
                "accumulators fit the registers");
};

template <class I>
struct alignas(1024) Shared {
  unsigned char a[I::kStages][I::kABytes];
  unsigned char b[I::kStages][I::kBBytes];
  unsigned char staging[I::kConsumers][I::kStaging];
  float bias[I::kConsumers][I::kBN];  // of the consumer's tile
  std::uint64_t full[I::kStages];
  std::uint64_t empty[I::kStages];
  std::uint64_t fetched[I::kConsumers];  // ping-pong: the consumer has seen all stages of its tile filled
  std::uint64_t sums;                    // those of the cluster's blocks have come
};

// Whether other blocks may send their sums as soon as they know that this one has begun: to a place that no k tile has.
template <class I>
constexpr bool kSendsEarly = I::kSwapAb&& I::kStaging >= I::kBM* I::kBN * 4;

// Whether two splits exchange halves: a thread's share of the sums then lies where its warp has its boxes later.
template <class I>
constexpr bool kExchangesHalves = exchanges_halves(I::kTile);

template <class I>
__device__ __forceinline__ bool exchanges_halves(const Params& p) {
  return kExchangesHalves<I> && p.store == Store::halves;
}
template <class I>
__device__ __forceinline__ bool sends_early(const Params& p) {
  return (kSendsEarly<I> && p.splits > 1) || exchanges_halves<I>(p);
}

// Whether it has code for Store::lines.
template <class I>
constexpr bool kStoresLines = stores_lines(I::kTile) && sizeof(typename I::T) == 2;

// Whether the block is one of a pair that shares loads.
template <class I>
__device__ __forceinline__ bool pairs_up(const Params& p) {
  return !I::kSwapAb && p.multicast != Multicast::none;
}

// All but `full`, which the producer makes. Each of the other warps makes some of them, for one warp takes some 40
// cycles for each; they lie one after the other.
template <class I>
__device__ __forceinline__ void make_barriers(const Params& p, Shared<I>& shared, unsigned warp) {
  constexpr unsigned kSums = 2 * I::kStages + I::kConsumers;
  static_assert(offsetof(Shared<I>, fetched) == offsetof(Shared<I>, full) + 16 * I::kStages &&
                offsetof(Shared<I>, sums) == offsetof(Shared<I>, full) + 8 * kSums);
  if (threadIdx.x % 32 != 0) return;
  const std::uint32_t readers = I::kWarpsOfTile * (pairs_up<I>(p) ? 2 : 1);
#pragma unroll 1
  for (unsigned i = I::kStages + warp; i <= kSums; i += I::kThreads / 32 - 1) {
    ptx::mbarrier_init(&shared.full[0] + i, i == kSums ? 1 : i < 2 * I::kStages ? readers : 4);
    ptx::fence_mbarrier_init();
    if ((I::kSwapAb && i == kSums && p.splits > 1) || (i == kSums && exchanges_halves<I>(p))) {
      constexpr std::uint32_t kBytes = I::kBM * I::kBN * 4;
      ptx::mbarrier_arrive_expect_tx(&shared.sums, kBytes - (kBytes >> (__ffs(static_cast<int>(p.splits)) - 1)));
    }
  }
}

// The stage is read: told to each block whose copies fill it, by a lane for each.
template <class I>
__device__ __forceinline__ void release(Shared<I>& shared, int stage, bool multicast) {
  const unsigned lane = threadIdx.x % 32;
  if (multicast) {
    if (lane < 2) ptx::mbarrier_arrive_cluster(ptx::mapa(ptx::shared_address(&shared.empty[stage]), lane));
  } else {
    if (lane == 0) ptx::mbarrier_arrive(&shared.empty[stage]);
  }
}

// The ping-pong order barrier; a single consumer has nobody to wait for it. Tile number `sequence` of the block begins
// when the one before has seen its last stage filled: a wait for a phase of a barrier cannot tell it from the phase
// before the last.
template <class I>
__device__ __forceinline__ void wait_for_order(Shared<I>& shared, std::uint32_t sequence) {
  if (!I::kTakesTurns || sequence == 0) return;
  const std::uint32_t before = sequence - 1;
  tile::wait(&shared.fetched[before % I::kConsumers], before / I::kConsumers & 1u);
}
template <class I>
__device__ __forceinline__ void pass_order(Shared<I>& shared, int consumer) {
  if (I::kTakesTurns && threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&shared.fetched[consumer]);
}

}  // namespace gpudnn::kernels::gemm::sm90
