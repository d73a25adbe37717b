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
//
// Scores in units of log2: y = scale log2(e) q k^T, or with options y = log2(e) (cap tanh(..) + bias + slope (c - r)).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/attention_simt_tile.cuh"
#include "kernels/attention/flash_gather_sm90_load.cuh"
#include "kernels/attention/flash_gather_sm90_rows.cuh"
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

struct GatherTile {
  int batch, head, split, row, batch_head;
  int first, end;           // column tiles of this block
  int first_row, last_row;  // of q, those within the sequence
  Sequence sequence;
};
template <class C>
__device__ __forceinline__ GatherTile gather_tile(const FlashGatherParams& p) {
  GatherTile tile;
  int number = static_cast<int>(blockIdx.x);
  tile.split = number % p.splits;
  number /= p.splits;
  const int section_tiles = p.heads_of_section * p.row_tiles;
  const int section = number / section_tiles;
  const int rest = number - section * section_tiles;
  const int heads = min(p.heads_of_section, p.batch_heads - section * p.heads_of_section);
  tile.batch_head = section * p.heads_of_section + rest % heads;
  tile.row = (p.row_tiles - 1 - rest / heads) * C::kRows;
  tile.batch = tile.batch_head / p.heads;
  tile.head = tile.batch_head % p.heads;
  tile.sequence = sequence_of(p.mask, tile.batch);
  const int end_of_rows = min(tile.row + C::kRows, p.rows) - 1;
  tile.first_row = static_cast<int>(p.packed.quotient(static_cast<std::uint32_t>(tile.row)));
  tile.last_row =
      min(static_cast<int>(p.packed.quotient(static_cast<std::uint32_t>(end_of_rows))), tile.sequence.length_q - 1);
  const int first = first_column(p.mask, tile.sequence, tile.first_row);
  const int end = end_column(p.mask, tile.sequence, tile.last_row);
  tile.first = tile.end = 0;
  if (tile.last_row < tile.first_row || end <= first) return tile;
  const int begin_tile = first / C::kColumns;
  const std::int64_t tiles = (end + C::kColumns - 1) / C::kColumns - begin_tile;
  tile.first = begin_tile + static_cast<int>(tiles * tile.split / p.splits);
  tile.end = begin_tile + static_cast<int>(tiles * (tile.split + 1) / p.splits);
  return tile;
}

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
        q_base(tile::operand_descriptor<128>(memory.q + place.warpgroup * 64 * kPanelBytes, 0)) {
    const bool has_alibi = p.problem.alibi_slopes != nullptr;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      std::uint32_t member;
      const int packed_row = tile.row + place.row() + 8 * half;
      row_[half] = static_cast<int>(p.packed.divmod(static_cast<std::uint32_t>(packed_row), &member));
      head_[half] = tile.head * static_cast<int>(p.packed.divisor) + static_cast<int>(member);
      exists_[half] = packed_row < p.rows;
      slope_[half] = has_alibi ? p.problem.alibi_slopes[head_[half]] * kLog2E : 0.0F;
      most_[half] = -INFINITY;
      sum_[half] = 0.0F;
    }
    if (p.problem.has_dropout) key_ = dropout_key(p.problem.dropout);
