// Attention forward for Hopper in 16-bit types with every option but the block mask, and for few rows of q (decode):
// rows of q, k and v are gathered by cp.async, so they may be paged or ragged; heads that share k and v are packed into
// one tile; the columns of a tile may be split over blocks.
//
// A block makes one tile of 64 or 128 rows. Its producer warpgroup copies q once and rows of k and v through two rings
// of stages, as many as shared memory holds: of decode it is the bytes under way that count. Whole tiles whose rows lie
// at one stride, and whole pages of them, come by TMA, 30 % above the rate of cp.async; the last tile of a sequence and
// all others by cp.async. Rows beyond a sequence's length and elements beyond the head dimension are zeros that are
// never read. The consumer warpgroups compute as those
// of flash_sm90_forward.cuh do: S of the next tile is issued before P v of this one, and two warpgroups take turns.
// cp.async writes through the generic proxy: consumers fence before wgmma reads.
//
// Where columns are split, a block leaves its sums in float and each row's maximum and sum of exponentials, and
// flash_combine_sm90 adds them in the order of the splits. The sink is added once, at the end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_forward_rows.cuh"
#include "kernels/attention/flash_gather_sm90_load.cuh"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/ptx/setmaxnreg.cuh"
#include "kernels/ptx/stmatrix.cuh"
#include "kernels/tile/dynamic_shared.cuh"

namespace gpudnn::kernels::flash_sm90 {

template <class T, int kDim_, int kConsumers_>
struct GatherConfig {
  using Element = T;
  static constexpr int kDim = kDim_;
  static constexpr int kConsumers = kConsumers_;
  static constexpr int kRows = 64 * kConsumers;
  static constexpr int kColumns = flash_gather_columns(kDim);
  static constexpr int kThreads = (kConsumers + 1) * kWarpgroup;
  static constexpr bool kTakesTurns = kConsumers == 2 && kDim <= 128;
  static constexpr int kQBytes = kRows * kDim * 2;
  static constexpr int kTileBytes = kColumns * kDim * 2;
  static constexpr int kFitting = (225 * 1024 - kQBytes) / (2 * kTileBytes);
  static constexpr int kStages = kFitting < 6 ? kFitting : 6;
  static_assert(kStages >= 2, "copies run beside products");
};

template <class C>
struct GatherShared {
  alignas(1024) unsigned char q[C::kQBytes];
  alignas(1024) unsigned char k[C::kStages][C::kTileBytes];
  alignas(1024) unsigned char v[C::kStages][C::kTileBytes];
  std::uint64_t q_full;
  std::uint64_t k_full[C::kStages], k_empty[C::kStages];
  std::uint64_t v_full[C::kStages], v_empty[C::kStages];
};

// 1 to 2: turns; from 3: a warpgroup each.
enum GatherBarrier { kGatherTurn = 1, kGatherWarpgroup = 3 };

template <class C>
__device__ __forceinline__ void gather(const FlashGatherParams& p, const GatherTile& tile, GatherShared<C>& shared) {
  const Gather<C::kDim, C::kColumns> columns;
  const AttentionParams& a = p.problem;
  const GatherSource k = gather_source(a.k, tile.batch, tile.head / p.group_k, tile.sequence.length_kv, a.dim_qk);
  const GatherSource v = gather_source(a.v, tile.batch, tile.head / p.group_v, tile.sequence.length_kv, a.dim_v);
  {
    const Gather<C::kDim, C::kRows> rows;
    const int packed = static_cast<int>(p.packed.divisor);
    const GatherSource q = gather_source(a.q, tile.batch, tile.head * packed, tile.sequence.length_q, a.dim_qk);
    std::uint32_t member;
    const auto row = static_cast<int>(p.packed.divmod(static_cast<std::uint32_t>(tile.row + rows.row()), &member));
    const std::int64_t offset = row * a.q.strides[2] + member * a.q.strides[1];
    rows.copy(q, row < q.length ? offset : -1, shared.q, &shared.q_full);
  }
  const BoxSource k_boxes = box_source(a.k, p.k_map, p.k_box, tile.batch, tile.head / p.group_k);
  const BoxSource v_boxes = box_source(a.v, p.v_map, p.v_box, tile.batch, tile.head / p.group_v);
  tile::PipelineState<C::kStages> k_turn, v_turn;
  int k_entry = columns.first_entry(k, k_boxes, p.page_rows_k, tile.end - 1);
  int v_entry = columns.first_entry(v, v_boxes, p.page_rows_v, tile.end - 1);
  const auto load_k = [&](int j) {
    columns.fill(k, k_boxes, p.page_rows_k, j, &k_entry, shared.k[k_turn.stage], &shared.k_full[k_turn.stage],
                 &shared.k_empty[k_turn.stage], k_turn.parity ^ 1);
    k_turn.next();
  };
  const auto load_v = [&](int j) {
    columns.fill(v, v_boxes, p.page_rows_v, j, &v_entry, shared.v[v_turn.stage], &shared.v_full[v_turn.stage],
                 &shared.v_empty[v_turn.stage], v_turn.parity ^ 1);
    v_turn.next();
  };
  load_k(tile.end - 1);
#pragma unroll 1
  for (int j = tile.end - 2; j >= tile.first; --j) {
    load_k(j);
    load_v(j + 1);
  }
  load_v(tile.first);
}

template <class C>
class GatherConsumer {
  using T = typename C::Element;

