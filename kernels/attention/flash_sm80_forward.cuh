// Attention forward by mma.sync in 16-bit types, for every GPU from Ampere on: what flash_gather_sm90 takes, and any
// strides, head dimensions and alignments.
//
//   o = dropout(softmax(scores)) v, by online softmax
//
// A block of 4 warps makes 128 rows of o (64 of more than 128 columns), a warp a quarter of them: two row blocks of an
// instruction's 16, so that what ldmatrix reads of k and v serves two instructions. q stays in shared memory. k and v
// have one tile each: the next v comes by cp.async beside the scores, the next k beside softmax and the product with v.
// 64 KiB at most, so two blocks share a multiprocessor of 128 KiB, and fill the waits of each other; one fits where a
// block may have 99 KiB.
//
// Rows come as those of flash_gather_sm90 do: packed heads, splits, pages, ragged starts. A row whose elements are no
// neighbours at a multiple of 16 bytes is read element by element.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_forward_rows.cuh"
#include "kernels/attention/flash_gather_load.cuh"
#include "kernels/attention/flash_mma_sm80.cuh"
#include "kernels/attention/flash_sm80.hpp"
#include "kernels/tile/dynamic_shared.cuh"

namespace gpudnn::kernels::flash_sm80 {

template <class Element, int kDim_>
struct ForwardConfig {
  using T = Element;
  static constexpr int kDim = kDim_;
  static constexpr int kWarps = 4;
  static constexpr int kRows = flash_sm80_rows(kDim);
  static constexpr int kBlocks = kRows / kWarps / 16;  // of 16 rows, of a warp
  static constexpr int kColumns = flash_sm80_columns(kDim);
  static constexpr int kThreads = 32 * kWarps;
};

template <class C>
struct ForwardShared {
  alignas(128) unsigned char q[C::kRows * C::kDim * 2];
  alignas(128) unsigned char k[C::kColumns * C::kDim * 2];
  alignas(128) unsigned char v[C::kColumns * C::kDim * 2];
  // What the block works on: registers are for sums.
  GatherTile tile;
  GatherSource k_source, v_source;
};

template <class C>
class Forward {
  using T = typename C::T;
  using Rows = ForwardRows<C::kColumns, RowsOfSm80>;
  using Columns = RowGather<C::kDim, C::kColumns, C::kThreads, true>;

 public:
  __device__ __forceinline__ Forward(const FlashGatherParams& params, ForwardShared<C>& memory)
      : p(params),
        shared(memory),
        tile(memory.tile),
        rows([&](int m) { return Rows(params, memory.tile, fragment_row() + 16 * m); }) {}

  __device__ __forceinline__ void run() {
    if (tile.end > tile.first) multiply();
#pragma unroll
    for (int m = 0; m < C::kBlocks; ++m) {
      rows[m].finish_sums();
      if (p.splits > 1) {
        rows[m].template write_partial<C::kDim>(out[m]);
        continue;
      }
      rows[m].template write<T, C::kDim, true>(out[m]);
    }
  }

 private:
  [[nodiscard]] static __device__ __forceinline__ int first_row() {
    return static_cast<int>(threadIdx.x) / 32 * 16 * C::kBlocks;
  }
  [[nodiscard]] static __device__ __forceinline__ int fragment_row() {
    return first_row() + static_cast<int>(threadIdx.x) % 32 / 4;
  }

  __device__ __forceinline__ void load_q() {
    const AttentionParams& a = p.problem;
    const RowGather<C::kDim, C::kRows, C::kThreads, true> gather;
    const int packed = static_cast<int>(p.packed.divisor);
    const GatherSource q =
        gather_source(a.q, tile.batch, tile.head * packed, tile.sequence.length_q, a.dim_qk, !p.elementwise.q);
    std::uint32_t member;
    const auto row = static_cast<int>(p.packed.divmod(static_cast<std::uint32_t>(tile.row + gather.row()), &member));
    gather.copy_rows(q, row < q.length ? row * a.q.strides[2] + member * a.q.strides[1] : -1, shared.q);
  }

