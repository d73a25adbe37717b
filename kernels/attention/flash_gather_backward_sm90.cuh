// Attention backward for Hopper in 16-bit types with every option of the scores, ragged tensors and head dimensions up
// to 256; reproducible.
//
//   y = log2(e) (cap tanh(scale q k^T / cap) + bias + slope (c - r)),  P = 2^(y - lse),  dP = kept (dO v^T)
//   dS = P (dP - delta);  dv = (kept P)^T dO;  dq, dk = scale (1 - tanh^2) dS k, its transpose times q
//
// As in flash_sm90_backward.cuh, a block holds a tile of 128 rows of two tensors (q and dO for dq; k and v for dk and
// dv) while tiles of the other two stream by through two stages, and each warpgroup has 64 rows of the tile. Rows come
// by cp.async, each from its own address, so ragged tensors are read in place; rows beyond a sequence are zeros that
// are never read. dk and dv are made in one pass up to a head dimension of 128; beyond it registers hold one of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/attention_simt_tile.cuh"
#include "kernels/attention/flash_gather_backward_sm90.hpp"
#include "kernels/attention/flash_gather_sm90_load.cuh"
#include "kernels/ptx/setmaxnreg.cuh"
#include "kernels/ptx/stmatrix.cuh"
#include "kernels/tile/dynamic_shared.cuh"

