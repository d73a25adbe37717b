// Attention backward for Hopper in 16-bit types, reproducible: one kernel makes dk and dv, one makes dq.
//
//   P = 2^(scale log2(e) q k^T - lse), dS = P (dO v^T - delta);  dv = P^T dO, dk = scale dS^T q;  dq = scale dS k
//
// Both kernels are one template. A block holds a tile of 128 rows of two tensors (k and v, or q and dO), and tiles of
// the other two stream by, through a ring of two stages filled by TMA. Each of two consumer warpgroups has 64 rows of
// the tile: the products S = a1 b1^T and dP = a2 b2^T come from shared memory; P and dS stay in registers and are the A
// operand of dv += P b2 and of dk or dq += dS b1, for which the same stage of shared memory is read with the other
// major. (Of k and v the scores are so made transposed, rows are keys.) No score goes through memory, no sum crosses
// blocks: the order of sums is fixed and there is no accumulator in global memory; the price is that S and dP are
// computed twice, 7 products for 5. S of the next tile is issued before dk of this one has ended.
//
// Grouped heads: the block of a key tile visits all query heads of the group. Rows beyond a sequence's length are
// cleared in shared memory, as 0 times a NaN is none. Head dimensions up to 128, multiples of 8.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_sm90_tile.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/setmaxnreg.cuh"
#include "kernels/ptx/stmatrix.cuh"
#include "kernels/tile/dynamic_shared.cuh"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels::flash_sm90 {

template <class T, int kDim_, bool kOfKeys_>
struct BackwardConfig {
  using Element = T;
  static constexpr int kDim = kDim_;
  static constexpr bool kOfKeys = kOfKeys_;  // dk and dv; else dq
  static constexpr int kRows = kFlashBackwardRows;
  static constexpr int kStream = flash_backward_stream(kOfKeys, kDim);
  static constexpr int kConsumers = kRows / 64;
  static constexpr int kThreads = (kConsumers + 1) * kWarpgroup;
  static constexpr int kStages = 2;
  // S and dP of the next tile are issued while dk and dv of this one run, where the registers suffice for all of them.
  static constexpr bool kOverlaps = !kOfKeys || kDim == 64;
  static constexpr int kHeldBytes = kRows * kDim * 2;
  static constexpr int kStreamBytes = kStream * kDim * 2;
};

template <class C>
struct BackwardShared {
  alignas(1024) unsigned char a1[C::kHeldBytes];
  alignas(1024) unsigned char a2[C::kHeldBytes];
  alignas(1024) unsigned char b1[C::kStages][C::kStreamBytes];
  alignas(1024) unsigned char b2[C::kStages][C::kStreamBytes];
  alignas(16) float lse[C::kStages][C::kStream];
  alignas(16) float delta[C::kStages][C::kStream];
  std::uint64_t a_full;
  std::uint64_t b1_full[C::kStages], b2_full[C::kStages], empty[C::kStages];
};

enum BackwardBarrier { kBothMeet = 1, kOneMeets = 2 };

