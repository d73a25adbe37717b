// Attention backward by mma.sync in 16-bit types, for every GPU from Ampere on: what flash_gather_backward_sm90 takes,
// and any strides, head dimensions and alignments. Reproducible: no sum crosses blocks.
//
//   P = 2^(y - lse),  dP = kept (dO v^T),  dS = P (dP - delta)           (flash_gradient_rows.cuh)
//   dv = (kept P)^T dO;  dq, dk = scale (1 - tanh^2) dS k, its transpose times q
//
// As in flash_gather_backward_sm90, a block holds a tile of rows of two tensors (q and dO for dq; k and v for dk and
// dv) while tiles of the other two stream by through two stages. Scores are made with the held rows as the
// instruction's rows, so P and dS come out of one product as the operand of the next: nothing goes through shared
// memory. dq and dk, dv in kernels of their own make seven products of what a fused kernel with sums in memory makes by
// five; beyond a head dimension of 128 registers hold one of dk and dv, and it is eight.
//
// Of a step of 16 held rows and 32 that stream by, at D = 128, a warp reads 40 KiB of shared memory (320 cycles) for
// 524 thousand operations: 1638 a cycle, less than the 2048 of an A100's tensor cores. Two row blocks of a warp would
// read 24, but dk and dv fill 256 registers then; up to 64 they fit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_gather_load.cuh"
#include "kernels/attention/flash_gradient_rows.cuh"
#include "kernels/attention/flash_mma_sm80.cuh"
#include "kernels/attention/flash_sm80.hpp"
#include "kernels/tile/dynamic_shared.cuh"

namespace gpudnn::kernels::flash_sm80 {

template <class Element, int kDim_, FlashGradient kGradient_>
struct BackwardConfig {
  using T = Element;
  static constexpr int kDim = kDim_;
  static constexpr FlashGradient kGradient = kGradient_;
  static constexpr bool kOfKeys = kGradient != FlashGradient::dq;
  static constexpr bool kMakesDv = kGradient == FlashGradient::dk_dv || kGradient == FlashGradient::dv;
  static constexpr bool kMakesFirst = kGradient != FlashGradient::dv;  // dq or dk, of dS
  static constexpr int kRows = flash_sm80_held(kDim);
  static constexpr int kStream = flash_sm80_stream(kDim);
  static constexpr int kWarps = kDim == 128 ? 8 : 4;
  static constexpr int kBlocks = kRows / kWarps / 16;  // of 16 rows, of a warp
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kBlocksOfMultiprocessor = kDim == 64 ? 2 : 1;
  static constexpr int kStages = 2;
};

template <class C>
struct BackwardShared {
  alignas(128) unsigned char a1[C::kRows * C::kDim * 2];
  alignas(128) unsigned char a2[C::kRows * C::kDim * 2];
  alignas(128) unsigned char b1[C::kStages][C::kStream * C::kDim * 2];
  alignas(128) unsigned char b2[C::kStages][C::kStream * C::kDim * 2];
  alignas(16) float lse[C::kStages][C::kStream];
  alignas(16) float delta[C::kStages][C::kStream];
  GradientTile tile;  // registers are for sums
};

template <class C>
class Backward {
  using T = typename C::T;
  using Rows = GradientRows<C::kStream, C::kOfKeys, false>;
  using Sums = float[C::kBlocks][C::kDim / 2];
  using Scores = float[C::kBlocks][C::kStream / 2];

 public:
  __device__ __forceinline__ Backward(const FlashGatherBackwardParams& params, BackwardShared<C>& memory)
      : p(params),
        shared(memory),
        tile(memory.tile),
        rows([&](int m) { return Rows(params, memory.tile, fragment_row() + 16 * m); }) {}

  __device__ __forceinline__ void run() {
    if (tile.end > tile.first) multiply();
    // Every warp stages where its own rows of a1 and a2 were; copies into them have ended for all.
    const AttentionParams& a = p.problem;
    if constexpr (C::kGradient == FlashGradient::dq) {
      write(a.dq, a.dim_qk, !p.elementwise.dq, shared.a1, p.scale, first);
    } else if constexpr (C::kMakesFirst) {
      write(a.dk, a.dim_qk, !p.elementwise.dk, shared.a1, p.scale, first);
    }
    if constexpr (C::kMakesDv) write(a.dv, a.dim_v, !p.elementwise.dv, shared.a2, 1.0F, second);
  }

