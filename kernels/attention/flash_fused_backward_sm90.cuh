// Attention backward for Hopper in 16-bit types, reproducible, with five products: one kernel makes dk, dv and dq.
//
//   P = 2^(scale log2(e) q k^T - lse), dS = P (dO v^T - delta);  dv = P^T dO, dk = scale dS^T q;  dq = scale dS k
//
// A block stays and takes tiles of 128 keys, k and v, one after the other. For each it goes through the tiles of
// queries that see it, downwards (QueryTiles): q and lse come through a ring of three stages by TMA, dO and delta
// through one of two. Each of two consumer warpgroups has 64 keys: S^T = k q^T and dP^T = v dO^T come from shared
// memory; P^T and dS^T stay in registers as the A operand of dv += P^T dO and dk += dS^T q. dS goes to shared memory
// too, K-major, and dq^T = k^T dS of all 128 keys is divided among the warpgroups by its rows (D = 128) or its columns
// (D = 64). Its fragments go to shared memory as they are, and a thread adds them to a tile of floats in device memory,
// in the order of fragments, by cp.reduce.async.bulk. A last kernel scales dq and puts it into rows.
//
// The second warpgroup starts half a tile late, so that one multiplies while the other is at its exponentials. So that
// neither waits for the other, the first one makes dq two tiles late and the second one a tile late.
//
// The order of dq's sums is fixed: key tile c adds to a query tile when key tile c - 1 has (a word of each query tile
// tells); the first one that meets a query tile stores, so the floats need no zeroing. With the causal mask alone every
// other run of eight tiles goes down instead (run_tiles_of): there c adds when c + 1 has, or where that one does not
// see the query tile, when the run before has. Nobody waits for ever: a block takes its tile by a ticket, tickets run
// over key tiles within each head in the order of their additions, and a block ends its tiles in the order of their
// tickets. So what is waited for belongs to a block that runs, and waits itself for lower tickets alone; the lowest
// that is not done waits for none. Few wait at all: neighbours on the same head go through the query tiles in the same
// direction and stay about one tile apart, and only the threads that add wait, tiles behind the products. With the
// causal mask the longest tiles come first. With a window, whose queries move with the keys, tiles of keys start in the
// middle of their queries, so that neighbours are at the same ones and the L2 holds what they share. For the same
// reason every other round of blocks goes upwards where groups of heads are large and the mask is causal
// (`alternates`): a round that goes down from the last query ends at the diagonal, each block two tiles of queries
// before its predecessor on the head; the next tiles of keys start there, in that order, two tiles apart too.
//
// With the causal mask alone all tiles of keys see the last query. Tiles of 112 queries (D = 64) end there, and the
// first one of a sequence is the one that is cut, which the first tile of keys alone sees.
//
// Budget, D = 128, tile 128 x 64, cycles of a multiprocessor: products 5 x 512 = 2560; shared memory 2944 (operands
// 2048, dq written and read 512, q and dO 256, dS 128); exponentials 512. Registers of a consumer: dk and dv 128, S
// with dP or dq 64, operands of 16 bits 32; of 240, so addresses are worked out anew rather than kept.
//
// With bias, a tile of it lies in shared memory as dS does, each warpgroup's part with barriers of its own, and is read
// by ldmatrix where dS is written by stmatrix. Where dBias is not summed over anything, it is dS: its tiles leave from
// there by TMA. The file is long because the kernel's steps share its registers.
//
// With bias of keys, a thread has its two rows' numbers in registers. ALiBi is one of them, which changes from tile to
// tile of queries, and within a tile is a part of lse. With dropout (`kept`), it draws the bits of a
// tile beside the exponentials, which are another pipe's work; P is whole in dS, without what is dropped in dv.
//
// In 8-bit floats (`turned`) tiles of q, k and dO come twice, as they are and turned (rows of 64 queries or 128 keys),
// as wgmma wants the summed dimension side by side, and v as it is: the bytes of 16-bit tiles, v's half. P and dS are
// rounded after their scales.
//
// What warps store for TMA or the tensor cores is fenced, which waits for the stores. With head dimension 64, without
// bias of each score, that is done behind the issue of the next product (kTellsLate).
//
// With head dimension 64, without bias of each score, k and v come in two stages, and a block does not stop between its
// tiles of keys: a tile's last dq is made beside the first S of the next one (`carried`). dv leaves through the rows of
// v that this warpgroup alone has read, dk through its part of dS.
//
// Where one tile of keys makes all of dq (`whole`), dq leaves in 16 bits, without a sum in device memory.
//
// Head dimensions of 65 to 96 have panels of 128, of which products read 96 columns.
//
// Head dimensions up to 192 of q and k beside 128 of v: dk and dv are 160 registers, so a tile has 32 queries. dq^T has
// three panels; each warpgroup makes one of them and half of the middle one's queries.
//
// Grouped heads: the block of a key tile visits all query heads of the group, or, where tiles are few, of a part of it,
// or a part of the tiles of queries; then dk and dv are left in float, and a last kernel adds up the parts. Rows beyond
// a sequence's length are cleared in shared memory, as 0 times a NaN is none. Head dimensions are multiples of 8.
//
// Where shared memory is given back, one lane arrives for its warp, behind what all lanes do together (__syncwarp, or
// wgmma). racecheck does not see that order: it names what the lanes read and the next copy writes. With every lane
// arriving, and nothing else changed, it names nothing (8 reports before with head dimension 192, on the same cases);
// that costs 4 % with 128.
//
// Longer than most files: the order of one tile's products, waits and fences is one argument.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/attention_simt_tile.cuh"
#include "kernels/attention/flash_dropout_of_keys.cuh"
#include "kernels/attention/flash_fused_backward_sm90_load.cuh"
#include "kernels/attention/score_range.hpp"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/setmaxnreg.cuh"
#include "kernels/ptx/stmatrix_trans.cuh"
#include "kernels/tile/dynamic_shared.cuh"

