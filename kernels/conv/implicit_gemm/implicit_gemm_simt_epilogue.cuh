// The epilogue of an implicit GEMM, from staged sums to global memory: scale, combine, addend, bias and activation. For
// the kernels of implicit_gemm_simt.cuh and implicit_gemm_sm80.cuh, which stage their sums each in a way of their own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/implicit_gemm/implicit_gemm_simt_entries.cuh"
#include "kernels/gemm/epilogue/activation.cuh"
#include "kernels/gemm/epilogue/channel_value.cuh"

namespace gpudnn::kernels::simt {

// The scalars in the accumulator's type, converted once.
template <class Acc>
struct Scalars {
  Acc alpha, beta, alpha2;
  __device__ __forceinline__ explicit Scalars(const Params& p)
      : alpha(static_cast<Acc>(p.alpha)), beta(static_cast<Acc>(p.beta)), alpha2(static_cast<Acc>(p.alpha2)) {}
};

// kWidth neighbours but for the activation: alpha * sum + beta * c, or the fused form. Neither c nor z is read unless
// it counts. The first one's channel is `channel`, and each further one's `channel_step` beyond.
template <class T, int kWidth, class Acc>
__device__ __forceinline__ void combine(const Params& p, const Scalars<Acc>& scalars, Acc (&v)[kWidth], const T* c,
                                        const char* z, std::int64_t channel, int channel_step) {
#pragma unroll
  for (int j = 0; j < kWidth; ++j) v[j] = scalars.alpha * v[j];
  if (p.has_scale) {
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      v[j] *= gemm::channel_value<T, Acc>(p.scale, (channel + j * channel_step) * p.scale_step, p.float_vectors);
    }
  }
  if (scalars.beta != Acc(0)) {
    const auto old = tile::load_pack<T, kWidth>(c);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) v[j] += scalars.beta * tile::widen<Acc>(old.get(j));
  }
  if (p.has_z && scalars.alpha2 != Acc(0)) {
    const auto addend = tile::load_pack<T, kWidth>(reinterpret_cast<const T*>(z));
#pragma unroll
    for (int j = 0; j < kWidth; ++j) v[j] += scalars.alpha2 * tile::widen<Acc>(addend.get(j));
  }
  if (p.has_bias) {
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      v[j] += gemm::channel_value<T, Acc>(p.bias, (channel + j * channel_step) * p.bias_step, p.float_vectors);
    }
  }
}

// From shared to global memory, lanes along memory. `part` says where a kernel staged its sums.
template <class I, class Part>
__device__ __forceinline__ void finish_part(const Params& p, const Scalars<typename I::Acc>& scalars,
                                            const typename I::Shared& shared, const Part& part,
                                            std::int64_t first_channel, int part_m, int part_n) {
  using T = typename I::T;
  using Acc = typename I::Acc;
  constexpr int kVec = I::kVec;
  const bool vectors = p.store_vectors;
  const int step = vectors ? kVec : 1;
  const int shift = 31 - __clz(part.width);
#pragma unroll 1
  for (int e = static_cast<int>(threadIdx.x) * step; e < I::kPartM * I::kPartN; e += I::kThreads * step) {
    const int slow = e >> shift;
    const int fast = e & (part.width - 1);
    const Acc* const staged = &shared.staged[part.vector_at(slow, fast / kVec) + fast % kVec];
    const int m = part_m + (part.m_fast ? fast : slow);
    const int n = part_n + (part.m_fast ? slow : fast);
    const Entry em = shared.m[m];
    const Entry en = shared.n[n];
    if (!entry_in_bounds<I>(em, en, p.output.bounds)) continue;
    T* const c = reinterpret_cast<T*>(em.offset + en.offset);
    const char* const z = p.has_z ? reinterpret_cast<const char*>(shared.z.m[m] + shared.z.n[n]) : nullptr;
    // A single value stands in all places.
    Acc v[kVec];
    if (vectors) {
      tile::widen_pack<Acc>(tile::load_pack<Acc, kVec>(staged), v);
      combine<T, kVec>(p, scalars, v, c, z, first_channel + n, part.m_fast ? 0 : 1);
    } else {
      Acc single[1] = {*staged};
      combine<T, 1>(p, scalars, single, c, z, first_channel + n, 0);
#pragma unroll
      for (int j = 0; j < kVec; ++j) v[j] = single[0];
    }
    gemm::activate<1>(p.activation, sizeof(T) == 2, v);
    if (vectors) {
      tile::store_pack<T, kVec>(c, tile::narrow_pack<T>(v));
    } else {
      *c = tile::narrow<T>(v[kVec - 1]);
    }
  }
}

// Entries of C (absolute addresses) and addresses of z for the block's m and n, in place of those of A and B.
template <class I>
__device__ __forceinline__ void set_output_entries(const Params& p, const Geometry& geometry, const TilePosition& at,
                                                   typename I::Shared& shared) {
  using Index = typename I::Index;
  const Output& c = p.output;
  Entry base = c.base;
  base.offset += reinterpret_cast<std::int64_t>(p.c) + at.group * c.group_step + geometry.c_base;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < I::kBm; i += I::kThreads) {
    const Index m = static_cast<Index>(at.m) * I::kBm + static_cast<Index>(i);
    shared.m[i] =
        entry_or_poison<Index>(c.m, geometry.m, m, static_cast<Index>(geometry.m_count), base, c.bounds.poison);
    if (p.has_z) {
      const Entry z = {reinterpret_cast<std::int64_t>(p.z) + p.addend.base.offset + at.group * p.addend.group_step, 0};
      shared.z.m[i] = evaluate(p.addend.m, digits(geometry.m, m), z).offset;
    }
  }
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < I::kBn; i += I::kThreads) {
    const Index n = static_cast<Index>(at.n) * I::kBn + static_cast<Index>(i);
    shared.n[i] = entry_or_poison<Index>(c.n, p.n, n, static_cast<Index>(p.n_count), Entry{0, 0}, c.bounds.poison);
    if (p.has_z) shared.z.n[i] = evaluate(p.addend.n, digits(p.n, n), Entry{0, 0}).offset;
  }
}

}  // namespace gpudnn::kernels::simt
