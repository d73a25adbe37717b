// What the blocks of flash_fused_backward_sm90 hold in shared memory, and the threads that do not multiply: they take
// tiles of keys, load tiles by TMA, and add dq's tiles to device memory in their order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_fused_backward_sm90.hpp"
#include "kernels/attention/flash_key_tiles_sm90.cuh"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/ptx/tensormap_replace.cuh"

namespace gpudnn::kernels::flash_sm90 {

// whole: one tile of keys makes all of dq; biased: of each score; keyed: bias of keys and ALiBi; kept: bias of keys and
// dropout; scaled: copies of 8-bit floats in 16 bits; turned: all products are of 8-bit floats, P and dS among them;
// wide_turned: the same with dO and dS in e5m2.
enum class FusedKind { plain, whole, biased, keyed, kept, scaled, turned, wide_turned };
template <class T, int kDimQk_, FusedKind kKind>
struct FusedConfig {
  using Element = T;
  static constexpr int kDimQk = kDimQk_;
  static constexpr int kDimV = flash_fused_dim_v(kDimQk);
  // Of head dimension 96 half of the second panel is used.
  static constexpr int kPanelsQk = (kDimQk + kPanelColumns - 1) / kPanelColumns;
  static constexpr int kPanelsV = (kDimV + kPanelColumns - 1) / kPanelColumns;
  static constexpr bool kDqIsWhole = kKind == FusedKind::whole;
  static constexpr bool kHasBias = kKind == FusedKind::biased;
  static constexpr bool kKeeps = kKind == FusedKind::kept;
  static constexpr bool kHasSlope = kKind == FusedKind::keyed;
  static constexpr bool kHasKeys = kHasSlope || kKeeps;
  static constexpr bool kHasParts = !kKeeps && !kHasBias;  // these leave no registers for it
  static constexpr bool kTurns = kKind == FusedKind::turned || kKind == FusedKind::wide_turned;
  // Of 8-bit floats: what q, k, v and P are, and dO and dS.
  using Byte = tile::Float8E4M3;
  using GradientByte = std::conditional_t<kKind == FusedKind::wide_turned, tile::Float8E5M2, tile::Float8E4M3>;
  static constexpr bool kIsScaled = kKind == FusedKind::scaled || kTurns;
  static constexpr int kStepRows = kTurns ? 32 : 16;  // of a product's summed dimension
  static constexpr int kRows = kFlashFusedRows;
  static constexpr int kStream = flash_fused_stream(kDimQk);
  static constexpr int kConsumers = 2;
  static constexpr int kThreads = (kConsumers + 1) * kWarpgroup;
  static constexpr int kStages = 2;   // of dO and dS
  static constexpr int kQStages = 3;  // a warpgroup may be half a tile behind the other
  // Where there is room, k and v of the next tile come beside this one.
  static constexpr int kHeldStages = kDimQk == 64 && !kHasBias ? 2 : 1;
  // Then a tile's last dq is made beside the next tile's first step.
  static constexpr bool kCarries = kHeldStages == 2;
  static constexpr bool kTellsLate = kCarries;
  static constexpr int kKBytes = kRows * kPanelsQk * kPanelBytes;
  static constexpr int kVBytes = kRows * kPanelsV * kPanelBytes;
  static constexpr int kQBytes = kStream * kPanelsQk * kPanelBytes;
  static constexpr int kDOBytes = kStream * kPanelsV * kPanelBytes;
  static constexpr int kPartBytes = kStream * kPanelBytes;  // of a warpgroup's part of bias and dS
  // A warpgroup's part of dq^T is 64 x kDqColumns, and of three panels 64 x kSharedColumns of the middle one.
  static constexpr bool kDividesRows = kDimQk > 64;
  static constexpr int kDqColumns = kDividesRows ? kStream : kStream / 2;
  static constexpr int kSharedColumns = kPanelsQk == 3 ? kStream / 2 : 0;
  static constexpr int kDqGroups = (kDqColumns + kSharedColumns) / 8;
  static constexpr int kDqFloats = kStream * kDimQk;
  static constexpr int kDqThreads = kDqFloats / 4 / kDqGroups;  // that have a part: of 96, not the last two warps
  // Tiles of dq on their way to device memory: two of those that half as many queries make.
  static constexpr int kDqStages = kPanelsQk == 3 ? 2 : 1;
  // dv is staged where dS was, dk where dq was; or dv where v was, dk where dS was.
  static constexpr int kDsBytes = kRows * kStream * 2 >= kVBytes / 2 ? kRows * kStream * 2 : kVBytes / 2;
  static constexpr int kDqRoom = kCarries || kDqStages * kDqFloats * 4 >= kKBytes ? kDqFloats : kKBytes / 4;
  static_assert(kDqThreads * kDqGroups * 4 == kDqFloats && kDqThreads % 32 == 0, "whole warps have a part");
  static_assert(!kCarries || (kPartBytes >= kKBytes / 2 && kPanelsQk == 1), "dk is staged there");
  static_assert(!kDqIsWhole || kPanelsQk == 1, "a tile of dq is staged in one panel");
  static_assert(!kTurns || kDimQk == kPanelBytes, "a row of bytes is a row of one panel");
  static_assert(kRows == 64 * kConsumers && kPanelsQk <= 3, "two warpgroups share a tile");
};

// Where a sequence's rows are in a tensor's map: of ragged tensors, from its first row on, in the one batch there is.
struct MapRows {
  int batch, first;
};
struct FusedTile : KeyTilePlace {  // index -1: there are no more
  int rank;                        // of the tile among those of its head, in the order of tickets and additions
  int run;                         // the first rank of its run where that goes down, else -1
  int row;
  int first_head, members;  // query heads of the group that it visits
  QueryTiles queries;
  Sequence sequence;
  MapRows q, k, v, d_o, dk, dv;
  bool by_elements;  // of a ragged tensor whose sequence starts inside a row of the map
  float scale_log2;
  float p_factor, ds_factor;  // of what is rounded to 8 bits
  float slope;                // ALiBi's, log2(e) times
  DropoutKey key;
};

template <class C>
struct FusedShared {
  alignas(1024) unsigned char k[C::kHeldStages][C::kKBytes];
  alignas(1024) unsigned char v[C::kHeldStages][C::kVBytes];
  alignas(1024) unsigned char q[C::kQStages][C::kQBytes];
  alignas(1024) unsigned char d_o[C::kStages][C::kDOBytes];
  // {64 keys, queries, keys}: a warpgroup writes a tile while the other one still multiplies the tile before.
  alignas(1024) unsigned char ds[2][C::kDsBytes];
  alignas(1024) float dq[C::kDqStages][C::kDqRoom];  // {8 columns, thread, 4}
  alignas(C::kHasBias ? 1024 : 16) unsigned char bias[C::kHasBias ? C::kConsumers * C::kPartBytes : 16];  // as ds
  alignas(16) float lse[C::kQStages][C::kStream];
  alignas(16) float delta[C::kStages][C::kStream];
  std::uint64_t held_full[C::kHeldStages], held_empty[C::kHeldStages];
  std::uint64_t q_full[C::kQStages], q_empty[C::kQStages];
  std::uint64_t d_o_full[C::kStages], d_o_empty[C::kStages];
  std::uint64_t dq_full[2], dq_empty[C::kDqStages];
  std::uint64_t ds_full[C::kStages], ds_read[C::kConsumers][C::kStages];
  std::uint64_t bias_full[C::kConsumers], bias_empty[C::kConsumers];
  std::uint64_t tile_full[2], tile_empty[2];
  // Here, not in registers, of which consumers have none to spare.
  FusedTile tile[2];
};

enum FusedBarrier { kFusedBothMeet = 1, kFusedOneMeets = 2, kFusedStarts = 4 };

// Rows of queries before the first one that the first tile has.
template <class C>
__device__ __forceinline__ int lead(const FlashFusedBackwardParams& p) {
  return C::kDimQk == 64 ? p.lead : 0;
}
// Of the keys from `row` on.
template <class C>
__device__ __forceinline__ QueryTiles fused_queries(const FlashFusedBackwardParams& p, const Sequence& s, int row) {
  return query_tiles<C::kStream>(p.mask, s, row, C::kRows, lead<C>(p), p.period);
}

__device__ __forceinline__ float fused_factor(const float* const (&numbers)[2]) {
  return (numbers[0] == nullptr ? 1.0F : *numbers[0]) * (numbers[1] == nullptr ? 1.0F : *numbers[1]);
}

template <class C>
__device__ __forceinline__ FusedTile fused_tile(const FlashFusedBackwardParams& p, int number) {
  FusedTile tile;
  static_cast<KeyTilePlace&>(tile) = key_tile_place(p, number);
  tile.rank = tile.index;
  tile.run = -1;
  if (p.run_tiles > 0) {
    // The last run, which may be short, goes up.
    const int run = tile.rank / p.run_tiles;
    if (((p.key_tiles - 1) / p.run_tiles - run) % 2 == 1) {
      tile.run = run * p.run_tiles;
      tile.index = 2 * tile.run + p.run_tiles - 1 - tile.rank;
    }
  }
  tile.row = tile.index * C::kRows;
  const int first_member = tile.part / p.query_parts * p.members;
  tile.first_head = tile.head * p.group + first_member;
  tile.members = min(p.members, p.group - first_member);
  tile.sequence = sequence_of(p.mask, tile.batch);
  tile.queries = fused_queries<C>(p, tile.sequence, tile.row);
  if (p.query_parts > 1) {
    const int tiles_of_part = (p.query_tiles + p.query_parts - 1) / p.query_parts;
    tile.queries.keep(tile.part % p.query_parts * tiles_of_part, tiles_of_part);
  }
  if (p.alternates && number / p.blocks % 2 == 1) tile.queries.ascend();
  tile.by_elements = false;
  tile.scale_log2 = p.scale_log2;
  if constexpr (C::kIsScaled) tile.scale_log2 *= fused_factor(p.score_factors);
  if constexpr (C::kTurns) {
    tile.p_factor = p.scale_p == nullptr ? 1.0F : *p.scale_p;
    tile.ds_factor = p.scale * fused_factor(p.dp_factors) * (p.scale_ds == nullptr ? 1.0F : *p.scale_ds);
  }
  if constexpr (C::kHasSlope) tile.slope = p.alibi_slopes == nullptr ? 0.0F : kLog2E * p.alibi_slopes[tile.head];
  if constexpr (C::kKeeps) {
    if (p.drops) tile.key = dropout_key(p.dropout);
  }
  const auto rows_of = [&](const AttentionTensor& tensor) {
    if (tensor.offset_bits == 0) return MapRows{tile.batch, 0};
    const std::int64_t start = ragged_start(tensor, tile.batch);
    const std::int64_t row = start / tensor.strides[2];
    if (row * tensor.strides[2] != start || start < 0 || row >= std::int64_t{1} << 30) tile.by_elements = true;
    return MapRows{0, static_cast<int>(row)};
  };
  tile.q = rows_of(p.q_rows);
  tile.k = rows_of(p.k_rows);
  tile.v = rows_of(p.v_rows);
  tile.d_o = rows_of(p.d_o_rows);
  tile.dk = rows_of(p.dk_rows);
  tile.dv = rows_of(p.dv_rows);
  return tile;
}

// Rows [row, row + kRows) of a sequence of `length` by one thread, for the wgmma that follow: what starts inside a row
// of the map is rare. Rows beyond are cleared by those who read them.
template <int kRows, int kColumns>
__device__ __forceinline__ void copy_elements(const AttentionTensor& tensor, const FusedTile& tile, int head, int row,
                                              int length, int dim, unsigned char* to) {
  const auto* const from = static_cast<const std::uint16_t*>(tensor.data) + ragged_start(tensor, tile.batch) +
                           head * tensor.strides[1] + row * tensor.strides[2];
  const int rows = min(kRows, length - row);
#pragma unroll 1
  for (int r = 0; r < rows; ++r) {
#pragma unroll 1
    for (int c = 0; c < kColumns; ++c) {
      const std::uint16_t value = c < dim ? from[r * tensor.strides[2] + c] : std::uint16_t{0};
      *reinterpret_cast<std::uint16_t*>(to + swizzled_chunk<kRows>(r, c / 8) + c % 8 * 2) = value;
    }
  }
  ptx::fence_proxy_async();
}

// Where a query tile's lse and delta are.
template <class C>
__device__ __forceinline__ std::int64_t row_values(const FlashFusedBackwardParams& p, const FusedTile& tile, int head,
                                                   int j) {
  return (static_cast<std::int64_t>(tile.batch) * p.heads * p.group + head) * p.pitch + j * C::kStream;
}

// k, v, q and lse.
template <class C>
__device__ __forceinline__ void produce_tile(const FlashFusedBackwardParams& p, const FusedTile& tile, int held,
                                             tile::PipelineState<C::kQStages>& turn, FusedShared<C>& shared) {
  const tile::TensorMap* const q_map = p.is_ragged ? &p.bounded->q : &p.q;
  const tile::TensorMap* const k_map = p.is_ragged ? &p.bounded->k : &p.k;
  const tile::TensorMap* const v_map = p.is_ragged ? &p.bounded->v : &p.v;
  const int length_kv = tile.sequence.length_kv;
  if constexpr (C::kTurns) {
    constexpr int kHalf = C::kKBytes / 2;
    ptx::mbarrier_arrive_expect_tx(&shared.held_full[held], 3 * kHalf);
    ptx::tma_tile_5d(shared.k[held], &p.k_bytes, &shared.held_full[held], 0, tile.row, tile.head, tile.batch, 0);
    ptx::tma_tile_5d(shared.v[held], v_map, &shared.held_full[held], 0, tile.row, tile.head, tile.batch, 0);
    ptx::tma_tile_5d(shared.k[held] + kHalf, &p.k, &shared.held_full[held], tile.row, 0, tile.head, tile.batch, 0);
  } else if (tile.by_elements) {
    copy_elements<C::kRows, C::kDimQk>(p.k_rows, tile, tile.head, tile.row, length_kv, p.dim_qk, shared.k[held]);
    copy_elements<C::kRows, C::kDimV>(p.v_rows, tile, tile.head, tile.row, length_kv, p.dim_v, shared.v[held]);
    ptx::mbarrier_arrive(&shared.held_full[held]);
  } else {
    ptx::mbarrier_arrive_expect_tx(&shared.held_full[held], C::kKBytes + C::kVBytes);
#pragma unroll
    for (int panel = 0; panel < C::kPanelsQk; ++panel) {
      const int offset = panel * C::kRows * kPanelBytes;
      const int column = panel * kPanelColumns;
      ptx::tma_tile_5d(shared.k[held] + offset, k_map, &shared.held_full[held], column, tile.k.first + tile.row,
                       tile.head, tile.k.batch, 0);
      if (panel >= C::kPanelsV) continue;
      ptx::tma_tile_5d(shared.v[held] + offset, v_map, &shared.held_full[held], column, tile.v.first + tile.row,
                       tile.head, tile.v.batch, 0);
    }
  }
  for (int j = tile.queries.start; j >= 0; j = tile.queries.after(j)) {
    for (int member = 0; member < tile.members; ++member) {
      const int head = tile.first_head + member;
      const int stage = turn.stage;
      const int row = j * C::kStream - lead<C>(p);
      tile::wait(&shared.q_empty[stage], turn.parity ^ 1);
      if (tile.by_elements) {
        copy_elements<C::kStream, C::kDimQk>(p.q_rows, tile, head, row, tile.sequence.length_q, p.dim_qk,
                                             shared.q[stage]);
        ptx::mbarrier_arrive_expect_tx(&shared.q_full[stage], C::kStream * 4);
      } else if constexpr (C::kTurns) {
        ptx::mbarrier_arrive_expect_tx(&shared.q_full[stage], C::kQBytes + C::kStream * 4);
        ptx::tma_tile_5d(shared.q[stage], &p.q_bytes, &shared.q_full[stage], 0, row, head, tile.batch, 0);
        ptx::tma_tile_5d(shared.q[stage] + C::kQBytes / 2, q_map, &shared.q_full[stage], row, 0, head, tile.batch, 0);
      } else {
        ptx::mbarrier_arrive_expect_tx(&shared.q_full[stage], C::kQBytes + C::kStream * 4);
#pragma unroll
        for (int panel = 0; panel < C::kPanelsQk; ++panel) {
          ptx::tma_tile_5d(shared.q[stage] + panel * C::kStream * kPanelBytes, q_map, &shared.q_full[stage],
                           panel * kPanelColumns, tile.q.first + row, head, tile.q.batch, 0);
        }
      }
      ptx::bulk_copy(shared.lse[stage], p.lse + row_values<C>(p, tile, head, j), C::kStream * 4, &shared.q_full[stage]);
      turn.next();
    }
  }
}

// A tile of bias, for each warpgroup apart what it reads.
template <class C>
__device__ __forceinline__ void produce_bias(const FlashFusedBackwardParams& p, const FusedTile& tile, int head,
                                             int row, std::uint32_t parity, FusedShared<C>& shared) {
#pragma unroll
  for (int part = 0; part < C::kConsumers; ++part) {
    tile::wait(&shared.bias_empty[part], parity ^ 1);
    ptx::mbarrier_arrive_expect_tx(&shared.bias_full[part], C::kPartBytes);
    ptx::tma_tile_5d(shared.bias + part * C::kPartBytes, &p.bias, &shared.bias_full[part],
                     tile.row + part * kPanelColumns, row, p.bias_has_heads ? head : 0,
                     p.bias_has_batches ? tile.batch : 0, 0);
  }
}

// dO and delta, and bias.
template <class C>
__device__ __forceinline__ void produce_d_o(const FlashFusedBackwardParams& p, FusedShared<C>& shared) {
  tile::PipelineState<C::kStages> turn;
  tile::PipelineState<2> slot;
  [[maybe_unused]] std::uint32_t bias_parity = 0;
  const tile::TensorMap* const map = p.is_ragged ? &p.bounded->d_o : &p.d_o;
  if (p.is_ragged) ptx::fence_tensormap_acquire(map);
  for (;;) {
    tile::wait(&shared.tile_full[slot.stage], slot.parity);
    const FusedTile& tile = shared.tile[slot.stage];
    if (tile.index < 0) return;
    for (int j = tile.queries.start; j >= 0; j = tile.queries.after(j)) {
      for (int member = 0; member < tile.members; ++member) {
        const int head = tile.first_head + member;
        const int stage = turn.stage;
        const int row = j * C::kStream - lead<C>(p);
        tile::wait(&shared.d_o_empty[stage], turn.parity ^ 1);
        if (tile.by_elements) {
          copy_elements<C::kStream, C::kDimV>(p.d_o_rows, tile, head, row, tile.sequence.length_q, p.dim_v,
                                              shared.d_o[stage]);
          ptx::mbarrier_arrive_expect_tx(&shared.d_o_full[stage], C::kStream * 4);
        } else if constexpr (C::kTurns) {
          ptx::mbarrier_arrive_expect_tx(&shared.d_o_full[stage], C::kDOBytes + C::kStream * 4);
          ptx::tma_tile_5d(shared.d_o[stage] + C::kDOBytes / 2, map, &shared.d_o_full[stage], row, 0, head, tile.batch,
                           0);
          ptx::tma_tile_5d(shared.d_o[stage], &p.d_o_bytes, &shared.d_o_full[stage], 0, row, head, tile.batch, 0);
        } else {
          ptx::mbarrier_arrive_expect_tx(&shared.d_o_full[stage], C::kDOBytes + C::kStream * 4);
#pragma unroll
          for (int panel = 0; panel < C::kPanelsV; ++panel) {
            ptx::tma_tile_5d(shared.d_o[stage] + panel * C::kStream * kPanelBytes, map, &shared.d_o_full[stage],
                             panel * kPanelColumns, tile.d_o.first + row, head, tile.d_o.batch, 0);
          }
        }
        ptx::bulk_copy(shared.delta[stage], p.delta + row_values<C>(p, tile, head, j), C::kStream * 4,
                       &shared.d_o_full[stage]);
        turn.next();
        if constexpr (C::kHasBias) {
          produce_bias(p, tile, head, row, bias_parity, shared);
          bias_parity ^= 1;
        }
      }
    }
    ptx::mbarrier_arrive(&shared.tile_empty[slot.stage]);
    slot.next();
  }
}

// Takes a ticket when the loads of the tile before are issued, so that tiles start in the order of their tickets.
template <class C>
__device__ __forceinline__ void produce_fused(const FlashFusedBackwardParams& p, FusedShared<C>& shared) {
  tile::PipelineState<C::kQStages> turn;
  tile::PipelineState<2> slot;
  tile::PipelineState<C::kHeldStages> held;
  const int tiles = p.key_tiles * p.batch_heads;
  if (p.is_ragged) {
    ptx::fence_tensormap_acquire(&p.bounded->q);
    ptx::fence_tensormap_acquire(&p.bounded->k);
    ptx::fence_tensormap_acquire(&p.bounded->v);
  }
  for (;;) {
    const int ticket = static_cast<int>(atomicAdd(p.tickets, 1U));
    tile::wait(&shared.tile_empty[slot.stage], slot.parity ^ 1);
    FusedTile& tile = shared.tile[slot.stage];
    if (ticket < tiles) {
      tile = fused_tile<C>(p, ticket);
    } else {
      tile.index = -1;
    }
    ptx::mbarrier_arrive(&shared.tile_full[slot.stage]);
    if (ticket >= tiles) break;
    if (tile.queries.start >= 0) {
      tile::wait(&shared.held_empty[held.stage], held.parity ^ 1);
      produce_tile<C>(p, tile, held.stage, turn, shared);
      held.next();
    }
    slot.next();
  }
  ptx::griddepcontrol_launch_dependents();
}

// Two threads add dq's tiles to those in device memory, every other one each: what a tile waits for, its turn and the
// end of its additions, takes about as long as its products.
template <class C>
__device__ __forceinline__ void add_dq_of_tile(const FlashFusedBackwardParams& p, const FusedTile& tile,
                                               FusedShared<C>& shared, int which, std::uint32_t& turn) {
  const int stage = C::kDqStages == 1 ? 0 : which;
  // Query tiles from here on have not been met by an earlier key tile: both ends of the range ascend.
  int met = 0;
  if (tile.index > 0) met = fused_queries<C>(p, tile.sequence, tile.row - C::kRows).end;
  // In a run that goes down, query tiles before here are not met by any tile of the run before this one.
  int shared_from = 0;
  if (tile.run >= 0 && tile.rank > tile.run) {
    const QueryTiles before = fused_queries<C>(p, tile.sequence, tile.row + C::kRows);
    shared_from = before.start < 0 ? p.query_tiles : before.first;
  }
  const int first = (tile.batch * p.heads * p.group + tile.first_head) * p.query_tiles;
  const int end = first + tile.members * p.query_tiles;
  for (int j = tile.queries.start; j >= 0; j = tile.queries.after(j)) {
    for (int base = first; base < end; base += p.query_tiles, ++turn) {
      if (static_cast<int>(turn & 1) != which) continue;
      if constexpr (C::kDqIsWhole) {
        tile::wait(&shared.dq_full[which], turn >> 1 & 1);
        ptx::tma_store_tile_5d(&p.dq_rows, shared.dq[stage], 0, j * C::kStream - lead<C>(p),
                               tile.first_head + (base - first) / p.query_tiles, tile.batch, 0);
        ptx::bulk_commit_group();
        ptx::bulk_wait_group_read<0>();
        ptx::mbarrier_arrive(&shared.dq_empty[stage]);
        continue;
      }
      if (p.dq == nullptr) {
        tile::wait(&shared.dq_full[which], turn >> 1 & 1);
        ptx::mbarrier_arrive(&shared.dq_empty[stage]);
        continue;
      }
      std::uint32_t* const added = p.added + base + j;
      const int its_turn = j < shared_from ? tile.run : tile.rank;
      const bool is_first = p.run_tiles > 0 ? its_turn == 0 : j >= met;
      if (!is_first) await_turn(added, its_turn);
      tile::wait(&shared.dq_full[which], turn >> 1 & 1);
      float* const to = p.dq + static_cast<std::int64_t>(base + j) * C::kDqFloats;
      start_adding(to, shared.dq[stage], C::kDqFloats * 4, is_first);
      ptx::mbarrier_arrive(&shared.dq_empty[stage]);
      end_turn(added, tile.rank);
    }
  }
}

template <class C>
__device__ __forceinline__ void add_dq(const FlashFusedBackwardParams& p, FusedShared<C>& shared, int which) {
  std::uint32_t turn = 0;
  tile::PipelineState<2> slot;
  for (;;) {
    tile::wait(&shared.tile_full[slot.stage], slot.parity);
    const FusedTile& tile = shared.tile[slot.stage];
    if (tile.index < 0) return;
    add_dq_of_tile<C>(p, tile, shared, which, turn);
    ptx::mbarrier_arrive(&shared.tile_empty[slot.stage]);
    slot.next();
  }
}

}  // namespace gpudnn::kernels::flash_sm90
