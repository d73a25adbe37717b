// A thread's sums of the mma.sync implicit GEMM on their way out: part by part through shared memory, or as they are
// into the workspace of a split reduction. See implicit_gemm_sm80.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/implicit_gemm_simt_epilogue.cuh"
#include "kernels/conv/implicit_gemm_sm80_multiply.cuh"

namespace gpudnn::kernels::sm80 {

// The staged part of a tile is rows of vectors, as in the SIMT kernel. The exclusive or spreads what a warp writes over
// the banks: along m, four pairs of rows with eight columns each; along n, pairs of columns of four rows at a time.
template <class I>
struct StagedPart {
  bool m_fast;
  int width;

  __device__ __forceinline__ explicit StagedPart(bool along_m)
      : m_fast(along_m), width(along_m ? I::kPartM : I::kPartN) {}
  __device__ __forceinline__ int vector_at(int row, int vector) const {
    const int spread = ((m_fast ? row >> 1 : row) & 3) * 2;
    return row * width + (vector ^ spread) * I::kVec;
  }
  __device__ __forceinline__ int element_at(int row, int column) const {
    return vector_at(row, column / I::kVec) + column % I::kVec;
  }
};

template <class I>
__device__ __forceinline__ void stage_sums(const StagedPart<I>& part, const Place<I>& place, int part_m,
                                           const Sums<I>& sums, float* staged) {
#pragma unroll
  for (int i = 0; i < I::kFragmentsM; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int m = place.m(i, half) - part_m;
#pragma unroll
      for (int j = 0; j < I::kFragmentsN; ++j) {
        const int n = place.n(j);
        const float first = sums[i][j][2 * half];
        const float second = sums[i][j][2 * half + 1];
        if (part.m_fast) {
          staged[part.element_at(n, m)] = first;
          staged[part.element_at(n + 1, m)] = second;
        } else {
          *reinterpret_cast<float2*>(&staged[part.element_at(m, n)]) = make_float2(first, second);
        }
      }
    }
  }
}

template <class I>
__device__ __forceinline__ void store_result(const simt::Params& p, const simt::Geometry& geometry,
                                             const simt::TilePosition& at, const Place<I>& place, const Sums<I>& sums,
                                             typename I::Shared& shared) {
  __syncthreads();
  simt::set_output_entries<I>(p, geometry, at, shared);
  const StagedPart<I> part(p.output.m_is_fast);
  const simt::Scalars<float> scalars(p);
  const std::int64_t first_bias =
      static_cast<std::int64_t>(at.group) * p.n_count + static_cast<std::int64_t>(at.n) * I::kBn;
#pragma unroll 1
  for (int q = 0; q < I::kParts; ++q) {
    const int part_m = q * I::kPartM;
    if (I::kParts == 1 || place.m0 / I::kPartM == q) stage_sums<I>(part, place, part_m, sums, shared.staged);
    __syncthreads();
    simt::finish_part<I>(p, scalars, shared, part, first_bias, part_m, 0);
    __syncthreads();
  }
}

// Each block has a bm x bn piece of the workspace, in the order of C's memory.
template <class I>
__device__ __forceinline__ void store_partial_sums(const simt::Params& p, const Place<I>& place, const Sums<I>& sums) {
  float* const block = static_cast<float*>(p.workspace) + static_cast<std::size_t>(blockIdx.x) * (I::kBm * I::kBn);
  const bool m_fast = p.output.m_is_fast;
#pragma unroll
  for (int i = 0; i < I::kFragmentsM; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int m = place.m(i, half);
#pragma unroll
      for (int j = 0; j < I::kFragmentsN; ++j) {
        const int n = place.n(j);
        const float first = sums[i][j][2 * half];
        const float second = sums[i][j][2 * half + 1];
        if (m_fast) {
          block[n * I::kBm + m] = first;
          block[(n + 1) * I::kBm + m] = second;
        } else {
          *reinterpret_cast<float2*>(block + m * I::kBn + n) = make_float2(first, second);
        }
      }
    }
  }
}

}  // namespace gpudnn::kernels::sm80
