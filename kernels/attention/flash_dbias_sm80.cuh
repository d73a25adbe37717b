// The gradient of attention's bias by mma.sync, for every GPU from Ampere on: dS of flash_gradient_rows.cuh, summed
// over the dimensions in which dBias has 1.
//
// A block makes a tile of 64 x 64 elements of dBias. It visits what they stand for, batches and heads (and tiles of
// rows or columns where those are summed), one after the other, makes scores and dP again, and keeps the sums of dS in
// registers: two products for each visit, no memory for dS. Products come in panels of 64 elements of the head
// dimension, q and k first, then dO and v, through a ring of three stages, so one instance takes every head dimension.
// Where the tiles are fewer than the device holds, blocks share the visits of a tile (`splits`); each leaves its sums
// in float, and a second kernel adds them in the order of the splits.
//
// A panel is 16 KiB for 0.52 million operations: 32 a byte of the L2's. Three blocks share a multiprocessor, as each
// waits for the bias, lse and delta of an item.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_dbias_sm80.hpp"
#include "kernels/attention/flash_dbias_walk.cuh"
#include "kernels/attention/flash_gather_load.cuh"
#include "kernels/attention/flash_gradient_rows.cuh"
#include "kernels/attention/flash_mma_sm80.cuh"

namespace gpudnn::kernels::flash_sm80 {

constexpr int kDbiasThreads = 128;
constexpr int kDbiasStages = 3;
constexpr int kDbiasWarpsAcross = 2;
constexpr int kDbiasBlocks = 2;    // of 16 rows, of a warp
constexpr int kDbiasColumns = 32;  // of a warp
constexpr int kDbiasPad = 1;
constexpr int kDbiasItems = 4;

struct DbiasShared {
  struct Stage {
    alignas(128) unsigned char a[kFlashDbiasRows * kPanelBytes];
    alignas(128) unsigned char b[kFlashDbiasColumns * kPanelBytes];
  };
  union {
    Stage stages[kDbiasStages];
    float sums[kFlashDbiasRows][kFlashDbiasColumns + kDbiasPad];
  };
  // The items under way: copies are two panels ahead, and an item has two at least.
  GradientTile items[kDbiasItems];
  int columns[kDbiasItems];
};

using flash::DbiasTile;
using DbiasWalk = flash::DbiasWalk<kFlashDbiasRows, kFlashDbiasColumns>;

template <class T>
class Dbias {
  using Rows = GradientRows<kDbiasColumns, false, false>;
  using Scores = float[kDbiasBlocks][kDbiasColumns / 2];

 public:
  __device__ __forceinline__ Dbias(const FlashDbiasParams& params, const DbiasTile& its, DbiasShared& memory)
      : p(params),
        tile(its),
        shared(memory),
        qk_panels((params.base.problem.dim_qk + kPanelColumns - 1) / kPanelColumns),
        panels(qk_panels + (params.base.problem.dim_v + kPanelColumns - 1) / kPanelColumns) {}

  __device__ __forceinline__ void run() {
    DbiasWalk loads(p, tile);
    int load_panel = 0;
    int load_item = 0;
    int load_stage = 0;
    const auto load = [&] {
      if (!loads.is_done()) {
        if (load_panel == 0 && threadIdx.x == 0) describe(loads, load_item % kDbiasItems);
        load_panel_of(loads, load_panel, shared.stages[load_stage]);
        load_stage = load_stage + 1 == kDbiasStages ? 0 : load_stage + 1;
        if (++load_panel == panels) {
          load_panel = 0;
          ++load_item;
          loads.next();
        }
      }
      ptx::cp_async_commit_group();
    };
    for (int i = 0; i + 1 < kDbiasStages; ++i) load();
    int stage = 0;
#pragma unroll 1
    for (int item = 0; item < load_item || load_panel > 0; ++item) {
      Scores s = {};
      Scores dp = {};
#pragma unroll 1
      for (int panel = 0; panel < panels; ++panel) {
        ptx::cp_async_wait_group<kDbiasStages - 2>();
        __syncthreads();  // the stage is there, and the one before has been read by all
        load();
        if (panel < qk_panels) {
          multiply(shared.stages[stage], s);
        } else {
          multiply(shared.stages[stage], dp);
        }
        stage = stage + 1 == kDbiasStages ? 0 : stage + 1;
      }
      add(item % kDbiasItems, s, dp);
    }
    ptx::cp_async_wait_group<0>();
    __syncthreads();
    write();
  }

