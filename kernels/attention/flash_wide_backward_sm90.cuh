// Attention backward for Hopper in 16-bit types with head dimensions of 129 to 256, reproducible, with five products:
// one kernel makes dk, dv and dq.
//
//   P = 2^(scale log2(e) q k^T - lse), dS = P (dO v^T - delta);  dv = P^T dO, dk = scale dS^T q;  dq = scale dS k
//
// As flash_fused_backward_sm90.cuh, whose order of dq's sums and tickets this has: a block takes tiles of keys one
// after the other and for each walks down over the tiles of queries that see it. With so wide heads a multiprocessor's
// registers hold dk and dv of 64 keys, one in each of two consumer warpgroups, and the warpgroups share the work by its
// kind: the first makes S^T = k q^T, P and dv, the second dP^T = v dO^T, dS and dk. P goes from one to the other in
// float through shared memory, where each thread leaves what the same thread of the other one takes; P^T and dS^T are
// left operands in the registers that they were made in. dS lies in shared memory too, and dq^T = k^T dS is made in
// panels of 64 of the head dimension, half of them by each warpgroup. A panel's fragments go to shared memory as they
// are, and from there are added to device memory by cp.reduce.async.bulk in the order of the key tiles.
//
// The first warpgroup is ahead: S of the next tile is under way beside dv, dq is that of the tile before, and its
// second panel is under way over the next tile's exponentials.
//
// 64 keys read twice as many bytes of q and dO for each product as 128 do, more than the L2 gives. So the blocks of a
// cluster take neighbouring tiles of keys and the same queries; each loads its rows of q and dO for both (multicast).
// What one block of them waits for comes earlier in the order of tiles that both have.
//
// Budget of 64 keys x 64 queries, dimension 256, cycles of a multiprocessor: products 5 x 512 = 2560; shared memory
// 4032 (S and dP 1024, dv and dk 512, dq 512, its panels written and read 1024, q and dO written 512, P 256, dS 64, and
// what is small); exponentials 256. Registers of a consumer: a gradient 128, scores 32, dq 32, operands 16.
//
// Longer than most files: the order of one tile's products, waits and fences is one argument.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_wide_backward_sm90_load.cuh"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/ptx/setmaxnreg.cuh"
#include "kernels/ptx/st_async.cuh"
#include "kernels/ptx/stmatrix_trans.cuh"
#include "kernels/tile/dynamic_shared.cuh"

namespace gpudnn::kernels::flash_sm90 {

// What both consumer warpgroups do. kWhich: 0 has P and dv, 1 has dS and dk.
template <class C, int kWhich>
class WideConsumer {
 protected:
  using T = typename C::Element;
  static constexpr int kDim = C::kDim;

  __device__ __forceinline__ WideConsumer(const FlashWideBackwardParams& params, WideShared<C>& memory)
      : p(params), shared(memory), place((1 + kWhich) * kWarpgroup) {
    place.warp = __shfl_sync(0xffffffffu, place.warp, 0);
  }

  static __device__ __forceinline__ int thread() { return static_cast<int>(threadIdx.x) % kWarpgroup; }
  __device__ __forceinline__ void meet() const { ptx::barrier_sync(kWideOneMeets + kWhich, kWarpgroup); }
  // Both warpgroups have read k and v.
  __device__ __forceinline__ void meet_other() {
    arrive(&shared.held_read[slot.stage]);
    tile::wait(&shared.held_read[slot.stage], slot.parity);
  }
  // One arrival of the warp.
  __device__ __forceinline__ void arrive(std::uint64_t* barrier) const {
    __syncwarp();
    if (place.lane == 0) ptx::mbarrier_arrive(barrier);
  }
  __device__ __forceinline__ void release_stream(std::uint64_t* empty) const {
    __syncwarp();
    release<C>(empty);
  }

  // All tiles of keys, one after the other. `visit` goes through the tiles of queries, where there are any; the others
  // are what write() takes.
  template <class Visit>
  __device__ __forceinline__ void run_tiles(const tile::TensorMap& map, bool writes, unsigned char* held,
                                            float* partial, float factor, const Visit& visit) {
    for (;;) {
      tile::wait(&shared.tile_full[slot.stage], slot.parity);
      tile = &shared.tile[slot.stage];
      if (tile->index < 0) return;
#pragma unroll
      for (float& value : out) value = 0.0F;
      if (tile->queries.start >= 0) {
        tile::wait(&shared.held_full, held_parity);
        held_parity ^= 1;
        clear_keys();
        visit();
      }
      meet_other();
      write(map, writes, held, partial, factor);
      arrive(&shared.tile_empty[slot.stage]);
      slot.next();
    }
  }