 public:
  __device__ __forceinline__ GatherConsumer(const FlashGatherParams& params, const GatherTile& its,
                                            GatherShared<C>& memory)
      : p(params),
        shared(memory),
        tile(its),
        rows(params, its, place.row()),
        q_base(tile::operand_descriptor<128>(memory.q + place.warpgroup * 64 * kPanelBytes, 0)) {
#pragma unroll
    for (int i = 0; i < C::kDim / 2; ++i) out[i] = 0.0F;
  }

  __device__ __forceinline__ void run() {
    if (tile.end > tile.first) multiply();
    rows.finish_sums();
    if (p.splits > 1) {
      rows.template write_partial<C::kDim>(out);
    } else {
      write();
    }
  }

 private:
  __device__ __forceinline__ void ping_pong_wait() {
    if constexpr (C::kTakesTurns) ptx::barrier_sync(kGatherTurn + place.warpgroup, 2 * kWarpgroup);
  }
  __device__ __forceinline__ void ping_pong_pass() {
    if constexpr (C::kTakesTurns) ptx::barrier_arrive(kGatherTurn + (place.warpgroup ^ 1), 2 * kWarpgroup);
  }
  __device__ __forceinline__ void release(std::uint64_t* barrier) {
    if (place.lane == 0) ptx::mbarrier_arrive(barrier);
  }
  __device__ __forceinline__ void wait_full(std::uint64_t* barrier, std::uint32_t parity) {
    tile::wait(barrier, parity);
    ptx::fence_proxy_async();
  }

