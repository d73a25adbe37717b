// Attention for Hopper of up to 64 rows of q for each head of k and v (decode), in 16-bit types, without options that
// change scores and without dropout: what flash_gather_sm90 computes, for calls whose time is that of the first byte
// and of the bytes of k and v. So it has little code, and loads begin as soon as a warp has made its barriers.
//
// A block makes one tile, or one split of its columns; two or one are on a multiprocessor. Where a block stands is
// worked out without a division, by the same code for all warps. A warp each loads k and v by TMA through a ring of
// stages: a box a tile, or one for each page, of those that hold columns of the sequence. A warpgroup has q in
// registers, as the left operand, and multiplies, makes the softmax and multiplies one after the other: the other block
// and the stages under way fill the memory's time meanwhile. Rows of v beyond the sequence are cleared, as 0 times a
// NaN is none.
//
// Limits: k and v that TMA takes, no ragged tensors. Splits leave their sums as those of flash_gather_sm90 do.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_forward_rows.cuh"
#include "kernels/attention/flash_gather_sm90_load.cuh"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/tile/dynamic_shared.cuh"

namespace gpudnn::kernels::flash_sm90 {

template <class T, int kDim_>
struct DecodeConfig {
  using Element = T;
  static constexpr int kDim = kDim_;
  static constexpr int kRows = 64;
  static constexpr int kColumns = flash_decode_columns(kDim);
  static constexpr int kBlocks = flash_decode_blocks(kDim);
  static constexpr int kThreads = kWarpgroup + 64;
  static constexpr int kTileBytes = kColumns * kDim * 2;
  static constexpr int kStages = (226 * 1024 / kBlocks - 2048) / (2 * kTileBytes);
  static_assert(kStages >= 2, "copies run beside products");
  // Warps, and halves of their fragments, without rows multiply alone. With more columns registers are short of that.
  static constexpr bool kSkipsRows = kDim == 64;
  // Of ForwardRows.
  static constexpr bool kKeeps = true;
  static constexpr int kBiasTileRows = 0;
  static constexpr bool kModifies = false;
  static constexpr bool kAddsBias = false;
  static constexpr bool kDrops = false;
  using Bias = T;
};

template <class C>
struct DecodeRing {
  std::uint64_t full[C::kStages], empty[C::kStages];
};
template <class C>
struct DecodeShared {
  alignas(1024) unsigned char tiles[2][C::kStages][C::kTileBytes];  // of k, of v
  DecodeRing<C> rings[2];
};

enum DecodeBarrier { kDecodeRings = 1, kDecodeConsumers = 2 };

// A block's: of a head's columns, or of a split of them.
template <class C>
__device__ __forceinline__ GatherTile decode_tile(const FlashGatherParams& p) {
  GatherTile tile;
  std::uint32_t head;
  tile.batch_head = static_cast<int>(blockIdx.x);
  tile.batch = static_cast<int>(p.sections.batch.divmod(blockIdx.x, &head));
  tile.head = static_cast<int>(head);
  tile.split = static_cast<int>(blockIdx.y);
  tile.row = 0;
  bound_tile<C>(p, &tile);
  return tile;
}

// A warp's: all tiles of k, or of v.
template <class C>
__device__ __forceinline__ void decode_produce(const FlashGatherParams& p, DecodeShared<C>& shared,
                                               const GatherTile& tile, bool of_v) {
  const AttentionParams& a = p.problem;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  DecodeRing<C>& ring = shared.rings[of_v ? 1 : 0];
  if (lane == 0) {
    ptx::prefetch_tensormap(of_v ? &p.v_map : &p.k_map);
    for (int i = 0; i < C::kStages; ++i) {
      ptx::mbarrier_init(&ring.full[i], 1);
      ptx::mbarrier_init(&ring.empty[i], kWarpgroup / 32);
    }
    ptx::fence_mbarrier_init();
  }
  __syncwarp();
  ptx::barrier_arrive(kDecodeRings, C::kThreads);
  const int head = static_cast<int>((of_v ? p.group_v : p.group_k).quotient(static_cast<std::uint32_t>(tile.head)));
  const int box_rows = of_v ? p.v_box : p.k_box;
  const tile::TensorMap* const map = of_v ? &p.v_map : &p.k_map;
  const AttentionTensor& tensor = of_v ? a.v : a.k;
  const tile::FastDivmod page_rows = of_v ? p.page_rows_v : p.page_rows_k;
  const bool is_paged = tensor.page_rows != 0;
  const std::int32_t* const table = is_paged ? tensor.page_table + tile.batch * tensor.table_stride_batch : nullptr;
  const std::int64_t table_stride = tensor.table_stride_page;
  const int first = lane * box_rows;
  // This lane's page of a tile, asked for one tile ahead.
  const auto entry_of = [&](int j) {
    const int row = j * C::kColumns + first;
    if (!is_paged || j < tile.first || first >= C::kColumns || row >= tile.sequence.length_kv) return 0;
    return table[static_cast<std::int64_t>(page_rows.quotient(static_cast<std::uint32_t>(row))) * table_stride];
  };
  tile::PipelineState<C::kStages> turn;
  int entry = entry_of(tile.end - 1);
#pragma unroll 1
  for (int j = tile.end - 1; j >= tile.first; --j) {
    const int its = entry;
    entry = entry_of(j - 1);
    const int left = min(tile.sequence.length_kv - j * C::kColumns, C::kColumns);
    const int boxes = is_paged ? (left + box_rows - 1) / box_rows : 1;
    unsigned char* const to = shared.tiles[of_v ? 1 : 0][turn.stage];
    std::uint64_t* const full = &ring.full[turn.stage];
    tile::wait(&ring.empty[turn.stage], turn.parity ^ 1);
    if (lane == 0) ptx::mbarrier_arrive_expect_tx(full, static_cast<std::uint32_t>(boxes * box_rows * C::kDim * 2));
    __syncwarp();
    if (lane < boxes) {
      int row = j * C::kColumns + first;
      int batch = tile.batch;
      if (is_paged) {
        std::uint32_t rest;
        page_rows.divmod(static_cast<std::uint32_t>(row), &rest);
        row = static_cast<int>(rest);
        batch = its;
      }
#pragma unroll
      for (int panel = 0; panel < C::kDim / kPanelColumns; ++panel) {
        ptx::tma_tile_5d(to + (panel * C::kColumns + first) * kPanelBytes, map, full, panel * kPanelColumns, row, head,
                         batch, 0);
      }
    }
    turn.next();
  }
}

template <class C>
class DecodeConsumer {
  using T = typename C::Element;
  using Rows = ForwardRows<C::kColumns, C>;

