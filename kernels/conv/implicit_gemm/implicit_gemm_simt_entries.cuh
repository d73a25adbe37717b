// Entries of an implicit GEMM's indices in shared memory, and how an element is found by two of them: its address and
// whether it lies in the tensor. For the kernels of implicit_gemm_simt.cuh and implicit_gemm_sm80.cuh, whose Instance I
// says the extents of a block's tile.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/conv/implicit_gemm/implicit_gemm_simt.hpp"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels::simt {

template <ElementType kType>
struct ElementOf {
  using type = float;
};
template <>
struct ElementOf<ElementType::f64> {
  using type = double;
};
template <>
struct ElementOf<ElementType::f16> {
  using type = tile::Half;
};
template <>
struct ElementOf<ElementType::bf16> {
  using type = tile::BFloat16;
};

template <class I>
__device__ __forceinline__ bool entry_in_bounds(const Entry& a, const Entry& b, const Bounds& bounds) {
  using Index = typename I::Index;
  return in_bounds<Index>(static_cast<Index>(a.coord) + static_cast<Index>(b.coord), static_cast<Index>(bounds.limit),
                          static_cast<Index>(bounds.guards));
}

template <class T>
__device__ __forceinline__ const T* address(const Entry& a, const Entry& b) {
  return reinterpret_cast<const T*>(a.offset + b.offset);
}

// Entries of A (absolute addresses) for the block's m and of B for its n.
template <class I>
__device__ __forceinline__ void set_outer_entries(const Params& p, const Geometry& geometry, const TilePosition& at,
                                                  typename I::Shared& shared) {
  using Index = typename I::Index;
  Entry a = p.operand_a.base;
  a.offset += reinterpret_cast<std::int64_t>(p.a) + at.group * p.operand_a.group_step + geometry.a_base.offset;
  a.coord += geometry.a_base.coord;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < I::kBm; i += I::kThreads) {
    shared.m[i] =
        entry_or_poison<Index>(p.operand_a.outer, geometry.m, static_cast<Index>(at.m) * I::kBm + static_cast<Index>(i),
                               static_cast<Index>(geometry.m_count), a, p.operand_a.bounds.poison);
  }
  Entry b = p.operand_b.base;
  b.offset += reinterpret_cast<std::int64_t>(p.b) + at.group * p.operand_b.group_step + geometry.b_base;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < I::kBn; i += I::kThreads) {
    shared.n[i] =
        entry_or_poison<Index>(p.operand_b.outer, p.n, static_cast<Index>(at.n) * I::kBn + static_cast<Index>(i),
                               static_cast<Index>(p.n_count), b, p.operand_b.bounds.poison);
  }
}

}  // namespace gpudnn::kernels::simt
