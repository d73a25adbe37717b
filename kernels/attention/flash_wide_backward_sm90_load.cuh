// What the blocks of flash_wide_backward_sm90 hold in shared memory, and the threads that do not multiply: they take
// tiles of keys, load tiles by TMA, and add dq's tiles to device memory in their order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_cluster_ticket.cuh"
#include "kernels/attention/flash_key_tiles_sm90.cuh"
#include "kernels/attention/flash_wide_backward_sm90.hpp"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/ptx/tma_tile_5d_multicast.cuh"

namespace gpudnn::kernels::flash_sm90 {

template <class T>
struct WideConfig {
  using Element = T;
  static constexpr int kDim = kFlashWideDim;
  static constexpr int kBlocks = kFlashWideBlocks;  // of a cluster: neighbouring tiles of keys
  static constexpr int kRows = kFlashWideRows;
  static constexpr int kStream = kFlashWideStream;
  static constexpr int kThreads = 3 * kWarpgroup;
  static constexpr int kQStages = 2;
  static constexpr int kPanelElements = 64 * kPanelColumns;  // of every tile: 64 rows
  static constexpr int kPanel = 64 * kPanelBytes;
  static constexpr int kPanels = kDim / kPanelColumns;
  static constexpr int kDqPanels = kPanels / 2;  // of dq that each consumer makes, one for each block of the cluster
  static constexpr int kDqFloats = kStream * kDim;
  static constexpr int kBoxRows = kFlashWideBox;
  static constexpr int kReaders = 8 * kBlocks;  // warps that read a tile of q or dO
  static_assert(kRows == 64 && kStream == 64, "a warpgroup has all rows of a tile");
  static_assert(kDqPanels == kBlocks, "each consumer makes a panel of dq for each block");
};

struct WideTile : KeyTilePlace {  // index -1: there are no more
  int row;
  QueryTiles queries;  // of the cluster's keys
  Sequence sequence;
};

constexpr int kWideAdders = 3;  // threads that add dq's panels to device memory

template <class C>
struct WideShared {
  alignas(1024) unsigned char k[C::kPanels * C::kPanel];
  alignas(1024) unsigned char v[C::kPanels * C::kPanel];
  alignas(1024) unsigned char q[C::kQStages][C::kPanels * C::kPanel];
  alignas(1024) unsigned char d_o[C::kPanels * C::kPanel];
  alignas(1024) unsigned char ds[2][C::kPanel];          // {queries, keys}
  alignas(1024) float dq[2][C::kPanelElements];          // of each consumer: {8 queries, thread, 4}
  alignas(1024) float probabilities[C::kPanelElements];  // {8 queries, thread, 4}
  alignas(16) float lse[C::kQStages][C::kStream];
  alignas(16) float delta[C::kStream];
  std::uint64_t held_full, held_empty;
  std::uint64_t q_full[C::kQStages], q_empty[C::kQStages];
  std::uint64_t d_o_full, d_o_empty;
  std::uint64_t p_full, p_empty;
  std::uint64_t ds_full[2], ds_empty[2];
  std::uint64_t dq_full[2][kWideAdders];  // of each consumer
  std::uint64_t dq_empty[2];              // of the other block's
  std::uint64_t dq_received[2];
  std::uint64_t held_read[2];
  std::uint64_t tile_full[2], tile_empty[2];
  ClusterTicket tickets;
  WideTile tile[2];
};

enum WideBarrier { kWideOneMeets = 1 };  // and the next

// Of all keys of a cluster.
template <class C>
__device__ __forceinline__ QueryTiles wide_queries(const FlashWideBackwardParams& p, const Sequence& s, int cluster) {
  constexpr int kKeys = C::kBlocks * C::kRows;
  return query_tiles<C::kStream>(p.mask, s, cluster * kKeys, kKeys, 0, p.period);
}

template <class C>
__device__ __forceinline__ WideTile wide_tile(const FlashWideBackwardParams& p, int number, int rank) {
  WideTile tile;
  static_cast<KeyTilePlace&>(tile) = key_tile_place(p, number);
  tile.sequence = sequence_of(p.mask, tile.batch);
  tile.queries = wide_queries<C>(p, tile.sequence, tile.index);
  tile.index = tile.index * C::kBlocks + rank;
  tile.row = tile.index * C::kRows;
  return tile;
}

// Query heads of a tile's part, and the first of them.
__device__ __forceinline__ int wide_members(const FlashWideBackwardParams& p) { return p.group / p.parts; }
__device__ __forceinline__ int wide_first_head(const FlashWideBackwardParams& p, const WideTile& tile) {
  return tile.head * p.group + tile.part * wide_members(p);
}

// lse or delta of a query head.
__device__ __forceinline__ const float* wide_rows(const FlashWideBackwardParams& p, const float* values,
                                                  const WideTile& tile, int head) {
  return values + static_cast<std::int64_t>(tile.batch * p.heads * p.group + head) * p.pitch;
}

// By one lane of each block of the cluster: a warp has read a tile that all of them have.
template <class C>
__device__ __forceinline__ void release(std::uint64_t* empty) {
  const auto lane = static_cast<std::uint32_t>(threadIdx.x) % 32;
  if (lane < C::kBlocks) ptx::mbarrier_arrive_cluster(ptx::mapa(ptx::shared_address(empty), lane));
}

// This block's rows of a tile of q or dO, to all blocks of the cluster.
template <class C>
__device__ __forceinline__ void load_stream(unsigned char* to, const tile::TensorMap& map, std::uint64_t* full, int row,
                                            int head, int batch) {
#pragma unroll
  for (int panel = 0; panel < C::kPanels; ++panel) {
    const int first = static_cast<int>(ptx::cluster_ctarank()) * C::kBoxRows;
    ptx::tma_tile_5d_multicast(to + panel * C::kPanel + first * kPanelBytes, &map, full, panel * kPanelColumns,
                               row + first, head, batch, 0, (1U << C::kBlocks) - 1);
  }
}

// A tile of q and lse, and one of dO and delta.
template <class C>
__device__ __forceinline__ void load_wide_q(const FlashWideBackwardParams& p, const WideTile& tile, int row, int head,
                                            tile::PipelineState<C::kQStages>& turn, WideShared<C>& shared) {
  const int stage = turn.stage;
  tile::wait(&shared.q_empty[stage], turn.parity ^ 1);
  ptx::mbarrier_arrive_expect_tx(&shared.q_full[stage], C::kPanels * C::kPanel + C::kStream * 4);
  load_stream<C>(shared.q[stage], p.q, &shared.q_full[stage], row, head, tile.batch);
  ptx::bulk_copy(shared.lse[stage], wide_rows(p, p.lse, tile, head) + row, C::kStream * 4, &shared.q_full[stage]);
  turn.next();
}
template <class C>
__device__ __forceinline__ void load_wide_d_o(const FlashWideBackwardParams& p, const WideTile& tile, int row, int head,
                                              std::uint32_t& parity, WideShared<C>& shared) {
  tile::wait(&shared.d_o_empty, parity ^ 1);
  ptx::mbarrier_arrive_expect_tx(&shared.d_o_full, C::kPanels * C::kPanel + C::kStream * 4);
  load_stream<C>(shared.d_o, p.d_o, &shared.d_o_full, row, head, tile.batch);
  ptx::bulk_copy(shared.delta, wide_rows(p, p.delta, tile, head) + row, C::kStream * 4, &shared.d_o_full);
  parity ^= 1;
}

template <class C>
struct WideTurns {
  tile::PipelineState<C::kQStages> q;
  std::uint32_t d_o_parity = 0;
};

// k and v, and what streams by. A stage of dO is free when dP and dv are made, one of q later, when dk is: so dO of a
// tile is waited for before q of the next.
template <class C>
__device__ __forceinline__ void produce_wide_tile(const FlashWideBackwardParams& p, const WideTile& tile,
                                                  WideTurns<C>& turns, WideShared<C>& shared) {
  ptx::mbarrier_arrive_expect_tx(&shared.held_full, 2 * C::kPanels * C::kPanel);
#pragma unroll
  for (int panel = 0; panel < C::kPanels; ++panel) {
    ptx::tma_tile_5d(shared.k + panel * C::kPanel, &p.k, &shared.held_full, panel * kPanelColumns, tile.row, tile.head,
                     tile.batch, 0);
  }
#pragma unroll
  for (int panel = 0; panel < C::kPanels; ++panel) {
    ptx::tma_tile_5d(shared.v + panel * C::kPanel, &p.v, &shared.held_full, panel * kPanelColumns, tile.row, tile.head,
                     tile.batch, 0);
  }
  const int first = wide_first_head(p, tile);
  const int end = first + wide_members(p);
  int j = tile.queries.start;
  int head = first;
  load_wide_q<C>(p, tile, j * C::kStream, head, turns.q, shared);
#pragma unroll 1
  while (j >= 0) {
    const int its_row = j * C::kStream;
    const int its_head = head;
    if (++head == end) {
      head = first;
      j = tile.queries.after(j);
    }
    load_wide_d_o<C>(p, tile, its_row, its_head, turns.d_o_parity, shared);
    if (j >= 0) load_wide_q<C>(p, tile, j * C::kStream, head, turns.q, shared);
  }
}

// Takes a ticket when the loads of the tile before are issued, so that tiles start in the order of their tickets.
template <class C>
__device__ __forceinline__ void produce_wide(const FlashWideBackwardParams& p, int rank, WideShared<C>& shared) {
  WideTurns<C> turns;
  tile::PipelineState<2> slot;
  std::uint32_t held_parity = 0;
  const int tiles = p.key_tiles * p.batch_heads;
  for (;;) {
    const int ticket = take_cluster_ticket(p.tickets, rank, slot, shared.tickets);
    tile::wait(&shared.tile_empty[slot.stage], slot.parity ^ 1);
    WideTile& tile = shared.tile[slot.stage];
    if (ticket < tiles) {
      tile = wide_tile<C>(p, ticket, rank);
    } else {
      tile.index = -1;
    }
    // The consumers stage what they write where k and v lie, also where nothing is loaded: they get a tile when they
    // are done with the one before, so that none of their arrivals is missed.
    tile::wait(&shared.held_empty, held_parity ^ 1);
    held_parity ^= 1;
    ptx::mbarrier_arrive(&shared.tile_full[slot.stage]);
    if (ticket >= tiles) break;
    if (tile.queries.start >= 0) produce_wide_tile<C>(p, tile, turns, shared);
    slot.next();
  }
  ptx::griddepcontrol_launch_dependents();
}

// Threads take turns to add dq's panels to those in device memory: what a panel waits for, its turn and the end of its
// addition, takes longer than its products.
template <class C>
__device__ __forceinline__ void add_wide_panel(const FlashWideBackwardParams& p, int which, int rank, int adder,
                                               int cluster, bool is_first, std::int64_t tile_at, std::uint32_t parity,
                                               WideShared<C>& shared) {
  const float* const from = shared.dq[which];
  if (p.dq == nullptr) {
    tile::wait(&shared.dq_full[which][adder], parity);
  } else {
    const int panel = which * C::kDqPanels + rank;
    std::uint32_t* const added = p.added + kFlashWideWords * tile_at + 2 * which + rank;
    float* const to = p.dq + tile_at * C::kDqFloats + panel * C::kPanelElements;
    if (!is_first) await_turn(added, cluster);
    tile::wait(&shared.dq_full[which][adder], parity);
    start_adding(to, from, C::kPanelElements * 4, is_first);
  }
  ptx::mbarrier_arrive_expect_tx(&shared.dq_received[which], C::kPanelElements * 4);
  ptx::mbarrier_arrive_cluster(
      ptx::mapa(ptx::shared_address(&shared.dq_empty[which]), static_cast<std::uint32_t>(rank ^ 1)));
  if (p.dq != nullptr) end_turn(p.added + kFlashWideWords * tile_at + 2 * which + rank, cluster);
}

template <class C>
__device__ __forceinline__ void add_wide_dq(const FlashWideBackwardParams& p, int rank, int adder,
                                            WideShared<C>& shared) {
  int turn = 0;  // whose the next panel is
  std::uint32_t parities = 0;
  tile::PipelineState<2> slot;
  for (;;) {
    tile::wait(&shared.tile_full[slot.stage], slot.parity);
    const WideTile& tile = shared.tile[slot.stage];
    if (tile.index < 0) return;
    // Query tiles from here on have not been met by an earlier cluster's keys: both ends of the range ascend.
    const int cluster = tile.index / C::kBlocks;
    const int met = cluster > 0 ? wide_queries<C>(p, tile.sequence, cluster - 1).end : 0;
    const int first = (tile.batch * p.heads * p.group + wide_first_head(p, tile)) * p.query_tiles;
#pragma unroll 1
    for (int j = tile.queries.start; j >= 0; j = tile.queries.after(j)) {
#pragma unroll 1
      for (int member = 0; member < wide_members(p); ++member) {
        const std::int64_t at = first + member * p.query_tiles + j;
        // The second consumer is ahead.
#pragma unroll
        for (int which = 1; which >= 0; --which) {
          if (turn == adder) {
            add_wide_panel<C>(p, which, rank, adder, cluster, j >= met, at, parities >> which & 1, shared);
            parities ^= 1U << which;
          }
          turn = turn == kWideAdders - 1 ? 0 : turn + 1;
        }
      }
    }
    ptx::mbarrier_arrive(&shared.tile_empty[slot.stage]);
    slot.next();
  }
}

}  // namespace gpudnn::kernels::flash_sm90