 private:
  [[nodiscard]] static __device__ __forceinline__ int first_row() {
    return static_cast<int>(threadIdx.x) / 32 * 16 * C::kBlocks;
  }
  [[nodiscard]] static __device__ __forceinline__ int fragment_row() {
    return first_row() + static_cast<int>(threadIdx.x) % 32 / 4;
  }

  [[nodiscard]] __device__ __forceinline__ GatherSource of_q(bool is_d_o, int head) const {
    const AttentionParams& a = p.problem;
    return gather_source(is_d_o ? a.d_o : a.q, tile.batch, head, tile.sequence.length_q, is_d_o ? a.dim_v : a.dim_qk,
                         !(is_d_o ? p.elementwise.d_o : p.elementwise.q));
  }
  [[nodiscard]] __device__ __forceinline__ GatherSource of_k(bool is_v, int head) const {
    const AttentionParams& a = p.problem;
    return gather_source(is_v ? a.v : a.k, tile.batch, head, tile.sequence.length_kv, is_v ? a.dim_v : a.dim_qk,
                         !(is_v ? p.elementwise.v : p.elementwise.k));
  }

  // The head of q that turn `member` of the group has.
  [[nodiscard]] __device__ __forceinline__ int head_of(int member) const {
    return C::kOfKeys ? tile.head * p.group + member : tile.head;
  }

  __device__ __forceinline__ void load_held() {
    const RowGather<C::kDim, C::kRows, C::kThreads, true> gather;
    const tile::FastDivmod no_pages;
#pragma unroll 1
    for (int which = 0; which < 2; ++which) {
      const GatherSource source = C::kOfKeys ? of_k(which != 0, tile.head) : of_q(which != 0, tile.head);
      gather.copy_tile(source, no_pages, 0, tile.row / C::kRows, which != 0 ? shared.a2 : shared.a1);
    }
  }
  __device__ __forceinline__ void load_stream(int member, int j, int stage) {
    const RowGather<C::kDim, C::kStream, C::kThreads, true> gather;
    const tile::FastDivmod no_pages;
    const int head = C::kOfKeys ? head_of(member) : tile.head / p.group;
#pragma unroll 1
    for (int which = 0; which < 2; ++which) {
      const GatherSource source = C::kOfKeys ? of_q(which != 0, head) : of_k(which != 0, head);
      gather.copy_tile(source, no_pages, 0, j, which != 0 ? shared.b2[stage] : shared.b1[stage]);
    }
    if constexpr (C::kOfKeys) {
      const std::int64_t at = (static_cast<std::int64_t>(tile.batch) * p.problem.heads_q + head) * p.pitch +
                              static_cast<std::int64_t>(j) * C::kStream;
      const int lane = static_cast<int>(threadIdx.x);
      if (lane < C::kStream) {
        ptx::cp_async<4>(shared_address(&shared.lse[stage][lane]), p.lse + at + lane, 4);
      } else if (lane < 2 * C::kStream) {
        const int row = lane - C::kStream;
        ptx::cp_async<4>(shared_address(&shared.delta[stage][row]), p.delta + at + row, 4);
      }
    }
    ptx::cp_async_commit_group();
  }

  __device__ __forceinline__ void multiply() {
    if constexpr (!C::kOfKeys) {
#pragma unroll
      for (int m = 0; m < C::kBlocks; ++m) rows[m].load_row_values(tile.head);
    }
    load_held();
    load_stream(0, tile.first, 0);
    int stage = 0;
#pragma unroll 1
    for (int member = 0; member < tile.group; ++member) {
#pragma unroll
      for (int m = 0; m < C::kBlocks; ++m) rows[m].set_head(head_of(member));
#pragma unroll 1
      for (int j = tile.first; j < tile.end; ++j) {
        ptx::cp_async_wait_group<0>();
        __syncthreads();  // this stage is there, and no warp reads the other one any more
        const bool is_last = j + 1 == tile.end;
        if (!is_last || member + 1 < tile.group) {
          load_stream(is_last ? member + 1 : member, is_last ? tile.first : j + 1, stage ^ 1);
        }
        step(j, stage);
        stage ^= 1;
      }
    }
    __syncthreads();
  }

