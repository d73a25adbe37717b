// The producer of flash_gather_sm90: rows of q, k and v to shared memory by cp.async, each row from its own address.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_gather_sm90.hpp"
#include "kernels/attention/flash_sm90_tile.cuh"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/ptx/cp_async_mbarrier.cuh"
#include "kernels/ptx/mbarrier_count.cuh"

namespace gpudnn::kernels::flash_sm90 {

// A tensor of k or v as the producer sees it: one head of one batch.
struct GatherSource {
  const std::uint16_t* data;  // with the batch's start and the head's
  std::int64_t row_stride;
  std::int64_t page_stride;
  const std::int32_t* table;  // of the batch; null: not paged
  std::int64_t table_stride;
  int length;  // rows beyond are zeros
  int chunks;  // of 8 elements in a row
  bool aligned;
};
__device__ __forceinline__ GatherSource gather_source(const AttentionTensor& tensor, int batch, int head, int length,
                                                      int dim) {
  const std::int64_t start = tensor.page_rows != 0 ? 0 : ragged_start(tensor, batch);
  GatherSource source;
  source.data = static_cast<const std::uint16_t*>(tensor.data) + start + head * tensor.strides[1];
  source.row_stride = tensor.strides[2];
  source.page_stride = tensor.strides[0];
  source.table = tensor.page_rows != 0 ? tensor.page_table + batch * tensor.table_stride_batch : nullptr;
  source.table_stride = tensor.table_stride_page;
  source.length = length;
  source.chunks = dim / 8;
  source.aligned = start % 8 == 0;
  return source;
}

// The same for TMA: boxes of `rows` rows of 64 elements, of one head; 0 where TMA cannot take the rows.
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

// 8 elements that lie anywhere.
__device__ __forceinline__ uint4 read_elements(const std::uint16_t* from) {
  std::uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) words[i] = from[2 * i] | static_cast<std::uint32_t>(from[2 * i + 1]) << 16;
  return {words[0], words[1], words[2], words[3]};
}

// One warpgroup fills tiles of kRows rows of kDim elements, in panels of 64 elements that are swizzled as TMA does.
// Each lane finds the address of one of its warp's rows, and hands it to the lanes that copy the row.
template <int kDim, int kRows>
class Gather {
  static constexpr int kChunks = kDim / 8;
  static constexpr int kStep = kWarpgroup / kChunks;  // rows of one round of copies
  static constexpr int kWarpRows = 32 / kChunks;
  static constexpr int kRounds = kRows / kStep;
  static_assert(kRounds * kWarpRows <= 32, "a lane finds one row");

 public:
  __device__ __forceinline__ Gather()
      : lane_(static_cast<int>(threadIdx.x) % 32),
        row_(lane_ / kWarpRows * kStep + static_cast<int>(threadIdx.x) / 32 * kWarpRows + lane_ % kWarpRows) {}

  // The table's entry of this lane's row of a tile, asked for one tile ahead of its use.
  __device__ __forceinline__ int entry(const GatherSource& source, const tile::FastDivmod& page_rows, int tile) const {
    const int row = tile * kRows + this->row();
    if (source.table == nullptr || tile < 0 || lane_ >= kRounds * kWarpRows || row >= source.length) return 0;
    return source
        .table[static_cast<std::int64_t>(page_rows.quotient(static_cast<std::uint32_t>(row))) * source.table_stride];
  }
  __device__ __forceinline__ void load(const GatherSource& source, const tile::FastDivmod& page_rows, int entry,
                                       int tile, unsigned char* shared, std::uint64_t* barrier) const {
    const int row = tile * kRows + this->row();
    std::int64_t offset = row * source.row_stride;
    if (source.table != nullptr) {
      std::uint32_t rest;
      page_rows.divmod(static_cast<std::uint32_t>(row), &rest);
      offset = entry * source.page_stride + rest * source.row_stride;
    }
    if (row >= source.length) offset = -1;
    copy(source, offset, shared, barrier);
  }