  // Rows from `rows` on become 0: each warpgroup does it for itself.
  __device__ __forceinline__ void clear(unsigned char* a, int rows) {
    constexpr int kChunks = C::kDim / 8;
#pragma unroll 1
    for (int i = thread(); i < (64 - rows) * kChunks; i += kWarpgroup) {
      *reinterpret_cast<uint4*>(a + swizzled_chunk<64>(rows + i / kChunks, i % kChunks)) = uint4{};
    }
    ptx::fence_proxy_async();
    meet();
  }
  // Beyond a tensor's rows are zeros.
  __device__ __forceinline__ void clear_keys() {
    const int rows = tile->sequence.length_kv - tile->row;
    if (rows >= C::kRows || tile->sequence.length_kv == p.mask.length_kv) return;
    clear(shared.k, max(rows, 0));
    clear(shared.v, max(rows, 0));
  }
  __device__ __forceinline__ void clear_queries(unsigned char* a, int j) {
    const int rows = tile->sequence.length_q - j * C::kStream;
    if (rows < C::kStream && tile->sequence.length_q != p.mask.length_q) clear(a, rows);
  }

  // A panel of dq^T = k^T dS, one of this warpgroup's.
  __device__ __forceinline__ void issue_dq(float (&d)[32], int panel, const unsigned char* ds) {
    const std::uint64_t a_base =
        tile::operand_descriptor<128>(shared.k + (kWhich * C::kDqPanels + panel) * C::kPanel, C::kPanel);
    const std::uint64_t b_base = tile::operand_descriptor<128>(ds, 0);
    ptx::pin(d);
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < C::kRows / 16; ++k) {
      ptx::wgmma_ss<T, T, 64, ptx::Major::mn>(d, mn_major_step(a_base, k), k_major_step<64>(b_base, k), k == 0 ? 0 : 1);
    }
    ptx::wgmma_commit_group();
  }
  static __device__ __forceinline__ int rank() { return static_cast<int>(ptx::cluster_ctarank()); }
  // The panel that is made `i`-th: in a cluster, the one that this block adds last.
  __device__ __forceinline__ int panel_at(int i) const { return i ^ rank() ^ 1; }
  // Panel number i is done: to where it is added from.
  __device__ __forceinline__ void pass_dq(const float (&d)[32], int i) {
    if (i == 1) {
      join_dq(d);
    } else {
      send_dq(d);
    }
    // Two panels, one of each consumer, are a tile.
    if (i == 1) adder_turn = adder_turn == 0 ? kWideAdders - 1 : adder_turn - 1;
  }
  // To the other block of the cluster.
  __device__ __forceinline__ void send_dq(const float (&d)[32]) {
    while (!ptx::mbarrier_try_wait_acquire_cluster(&shared.dq_empty[kWhich], (dq_parities >> 1 & 1) ^ 1)) {
    }
    dq_parities ^= 2;
    const auto other = static_cast<std::uint32_t>(rank() ^ 1);
    const std::uint32_t barrier = ptx::mapa(ptx::shared_address(&shared.dq_received[kWhich]), other);
    const std::uint32_t to =
        ptx::mapa(ptx::shared_address(shared.dq[kWhich]) + 16 * static_cast<std::uint32_t>(opaque(thread())), other);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      ptx::st_async(to + i * kWarpgroup * 16, make_float4(d[4 * i], d[4 * i + 1], d[4 * i + 2], d[4 * i + 3]), barrier);
    }
  }
  // To what the other block has sent.
  __device__ __forceinline__ void join_dq(const float (&d)[32]) {
    while (!ptx::mbarrier_try_wait_acquire_cluster(&shared.dq_received[kWhich], dq_parities & 1)) {
    }
    dq_parities ^= 1;
    float4* const to = reinterpret_cast<float4*>(shared.dq[kWhich]) + opaque(thread());
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float4 its = to[i * kWarpgroup];
      to[i * kWarpgroup] =
          make_float4(its.x + d[4 * i], its.y + d[4 * i + 1], its.z + d[4 * i + 2], its.w + d[4 * i + 3]);
    }
    ptx::fence_proxy_async();
    arrive(&shared.dq_full[kWhich][adder_turn]);
  }

  // What the gradient is multiplied by, `held` the tile in shared memory where it is staged: no one reads that any
  // more.
  __device__ __forceinline__ void write(const tile::TensorMap& map, bool writes, unsigned char* held, float* partial,
                                        float factor) {
    if (writes && p.parts > 1) {
      const std::int64_t head = (static_cast<std::int64_t>(tile->part) * p.batch + tile->batch) * p.heads + tile->head;
      write_sums(partial + (head * p.partial_rows + tile->row + place.row()) * kDim + place.column(), out);
    } else if (writes) {
      const int length = tile->sequence.length_kv;
      const bool inside[2] = {tile->row + place.row() < length, tile->row + place.row() + 8 < length};
      stage_gradient<T, C::kRows>(held, place, inside, factor, out);
      ptx::fence_proxy_async();
      meet();
      if (thread() == 0) {
#pragma unroll
        for (int panel = 0; panel < C::kPanels; ++panel) {
          ptx::tma_store_tile_5d(&map, held + panel * C::kPanel, panel * kPanelColumns, tile->row, tile->head,
                                 tile->batch, 0);
        }
        ptx::bulk_commit_group();
        ptx::bulk_wait_group_read<0>();
      }
    }
    if (thread() == 0) ptx::mbarrier_arrive(&shared.held_empty);
  }

  // Through the tiles of queries, all query heads' of one place one after the other: `step` is told of a tile and of
  // the one after it, -1 behind the last.
  template <class Step>
  __device__ __forceinline__ void walk(const Step& step) {
    int j = tile->queries.start;
    int member = 0;  // query head of the group
#pragma unroll 1
    while (j >= 0) {
      const bool is_last = ++member == wide_members(p);
      const int after = is_last ? tile->queries.after(j) : j;
      if (is_last) member = 0;
      step(j, after);
      j = after;
    }
  }

  const FlashWideBackwardParams& p;
  WideShared<C>& shared;
  const WideTile* tile = nullptr;
  FragmentPlace place;
  tile::PipelineState<2> slot;
  tile::PipelineState<2> ds_turn;
  tile::PipelineState<C::kQStages> q_turn;
  std::uint32_t d_o_parity = 0;
  std::uint32_t held_parity = 0;
  std::uint32_t p_parity = 0;
  int adder_turn = 1 - kWhich;    // the second consumer is ahead
  std::uint32_t dq_parities = 0;  // bit 1: of those that are sent
  float out[kDim / 2];
  std::uint32_t weights[C::kStream / 16][4] = {};
};