  // The table's entry of the tile after is asked for beside the copies of this one.
  __device__ __forceinline__ void load_k(int j) {
    columns.copy_tile(shared.k_source, p.page_rows_k, k_entry, j, shared.k);
    k_entry = columns.entry(shared.k_source, p.page_rows_k, j - 1);
    ptx::cp_async_commit_group();
  }
  __device__ __forceinline__ void load_v(int j) {
    columns.copy_tile(shared.v_source, p.page_rows_v, v_entry, j, shared.v);
    v_entry = columns.entry(shared.v_source, p.page_rows_v, j - 1);
    ptx::cp_async_commit_group();
  }

  __device__ __forceinline__ void multiply() {
    // Warps whose rows all lie beyond the tile's have nothing to multiply.
    const bool works = tile.row + first_row() < p.rows;
    k_entry = columns.entry(shared.k_source, p.page_rows_k, tile.end - 1);
    v_entry = columns.entry(shared.v_source, p.page_rows_v, tile.end - 1);
    load_q();
    load_k(tile.end - 1);
#pragma unroll 1
    for (int j = tile.end - 1; j >= tile.first; --j) {
      ptx::cp_async_wait_group<0>();
      __syncthreads();  // k is there, and no warp reads the last v any more
      load_v(j);
      float s[C::kBlocks][C::kColumns / 2] = {};
      if (works) {
        add_row_products<T, C::kBlocks, C::kColumns, C::kDim, C::kRows, C::kColumns>(
            shared_address(shared.q), first_row(), shared_address(shared.k), 0, s);
      }
      ptx::cp_async_wait_group<0>();
      __syncthreads();  // v is there, and no warp reads k any more
      if (j > tile.first) load_k(j - 1);
      if (works) step(j, s);
    }
  }

  __device__ __forceinline__ void step(int j, float (&s)[C::kBlocks][C::kColumns / 2]) {
    std::uint32_t weights[C::kBlocks][C::kColumns / 16][4];
    const bool is_cut = rows[0].is_cut(j);
#pragma unroll
    for (int m = 0; m < C::kBlocks; ++m) {
      float corrections[2];
      rows[m].softmax(is_cut, j, s[m], corrections);
      to_operand<T, C::kColumns>(s[m], weights[m]);
      rows[m].drop(j, weights[m]);
      // Maxima seldom grow beyond the first tiles.
      if (__any_sync(0xffffffffu, corrections[0] != 1.0F || corrections[1] != 1.0F)) {
#pragma unroll
        for (int i = 0; i < C::kDim / 2; ++i) out[m][i] *= corrections[i / 2 % 2];
      }
    }
    add_weighted_rows<T, C::kBlocks, C::kDim, C::kColumns>(weights, shared_address(shared.v), out);
  }

  const FlashGatherParams& p;
  ForwardShared<C>& shared;
  const GatherTile& tile;
  Columns columns;
  int k_entry = 0;
  int v_entry = 0;
  RowBlocks<Rows, C::kBlocks> rows;
  float out[C::kBlocks][C::kDim / 2] = {};
};

template <class C>
__global__ void __launch_bounds__(C::kThreads, 2) flash_forward_sm80(const __grid_constant__ FlashGatherParams p) {
  auto& shared = *aligned_shared<ForwardShared<C>>();
  if (threadIdx.x == 0) {
    const AttentionParams& a = p.problem;
    const GatherTile tile = gather_tile<C>(p, static_cast<int>(blockIdx.x));
    const int length = tile.sequence.length_kv;
    shared.tile = tile;
    shared.k_source =
        gather_source(a.k, tile.batch, static_cast<int>(p.group_k.quotient(static_cast<std::uint32_t>(tile.head))),
                      length, a.dim_qk, !p.elementwise.k);
    shared.v_source =
        gather_source(a.v, tile.batch, static_cast<int>(p.group_v.quotient(static_cast<std::uint32_t>(tile.head))),
                      length, a.dim_v, !p.elementwise.v);
  }
  __syncthreads();
  Forward<C>(p, shared).run();
}

}  // namespace gpudnn::kernels::flash_sm80