 public:
  __device__ __forceinline__ DecodeConsumer(const FlashGatherParams& params, DecodeShared<C>& memory)
      : p(params), shared(memory) {}

  __device__ __forceinline__ void run(const GatherTile& tile) {
    read_q(tile);
    Rows rows(p, tile, place.row());
#pragma unroll
    for (int i = 0; i < C::kDim / 2; ++i) out[i] = 0.0F;
    ptx::barrier_sync(kDecodeRings, C::kThreads);
#pragma unroll 1
    for (int j = tile.end - 1; j >= tile.first; --j) step(rows, tile, j);
    rows.finish_sums();
    if (p.splits > 1) {
      rows.template write_partial<C::kDim>(out);
    } else {
      rows.template write_pairs<T, C::kDim>(out);
    }
  }

 private:
  // Rows beyond the sequence are zeros.
  __device__ __forceinline__ void read_q(const GatherTile& tile) {
    const AttentionParams& a = p.problem;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      std::uint32_t member;
      const int packed_row = tile.row + place.row() + 8 * half;
      const auto row = static_cast<int>(p.packed.divmod(static_cast<std::uint32_t>(packed_row), &member));
      const int head = tile.head * static_cast<int>(p.packed.divisor) + static_cast<int>(member);
      const int dim = packed_row < p.rows && row < tile.sequence.length_q ? a.dim_qk : 0;
      const auto* const from = reinterpret_cast<const std::uint32_t*>(
          static_cast<const std::uint16_t*>(a.q.data) + tile.batch * a.q.strides[0] + head * a.q.strides[1] +
          row * a.q.strides[2] + place.column());
#pragma unroll
      for (int i = 0; i < C::kDim / 8; ++i) q[i / 2][i % 2 * 2 + half] = 8 * i < dim ? __ldg(from + 4 * i) : 0U;
    }
  }