// P and dv.
template <class C>
class WideScores : private WideConsumer<C, 0> {
  using Base = WideConsumer<C, 0>;
  using T = typename C::Element;

 public:
  __device__ __forceinline__ WideScores(const FlashWideBackwardParams& params, WideShared<C>& memory)
      : Base(params, memory) {}

  __device__ __forceinline__ void run() {
    this->run_tiles(p.dv, p.writes_dv, shared.v, p.partial_dv, 1.0F, [&] {
      start_scores(true);
      ptx::wgmma_wait_group<0>();
      ptx::pin(s);
      make_weights(tile->queries.start);
      bool has_dq = false;
      this->walk([&](int j, int after) {
        step(j, after, has_dq, after >= 0);
        has_dq = true;
      });
      finish();
    });
  }

 private:
  // s -> P.
  __device__ __forceinline__ void probabilities() {
#pragma unroll
    for (int i = 0; i < C::kStream / 8; ++i) {
      const float2 lse = *reinterpret_cast<const float2*>(&shared.lse[q_turn.stage][8 * i + this->place.column()]);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        s[4 * i + e] = ptx::ex2_approx_ftz(fmaf(s[4 * i + e], p.scale_log2, e % 2 == 0 ? -lse.x : -lse.y));
      }
    }
  }
  __device__ __forceinline__ void send() {
    tile::wait(&shared.p_empty, this->p_parity ^ 1);
    this->p_parity ^= 1;
    float4* const to = reinterpret_cast<float4*>(shared.probabilities) + opaque(this->thread());
#pragma unroll
    for (int i = 0; i < 8; ++i) to[i * kWarpgroup] = make_float4(s[4 * i], s[4 * i + 1], s[4 * i + 2], s[4 * i + 3]);
    this->arrive(&shared.p_full);
  }

  // P of tile j of queries, whose S is done, to the other warpgroup and as an operand.
  __device__ __forceinline__ void make_weights(int j) {
    probabilities();
    this->release_stream(&shared.q_empty[q_turn.stage]);
    q_turn.next();
    const int query = j * C::kStream;
    if (is_cut<C::kRows, C::kStream>(p.mask, tile->sequence, tile->row, query)) {
      hide<C::kStream>(p.mask, tile->sequence, tile->row + this->place.row(), query + this->place.column(), s);
    }
    send();
    to_operand<T, C::kStream>(s, this->weights);
  }
  __device__ __forceinline__ void start_scores(bool exists) {
    if (exists) tile::wait(&shared.q_full[q_turn.stage], q_turn.parity);
    issue_product<T, C::kPanels * 4, 64, 64>(s, shared.k, shared.q[q_turn.stage]);
  }

  // dv of tile j, S and P of the next, `after`, dq of the one before. What is made for nothing, dq where there is none
  // and S where there is no more, is a branch less.
  __device__ __forceinline__ void step(int j, int after, bool has_dq, bool has_more) {
    float dq[32];
    tile::wait(&shared.d_o_full, this->d_o_parity);
    this->clear_queries(shared.d_o, j);
    issue_sum<T, C::kStream / 16, C::kDim>(this->out, this->weights, shared.d_o);
    start_scores(has_more);
    const int ds_stage = ds_turn.stage;
    if (has_dq) {
      tile::wait(&shared.ds_full[ds_stage], ds_turn.parity);
      ds_turn.next();
    }
    this->issue_dq(dq, this->panel_at(0), shared.ds[ds_stage]);
    ptx::wgmma_wait_group<2>();
    ptx::pin(this->out);
    ptx::pin(this->weights);
    this->release_stream(&shared.d_o_empty);
    this->d_o_parity ^= 1;
    ptx::wgmma_wait_group<0>();
    ptx::pin(s);
    ptx::pin(dq);
    if (has_dq) this->pass_dq(dq, 0);
    this->issue_dq(dq, this->panel_at(1), shared.ds[ds_stage]);
    if (has_more) make_weights(after);
    ptx::wgmma_wait_group<0>();
    ptx::pin(dq);
    if (has_dq) {
      this->arrive(&shared.ds_empty[ds_stage]);
      this->pass_dq(dq, 1);
    }
  }
  __device__ __forceinline__ void finish() {
    float dq[32];
    tile::wait(&shared.ds_full[ds_turn.stage], ds_turn.parity);
#pragma unroll
    for (int panel = 0; panel < 2; ++panel) {
      this->issue_dq(dq, this->panel_at(panel), shared.ds[ds_turn.stage]);
      ptx::wgmma_wait_group<0>();
      ptx::pin(dq);
      if (panel == 1) this->arrive(&shared.ds_empty[ds_turn.stage]);
      this->pass_dq(dq, panel);
    }
    ds_turn.next();
  }

  using Base::ds_turn;
  using Base::p;
  using Base::q_turn;
  using Base::shared;
  using Base::tile;
  float s[32];
};

