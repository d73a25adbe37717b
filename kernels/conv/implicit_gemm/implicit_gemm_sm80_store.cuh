// A thread's sums of the mma.sync implicit GEMM on their epilogue, part by part through shared memory: finished to C,
// or as they are to the workspace of a split reduction. See implicit_gemm_sm80.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/implicit_gemm/implicit_gemm_simt_epilogue.cuh"
#include "kernels/conv/implicit_gemm/implicit_gemm_sm80_multiply.cuh"

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
};

// The sums of a warp to where StagedPart expects them, `m0` and `n0` being the warp's first in the part. All rows of a
// thread have one spread, which meets bits 1 and 2 of a vector's number: four addresses, and constant steps from them.
template <class I>
__device__ __forceinline__ void stage_along_m(int m0, int n0, const Sums<I>& sums, float* staged) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int spread = lane % 4 * 2;
  float* const first = staged + (n0 + lane % 4 * 2) * I::kPartM + m0 + lane / 4;
#pragma unroll
  for (int near = 0; near < 4; ++near) {
    float* const to = first + ((2 * near) ^ spread) * I::kVec;
#pragma unroll
    for (int i = near / 2; i < I::kFragmentsM; i += 2) {
#pragma unroll
      for (int j = 0; j < I::kFragmentsN; ++j) {
        to[i / 2 * 32 + 8 * j * I::kPartM] = sums[i][j][2 * (near % 2)];
        to[i / 2 * 32 + (8 * j + 1) * I::kPartM] = sums[i][j][2 * (near % 2) + 1];
      }
    }
  }
}
template <class I>
__device__ __forceinline__ void stage_along_n(int m0, int n0, const Sums<I>& sums, float* staged) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int spread = lane / 4 % 4 * 2;
  float* const first = staged + (m0 + lane / 4) * I::kPartN + n0 + lane % 4 * 2;
#pragma unroll
  for (int near = 0; near < 4; ++near) {
    float* const to = first + ((2 * near) ^ spread) * I::kVec;
#pragma unroll
    for (int j = near; j < I::kFragmentsN; j += 4) {
#pragma unroll
      for (int i = 0; i < I::kFragmentsM; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          *reinterpret_cast<float2*>(&to[j / 4 * 32 + (16 * i + 8 * half) * I::kPartN]) =
              make_float2(sums[i][j][2 * half], sums[i][j][2 * half + 1]);
        }
      }
    }
  }
}

// As they are, into the workspace of a split reduction: each block has a bm x bn piece of it, in the order of C's
// memory.
template <class I>
__device__ __forceinline__ void copy_part(const simt::Params& p, const StagedPart<I>& part, int part_m,
                                          const float* staged) {
  const int row_step = part.m_fast ? I::kBm : I::kBn;
  float* const to = static_cast<float*>(p.workspace) + static_cast<std::size_t>(blockIdx.x) * (I::kBm * I::kBn) +
                    (part.m_fast ? part_m : part_m * I::kBn);
  const int shift = 31 - __clz(part.width);
#pragma unroll 2
  for (int e = static_cast<int>(threadIdx.x) * I::kVec; e < I::kPartM * I::kPartN; e += I::kThreads * I::kVec) {
    const int row = e >> shift;
    const int column = e & (part.width - 1);
    tile::store_pack<float, I::kVec>(to + row * row_step + column,
                                     tile::load_pack<float, I::kVec>(staged + part.vector_at(row, column / I::kVec)));
  }
}

// The epilogue of all sums: to C, or as they are to the workspace of a split reduction.
template <class I>
__device__ __forceinline__ void store_result(const simt::Params& p, const Place<I>& place, const Sums<I>& sums,
                                             typename I::Shared& shared) {
  __syncthreads();
  const bool split = p.splits > 1;
  if (!split) set_output_entries<I>(p, shared);
  const StagedPart<I> part(p.output.m_is_fast);
  const simt::Scalars<float> scalars(p);
  const std::int64_t first_channel =
      static_cast<std::int64_t>(shared.work.at.group) * p.n_count + static_cast<std::int64_t>(shared.work.n.first);
#pragma unroll 1
  for (int part_m = 0;;) {
    if (I::kParts == 1 || place.m0 / I::kPartM * I::kPartM == part_m) {
      if (part.m_fast) {
        stage_along_m<I>(place.m0 - part_m, place.n0, sums, shared.staged);
      } else {
        stage_along_n<I>(place.m0 - part_m, place.n0, sums, shared.staged);
      }
    }
    __syncthreads();
    if (split) {
      copy_part<I>(p, part, part_m, shared.staged);
    } else {
      simt::finish_part<I>(p, scalars, shared, part, first_channel, part_m, 0);
    }
    part_m += I::kPartM;
    if (part_m == I::kBm) break;
    __syncthreads();
  }
}

}  // namespace gpudnn::kernels::sm80
