// The work tiles of a block: dense or batched, persistent.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm/sm90/work_tile.hpp"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/clusterid.cuh"

namespace gpudnn::kernels::gemm::sm90 {

// Iterates over a block's work tiles. A cluster takes a unit: the pair of tiles that multicast, or one tile by splits.
template <class I>
struct Scheduler {
  const Params& p;
  std::uint32_t rank;  // of the block in its cluster
  std::uint32_t index;
  std::uint32_t step;

  __device__ __forceinline__ explicit Scheduler(const Params& params) : p(params) {
    rank = ptx::cluster_ctarank();
    index = ptx::clusterid();
    step = ptx::nclusterid();
  }

  [[nodiscard]] __device__ __forceinline__ bool has_tile() const { return index < p.works; }
  __device__ __forceinline__ void next() { index += step; }

  [[nodiscard]] __device__ __forceinline__ WorkTile tile() const {
    return work_tile(p, index, rank, I::kTile.bm, I::kTile.bn);
  }
};

}  // namespace gpudnn::kernels::gemm::sm90