// dS and dk.
template <class C>
class WideGradients : private WideConsumer<C, 1> {
  using Base = WideConsumer<C, 1>;
  using T = typename C::Element;

 public:
  __device__ __forceinline__ WideGradients(const FlashWideBackwardParams& params, WideShared<C>& memory)
      : Base(params, memory) {}

  __device__ __forceinline__ void run() {
    this->run_tiles(p.dk, p.writes_dk, shared.k, p.partial_dk, p.scale, [&] {
      start(tile->queries.start, true);
      ptx::wgmma_wait_group<0>();
      ptx::pin(dp);
      this->walk([&](int j, int after) { step(j, after, after >= 0); });
    });
  }

 private:
  __device__ __forceinline__ void start(int j, bool exists) {
    if (exists) {
      tile::wait(&shared.d_o_full, this->d_o_parity);
      this->clear_queries(shared.d_o, j);
    }
    issue_product<T, C::kPanels * 4, 64, 64>(dp, shared.v, shared.d_o);
  }

  // dS in 16 bits.
  __device__ __forceinline__ void score_gradients() {
    const float4* const from = reinterpret_cast<const float4*>(shared.probabilities) + opaque(this->thread());
    const float* const delta = shared.delta + this->place.column();
    tile::wait(&shared.p_full, this->p_parity);
    this->p_parity ^= 1;
#pragma unroll
    for (int i = 0; i < C::kStream / 8; ++i) {
      const float4 its = from[i * kWarpgroup];
      const float2 sums = *reinterpret_cast<const float2*>(delta + 8 * i);
      const float* const d = dp + 4 * i;
      std::uint32_t* const to = this->weights[i / 2] + i % 2 * 2;
      to[0] = pack_halves<T>(its.x * (d[0] - sums.x), its.y * (d[1] - sums.y));
      to[1] = pack_halves<T>(its.z * (d[2] - sums.x), its.w * (d[3] - sums.y));
    }
    this->arrive(&shared.p_empty);
  }
  // dS^T into rows of queries.
  __device__ __forceinline__ void store_ds(unsigned char* ds) {
    const std::uint32_t base = ptx::shared_address(ds);
    const int lane = opaque(this->place.lane);
    const int row = lane / 16 * 8 + lane % 8;
    const int chunk = 2 * this->place.warp + lane / 8 % 2;
#pragma unroll
    for (int i = 0; i < C::kStream / 16; ++i) {
      const std::uint32_t(&words)[4] = this->weights[i];
      ptx::stmatrix_x4_trans(base + swizzled_chunk<64>(16 * i + row, chunk), words[0], words[1], words[2], words[3]);
    }
  }