namespace gpudnn::kernels::flash_sm90 {

template <class T, int kDim_, FlashGradient kGradient_>
struct GatherBackwardConfig {
  using Element = T;
  static constexpr int kDim = kDim_;
  static constexpr FlashGradient kGradient = kGradient_;
  static constexpr bool kOfKeys = kGradient != FlashGradient::dq;
  static constexpr bool kMakesDv = kGradient == FlashGradient::dk_dv || kGradient == FlashGradient::dv;
  static constexpr bool kMakesFirst = kGradient != FlashGradient::dv;  // dq or dk, of dS
  static constexpr int kRows = kFlashBackwardRows;
  static constexpr int kStream = flash_gather_backward_stream(kDim);
  static constexpr int kConsumers = kRows / 64;
  static constexpr int kThreads = (kConsumers + 1) * kWarpgroup;
  static constexpr int kStages = 2;
  static constexpr int kHeldBytes = kRows * kDim * 2;
  static constexpr int kStreamBytes = kStream * kDim * 2;
};

template <class C>
struct GatherBackwardShared {
  alignas(1024) unsigned char a1[C::kHeldBytes];
  alignas(1024) unsigned char a2[C::kHeldBytes];
  alignas(1024) unsigned char b1[C::kStages][C::kStreamBytes];
  alignas(1024) unsigned char b2[C::kStages][C::kStreamBytes];
  alignas(16) float lse[C::kStages][C::kStream];
  alignas(16) float delta[C::kStages][C::kStream];
  std::uint64_t a_full;
  std::uint64_t b1_full[C::kStages], b2_full[C::kStages], empty[C::kStages];
};

enum GatherBackwardBarrier { kGatherBackwardMeets = 1 };

// The block's tile, and the tiles [first, end) of the streaming tensors that meet it, in each head of the group.
struct GatherBackwardTile {
  int batch, head, row, first, end, group;
  Sequence sequence;
};
template <class C>
__device__ __forceinline__ GatherBackwardTile gather_backward_tile(const FlashGatherBackwardParams& p) {
  const AttentionParams& a = p.problem;
  const int length_of_all = C::kOfKeys ? p.mask.length_kv : p.mask.length_q;
  const int tiles_of_head = (length_of_all + C::kRows - 1) / C::kRows;
  const int grid_heads = C::kOfKeys ? a.heads_k : a.heads_q;
  const int number = static_cast<int>(blockIdx.x);
  const int section_tiles = p.heads_of_section * tiles_of_head;
  const int section = number / section_tiles;
  const int rest = number - section * section_tiles;
  const int heads = min(p.heads_of_section, a.batch * grid_heads - section * p.heads_of_section);
  const int batch_head = section * p.heads_of_section + rest % heads;
  // With the causal mask the first keys and the last rows have the most to do.
  const int index = C::kOfKeys ? rest / heads : tiles_of_head - 1 - rest / heads;
  GatherBackwardTile tile;
  tile.row = index * C::kRows;
  tile.batch = batch_head / grid_heads;
  tile.head = batch_head % grid_heads;
  tile.group = C::kOfKeys ? p.group : 1;
  tile.sequence = sequence_of(p.mask, tile.batch);
  const Sequence& s = tile.sequence;
  const int length = C::kOfKeys ? s.length_kv : s.length_q;
  const int last = min(tile.row + C::kRows, length) - 1;
  const int first = C::kOfKeys ? first_row(p.mask, s, tile.row) : first_column(p.mask, s, tile.row);
  const int end = C::kOfKeys ? end_row(p.mask, s, last) : end_column(p.mask, s, last);
  tile.first = first / C::kStream;
  tile.end = last < tile.row || end <= first ? tile.first : (end + C::kStream - 1) / C::kStream;
  return tile;
}

template <class C>
__device__ __forceinline__ void gather_backward(const FlashGatherBackwardParams& p, const GatherBackwardTile& tile,
                                                GatherBackwardShared<C>& shared) {
  const AttentionParams& a = p.problem;
  const Gather<C::kDim, C::kRows> rows;
  const Gather<C::kDim, C::kStream> stream;
  const tile::FastDivmod no_pages;
  const auto of_q = [&](const AttentionTensor& tensor, int head, int dim) {
    return gather_source(tensor, tile.batch, head, tile.sequence.length_q, dim);
  };
  const auto of_k = [&](const AttentionTensor& tensor, int head, int dim) {
    return gather_source(tensor, tile.batch, head, tile.sequence.length_kv, dim);
  };
  const GatherSource a1 = C::kOfKeys ? of_k(a.k, tile.head, a.dim_qk) : of_q(a.q, tile.head, a.dim_qk);
  const GatherSource a2 = C::kOfKeys ? of_k(a.v, tile.head, a.dim_v) : of_q(a.d_o, tile.head, a.dim_v);
  rows.load(a1, no_pages, 0, tile.row / C::kRows, shared.a1, &shared.a_full);
  rows.load(a2, no_pages, 0, tile.row / C::kRows, shared.a2, &shared.a_full);
  tile::PipelineState<C::kStages> turn;
  for (int member = 0; member < tile.group; ++member) {
    const int head = C::kOfKeys ? tile.head * p.group + member : tile.head / p.group;
    const GatherSource b1 = C::kOfKeys ? of_q(a.q, head, a.dim_qk) : of_k(a.k, head, a.dim_qk);
    const GatherSource b2 = C::kOfKeys ? of_q(a.d_o, head, a.dim_v) : of_k(a.v, head, a.dim_v);
#pragma unroll 1
    for (int j = tile.first; j < tile.end; ++j) {
      tile::wait(&shared.empty[turn.stage], turn.parity ^ 1);
      if constexpr (C::kOfKeys) {
        const std::int64_t at = (static_cast<std::int64_t>(tile.batch) * a.heads_q + head) * p.pitch +
                                static_cast<std::int64_t>(j) * C::kStream;
        const int lane = static_cast<int>(threadIdx.x);
        if (lane < C::kStream) {
          ptx::cp_async<4>(ptx::shared_address(&shared.lse[turn.stage][lane]), p.lse + at + lane, 4);
        } else if (lane < 2 * C::kStream) {
          ptx::cp_async<4>(ptx::shared_address(&shared.delta[turn.stage][lane - C::kStream]),
                           p.delta + at + lane - C::kStream, 4);
        }
      }
      stream.load(b1, no_pages, 0, j, shared.b1[turn.stage], &shared.b1_full[turn.stage]);
      stream.load(b2, no_pages, 0, j, shared.b2[turn.stage], &shared.b2_full[turn.stage]);
      turn.next();
    }
  }
}

template <class C>
class GatherBackwardConsumer {
  using T = typename C::Element;

