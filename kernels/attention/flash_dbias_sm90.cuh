// The gradient of attention's bias for Hopper: an element for each row and column, summed over batches, heads or both.
//
// A block makes a tile of 128 x 128 elements of dBias. For each batch and head that they stand for it makes scores and
// dP again and adds dS = P (dP - delta) in registers: two products a visit, no memory for dS. q with k, then dO with v
// come by TMA through a ring of three slots; each of two consumer warpgroups has 64 rows. A bias that is the same for
// all visits is loaded once. Where tiles are fewer than the multiprocessors, blocks share the visits of a tile as in
// flash_dbias_sm80.
//
// Budget of a visit, D = 128, cycles of a multiprocessor: products 2048, exponentials 1024, 128 KiB from the L2 5,500,
// which is what bounds it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/attention_simt_tile.cuh"
#include "kernels/attention/flash_dbias_sm90.hpp"
#include "kernels/attention/flash_dbias_walk.cuh"
#include "kernels/attention/flash_sm90_tile.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/setmaxnreg.cuh"
#include "kernels/tile/dynamic_shared.cuh"

namespace gpudnn::kernels::flash_sm90 {

template <class T, int kDim_>
struct WideDbiasConfig {
  using Element = T;
  static constexpr int kDim = kDim_;
  static constexpr int kTile = kFlashDbiasWideTile;
  static constexpr int kConsumers = 2;
  static constexpr int kThreads = (kConsumers + 1) * kWarpgroup;
  static constexpr int kSlots = 3;
  static constexpr int kTileBytes = kTile * kDim * 2;
  static constexpr int kPanels = kDim / kPanelColumns;
};

template <class C>
struct WideDbiasShared {
  alignas(1024) unsigned char slots[C::kSlots][2][C::kTileBytes];  // {q, k} or {dO, v}
  alignas(1024) unsigned char bias[C::kTile * C::kTile * 2];
  std::uint64_t full[C::kSlots], empty[C::kSlots];
  std::uint64_t bias_full, bias_empty;
};

using WideDbiasWalk = DbiasWalk<kFlashDbiasWideTile, kFlashDbiasWideTile>;

__device__ __forceinline__ bool bias_varies(const FlashDbiasWideParams& p) {
  return (p.bias_has_batches && p.its.visits[0] > 1) || (p.bias_has_heads && p.its.visits[1] > 1);
}

template <class C>
__device__ __forceinline__ void produce_pair(const tile::TensorMap& a, const tile::TensorMap& b, int row, int column,
                                             int head, int head_b, int batch, tile::PipelineState<C::kSlots>& turn,
                                             WideDbiasShared<C>& shared) {
  std::uint64_t* const full = &shared.full[turn.stage];
  tile::wait(&shared.empty[turn.stage], turn.parity ^ 1);
  ptx::mbarrier_arrive_expect_tx(full, 2 * C::kTileBytes);
#pragma unroll
  for (int panel = 0; panel < C::kPanels; ++panel) {
    const int offset = panel * C::kTile * kPanelBytes;
    ptx::tma_tile_5d(shared.slots[turn.stage][0] + offset, &a, full, panel * kPanelColumns, row, head, batch, 0);
    ptx::tma_tile_5d(shared.slots[turn.stage][1] + offset, &b, full, panel * kPanelColumns, column, head_b, batch, 0);
  }
  turn.next();
}

template <class C>
__device__ __forceinline__ void produce_visits(const FlashDbiasWideParams& p, const DbiasTile& tile,
                                               WideDbiasShared<C>& shared) {
  tile::PipelineState<C::kSlots> turn;
  bool has_bias = false;
  std::uint32_t bias_parity = 0;
  for (WideDbiasWalk walk(p.its, tile); !walk.is_done(); walk.next()) {
    const int head = walk.head();
    const int batch = walk.batch();
    produce_pair(p.q, p.k, walk.row(), walk.column(), head, head / p.its.base.group, batch, turn, shared);
    if (p.has_bias && (!has_bias || bias_varies(p))) {
      tile::wait(&shared.bias_empty, bias_parity ^ 1);
      bias_parity ^= 1;
      has_bias = true;
      ptx::mbarrier_arrive_expect_tx(&shared.bias_full, C::kTile * C::kTile * 2);
#pragma unroll
      for (int panel = 0; panel < C::kTile / kPanelColumns; ++panel) {
        ptx::tma_tile_5d(shared.bias + panel * C::kTile * kPanelBytes, &p.bias, &shared.bias_full,
                         walk.column() + panel * kPanelColumns, walk.row(), p.bias_has_heads ? head : 0,
                         p.bias_has_batches ? batch : 0, 0);
      }
    }
    produce_pair(p.d_o, p.v, walk.row(), walk.column(), head, head / p.its.group_v, batch, turn, shared);
  }
}

template <class C>
class WideDbias {
  using T = typename C::Element;
  static constexpr int kValues = C::kTile / 2;