#pragma unroll
    for (int i = 0; i < C::kDim / 2; ++i) out[i] = 0.0F;
  }

  __device__ __forceinline__ void run() {
    if (tile.end > tile.first) multiply();
    finish_sums();
    if (p.splits > 1) {
      write_partial();
    } else {
      write();
    }
  }

 private:
  static constexpr float kLog2E = 1.4426950408889634F;

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

  // The columns of a tile that row `half` sees, counted from this thread's first.
  __device__ __forceinline__ int begin_of(int half, int first) const {
    return first_column(p.mask, tile.sequence, row_[half]) - first - place.column();
  }
  __device__ __forceinline__ int end_of(int half, int first) const {
    return end_column(p.mask, tile.sequence, row_[half]) - first - place.column();
  }

  __device__ __forceinline__ void hide(int first, float (&s)[C::kColumns / 2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int begin = begin_of(half, first);
      const int end = end_of(half, first);
#pragma unroll
      for (int i = 0; i < C::kColumns / 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& score = s[4 * i + 2 * half + e];
          score = 8 * i + e < end && 8 * i + e >= begin ? score : -INFINITY;
        }
      }
    }
  }

  // cap tanh(s scale / cap), as 1 - 2 / (1 + e^2x): its error is a few units of 2^-24 of the cap.
  __device__ __forceinline__ void cap(float (&s)[C::kColumns / 2]) const {
    const float twice = 2.0F * kLog2E * p.scale_by_cap;
#pragma unroll
    for (int i = 0; i < C::kColumns / 2; ++i) {
      const float quotient = __fdividef(2.0F, 1.0F + ptx::ex2_approx_ftz(fminf(s[i] * twice, 126.0F)));
      s[i] = p.cap_log2 * (1.0F - quotient);
    }
  }

  // Of four words on each of four neighbouring lanes, word u of lane t becomes word t of lane u.
  __device__ __forceinline__ void transpose_quad(std::uint32_t (&words)[4]) const {
#pragma unroll
    for (int distance = 1; distance <= 2; ++distance) {
      const bool upper = (place.lane & distance) != 0;
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        const int low = distance == 1 ? 2 * pair : pair;
        const int high = low + distance;
        const std::uint32_t sent = upper ? words[low] : words[high];
        const std::uint32_t got = __shfl_xor_sync(0xffffffffu, sent, distance);
        words[low] = upper ? got : words[low];
        words[high] = upper ? words[high] : got;
      }
    }
  }

  // Bias of 16 bits, of row `half`: each lane of four loads 8 neighbours at once, and they exchange.
  template <class B>
  __device__ __forceinline__ void add_eights(int half, int first, float (&s)[C::kColumns / 2]) const {
    const AttentionBias& bias = p.problem.bias;
    const bool inside = exists_[half] && row_[half] < tile.sequence.length_q;
    const int begin = first_column(p.mask, tile.sequence, row_[half]);
    const int end = inside ? end_column(p.mask, tile.sequence, row_[half]) : 0;
    const auto* const row =
        static_cast<const B*>(bias.data) + (inside ? bias_offset(bias, tile.batch, head_[half], row_[half], 0) : 0);
#pragma unroll
    for (int i = 0; i < C::kColumns / 8; i += 4) {
      const int key = first + 8 * i + 8 * (place.lane % 4);
      uint4 eight{};
      if (key < end && key + 8 > begin) eight = __ldg(reinterpret_cast<const uint4*>(row + key));
      std::uint32_t words[4] = {eight.x, eight.y, eight.z, eight.w};
      transpose_quad(words);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        float& score = s[4 * (i + e / 2) + 2 * half + e % 2];
        score = fmaf(tile::widen<float>(tile::half_of<B>(words[e / 2], e % 2)), kLog2E, score);
      }
    }
  }

  // Nothing is read of bias beyond the visible columns but what one load of 16 bytes brings with them.
  __device__ __forceinline__ void add_bias(int first, float (&s)[C::kColumns / 2]) const {
    const AttentionBias& bias = p.problem.bias;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (p.bias_in_eights) {
        if (bias.type == tile::ElementType::f16) {
          add_eights<tile::Half>(half, first, s);
        } else {
          add_eights<tile::BFloat16>(half, first, s);
        }
        continue;
      }
      if (!exists_[half] || row_[half] >= tile.sequence.length_q) continue;
      const int begin = begin_of(half, first);
      const int end = end_of(half, first);
      const std::int64_t at = bias_offset(bias, tile.batch, head_[half], row_[half], first + place.column());
#pragma unroll
      for (int i = 0; i < C::kColumns / 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          if (8 * i + e >= end || 8 * i + e < begin) continue;
          const float value =
              attention_simt::load_element<float>(bias.type, bias.data, at + (8 * i + e) * bias.strides[3]);
          s[4 * i + 2 * half + e] = fmaf(value, kLog2E, s[4 * i + 2 * half + e]);
        }
      }
    }
  }

  __device__ __forceinline__ void add_alibi(int first, float (&s)[C::kColumns / 2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float distance = static_cast<float>(first + place.column() - row_[half]);
#pragma unroll
      for (int i = 0; i < C::kColumns / 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& score = s[4 * i + 2 * half + e];
          score = fmaf(slope_[half], distance + static_cast<float>(8 * i + e), score);
        }
      }
    }
  }

  __device__ __forceinline__ void modify(int first, float (&s)[C::kColumns / 2]) const {
    if (!p.modifies) return;
    if (p.cap_log2 > 0.0F) {
      cap(s);
    } else {
#pragma unroll
      for (int i = 0; i < C::kColumns / 2; ++i) s[i] *= p.scale_log2;
    }
    if (p.problem.bias.data != nullptr) add_bias(first, s);
    if (p.problem.alibi_slopes != nullptr) add_alibi(first, s);
  }

  __device__ __forceinline__ void drop(int first, float (&s)[C::kColumns / 2]) const {
    if (!p.problem.has_dropout) return;
    const auto batch_head = static_cast<std::uint32_t>(tile.batch * p.problem.heads_q + head_[0]);
#pragma unroll
    for (int i = 0; i < C::kColumns / 16; ++i) {
      const PhiloxBlock block = dropout_block(key_, batch_head, static_cast<std::uint32_t>(row_[0]),
                                              static_cast<std::uint32_t>(first + 16 * i + place.column()));
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        // Element e of the fragment is column e / 4 * 8 + e % 2 and row e / 2 % 2 * 8 of the square.
        const int index = e / 2 % 2 * 4 + e / 4 * 2 + e % 2;
        if (!is_kept(block, index, p.problem.dropout.threshold)) s[8 * i + e] = 0.0F;
      }
    }
  }

  template <bool kMasked>
  __device__ __forceinline__ void softmax(int column_tile, float (&s)[C::kColumns / 2], float (&corrections)[2]) {
    const int first = column_tile * C::kColumns;
    modify(first, s);
    if constexpr (kMasked) hide(first, s);
    const float scale = p.softmax_scale_log2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = most_[half];
#pragma unroll
      for (int i = 0; i < C::kColumns / 8; ++i) most = fmaxf(most, fmaxf(s[4 * i + 2 * half], s[4 * i + 2 * half + 1]));
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
      const float base = most == -INFINITY ? 0.0F : most * scale;
      corrections[half] = ptx::ex2_approx_ftz(fmaf(most_[half], scale, -base));
      most_[half] = most;
      float sum = 0.0F;
#pragma unroll
      for (int i = 0; i < C::kColumns / 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& score = s[4 * i + 2 * half + e];
          score = ptx::ex2_approx_ftz(fmaf(score, scale, -base));
          sum += score;
        }
      }
      sum_[half] = fmaf(sum_[half], corrections[half], sum);
    }
    drop(first, s);
  }

  [[nodiscard]] __device__ __forceinline__ bool is_cut(int column_tile) const {
    const int first = column_tile * C::kColumns;
    return first + C::kColumns > end_column(p.mask, tile.sequence, tile.first_row) ||
           first < first_column(p.mask, tile.sequence, tile.last_row);
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
    softmax<kMasked>(column_tile, s, corrections);
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
      softmax<true>(tile.end - 1, s, corrections);
      to_operand<T, C::kColumns>(s, weights);
    }
    int j = tile.end - 2;
    while (j >= tile.first) {
#pragma unroll 1
      for (; j >= tile.first && is_cut(j); --j) step<true>(j);
#pragma unroll 1
      for (; j >= tile.first && !is_cut(j); --j) step<false>(j);
    }
    wait_full(&shared.v_full[v_turn.stage], v_turn.parity);
    issue_output();
    ptx::wgmma_wait_group<0>();
    ptx::pin(out);
    // The turn that the other warpgroup passed last is taken, so that the barrier is left as it was.
    if (C::kTakesTurns && place.warpgroup == 0) ptx::barrier_sync(kGatherTurn, 2 * kWarpgroup);
  }

  // Each row's sum over its four lanes; the maximum in natural units.
  __device__ __forceinline__ void finish_sums() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = sum_[half];
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      sums_[half] = {most_[half] == -INFINITY ? -INFINITY : most_[half] * p.max_scale, sum};
    }
  }

  __device__ __forceinline__ void write_partial() {
    const std::int64_t first_row =
        (static_cast<std::int64_t>(tile.split) * p.batch_heads + tile.batch_head) * p.rows + tile.row + place.row();
    const int dim_v = p.problem.dim_v;
    const float scale = p.problem.has_dropout ? static_cast<float>(p.problem.dropout.scale) : 1.0F;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (!exists_[half]) continue;
      const std::int64_t row = first_row + 8 * half;
      if (place.lane % 4 == 0) {
        *reinterpret_cast<float2*>(p.partial_sums + 2 * row) = {sums_[half].most, sums_[half].sum};
      }
      if (sums_[half].sum == 0.0F) continue;
      float* const to = p.partial_o + row * dim_v + place.column();
#pragma unroll
      for (int i = 0; i < C::kDim / 8; ++i) {
        if (8 * i >= dim_v) break;
        *reinterpret_cast<float2*>(to + 8 * i) = {out[4 * i + 2 * half] * scale, out[4 * i + 2 * half + 1] * scale};
      }
    }
  }

  // o by way of the rows of q of this warpgroup, which no product reads any more.
  __device__ __forceinline__ void write() {
    const AttentionParams& a = p.problem;
    const float kept = a.has_dropout ? static_cast<float>(a.dropout.scale) : 1.0F;
    float factors[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const bool inside = row_[half] < tile.sequence.length_q;
      if (!inside) sums_[half] = {-INFINITY, 0.0F};
      if (!exists_[half]) head_[half] = 0;
      const RowSums sums = add_sink(a, head_[half], sums_[half], &factors[half]);
      factors[half] = inside ? factors[half] * kept : 0.0F;
      if (exists_[half] && place.lane % 4 == 0) write_sums(a, tile.batch, head_[half], row_[half], inside, sums);
    }
#pragma unroll
    for (int i = 0; i < C::kDim / 2; ++i) {
      const float factor = factors[i / 2 % 2];
      out[i] = factor == 0.0F ? 0.0F : out[i] * factor;
    }
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
    write_rows(staging);
  }

  __device__ __forceinline__ void write_rows(const unsigned char* staging) {
    constexpr int kChunks = C::kDim / 8;
    const AttentionTensor& o = p.problem.o;
    const std::int64_t start = ragged_start(o, tile.batch);
    auto* const data = static_cast<std::uint16_t*>(o.data) + start;
    const int packed = static_cast<int>(p.packed.divisor);
#pragma unroll 2
    for (int i = 0; i < 16 * kChunks / 32; ++i) {
      const int at = i * 32 + place.lane;
      const int row = place.warp * 16 + at / kChunks;
      const int chunk = at % kChunks;
      const int packed_row = tile.row + place.warpgroup * 64 + row;
      std::uint32_t member;
      const auto q_row = static_cast<int>(p.packed.divmod(static_cast<std::uint32_t>(packed_row), &member));
      const bool inside = q_row < tile.sequence.length_q;
      if (packed_row >= p.rows || 8 * chunk >= p.problem.dim_v || (!inside && o.offset_bits != 0)) continue;
      const uint4 value = *reinterpret_cast<const uint4*>(staging + swizzled_chunk<C::kRows>(row, chunk));
      std::uint16_t* const to =
          data + (tile.head * packed + static_cast<int>(member)) * o.strides[1] + q_row * o.strides[2] + 8 * chunk;
      if (start % 8 == 0) {
        *reinterpret_cast<uint4*>(to) = value;
      } else {
        const std::uint32_t words[4] = {value.x, value.y, value.z, value.w};
#pragma unroll
        for (int e = 0; e < 8; ++e) to[e] = static_cast<std::uint16_t>(words[e / 2] >> (e % 2 * 16));
      }
    }
  }

  const FlashGatherParams& p;
  GatherShared<C>& shared;
  const GatherTile& tile;
  FragmentPlace place;
  const std::uint64_t q_base;
  tile::PipelineState<C::kStages> k_turn, v_turn;
  float out[C::kDim / 2];
  std::uint32_t weights[C::kColumns / 16][4];
  float most_[2];
  float sum_[2];
  RowSums sums_[2];
  int row_[2];   // of q
  int head_[2];  // of q
  bool exists_[2];
  float slope_[2];
  DropoutKey key_;
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
