// SIMT implicit-GEMM convolution: the kernel. The mathematics and the index arithmetic are in implicit_gemm_simt.hpp.
//
// clang-format off
// Data flow of a block, which computes one bm x bn tile of C:
//   entries of its m and n                       -> shared, once (each thread one or two)
//   entries of the next kChunk values of k       -> shared, double-buffered, once in kChunk / 8 tiles (each thread one)
//   tile t + 1 of A and B    global -> registers, while tile t is multiplied, -> shared[k][m], shared[k][n]
//   tile t                   shared -> registers (16 bytes a load) -> multiply-adds into tm x tn sums
//   sums                     registers -> shared, part by part -> global, lanes along memory
// clang-format on
// So an element of A costs two adds for its address, three operations for its bounds, a load and a store to shared
// memory, and is used bn times; the blocks of a multiprocessor hide the latency of each other's loads.
//
// Summation order is fixed by the config alone: results are bit-identical from run to run.
//
// Limits: padding is a zero that is multiplied like any other element, so an infinity or NaN that meets it gives a NaN,
// as in a convolution of the padded image. With the phases of a strided data gradient as columns the same holds for
// the taps that a phase lacks: an infinite or NaN dy also reaches pixels of the blocks that it touches but whose taps
// miss it.
//
// Files: _entries (addresses and bounds), _loads (instances, global -> registers -> shared), _store and _epilogue (the
// epilogue), _join (the second half of a split reduction).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "kernels/conv/implicit_gemm/implicit_gemm_simt_loads.cuh"
#include "kernels/conv/implicit_gemm/implicit_gemm_simt_store.cuh"
#include "kernels/tile/launch.hpp"