 private:
  [[nodiscard]] static __device__ __forceinline__ int warp_row() {
    return static_cast<int>(threadIdx.x) / 32 / kDbiasWarpsAcross * 16 * kDbiasBlocks;
  }
  [[nodiscard]] static __device__ __forceinline__ int warp_column() {
    return static_cast<int>(threadIdx.x) / 32 % kDbiasWarpsAcross * kDbiasColumns;
  }

  __device__ __forceinline__ void describe(const DbiasWalk& walk, int item) {
    GradientTile its{};
    its.batch = walk.batch();
    its.head = walk.head();
    its.row = walk.row();
    its.sequence = sequence_of(p.base.mask, its.batch);
    shared.items[item] = its;
    shared.columns[item] = walk.column();
  }

  __device__ __forceinline__ void load_panel_of(const DbiasWalk& walk, int panel, DbiasShared::Stage& stage) const {
    const AttentionParams& a = p.base.problem;
    const FlashElementwise& each = p.base.elementwise;
    const RowGather<kPanelColumns, kFlashDbiasRows, kDbiasThreads, true> rows;
    const RowGather<kPanelColumns, kFlashDbiasColumns, kDbiasThreads, true> columns;
    const tile::FastDivmod no_pages;
    const Sequence s = sequence_of(p.base.mask, walk.batch());
    const bool of_v = panel >= qk_panels;
    const int first = (of_v ? panel - qk_panels : panel) * kPanelColumns;
    const int dim = (of_v ? a.dim_v : a.dim_qk) - first;
    GatherSource source =
        gather_source(of_v ? a.d_o : a.q, walk.batch(), walk.head(), s.length_q, dim, !(of_v ? each.d_o : each.q));
    source.data += first * source.step;
    rows.copy_tile(source, no_pages, 0, walk.row() / kFlashDbiasRows, stage.a);
    const int group = of_v ? p.group_v : p.base.group;
    source =
        gather_source(of_v ? a.v : a.k, walk.batch(), walk.head() / group, s.length_kv, dim, !(of_v ? each.v : each.k));
    source.data += first * source.step;
    columns.copy_tile(source, no_pages, 0, walk.column() / kFlashDbiasColumns, stage.b);
  }

  __device__ __forceinline__ void multiply(const DbiasShared::Stage& stage, Scores& sums) const {
    add_row_products<T, kDbiasBlocks, kDbiasColumns, kPanelColumns, kFlashDbiasRows, kFlashDbiasColumns>(
        shared_address(stage.a), warp_row(), shared_address(stage.b), warp_column(), sums);
  }

  // The sums of products of an item to dS.
  __device__ __forceinline__ void add(int item, Scores& s, Scores& dp) {
    const GradientTile& its = shared.items[item];
    const int begin = shared.columns[item] + warp_column();
    const bool is_cut =
        is_gradient_cut<false>(p.base.mask, its.sequence, its.row, kFlashDbiasRows, begin, kDbiasColumns);
#pragma unroll
    for (int m = 0; m < kDbiasBlocks; ++m) {
      Rows rows(p.base, its, warp_row() + 16 * m + static_cast<int>(threadIdx.x) % 32 / 4);
      rows.set_head(its.head);
      rows.load_row_values(its.head);
      rows.draw(begin);
      rows.probabilities(begin, nullptr, is_cut, s[m]);
      if (p.base.problem.has_dropout) rows.keep(dp[m]);
      rows.score_gradients(s[m], nullptr, dp[m]);
#pragma unroll
      for (int i = 0; i < kDbiasColumns / 2; ++i) sums[m][i] += dp[m][i];
    }
  }

