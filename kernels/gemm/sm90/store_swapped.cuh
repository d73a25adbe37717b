// From the accumulators of a swap-AB tile, whose rows are columns of D, to D: the sums are staged as rows of D in the
// shared memory of the stages, and each thread takes 8 neighbours of a row through the epilogue. Where the blocks of a
// cluster have a share of k each, they share the rows; sums are added in the order of the splits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm/sm90/store_rows.cuh"

namespace gpudnn::kernels::gemm::sm90 {

// By the only consumer warpgroup, for the block's only tile.
template <class I>
__device__ __forceinline__ void store_swapped(const Params& p, Shared<I>& shared, const WorkTile& work,
                                              const Sums<I>& sum, EpilogueState* state) {
  constexpr int kPitch = I::kBM + 4;  // floats: the four tokens of a quad's lanes lie 8 banks apart
  constexpr int kGroups = I::kBM / 8;
  static_assert(I::kConsumers == 1 && I::kRowBlocks == 1, "one warpgroup holds the tile");
  static_assert(I::kBN * kPitch * 4 <= I::kStages * I::kABytes, "the stages hold a tile's sums");
  const std::uint32_t thread = threadIdx.x % 128;
  const std::uint32_t lane = thread % 32;
  const std::uint32_t rank = ptx::cluster_ctarank();
  auto* const staged = reinterpret_cast<float*>(&shared.a[0][0]);
  ptx::barrier_sync(kConsumersBarrier, 128);  // all warps have read the stages
#pragma unroll
  for (int i = 0; i < I::kBN / 2; ++i) {
    const std::uint32_t row = i / 4 * 8 + lane % 4 * 2 + i % 2;
    staged[row * kPitch + thread / 32 * 16 + lane / 4 + i % 4 / 2 * 8] = sum[0][i];
  }
  if (p.splits > 1) {
    __syncwarp();
    ptx::cluster_arrive();
    ptx::cluster_wait();
  } else {
    ptx::barrier_sync(kConsumersBarrier, 128);
  }
  const std::uint32_t groups = min(static_cast<std::uint32_t>(I::kBN), p.m - work.m) * kGroups;
#pragma unroll 1
  for (std::uint32_t group = rank * 128 + thread; group < groups; group += p.splits * 128) {
    const std::uint32_t row = group / kGroups;
    const std::uint32_t n = work.n + group % kGroups * 8;
    const int count = min(8, static_cast<int>(p.n) - static_cast<int>(n));
    if (count <= 0) continue;
    const std::uint32_t low = ptx::shared_address(staged + row * kPitch + group % kGroups * 8);
    float v[8] = {};
    for (std::uint32_t split = 0; split < p.splits; ++split) {
      const std::uint32_t from = p.splits > 1 ? split : rank;
      const std::uint32_t address = ptx::mapa(low, from);
      add8(ptx::ld_shared_cluster(address), ptx::ld_shared_cluster(address + 16), v);
    }
    finish_row<I>(p, state, work, work.m + row, n, count, v);
  }
  __syncwarp();
}

}  // namespace gpudnn::kernels::gemm::sm90
