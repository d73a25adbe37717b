// Tensor-core implicit-GEMM convolution through mma.sync: the kernel. The mathematics and the index arithmetic are in
// implicit_gemm_simt.hpp: C[m, n] = sum over k of A[m, k] * B[k, n], an element's address being outer[m or n] +
// inner[k].
//
// clang-format off
// Data flow of a block, which computes one bm x bn tile of C:
//   entries of its m and n                     -> shared, once
//   entries of the next 4 tiles of k           -> shared, double-buffered
//   tile t + stages - 1 of A and B    global -> shared by cp.async, 16, 8 or 4 bytes each, zeros out of bounds
//                                     (16-bit elements at odd places: global -> registers -> shared, around the product)
//   tile t                            shared -> registers (ldmatrix, or plain loads) -> mma.sync
//   sums                              registers -> shared, part by part -> global, lanes along memory
// clang-format on
//
// An operand lies in shared memory as it does in global memory: rows are m (or n) and columns k where k runs along
// memory ("k-major"), else the other way round. Chunks of 16 bytes are exchanged within a row (see SharedTile), so that
// neither the writes nor the reads of a fragment meet in a bank. ldmatrix transposes 16-bit elements where k is not
// the fast direction; TF32 fragments are plain loads then.
//
// TF32 operands are rounded to nearest on their epilogue of shared memory: the matrix units cut off what is below.
//
// Summation order is fixed by the config alone: results are bit-identical from run to run. Limits: those of the SIMT
// kernel's padding. 32-bit indices and positions only.
//
// Files: _entries (what a block works on, addresses and bounds), _loads (instances, global -> shared), _multiply
// (fragments and products), _store (the epilogue).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/conv/implicit_gemm/implicit_gemm_sm80_loads.cuh"
#include "kernels/conv/implicit_gemm/implicit_gemm_sm80_multiply.cuh"
#include "kernels/conv/implicit_gemm/implicit_gemm_sm80_store.cuh"

namespace gpudnn::kernels::sm80 {

// Multiplies the tiles of k [0, k_tiles) of the block's part into the sums.
template <class I>
__device__ __forceinline__ void reduce(const Params& p, std::uint32_t k_tiles, const Place<I>& place,
                                       typename I::Shared& shared, Sums<I>& sums) {
  constexpr int kSteps = kTileKBytes / 32;
  Loader<I, TileOfA<I>> loader_a(p.gemm.operand_a, shared.m, p.a.vector);
  Loader<I, TileOfB<I>> loader_b(p.gemm.operand_b, shared.n, p.b.vector);
  // By code of their own: in the loop below, which would multiply nothing yet, they would cost it up to 4 %.
#pragma unroll 1
  for (int t = 0; t < I::kStages - 1; ++t) {
    loader_a.start(shared.tiles.a[t], &shared.k.a[0][t * I::kBk]);
    loader_b.start(shared.tiles.b[t], &shared.k.b[0][t * I::kBk]);
    loader_a.finish(shared.tiles.a[t]);
    loader_b.finish(shared.tiles.b[t]);
    ptx::cp_async_commit_group();
  }
  set_entries_of_k<I>(p.gemm, 1, shared);
  int read = 0;
  int write = I::kStages - 1;
  int tile_in_chunk = I::kStages - 1;
  int chunk = 0;
#pragma unroll 1
  for (;;) {
    // This thread's copies of the tile have landed; past the barrier, everyone's, and nobody reads the oldest tile, or
    // the entries of the chunk before, any more.
    ptx::cp_async_wait_group<I::kStages - 2>();
    __syncthreads();
    FragmentsOfA<I> a[2];
    FragmentsOfB<I> b[2];
    a[0].load(shared.tiles.a[read], place.m0, 0);
    b[0].load(shared.tiles.b[read], place.n0, 0);
    if (tile_in_chunk == 0) set_entries_of_k<I>(p.gemm, chunk + 1, shared);
    // Tiles after the last are loaded, too: their entries are poisoned, so they cost no access to memory.
    loader_a.start(shared.tiles.a[write], &shared.k.a[chunk & 1][tile_in_chunk * I::kBk]);
    loader_b.start(shared.tiles.b[write], &shared.k.b[chunk & 1][tile_in_chunk * I::kBk]);
    ptx::cp_async_commit_group();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (step + 1 < kSteps) {
        a[(step + 1) % 2].load(shared.tiles.a[read], place.m0, step + 1);
        b[(step + 1) % 2].load(shared.tiles.b[read], place.n0, step + 1);
      }
      multiply<I>(a[step % 2], b[step % 2], sums);
    }
    loader_a.finish(shared.tiles.a[write]);
    loader_b.finish(shared.tiles.b[write]);
    if (++tile_in_chunk == I::kTilesPerChunk) {
      tile_in_chunk = 0;
      ++chunk;
    }
    read = read + 1 == I::kStages ? 0 : read + 1;
    write = write + 1 == I::kStages ? 0 : write + 1;
    if (--k_tiles == 0) break;
  }
  // Nothing may land in memory that the epilogue uses.
  ptx::cp_async_wait_group<0>();
}

