// Which tiles of which product a block works on: dense or batched, persistent, in an order that keeps the operands of
// neighbouring blocks in the L2.
//
// Blocks that run together take neighbouring tiles. Tiles come in groups of a few along m: within a group n is slower
// than m, so the blocks of a wave cover a region that is about as wide as high, and read each operand about once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm/sm90/params.hpp"
#include "kernels/ptx/barrier.cuh"

namespace gpudnn::kernels::gemm::sm90 {

struct WorkTile {
  std::uint32_t m, n;            // the first row and column
  std::uint32_t batch[2];        // outer, inner
  std::uint32_t k_begin, k_end;  // k tiles
};

// Iterates over a block's work tiles. A cluster takes a unit: the pair of tiles that multicast, or one tile by splits.
template <class I>
struct Scheduler {
  const Params& p;
  std::uint32_t rank;  // of the block in its cluster
  std::uint32_t index;
  std::uint32_t step;

  __device__ __forceinline__ explicit Scheduler(const Params& params) : p(params) {
    const std::uint32_t cluster = p.multicast != Multicast::none ? 2 : p.splits;
    if (cluster == 1) {
      rank = 0;
      index = blockIdx.x;
      step = gridDim.x;
    } else {
      rank = ptx::cluster_ctarank();
      index = blockIdx.x / cluster;
      step = gridDim.x / cluster;
    }
  }

  [[nodiscard]] __device__ __forceinline__ bool has_tile() const { return index < p.works; }
  __device__ __forceinline__ void next() { index += step; }

  [[nodiscard]] __device__ __forceinline__ WorkTile tile() const {
    WorkTile work;
    std::uint32_t unit;
    const std::uint32_t batch = p.units.divmod(index, &unit);
    work.batch[0] = p.inner_batches.divmod(batch, &work.batch[1]);
    std::uint32_t inside;
    const std::uint32_t group = p.group_units.divmod(unit, &inside);
    std::uint32_t m;
    const std::uint32_t n = group < p.full_groups ? p.group.divmod(inside, &m) : p.last_group.divmod(inside, &m);
    m += group * p.group.divisor;
    work.m = (p.multicast == Multicast::b ? 2 * m + rank : m) * I::kBM;
    work.n = (p.multicast == Multicast::a ? 2 * n + rank : n) * I::kBN;
    work.k_begin = p.splits > 1 ? min(rank * p.k_tiles_per_split, p.k_tiles) : 0;
    work.k_end = min(work.k_begin + p.k_tiles_per_split, p.k_tiles);
    return work;
  }
};

}  // namespace gpudnn::kernels::gemm::sm90