// The block's tile, and the tiles [first, end) of the streaming tensors that meet it, in each head of the group.
struct BackwardTile {
  int batch, head, row, first, end, group;
  Sequence sequence;
};
template <class C>
__device__ __forceinline__ BackwardTile backward_tile(const FlashBackwardParams& p) {
  const int number = static_cast<int>(blockIdx.x);
  const int section_tiles = p.heads_of_section * p.tiles_of_head;
  const int section = number / section_tiles;
  const int rest = number - section * section_tiles;
  const int heads = min(p.heads_of_section, p.batch_heads - section * p.heads_of_section);
  const int batch_head = section * p.heads_of_section + rest % heads;
  // With the causal mask the first keys and the last rows have the most to do.
  const int index = C::kOfKeys ? rest / heads : p.tiles_of_head - 1 - rest / heads;
  BackwardTile tile;
  tile.row = index * C::kRows;
  tile.batch = batch_head / p.heads;
  tile.head = batch_head % p.heads;
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
__device__ __forceinline__ void produce_backward(const FlashBackwardParams& p, const BackwardTile& tile,
                                                 BackwardShared<C>& shared) {
  if (tile.end <= tile.first) return;
  ptx::mbarrier_arrive_expect_tx(&shared.a_full, 2 * C::kHeldBytes);
#pragma unroll
  for (int panel = 0; panel < C::kDim / kPanelColumns; ++panel) {
    const int offset = panel * C::kRows * kPanelBytes;
    ptx::tma_tile_5d(shared.a1 + offset, &p.a1, &shared.a_full, panel * kPanelColumns, tile.row, tile.head, tile.batch,
                     0);
    ptx::tma_tile_5d(shared.a2 + offset, &p.a2, &shared.a_full, panel * kPanelColumns, tile.row, tile.head, tile.batch,
                     0);
  }
  tile::PipelineState<C::kStages> turn;
  for (int member = 0; member < tile.group; ++member) {
    const int head = C::kOfKeys ? tile.head * p.group + member : tile.head / p.group;
    for (int j = tile.first; j < tile.end; ++j) {
      tile::wait(&shared.empty[turn.stage], turn.parity ^ 1);
      constexpr int kRowBytes = C::kOfKeys ? 2 * C::kStream * 4 : 0;
      ptx::mbarrier_arrive_expect_tx(&shared.b1_full[turn.stage], C::kStreamBytes + kRowBytes);
#pragma unroll
      for (int panel = 0; panel < C::kDim / kPanelColumns; ++panel) {
        ptx::tma_tile_5d(shared.b1[turn.stage] + panel * C::kStream * kPanelBytes, &p.b1, &shared.b1_full[turn.stage],
                         panel * kPanelColumns, j * C::kStream, head, tile.batch, 0);
      }
      if constexpr (C::kOfKeys) {
        const std::int64_t rows = (static_cast<std::int64_t>(tile.batch) * p.heads * p.group + head) * p.pitch +
                                  static_cast<std::int64_t>(j) * C::kStream;
        ptx::bulk_copy(shared.lse[turn.stage], p.lse + rows, C::kStream * 4, &shared.b1_full[turn.stage]);
        ptx::bulk_copy(shared.delta[turn.stage], p.delta + rows, C::kStream * 4, &shared.b1_full[turn.stage]);
      }
      ptx::mbarrier_arrive_expect_tx(&shared.b2_full[turn.stage], C::kStreamBytes);
#pragma unroll
      for (int panel = 0; panel < C::kDim / kPanelColumns; ++panel) {
        ptx::tma_tile_5d(shared.b2[turn.stage] + panel * C::kStream * kPanelBytes, &p.b2, &shared.b2_full[turn.stage],
                         panel * kPanelColumns, j * C::kStream, head, tile.batch, 0);
      }
      turn.next();
    }
  }
}

template <class C>
class BackwardConsumer {
  using T = typename C::Element;

 public:
  __device__ __forceinline__ BackwardConsumer(const FlashBackwardParams& params, const BackwardTile& its,
                                              BackwardShared<C>& memory)
      : p(params), tile(its), shared(memory) {}

  __device__ __forceinline__ void run() {
#pragma unroll
    for (int i = 0; i < C::kDim / 2; ++i) {
      out1[i] = 0.0F;
      if constexpr (C::kOfKeys) out2[i] = 0.0F;
    }
    const int count = tile.group * (tile.end - tile.first);
    if (count > 0) {
      if constexpr (!C::kOfKeys) load_row_values();
      tile::wait(&shared.a_full, 0);
      int j = tile.first;
#pragma unroll 1
      for (int i = 0; i < count; ++i) {
        step(j, i > 0);
        j = j + 1 < tile.end ? j + 1 : tile.first;
      }
      ptx::wgmma_wait_group<0>();
      ptx::pin(out1);
      if constexpr (C::kOfKeys) ptx::pin(out2);
    }
    write();
  }

 private:
  __device__ __forceinline__ std::uint64_t held(const unsigned char* a) const {
    return tile::operand_descriptor<128>(a + place.warpgroup * 64 * kPanelBytes, 0);
  }

  __device__ __forceinline__ void load_row_values() {
    const std::int64_t first =
        (static_cast<std::int64_t>(tile.batch) * p.heads + tile.head) * p.pitch + tile.row + place.row();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      row_lse[half] = p.lse[first + 8 * half];
      row_delta[half] = p.delta[first + 8 * half];
    }
  }

  // d = a b^T, a of this warpgroup's rows.
  __device__ __forceinline__ void issue_product(float (&d)[C::kStream / 2], const unsigned char* a,
                                                const unsigned char* b) {
    const std::uint64_t a_base = held(a);
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

  __device__ __forceinline__ void clear_beyond_length(int j) {
    const int length = C::kOfKeys ? tile.sequence.length_q : tile.sequence.length_kv;
    const int whole = C::kOfKeys ? p.mask.length_q : p.mask.length_kv;
    const int rows = length - j * C::kStream;
    if (rows >= C::kStream || length == whole) return;
    tile::wait(&shared.b2_full[turn.stage], turn.parity);
    constexpr int kChunks = C::kDim / 8;
    for (int i = static_cast<int>(threadIdx.x) - kWarpgroup; i < (C::kStream - rows) * kChunks;
         i += C::kConsumers * kWarpgroup) {
      const std::uint32_t offset = swizzled_chunk<C::kStream>(rows + i / kChunks, i % kChunks);
      *reinterpret_cast<uint4*>(shared.b1[turn.stage] + offset) = uint4{};
      *reinterpret_cast<uint4*>(shared.b2[turn.stage] + offset) = uint4{};
    }
    ptx::fence_proxy_async();
    ptx::barrier_sync(kBothMeet, C::kConsumers * kWarpgroup);
  }

  // Whether a bound or a length cuts the streaming tile for any row of the block.
  __device__ __forceinline__ bool is_cut(int j) const {
    const Sequence& q = tile.sequence;
    const int first = j * C::kStream;
    const int length = C::kOfKeys ? q.length_kv : q.length_q;
    const int last = min(tile.row + C::kRows, length) - 1;
    if constexpr (C::kOfKeys) {
      return first < first_row(p.mask, q, last) || first + C::kStream > end_row(p.mask, q, tile.row);
    } else {
      return first < first_column(p.mask, q, last) || first + C::kStream > end_column(p.mask, q, tile.row);
    }
  }

  // s -> P.
  __device__ __forceinline__ void probabilities(int stage, float (&s)[C::kStream / 2]) {
#pragma unroll
    for (int i = 0; i < C::kStream / 8; ++i) {
      float2 lse{};
      if constexpr (C::kOfKeys) lse = *reinterpret_cast<const float2*>(&shared.lse[stage][8 * i + place.column()]);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float its = C::kOfKeys ? (e % 2 == 0 ? lse.x : lse.y) : row_lse[e / 2];
        s[4 * i + e] = ptx::ex2_approx_ftz(fmaf(s[4 * i + e], p.scale_log2, -its));
      }
    }
  }

  // Where a bound or a length hides the score, P is 0.
  __device__ __forceinline__ void hide(int j, float (&s)[C::kStream / 2]) {
    const Sequence& q = tile.sequence;
    const int offset = j * C::kStream + place.column();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = tile.row + place.row() + 8 * half;
      const int begin = (C::kOfKeys ? first_row(p.mask, q, row) : first_column(p.mask, q, row)) - offset;
      const int end = (C::kOfKeys ? end_row(p.mask, q, row) : end_column(p.mask, q, row)) - offset;
#pragma unroll
      for (int i = 0; i < C::kStream / 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& value = s[4 * i + 2 * half + e];
          value = 8 * i + e < end && 8 * i + e >= begin ? value : 0.0F;
        }
      }
    }
  }

  // dp -> dS.
  __device__ __forceinline__ void score_gradients(int stage, const float (&s)[C::kStream / 2],
                                                  float (&dp)[C::kStream / 2]) {
#pragma unroll
    for (int i = 0; i < C::kStream / 8; ++i) {
      float2 delta;
      if constexpr (C::kOfKeys) delta = *reinterpret_cast<const float2*>(&shared.delta[stage][8 * i + place.column()]);
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
  }

  __device__ __forceinline__ void step(int j, bool has_previous) {
    float s[C::kStream / 2];
    float dp[C::kStream / 2];
    const int stage = turn.stage;
    tile::wait(&shared.b1_full[stage], turn.parity);
    clear_beyond_length(j);
    issue_product(s, shared.a1, shared.b1[stage]);
    tile::wait(&shared.b2_full[stage], turn.parity);
    issue_product(dp, shared.a2, shared.b2[stage]);
    ptx::wgmma_wait_group<1>();
    ptx::pin(s);
    if constexpr (C::kOverlaps) {
      __syncwarp();  // all lanes have read the statistics of the tile before
      if (has_previous && place.lane == 0) ptx::mbarrier_arrive(&shared.empty[stage ^ 1]);
    }
    probabilities(stage, s);
    if (is_cut(j)) hide(j, s);
    if constexpr (C::kOfKeys) {
      to_operand<T, C::kStream>(s, weights2);
      issue_sum(out2, weights2, shared.b2[stage]);
      ptx::wgmma_wait_group<1>();
    } else {
      ptx::wgmma_wait_group<0>();
    }
    ptx::pin(dp);
    score_gradients(stage, s, dp);
    to_operand<T, C::kStream>(dp, weights1);
    issue_sum(out1, weights1, shared.b1[stage]);
    if constexpr (!C::kOverlaps) {
      ptx::wgmma_wait_group<0>();
      ptx::pin(out1);
      ptx::pin(out2);
      __syncwarp();
      if (place.lane == 0) ptx::mbarrier_arrive(&shared.empty[stage]);
    }
    turn.next();
  }

  // Staged where this warpgroup's rows of a1 or a2 were.
  __device__ __forceinline__ void write_rows(const tile::TensorMap& map, unsigned char* held_rows, float factor,
                                             const float (&out)[C::kDim / 2]) {
    const int length = C::kOfKeys ? tile.sequence.length_kv : tile.sequence.length_q;
    const bool inside[2] = {tile.row + place.row() < length, tile.row + place.row() + 8 < length};
    unsigned char* const staging = held_rows + place.warpgroup * 64 * kPanelBytes;
    const std::uint32_t base = ptx::shared_address(staging);
    const int row = place.warp * 16 + place.lane / 8 % 2 * 8 + place.lane % 8;
#pragma unroll
    for (int i = 0; i < C::kDim / 16; ++i) {
      std::uint32_t words[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float low = inside[e % 2] ? out[8 * i + 2 * e] * factor : 0.0F;
        const float high = inside[e % 2] ? out[8 * i + 2 * e + 1] * factor : 0.0F;
        words[e] = pack_halves<T>(low, high);
      }
      ptx::stmatrix_x4(base + swizzled_chunk<C::kRows>(row, 2 * i + place.lane / 16), words[0], words[1], words[2],
                       words[3]);
    }
    ptx::fence_proxy_async();
    ptx::barrier_sync(kOneMeets + place.warpgroup, kWarpgroup);
    if (static_cast<int>(threadIdx.x) % kWarpgroup == 0) {
#pragma unroll
      for (int panel = 0; panel < C::kDim / kPanelColumns; ++panel) {
        ptx::tma_store_tile_5d(&map, staging + panel * C::kRows * kPanelBytes, panel * kPanelColumns,
                               tile.row + place.warpgroup * 64, tile.head, tile.batch, 0);
      }
      ptx::bulk_commit_group();
    }
  }

  __device__ __forceinline__ void write() {
    // All warps of the warpgroup have read a1 and a2.
    ptx::barrier_sync(kOneMeets + place.warpgroup, kWarpgroup);
    if (p.writes_out1) write_rows(p.out1, shared.a1, p.scale, out1);
    if constexpr (C::kOfKeys) {
      if (p.writes_out2) write_rows(p.out2, shared.a2, 1.0F, out2);
    }
    ptx::bulk_wait_group_read<0>();
  }

  const FlashBackwardParams& p;
  const BackwardTile& tile;
  BackwardShared<C>& shared;
  FragmentPlace place;
  tile::PipelineState<C::kStages> turn;
  float out1[C::kDim / 2];
  float out2[C::kOfKeys ? C::kDim / 2 : 1];
  std::uint32_t weights1[C::kStream / 16][4] = {};
  std::uint32_t weights2[C::kOfKeys ? C::kStream / 16 : 1][4] = {};
  float row_lse[2];
  float row_delta[2];
};

