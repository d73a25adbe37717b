// What the kernels over rows share: parameters, results and sums of a row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/layer_norm/layer_norm.hpp"
#include "kernels/ptx/cvt_f8.cuh"
#include "kernels/tile/any_type.cuh"
#include "kernels/tile/cluster.cuh"
#include "kernels/tile/fp8.hpp"
#include "kernels/tile/numeric.cuh"
#include "kernels/tile/reduce.cuh"

namespace gpudnn::kernels {

constexpr int kLnWarpThreads = 128;  // of a block whose warps have rows of their own
constexpr int kLnMaxCluster = 8;

// Scale or bias: an element for each column, or for each `segment` columns.
struct LayerNormParameter {
  const void* data;  // null: `otherwise`
  tile::AnyType type;
};

// N neighbouring values of a 4-byte or 2-byte type, as one load or two.
template <int N>
__device__ __forceinline__ void load_parameters(const LayerNormParameter& parameter, std::int64_t at,
                                                float (&values)[N]) {
  if (parameter.type == tile::AnyType::f32) {
    const auto pack = *reinterpret_cast<const tile::Pack<float, N>*>(static_cast<const float*>(parameter.data) + at);
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = pack.data[i];
  } else if (parameter.type == tile::AnyType::f16) {
    tile::widen_pack<float>(tile::load_pack<tile::Half, N>(static_cast<const tile::Half*>(parameter.data) + at),
                            values);
  } else {
    tile::widen_pack<float>(tile::load_pack<tile::BFloat16, N>(static_cast<const tile::BFloat16*>(parameter.data) + at),
                            values);
  }
}

// One element: a statistic, or a parameter that many columns share.
__device__ __forceinline__ float load_one(tile::AnyType type, const void* base, std::int64_t at) {
  if (type == tile::AnyType::f32) return static_cast<const float*>(base)[at];
  return tile::load_any<float>(type, base, at);
}

// Where a row lies in each tensor; rows are nearly always one step apart.
__device__ __forceinline__ void row_offsets(const tile::LoopNest<kLnSlots>& rows, std::uint32_t row,
                                            std::int64_t (&offset)[kLnSlots]) {
  if (rows.rank == 1) {
#pragma unroll
    for (int t = 0; t < kLnSlots; ++t) offset[t] = static_cast<std::int64_t>(row) * rows.strides[t][0];
  } else {
    rows.offsets(row, offset);
  }
}

template <int N>
__device__ __forceinline__ void fill(float (&values)[N], float value) {
#pragma unroll
  for (int i = 0; i < N; ++i) values[i] = value;
}

// Two at a time by the instruction, which some integer operations for each take the place of before capability 8.9.
template <bool kE4m3, int N>
__device__ __forceinline__ tile::Pack<std::uint8_t, N> eight_bit_pack(const float (&values)[N]) {
  tile::Pack<std::uint8_t, N> pack;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  constexpr int kPairs = N / 2;
#else
  constexpr int kPairs = 0;
#endif
#pragma unroll
  for (int i = 0; i < 2 * kPairs; i += 2) {
    const std::uint16_t bits = kE4m3 ? ptx::cvt_rn_satfinite_e4m3x2_f32(values[i + 1], values[i])
                                     : ptx::cvt_rn_satfinite_e5m2x2_f32(values[i + 1], values[i]);
    pack.data[i] = static_cast<std::uint8_t>(bits);
    pack.data[i + 1] = static_cast<std::uint8_t>(bits >> 8);
  }
#pragma unroll
  for (int i = 2 * kPairs; i < N; ++i) {
    pack.data[i] = kE4m3 ? tile::e4m3_of_float(values[i]) : tile::e5m2_of_float(values[i]);
  }
  return pack;
}

// Values in T, or in one of the other types that a result may have.
template <class T, int N>
__device__ __forceinline__ void store_values(tile::AnyType type, bool same, void* base, std::int64_t at,
                                             const float (&values)[N]) {
  if (same) {
    tile::store_pack(static_cast<T*>(base) + at, tile::narrow_pack<T>(values));
  } else if (type == tile::AnyType::f32) {
    tile::Pack<float, N> pack;
#pragma unroll
    for (int i = 0; i < N; ++i) pack.data[i] = values[i];
    *reinterpret_cast<tile::Pack<float, N>*>(static_cast<float*>(base) + at) = pack;
  } else if (type == tile::AnyType::f16) {
    tile::store_pack(static_cast<tile::Half*>(base) + at, tile::narrow_pack<tile::Half>(values));
  } else if (type == tile::AnyType::bf16) {
    tile::store_pack(static_cast<tile::BFloat16*>(base) + at, tile::narrow_pack<tile::BFloat16>(values));
  } else {
    const auto pack = type == tile::AnyType::e4m3 ? eight_bit_pack<true>(values) : eight_bit_pack<false>(values);
    *reinterpret_cast<tile::Pack<std::uint8_t, N>*>(static_cast<std::uint8_t*>(base) + at) = pack;
  }
}

// Sums of a row in a fixed order. `slot` numbers the sums of a row: two slots are in use at a time.
template <int kSlots>
struct RowScratch {
  float warps[kSlots][32];
  float block[kSlots];
};

// The sum of what `warps` warps left, by all lanes of each warp.
__device__ __forceinline__ float warps_sum(const float* values, int lane, int warps) {
  float value = lane < warps ? values[lane] : 0.0f;
  if (warps <= 4) {
    value += __shfl_xor_sync(0xffffffffu, value, 1);
    return __shfl_sync(0xffffffffu, value + __shfl_xor_sync(0xffffffffu, value, 2), 0);
  }
  return tile::warp_reduce(value, tile::Sum{});
}

// The sum over the row's threads: kLanes lanes of a warp, or (kLanes 0) the blocks of a cluster.
template <int kLanes, int kSlots>
__device__ __forceinline__ float row_sum(float value, RowScratch<kSlots>* scratch, int slot, int blocks) {
  if constexpr (kLanes > 0) {
    return tile::warp_reduce<kLanes>(value, tile::Sum{});
  } else {
    value = tile::warp_reduce(value, tile::Sum{});
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (lane == 0) scratch->warps[slot][threadIdx.x / 32] = value;
    __syncthreads();
    value = warps_sum(scratch->warps[slot], lane, static_cast<int>(blockDim.x) / 32);
    if (blocks == 1) return value;
    if (threadIdx.x == 0) scratch->block[slot] = value;
    tile::cluster_sync(blocks);
    const float other = lane < blocks ? *tile::cluster_shared(&scratch->block[slot], lane, blocks) : 0.0f;
    return tile::warp_reduce(other, tile::Sum{});
  }
}

struct RowSums {
  float first;
  float second;
};

// Both sums over a warp, by all of its lanes: after the first step each half of the lanes has one of them.
__device__ __forceinline__ RowSums warp_sums(const RowSums& sums) {
  const bool low = threadIdx.x % 32 < 16;
  float sum = low ? sums.first : sums.second;
  sum += __shfl_xor_sync(0xffffffffu, low ? sums.second : sums.first, 16);
#pragma unroll
  for (int distance = 8; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  const float other = __shfl_xor_sync(0xffffffffu, sum, 16);
  return low ? RowSums{sum, other} : RowSums{other, sum};
}

// Two sums at once, in the slots `slot` and `slot + 1`.
template <int kLanes, int kSlots>
__device__ __forceinline__ RowSums row_sums(float first, float second, RowScratch<kSlots>* scratch, int slot,
                                            int blocks) {
  first = tile::warp_reduce < kLanes == 0 ? 32 : kLanes > (first, tile::Sum{});
  second = tile::warp_reduce < kLanes == 0 ? 32 : kLanes > (second, tile::Sum{});
  if constexpr (kLanes == 0) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warps = static_cast<int>(blockDim.x) / 32;
    if (lane == 0) {
      scratch->warps[slot][threadIdx.x / 32] = first;
      scratch->warps[slot + 1][threadIdx.x / 32] = second;
    }
    __syncthreads();
    first = warps_sum(scratch->warps[slot], lane, warps);
    second = warps_sum(scratch->warps[slot + 1], lane, warps);
    if (blocks == 1) return {first, second};
    if (threadIdx.x == 0) {
      scratch->block[slot] = first;
      scratch->block[slot + 1] = second;
    }
    tile::cluster_sync(blocks);
    const bool others = lane < blocks;
    first = others ? *tile::cluster_shared(&scratch->block[slot], lane, blocks) : 0.0f;
    second = others ? *tile::cluster_shared(&scratch->block[slot + 1], lane, blocks) : 0.0f;
    first = tile::warp_reduce(first, tile::Sum{});
    second = tile::warp_reduce(second, tile::Sum{});
  }
  return {first, second};
}

// Whether it is so for all rows of the warp; a block has one row, and its threads one answer.
template <int kLanes>
__device__ __forceinline__ bool row_all(bool answer) {
  if constexpr (kLanes > 0) return __all_sync(0xffffffffu, answer);
  return answer;
}

}  // namespace gpudnn::kernels