 public:
  __device__ __forceinline__ WideDbias(const FlashDbiasWideParams& params, const DbiasTile& its,
                                       WideDbiasShared<C>& memory)
      : p(params), tile(its), shared(memory) {
    place.warpgroup = __shfl_sync(0xffffffffu, place.warpgroup, 0);
    place.warp = __shfl_sync(0xffffffffu, place.warp, 0);
  }

  __device__ __forceinline__ void run() {
#pragma unroll
    for (int i = 0; i < kValues; ++i) sums[i] = 0.0F;
    bool has_bias = false;
#pragma unroll 1
    for (WideDbiasWalk walk(p.its, tile); !walk.is_done(); walk.next()) {
      const bool new_bias = p.has_bias && (!has_bias || bias_varies(p));
      visit(walk, new_bias);
      has_bias = true;
    }
    write();
  }

 private:
  __device__ __forceinline__ void issue(float (&d)[kValues], const unsigned char* a, const unsigned char* b) {
    const std::uint64_t a_base = tile::operand_descriptor<128>(a + place.warpgroup * 64 * kPanelBytes, 0);
    const std::uint64_t b_base = tile::operand_descriptor<128>(b, 0);
    ptx::pin(d);
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < C::kDim / 16; ++k) {
      ptx::wgmma_ss<T, T, C::kTile>(d, k_major_step<C::kTile>(a_base, k), k_major_step<C::kTile>(b_base, k),
                                    k == 0 ? 0 : 1);
    }
    ptx::wgmma_commit_group();
  }

  __device__ __forceinline__ void release(std::uint64_t* barrier) const {
    __syncwarp();
    if (place.lane == 0) ptx::mbarrier_arrive(barrier);
  }

  __device__ __forceinline__ void visit(const WideDbiasWalk& walk, bool new_bias) {
    float s[kValues];
    float dp[kValues];
    const int first = turn.stage;
    tile::wait(&shared.full[first], turn.parity);
    issue(s, shared.slots[first][0], shared.slots[first][1]);
    turn.next();
    const int second = turn.stage;
    tile::wait(&shared.full[second], turn.parity);
    issue(dp, shared.slots[second][0], shared.slots[second][1]);
    turn.next();
    const FlashGatherBackwardParams& base = p.its.base;
    const int row = walk.row() + place.row();
    const std::int64_t at =
        (static_cast<std::int64_t>(walk.batch()) * base.problem.heads_q + walk.head()) * base.pitch + row;
    const float lse[2] = {base.lse[at], base.lse[at + 8]};
    const float delta[2] = {base.delta[at], base.delta[at + 8]};
    if (new_bias) {
      tile::wait(&shared.bias_full, bias_parity);
      bias_parity ^= 1;
    }
    ptx::wgmma_wait_group<1>();
    ptx::pin(s);
    release(&shared.empty[first]);
    if (p.has_bias) {
      biased(s, lse);
      if (bias_varies(p)) release(&shared.bias_empty);
    } else {
#pragma unroll
      for (int i = 0; i < kValues; ++i) s[i] = ptx::ex2_approx_ftz(fmaf(s[i], base.scale_log2, -lse[i / 2 % 2]));
    }
    ptx::wgmma_wait_group<0>();
    ptx::pin(dp);
    release(&shared.empty[second]);
    const Sequence sequence = sequence_of(base.mask, walk.batch());
    if (is_cut(sequence, walk)) {
      add_visible(sequence, row, walk.column() + place.column(), s, dp, delta);
    } else {
#pragma unroll
      for (int i = 0; i < kValues; ++i) sums[i] = fmaf(s[i], dp[i] - delta[i / 2 % 2], sums[i]);
    }
  }

