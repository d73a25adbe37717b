// Rows of q, k, v and dO to shared memory by cp.async, each row from its own address: packed, ragged or paged.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/attention.hpp"
#include "kernels/attention/flash_tile.cuh"
#include "kernels/ptx/cp_async.cuh"

namespace gpudnn::kernels::flash {

// A tensor as those who copy its rows see it: one head of one batch.
struct GatherSource {
  const std::uint16_t* data;  // with the batch's start and the head's
  std::int64_t row_stride;
  std::int64_t page_stride;
  const std::int32_t* table;  // of the batch; null: not paged
  std::int64_t table_stride;
  std::int64_t step;  // from an element of a row to the next
  int length;         // rows beyond are zeros
  int dim;
  bool aligned;  // chunks of 8 elements lie at multiples of 16 bytes, side by side
};
// `vectors`: but for a ragged start, which only the device knows, all is aligned.
__device__ __forceinline__ GatherSource gather_source(const AttentionTensor& tensor, int batch, int head, int length,
                                                      int dim, bool vectors = true) {
  const std::int64_t start = tensor.page_rows != 0 ? 0 : ragged_start(tensor, batch);
  GatherSource source;
  source.data = static_cast<const std::uint16_t*>(tensor.data) + start + head * tensor.strides[1];
  source.row_stride = tensor.strides[2];
  source.page_stride = tensor.strides[0];
  source.table = tensor.page_rows != 0 ? tensor.page_table + batch * tensor.table_stride_batch : nullptr;
  source.table_stride = tensor.table_stride_page;
  source.step = tensor.strides[3];
  source.length = length;
  source.dim = dim;
  source.aligned = vectors && start % 8 == 0;
  return source;
}

// 8 elements that lie anywhere.
__device__ __forceinline__ uint4 read_elements(const std::uint16_t* from) {
  std::uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) words[i] = from[2 * i] | static_cast<std::uint32_t>(from[2 * i + 1]) << 16;
  return {words[0], words[1], words[2], words[3]};
}

// The same of `count` elements, `step` apart; zeros follow.
__device__ __forceinline__ uint4 read_elements(const std::uint16_t* from, std::int64_t step, int count) {
  std::uint32_t words[4] = {};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (i < count) words[i / 2] |= static_cast<std::uint32_t>(from[i * step]) << (i % 2 * 16);
  }
  return {words[0], words[1], words[2], words[3]};
}

// kThreads threads fill tiles of kRows rows of kDim elements, in panels of 64 elements that are swizzled as TMA does.
// Each lane finds the address of one of its warp's rows, and hands it to the lanes that copy the row. kAnyLayout: head
// dimensions need not be multiples of 8, nor a row's elements be neighbours.
template <int kDim, int kRows, int kThreads = 128, bool kAnyLayout = false>
class RowGather {
 protected:
  static constexpr int kChunks = kDim / 8;
  static constexpr int kStep = kThreads / kChunks;  // rows of one round of copies
  static constexpr int kWarpRows = 32 / kChunks;
  static constexpr int kRounds = kRows / kStep;
  static_assert(kRounds * kWarpRows <= 32, "a lane finds one row");
  static_assert(kRounds * kStep == kRows, "rounds are full");

 public:
  __device__ __forceinline__ RowGather()
      : lane_(static_cast<int>(threadIdx.x) % 32),
        row_(lane_ / kWarpRows * kStep + static_cast<int>(threadIdx.x) / 32 * kWarpRows + lane_ % kWarpRows) {}

  // The place in a tile of the row whose address this lane finds.
  [[nodiscard]] __device__ __forceinline__ int row() const { return row_; }

