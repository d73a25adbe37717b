// Attention forward for Hopper in 16-bit types with every option but the block mask, and for few rows of q (decode):
// rows of q, k and v are gathered by cp.async, so they may be paged or ragged; heads that share k and v are packed into
// one tile; the columns of a tile may be split over blocks.
//
// A block makes tiles of 64 or 128 rows, one or, where there are more tiles than multiprocessors, one after the other:
// o leaves from registers or from where q was, so that the next tile's q and k come beside it. Its producer warpgroup
// copies q once a tile and rows of k and v through two rings of stages, as many as shared memory holds: of decode it is
// the bytes under way that count. Whole tiles whose rows lie at one stride, and whole pages of them, come by TMA, 30 %
// above the rate of cp.async; the last tile of a sequence and all others by cp.async. Rows beyond a sequence's length
// and elements beyond the head dimension are zeros that are never read. The consumer warpgroups compute as those of
// flash_sm90_forward.cuh do: S of the next tile is issued before P v of this one, and two warpgroups take turns.
// cp.async writes through the generic proxy: where it does, consumers fence before wgmma reads.
//
// Bias comes as k does, a tile beside each tile of k, for 128 rows of up to 128 columns; else lanes load it. Calls of
// that size with nothing that changes scores, or with bias alone, have instances of their own, with two stages of q.
//
// Where columns are split, a block leaves its sums in float and each row's maximum and sum of exponentials, and
// flash_combine_sm90 adds them in the order of the splits. The sink is added once, at the end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_forward_rows.cuh"
#include "kernels/attention/flash_gather_sm90_load.cuh"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/ptx/setmaxnreg.cuh"
#include "kernels/tile/dynamic_shared.cuh"

namespace gpudnn::kernels::flash_sm90 {

template <class T, int kDim_, int kConsumers_, FlashGatherKind kKind = FlashGatherKind::general>
struct GatherConfig {
  using Element = T;
  static constexpr int kDim = kDim_;
  static constexpr int kConsumers = kConsumers_;
  static constexpr int kRows = 64 * kConsumers;
  static constexpr int kColumns = flash_gather_columns(kDim);
  static constexpr int kThreads = (kConsumers + 1) * kWarpgroup;
  static constexpr bool kTakesTurns = kConsumers == 2 && kDim <= 128;
  static constexpr bool kModifies = kKind == FlashGatherKind::general;
  static constexpr bool kAddsBias = kKind == FlashGatherKind::biased;
  static constexpr bool kDrops = kModifies || kKind == FlashGatherKind::plain;
  static_assert(kModifies || (kConsumers == 2 && kDim <= 128), "whose tiles are 128 x 128");
  static constexpr int kQStages = kModifies ? 1 : 2;
  static constexpr int kQBytes = kRows * kDim * 2;
  static constexpr int kTileBytes = kColumns * kDim * 2;
  // Bias: two stages; or one for each consumer's rows, loaded when it has read the one before.
  static constexpr bool kStagesBias = kModifies && kConsumers == 2 && kDim <= 128;
  static constexpr int kBiasStages = kStagesBias || kAddsBias ? 2 : 0;
  static constexpr int kBiasTileRows = kStagesBias ? kRows : kAddsBias ? 64 : 0;
  static constexpr int kBiasBytes = kBiasTileRows * kColumns * 2;
  static constexpr int kOptionBytes = kBiasStages * kBiasBytes;
  static constexpr int kFitting = (225 * 1024 - kQStages * kQBytes - kOptionBytes) / (2 * kTileBytes);
  static constexpr int kStages = kFitting < 6 ? kFitting : 6;
  static_assert(kStages >= 2, "copies run beside products");
  // Of ForwardRows.
  static constexpr bool kKeeps = true;
  using Bias = T;
  // o of kind biased leaves from registers: the wait for it costs more there than its instructions.
  static constexpr bool kStagesOutput = kKind == FlashGatherKind::plain;
};

// A tile as those who load and those who multiply see it.
struct GatherWork {
  int number;
  bool is_by_rows;  // whether cp.async fills more than the tile that a length cuts
  GatherTile tile;
  GatherSource k, v;
  BoxSource k_boxes, v_boxes;
};

template <class C>
struct GatherShared {
  alignas(1024) unsigned char q[C::kQStages][C::kQBytes];
  alignas(1024) unsigned char k[C::kStages][C::kTileBytes];
  alignas(1024) unsigned char v[C::kStages][C::kTileBytes];
  alignas(1024) unsigned char bias[C::kBiasStages != 0 ? 2 : 1][C::kBiasStages != 0 ? C::kBiasBytes : 16];
  std::uint64_t q_full[C::kQStages], q_empty[C::kQStages];
  std::uint64_t k_full[C::kStages], k_empty[C::kStages];
  std::uint64_t v_full[C::kStages], v_empty[C::kStages];
  std::uint64_t bias_full[2], bias_empty[2];
  std::uint64_t work_full[2], work_empty[2];
  GatherWork work[2];
};

// 1 to 2: turns; 4 to 5: the warps of a consumer.
enum GatherBarrier { kGatherTurn = 1, kGatherProducers = 3, kGatherConsumer = 4 };

// What the warpgroup of producers does for one tile.
template <class C>
class GatherProducer {
 public:
  __device__ __forceinline__ GatherProducer(const FlashGatherParams& params, GatherShared<C>& memory)
      : p(params), shared(memory) {}