 public:
  __device__ __forceinline__ GatherBackwardConsumer(const FlashGatherBackwardParams& params,
                                                    const GatherBackwardTile& its, GatherBackwardShared<C>& memory)
      : p(params), tile(its), shared(memory) {}

  __device__ __forceinline__ void run() {
#pragma unroll
    for (int i = 0; i < C::kDim / 2; ++i) {
      if constexpr (C::kMakesFirst) first[i] = 0.0F;
      if constexpr (C::kMakesDv) second[i] = 0.0F;
    }
    if (p.problem.has_dropout) key_ = dropout_key(p.problem.dropout);
    if (tile.end > tile.first) {
      if constexpr (!C::kOfKeys) load_row_values();
      wait_full(&shared.a_full, 0);
      for (int member = 0; member < tile.group; ++member) {
        head_ = C::kOfKeys ? tile.head * p.group + member : tile.head;
        slope_ = p.problem.alibi_slopes != nullptr ? p.problem.alibi_slopes[head_] * kLog2E : 0.0F;
#pragma unroll 1
        for (int j = tile.first; j < tile.end; ++j) step(j);
      }
    }
    // All warps of the warpgroup have read a1 and a2.
    ptx::barrier_sync(kGatherBackwardMeets + place.warpgroup, kWarpgroup);
    const AttentionParams& a = p.problem;
    if constexpr (C::kGradient == FlashGradient::dq) write_rows(a.dq, a.dim_qk, shared.a1, p.scale, first);
    if constexpr (C::kOfKeys && C::kMakesFirst) write_rows(a.dk, a.dim_qk, shared.a1, p.scale, first);
    if constexpr (C::kMakesDv) write_rows(a.dv, a.dim_v, shared.a2, 1.0F, second);
  }

 private:
  static constexpr float kLog2E = 1.4426950408889634F;

  __device__ __forceinline__ void wait_full(std::uint64_t* barrier, std::uint32_t parity) {
    tile::wait(barrier, parity);
    ptx::fence_proxy_async();
  }

  __device__ __forceinline__ void load_row_values() {
    const std::int64_t at =
        (static_cast<std::int64_t>(tile.batch) * p.problem.heads_q + tile.head) * p.pitch + tile.row + place.row();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      row_lse[half] = p.lse[at + 8 * half];
      row_delta[half] = p.delta[at + 8 * half];
    }
  }