  // The table's entry of this lane's row of a tile, asked for one tile ahead of its use.
  __device__ __forceinline__ int entry(const GatherSource& source, const tile::FastDivmod& page_rows, int tile) const {
    const int row = tile * kRows + this->row();
    if (source.table == nullptr || tile < 0 || lane_ >= kRounds * kWarpRows || row >= source.length) return 0;
    return source
        .table[static_cast<std::int64_t>(page_rows.quotient(static_cast<std::uint32_t>(row))) * source.table_stride];
  }
  // Where this lane's row of a tile starts; -1: it is zeros.
  __device__ __forceinline__ std::int64_t offset(const GatherSource& source, const tile::FastDivmod& page_rows,
                                                 int entry, int tile) const {
    const int row = tile * kRows + this->row();
    std::int64_t offset = row * source.row_stride;
    if (source.table != nullptr) {
      std::uint32_t rest;
      page_rows.divmod(static_cast<std::uint32_t>(row), &rest);
      offset = entry * source.page_stride + rest * source.row_stride;
    }
    return row >= source.length ? -1 : offset;
  }

  // Rows at the offsets that the warp's lanes hold, -1 for zeros. cp.async of this thread; elements that lie anywhere
  // are stored at once.
  __device__ __forceinline__ void copy_rows(const GatherSource& source, std::int64_t my_offset,
                                            unsigned char* shared) const {
    const int chunk = lane_ % kChunks;
    const int first = static_cast<int>(threadIdx.x) / kChunks;
    const auto base = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
    const int count = kAnyLayout ? min(source.dim - chunk * 8, 8) : chunk < source.dim / 8 ? 8 : 0;
    const auto start = [&](int i, std::int64_t offset) {
      const bool exists = count > 0 && offset >= 0;
      const std::uint16_t* const from = source.data + (exists ? offset + chunk * 8 : 0);
      const std::uint32_t bytes = kAnyLayout ? static_cast<std::uint32_t>(2 * count) : 16U;
      ptx::cp_async<16>(base + swizzled_chunk<kRows>(first + i * kStep, chunk), from, exists ? bytes : 0U);
    };
    const auto read = [&](int i, std::int64_t offset) {
      uint4 elements{};
      if (count > 0 && offset >= 0) {
        elements = kAnyLayout ? read_elements(source.data + offset + chunk * 8 * source.step, source.step, count)
                              : read_elements(source.data + offset + chunk * 8);
      }
      *reinterpret_cast<uint4*>(shared + swizzled_chunk<kRows>(first + i * kStep, chunk)) = elements;
    };
    if (!source.aligned) {
      // One after the other: what few calls need takes few registers.
#pragma unroll 1
      for (int i = 0; i < kRounds; ++i) read(i, offset_of_round(my_offset, i));
      return;
    }
#pragma unroll
    for (int i = 0; i < kRounds; ++i) start(i, offset_of_round(my_offset, i));
  }

  // A tile of rows; those of a tensor without pages lie at one stride.
  __device__ __forceinline__ void copy_tile(const GatherSource& source, const tile::FastDivmod& page_rows, int entry,
                                            int tile, unsigned char* shared) const {
    if (source.table != nullptr || !source.aligned) {
      return copy_rows(source, offset(source, page_rows, entry, tile), shared);
    }
    const int chunk = lane_ % kChunks;
    const int first = static_cast<int>(threadIdx.x) / kChunks;
    const auto base = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
    const auto bytes = static_cast<std::uint32_t>(2 * max(min(source.dim - chunk * 8, 8), 0));
    const int row = tile * kRows + first;
    const int left = source.length - row;
    const std::uint16_t* from = source.data + row * source.row_stride + chunk * 8;
#pragma unroll
    for (int i = 0; i < kRounds; ++i) {
      ptx::cp_async<16>(base + swizzled_chunk<kRows>(first + i * kStep, chunk), from, i * kStep < left ? bytes : 0U);
      from += kStep * source.row_stride;
    }
  }

 private:
  [[nodiscard]] __device__ __forceinline__ std::int64_t offset_of_round(std::int64_t my_offset, int i) const {
    return __shfl_sync(0xffffffffu, my_offset, i * kWarpRows + lane_ / kChunks);
  }

 protected:
  int lane_;
  int row_;
};

}  // namespace gpudnn::kernels::flash