  // Scores to probabilities; bias lies as TMA has left it, in panels of 64 columns.
  __device__ __forceinline__ void biased(float (&s)[kValues], const float (&lse)[2]) const {
    const std::uint32_t base = ptx::shared_address(shared.bias);
    const int row = place.warpgroup * 64 + place.warp * 16 + place.lane % 16;
#pragma unroll
    for (int i = 0; i < C::kTile / 16; ++i) {
      std::uint32_t words[4];  // 8 x 8: rows, rows + 8, the same 8 columns on
      ptx::ldmatrix_x4(base + swizzled_chunk<C::kTile>(row, 2 * i + place.lane / 16), words);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float bias = tile::widen<float>(tile::half_of<T>(words[e / 2], e % 2));
        float& score = s[8 * i + e];
        score = ptx::ex2_approx_ftz(fmaf(score, p.its.base.scale_log2, fmaf(bias, kLog2E, -lse[e / 2 % 2])));
      }
    }
  }

  // What no row sees, or is no row, may be anything, a NaN too.
  __device__ __forceinline__ bool is_cut(const Sequence& q, const WideDbiasWalk& walk) const {
    const FlashMask& mask = p.its.base.mask;
    const int last = walk.row() + C::kTile - 1;
    return last >= q.length_q || first_column(mask, q, last) > walk.column() ||
           end_column(mask, q, walk.row()) < walk.column() + C::kTile;
  }
  __device__ __forceinline__ void add_visible(const Sequence& q, int row, int column, const float (&s)[kValues],
                                              const float (&dp)[kValues], const float (&delta)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int its = row + 8 * half;
      const int begin = first_column(p.its.base.mask, q, its) - column;
      const int end = its < q.length_q ? end_column(p.its.base.mask, q, its) - column : begin;
#pragma unroll
      for (int i = 0; i < C::kTile / 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int at = 4 * i + 2 * half + e;
          if (8 * i + e >= begin && 8 * i + e < end) sums[at] = fmaf(s[at], dp[at] - delta[half], sums[at]);
        }
      }
    }
  }

  __device__ __forceinline__ void write() const {
    const AttentionParams& a = p.its.base.problem;
    const std::int64_t head = static_cast<std::int64_t>(tile.batch) * a.dbias_dims[1] + tile.head;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int64_t row = static_cast<std::int64_t>(tile.row_tile) * C::kTile + place.row() + 8 * half;
      if (row >= a.dbias_dims[2]) continue;
#pragma unroll
      for (int i = 0; i < C::kTile / 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const std::int64_t column =
              static_cast<std::int64_t>(tile.column_tile) * C::kTile + 8 * i + place.column() + e;
          if (column >= a.dbias_dims[3]) continue;
          const float sum = sums[4 * i + 2 * half + e];
          if (p.its.splits > 1) {
            p.its.partial[tile.split * p.its.elements + (head * a.dbias_dims[2] + row) * a.dbias_dims[3] + column] =
                sum;
          } else {
            attention_simt::store_element(a.dbias.type, a.dbias.data,
                                          bias_offset(a.dbias, tile.batch, tile.head, row, column), sum);
          }
        }
      }
    }
  }

  const FlashDbiasWideParams& p;
  const DbiasTile& tile;
  WideDbiasShared<C>& shared;
  FragmentPlace place;
  tile::PipelineState<C::kSlots> turn;
  std::uint32_t bias_parity = 0;
  float sums[kValues];
};

template <class C>
__global__ void __launch_bounds__(C::kThreads, 1) flash_dbias_sm90(const __grid_constant__ FlashDbiasWideParams p) {
  unsigned char* const memory = tile::dynamic_shared();
  const std::uint32_t skipped = (1024 - ptx::shared_address(memory) % 1024) % 1024;
  auto& shared = *reinterpret_cast<WideDbiasShared<C>*>(memory + skipped);
  if (threadIdx.x == 0) {
    constexpr int kConsumerWarps = 4 * C::kConsumers;
    for (int i = 0; i < C::kSlots; ++i) {
      ptx::mbarrier_init(&shared.full[i], 1);
      ptx::mbarrier_init(&shared.empty[i], kConsumerWarps);
    }
    ptx::mbarrier_init(&shared.bias_full, 1);
    ptx::mbarrier_init(&shared.bias_empty, kConsumerWarps);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  const DbiasTile tile = dbias_tile(p.its, static_cast<int>(blockIdx.x));
  if (threadIdx.x < kWarpgroup) {
    ptx::setmaxnreg_dec<24>();
    if (threadIdx.x == 0) produce_visits<C>(p, tile, shared);
  } else {
    ptx::setmaxnreg_inc<240>();
    WideDbias<C>(p, tile, shared).run();
  }
}

}  // namespace gpudnn::kernels::flash_sm90