  // Rows at the offsets that the warp's lanes hold, -1 for zeros; and the arrival at the barrier, for this thread's
  // earlier copies too.
  __device__ __forceinline__ void copy(const GatherSource& source, std::int64_t my_offset, unsigned char* shared,
                                       std::uint64_t* barrier) const {
    const int chunk = lane_ % kChunks;
    const int first = static_cast<int>(threadIdx.x) / kChunks;
    const std::uint32_t base = ptx::shared_address(shared);
    const bool inside = chunk < source.chunks;
#pragma unroll
    for (int i = 0; i < kRounds; ++i) {
      const std::int64_t offset = __shfl_sync(0xffffffffu, my_offset, i * kWarpRows + lane_ / kChunks);
      const std::uint32_t to = swizzled_chunk<kRows>(first + i * kStep, chunk);
      const bool exists = inside && offset >= 0;
      const std::uint16_t* const from = source.data + (exists ? offset + chunk * 8 : 0);
      if (source.aligned) {
        ptx::cp_async<16>(base + to, exists ? from : source.data, exists ? 16 : 0);
      } else {
        *reinterpret_cast<uint4*>(shared + to) = exists ? read_elements(from) : uint4{};
      }
    }
    if (source.aligned) {
      ptx::cp_async_mbarrier_arrive_noinc(ptx::shared_address(barrier));
    } else {
      ptx::cp_async_commit_group();
      ptx::cp_async_wait_group<0>();
      ptx::mbarrier_arrive(barrier);
    }
  }

  [[nodiscard]] __device__ __forceinline__ int row() const { return row_; }

  // Tiles from the last to the first: whole ones by boxes where there are such, else row by row. Only the first tile
  // that is filled may be cut, so no thread meets a barrier again after the first warp has gone on alone.
  [[nodiscard]] __device__ __forceinline__ int first_entry(const GatherSource& source, const BoxSource& boxes,
                                                           const tile::FastDivmod& page_rows, int tile) const {
    return is_whole(source, boxes, tile) ? box_entry(source, boxes, page_rows, tile) : entry(source, page_rows, tile);
  }
  __device__ __forceinline__ void fill(const GatherSource& source, const BoxSource& boxes,
                                       const tile::FastDivmod& page_rows, int tile, int* next, unsigned char* shared,
                                       std::uint64_t* full, std::uint64_t* empty, std::uint32_t empty_parity) const {
    const int its = *next;
    if (!is_whole(source, boxes, tile)) {
      *next = first_entry(source, boxes, page_rows, tile - 1);
      tile::wait(empty, empty_parity);
      load(source, page_rows, its, tile, shared, full);
      return;
    }
    if (threadIdx.x >= 32) return;
    *next = box_entry(source, boxes, page_rows, tile - 1);
    tile::wait(empty, empty_parity);
    if (lane_ == 0) {
      ptx::mbarrier_arrive_count(full, kWarpgroup - 1);
      ptx::mbarrier_arrive_expect_tx(full, kRows * kDim * 2);
    }
    __syncwarp();
    if (lane_ * boxes.rows >= kRows) return;
    int row = tile * kRows + lane_ * boxes.rows;
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
      ptx::tma_tile_5d(shared + (panel * kRows + lane_ * boxes.rows) * kPanelBytes, boxes.map, full,
                       panel * kPanelColumns, row, boxes.head, batch, 0);
    }
  }

 private:
  [[nodiscard]] __device__ __forceinline__ bool is_whole(const GatherSource& source, const BoxSource& boxes,
                                                         int tile) const {
    return boxes.rows != 0 && (tile + 1) * kRows <= source.length;
  }
  // The page of this lane's box.
  [[nodiscard]] __device__ __forceinline__ int box_entry(const GatherSource& source, const BoxSource& boxes,
                                                         const tile::FastDivmod& page_rows, int tile) const {
    const int row = tile * kRows + lane_ * boxes.rows;
    if (source.table == nullptr || tile < 0 || lane_ * boxes.rows >= kRows || threadIdx.x >= 32) return 0;
    return source
        .table[static_cast<std::int64_t>(page_rows.quotient(static_cast<std::uint32_t>(row))) * source.table_stride];
  }

  int lane_;
  int row_;  // the place in the tile of the row whose address this lane finds
};

}  // namespace gpudnn::kernels::flash_sm90