template <class I>
__device__ __forceinline__ void run(const Params& params, typename I::Shared& shared) {
  const simt::Params& p = params.gemm;
  set_work<I>(p, &shared.work);
  __syncthreads();
  const Work& work = shared.work;
  if (work.m.first >= work.m.end) return;  // a phase smaller than others
  const std::uint32_t k_count = work.k.end - work.k.first;
  set_first_entries<I>(p, shared);
  __syncthreads();

  Sums<I> sums;
#pragma unroll
  for (int i = 0; i < I::kFragmentsM; ++i) {
#pragma unroll
    for (int j = 0; j < I::kFragmentsN; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[i][j][e] = 0;
    }
  }
  const Place<I> place;
  if (k_count > 0) reduce<I>(params, (k_count + I::kBk - 1) / I::kBk, place, shared, sums);
  store_result<I>(p, place, sums, shared);
}

template <class I>
__global__ void __launch_bounds__(I::kThreads, I::kMinBlocks) implicit_gemm_sm80(const __grid_constant__ Params p) {
#if __CUDA_ARCH__ >= 800
  extern __shared__ __align__(256) unsigned char storage[];
  run<I>(p, *reinterpret_cast<typename I::Shared*>(storage));
#else
  __trap();  // never launched: see available()
#endif
}

// --- launch ----------------------------------------------------------------------------------------------------------

template <class I>
void launch_instance(const Params& params, std::uint32_t blocks, CUstream_st* stream) {
  cuda::allow_shared_memory<&implicit_gemm_sm80<I>>(static_cast<int>(sizeof(typename I::Shared)));
  cuda::launch_kernel(&implicit_gemm_sm80<I>, {blocks, I::kThreads, sizeof(typename I::Shared)}, stream, params);
}

template <ElementType kType, int kRow, bool kHalves>
void launch_orientation(const Params& params, std::uint32_t blocks, CUstream_st* stream) {
  if (params.a.k_major) {
    if (params.b.k_major)
      launch_instance<Instance<kType, kRow, true, true, kHalves>>(params, blocks, stream);
    else
      launch_instance<Instance<kType, kRow, true, false, kHalves>>(params, blocks, stream);
  } else {
    if (params.b.k_major)
      launch_instance<Instance<kType, kRow, false, true, kHalves>>(params, blocks, stream);
    else
      launch_instance<Instance<kType, kRow, false, false, kHalves>>(params, blocks, stream);
  }
}

template <ElementType kType, int kRow>
void launch_row(const Params& params, std::uint32_t blocks, CUstream_st* stream) {
  if constexpr (kType != ElementType::f32 && kTiles[kRow].halves_warps_n > 0) {
    if (needs_halves(params)) return launch_orientation<kType, kRow, true>(params, blocks, stream);
  }
  launch_orientation<kType, kRow, false>(params, blocks, stream);
}

template <ElementType kType, int kPart>
void launch_part(int row, const Params& params, std::uint32_t blocks, CUstream_st* stream) {
  const auto try_row = [&]<int kRow>() {
    if constexpr (part_of_row(kRow) == kPart) {
      if (row == kRow) launch_row<kType, kRow>(params, blocks, stream);
    }
  };
  [&]<std::size_t... kRows>(std::index_sequence<kRows...>) {
    (try_row.template operator()<static_cast<int>(kRows)>(), ...);
  }
  (std::make_index_sequence<kTileCount>());
}

}  // namespace gpudnn::kernels::sm80