namespace gpudnn::kernels::flash_sm90 {

template <class C>
class FusedConsumer {
  using T = typename C::Element;

 public:
  __device__ __forceinline__ FusedConsumer(const FlashFusedBackwardParams& params, FusedShared<C>& memory)
      : p(params), shared(memory) {
    place.warpgroup = __shfl_sync(0xffffffffu, place.warpgroup, 0);
    place.warp = __shfl_sync(0xffffffffu, place.warp, 0);
  }

  __device__ __forceinline__ void run() {
    tile::PipelineState<2> slot;
    for (;;) {
      tile::wait(&shared.tile_full[slot.stage], slot.parity);
      tile = &shared.tile[slot.stage];
      if (tile->index < 0) break;
      run_tile();
      if (place.lane == 0) ptx::mbarrier_arrive(&shared.tile_empty[slot.stage]);
      slot.next();
    }
    if (C::kCarries && carried) make_dq(1, shared.k[held.stage ^ 1]);
    if (consumer() % kWarpgroup == 0) ptx::bulk_wait_group_read<0>();
    if constexpr (C::kIsScaled) meet_amax();
  }

 private:
  // dS so far lacks its factors.
  __device__ __forceinline__ void meet_amax() const {
    if (p.amax_ds == nullptr) return;
    auto bits = __float_as_uint(fabsf(amax_ds * p.scale * fused_factor(p.dp_factors)));
    bits = __reduce_max_sync(0xffffffffu, bits);
    if (place.lane == 0) atomicMax(reinterpret_cast<unsigned int*>(p.amax_ds), bits);
  }

  // The tile's k and v.
  __device__ __forceinline__ unsigned char* k() { return shared.k[C::kHeldStages == 1 ? 0 : held.stage]; }
  __device__ __forceinline__ unsigned char* v() { return shared.v[C::kHeldStages == 1 ? 0 : held.stage]; }

  __device__ __forceinline__ int consumer() const { return static_cast<int>(threadIdx.x) - kWarpgroup; }

  __device__ __forceinline__ void run_tile() {
#pragma unroll
    for (int i = 0; i < C::kDimQk / 2; ++i) {
      dk[i] = 0.0F;
      if (i < C::kDimV / 2) dv[i] = 0.0F;
    }
    int left = members() * (tile->queries.end - tile->queries.first);
    if constexpr (C::kCarries) {
      if (left <= 0 && carried) end_carried();
    }
    if constexpr (C::kHasKeys) ask_key_bias();
    if (left > 0) {
      tile::wait(&shared.held_full[held.stage], held.parity);
      clear_keys();
    }
    if constexpr (!C::kCarries) {
      // What was staged has been read.
      if (consumer() % kWarpgroup == 0) ptx::bulk_wait_group_read<0>();
      ptx::barrier_sync(kFusedBothMeet, C::kConsumers * kWarpgroup);
    }
    if (left > 0) {
      int j = tile->queries.start;
      int member = 0;  // query head of the group
      // Half a tile late.
      if (place.warpgroup == 1) ptx::barrier_sync(kFusedStarts, C::kConsumers * kWarpgroup);
#pragma unroll 1
      for (int i = 0; i < left; ++i) {
        step(j, member, i);
        if (++member == members()) {
          member = 0;
          j = tile->queries.after(j);
        }
      }
      if constexpr (C::kTellsLate) tell(&shared.ds_full[turn.stage ^ 1]);
      ptx::wgmma_wait_group<0>();
      ptx::pin(dk);
      ptx::pin(dv);
      ptx::pin(ds_weights);
      if (place.lane == 0) {
        ptx::mbarrier_arrive(&shared.q_empty[q_turn.stage == 0 ? C::kQStages - 1 : q_turn.stage - 1]);
      }
#pragma unroll 1
      for (int back = min(2 - place.warpgroup, left); back > (C::kCarries ? 1 : 0); --back) make_dq(back, k());
      if constexpr (!C::kCarries) {
        if (place.lane == 0) ptx::mbarrier_arrive(&shared.held_empty[held.stage]);
        held.next();
        // Both warpgroups have read dS, and dBias has left.
        if (C::kHasBias && consumer() % kWarpgroup == 0) ptx::bulk_wait_group_read<0>();
        ptx::barrier_sync(kFusedBothMeet, C::kConsumers * kWarpgroup);
      }
    }
    write(left > 0);
    if (C::kCarries && left > 0) {
      carried = true;
      held.next();
    }
  }

  // dq of the tile of queries that is `back` tiles back.
  __device__ __forceinline__ void make_dq(int back, const unsigned char* k) {
    DqPart dq;
    const int stage = meet(back);
    issue_dq(dq, k, shared.ds[stage]);
    ptx::wgmma_wait_group<0>();
    dq.pin();
    store_dq(dq, stage);
    tell(&shared.dq_full[stage]);
  }

  // Before a tile that no query sees: nothing there is beside the last dq of the tile before, and a third tile has no
  // place before those who add have had that.
  __device__ __forceinline__ void end_carried() {
    make_dq(1, shared.k[C::kCarries ? held.stage ^ 1 : 0]);
    leave_tile();
    carried = false;
  }

  // Query heads that the tile's keys meet.
  __device__ __forceinline__ int members() const { return C::kHasParts ? tile->members : p.group; }

  // The row of query tile j's first query: of the first tile it may be negative.
  [[nodiscard]] __device__ __forceinline__ int query(int j) const { return j * C::kStream - lead<C>(p); }