  __device__ __forceinline__ void run() {
    tile::PipelineState<2> turn;
    const int tiles = p.row_tiles * p.batch_heads * p.splits;
    int number = static_cast<int>(blockIdx.x);  // of thread 0
#pragma unroll 1
    while (true) {
      GatherWork& work = shared.work[turn.stage];
      if (threadIdx.x == 0) {
        tile::wait(&shared.work_empty[turn.stage], turn.parity ^ 1);
        describe(number, number < tiles, &work);
        ptx::mbarrier_arrive(&shared.work_full[turn.stage]);
      }
      __syncwarp();
      // Those who have nothing to do for whole tiles have gone ahead: no further than here.
      ptx::barrier_sync(kGatherProducers, kWarpgroup);
      if (work.number >= tiles) return;
      if (work.tile.end > work.tile.first) load(work);
      if (static_cast<int>(gridDim.x) >= tiles) return;
      if (p.next_tile == nullptr) {
        number += static_cast<int>(gridDim.x);
      } else if (threadIdx.x == 0) {
        ptx::griddepcontrol_wait();  // the counter is set
        number = static_cast<int>(gridDim.x) + atomicAdd(p.next_tile, 1);
      }
      turn.next();
    }
  }

 private:
  // Bias that all batches of a head share comes to the L2 once, if their tiles go together: each tile of rows for all
  // batches, then the next, then the next head.
  [[nodiscard]] __device__ __forceinline__ bool shares_bias() const {
    const AttentionBias& bias = p.problem.bias;
    return C::kAddsBias && p.splits == 1 && bias.strides[0] == 0 && bias.strides[1] != 0 &&
           p.sections.heads.divisor == 1;
  }
  [[nodiscard]] __device__ __forceinline__ int with_same_bias(int number) const {
    const int batches = p.batch_heads / p.heads;
    const int rows = number / batches;  // of all heads
    const int batch = number - rows * batches;
    const int head = rows / p.row_tiles;
    return (batch * p.heads + head) * p.row_tiles + rows - head * p.row_tiles;
  }

  __device__ __forceinline__ void describe(int number, bool exists, GatherWork* work) {
    const AttentionParams& a = p.problem;
    work->number = number;
    if (!exists) return;
    const GatherTile tile = gather_tile<C>(p, shares_bias() ? with_same_bias(number) : number);
    work->tile = tile;
    const auto head = static_cast<std::uint32_t>(tile.head);
    const auto head_k = static_cast<int>(p.group_k.quotient(head));
    const auto head_v = static_cast<int>(p.group_v.quotient(head));
    work->k = gather_source(a.k, tile.batch, head_k, tile.sequence.length_kv, a.dim_qk);
    work->v = gather_source(a.v, tile.batch, head_v, tile.sequence.length_kv, a.dim_v);
    work->k_boxes = box_source(a.k, p.k_map, p.k_box, tile.batch, head_k);
    work->v_boxes = box_source(a.v, p.v_map, p.v_box, tile.batch, head_v);
    work->is_by_rows = work->k_boxes.rows == 0 || work->v_boxes.rows == 0;
  }

