// From the accumulators of a consumer warpgroup to a D of 16-bit elements with what most layers have: a bias along the
// row, if any, and f of each, by warps as in store_boxes.cuh. 64 columns at a time, so that 32 values of a thread hide
// each other's latencies. With 8 at a time bias and ReLU cost 12000 cycles for a tile of 128 x 256, of which the
// arithmetic is 1500.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm/epilogue/chain.cuh"
#include "kernels/gemm/epilogue/with_number.cuh"
#include "kernels/gemm/sm90/store_boxes.cuh"
#include "kernels/ptx/pin.cuh"

namespace gpudnn::kernels::gemm::sm90 {

__device__ __forceinline__ bool is_row_vector(const Matrix& bias) { return bias.data != nullptr && bias.m_stride == 0; }

// The bias of the tile's columns that a thread fetches, as it lies in memory: asked for before the tile is multiplied,
// and waited for after that.
template <class I>
struct RowBias {
  static constexpr int kColumns = (I::kBN + 127) / 128;
  std::uint32_t bits[kColumns];
};
template <class I>
__device__ __forceinline__ void fetch_bias(const Params& p, const WorkTile& work, RowBias<I>* row) {
  const Matrix& bias = p.epilogue.bias;
  if (!is_row_vector(bias)) return;
#pragma unroll
  for (int i = 0; i < RowBias<I>::kColumns; ++i) {
    const std::uint32_t column = threadIdx.x % 128 + 128 * i;
    row->bits[i] = 0;
    if (column >= I::kBN || work.n + column >= p.n) continue;
    const std::int64_t at = element_at(bias, work.batch, 0, work.n + column);
    if (bias.type == Element::f32) {
      row->bits[i] = static_cast<const std::uint32_t*>(bias.data)[at];
    } else if (bias.type == Element::f16 || bias.type == Element::bf16) {
      row->bits[i] = static_cast<const std::uint16_t*>(bias.data)[at];
    } else {
      row->bits[i] = static_cast<const std::uint8_t*>(bias.data)[at];
    }
  }
}

__device__ __forceinline__ float bias_value(Element type, std::uint32_t bits) {
  switch (type) {
    case Element::f16:
      return tile::widen<float>(tile::half_of<tile::Half>(bits, 0));
    case Element::bf16:
      return tile::widen<float>(tile::half_of<tile::BFloat16>(bits, 0));
    case Element::e4m3:
    case Element::e5m2:
      return widen_f8(static_cast<std::uint8_t>(bits), type == Element::e5m2);
    default:
      return __uint_as_float(bits);
  }
}

// The tile's bias into shared memory, for all of the warpgroup; zeros where there is none.
template <class I>
__device__ __forceinline__ void share_bias(const Params& p, Shared<I>& shared, int consumer, const RowBias<I>& row) {
  const Matrix& bias = p.epilogue.bias;
  const bool exists = is_row_vector(bias);
  ptx::barrier_sync(kStagingBarrier + consumer, 128);  // the readers of the tile before are done
#pragma unroll
  for (int i = 0; i < RowBias<I>::kColumns; ++i) {
    const std::uint32_t column = threadIdx.x % 128 + 128 * i;
    if (column < I::kBN) shared.bias[consumer][column] = exists ? bias_value(bias.type, row.bits[i]) : 0.0f;
  }
  ptx::barrier_sync(kStagingBarrier + consumer, 128);
}

__device__ __forceinline__ bool is_common(const Params& p) {
  const Epilogue& e = p.epilogue;
  return e.beta == 0.0f && (e.bias.data == nullptr || is_row_vector(e.bias)) && e.amax == nullptr &&
         e.scale_d == nullptr && e.d.type != Element::f32 && gemm::is_common(e.activation, true);
}

// v = alpha * sum + bias, of the 64 columns number `number` of a thread's sums. The pins keep the branches apart:
// without them the compiler selects each value among those of all columns.
template <class I>
__device__ __forceinline__ void take_columns(float alpha, const float* bias, const Sums<I>& sum, int number,
                                             float (&v)[32]) {
  with_number<I::kRowBlocks * I::kChunks>(number, [&](auto known) {
    constexpr int kBlock = known / I::kChunks;
    constexpr int kChunk = known % I::kChunks;
#pragma unroll
    for (int i = 0; i < 32; i += 4) {
      const float2 pair = *reinterpret_cast<const float2*>(bias + kChunk * 64 + 2 * i);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        v[i + j] = fmaf(alpha, sum[kBlock][kChunk * 32 + i + j], j % 2 == 0 ? pair.x : pair.y);
        ptx::pin(&v[i + j]);
      }
    }
  });
}

template <class I>
__device__ __forceinline__ void store_common(const Params& p, Shared<I>& shared, const WorkTile& work, int consumer,
                                             const Sums<I>& sum, float alpha, int columns, int* area) {
  const float* const bias = shared.bias[consumer] + threadIdx.x % 4 * 2;
  const std::uint32_t m = first_row<I>(work, consumer);
  const bool is_bf16 = p.epilogue.d.type == Element::bf16;
#pragma unroll 1
  // With fewer columns there is one row block.
  for (int number = 0; number < I::kRowBlocks * columns / 64; ++number) {
    float v[32];
    take_columns<I>(alpha, bias, sum, number, v);
    activate_common(p.epilogue.activation, v);
    unsigned char* const box = free_box<I>(shared, consumer, *area);
    if (is_bf16) {
      stage_box<tile::BFloat16>(box, v, 1.0f);
    } else {
      stage_box<tile::Half>(box, v, 1.0f);
    }
    store_box(p, box, work, m + number / I::kChunks * 64, work.n + number % I::kChunks * 64);
    *area ^= 1;
  }
}

}  // namespace gpudnn::kernels::gemm::sm90