  // Rows from `rows` on of both tiles become 0: each warpgroup does it for itself.
  template <int kTileRows>
  __device__ __forceinline__ void clear(unsigned char* a, unsigned char* b, int rows) {
    constexpr int kChunks = C::kDimQk / 8;
#pragma unroll 1
    for (int i = opaque(consumer() % kWarpgroup); i < (kTileRows - rows) * kChunks; i += kWarpgroup) {
      const std::uint32_t offset = swizzled_chunk<kTileRows>(rows + i / kChunks, i % kChunks);
      *reinterpret_cast<uint4*>(a + offset) = uint4{};
      if (C::kDimV == C::kDimQk || i % kChunks < C::kDimV / 8) *reinterpret_cast<uint4*>(b + offset) = uint4{};
    }
    cleared();
  }
  __device__ __forceinline__ void cleared() const {
    ptx::fence_proxy_async();
    ptx::barrier_sync(kFusedOneMeets + place.warpgroup, kWarpgroup);
  }
  // The same of tiles of bytes, whose rows are whole rows of a panel.
  template <int kTileRows>
  __device__ __forceinline__ void clear_bytes(unsigned char* a, unsigned char* b, int rows) {
    constexpr int kChunks = kPanelBytes / 16;
#pragma unroll 1
    for (int i = opaque(consumer() % kWarpgroup) + rows * kChunks; i < kTileRows * kChunks; i += kWarpgroup) {
      reinterpret_cast<uint4*>(a)[i] = uint4{};
      reinterpret_cast<uint4*>(b)[i] = uint4{};
    }
  }
  __device__ __forceinline__ void clear_keys() {
    const int rows = tile->sequence.length_kv - tile->row;
    // Beyond a tensor's rows are zeros, beyond a ragged sequence another one's.
    if (rows < C::kRows && (p.is_ragged || tile->sequence.length_kv != p.mask.length_kv)) {
      if constexpr (C::kTurns) {
        clear_bytes<C::kRows>(k(), v(), rows);
        cleared();
      } else {
        clear<C::kRows>(k(), v(), rows);
      }
    }
  }
  // Waits for the query tile's q.
  __device__ __forceinline__ void enter(int j) {
    tile::wait(&shared.q_full[q_turn.stage], q_turn.parity);
    const int rows = tile->sequence.length_q - query(j);
    if (rows >= C::kStream || (!p.is_ragged && tile->sequence.length_q == p.mask.length_q)) return;
    tile::wait(&shared.d_o_full[turn.stage], turn.parity);
    if constexpr (C::kTurns) {
      // What is turned has zeros there.
      clear_bytes<C::kStream>(shared.q[q_turn.stage], shared.d_o[turn.stage], rows);
      cleared();
    } else {
      clear<C::kStream>(shared.q[q_turn.stage], shared.d_o[turn.stage], rows);
    }
  }

  // d = a b^T, a of this warpgroup's keys.
  template <int kDim>
  __device__ __forceinline__ void issue_product(float (&d)[C::kStream / 2], const unsigned char* a,
                                                const unsigned char* b) {
    flash_sm90::issue_product<T, kDim / 16, C::kRows, C::kStream>(d, a + opaque(place.warpgroup) * 64 * kPanelBytes, b);
  }
  // The same of operands in bytes.
  template <class B>
  __device__ __forceinline__ void issue_byte_product(float (&d)[C::kStream / 2], const unsigned char* a,
                                                     const unsigned char* b) {
    const std::uint64_t a_base = tile::operand_descriptor<128>(a + opaque(place.warpgroup) * 64 * kPanelBytes, 0);
    const std::uint64_t b_base = tile::operand_descriptor<128>(b, 0);
    ptx::pin(d);
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < C::kDimQk / 32; ++k) {
      ptx::wgmma_ss<typename C::Byte, B, C::kStream>(d, a_base + 2 * k, b_base + 2 * k, k == 0 ? 0 : 1);
    }
    ptx::wgmma_commit_group();
  }
  // out += weights b, of types A and B where they are bytes.
  template <class A, class B, int kFloats>
  __device__ __forceinline__ void issue_sum(float (&out)[kFloats],
                                            const std::uint32_t (&weights)[C::kStream / C::kStepRows][4],
                                            const unsigned char* b) {
    if constexpr (C::kTurns) {
      const std::uint64_t turned = tile::operand_descriptor<64>(b + C::kQBytes / 2, 0);
      ptx::pin(out);
      ptx::wgmma_fence();
#pragma unroll
      for (int k = 0; k < C::kStream / 32; ++k) {
        ptx::wgmma_rs<A, B, 2 * kFloats>(out, weights[k], turned + 2 * k, 1);
      }
      ptx::wgmma_commit_group();
    } else {
      flash_sm90::issue_sum<T, C::kStream / 16, 2 * kFloats>(out, weights, b);
    }
  }
  // This warpgroup's part of dq^T = k^T dS: of its own panel of k, and of three panels half of the middle one's
  // queries.
  struct DqPart {
    float own[C::kDqColumns / 2];
    float middle[C::kSharedColumns > 0 ? C::kSharedColumns / 2 : 1];
    __device__ __forceinline__ void pin() {
      ptx::pin(own);
      if constexpr (C::kSharedColumns > 0) ptx::pin(middle);
    }
  };
  __device__ __forceinline__ void issue_dq(DqPart& part, const unsigned char* held_k, const unsigned char* ds) {
    float(&d)[C::kDqColumns / 2] = part.own;
    const int warpgroup = opaque(place.warpgroup);
    if constexpr (C::kTurns) {
      const std::uint64_t turned =
          tile::operand_descriptor<128>(held_k + C::kKBytes / 2 + warpgroup * 64 * kPanelBytes, 0);
      const std::uint64_t of_ds = tile::operand_descriptor<128>(ds, 0);
      ptx::pin(d);
      ptx::wgmma_fence();
#pragma unroll
      for (int k = 0; k < C::kRows / 32; ++k) {
        ptx::wgmma_ss<typename C::Byte, typename C::GradientByte, C::kDqColumns>(d, turned + 2 * k, of_ds + 2 * k,
                                                                                 k == 0 ? 0 : 1);
      }
      ptx::wgmma_commit_group();
    } else {
      constexpr int kOwnPanel = C::kPanelsQk - 1;  // of the second warpgroup
      const unsigned char* const a = held_k + (C::kDividesRows ? warpgroup * kOwnPanel * C::kRows * kPanelBytes : 0);
      const unsigned char* const b = ds + (C::kDividesRows ? 0 : warpgroup * C::kDqColumns * kPanelBytes);
      const std::uint64_t a_base = tile::operand_descriptor<128>(a, 0);
      const std::uint64_t b_base = tile::operand_descriptor<128>(b, 0);
      part.pin();
      ptx::wgmma_fence();
#pragma unroll
      for (int k = 0; k < C::kRows / 16; ++k) {
        ptx::wgmma_ss<T, T, C::kDqColumns, ptx::Major::mn>(d, mn_major_step(a_base, k),
                                                           k_major_step<C::kStream>(b_base, k), k == 0 ? 0 : 1);
      }
      if constexpr (C::kSharedColumns > 0) {
        const std::uint64_t middle = tile::operand_descriptor<128>(held_k + C::kRows * kPanelBytes, 0);
        const std::uint64_t half = tile::operand_descriptor<128>(ds + warpgroup * C::kSharedColumns * kPanelBytes, 0);
#pragma unroll
        for (int k = 0; k < C::kRows / 16; ++k) {
          ptx::wgmma_ss<T, T, C::kSharedColumns, ptx::Major::mn>(part.middle, mn_major_step(middle, k),
                                                                 k_major_step<C::kStream>(half, k), k == 0 ? 0 : 1);
        }
      }
      ptx::wgmma_commit_group();
    }
  }