  __device__ __forceinline__ void load(const GatherWork& work) {
    load_q(work.tile);
    const std::int64_t bias_row = row_of_bias(work.tile);
    const int end = work.tile.end;
    const int first = work.tile.first;
    int k_entry = columns.first_entry(0, work.k, work.k_boxes, p.page_rows_k, end - 1);
    int v_entry = columns.first_entry(1, work.v, work.v_boxes, p.page_rows_v, end - 1);
#pragma unroll 1
    for (int j = end - 1; j >= first - 1; --j) {
      if (j >= first) {
        columns.fill(0, work.k, work.k_boxes, p.page_rows_k, j, &k_entry, shared.k[k_turn.stage],
                     &shared.k_full[k_turn.stage], &shared.k_empty[k_turn.stage], k_turn.parity ^ 1);
        k_turn.next();
        if constexpr (C::kStagesBias) {
          if (p.problem.bias.data != nullptr) load_bias(work.tile, bias_row, j);
        }
      }
      if (j < end - 1) {
        columns.fill(1, work.v, work.v_boxes, p.page_rows_v, j + 1, &v_entry, shared.v[v_turn.stage],
                     &shared.v_full[v_turn.stage], &shared.v_empty[v_turn.stage], v_turn.parity ^ 1);
        v_turn.next();
      }
      if constexpr (C::kAddsBias) {
        if (j >= first && threadIdx.x == 0) load_bias_of_consumers(work.tile, j);
      }
    }
  }

  __device__ __forceinline__ void load_q(const GatherTile& tile) {
    const AttentionParams& a = p.problem;
    const Gather<C::kDim, C::kRows> rows;
    const int packed = static_cast<int>(p.packed.divisor);
    const GatherSource q = gather_source(a.q, tile.batch, tile.head * packed, tile.sequence.length_q, a.dim_qk);
    std::uint32_t member;
    const auto row = static_cast<int>(p.packed.divmod(static_cast<std::uint32_t>(tile.row + rows.row()), &member));
    const std::int64_t offset = row * a.q.strides[2] + member * a.q.strides[1];
    tile::wait(&shared.q_empty[q_turn.stage], q_turn.parity ^ 1);
    rows.copy(q, row < q.length ? offset : -1, shared.q[q_turn.stage], &shared.q_full[q_turn.stage]);
    q_turn.next();
  }