  __device__ __forceinline__ void issue_scores(float (&s)[C::kColumns / 2]) {
    const std::uint64_t k_base = tile::operand_descriptor<128>(shared.k[k_turn.stage], 0);
    ptx::pin(s);
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < C::kDim / 16; ++k) {
      ptx::wgmma_ss<T, T, C::kColumns>(s, k_major_step<C::kRows>(q_base, k), k_major_step<C::kColumns>(k_base, k),
                                       k == 0 ? 0 : 1);
    }
    ptx::wgmma_commit_group();
  }
  __device__ __forceinline__ void issue_output() {
    const std::uint64_t v_base = tile::operand_descriptor<128>(shared.v[v_turn.stage], C::kColumns * kPanelBytes);
    ptx::pin(out);
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < C::kColumns / 16; ++k) {
      ptx::wgmma_rs<T, T, C::kDim, ptx::Major::mn>(out, weights[k], mn_major_step(v_base, k), 1);
    }
    ptx::wgmma_commit_group();
  }

  template <bool kMasked>
  __device__ __forceinline__ void step(int column_tile) {
    float s[C::kColumns / 2];
    wait_full(&shared.k_full[k_turn.stage], k_turn.parity);
    ping_pong_wait();
    issue_scores(s);
    wait_full(&shared.v_full[v_turn.stage], v_turn.parity);
    issue_output();
    ping_pong_pass();
    ptx::wgmma_wait_group<1>();
    ptx::pin(s);
    release(&shared.k_empty[k_turn.stage]);
    k_turn.next();
    float corrections[2];
    rows.softmax(kMasked, column_tile, s, corrections);
    ptx::wgmma_wait_group<0>();
    ptx::pin(out);
    release(&shared.v_empty[v_turn.stage]);
    v_turn.next();
    to_operand<T, C::kColumns>(s, weights);
#pragma unroll
    for (int i = 0; i < C::kDim / 2; ++i) out[i] *= corrections[i / 2 % 2];
  }

  __device__ __forceinline__ void multiply() {
    if (C::kTakesTurns && place.warpgroup == 1) ptx::barrier_arrive(kGatherTurn, 2 * kWarpgroup);
    wait_full(&shared.q_full, 0);
    {
      float s[C::kColumns / 2];
      float corrections[2];
      wait_full(&shared.k_full[k_turn.stage], k_turn.parity);
      ping_pong_wait();
      issue_scores(s);
      ping_pong_pass();
      ptx::wgmma_wait_group<0>();
      ptx::pin(s);
      release(&shared.k_empty[k_turn.stage]);
      k_turn.next();
      rows.softmax(true, tile.end - 1, s, corrections);
      to_operand<T, C::kColumns>(s, weights);
    }
    int j = tile.end - 2;
    while (j >= tile.first) {
#pragma unroll 1
      for (; j >= tile.first && rows.is_cut(j); --j) step<true>(j);
#pragma unroll 1
      for (; j >= tile.first && !rows.is_cut(j); --j) step<false>(j);
    }
    wait_full(&shared.v_full[v_turn.stage], v_turn.parity);
    issue_output();
    ptx::wgmma_wait_group<0>();
    ptx::pin(out);
    // The turn that the other warpgroup passed last is taken, so that the barrier is left as it was.
    if (C::kTakesTurns && place.warpgroup == 0) ptx::barrier_sync(kGatherTurn, 2 * kWarpgroup);
  }

  // o by way of the rows of q of this warpgroup, which no product reads any more.
  __device__ __forceinline__ void write() {
    rows.template finish_output<C::kDim>(out);
    unsigned char* const staging = shared.q + place.warpgroup * 64 * kPanelBytes;
    // Copies into q have ended for all only where its barrier was waited for.
    if (tile.end > tile.first) ptx::barrier_sync(kGatherWarpgroup + place.warpgroup, kWarpgroup);
    const std::uint32_t base = ptx::shared_address(staging);
    const int row = place.warp * 16 + place.lane / 8 % 2 * 8 + place.lane % 8;
#pragma unroll
    for (int i = 0; i < C::kDim / 16; ++i) {
      ptx::stmatrix_x4(base + swizzled_chunk<C::kRows>(row, 2 * i + place.lane / 16),
                       pack_halves<T>(out[8 * i], out[8 * i + 1]), pack_halves<T>(out[8 * i + 2], out[8 * i + 3]),
                       pack_halves<T>(out[8 * i + 4], out[8 * i + 5]), pack_halves<T>(out[8 * i + 6], out[8 * i + 7]));
    }
    __syncwarp();
    write_output_rows<C::kDim, C::kRows>(p, tile, staging, place.warp * 16, place.warpgroup * 64 + place.warp * 16);
  }

  const FlashGatherParams& p;
  GatherShared<C>& shared;
  const GatherTile& tile;
  FragmentPlace place;
  ForwardRows<C::kColumns, true> rows;
  const std::uint64_t q_base;
  tile::PipelineState<C::kStages> k_turn, v_turn;
  float out[C::kDim / 2];
  std::uint32_t weights[C::kColumns / 16][4];
};

template <class C>
__global__ void __launch_bounds__(C::kThreads, 1) flash_gather_sm90(const __grid_constant__ FlashGatherParams p) {
  unsigned char* const memory = tile::dynamic_shared();
  const std::uint32_t skipped = (1024 - ptx::shared_address(memory) % 1024) % 1024;
  auto& shared = *reinterpret_cast<GatherShared<C>*>(memory + skipped);
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&shared.q_full, kWarpgroup);
    for (int i = 0; i < C::kStages; ++i) {
      ptx::mbarrier_init(&shared.k_full[i], kWarpgroup);
      ptx::mbarrier_init(&shared.k_empty[i], 4 * C::kConsumers);
      ptx::mbarrier_init(&shared.v_full[i], kWarpgroup);
      ptx::mbarrier_init(&shared.v_empty[i], 4 * C::kConsumers);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  const GatherTile tile = gather_tile<C>(p);
  if (threadIdx.x < kWarpgroup) {
    if constexpr (C::kConsumers == 2) ptx::setmaxnreg_dec<40>();
    ptx::griddepcontrol_launch_dependents();
    if (tile.end > tile.first) gather<C>(p, tile, shared);
  } else {
    if constexpr (C::kConsumers == 2) ptx::setmaxnreg_inc<232>();
    GatherConsumer<C>(p, tile, shared).run();
  }
}

}  // namespace gpudnn::kernels::flash_sm90