  // Where this lane's row of a block of 8 x 8 of dS, or of bias, is: of 16 queries from 16 i on and 16 keys, four
  // blocks.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t block_row(int i) const {
    const int row = place.lane / 16 * 8 + place.lane % 8;
    const int chunk = 8 * place.warpgroup + 2 * place.warp + place.lane / 8 % 2;
    return swizzled_chunk<C::kStream>(16 * i + row, chunk);
  }

  // The same with bias, which lies as dS does.
  __device__ __forceinline__ void biased_probabilities(int stage, float (&s)[C::kStream / 2]) {
    const std::uint32_t base = ptx::shared_address(shared.bias);
    tile::wait(&shared.bias_full[place.warpgroup], bias_parity);
    bias_parity ^= 1;
#pragma unroll
    for (int i = 0; i < C::kStream / 16; ++i) {
      std::uint32_t words[4];
      ptx::ldmatrix_x4_trans(base + block_row(i), words);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float2 lse = *reinterpret_cast<const float2*>(&shared.lse[stage][16 * i + 8 * half + place.column()]);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float bias = tile::widen<float>(tile::half_of<T>(words[2 * half + e / 2], e % 2));
          float& score = s[8 * i + 4 * half + e];
          score = ptx::ex2_approx_ftz(fmaf(score, p.scale_log2, fmaf(bias, kLog2E, e % 2 == 0 ? -lse.x : -lse.y)));
        }
      }
    }
    __syncwarp();
    if (place.lane == 0) ptx::mbarrier_arrive(&shared.bias_empty[place.warpgroup]);
  }

  // Of this thread's two keys. What is of the tensors' type is only asked for here, as bits; take_key_bias waits for
  // it.
  [[nodiscard]] __device__ __forceinline__ bool has_own_bias() const {
    return p.key_bias.type == (std::is_same_v<T, tile::Half> ? tile::ElementType::f16 : tile::ElementType::bf16);
  }
  __device__ __forceinline__ void ask_key_bias() {
    const AttentionBias& bias = p.key_bias;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int key = tile->row + place.row() + 8 * half;
      key_bias[half] = 0.0F;
      if (bias.data == nullptr || key >= tile->sequence.length_kv) continue;
      const std::int64_t at = bias_offset(bias, tile->batch, tile->head, 0, key);
      if (has_own_bias()) {
        key_bias[half] = __uint_as_float(static_cast<const std::uint16_t*>(bias.data)[at]);
      } else {
        key_bias[half] = finite(kLog2E * attention_simt::load_element<float>(bias.type, bias.data, at));
      }
    }
  }
  __device__ __forceinline__ void take_key_bias() {
    if (!has_own_bias()) return;
#pragma unroll
    for (float& bias : key_bias) bias = finite(kLog2E * tile::widen<float>(tile::half_of<T>(__float_as_uint(bias), 0)));
  }
  // Beside an lse of infinity a bias of infinity would be a NaN.
  [[nodiscard]] static __device__ __forceinline__ float finite(float bias) { return fminf(bias, kGreatestScore); }
  // In the same straight code as the exponentials, whose pipe leaves the others free.
  __device__ __forceinline__ void draw(int j, int member) {
    const int head = (tile->batch * p.heads + tile->head) * p.group + member;
    const DrawOfKeys bits(tile->key, static_cast<std::uint32_t>(head), query(j),
                          static_cast<std::uint32_t>(tile->row + place.row()));
    kept[0] = bits.kept<4>(0, p.dropout.threshold);
    if constexpr (C::kStream > 64) kept[1] = bits.kept<C::kStream / 16 - 4>(4, p.dropout.threshold);
  }
  // What dropout drops of the operand P becomes 0.
  __device__ __forceinline__ void drop() {
#pragma unroll
    for (int i = 0; i < C::kStream / 16; ++i) {
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        weights[i][w] &= ptx::prmt(kept[i / 4] << (15 - 4 * (i % 4) - w), 0, 0xbb99);
      }
    }
  }

  // s -> P.
  __device__ __forceinline__ void plain_probabilities(int stage, int j, float (&s)[C::kStream / 2]) {
    const float scale_log2 = C::kIsScaled ? tile->scale_log2 : p.scale_log2;
    [[maybe_unused]] float added[2];
    if constexpr (C::kHasSlope) {
      const auto distance = static_cast<float>(tile->row + place.row() - query(j));
      added[0] = fmaf(tile->slope, distance, key_bias[0]);
      added[1] = fmaf(tile->slope, distance + 8.0F, key_bias[1]);
    }
#pragma unroll
    for (int i = 0; i < C::kStream / 8; ++i) {
      const float2 lse = *reinterpret_cast<const float2*>(&shared.lse[stage][8 * i + place.column()]);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float base = e % 2 == 0 ? -lse.x : -lse.y;
        if constexpr (C::kHasKeys) base += C::kHasSlope ? added[e / 2] : key_bias[e / 2];
        s[4 * i + e] = ptx::ex2_approx_ftz(fmaf(s[4 * i + e], scale_log2, base));
      }
    }
  }

  // dS in 16 bits, 16 queries at a time, so that registers of P and dP are free for the next ones.
  __device__ __forceinline__ void score_gradients(int stage, const float (&s)[C::kStream / 2],
                                                  const float (&dp)[C::kStream / 2]) {
#pragma unroll
    for (int i = 0; i < C::kStream / 16; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float2 delta = *reinterpret_cast<const float2*>(&shared.delta[stage][16 * i + 8 * half + place.column()]);
        const int at = 8 * i + 4 * half;
        float ds[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float sum = e % 2 == 0 ? delta.x : delta.y;
          if constexpr (C::kKeeps) {
            // Element 8 i + 2 w + e of DrawOfKeys.
            const bool keeps = (kept[i / 4] >> (4 * (i % 4) + 2 * half + e / 2 + 16 * (e % 2)) & 1U) != 0;
            ds[e] = s[at + e] * fmaf(keeps ? dp[at + e] : 0.0F, p.keep_scale, -sum);
          } else {
            ds[e] = s[at + e] * (dp[at + e] - sum);
          }
          if constexpr (C::kIsScaled) amax_ds = fmaxf(amax_ds, fabsf(ds[e]));
        }
        ds_weights[i][2 * half] = pack_halves<T>(ds[0], ds[1]);
        ds_weights[i][2 * half + 1] = pack_halves<T>(ds[2], ds[3]);
      }
      ptx::pin(ds_weights[i]);
    }
  }
  // The same in 8 bits, scaled: a word has four queries of a key.
  __device__ __forceinline__ void score_gradient_bytes(int stage, const float (&s)[C::kStream / 2],
                                                       const float (&dp)[C::kStream / 2]) {
    const float factor = tile->ds_factor;
#pragma unroll
    for (int i = 0; i < C::kStream / 16; ++i) {
      float ds[8];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float2 delta = *reinterpret_cast<const float2*>(&shared.delta[stage][16 * i + 8 * half + place.column()]);
        const int at = 8 * i + 4 * half;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float value = s[at + e] * (dp[at + e] - (e % 2 == 0 ? delta.x : delta.y));
          amax_ds = fmaxf(amax_ds, fabsf(value));
          ds[4 * half + e] = value * factor;
        }
      }
      std::uint32_t(&words)[4] = ds_weights[i / 2];
      words[i % 2 * 2] = pack_bytes<typename C::GradientByte>(ds[0], ds[1], ds[4], ds[5]);
      words[i % 2 * 2 + 1] = pack_bytes<typename C::GradientByte>(ds[2], ds[3], ds[6], ds[7]);
      if (i % 2 == 1) ptx::pin(words);
    }
  }
  // P in 8 bits, in the same order.
  __device__ __forceinline__ void probability_bytes(const float (&s)[C::kStream / 2]) {
    const float factor = tile->p_factor;
#pragma unroll
    for (int i = 0; i < C::kStream / 16; ++i) {
      const float* const its = s + 8 * i;
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        weights[i / 2][i % 2 * 2 + row] = pack_bytes<typename C::Byte>(
            its[2 * row] * factor, its[2 * row + 1] * factor, its[4 + 2 * row] * factor, its[5 + 2 * row] * factor);
      }
    }
  }

  // dS^T of this warpgroup's keys into rows of queries.
  __device__ __forceinline__ void store_ds(unsigned char* ds) {
    const std::uint32_t base = ptx::shared_address(ds);
    if constexpr (C::kTurns) {
      // Keys r and r + 8 of a warp's 16 are neighbours, as in the turned k.
#pragma unroll
      for (int i = 0; i < C::kStream / 32; ++i) {
        const std::uint32_t(&its)[4] = ds_weights[i];
        const std::uint32_t at = swizzled_chunk<C::kStream>(32 * i + place.lane, 4 * place.warpgroup + place.warp);
        ptx::stmatrix_x4_trans(base + at, __byte_perm(its[0], its[1], 0x5140), __byte_perm(its[0], its[1], 0x7362),
                               __byte_perm(its[2], its[3], 0x5140), __byte_perm(its[2], its[3], 0x7362));
      }
    } else {
#pragma unroll
      for (int i = 0; i < C::kStream / 16; ++i) {
        ptx::stmatrix_x4_trans(base + block_row(i), ds_weights[i][0], ds_weights[i][1], ds_weights[i][2],
                               ds_weights[i][3]);
      }
    }
  }
  // The same part of dBias, from there. What the tile before left has been read when the next one is written over it.
  __device__ __forceinline__ void store_dbias(int j, int member, const unsigned char* ds) {
    if (consumer() % kWarpgroup == 0) ptx::bulk_wait_group_read<0>();
    ptx::barrier_sync(kFusedOneMeets + place.warpgroup, kWarpgroup);
    if (consumer() % kWarpgroup != 0) return;
    ptx::tma_store_tile_5d(&p.dbias, ds + place.warpgroup * C::kPartBytes, tile->row + place.warpgroup * kPanelColumns,
                           query(j), tile->first_head + member, tile->batch, 0);
    ptx::bulk_commit_group();
  }

  // dq in 16 bits, in rows of queries.
  __device__ __forceinline__ void stage_dq(const DqPart& part, unsigned char* to) {
    const int lane = opaque(place.lane);
    const int row = place.warpgroup * C::kDqColumns + lane % 8;
    const std::uint32_t base = ptx::shared_address(to);
#pragma unroll
    for (int i = 0; i < C::kDqColumns / 8; ++i) {
      const float* const d = part.own + 4 * i;
      ptx::stmatrix_x2_trans(base + swizzled_chunk<C::kStream>(row + 8 * i, 2 * place.warp + lane / 8 % 2),
                             pack_halves<T>(d[0] * p.result_scale, d[1] * p.result_scale),
                             pack_halves<T>(d[2] * p.result_scale, d[3] * p.result_scale));
    }
  }

  __device__ __forceinline__ void store_dq(const DqPart& part, int which) {
    if (place.lane == 0) ptx::mbarrier_arrive(&shared.ds_read[place.warpgroup][which]);
    const int stage = C::kDqStages == 1 ? 0 : dq_turn.stage;
    tile::wait(&shared.dq_empty[stage], dq_turn.parity ^ 1);
    dq_turn.next();
    if constexpr (C::kDqIsWhole) {
      stage_dq(part, reinterpret_cast<unsigned char*>(shared.dq[stage]));
    } else if (C::kDqThreads == C::kConsumers * kWarpgroup || 4 * place.warpgroup + place.warp < C::kDqThreads / 32) {
      float4* const to = reinterpret_cast<float4*>(shared.dq[stage]) + consumer();
#pragma unroll
      for (int i = 0; i < C::kDqGroups; ++i) {
        constexpr int kOwn = C::kDqColumns / 8;
        const float* const d = i < kOwn ? part.own + 4 * i : part.middle + 4 * (i - kOwn);
        to[i * C::kDqThreads] = make_float4(d[0], d[1], d[2], d[3]);
      }
    }
  }
  // What this thread has stored is for TMA and the tensor cores. The fence waits for the stores.
  __device__ __forceinline__ void tell(std::uint64_t* full) {
    ptx::fence_proxy_async();
    __syncwarp();
    if (place.lane == 0) ptx::mbarrier_arrive(full);
  }

  // Waits for dS of both warpgroups, `back` tiles back, and says where it is.
  __device__ __forceinline__ int meet(int back) {
    const int stage = turn.stage ^ (back & 1);
    tile::wait(&shared.ds_full[stage], turn.parity ^ (back == 2 ? 1U : static_cast<std::uint32_t>(stage)));
    return stage;
  }

  // Tile number i of those that the block's keys meet. dk of the tile before is under way; dq is made of a tile before.
  __device__ __forceinline__ void step(int j, int member, int i) {
    float s[C::kStream / 2];
    float dp[C::kStream / 2];
    DqPart dq;
    const int stage = turn.stage;
    enter(j);
    if constexpr (C::kTurns) {
      issue_byte_product<typename C::Byte>(s, k(), shared.q[q_turn.stage]);
    } else {
      issue_product<C::kDimQk>(s, k(), shared.q[q_turn.stage]);
    }
    if (C::kTellsLate && i > 0) tell(&shared.ds_full[stage ^ 1]);
    // Of a tile's first step, the last one of the tile before.
    const bool carries = C::kCarries && i == 0;
    const bool has_dq = carries ? carried : i >= 2 - place.warpgroup;
    const int back = carries ? 1 : 2 - place.warpgroup;
    if (has_dq) meet(back);
    issue_dq(dq, carries ? shared.k[C::kCarries ? held.stage ^ 1 : 0] : k(), shared.ds[stage ^ (back & 1)]);
    ptx::wgmma_wait_group<1>();
    ptx::pin(s);
    ptx::pin(ds_weights);
    if constexpr (C::kKeeps) draw(j, member);
    if (i > 0 && place.lane == 0) {
      ptx::mbarrier_arrive(&shared.q_empty[q_turn.stage == 0 ? C::kQStages - 1 : q_turn.stage - 1]);
    }
    if constexpr (C::kHasKeys) {
      if (i == 0) take_key_bias();
    }
    if constexpr (C::kHasBias) {
      biased_probabilities(q_turn.stage, s);
    } else {
      plain_probabilities(q_turn.stage, j, s);
    }
    if (is_cut<C::kRows, C::kStream>(p.mask, tile->sequence, tile->row, query(j))) {
      hide<C::kStream>(p.mask, tile->sequence, tile->row + place.row(), query(j) + place.column(), s);
    }
    if constexpr (C::kTurns) {
      probability_bytes(s);
    } else {
      to_operand<T, C::kStream>(s, weights);
      if constexpr (C::kKeeps) drop();
    }
    if (i == 0 && place.warpgroup == 0) ptx::barrier_arrive(kFusedStarts, C::kConsumers * kWarpgroup);
    tile::wait(&shared.d_o_full[stage], turn.parity);
    issue_sum<typename C::Byte, typename C::GradientByte>(dv, weights, shared.d_o[stage]);
    ptx::wgmma_wait_group<1>();
    dq.pin();
    if (has_dq) {
      store_dq(dq, stage ^ (back & 1));
      if (!C::kTellsLate) tell(&shared.dq_full[stage ^ (back & 1)]);
    }
    if (carries) leave_tile();
    if constexpr (C::kTurns) {
      issue_byte_product<typename C::GradientByte>(dp, v(), shared.d_o[stage]);
    } else {
      issue_product<C::kDimV>(dp, v(), shared.d_o[stage]);
    }
    if (C::kTellsLate && has_dq) tell(&shared.dq_full[stage ^ (back & 1)]);
    ptx::wgmma_wait_group<0>();
    ptx::pin(dp);
    ptx::pin(weights);
    if constexpr (C::kTurns) {
      score_gradient_bytes(stage, s, dp);
    } else {
      score_gradients(stage, s, dp);
    }
    issue_sum<typename C::GradientByte, typename C::Byte>(dk, ds_weights, shared.q[q_turn.stage]);
    tile::wait(&shared.ds_read[place.warpgroup ^ 1][stage], turn.parity ^ 1);
    store_ds(shared.ds[stage]);
    if constexpr (C::kTellsLate) {
      __syncwarp();
    } else {
      tell(&shared.ds_full[stage]);
    }
    if (place.lane == 0) ptx::mbarrier_arrive(&shared.d_o_empty[stage]);
    if constexpr (C::kHasBias) {
      if (p.writes_dbias) store_dbias(j, member, shared.ds[stage]);
    }
    turn.next();
    q_turn.next();
  }

  // What this warpgroup staged has been read.
  __device__ __forceinline__ void leave_rows() const {
    if (consumer() % kWarpgroup == 0) ptx::bulk_wait_group_read<0>();
    ptx::barrier_sync(kFusedOneMeets + place.warpgroup, kWarpgroup);
  }
  // Behind the last dq of the tile before: its dk and dv have left, its k and v are given back.
  __device__ __forceinline__ void leave_tile() {
    leave_rows();
    if (carried && place.lane == 0) ptx::mbarrier_arrive(&shared.held_empty[C::kCarries ? held.stage ^ 1 : 0]);
  }

  // Through this warpgroup's `staging` in shared memory.
  template <int kFloats>
  __device__ __forceinline__ void write_rows(const tile::TensorMap& map, const MapRows& in_map,
                                             const AttentionTensor& tensor, int dim, unsigned char* staging,
                                             float factor, const float (&out)[kFloats]) {
    constexpr int kDim = 2 * kFloats;
    const int length = tile->sequence.length_kv;
    const bool inside[2] = {tile->row + place.row() < length, tile->row + place.row() + 8 < length};
    stage_gradient<T, C::kRows>(staging, place, inside, factor, out);
    ptx::fence_proxy_async();
    ptx::barrier_sync(kFusedOneMeets + place.warpgroup, kWarpgroup);
    const int first = tile->row + opaque(place.warpgroup) * 64;
    // The rows beyond a ragged sequence are not its own.
    if (tensor.offset_bits != 0 && (tile->by_elements || first + 64 > length)) {
      constexpr int kChunks = kDim / 8;
      const std::int64_t start = ragged_start(tensor, tile->batch);
      auto* const to = static_cast<std::uint16_t*>(tensor.data) + start + tile->head * tensor.strides[1];
#pragma unroll 1
      for (int i = opaque(consumer() % kWarpgroup); i < (length - first) * kChunks && i < 64 * kChunks;
           i += kWarpgroup) {
        const int chunk = i % kChunks;
        if (8 * chunk >= dim) continue;
        const uint4 value = *reinterpret_cast<const uint4*>(staging + swizzled_chunk<C::kRows>(i / kChunks, chunk));
        write_chunk<false>(to + (first + i / kChunks) * tensor.strides[2] + 8 * chunk, value, start % 8 == 0, 1, 8);
      }
      return;
    }
    if (consumer() % kWarpgroup == 0) {
#pragma unroll
      for (int panel = 0; panel < (kDim + kPanelColumns - 1) / kPanelColumns; ++panel) {
        ptx::tma_store_tile_5d(&map, staging + panel * C::kRows * kPanelBytes, panel * kPanelColumns,
                               in_map.first + first, tile->head, in_map.batch, 0);
      }
      ptx::bulk_commit_group();
    }
  }

  // Of a group's part, in float.
  template <int kFloats>
  __device__ __forceinline__ void write_partial(float* partial, const float (&out)[kFloats]) {
    constexpr int kDim = 2 * kFloats;
    const std::int64_t head = (static_cast<std::int64_t>(tile->part) * p.batch + tile->batch) * p.heads + tile->head;
    const int lane = opaque(place.lane);
    const int row = opaque(place.warpgroup * 64 + place.warp * 16 + lane / 4);
    write_sums(partial + (head * p.partial_rows + tile->row + row) * kDim + lane % 4 * 2, out);
  }

  // The last tiles of dq have left.
  __device__ __forceinline__ void dq_has_left() {
    if constexpr (C::kDqStages == 1) {
      tile::wait(&shared.dq_empty[0], dq_turn.parity ^ 1);
    } else {
      // Of stages before the next one this round's tiles are the last, of the others those of the round before.
#pragma unroll
      for (int i = 0; i < C::kDqStages; ++i) {
        tile::wait(&shared.dq_empty[i], dq_turn.parity ^ (i < dq_turn.stage ? 0U : 1U));
      }
    }
  }

  // `has_held`: k and v are here, and read.
  __device__ __forceinline__ void write(bool has_held) {
    if constexpr (C::kHasParts) {
      if (p.parts > 1) {
        if (p.writes_dv) write_partial(p.partial_dv, dv);
        if (p.writes_dk) write_partial(p.partial_dk, dk);
        return;
      }
    }
    const float factor = C::kKeeps ? p.keep_scale : 1.0F;
    const int warpgroup = opaque(place.warpgroup);
    const int rows = warpgroup * 64 * kPanelBytes;
    if constexpr (C::kCarries) {
      // Where dS was that both warpgroups have read, and this one's rows of v.
      if (!has_held || !p.writes_dv) leave_rows();  // else dv's rows make the warps meet behind their last dq
      tile::wait(&shared.ds_read[place.warpgroup ^ 1][turn.stage], turn.parity ^ 1);
      unsigned char* const of_ds = shared.ds[turn.stage] + warpgroup * C::kPartBytes;
      if (p.writes_dv) write_rows(p.dv, tile->dv, p.dv_rows, p.dim_v, has_held ? v() + rows : of_ds, factor, dv);
      if (p.writes_dk) write_rows(p.dk, tile->dk, p.dk_rows, p.dim_qk, of_ds, p.result_scale, dk);
    } else {
      if (p.writes_dv) write_rows(p.dv, tile->dv, p.dv_rows, p.dim_v, shared.ds[0] + rows, factor, dv);
      dq_has_left();
      if (p.writes_dk) {
        write_rows(p.dk, tile->dk, p.dk_rows, p.dim_qk, reinterpret_cast<unsigned char*>(shared.dq) + rows,
                   p.result_scale, dk);
      }
    }
  }

  const FlashFusedBackwardParams& p;
  const FusedTile* tile = nullptr;
  FusedShared<C>& shared;
  FragmentPlace place;
  tile::PipelineState<C::kStages> turn;
  tile::PipelineState<C::kQStages> q_turn;
  tile::PipelineState<C::kDqStages> dq_turn;
  tile::PipelineState<C::kHeldStages> held;
  bool carried = false;  // dq of the last tile of queries that the tile before met is left to do
  [[maybe_unused]] std::uint32_t bias_parity = 0;
  [[maybe_unused]] float amax_ds = 0.0F;
  [[maybe_unused]] float key_bias[2];
  // As DrawOfKeys says.
  [[maybe_unused]] std::uint32_t kept[(C::kStream / 16 + 3) / 4] = {};
  float dk[C::kDimQk / 2];
  float dv[C::kDimV / 2];
  std::uint32_t weights[C::kStream / C::kStepRows][4] = {};
  std::uint32_t ds_weights[C::kStream / C::kStepRows][4] = {};
};