  // d = a b^T, a of this warpgroup's rows.
  __device__ __forceinline__ void issue_product(float (&d)[C::kStream / 2], const unsigned char* a,
                                                const unsigned char* b) {
    const std::uint64_t a_base = tile::operand_descriptor<128>(a + place.warpgroup * 64 * kPanelBytes, 0);
    const std::uint64_t b_base = tile::operand_descriptor<128>(b, 0);
    ptx::pin(d);
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < C::kDim / 16; ++k) {
      ptx::wgmma_ss<T, T, C::kStream>(d, k_major_step<C::kRows>(a_base, k), k_major_step<C::kStream>(b_base, k),
                                      k == 0 ? 0 : 1);
    }
    ptx::wgmma_commit_group();
  }
  // out += weights b.
  __device__ __forceinline__ void issue_sum(float (&out)[C::kDim / 2],
                                            const std::uint32_t (&weights)[C::kStream / 16][4],
                                            const unsigned char* b) {
    const std::uint64_t b_base = tile::operand_descriptor<128>(b, C::kStream * kPanelBytes);
    ptx::pin(out);
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < C::kStream / 16; ++k) {
      ptx::wgmma_rs<T, T, C::kDim, ptx::Major::mn>(out, weights[k], mn_major_step(b_base, k), 1);
    }
    ptx::wgmma_commit_group();
  }

  // Of fragment element (half, i, e), counted from this thread's first column: what the row sees.
  struct Visible {
    int begin, end;
  };
  __device__ __forceinline__ Visible visible(int half, int j) const {
    const Sequence& s = tile.sequence;
    const int row = tile.row + place.row() + 8 * half;
    const int offset = j * C::kStream + place.column();
    if constexpr (C::kOfKeys) {
      const int end = row < s.length_kv ? end_row(p.mask, s, row) : 0;
      return {first_row(p.mask, s, row) - offset, end - offset};
    } else {
      const int end = row < s.length_q ? end_column(p.mask, s, row) : 0;
      return {first_column(p.mask, s, row) - offset, end - offset};
    }
  }

  // Capped scores; their slopes as pairs of f16, whose rounding is below that of dS to its type.
  __device__ __forceinline__ void cap(float (&s)[C::kStream / 2]) {
    const float twice = 2.0F * kLog2E * p.scale_by_cap;
#pragma unroll
    for (int i = 0; i < C::kStream / 4; ++i) {
      float slopes[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& score = s[2 * i + e];
        const float t = 1.0F - __fdividef(2.0F, 1.0F + ptx::ex2_approx_ftz(fminf(score * twice, 126.0F)));
        score = p.cap_log2 * t;
        slopes[e] = fmaf(-t, t, 1.0F);
      }
      slopes_[i] = pack_halves<tile::Half>(slopes[0], slopes[1]);
    }
  }

  __device__ __forceinline__ void add_bias(int j, float (&s)[C::kStream / 2]) const {
    const AttentionBias& bias = p.problem.bias;
    const std::int64_t along = C::kOfKeys ? bias.strides[2] : bias.strides[3];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Visible its = visible(half, j);
      const int row = tile.row + place.row() + 8 * half;
      const int column = j * C::kStream + place.column();
      const std::int64_t at = C::kOfKeys ? bias_offset(bias, tile.batch, head_, column, row)
                                         : bias_offset(bias, tile.batch, head_, row, column);
#pragma unroll
      for (int i = 0; i < C::kStream / 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          if (8 * i + e >= its.end || 8 * i + e < its.begin) continue;
          const float value = attention_simt::load_element<float>(bias.type, bias.data, at + (8 * i + e) * along);
          s[4 * i + 2 * half + e] = fmaf(value, kLog2E, s[4 * i + 2 * half + e]);
        }
      }
    }
  }

  __device__ __forceinline__ void add_alibi(int j, float (&s)[C::kStream / 2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int rest = j * C::kStream + place.column() - (tile.row + place.row() + 8 * half);
      const auto distance = static_cast<float>(rest);
#pragma unroll
      for (int i = 0; i < C::kStream / 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          // Keys less rows of q; of keys, columns are rows of q.
          const float ahead = distance + static_cast<float>(8 * i + e);
          float& score = s[4 * i + 2 * half + e];
          score = fmaf(slope_, C::kOfKeys ? -ahead : ahead, score);
        }
      }
    }
  }

  // Products -> P.
  __device__ __forceinline__ void probabilities(int j, float (&s)[C::kStream / 2]) {
    float scale = p.scale_log2;
    if (p.modifies) {
      if (p.cap_log2 > 0.0F) {
        cap(s);
      } else {
#pragma unroll
        for (int i = 0; i < C::kStream / 2; ++i) s[i] *= scale;
      }
      if (p.problem.bias.data != nullptr) add_bias(j, s);
      if (p.problem.alibi_slopes != nullptr) add_alibi(j, s);
      scale = 1.0F;
    }
#pragma unroll
    for (int i = 0; i < C::kStream / 8; ++i) {
      float2 lse{};
      if constexpr (C::kOfKeys) lse = *reinterpret_cast<const float2*>(&shared.lse[turn.stage][8 * i + place.column()]);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float its = C::kOfKeys ? (e % 2 == 0 ? lse.x : lse.y) : row_lse[e / 2];
        s[4 * i + e] = ptx::ex2_approx_ftz(fmaf(s[4 * i + e], scale, -its));
      }
    }
    if (is_cut(j)) hide(j, s);
  }

  // Whether a bound or a length cuts the streaming tile for any row of the block.
  [[nodiscard]] __device__ __forceinline__ bool is_cut(int j) const {
    const Sequence& s = tile.sequence;
    const int begin = j * C::kStream;
    const int length = C::kOfKeys ? s.length_kv : s.length_q;
    const int last = tile.row + C::kRows - 1;
    if (last >= length) return true;
    if constexpr (C::kOfKeys) {
      return begin < first_row(p.mask, s, last) || begin + C::kStream > end_row(p.mask, s, tile.row);
    } else {
      return begin < first_column(p.mask, s, last) || begin + C::kStream > end_column(p.mask, s, tile.row);
    }
  }
  __device__ __forceinline__ void hide(int j, float (&s)[C::kStream / 2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Visible its = visible(half, j);
#pragma unroll
      for (int i = 0; i < C::kStream / 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& value = s[4 * i + 2 * half + e];
          value = 8 * i + e < its.end && 8 * i + e >= its.begin ? value : 0.0F;
        }
      }
    }
  }

  // Which elements dropout keeps: bit 8 i + e of word i / 4 is element 8 i + e of the fragment.
  __device__ __forceinline__ void draw(int j) {
    if (!p.problem.has_dropout) return;
    const auto batch_head = static_cast<std::uint32_t>(tile.batch * p.problem.heads_q + head_);
    const auto row = static_cast<std::uint32_t>(tile.row + place.row());
    const auto column = static_cast<std::uint32_t>(j * C::kStream + place.column());
    const std::uint32_t threshold = p.problem.dropout.threshold;
#pragma unroll
    for (int i = 0; i < C::kStream / 16; ++i) {
      std::uint32_t bits = 0;
      if constexpr (C::kOfKeys) {
        // A block has rows of q r and r + 8 and keys c, c + 1, c + 8, c + 9; this thread's key is one of two
        // neighbours.
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const PhiloxBlock block =
              dropout_block(key_, batch_head, column + static_cast<std::uint32_t>(16 * i + e), row);
#pragma unroll
          for (int word = 0; word < 4; ++word) {
            // Word 2 h + w is of row h of q and of keys w; of the fragment, columns 8 h and rows 8 w.
            const std::uint32_t pair = block.word[word];
            const std::uint32_t its = row % 2 == 0 ? pair & 0xffffU : pair >> 16;
            if (its >= threshold) bits |= 1U << (4 * (word / 2) + 2 * (word % 2) + e);
          }
        }
      } else {
        const PhiloxBlock block = dropout_block(key_, batch_head, row, column + static_cast<std::uint32_t>(16 * i));
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          const int index = e / 2 % 2 * 4 + e / 4 * 2 + e % 2;
          if (is_kept(block, index, threshold)) bits |= 1U << e;
        }
      }
      kept_[i / 4] = i % 4 == 0 ? bits : kept_[i / 4] | bits << (i % 4 * 8);
    }
  }
  // values times what dropout multiplies their probabilities by.
  __device__ __forceinline__ void keep(float (&values)[C::kStream / 2]) const {
    const auto scale = static_cast<float>(p.problem.dropout.scale);
#pragma unroll
    for (int i = 0; i < C::kStream / 2; ++i) {
      values[i] = (kept_[i / 32] >> (i % 32) & 1U) != 0 ? values[i] * scale : 0.0F;
    }
  }

  // dP -> dS times the slope of the soft cap.
  __device__ __forceinline__ void score_gradients(const float (&s)[C::kStream / 2], float (&dp)[C::kStream / 2]) {
#pragma unroll
    for (int i = 0; i < C::kStream / 8; ++i) {
      float2 delta{};
      if constexpr (C::kOfKeys) {
        delta = *reinterpret_cast<const float2*>(&shared.delta[turn.stage][8 * i + place.column()]);
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int at = 4 * i + 2 * half + e;
          const float its = C::kOfKeys ? (e == 0 ? delta.x : delta.y) : row_delta[half];
          dp[at] = s[at] * (dp[at] - its);
        }
      }
    }
    if (p.cap_log2 <= 0.0F) return;
