// Which tile of which product a work item is: index arithmetic that the kernel and host tests share.
//
// Blocks that run together take neighbouring tiles. Tiles come in groups of a few along m: within a group n is slower
// than m, so the blocks of a wave cover a region that is about as wide as high, and read each operand about once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm/sm90/params.hpp"

namespace gpudnn::kernels::gemm::sm90 {

struct WorkTile {
  std::uint32_t m, n;            // the first row and column
  std::uint32_t batch[2];        // outer, inner
  std::uint32_t k_begin, k_end;  // k tiles
};

// Unit number `unit` of a batch: which along n, and along m.
GPUDNN_HOST_DEVICE std::uint32_t unit_place(const Params& p, std::uint32_t unit, std::uint32_t* m) {
  std::uint32_t inside = 0;
  const std::uint32_t group = p.group_units.divmod(unit, &inside);
  const std::uint32_t n = group < p.full_groups ? p.group.divmod(inside, m) : p.last_group.divmod(inside, m);
  *m += group * p.group.divisor;
  return n;
}

// Work item `index` of the block number `rank` of its cluster, with tiles of bm x bn.
GPUDNN_HOST_DEVICE WorkTile work_tile(const Params& p, std::uint32_t index, std::uint32_t rank, std::uint32_t bm,
                                      std::uint32_t bn) {
  WorkTile work;
  std::uint32_t unit = 0;
  const std::uint32_t batch = p.units.divmod(index, &unit);
  work.batch[0] = p.inner_batches.divmod(batch, &work.batch[1]);
  std::uint32_t m = 0;
  const std::uint32_t n = unit_place(p, unit, &m);
  work.m = (p.multicast == Multicast::b ? 2 * m + rank : m) * bm;
  work.n = (p.multicast == Multicast::a ? 2 * n + rank : n) * bn;
  const std::uint32_t begin = p.splits > 1 ? rank * p.k_tiles_per_split : 0;
  const std::uint32_t end = begin + p.k_tiles_per_split;
  work.k_begin = begin < p.k_tiles ? begin : p.k_tiles;
  work.k_end = end < p.k_tiles ? end : p.k_tiles;
  return work;
}

}  // namespace gpudnn::kernels::gemm::sm90