template <class C>
__global__ void __launch_bounds__(C::kThreads, 1)
    flash_fused_backward_sm90(const __grid_constant__ FlashFusedBackwardParams p) {
  unsigned char* const memory = tile::dynamic_shared();
  const std::uint32_t skipped = (1024 - ptx::shared_address(memory) % 1024) % 1024;
  auto& shared = *reinterpret_cast<FusedShared<C>*>(memory + skipped);
  if (threadIdx.x == 0) {
    constexpr int kConsumerWarps = 4 * C::kConsumers;
    for (int i = 0; i < C::kHeldStages; ++i) {
      ptx::mbarrier_init(&shared.held_full[i], 1);
      ptx::mbarrier_init(&shared.held_empty[i], kConsumerWarps);
    }
    for (int i = 0; i < C::kQStages; ++i) {
      ptx::mbarrier_init(&shared.q_full[i], 1);
      ptx::mbarrier_init(&shared.q_empty[i], kConsumerWarps);
    }
    for (int i = 0; i < C::kStages; ++i) {
      ptx::mbarrier_init(&shared.d_o_full[i], 1);
      ptx::mbarrier_init(&shared.d_o_empty[i], kConsumerWarps);
      ptx::mbarrier_init(&shared.ds_full[i], kConsumerWarps);
      for (int w = 0; w < C::kConsumers; ++w) ptx::mbarrier_init(&shared.ds_read[w][i], 4);
    }
    for (int i = 0; i < 2; ++i) {
      ptx::mbarrier_init(&shared.dq_full[i], kConsumerWarps);
      ptx::mbarrier_init(&shared.tile_full[i], 1);
      ptx::mbarrier_init(&shared.tile_empty[i], kConsumerWarps + 3);
    }
    if constexpr (C::kHasBias) {
      for (int i = 0; i < C::kConsumers; ++i) {
        ptx::mbarrier_init(&shared.bias_full[i], 1);
        ptx::mbarrier_init(&shared.bias_empty[i], 4);
      }
    }
    for (std::uint64_t& empty : shared.dq_empty) ptx::mbarrier_init(&empty, 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  ptx::griddepcontrol_wait();  // lse, delta, and what is counted in
  if (threadIdx.x < kWarpgroup) {
    ptx::setmaxnreg_dec<24>();
    if (threadIdx.x == 0) produce_fused<C>(p, shared);
    if (threadIdx.x == 96) produce_d_o<C>(p, shared);
    if (threadIdx.x == 32 || threadIdx.x == 64) add_dq<C>(p, shared, static_cast<int>(threadIdx.x) / 32 - 1);
  } else {
    ptx::setmaxnreg_inc<240>();
    FusedConsumer<C>(p, shared).run();
  }
}

// A block for each tile of dq. A thread has 2 queries and 2 runs of 8 of the head dimension, from 8 lanes' fragments.
template <class C>
__global__ void __launch_bounds__(C::kDqFloats / 32) flash_fused_dq_sm90(const __grid_constant__ FlashFusedDqParams p) {
  using T = typename C::Element;
  const std::int64_t slot = blockIdx.x;
  const int j = static_cast<int>(slot % p.query_tiles);
  const int batch_head = static_cast<int>(slot / p.query_tiles);
  const int pair = static_cast<int>(threadIdx.x) % 4;
  constexpr int kWarps = C::kDqThreads / 32;  // of the consumers
  const int its_warp = static_cast<int>(threadIdx.x) / 4 % kWarps;
  const int group = static_cast<int>(threadIdx.x) / (4 * kWarps);
  const int warpgroup = its_warp / 4;
  const int warp = its_warp % 4;
  // Of three panels the middle one is shared by its queries.
  const bool is_middle = C::kSharedColumns > 0 && group >= C::kDqColumns / 8;
  const int panel = is_middle ? 1 : (C::kPanelsQk - 1) * warpgroup;
  const int row_group = is_middle ? group - (C::kDqColumns - warpgroup * C::kSharedColumns) / 8 : group;
  const int column = 16 * warp + 64 * panel;
  const int query =
      j * C::kStream - p.lead + 8 * row_group + 2 * pair + (C::kDividesRows ? 0 : warpgroup * C::kDqColumns);
  const int batch = batch_head / p.heads;
  ptx::griddepcontrol_wait();
  const int length = p.dq.offset_bits != 0 ? sequence_of(p.mask, batch).length_q : p.mask.length_q;
  if (query < 0 || query >= length || column >= p.dim) return;
  const float4* const from =
      reinterpret_cast<const float4*>(p.tiles + slot * C::kDqFloats) + group * C::kDqThreads + its_warp * 32 + pair;
  write_dq<T>(p.added[slot] != 0 ? from : nullptr, p.scale, p.dq,
              row_offset(p.dq, batch, batch_head % p.heads, query) + column, length - query, p.dim - column);
}

}  // namespace gpudnn::kernels::flash_sm90
