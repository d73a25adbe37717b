// Which batches, heads and tiles a block of the kernels of dBias visits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_dbias_sm80.hpp"
#include "kernels/attention/flash_tile.cuh"

namespace gpudnn::kernels::flash {

struct DbiasTile {
  int batch, head, row_tile, column_tile, split;
};

// Walks over what a tile of dBias stands for: batches, heads, tiles of rows and of columns, columns fastest. Items of
// which no row sees a column are left out.
template <int kRows, int kColumns>
class DbiasWalk {
 public:
  __device__ __forceinline__ DbiasWalk(const FlashDbiasParams& params, const DbiasTile& its) : p(params), tile(its) {
    const std::int64_t count = std::int64_t{p.visits[0]} * p.visits[1] * p.visits[2] * p.visits[3];
    std::int64_t first = count * tile.split / p.splits;
    left_ = count * (tile.split + 1) / p.splits - first;
    column_ = static_cast<int>(first % p.visits[3]);
    first /= p.visits[3];
    row_ = static_cast<int>(first % p.visits[2]);
    first /= p.visits[2];
    head_ = static_cast<int>(first % p.visits[1]);
    batch_ = static_cast<int>(first / p.visits[1]);
    find();
  }
  [[nodiscard]] __device__ __forceinline__ bool is_done() const { return left_ <= 0; }
  __device__ __forceinline__ void next() {
    step();
    find();
  }
  [[nodiscard]] __device__ __forceinline__ int batch() const { return batch_ + tile.batch; }
  [[nodiscard]] __device__ __forceinline__ int head() const { return head_ + tile.head; }
  [[nodiscard]] __device__ __forceinline__ int row() const { return (row_ + tile.row_tile) * kRows; }
  [[nodiscard]] __device__ __forceinline__ int column() const { return (column_ + tile.column_tile) * kColumns; }

 private:
  __device__ __forceinline__ void step() {
    --left_;
    if (++column_ < p.visits[3]) return;
    column_ = 0;
    if (++row_ < p.visits[2]) return;
    row_ = 0;
    if (++head_ < p.visits[1]) return;
    head_ = 0;
    ++batch_;
  }
  __device__ __forceinline__ void find() {
    const FlashMask& mask = p.base.mask;
    for (; left_ > 0; step()) {
      const Sequence s = sequence_of(mask, batch());
      const int last = min(row() + kRows, s.length_q) - 1;
      if (last < row()) continue;
      if (first_column(mask, s, row()) < column() + kColumns && end_column(mask, s, last) > column()) return;
    }
  }

  const FlashDbiasParams& p;
  const DbiasTile& tile;
  std::int64_t left_;
  int batch_, head_, row_, column_;
};

// Splits fastest, then tiles of columns, of rows, heads.
__device__ __forceinline__ DbiasTile dbias_tile(const FlashDbiasParams& p, int number) {
  const auto heads = static_cast<int>(p.base.problem.dbias_dims[1]);
  DbiasTile tile;
  tile.split = number % p.splits;
  number /= p.splits;
  tile.column_tile = number % p.column_tiles;
  number /= p.column_tiles;
  tile.row_tile = number % p.row_tiles;
  number /= p.row_tiles;
  tile.head = number % heads;
  tile.batch = number / heads;
  return tile;
}

}  // namespace gpudnn::kernels::flash
