// A thread's sums of the SIMT implicit GEMM on their epilogue: part by part through shared memory, or as they are into
// the workspace of a split reduction. See implicit_gemm_simt.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/implicit_gemm/implicit_gemm_simt_epilogue.cuh"
#include "kernels/conv/implicit_gemm/implicit_gemm_simt_loads.cuh"

namespace gpudnn::kernels::simt {

// The staged part of a tile is rows of vectors: rows are n and columns m where memory runs along m, else the other way
// round. The exclusive or spreads what a warp writes at a time over the banks.
template <class I>
struct StagedPart {
  bool m_fast;
  int width;
  int swizzle;

  __device__ __forceinline__ explicit StagedPart(bool along_m)
      : m_fast(along_m),
        width(along_m ? I::kPartM : I::kPartN),
        swizzle((width / I::kVec < 8 ? width / I::kVec : 8) - 1) {}
  __device__ __forceinline__ int vector_at(int row, int vector) const {
    return row * width + (vector ^ (row / I::kVec & swizzle)) * I::kVec;
  }
};

// Vector i of the kVec x kVec group (gm, gn) of a thread's sums, along m or along n.
template <class I>
__device__ __forceinline__ tile::Pack<typename I::Acc, I::kVec> sums_of_group(
    const typename I::Acc (&sums)[I::kTile.tm][I::kTile.tn], int gm, int gn, int i, bool along_m) {
  constexpr int kVec = I::kVec;
  tile::Pack<typename I::Acc, kVec> pack;
#pragma unroll
  for (int j = 0; j < kVec; ++j) {
    pack.data[j] = along_m ? sums[gm * kVec + j][gn * kVec + i] : sums[gm * kVec + i][gn * kVec + j];
  }
  return pack;
}

// Each block has a bm x bn piece of the workspace, in the order of C's memory.
template <class I>
__device__ __forceinline__ void store_partial_sums(const Params& p,
                                                   const typename I::Acc (&sums)[I::kTile.tm][I::kTile.tn], int m0,
                                                   int n0) {
  using Acc = typename I::Acc;
  constexpr int kVec = I::kVec;
  Acc* const block = static_cast<Acc*>(p.workspace) + static_cast<std::size_t>(blockIdx.x) * (I::kBm * I::kBn);
  const bool m_fast = p.output.m_is_fast;
#pragma unroll
  for (int gm = 0; gm < I::kGroupsM; ++gm) {
#pragma unroll
    for (int gn = 0; gn < I::kGroupsN; ++gn) {
      const int m = gm * I::kPartM + m0;
      const int n = gn * I::kPartN + n0;
      if (m_fast) {
#pragma unroll
        for (int i = 0; i < kVec; ++i) {
          tile::store_pack<Acc, kVec>(block + (n + i) * I::kBm + m, sums_of_group<I>(sums, gm, gn, i, true));
        }
      } else {
#pragma unroll
        for (int i = 0; i < kVec; ++i) {
          tile::store_pack<Acc, kVec>(block + (m + i) * I::kBn + n, sums_of_group<I>(sums, gm, gn, i, false));
        }
      }
    }
  }
}

template <class I>
__device__ __forceinline__ void store_result(const Params& p, const Geometry& geometry, const TilePosition& at,
                                             const typename I::Acc (&sums)[I::kTile.tm][I::kTile.tn], int m0, int n0,
                                             typename I::Shared& shared) {
  using Acc = typename I::Acc;
  constexpr int kVec = I::kVec;
  __syncthreads();
  set_output_entries<I>(p, geometry, at, shared);
  const StagedPart<I> part(p.output.m_is_fast);
  const Scalars<Acc> scalars(p);
  const std::int64_t first_channel =
      static_cast<std::int64_t>(at.group) * p.n_count + static_cast<std::int64_t>(at.n) * I::kBn;
  // Rolled, so that finish_part exists once; the sums need constant indices, hence the choice inside.
#pragma unroll 1
  for (int q = 0; q < I::kGroupsM * I::kGroupsN; ++q) {
#pragma unroll
    for (int group = 0; group < I::kGroupsM * I::kGroupsN; ++group) {
      if (q != group) continue;
      if (part.m_fast) {
#pragma unroll
        for (int i = 0; i < kVec; ++i) {
          store_shared<Acc, kVec>(&shared.staged[part.vector_at(n0 + i, m0 / kVec)],
                                  sums_of_group<I>(sums, group / I::kGroupsN, group % I::kGroupsN, i, true));
        }
      } else {
#pragma unroll
        for (int i = 0; i < kVec; ++i) {
          store_shared<Acc, kVec>(&shared.staged[part.vector_at(m0 + i, n0 / kVec)],
                                  sums_of_group<I>(sums, group / I::kGroupsN, group % I::kGroupsN, i, false));
        }
      }
    }
    __syncthreads();
    finish_part<I>(p, scalars, shared, part, first_channel, q / I::kGroupsN * I::kPartM, q % I::kGroupsN * I::kPartN);
    __syncthreads();
  }
}

}  // namespace gpudnn::kernels::simt
