// From the accumulators of a consumer warpgroup to D = alpha * sum in f16, bf16 or f32: each warp rounds its fragments
// into boxes of 16 rows x 128 bytes, which TMA takes from shared memory. A warp has two boxes in turn and waits for no
// other warp: with boxes of 64 rows each one waited for TMA to read the one before, some 400 cycles.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm/sm90/mainloop.cuh"
#include "kernels/ptx/stmatrix.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/ptx/tma_tile_4d.cuh"
#include "kernels/tile/any_type.cuh"

namespace gpudnn::kernels::gemm::sm90 {

// Where 16 bytes number `vector` of a row of a box lie: TMA's swizzle over rows of 128 bytes.
__device__ __forceinline__ int box_place(int row, int vector) { return row * 128 + ((vector ^ (row & 7)) << 4); }

constexpr int kBoxRows = 16;
constexpr int kBoxArea = kBoxRows * 128;

// Where the box number `area` (0 or 1) of the warp lies. TMA has read what lay there.
template <class I>
__device__ __forceinline__ unsigned char* free_box(Shared<I>& shared, int consumer, int area) {
  const unsigned thread = threadIdx.x % 128;
  if (thread % 32 == 0) ptx::bulk_wait_group_read<1>();
  __syncwarp();
  return shared.staging[consumer] + thread / 32 * (2 * kBoxArea) + area * kBoxArea;
}

// The warp's box, whose first column of D is n, to rows m and on.
__device__ __forceinline__ void store_box(const Params& p, const unsigned char* box, const WorkTile& work,
                                          std::uint32_t m, std::uint32_t n) {
  ptx::fence_proxy_async();
  __syncwarp();
  if (threadIdx.x % 32 == 0) {
    ptx::tma_store_tile_4d(&p.d, box, static_cast<std::int32_t>(n), static_cast<std::int32_t>(m),
                           static_cast<std::int32_t>(work.batch[1]), static_cast<std::int32_t>(work.batch[0]));
    ptx::bulk_commit_group();
  }
}

// The first row of D in the warp's fragments.
template <class I>
__device__ __forceinline__ std::uint32_t first_row(const WorkTile& work, int consumer) {
  return work.m + (I::kPingPong ? 0 : consumer * I::kRowBlocks * 64) + threadIdx.x % 128 / 32 * kBoxRows;
}

// Rounds the warp's fragments of 16 rows x 128 bytes into a box.
template <class T>
__device__ __forceinline__ void stage_box(unsigned char* box, const float* sum, float alpha) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  if constexpr (sizeof(T) == 2) {
    // Two groups of 8 columns at a time: lanes 0-7 and 8-15 give the rows of the first one, the others of the second.
    const int row = lane % 16;
    const std::uint32_t base = ptx::shared_address(box);
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
      std::uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float pair[2] = {alpha * sum[4 * j + 2 * i], alpha * sum[4 * j + 2 * i + 1]};
        words[i] = tile::narrow_pack<T>(pair).words[0];
      }
      ptx::stmatrix_x4(base + static_cast<std::uint32_t>(box_place(row, j + lane / 16)), words[0], words[1], words[2],
                       words[3]);
    }
  } else {
    const int row = lane / 4;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int byte = (8 * j + lane % 4 * 2) * 4;
        *reinterpret_cast<float2*>(box + box_place(row + 8 * half, byte / 16) + byte % 16) =
            make_float2(alpha * sum[4 * j + 2 * half], alpha * sum[4 * j + 2 * half + 1]);
      }
    }
  }
}

// The first `columns` of the tile.
template <class I, class T>
__device__ __forceinline__ void store_boxes(const Params& p, Shared<I>& shared, const WorkTile& work, int consumer,
                                            const Sums<I>& sum, float alpha, int columns, int* area) {
  constexpr int kColumns = 128 / static_cast<int>(sizeof(T));
  const std::uint32_t m = first_row<I>(work, consumer);
#pragma unroll
  for (int block = 0; block < I::kRowBlocks; ++block) {
#pragma unroll
    for (int column = 0; column < I::kBN; column += kColumns) {
      if (column >= columns) break;
      const int first = column < I::kBN - kColumns ? column : I::kBN - kColumns;
      unsigned char* const box = free_box<I>(shared, consumer, *area);
      stage_box<T>(box, sum[block] + first / 2, alpha);
      store_box(p, box, work, m + block * 64, work.n + static_cast<std::uint32_t>(first));
      *area ^= 1;
    }
  }
}

template <class I>
__device__ __forceinline__ void store_plain(const Params& p, Shared<I>& shared, const WorkTile& work, int consumer,
                                            const Sums<I>& sum, float alpha, int columns, int* area) {
  if (p.epilogue.d.type == Element::f32) {
    store_boxes<I, float>(p, shared, work, consumer, sum, alpha, columns, area);
  } else if (p.epilogue.d.type == Element::bf16) {
    store_boxes<I, tile::BFloat16>(p, shared, work, consumer, sum, alpha, columns, area);
  } else {
    store_boxes<I, tile::Half>(p, shared, work, consumer, sum, alpha, columns, area);
  }
}

}  // namespace gpudnn::kernels::gemm::sm90