  // dp is done.
  __device__ __forceinline__ void step(int j, int after, bool has_more) {
    float dq[32];
    score_gradients();
    this->release_stream(&shared.d_o_empty);
    this->d_o_parity ^= 1;
    const int stage = ds_turn.stage;
    tile::wait(&shared.ds_empty[stage], ds_turn.parity ^ 1);
    store_ds(shared.ds[stage]);
    ptx::fence_proxy_async();
    this->arrive(&shared.ds_full[stage]);
    unsigned char* const q = shared.q[this->q_turn.stage];
    tile::wait(&shared.q_full[this->q_turn.stage], this->q_turn.parity);
    this->clear_queries(q, j);
    issue_sum<T, C::kStream / 16, C::kDim>(this->out, this->weights, q);
    tile::wait(&shared.ds_full[stage], ds_turn.parity);
    ds_turn.next();
    this->issue_dq(dq, this->panel_at(0), shared.ds[stage]);
    ptx::wgmma_wait_group<0>();
    ptx::pin(this->out);
    ptx::pin(this->weights);
    ptx::pin(dq);
    this->release_stream(&shared.q_empty[this->q_turn.stage]);
    this->q_turn.next();
    this->pass_dq(dq, 0);
    this->issue_dq(dq, this->panel_at(1), shared.ds[stage]);
    start(after, has_more);
    ptx::wgmma_wait_group<1>();
    ptx::pin(dq);
    this->arrive(&shared.ds_empty[stage]);
    this->pass_dq(dq, 1);
    ptx::wgmma_wait_group<0>();
    ptx::pin(dp);
  }

  using Base::ds_turn;
  using Base::p;
  using Base::shared;
  using Base::tile;
  float dp[32];
};

template <class C>
__global__ void __launch_bounds__(C::kThreads, 1)
    flash_wide_backward_sm90(const __grid_constant__ FlashWideBackwardParams p) {
  unsigned char* const memory = tile::dynamic_shared();
  const std::uint32_t skipped = (1024 - ptx::shared_address(memory) % 1024) % 1024;
  auto& shared = *reinterpret_cast<WideShared<C>*>(memory + skipped);
  const auto rank = static_cast<int>(ptx::cluster_ctarank());
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&shared.held_full, 1);
    ptx::mbarrier_init(&shared.held_empty, 2);
    for (int i = 0; i < C::kQStages; ++i) {
      ptx::mbarrier_init(&shared.q_full[i], 1);
      ptx::mbarrier_init(&shared.q_empty[i], C::kReaders);
    }
    ptx::mbarrier_init(&shared.d_o_full, 1);
    ptx::mbarrier_init(&shared.d_o_empty, C::kReaders);
    for (int i = 0; i < kWideAdders; ++i) {
      for (int which = 0; which < 2; ++which) ptx::mbarrier_init(&shared.dq_full[which][i], 4);
    }
    ptx::mbarrier_init(&shared.p_full, 4);
    ptx::mbarrier_init(&shared.p_empty, 4);
    for (int i = 0; i < 2; ++i) {
      ptx::mbarrier_init(&shared.ds_full[i], 4);
      ptx::mbarrier_init(&shared.ds_empty[i], 8);
      ptx::mbarrier_init(&shared.dq_empty[i], 1);
      ptx::mbarrier_init(&shared.dq_received[i], 1);
      ptx::mbarrier_init(&shared.tile_full[i], 1);
      ptx::mbarrier_init(&shared.tile_empty[i], 8 + kWideAdders);
      ptx::mbarrier_init(&shared.held_read[i], 8);
      ptx::mbarrier_init(&shared.tickets.full[i], 1);
      ptx::mbarrier_init(&shared.tickets.empty[i], 1);
    }
    ptx::fence_mbarrier_init();
    for (int i = 0; i < 2; ++i) ptx::mbarrier_arrive_expect_tx(&shared.dq_received[i], C::kPanelElements * 4);
  }
  __syncthreads();
  ptx::cluster_arrive();
  ptx::cluster_wait();
  ptx::griddepcontrol_wait();  // lse, delta, and what is counted in
  if (threadIdx.x < kWarpgroup) {
    ptx::setmaxnreg_dec<24>();
    if (threadIdx.x == 0) {
      produce_wide<C>(p, rank, shared);
    } else if (threadIdx.x % 32 == 0) {
      add_wide_dq<C>(p, rank, static_cast<int>(threadIdx.x) / 32 - 1, shared);
    }
    __syncwarp();
  } else if (threadIdx.x < 2 * kWarpgroup) {
    ptx::setmaxnreg_inc<240>();
    WideScores<C>(p, shared).run();
  } else {
    ptx::setmaxnreg_inc<240>();
    WideGradients<C>(p, shared).run();
  }
  // What the other block of the cluster sends, and its arrivals, find this one's shared memory.
  ptx::cluster_arrive();
  ptx::cluster_wait();
}