  // Where bias of this lane's row starts; -1: zeros.
  [[nodiscard]] __device__ __forceinline__ std::int64_t row_of_bias(const GatherTile& tile) const {
    if (!C::kStagesBias || p.problem.bias.data == nullptr || p.bias_box != 0) return 0;
    const Gather<C::kColumns, C::kRows> rows;
    std::uint32_t member;
    const auto row = static_cast<int>(p.packed.divmod(static_cast<std::uint32_t>(tile.row + rows.row()), &member));
    const int head = tile.head * static_cast<int>(p.packed.divisor) + static_cast<int>(member);
    return row < tile.sequence.length_q ? bias_offset(p.problem.bias, tile.batch, head, row, 0) : -1;
  }
  __device__ __forceinline__ void load_bias_of_consumers(const GatherTile& tile, int j) {
    const AttentionBias& bias = p.problem.bias;
#pragma unroll
    for (int i = 0; i < C::kConsumers; ++i) {
      tile::wait(&shared.bias_empty[i], bias_turn.parity ^ 1);
      ptx::mbarrier_arrive_expect_tx(&shared.bias_full[i], p.bias_box * C::kColumns * 2);
#pragma unroll
      for (int panel = 0; panel < C::kColumns / kPanelColumns; ++panel) {
        ptx::tma_tile_5d(shared.bias[i] + panel * C::kBiasTileRows * kPanelBytes, &p.bias_map, &shared.bias_full[i],
                         j * C::kColumns + panel * kPanelColumns, p.bias_box == 1 ? 0 : tile.row + i * C::kBiasTileRows,
                         bias.strides[1] == 0 ? 0 : tile.head, bias.strides[0] == 0 ? 0 : tile.batch, 0);
      }
    }
    bias_turn.parity ^= 1;
  }
  // The tile of bias beside column tile j.
  __device__ __forceinline__ void load_bias(const GatherTile& tile, std::int64_t my_row, int j) {
    const AttentionBias& bias = p.problem.bias;
    unsigned char* const to = shared.bias[bias_turn.stage];
    std::uint64_t* const full = &shared.bias_full[bias_turn.stage];
    std::uint64_t* const empty = &shared.bias_empty[bias_turn.stage];
    if (p.bias_box == 0) {
      const Gather<C::kColumns, C::kRows> rows;
      GatherSource source{};
      source.data = static_cast<const std::uint16_t*>(bias.data) + j * C::kColumns;
      source.aligned = true;
      source.dim = p.mask.length_kv - j * C::kColumns;
      tile::wait(empty, bias_turn.parity ^ 1);
      rows.copy(source, my_row, to, full);
    } else if (threadIdx.x == 0) {
      tile::wait(empty, bias_turn.parity ^ 1);
      ptx::mbarrier_arrive_count(full, kWarpgroup - 1);
      ptx::mbarrier_arrive_expect_tx(full, p.bias_box * C::kColumns * 2);
#pragma unroll
      for (int panel = 0; panel < C::kColumns / kPanelColumns; ++panel) {
        ptx::tma_tile_5d(to + panel * C::kRows * kPanelBytes, &p.bias_map, full,
                         j * C::kColumns + panel * kPanelColumns, p.bias_box == 1 ? 0 : tile.row,
                         bias.strides[1] == 0 ? 0 : tile.head, bias.strides[0] == 0 ? 0 : tile.batch, 0);
      }
    }
    bias_turn.next();
  }

  const FlashGatherParams& p;
  GatherShared<C>& shared;
  const Gather<C::kDim, C::kColumns> columns;
  tile::PipelineState<C::kStages> k_turn, v_turn;
  tile::PipelineState<2> bias_turn;
  tile::PipelineState<C::kQStages> q_turn;
};

template <class C>
class GatherConsumer {
  using T = typename C::Element;

 public:
  __device__ __forceinline__ GatherConsumer(const FlashGatherParams& params, GatherShared<C>& memory)
      : p(params),
        shared(memory),
        q_base(tile::operand_descriptor<128>(memory.q[0] + place.warpgroup * 64 * kPanelBytes, 0)) {}

  __device__ __forceinline__ void run() {
    if (C::kTakesTurns && place.warpgroup == 1) ptx::barrier_arrive(kGatherTurn, 2 * kWarpgroup);
    tile::PipelineState<2> turn;
    const int tiles = p.row_tiles * p.batch_heads * p.splits;
#pragma unroll 1
    do {
      tile::wait(&shared.work_full[turn.stage], turn.parity);
      const GatherWork& work = shared.work[turn.stage];
      if (work.number >= tiles) break;
      make(work);
      release(&shared.work_empty[turn.stage]);
      turn.next();
    } while (static_cast<int>(gridDim.x) < tiles);
    // The turn that the other warpgroup passed last is taken, so that the barrier is left as it was.
    if (C::kTakesTurns && place.warpgroup == 0) ptx::barrier_sync(kGatherTurn, 2 * kWarpgroup);
  }

 private:
  using Rows = ForwardRows<C::kColumns, C>;

