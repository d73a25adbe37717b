// From the accumulators of a swap-AB tile, whose rows are columns of D, to D: the sums are staged as rows of D in the
// shared memory of the stages, and each thread takes 8 neighbours of a row through the epilogue.
//
// Where the blocks of a cluster have a share of k each, each of them finishes a share of the tile: the same sums of all
// threads. The others send theirs into its shared memory, and its barrier counts their bytes: nobody is asked, nothing
// is fetched, and no fence waits for memory. Sums are added in the order of the splits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm/sm90/store_rows.cuh"

namespace gpudnn::kernels::gemm::sm90 {

// Which part of a thread's sums a block of the cluster finishes.
struct SwappedShare {
  std::uint32_t first;
  std::uint32_t count;  // a power of two
};

// Numbers that travel together.
template <int kCount>
struct FloatsOf;
template <>
struct FloatsOf<1> {
  using type = float;
};
template <>
struct FloatsOf<2> {
  using type = float2;
};
template <>
struct FloatsOf<4> {
  using type = float4;
};

// Sends what the others finish, and adds what they send to the sums number rank * kShare and on, which come first then.
template <class I, int kSplits>
__device__ __forceinline__ void exchange_swapped(Shared<I>& shared, std::uint32_t rank, Sums<I>& sum) {
  constexpr int kShare = I::kBN / 2 / kSplits;
  constexpr int kWidth = kShare < 4 ? kShare : 4;
  using Floats = typename FloatsOf<kWidth>::type;
  static_assert(kShare % kWidth == 0 && I::kBM == 64);
  static_assert(kSendsEarly<I> || I::kBM * I::kBN * 4 <= I::kStages * I::kBBytes, "so do those of B");
  // [split][piece][thread]
  auto* const area = reinterpret_cast<Floats*>(kSendsEarly<I> ? &shared.staging[0][0] : &shared.b[0][0]);
  const std::uint32_t thread = threadIdx.x % 128;
  const std::uint32_t mine = ptx::shared_address(area + rank * (kShare / kWidth * 128) + thread);
  const std::uint32_t barrier = ptx::shared_address(&shared.sums);
  float own[kShare] = {};
#pragma unroll
  for (int to = 0; to < kSplits; ++to) {
    const float* const part = sum[0] + to * kShare;
    if (static_cast<std::uint32_t>(to) == rank) {
#pragma unroll
      for (int i = 0; i < kShare; ++i) own[i] = part[i];
      continue;
    }
    const std::uint32_t there = ptx::mapa(mine, to);
    const std::uint32_t counts = ptx::mapa(barrier, to);
#pragma unroll
    for (int i = 0; i < kShare; i += kWidth) {
      Floats floats;
#pragma unroll
      for (int j = 0; j < kWidth; ++j) reinterpret_cast<float*>(&floats)[j] = part[i + j];
      ptx::st_async(there + static_cast<std::uint32_t>(i / kWidth * 128 * sizeof(Floats)), floats, counts);
    }
  }
  while (!ptx::mbarrier_try_wait_acquire_cluster(&shared.sums, 0)) {
  }
#pragma unroll
  for (int i = 0; i < kShare; i += kWidth) {
    float total[kWidth] = {};
#pragma unroll
    for (int from = 0; from < kSplits; ++from) {
      const bool is_own = static_cast<std::uint32_t>(from) == rank;
      Floats other;
      if (!is_own) other = area[(from * (kShare / kWidth) + i / kWidth) * 128 + thread];
#pragma unroll
      for (int j = 0; j < kWidth; ++j) total[j] += is_own ? own[i + j] : reinterpret_cast<const float*>(&other)[j];
    }
#pragma unroll
    for (int j = 0; j < kWidth; ++j) sum[0][i + j] = total[j];
  }
}

// The share of this block, whose sums come first then.
template <class I>
__device__ __forceinline__ SwappedShare join_swapped(const Params& p, Shared<I>& shared, Sums<I>& sum) {
  constexpr std::uint32_t kSums = I::kBN / 2;
  if (p.splits == 1) return {0, kSums};
  const std::uint32_t rank = ptx::cluster_ctarank();
  __syncwarp();
  if (!kSendsEarly<I>) ptx::cluster_arrive_relaxed();  // its k tiles are read
  ptx::cluster_wait();
  if (p.splits == 2) {
    exchange_swapped<I, 2>(shared, rank, sum);
  } else if (p.splits == 4) {
    exchange_swapped<I, 4>(shared, rank, sum);
  } else {
    exchange_swapped<I, 8>(shared, rank, sum);
  }
  const std::uint32_t count = kSums / p.splits;
  return {rank * count, count};
}

// By the only consumer warpgroup, for the block's only tile.
template <class I>
__device__ __forceinline__ void store_swapped(const Params& p, Shared<I>& shared, const WorkTile& work, Sums<I>& sum,
                                              EpilogueState* state) {
  constexpr int kPitch = I::kBM + 4;  // floats: the four tokens of a quad's lanes lie 8 banks apart
  static_assert(I::kConsumers == 1 && I::kRowBlocks == 1, "one warpgroup holds the tile");
  static_assert(I::kBN * kPitch * 4 <= I::kStages * I::kABytes, "the stages of A hold a tile's sums");
  const std::uint32_t thread = threadIdx.x % 128;
  const std::uint32_t lane = thread % 32;
  auto* const staged = reinterpret_cast<float*>(&shared.a[0][0]);
  const SwappedShare share = join_swapped<I>(p, shared, sum);
  ptx::barrier_sync(kConsumersBarrier, 128);  // all warps have read the stages
#pragma unroll
  for (int i = 0; i < I::kBN / 2; ++i) {
    if (static_cast<std::uint32_t>(i) >= share.count) break;
    const std::uint32_t number = share.first + i;
    const std::uint32_t row = number / 4 * 8 + lane % 4 * 2 + number % 2;
    staged[row * kPitch + thread / 32 * 16 + lane / 4 + number % 4 / 2 * 8] = sum[0][i];
  }
  ptx::barrier_sync(kConsumersBarrier, 128);
  // Groups of 8 columns: all of a row, or every other one of a pair, where a block has two sums of a thread or one.
  const std::uint32_t rows = min(static_cast<std::uint32_t>(I::kBN), p.m - work.m);
#pragma unroll 1
  for (std::uint32_t group = thread; group < share.count * 16; group += 128) {
    const bool is_whole = share.count >= 4;
    const std::uint32_t in_block = share.count == 1 ? group / 4 * 2 + share.first % 2 : group / 4;
    const std::uint32_t row = is_whole ? share.first * 2 + group / 8 : share.first / 4 * 8 + in_block;
    const std::uint32_t vector = is_whole ? group % 8 : group % 4 * 2 + share.first % 4 / 2;
    const std::uint32_t n = work.n + vector * 8;
    const int count = min(8, static_cast<int>(p.n) - static_cast<int>(n));
    if (row >= rows || count <= 0) continue;
    const auto* const from = reinterpret_cast<const float4*>(staged + row * kPitch + vector * 8);
    float v[8] = {};
    add8(from[0], from[1], v);
    finish_row<I>(p, state, work, work.m + row, n, count, v);
  }
  __syncwarp();
}

}  // namespace gpudnn::kernels::gemm::sm90