namespace gpudnn::kernels::simt {

template <class I>
__device__ __forceinline__ void multiply(const typename I::Acc (&a)[kTileK][I::kBm + 4],
                                         const typename I::Acc (&b)[kTileK][I::kBn + 4], int m0, int n0,
                                         typename I::Acc (&sums)[I::kTile.tm][I::kTile.tn]) {
  using Acc = typename I::Acc;
  constexpr int kVec = I::kVec;
  using Vector = tile::Pack<Acc, kVec>;
#pragma unroll
  for (int k = 0; k < kTileK; ++k) {
    Vector va[I::kGroupsM];
    Vector vb[I::kGroupsN];
#pragma unroll
    for (int g = 0; g < I::kGroupsM; ++g) va[g] = tile::load_pack<Acc, kVec>(&a[k][g * I::kPartM + m0]);
#pragma unroll
    for (int g = 0; g < I::kGroupsN; ++g) vb[g] = tile::load_pack<Acc, kVec>(&b[k][g * I::kPartN + n0]);
#pragma unroll
    for (int i = 0; i < I::kTile.tm; ++i) {
#pragma unroll
      for (int j = 0; j < I::kTile.tn; ++j) {
        sums[i][j] = fma(va[i / kVec].data[i % kVec], vb[j / kVec].data[j % kVec], sums[i][j]);
      }
    }
  }
}

// Multiplies the tiles of k [0, k_tiles) of the block's part into the sums.
template <class I>
__device__ __forceinline__ void reduce(const Params& p, typename I::Index k_tiles, int m0, int n0,
                                       typename I::Shared& shared, typename I::Acc (&sums)[I::kTile.tm][I::kTile.tn]) {
  Stage<I, I::kBm> stage_a;
  Stage<I, I::kBn> stage_b;
  load<I, I::kBm, I::kModeA>(stage_a, p.operand_a, shared.m, shared.k.a[0]);
  load<I, I::kBn, I::kModeB>(stage_b, p.operand_b, shared.n, shared.k.b[0]);
  store<I, I::kBm, I::kModeA>(stage_a, p.operand_a.mode, shared.tiles.a[0]);
  store<I, I::kBn, I::kModeB>(stage_b, p.operand_b.mode, shared.tiles.b[0]);
  int buffer = 0;
  int tile_in_chunk = 0;
  int chunk = 0;
#pragma unroll 1
  for (;; buffer ^= 1) {
    __syncthreads();
    // The entries of the chunk after this one overwrite those of the chunk before, which the last barrier saw used.
    if (tile_in_chunk == 0) set_k_entries<I>(p, chunk + 1, shared);
    if (++tile_in_chunk == I::kTilesPerChunk) {
      tile_in_chunk = 0;
      ++chunk;
    }
    // The tile after the last is loaded and stored, too: its entries are poisoned, so it costs no access to memory, and
    // without a branch on it the compiler leaves the loads ahead of the multiply-adds that hide them.
    load<I, I::kBm, I::kModeA>(stage_a, p.operand_a, shared.m, &shared.k.a[chunk & 1][tile_in_chunk * kTileK]);
    load<I, I::kBn, I::kModeB>(stage_b, p.operand_b, shared.n, &shared.k.b[chunk & 1][tile_in_chunk * kTileK]);
    multiply<I>(shared.tiles.a[buffer], shared.tiles.b[buffer], m0, n0, sums);
    store<I, I::kBm, I::kModeA>(stage_a, p.operand_a.mode, shared.tiles.a[buffer ^ 1]);
    store<I, I::kBn, I::kModeB>(stage_b, p.operand_b.mode, shared.tiles.b[buffer ^ 1]);
    if (--k_tiles == 0) return;
  }
}

template <class I>
__global__ void __launch_bounds__(I::kThreads, I::kTile.min_blocks)
    implicit_gemm_simt(const __grid_constant__ Params p) {
  using Acc = typename I::Acc;
  using Index = typename I::Index;
  alignas(16) __shared__ unsigned char storage[sizeof(typename I::Shared)];
  typename I::Shared& shared = *reinterpret_cast<typename I::Shared*>(storage);

  const TilePosition at = tile_position(p, blockIdx.x);
  Geometry geometry;
  set_geometry(p, at.stride_phase, &geometry);
  if (static_cast<Index>(at.m) * I::kBm >= static_cast<Index>(geometry.m_count)) return;  // a phase smaller than others
  const Index k_count = static_cast<Index>(geometry.k_count);
  const Index k_begin = min(static_cast<Index>(at.split) * static_cast<Index>(p.k_per_split), k_count);
  const Index k_end = k_begin + min(k_count - k_begin, static_cast<Index>(p.k_per_split));
  if (threadIdx.x == 0) {
    shared.k_radices = geometry.k;
    shared.k_begin = k_begin;
    shared.k_end = k_end;
  }
  set_outer_entries<I>(p, geometry, at, shared);
  __syncthreads();
  set_k_entries<I>(p, 0, shared);
  __syncthreads();

  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int m0 = (warp % I::kWarpsM * I::kLanesM + lane % I::kLanesM) * I::kVec;
  const int n0 = (warp / I::kWarpsM * I::kLanesN + lane / I::kLanesM) * I::kVec;

  Acc sums[I::kTile.tm][I::kTile.tn];
#pragma unroll
  for (int i = 0; i < I::kTile.tm; ++i) {
#pragma unroll
    for (int j = 0; j < I::kTile.tn; ++j) sums[i][j] = Acc(0);
  }
  if (k_begin < k_end) reduce<I>(p, (k_end - k_begin + kTileK - 1) / kTileK, m0, n0, shared, sums);

  if (p.splits > 1) {
    store_partial_sums<I>(p, sums, m0, n0);
  } else {
    // Again, rather than kept in registers all along.
    const TilePosition there = tile_position(p, blockIdx.x);
    set_geometry(p, there.stride_phase, &geometry);
    store_result<I>(p, geometry, there, sums, m0, n0, shared);
  }
}

// --- launch ----------------------------------------------------------------------------------------------------------

using LaunchRow = void (*)(const Params& params, std::uint32_t blocks, CUstream_st* stream);

// Defined where its instances are, so that a file that only calls it does not compile the kernels.
template <int kRow>
void launch_row(const Params& params, std::uint32_t blocks, CUstream_st* stream);

template <class I>
void launch_instance(const Params& params, std::uint32_t blocks, CUstream_st* stream) {
  tile::launch_kernel(&implicit_gemm_simt<I>, {blocks, I::kThreads}, stream, params);
}

// The load modes of A and B that the packed layouts lead to, each with an instance of its own in the rows of float that
// large layers run on.
struct ModePair {
  LoadMode a, b;
};
constexpr ModePair kFixedModes[] = {
    {LoadMode::outer_scalar, LoadMode::k_vector},      // NCHW forward
    {LoadMode::outer_vector, LoadMode::k_vector},      // NCHW forward, 1x1
    {LoadMode::outer_scalar, LoadMode::k_scalar},      // NCHW data gradient; forward with an odd filter
    {LoadMode::outer_scalar, LoadMode::outer_scalar},  // NCHW data gradient with a stride
    {LoadMode::outer_vector, LoadMode::outer_vector},  // NCHW data gradient, 1x1; NHWC filter gradient
    {LoadMode::outer_scalar, LoadMode::outer_vector},  // NCHW data gradient, 1x1 with an odd image
    {LoadMode::k_scalar, LoadMode::k_vector},          // NCHW filter gradient
    {LoadMode::k_scalar, LoadMode::k_scalar},          // NCHW filter gradient with an odd image
    {LoadMode::k_vector, LoadMode::k_vector},          // NCHW filter gradient, 1x1; NHWC forward
    {LoadMode::k_vector, LoadMode::outer_vector},      // NHWC data gradient
};

template <int kRow, std::size_t... kPairs>
void launch_with_fixed_modes(const Params& params, std::uint32_t blocks, CUstream_st* stream,
                             std::index_sequence<kPairs...>) {
  const bool launched =
      ((params.operand_a.mode == kFixedModes[kPairs].a && params.operand_b.mode == kFixedModes[kPairs].b &&
        (launch_instance<
             Instance<kRow, static_cast<int>(kFixedModes[kPairs].a), static_cast<int>(kFixedModes[kPairs].b)>>(
             params, blocks, stream),
         true)) ||
       ...);
  if (!launched) launch_instance<Instance<kRow>>(params, blocks, stream);
}

}  // namespace gpudnn::kernels::simt
