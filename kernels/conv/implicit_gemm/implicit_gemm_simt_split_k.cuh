// The second half of a split reduction of an implicit GEMM, for every element type: partial sums to the result.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/implicit_gemm/implicit_gemm_simt_epilogue.cuh"

namespace gpudnn::kernels::simt {

constexpr int kReduceThreads = 256;

// Sums the splits of each element in a fixed order: lane y of the `lanes` that share an element takes splits y, y +
// lanes and so on, then the lanes are added up as a tree.
template <class T, bool kWide>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_splits(const __grid_constant__ Params p, int bm, int bn, std::uint32_t tiles, int lanes) {
  using Acc = tile::Compute<T>;
  using Index = std::conditional_t<kWide, std::uint64_t, std::uint32_t>;
  __shared__ Acc partial[kReduceThreads];
  const int columns = kReduceThreads / lanes;
  const int column = static_cast<int>(threadIdx.x) % columns;
  const int lane = static_cast<int>(threadIdx.x) / columns;
  const auto tile_elements = static_cast<std::uint32_t>(bm * bn);
  const std::size_t count = static_cast<std::size_t>(tiles) * tile_elements;
  const std::size_t element =
      static_cast<std::size_t>(blockIdx.x) * static_cast<std::size_t>(columns) + static_cast<std::size_t>(column);

  Acc sum = 0;
  if (element < count) {
    const Acc* const first = static_cast<const Acc*>(p.workspace) + element;
#pragma unroll 8
    for (auto s = static_cast<std::uint32_t>(lane); s < p.splits; s += static_cast<std::uint32_t>(lanes)) {
      sum += first[s * count];
    }
  }
  partial[threadIdx.x] = sum;
  for (int half = lanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (lane < half) partial[threadIdx.x] += partial[threadIdx.x + static_cast<unsigned>(half * columns)];
  }
  if (lane != 0 || element >= count) return;
  sum = partial[threadIdx.x];

  const TilePosition at = tile_position(p, static_cast<std::uint32_t>(element / tile_elements));
  const auto inside = static_cast<std::uint32_t>(element % tile_elements);
  const bool m_fast = p.output.m_is_fast;
  const auto m_inside = m_fast ? inside % static_cast<std::uint32_t>(bm) : inside / static_cast<std::uint32_t>(bn);
  const auto n_inside = m_fast ? inside / static_cast<std::uint32_t>(bm) : inside % static_cast<std::uint32_t>(bn);
  Geometry geometry;
  set_geometry(p, at.stride_phase, &geometry);
  const Index m = static_cast<Index>(at.m) * static_cast<Index>(bm) + m_inside;
  const Index n = static_cast<Index>(at.n) * static_cast<Index>(bn) + n_inside;
  if (m >= static_cast<Index>(geometry.m_count) || n >= static_cast<Index>(p.n_count)) return;
  const auto m_digits = digits(geometry.m, m);
  const auto n_digits = digits(p.n, n);
  const Entry c = evaluate(p.output.n, n_digits, evaluate(p.output.m, m_digits, p.output.base));
  if (!in_bounds<Index>(static_cast<Index>(c.coord), static_cast<Index>(p.output.bounds.limit),
                        static_cast<Index>(p.output.bounds.guards))) {
    return;
  }
  T* const to =
      reinterpret_cast<T*>(static_cast<char*>(p.c) + c.offset + at.group * p.output.group_step + geometry.c_base);
  const char* z = nullptr;
  if (p.has_z) {
    z = static_cast<const char*>(p.z) + at.group * p.addend.group_step +
        evaluate(p.addend.n, n_digits, evaluate(p.addend.m, m_digits, p.addend.base)).offset;
  }
  const std::int64_t channel = static_cast<std::int64_t>(at.group) * p.n_count + static_cast<std::int64_t>(n);
  const Scalars<Acc> scalars(p);
  Acc v[1] = {sum};
  combine<T, 1>(p, scalars, v, to, z, channel, 0);
  gemm::activate(p.activation, sizeof(T) == 2, v);
  *to = tile::narrow<T>(v[0]);
}

}  // namespace gpudnn::kernels::simt