template <class C>
__global__ void __launch_bounds__(C::kThreads, 1) flash_backward_sm90(const __grid_constant__ FlashBackwardParams p) {
  unsigned char* const memory = tile::dynamic_shared();
  const std::uint32_t skipped = (1024 - ptx::shared_address(memory) % 1024) % 1024;
  auto& shared = *reinterpret_cast<BackwardShared<C>*>(memory + skipped);
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&shared.a_full, 1);
    for (int i = 0; i < C::kStages; ++i) {
      ptx::mbarrier_init(&shared.b1_full[i], 1);
      ptx::mbarrier_init(&shared.b2_full[i], 1);
      ptx::mbarrier_init(&shared.empty[i], 4 * C::kConsumers);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  const BackwardTile tile = backward_tile<C>(p);
  if (threadIdx.x < kWarpgroup) {
    ptx::setmaxnreg_dec<24>();
    if (threadIdx.x == 0) produce_backward<C>(p, tile, shared);
  } else {
    ptx::setmaxnreg_inc<240>();
    BackwardConsumer<C>(p, tile, shared).run();
  }
}

// lse and delta: 16 lanes for each row.
template <class T>
__global__ void __launch_bounds__(256) flash_delta_sm90(const __grid_constant__ FlashDeltaParams p) {
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (thread < p.zeroed_words) p.zeroed[thread] = 0;
  const std::int64_t index = thread / 16;
  const int lane = static_cast<int>(threadIdx.x) % 16;
  const int batch_head = static_cast<int>(index / p.pitch);
  const int row = static_cast<int>(index % p.pitch);
  const bool exists = batch_head < p.batch_heads;
  const int batch = exists ? batch_head / p.heads : 0;
  const int head = batch_head % p.heads;
  const bool inside = exists && row < sequence_of(p.mask, batch).length_q;
  float sum = 0.0F;
  if (inside) {
    const T* const o = static_cast<const T*>(p.o.data) + row_offset(p.o, batch, head, row);
    const T* const d_o = static_cast<const T*>(p.d_o.data) + row_offset(p.d_o, batch, head, row);
    // Ragged sequences may start anywhere.
    const bool aligned = ((reinterpret_cast<std::uintptr_t>(o) | reinterpret_cast<std::uintptr_t>(d_o)) & 15) == 0;
    for (int column = 8 * lane; column < p.dim_v; column += 128) {
      float a[8], b[8];
      if (aligned) {
        tile::widen_pack<float>(tile::load_pack<T, 8>(o + column), a);
        tile::widen_pack<float>(tile::load_pack<T, 8>(d_o + column), b);
      } else {
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          a[e] = tile::widen<float>(o[column + e]);
          b[e] = tile::widen<float>(d_o[column + e]);
        }
      }
#pragma unroll
      for (int e = 0; e < 8; ++e) sum = fmaf(a[e], b[e], sum);
    }
  }
#pragma unroll
  for (int step = 8; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (lane != 0 || !exists) return;
  float lse = INFINITY;
  if (inside) {
    const float stats = static_cast<const float*>(p.stats.data)[row_offset(p.stats, batch, head, row)];
    if (stats != -INFINITY) lse = stats * 1.4426950408889634F;
  }
  p.lse[index] = lse;
  p.delta[index] = inside ? sum : 0.0F;
}

}  // namespace gpudnn::kernels::flash_sm90
