// Entries of the mma.sync implicit GEMM's indices in shared memory (see implicit_gemm_simt_entries.cuh). One piece of
// code makes those of several kinds, and looks up in shared memory and among the parameters what differs: laid out for
// each kind, with the geometry in registers, it was a third of the kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/implicit_gemm/implicit_gemm_simt_entries.cuh"
#include "kernels/conv/implicit_gemm/implicit_gemm_sm80.hpp"

namespace gpudnn::kernels::sm80 {

using simt::Entry;

// The indices [first, end) that a block works on, and where the first of all lies.
struct Range {
  Entry base;
  std::uint32_t first;
  std::uint32_t end;
};

// What a block works on.
struct Work {
  simt::TilePosition at;
  simt::Geometry geometry;
  simt::Radices n_radices;
  Range m, n, k;
};

// By the first thread. A barrier has to follow.
template <class I>
__device__ __forceinline__ void set_work(const simt::Params& p, Work* work) {
  if (threadIdx.x != 0) return;
  const simt::TilePosition at = simt::tile_position(p, blockIdx.x);
  work->at = at;
  work->n_radices = p.n;
  simt::set_geometry<1>(p, at.stride_phase, &work->geometry);
  const simt::Geometry& geometry = work->geometry;
  const Entry& a = p.operand_a.base;
  work->m.base.offset =
      a.offset + reinterpret_cast<std::int64_t>(p.a) + at.group * p.operand_a.group_step + geometry.a_base.offset;
  work->m.base.coord = a.coord + geometry.a_base.coord;
  work->m.first = at.m * I::kBm;
  work->m.end = static_cast<std::uint32_t>(geometry.m_count);
  const Entry& b = p.operand_b.base;
  work->n.base.offset =
      b.offset + reinterpret_cast<std::int64_t>(p.b) + at.group * p.operand_b.group_step + geometry.b_base;
  work->n.base.coord = b.coord;
  work->n.first = at.n * I::kBn;
  work->n.end = static_cast<std::uint32_t>(p.n_count);
  const auto k_per_split = static_cast<std::uint32_t>(p.k_per_split);
  const auto k_count = static_cast<std::uint32_t>(geometry.k_count);
  const std::uint32_t k_first = min(at.split * k_per_split, k_count);
  work->k.base = Entry{0, 0};
  work->k.first = k_first;
  work->k.end = k_first + min(k_count - k_first, k_per_split);
}

// Entries of A (absolute addresses) for the block's m, of B for its n, and of both for the first chunk of its k.
template <class I>
__device__ __forceinline__ void set_first_entries(const simt::Params& p, typename I::Shared& shared) {
  constexpr int kOuter = I::kBm + I::kBn;
  const Work& work = shared.work;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < kOuter + 2 * I::kChunk; i += I::kThreads) {
    const bool outer = i < kOuter;
    const int of_both = outer ? i : i - kOuter;
    const int count_of_a = outer ? I::kBm : I::kChunk;
    const bool of_a = of_both < count_of_a;
    const int slot = of_a ? of_both : of_both - count_of_a;
    const simt::Operand& operand = of_a ? p.operand_a : p.operand_b;
    const simt::LinearMap& map = outer ? operand.outer : operand.inner;
    const Range& range = !outer ? work.k : of_a ? work.m : work.n;
    const simt::Radices& radices = !outer ? work.geometry.k : of_a ? work.geometry.m : work.n_radices;
    Entry* const outer_entries = of_a ? shared.m : shared.n;
    Entry* const entries = outer ? outer_entries : of_a ? shared.k.a[0] : shared.k.b[0];
    entries[slot] = simt::entry_or_poison(map, radices, range.first + static_cast<std::uint32_t>(slot), range.end,
                                          range.base, operand.bounds.poison);
  }
}

// Entries of k in chunk `chunk` of the block's part of the reduction.
template <class I>
__device__ __forceinline__ void set_entries_of_k(const simt::Params& p, std::uint32_t chunk,
                                                 typename I::Shared& shared) {
  const Work& work = shared.work;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < 2 * I::kChunk; i += I::kThreads) {
    const int slot = i % I::kChunk;
    const bool for_a = i < I::kChunk;
    const std::uint32_t k = work.k.first + chunk * I::kChunk + static_cast<std::uint32_t>(slot);
    const simt::Operand& operand = for_a ? p.operand_a : p.operand_b;
    (for_a ? shared.k.a : shared.k.b)[chunk % 2][slot] =
        simt::entry_or_poison(operand.inner, work.geometry.k, k, work.k.end, Entry{0, 0}, operand.bounds.poison);
  }
}

// Entries of C (absolute addresses) and addresses of z for the block's m and n, in place of those of A and B.
template <class I>
__device__ __forceinline__ void set_output_entries(const simt::Params& p, typename I::Shared& shared) {
  const Work& work = shared.work;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < I::kBm + I::kBn; i += I::kThreads) {
    const bool of_m = i < I::kBm;
    const int slot = of_m ? i : i - I::kBm;
    Entry base = {0, 0};
    std::int64_t z = 0;
    if (of_m) {
      base = p.output.base;
      base.offset += reinterpret_cast<std::int64_t>(p.c) + work.at.group * p.output.group_step + work.geometry.c_base;
      z = reinterpret_cast<std::int64_t>(p.z) + p.addend.base.offset + work.at.group * p.addend.group_step;
    }
    const Range& range = of_m ? work.m : work.n;
    const std::uint32_t index = range.first + static_cast<std::uint32_t>(slot);
    const auto digits = simt::digits(of_m ? work.geometry.m : work.n_radices, index);
    Entry c = simt::evaluate(of_m ? p.output.m : p.output.n, digits, base);
    if (index >= range.end) c = Entry{0, p.output.bounds.poison};
    (of_m ? shared.m : shared.n)[slot] = c;
    if (p.has_z) {
      const Entry of_z = simt::evaluate(of_m ? p.addend.m : p.addend.n, digits, Entry{z, 0});
      (of_m ? shared.z.m : shared.z.n)[slot] = of_z.offset;
    }
  }
}

}  // namespace gpudnn::kernels::sm80