  __device__ __forceinline__ void release(std::uint64_t* barrier) {
    if (place.lane == 0) ptx::mbarrier_arrive(barrier);
  }

  // Clears v beyond the sequence's length, of the tile that it cuts.
  __device__ __forceinline__ void clear_beyond_length(const GatherTile& tile, int j) {
    const int rows = tile.sequence.length_kv - j * C::kColumns;
    if (rows >= C::kColumns || (p.mask.lengths_kv == nullptr && p.problem.v.page_rows == 0)) return;
    constexpr int kChunks = C::kDim / 8;
    for (int i = static_cast<int>(threadIdx.x); i < (C::kColumns - rows) * kChunks; i += kWarpgroup) {
      const std::uint32_t offset = swizzled_chunk<C::kColumns>(rows + i / kChunks, i % kChunks);
      *reinterpret_cast<uint4*>(shared.tiles[1][turn.stage] + offset) = uint4{};
    }
    ptx::fence_proxy_async();
    ptx::barrier_sync(kDecodeConsumers, kWarpgroup);
  }

  __device__ __forceinline__ void step(Rows& rows, const GatherTile& tile, int j) {
    float s[C::kColumns / 2];
    tile::wait(&shared.rings[0].full[turn.stage], turn.parity);
    const std::uint64_t k_base = tile::operand_descriptor<128>(shared.tiles[0][turn.stage], 0);
    ptx::pin(s);
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < C::kDim / 16; ++k) {
      ptx::wgmma_rs<T, T, C::kColumns>(s, q[k], k_major_step<C::kColumns>(k_base, k), k == 0 ? 0 : 1);
    }
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<0>();
    ptx::pin(s);
    release(&shared.rings[0].empty[turn.stage]);
    float corrections[2];
    if constexpr (C::kSkipsRows) {
      const int its_rows = p.rows - tile.row - 16 * place.warp;
      corrections[0] = corrections[1] = 1.0F;
      if (__any_sync(0xffffffffu, its_rows > 0)) {
        rows.softmax(rows.is_cut(j), j, s, corrections, nullptr, __any_sync(0xffffffffu, its_rows > 8) ? 2 : 1);
      }
    } else {
      rows.softmax(rows.is_cut(j), j, s, corrections);
    }
    std::uint32_t weights[C::kColumns / 16][4];
    to_operand<T, C::kColumns>(s, weights);
#pragma unroll
    for (int i = 0; i < C::kDim / 2; ++i) out[i] *= corrections[i / 2 % 2];
    tile::wait(&shared.rings[1].full[turn.stage], turn.parity);
    if (j == tile.end - 1) clear_beyond_length(tile, j);
    const std::uint64_t v_base = tile::operand_descriptor<128>(shared.tiles[1][turn.stage], C::kColumns * kPanelBytes);
    ptx::pin(out);
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < C::kColumns / 16; ++k) {
      ptx::wgmma_rs<T, T, C::kDim, ptx::Major::mn>(out, weights[k], mn_major_step(v_base, k), 1);
    }
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<0>();
    ptx::pin(out);
    release(&shared.rings[1].empty[turn.stage]);
    turn.next();
  }

  const FlashGatherParams& p;
  DecodeShared<C>& shared;
  FragmentPlace place{0};
  tile::PipelineState<C::kStages> turn;
  std::uint32_t q[C::kDim / 16][4];
  float out[C::kDim / 2];
};

template <class C>
__global__ void __launch_bounds__(C::kThreads, C::kBlocks)
    flash_decode_sm90(const __grid_constant__ FlashGatherParams p) {
  unsigned char* const memory = tile::dynamic_shared();
  const std::uint32_t skipped = (1024 - ptx::shared_address(memory) % 1024) % 1024;
  auto& shared = *reinterpret_cast<DecodeShared<C>*>(memory + skipped);
  const GatherTile tile = decode_tile<C>(p);
  if (threadIdx.x >= kWarpgroup) {
    ptx::griddepcontrol_launch_dependents();
    decode_produce<C>(p, shared, tile, __shfl_sync(0xffffffffu, threadIdx.x, 0) >= kWarpgroup + 32);
  } else {
    DecodeConsumer<C>(p, shared).run(tile);
  }
}

}  // namespace gpudnn::kernels::flash_sm90