// A block for each tile of dq. A thread has 2 queries and 2 runs of 8 of the head dimension, from 8 lanes' fragments.
template <class C>
__global__ void __launch_bounds__(C::kDqFloats / 32) flash_wide_dq_sm90(const __grid_constant__ FlashWideDqParams p) {
  using T = typename C::Element;
  const std::int64_t slot = blockIdx.x;
  const int j = static_cast<int>(slot % p.query_tiles);
  const int batch_head = static_cast<int>(slot / p.query_tiles);
  const int pair = static_cast<int>(threadIdx.x) % 4;
  const int warp = static_cast<int>(threadIdx.x) / 4 % 4;
  const int rest = static_cast<int>(threadIdx.x) / 16;
  const int panel = rest % C::kPanels;
  const int group = rest / C::kPanels;
  const int column = kPanelColumns * panel + 16 * warp;
  const int query = j * C::kStream + 8 * group + 2 * pair;
  ptx::griddepcontrol_wait();
  if (query >= p.length || column >= p.dim) return;
  const float4* const from = reinterpret_cast<const float4*>(p.tiles + slot * C::kDqFloats) +
                             (panel * 8 + group) * kWarpgroup + warp * 32 + pair;
  write_dq<T>(p.added[slot * kFlashWideWords] != 0 ? from : nullptr, p.scale, p.dq,
              row_offset(p.dq, batch_head / p.heads, batch_head % p.heads, query) + column, p.length - query,
              p.dim - column);
}

// A thread has 8 columns of a row, grid.y counts batch and heads.
constexpr int kWideSumThreads = 256;
template <class T>
__global__ void __launch_bounds__(kWideSumThreads) flash_wide_sums_sm90(const __grid_constant__ FlashWideSumParams p) {
  const int chunks = p.built_dim / 8;
  const auto index = static_cast<std::int64_t>(blockIdx.x) * kWideSumThreads + threadIdx.x;
  const std::int64_t row = index / chunks;
  const auto column = 8 * static_cast<int>(index % chunks);
  const int batch = static_cast<int>(blockIdx.y) / p.heads;
  if (row >= p.mask.length_kv || column >= p.dim) return;
  float sum[8] = {};
  if (row < sequence_of(p.mask, batch).length_kv) {
    const std::int64_t step = p.rows * p.built_dim;
    const float* from = p.partial + blockIdx.y * step + row * p.built_dim + column;
#pragma unroll 4
    for (int part = 0; part < p.parts; ++part, from += gridDim.y * step) {
      const float4 low = reinterpret_cast<const float4*>(from)[0];
      const float4 high = reinterpret_cast<const float4*>(from)[1];
      const float values[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
      for (int e = 0; e < 8; ++e) sum[e] += values[e];
    }
  }
#pragma unroll
  for (float& value : sum) value *= p.scale;
  T* const to =
      static_cast<T*>(p.out.data) + row_offset(p.out, batch, static_cast<int>(blockIdx.y) % p.heads, row) + column;
  tile::store_pack(to, tile::narrow_pack<T>(sum));
}

}  // namespace gpudnn::kernels::flash_sm90