  __device__ __forceinline__ void make(const GatherWork& work) {
    Rows rows(p, work.tile, place.row());
#pragma unroll
    for (int i = 0; i < C::kDim / 2; ++i) out[i] = 0.0F;
    const bool sees = work.tile.end > work.tile.first;
    if (sees) multiply(work, rows);
    rows.finish_sums();
    if (p.splits > 1) {
      rows.template write_partial<C::kDim>(out);
    } else if constexpr (C::kStagesOutput) {
      // Where q was, which no warp's products read any more: that of the next tile lies elsewhere.
      ptx::barrier_sync(kGatherConsumer + place.warpgroup, kWarpgroup);
      rows.template write_staged<T, C::kDim, C::kRows>(out, sees ? shared.q[q_turn.stage] : nullptr);
    } else {
      rows.template write<T, C::kDim>(out);
    }
    __syncwarp();
    if (C::kStagesOutput && sees) {
      release(&shared.q_empty[q_turn.stage]);
      q_turn.next();
    }
  }

  __device__ __forceinline__ void ping_pong_wait() {
    if constexpr (C::kTakesTurns) ptx::barrier_sync(kGatherTurn + place.warpgroup, 2 * kWarpgroup);
  }
  __device__ __forceinline__ void ping_pong_pass() {
    if constexpr (C::kTakesTurns) ptx::barrier_arrive(kGatherTurn + (place.warpgroup ^ 1), 2 * kWarpgroup);
  }
  __device__ __forceinline__ void release(std::uint64_t* barrier) {
    if (place.lane == 0) ptx::mbarrier_arrive(barrier);
  }
  // `by_rows`: the tile may have come by cp.async.
  __device__ __forceinline__ void wait_full(std::uint64_t* barrier, std::uint32_t parity, bool by_rows) {
    tile::wait(barrier, parity);
    if (by_rows) ptx::fence_proxy_async();
  }