  __device__ __forceinline__ void step(int j, int stage) {
    const std::uint32_t b1 = shared_address(shared.b1[stage]);
    const std::uint32_t b2 = shared_address(shared.b2[stage]);
    const int begin = j * C::kStream;
    const bool is_cut = is_gradient_cut<C::kOfKeys>(p.mask, tile.sequence, tile.row, C::kRows, begin, C::kStream);
    Scores s = {};
    add_row_products<T, C::kBlocks, C::kStream, C::kDim, C::kRows, C::kStream>(shared_address(shared.a1), first_row(),
                                                                               b1, 0, s);
    std::uint32_t weights[C::kBlocks][C::kStream / 16][4];
#pragma unroll
    for (int m = 0; m < C::kBlocks; ++m) {
      rows[m].draw(begin);
      rows[m].probabilities(begin, shared.lse[stage], is_cut, s[m]);
    }
    if constexpr (C::kMakesDv) {
#pragma unroll
      for (int m = 0; m < C::kBlocks; ++m) {
        float kept[C::kStream / 2];
#pragma unroll
        for (int i = 0; i < C::kStream / 2; ++i) kept[i] = s[m][i];
        if (p.problem.has_dropout) rows[m].keep(kept);
        to_operand<T, C::kStream>(kept, weights[m]);
      }
      add_weighted_rows<T, C::kBlocks, C::kDim, C::kStream>(weights, b2, second);
    }
    if constexpr (C::kMakesFirst) {
      Scores dp = {};
      add_row_products<T, C::kBlocks, C::kStream, C::kDim, C::kRows, C::kStream>(shared_address(shared.a2), first_row(),
                                                                                 b2, 0, dp);
#pragma unroll
      for (int m = 0; m < C::kBlocks; ++m) {
        if (p.problem.has_dropout) rows[m].keep(dp[m]);
        rows[m].score_gradients(s[m], shared.delta[stage], dp[m]);
        rows[m].multiply_slopes(dp[m]);
        to_operand<T, C::kStream>(dp[m], weights[m]);
      }
      add_weighted_rows<T, C::kBlocks, C::kDim, C::kStream>(weights, b1, first);
    }
  }

  __device__ __forceinline__ void write(const AttentionTensor& tensor, int dim, bool vectors, unsigned char* held,
                                        float factor, const Sums& out) {
    if (tensor.data == nullptr) return;
#pragma unroll
    for (int m = 0; m < C::kBlocks; ++m) {
      const int row = first_row() + 16 * m;
      stage_rows<T, C::kDim, C::kRows>(held, row, factor, out[m]);
      __syncwarp();
      write_gradient_rows<C::kDim, C::kRows, C::kOfKeys, true>(p, tile, tensor, dim, vectors, held, row,
                                                               tile.row + row);
    }
  }

  const FlashGatherBackwardParams& p;
  BackwardShared<C>& shared;
  const GradientTile& tile;
  RowBlocks<Rows, C::kBlocks> rows;
  float first[C::kMakesFirst ? C::kBlocks : 1][C::kMakesFirst ? C::kDim / 2 : 1] = {};  // dq or dk
  float second[C::kMakesDv ? C::kBlocks : 1][C::kMakesDv ? C::kDim / 2 : 1] = {};       // dv
};

template <class C>
__global__ void __launch_bounds__(C::kThreads, C::kBlocksOfMultiprocessor)
    flash_backward_sm80(const __grid_constant__ FlashGatherBackwardParams p) {
  auto& shared = *aligned_shared<BackwardShared<C>>();
  if (threadIdx.x == 0) shared.tile = gradient_tile<C>(p);
  __syncthreads();
  Backward<C>(p, shared).run();
}

}  // namespace gpudnn::kernels::flash_sm80