  __device__ __forceinline__ void write() {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int m = 0; m < kDbiasBlocks; ++m) {
#pragma unroll
      for (int i = 0; i < kDbiasColumns / 2; ++i) {
        const int row = warp_row() + 16 * m + lane / 4 + i / 2 % 2 * 8;
        shared.sums[row][warp_column() + i / 4 * 8 + lane % 4 * 2 + i % 2] = sums[m][i];
      }
    }
    __syncthreads();
    const AttentionParams& a = p.base.problem;
    const bool one_row = a.dbias_dims[2] == 1;
    const bool one_column = a.dbias_dims[3] == 1;
    const int rows = one_row ? 1 : kFlashDbiasRows;
    const int columns = one_column ? 1 : kFlashDbiasColumns;
    for (int e = static_cast<int>(threadIdx.x); e < rows * columns; e += kDbiasThreads) {
      const std::int64_t row = std::int64_t{tile.row_tile} * kFlashDbiasRows + e / columns;
      const std::int64_t column = std::int64_t{tile.column_tile} * kFlashDbiasColumns + e % columns;
      if (row >= a.dbias_dims[2] || column >= a.dbias_dims[3]) continue;
      // An element that stands for all rows or columns is the sum of them, in their order.
      float sum = 0.0F;
      for (int i = 0; i < (one_row ? kFlashDbiasRows : 1); ++i) {
        for (int j = 0; j < (one_column ? kFlashDbiasColumns : 1); ++j) {
          sum += shared.sums[e / columns + i][e % columns + j];
        }
      }
      if (p.splits > 1) {
        const std::int64_t head = tile.batch * a.dbias_dims[1] + tile.head;
        p.partial[tile.split * p.elements + (head * a.dbias_dims[2] + row) * a.dbias_dims[3] + column] = sum;
      } else {
        attention_simt::store_element(a.dbias.type, a.dbias.data,
                                      bias_offset(a.dbias, tile.batch, tile.head, row, column), sum);
      }
    }
  }

  const FlashDbiasParams& p;
  const DbiasTile& tile;
  DbiasShared& shared;
  const int qk_panels;
  const int panels;
  float sums[kDbiasBlocks][kDbiasColumns / 2] = {};
};

template <class T>
__global__ void __launch_bounds__(kDbiasThreads, 3) flash_dbias_sm80(const __grid_constant__ FlashDbiasParams p) {
  auto& shared = *aligned_shared<DbiasShared>();
  const DbiasTile tile = flash::dbias_tile(p, static_cast<int>(blockIdx.x));
  Dbias<T>(p, tile, shared).run();
}

// The sums of the splits, in their order.
__global__ void __launch_bounds__(256) flash_dbias_sums(const __grid_constant__ FlashDbiasParams p) {
  const AttentionParams& a = p.base.problem;
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (index >= p.elements) return;
  float sum = 0.0F;
#pragma unroll 8
  for (int split = 0; split < p.splits; ++split) sum += p.partial[split * p.elements + index];
  const std::int64_t column = index % a.dbias_dims[3];
  const std::int64_t row = index / a.dbias_dims[3] % a.dbias_dims[2];
  const std::int64_t head = index / a.dbias_dims[3] / a.dbias_dims[2] % a.dbias_dims[1];
  const std::int64_t batch = index / a.dbias_dims[3] / a.dbias_dims[2] / a.dbias_dims[1];
  attention_simt::store_element(a.dbias.type, a.dbias.data, bias_offset(a.dbias, batch, head, row, column), sum);
}

}  // namespace gpudnn::kernels::flash_sm80