#pragma unroll
    for (int i = 0; i < C::kStream / 4; ++i) {
#pragma unroll
      for (int e = 0; e < 2; ++e) dp[2 * i + e] *= tile::widen<float>(tile::half_of<tile::Half>(slopes_[i], e));
    }
  }

  __device__ __forceinline__ void step(int j) {
    float s[C::kStream / 2];
    float dp[C::kStream / 2];
    const int stage = turn.stage;
    wait_full(&shared.b1_full[stage], turn.parity);
    issue_product(s, shared.a1, shared.b1[stage]);
    wait_full(&shared.b2_full[stage], turn.parity);
    if constexpr (C::kMakesFirst) issue_product(dp, shared.a2, shared.b2[stage]);
    draw(j);
    ptx::wgmma_wait_group<C::kMakesFirst ? 1 : 0>();
    ptx::pin(s);
    probabilities(j, s);
    if constexpr (C::kMakesDv) {
      if (p.problem.has_dropout) {
        float kept[C::kStream / 2];
#pragma unroll
        for (int i = 0; i < C::kStream / 2; ++i) kept[i] = s[i];
        keep(kept);
        to_operand<T, C::kStream>(kept, weights2);
      } else {
        to_operand<T, C::kStream>(s, weights2);
      }
      issue_sum(second, weights2, shared.b2[stage]);
      if constexpr (C::kMakesFirst) ptx::wgmma_wait_group<1>();
    } else {
      ptx::wgmma_wait_group<0>();
    }
    if constexpr (C::kMakesFirst) {
      ptx::pin(dp);
      if (p.problem.has_dropout) keep(dp);
      score_gradients(s, dp);
      to_operand<T, C::kStream>(dp, weights1);
      issue_sum(first, weights1, shared.b1[stage]);
    }
    ptx::wgmma_wait_group<0>();
    if constexpr (C::kMakesFirst) ptx::pin(first);
    if constexpr (C::kMakesDv) ptx::pin(second);
    __syncwarp();  // all lanes have read lse and delta
    if (place.lane == 0) ptx::mbarrier_arrive(&shared.empty[stage]);
    turn.next();
  }

  // Staged where this warpgroup's rows of a1 or a2 were.
  __device__ __forceinline__ void write_rows(const AttentionTensor& tensor, int dim, unsigned char* held, float factor,
                                             const float (&out)[C::kDim / 2]) {
    if (tensor.data == nullptr) return;
    const int length = C::kOfKeys ? tile.sequence.length_kv : tile.sequence.length_q;
    const int rows = C::kOfKeys ? p.mask.length_kv : p.mask.length_q;
    unsigned char* const staging = held + place.warpgroup * 64 * kPanelBytes;
    const std::uint32_t base = ptx::shared_address(staging);
    const int staged_row = place.warp * 16 + place.lane / 8 % 2 * 8 + place.lane % 8;
#pragma unroll
    for (int i = 0; i < C::kDim / 16; ++i) {
      std::uint32_t words[4];
#pragma unroll
      for (int e = 0; e < 4; ++e)
        words[e] = pack_halves<T>(out[8 * i + 2 * e] * factor, out[8 * i + 2 * e + 1] * factor);
      ptx::stmatrix_x4(base + swizzled_chunk<C::kRows>(staged_row, 2 * i + place.lane / 16), words[0], words[1],
                       words[2], words[3]);
    }
    __syncwarp();
    constexpr int kChunks = C::kDim / 8;
    const std::int64_t start = ragged_start(tensor, tile.batch);
    auto* const data = static_cast<std::uint16_t*>(tensor.data) + start + tile.head * tensor.strides[1];
#pragma unroll 2
    for (int i = 0; i < 16 * kChunks / 32; ++i) {
      const int at = i * 32 + place.lane;
      const int staged = place.warp * 16 + at / kChunks;
      const int chunk = at % kChunks;
      const int row = tile.row + place.warpgroup * 64 + staged;
      const bool inside = row < length;
      if (row >= rows || 8 * chunk >= dim || (!inside && tensor.offset_bits != 0)) continue;
      uint4 value{};
      if (inside) value = *reinterpret_cast<const uint4*>(staging + swizzled_chunk<C::kRows>(staged, chunk));
      std::uint16_t* const to = data + row * tensor.strides[2] + 8 * chunk;
      if (start % 8 == 0) {
        *reinterpret_cast<uint4*>(to) = value;
      } else {
        const std::uint32_t words[4] = {value.x, value.y, value.z, value.w};
#pragma unroll
        for (int e = 0; e < 8; ++e) to[e] = static_cast<std::uint16_t>(words[e / 2] >> (e % 2 * 16));
      }
    }
  }

  const FlashGatherBackwardParams& p;
  const GatherBackwardTile& tile;
  GatherBackwardShared<C>& shared;
  FragmentPlace place;
  tile::PipelineState<C::kStages> turn;
  float first[C::kMakesFirst ? C::kDim / 2 : 1];  // dq or dk
  float second[C::kMakesDv ? C::kDim / 2 : 1];    // dv
  std::uint32_t weights1[C::kStream / 16][4] = {};
  std::uint32_t weights2[C::kStream / 16][4] = {};
  std::uint32_t slopes_[C::kStream / 4] = {};
  std::uint32_t kept_[(C::kStream + 63) / 64] = {};
  float row_lse[2];
  float row_delta[2];
  int head_ = 0;
  float slope_ = 0;
  DropoutKey key_;
};

