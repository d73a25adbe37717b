// The producer of flash_gather_sm90: rows of q, k and v to shared memory by cp.async, each row from its own address,
// and whole tiles by TMA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_gather.hpp"
#include "kernels/attention/flash_gather_load.cuh"
#include "kernels/attention/flash_sm90_tile.cuh"
#include "kernels/ptx/cp_async_mbarrier.cuh"
#include "kernels/ptx/mbarrier_count.cuh"

namespace gpudnn::kernels::flash_sm90 {

// A tensor of k or v for TMA: boxes of `rows` rows of 64 elements, of one head; 0 where TMA cannot take the rows.
struct BoxSource {
  const tile::TensorMap* map;
  int rows;
  int first_row;
  int head;
  int batch;
};
__device__ __forceinline__ BoxSource box_source(const AttentionTensor& tensor, const tile::TensorMap& map, int rows,
                                                int batch, int head) {
  BoxSource source{&map, rows, 0, head, batch};
  if (tensor.offset_bits == 0 || rows == 0) return source;
  // Of ragged tensors, the map has all rows in one batch.
  const std::int64_t start = ragged_start(tensor, batch);
  const std::int64_t row = start / tensor.strides[2];
  source.batch = 0;
  source.first_row = static_cast<int>(row);
  if (row * tensor.strides[2] != start || start < 0 || row >= std::int64_t{1} << 30) source.rows = 0;
  return source;
}

// One warpgroup fills tiles, and its copies arrive at barriers.
template <int kDim, int kRows>
class Gather : public RowGather<kDim, kRows> {
 public:
  __device__ __forceinline__ void load(const GatherSource& source, const tile::FastDivmod& page_rows, int entry,
                                       int tile, unsigned char* shared, std::uint64_t* barrier) const {
    copy(source, this->offset(source, page_rows, entry, tile), shared, barrier);
  }

  // Rows at the offsets that the warp's lanes hold, -1 for zeros; and the arrival at the barrier, for this thread's
  // earlier copies too.
  __device__ __forceinline__ void copy(const GatherSource& source, std::int64_t my_offset, unsigned char* shared,
                                       std::uint64_t* barrier) const {
    this->copy_rows(source, my_offset, shared);
    if (source.aligned) {
      ptx::cp_async_mbarrier_arrive_noinc(ptx::shared_address(barrier));
    } else {
      ptx::cp_async_commit_group();
      ptx::cp_async_wait_group<0>();
      ptx::mbarrier_arrive(barrier);
    }
  }

  // Tiles from the last to the first: whole ones by boxes where there are such, else row by row. Only the first tile
  // that is filled may be cut, so no thread meets a barrier again after others have gone on alone. A tile's boxes are
  // dealt out to two warps, those of k or of v (`pair` 0 or 1), so that neither waits for the other's stages.
  [[nodiscard]] __device__ __forceinline__ int first_entry(int pair, const GatherSource& source, const BoxSource& boxes,
                                                           const tile::FastDivmod& page_rows, int tile) const {
    return is_whole(source, boxes, tile) ? box_entry(pair, source, boxes, page_rows, tile)
                                         : this->entry(source, page_rows, tile);
  }
  __device__ __forceinline__ void fill(int pair, const GatherSource& source, const BoxSource& boxes,
                                       const tile::FastDivmod& page_rows, int tile, int* next, unsigned char* shared,
                                       std::uint64_t* full, std::uint64_t* empty, std::uint32_t empty_parity) const {
    const int its = *next;
    if (!is_whole(source, boxes, tile)) {
      *next = first_entry(pair, source, boxes, page_rows, tile - 1);
      tile::wait(empty, empty_parity);
      load(source, page_rows, its, tile, shared, full);
      return;
    }
    if (!takes_boxes(pair, boxes)) return;
    *next = box_entry(pair, source, boxes, page_rows, tile - 1);
    tile::wait(empty, empty_parity);
    if (static_cast<int>(threadIdx.x) == pair * kPair) {
      ptx::mbarrier_arrive_count(full, kWarpgroup - 1);
      ptx::mbarrier_arrive_expect_tx(full, kRows * kDim * 2);
    }
    __syncwarp();
    const int first = box() * boxes.rows;
    if (first >= kRows) return;
    int row = tile * kRows + first;
    int batch = boxes.batch;
    if (source.table != nullptr) {
      std::uint32_t rest;
      page_rows.divmod(static_cast<std::uint32_t>(row), &rest);
      row = static_cast<int>(rest);
      batch = its;
    } else {
      row += boxes.first_row;
    }
#pragma unroll
    for (int panel = 0; panel < kDim / kPanelColumns; ++panel) {
      ptx::tma_tile_5d(shared + (panel * kRows + first) * kPanelBytes, boxes.map, full, panel * kPanelColumns, row,
                       boxes.head, batch, 0);
    }
  }

 private:
  [[nodiscard]] __device__ __forceinline__ bool is_whole(const GatherSource& source, const BoxSource& boxes,
                                                         int tile) const {
    return boxes.rows != 0 && (tile + 1) * kRows <= source.length;
  }
  static constexpr int kPair = 64;  // threads
  [[nodiscard]] __device__ __forceinline__ bool takes_boxes(int pair, const BoxSource& boxes) const {
    return warp_ / 2 == pair && warp_ % 2 * boxes.rows < kRows;
  }
  // This lane's box of a tile.
  [[nodiscard]] __device__ __forceinline__ int box() const { return this->lane_ * 2 + warp_ % 2; }
  // Its page.
  [[nodiscard]] __device__ __forceinline__ int box_entry(int pair, const GatherSource& source, const BoxSource& boxes,
                                                         const tile::FastDivmod& page_rows, int tile) const {
    const int first = box() * boxes.rows;
    if (source.table == nullptr || tile < 0 || first >= kRows || !takes_boxes(pair, boxes)) return 0;
    return source
        .table[static_cast<std::int64_t>(page_rows.quotient(static_cast<std::uint32_t>(tile * kRows + first))) *
               source.table_stride];
  }

  int warp_ = static_cast<int>(threadIdx.x) / 32;
};

}  // namespace gpudnn::kernels::flash_sm90