  __device__ __forceinline__ void issue_scores(float (&s)[C::kColumns / 2]) {
    const std::uint64_t k_base = tile::operand_descriptor<128>(shared.k[k_turn.stage], 0);
    const std::uint64_t q_stage = q_base + static_cast<std::uint32_t>(q_turn.stage) * (C::kQBytes >> 4);
    ptx::pin(s);
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < C::kDim / 16; ++k) {
      ptx::wgmma_ss<T, T, C::kColumns>(s, k_major_step<C::kRows>(q_stage, k), k_major_step<C::kColumns>(k_base, k),
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

  __device__ __forceinline__ void softmax(Rows& rows, bool is_cut, int column_tile, float (&s)[C::kColumns / 2],
                                          float (&corrections)[2]) {
    if constexpr (C::kStagesBias) {
      if (p.problem.bias.data != nullptr) {
        tile::wait(&shared.bias_full[bias_turn.stage], bias_turn.parity);
        rows.softmax(is_cut, column_tile, s, corrections, shared.bias[bias_turn.stage]);
        release(&shared.bias_empty[bias_turn.stage]);
        bias_turn.next();
        return;
      }
    }
    if constexpr (C::kAddsBias) {
      tile::wait(&shared.bias_full[place.warpgroup], bias_turn.parity);
      rows.softmax(is_cut, column_tile, s, corrections, shared.bias[place.warpgroup]);
      release(&shared.bias_empty[place.warpgroup]);
      bias_turn.parity ^= 1;
    } else {
      rows.softmax(is_cut, column_tile, s, corrections);
    }
  }

  // Whether k and v may have come by cp.async: v is of the tile before, which a length may cut.
  __device__ __forceinline__ void step(Rows& rows, bool k_by_rows, bool v_by_rows, int column_tile) {
    float s[C::kColumns / 2];
    wait_full(&shared.k_full[k_turn.stage], k_turn.parity, k_by_rows);
    ping_pong_wait();
    issue_scores(s);
    wait_full(&shared.v_full[v_turn.stage], v_turn.parity, v_by_rows);
    issue_output();
    ping_pong_pass();
    ptx::wgmma_wait_group<1>();
    ptx::pin(s);
    release(&shared.k_empty[k_turn.stage]);
    k_turn.next();
    // Where warpgroups take turns, the stage of v is wanted early, and o with it costs nothing.
    if constexpr (C::kTakesTurns) finish_output();
    float corrections[2];
    softmax(rows, rows.is_cut(column_tile), column_tile, s, corrections);
    if constexpr (!C::kTakesTurns) finish_output();
    to_operand<T, C::kColumns>(s, weights);
    drop(rows, column_tile);
#pragma unroll
    for (int i = 0; i < C::kDim / 2; ++i) out[i] *= corrections[i / 2 % 2];
  }
  __device__ __forceinline__ void drop(const Rows& rows, int column_tile) {
    if constexpr (C::kDrops) rows.drop(column_tile, weights);
  }
  __device__ __forceinline__ void finish_output() {
    ptx::wgmma_wait_group<0>();
    ptx::pin(out);
    release(&shared.v_empty[v_turn.stage]);
    v_turn.next();
  }

  __device__ __forceinline__ void multiply(const GatherWork& work, Rows& rows) {
    const bool fences = work.is_by_rows;  // every tile may have come by cp.async
    const int first = work.tile.first;
    const int end = work.tile.end;
    wait_full(&shared.q_full[q_turn.stage], q_turn.parity, true);
    {
      float s[C::kColumns / 2];
      float corrections[2];
      wait_full(&shared.k_full[k_turn.stage], k_turn.parity, true);
      ping_pong_wait();
      issue_scores(s);
      ping_pong_pass();
      ptx::wgmma_wait_group<0>();
      ptx::pin(s);
      release(&shared.k_empty[k_turn.stage]);
      k_turn.next();
      softmax(rows, true, end - 1, s, corrections);
      to_operand<T, C::kColumns>(s, weights);
      drop(rows, end - 1);
    }
#pragma unroll 1
    for (int j = end - 2; j >= first; --j) step(rows, fences, fences || j == end - 2, j);
    if constexpr (!C::kStagesOutput) {
      release(&shared.q_empty[q_turn.stage]);
      q_turn.next();
    }
    wait_full(&shared.v_full[v_turn.stage], v_turn.parity, true);
    issue_output();
    finish_output();
  }

  const FlashGatherParams& p;
  GatherShared<C>& shared;
  FragmentPlace place;
  const std::uint64_t q_base;
  tile::PipelineState<C::kStages> k_turn, v_turn;
  tile::PipelineState<2> bias_turn;
  tile::PipelineState<C::kQStages> q_turn;
  float out[C::kDim / 2];
  std::uint32_t weights[C::kColumns / 16][4];
};

template <class C>
__global__ void __launch_bounds__(C::kThreads, 1) flash_gather_sm90(const __grid_constant__ FlashGatherParams p) {
  unsigned char* const memory = tile::dynamic_shared();
  const std::uint32_t skipped = (1024 - ptx::shared_address(memory) % 1024) % 1024;
  auto& shared = *reinterpret_cast<GatherShared<C>*>(memory + skipped);
  if (threadIdx.x == 0) {
    constexpr std::uint32_t kWarps = 4 * C::kConsumers;
    for (int i = 0; i < C::kStages; ++i) {
      ptx::mbarrier_init(&shared.k_full[i], kWarpgroup);
      ptx::mbarrier_init(&shared.k_empty[i], kWarps);
      ptx::mbarrier_init(&shared.v_full[i], kWarpgroup);
      ptx::mbarrier_init(&shared.v_empty[i], kWarps);
    }
    for (int i = 0; i < C::kQStages; ++i) {
      ptx::mbarrier_init(&shared.q_full[i], kWarpgroup);
      ptx::mbarrier_init(&shared.q_empty[i], kWarps);
    }
    for (int i = 0; i < 2; ++i) {
      ptx::mbarrier_init(&shared.bias_full[i], C::kAddsBias ? 1 : kWarpgroup);
      ptx::mbarrier_init(&shared.bias_empty[i], C::kAddsBias ? 4 : kWarps);
      ptx::mbarrier_init(&shared.work_full[i], 1);
      ptx::mbarrier_init(&shared.work_empty[i], kWarps);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x < kWarpgroup) {
    if constexpr (C::kConsumers == 2) ptx::setmaxnreg_dec<56>();
    ptx::griddepcontrol_launch_dependents();
    GatherProducer<C>(p, shared).run();
  } else {
    if constexpr (C::kConsumers == 2) ptx::setmaxnreg_inc<224>();
    GatherConsumer<C>(p, shared).run();
  }
}

}  // namespace gpudnn::kernels::flash_sm90