template <class C>
__global__ void __launch_bounds__(C::kThreads, 1)
    flash_gather_backward_sm90(const __grid_constant__ FlashGatherBackwardParams p) {
  unsigned char* const memory = tile::dynamic_shared();
  const std::uint32_t skipped = (1024 - ptx::shared_address(memory) % 1024) % 1024;
  auto& shared = *reinterpret_cast<GatherBackwardShared<C>*>(memory + skipped);
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&shared.a_full, 2 * kWarpgroup);
    for (int i = 0; i < C::kStages; ++i) {
      ptx::mbarrier_init(&shared.b1_full[i], kWarpgroup);
      ptx::mbarrier_init(&shared.b2_full[i], kWarpgroup);
      ptx::mbarrier_init(&shared.empty[i], 4 * C::kConsumers);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  const GatherBackwardTile tile = gather_backward_tile<C>(p);
  if (threadIdx.x < kWarpgroup) {
    ptx::setmaxnreg_dec<40>();
    if (tile.end > tile.first) gather_backward<C>(p, tile, shared);
  } else {
    ptx::setmaxnreg_inc<232>();
    GatherBackwardConsumer<C>(p, tile, shared).run();
  }
}

// lse and delta: a warp for each row.
template <class T>
__global__ void __launch_bounds__(256) flash_gather_delta_sm90(const __grid_constant__ FlashGatherBackwardParams p) {
  const AttentionParams& a = p.problem;
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * 8 + threadIdx.x / 32;
  if (index >= p.pitch * a.heads_q * a.batch) return;
  const auto row = static_cast<int>(index % p.pitch);
  const auto head = static_cast<int>(index / p.pitch % a.heads_q);
  const auto batch = static_cast<int>(index / p.pitch / a.heads_q);
  const bool inside = row < sequence_of(p.mask, batch).length_q;
  float sum = 0.0F;
  if (inside) {
    const T* const o = static_cast<const T*>(a.o.data) + row_offset(a.o, batch, head, row);
    const T* const d_o = static_cast<const T*>(a.d_o.data) + row_offset(a.d_o, batch, head, row);
    for (int column = static_cast<int>(threadIdx.x % 32); column < a.dim_v; column += 32) {
      sum = fmaf(tile::widen<float>(o[column]), tile::widen<float>(d_o[column]), sum);
    }
  }
  sum = tile::warp_reduce(sum, tile::Sum{});
  if (threadIdx.x % 32 != 0) return;
  float lse = INFINITY;
  if (inside) {
    const float stats = static_cast<const float*>(a.stats.data)[row_offset(a.stats, batch, head, row)];
    if (stats != -INFINITY) lse = stats * 1.4426950408889634F;
  }
  p.lse[index] = lse;
  p.delta[index] = inside ? sum : 0.0F;
}

}  // namespace gpudnn::kernels::flash_sm90
