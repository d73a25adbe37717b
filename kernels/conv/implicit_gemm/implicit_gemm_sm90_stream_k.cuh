// Help for the blocks of a filter gradient whose tiles are fewer than the multiprocessors: further blocks, the fix-up
// CTAs, multiply the last k tiles of each tile and leave their sums in the workspace, where the tile's own block
// fetches them when it has multiplied the others.
//
// A tile's last `fix-up` k tiles, those of all tiles one after the other, are cut into equal pieces for the fix-up
// CTAs, so a tile has the sums of one or two fix-up CTAs, which are added in this order. Helpers never wait. Each
// warpgroup of a tile's block waits for the same warpgroup of the fix-up CTAs: a counter for each stands in a slot of
// tile/mailboxes.cuh. The fix-up CTAs are the grid's first blocks, which the device starts before those that wait for
// them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_epilogue.cuh"
#include "kernels/ptx/thread_index.cuh"
#include "kernels/tile/mailboxes.cuh"

namespace gpudnn::kernels::sm90 {

struct FixupSlot {
  unsigned given[kMaxFixupTiles][2];  // pieces of a tile that a warpgroup has left
  unsigned taken;                     // warpgroups that have fetched theirs
};
static __device__ FixupSlot fixup_slots[tile::kMailboxes];

__device__ __forceinline__ FixupSlot& find_fixup_slot(const Params& p) {
  return fixup_slots[tile::mailbox_find(p.fixup_key, tile::mailbox_glance(p.fixup_key))];
}

// By a helper's warpgroup, when it has stored its sums.
__device__ __forceinline__ void publish_fixup(const Params& p, const Work& work, int consumer) {
  __threadfence();
  ptx::barrier_sync(kStagingBarrier + consumer, 128);
  if (ptx::thread_index() % 128 == 0) atomicAdd(&find_fixup_slot(p).given[work.tile][consumer], 1u);
}

template <class I>
__device__ __forceinline__ void add_fixup(const Params& p, const Work& work, int consumer,
                                          float (&sum)[I::kRowBlocks][I::kBN / 2]) {
  const std::uint32_t first = work.tile * p.fixup.divisor;
  const std::uint32_t pieces = (first + p.fixup.divisor - 1) / p.fixup_quantum - first / p.fixup_quantum + 1;
  if (ptx::thread_index() % 128 == 0) {
    const unsigned slot = tile::mailbox_find(p.fixup_key, tile::mailbox_glance(p.fixup_key));
    FixupSlot& fixup = fixup_slots[slot];
    auto* const given = static_cast<volatile unsigned*>(&fixup.given[work.tile][consumer]);
    while (*given != pieces) {
    }
    *given = 0;  // as it was found
    __threadfence();
    const unsigned all = p.works.divisor * I::kConsumers;
    if (atomicAdd(&fixup.taken, 1u) == all - 1) {
      fixup.taken = 0;
      tile::mailbox_leave(slot);
    }
  }
  ptx::barrier_sync(kStagingBarrier + consumer, 128);
#pragma unroll 1
  for (std::uint32_t piece = 0; piece < pieces; ++piece) {
    const std::size_t tile = static_cast<std::size_t>(piece) * p.works.divisor + work.tile;
    const auto* const quads =
        reinterpret_cast<const float4*>(p.partials + tile * (I::kBM * I::kBN)) + ptx::thread_index() % 128;
#pragma unroll
    for (int block = 0; block < I::kRowBlocks; ++block) {
#pragma unroll
      for (int j = 0; j < I::kBN / 8; ++j) {
        const float4 part = __ldcg(quads + ((consumer * I::kRowBlocks + block) * (I::kBN / 8) + j) * 128);
        sum[block][4 * j] += part.x;
        sum[block][4 * j + 1] += part.y;
        sum[block][4 * j + 2] += part.z;
        sum[block][4 * j + 3] += part.w;
      }
    }
  }
}

}  // namespace gpudnn::kernels::sm90
