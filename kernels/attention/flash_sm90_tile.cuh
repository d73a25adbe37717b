// What flash_sm90's kernels share: operand descriptors, and which elements of an accumulator a thread holds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_sm90.hpp"
#include "kernels/attention/flash_tile.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/cvt_f8.cuh"
#include "kernels/ptx/ex2.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/ptx/tma_tile_5d.cuh"
#include "kernels/ptx/wgmma_shape.cuh"
#include "kernels/tile/stage_ring.cuh"
#include "kernels/tile/wgmma_operand.cuh"

namespace gpudnn::kernels::flash_sm90 {

using namespace flash;  // NOLINT: the part of these kernels that is no architecture's

constexpr int kWarpgroup = 128;

// Descriptors of a K-major operand: panels of `rows` rows, 64 elements of k each. Step `k` is of 16 elements.
template <int kRows>
__device__ __forceinline__ std::uint64_t k_major_step(std::uint64_t base, int k) {
  return base + static_cast<std::uint64_t>(k / 4 * (kRows * kPanelBytes / 16) + k % 4 * 2);
}
// Of an MN-major operand: rows are k, panels 64 elements of n each.
__device__ __forceinline__ std::uint64_t mn_major_step(std::uint64_t base, int k) {
  return base + static_cast<std::uint64_t>(k * (16 * kPanelBytes / 16));
}

// d = a b^T of kSteps steps of 16 columns: panels of kRowsA and kRowsB rows, of which d has 64 and all.
template <class T, int kSteps, int kRowsA, int kRowsB>
__device__ __forceinline__ void issue_product(float (&d)[kRowsB / 2], const unsigned char* a, const unsigned char* b) {
  const std::uint64_t a_base = tile::operand_descriptor<128>(a, 0);
  const std::uint64_t b_base = tile::operand_descriptor<128>(b, 0);
  ptx::pin(d);
  ptx::wgmma_fence();
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    ptx::wgmma_ss<T, T, kRowsB>(d, k_major_step<kRowsA>(a_base, k), k_major_step<kRowsB>(b_base, k), k == 0 ? 0 : 1);
  }
  ptx::wgmma_commit_group();
}
// out += weights b, of kSteps steps of 16 rows.
template <class T, int kSteps, int kDim>
__device__ __forceinline__ void issue_sum(float (&out)[kDim / 2], const std::uint32_t (&weights)[kSteps][4],
                                          const unsigned char* b) {
  const std::uint64_t b_base = tile::operand_descriptor<128>(b, kSteps * 16 * kPanelBytes);
  ptx::pin(out);
  ptx::wgmma_fence();
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    ptx::wgmma_rs<T, T, kDim, ptx::Major::mn>(out, weights[k], mn_major_step(b_base, k), 1);
  }
  ptx::wgmma_commit_group();
}

// Four numbers as 8-bit floats, the first one in the lowest byte.
template <class T>
__device__ __forceinline__ std::uint32_t pack_bytes(float a, float b, float c, float d) {
  if constexpr (std::is_same_v<T, tile::Float8E5M2>) {
    const std::uint32_t low = ptx::cvt_rn_satfinite_e5m2x2_f32(b, a);
    const std::uint32_t high = ptx::cvt_rn_satfinite_e5m2x2_f32(d, c);
    return low | high << 16;
  } else {
    const std::uint32_t low = ptx::cvt_rn_satfinite_e4m3x2_f32(b, a);
    const std::uint32_t high = ptx::cvt_rn_satfinite_e4m3x2_f32(d, c);
    return low | high << 16;
  }
}

// Where this thread's elements of an accumulator are: rows `row` and row + 8, columns 8 j + `column` and the next.
struct FragmentPlace {
  int warpgroup, warp, lane;
  // `first`: the first thread of the consumers.
  __device__ __forceinline__ explicit FragmentPlace(int first = kWarpgroup)
      : warpgroup((static_cast<int>(threadIdx.x) - first) / kWarpgroup),
        warp(static_cast<int>(threadIdx.x) % kWarpgroup / 32),
        lane(static_cast<int>(threadIdx.x) % 32) {}
  __device__ __forceinline__ int row() const { return warpgroup * 64 + warp * 16 + lane / 4; }
  __device__ __forceinline__ int column() const { return lane % 4 * 2; }
};

}  // namespace gpudnn::kernels::flash_sm90
