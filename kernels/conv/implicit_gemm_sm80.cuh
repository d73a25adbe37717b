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
// TF32 operands are rounded to nearest on their way out of shared memory: the matrix units cut off what is below.
//
// Summation order is fixed by the config alone: results are bit-identical from run to run. Limits: those of the SIMT
// kernel's padding. 32-bit indices and positions only.
//
// Longer than most files: the phases of one kernel share its types.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "kernels/conv/implicit_gemm_simt.cuh"
#include "kernels/conv/implicit_gemm_sm80.hpp"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/mma_sync.cuh"
#include "kernels/tile/launch.hpp"
#include "kernels/tile/shared_memory.cuh"

namespace gpudnn::kernels::sm80 {

using simt::Entry;

template <ElementType kOfType, int kRow, bool kAIsKMajor, bool kBIsKMajor, bool kWithHalves>
struct Instance {
  static constexpr ElementType kType = kOfType;
  static constexpr TileRow kTile = kTiles[kRow];
  static constexpr bool kAKMajor = kAIsKMajor;
  static constexpr bool kBKMajor = kBIsKMajor;
  static constexpr bool kHalves = kWithHalves;
  using T = typename simt::ElementOf<kType>::type;
  using Acc = float;
  using Index = std::uint32_t;

  static constexpr int kBm = kTile.bm;
  static constexpr int kBn = kTile.bn;
  static constexpr int kBk = tile_k(kType);
  static constexpr int kStages = kTile.stages;
  static constexpr int kThreads = kTile.threads(kHalves);
  static constexpr int kMinBlocks = kHalves ? kTile.halves_min_blocks : kTile.min_blocks;
  static constexpr int kWarpsM = kTile.warps_m;
  static constexpr int kWarpsN = kThreads / 32 / kWarpsM;
  static constexpr int kWarpM = kBm / kWarpsM;
  static constexpr int kWarpN = kBn / kWarpsN;
  static constexpr int kFragmentsM = kWarpM / 16;
  static constexpr int kFragmentsN = kWarpN / 8;
  static constexpr int kVec = 4;  // elements of a vector of the epilogue
  static constexpr int kTilesPerChunk = 4;
  static constexpr int kChunk = kTilesPerChunk * kBk;

  static_assert(kWarpM % 32 == 0 && kWarpN % 32 == 0, "the exchange of chunks counts on it");
  static_assert(kStages - 1 < kTilesPerChunk, "the first chunk of entries must hold the tiles that are loaded ahead");

  struct Tiles {
    unsigned char a[kStages][kBm * kTileKBytes];
    unsigned char b[kStages][kBn * kTileKBytes];
  };
  // The sums leave in parts of whole warps' rows that fit where the tiles were.
  static constexpr int kParts = kBm * kBn * sizeof(float) <= sizeof(Tiles) ? 1 : 2;
  static constexpr int kPartM = kBm / kParts;
  static constexpr int kPartN = kBn;
  static constexpr int kWarpsOfPart = kWarpsM / kParts;
  static_assert(kPartM * kPartN * sizeof(float) <= sizeof(Tiles) && kWarpsM % kParts == 0, "parts fit, in whole warps");

  struct Shared {
    union {
      Tiles tiles;
      float staged[kPartM * kPartN];
    };
    Entry m[kBm];
    Entry n[kBn];
    union {
      struct {
        Entry a[2][kChunk];
        Entry b[2][kChunk];
      } k;
      struct {
        std::int64_t m[kBm];
        std::int64_t n[kBn];
      } z;  // addresses of the epilogue's addend
    };
    simt::Radices k_radices;
    Index k_begin;
    Index k_end;
  };
  static_assert(sizeof(Shared) <= 99 * 1024, "a block of the smallest sm_80 and later has 99 KiB");
};

// --- one operand's tile in shared memory -----------------------------------------------------------------------------

// kOuter x kBk elements; `slow` counts rows, `fast` runs along them.
template <class I, int kOuterExtent, bool kIsKMajor>
struct SharedTile {
  static constexpr int kOuter = kOuterExtent;
  static constexpr bool kKMajor = kIsKMajor;
  static constexpr int kElement = static_cast<int>(sizeof(typename I::T));
  static constexpr int kRows = kKMajor ? kOuter : I::kBk;
  static constexpr int kRowBytes = kKMajor ? kTileKBytes : kOuter * kElement;
  // ldmatrix reads the same chunk of 8 rows at a time: they differ in 8 chunks, or in 4 and the half of 128 bytes. The
  // plain loads of TF32 read 32 bytes of 4 rows.
  static constexpr bool kPlainLoads = kElement == 4 && !kKMajor;

  static __device__ __forceinline__ int exchange(int row) {
    if constexpr (kPlainLoads) return 2 * (row & 3);
    if constexpr (kRowBytes == 64) return row >> 1 & 3;
    return row & 7;
  }
  static __device__ __forceinline__ std::uint32_t place(int row, int chunk) {
    return static_cast<std::uint32_t>(row * kRowBytes + ((chunk ^ exchange(row)) << 4));
  }
};

template <class I>
using TileOfA = SharedTile<I, I::kBm, I::kAKMajor>;
template <class I>
using TileOfB = SharedTile<I, I::kBn, I::kBKMajor>;

// --- global -> shared ------------------------------------------------------------------------------------------------

template <class I>
__device__ __forceinline__ bool inside(const Entry& a, const Entry& b, const simt::Bounds& bounds) {
  return simt::entry_in_bounds<I>(a, b, bounds);
}

// Copies of kVector bytes, dealt out along the rows: a thread stays in its column. `fast` and `slow` are the entries of
// the columns and rows.
template <class I, class S, int kVector>
__device__ __forceinline__ void copy_tile(std::uint32_t tile, const simt::Bounds& bounds, const Entry& column,
                                          const Entry* slow) {
  constexpr int kColumns = S::kRowBytes / kVector;
  constexpr int kRowsAtOnce = I::kThreads / kColumns;
  constexpr int kCopies = S::kRows / kRowsAtOnce;
  static_assert(I::kThreads % kColumns == 0 && S::kRows % kRowsAtOnce == 0, "whole rows of copies");
  const int byte = static_cast<int>(threadIdx.x) % kColumns * kVector;
  const int first_row = static_cast<int>(threadIdx.x) / kColumns;
#pragma unroll(kCopies < 8 ? kCopies : 8)
  for (int i = 0; i < kCopies; ++i) {
    const int row = first_row + i * kRowsAtOnce;
    const Entry at = slow[row];
    ptx::cp_async<kVector>(tile + S::place(row, byte >> 4) + (byte & 15),
                           reinterpret_cast<const void*>(column.offset + at.offset),
                           inside<I>(column, at, bounds) ? kVector : 0);
  }
}

// The entry of this thread's column for copies of kVector bytes.
template <class S, int kVector>
__device__ __forceinline__ Entry column_entry(const Entry* fast) {
  return fast[static_cast<int>(threadIdx.x) % (S::kRowBytes / kVector) * (kVector / S::kElement)];
}

// A thread's share of a tile of 16-bit elements on its way through registers: pairs of neighbours in a row.
template <class I, class S>
struct Halves {
  static constexpr int kColumns = S::kRowBytes / 4;
  static constexpr int kRowsAtOnce = I::kThreads / kColumns;
  static constexpr int kPairs = S::kRows / kRowsAtOnce;
  static_assert(I::kThreads % kColumns == 0 && S::kRows % kRowsAtOnce == 0, "whole rows of pairs");
  // Apart until they are stored: joining them would wait for the loads.
  std::uint16_t low[kPairs];
  std::uint16_t high[kPairs];

  __device__ __forceinline__ void load(const simt::Bounds& bounds, const Entry* fast, const Entry* slow) {
    const int column = static_cast<int>(threadIdx.x) % kColumns * 2;
    const int first_row = static_cast<int>(threadIdx.x) / kColumns;
    const Entry left = fast[column];
    const Entry right = fast[column + 1];
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const Entry at = slow[first_row + i * kRowsAtOnce];
      low[i] = 0;
      high[i] = 0;
      if (inside<I>(left, at, bounds)) low[i] = __ldg(simt::address<std::uint16_t>(left, at));
      if (inside<I>(right, at, bounds)) high[i] = __ldg(simt::address<std::uint16_t>(right, at));
    }
  }
  __device__ __forceinline__ void store(unsigned char* tile) const {
    const int byte = static_cast<int>(threadIdx.x) % kColumns * 4;
    const int first_row = static_cast<int>(threadIdx.x) / kColumns;
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const std::uint32_t word = __byte_perm(low[i], high[i], 0x5410);
      *reinterpret_cast<std::uint32_t*>(tile + S::place(first_row + i * kRowsAtOnce, byte >> 4) + (byte & 15)) = word;
    }
  }
};
struct NoHalves {};

// Loads the tiles of one operand.
template <class I, class S>
struct Loader {
  static constexpr bool kMayHoldHalves = I::kHalves && S::kElement == 2;
  const simt::Operand& operand;
  const Entry* outer;
  std::int32_t vector;
  Entry column;  // for 16-byte copies with columns along m or n, which are the same in each tile
  std::conditional_t<kMayHoldHalves, Halves<I, S>, NoHalves> halves;

  __device__ __forceinline__ Loader(const simt::Operand& of, const Entry* outer_entries, std::int32_t vector_bytes)
      : operand(of), outer(outer_entries), vector(vector_bytes), column{0, 0} {
    if constexpr (!S::kKMajor) column = column_entry<S, 16>(outer);
  }

  // `inner` is the entry of the tile's first k. Halves stay in registers until `finish`.
  __device__ __forceinline__ void start(unsigned char* tile, const Entry* inner) {
    const auto shared = static_cast<std::uint32_t>(__cvta_generic_to_shared(tile));
    const Entry* const fast = S::kKMajor ? inner : outer;
    const Entry* const slow = S::kKMajor ? outer : inner;
    if (vector == 16) {
      copy_tile<I, S, 16>(shared, operand.bounds, S::kKMajor ? column_entry<S, 16>(fast) : column, slow);
    } else if (vector == 8) {
      copy_tile<I, S, 8>(shared, operand.bounds, column_entry<S, 8>(fast), slow);
    } else if (!kMayHoldHalves || vector == 4) {
      copy_tile<I, S, 4>(shared, operand.bounds, column_entry<S, 4>(fast), slow);
    } else if constexpr (kMayHoldHalves) {
      halves.load(operand.bounds, fast, slow);
    }
  }
  __device__ __forceinline__ void finish(unsigned char* tile) const {
    if constexpr (kMayHoldHalves) {
      if (vector < 4) halves.store(tile);
    }
  }
};

// Entries of k in chunk `chunk` of the block's part of the reduction.
template <class I>
__device__ __forceinline__ void set_entries_of_k(const simt::Params& p, int chunk, typename I::Shared& shared) {
  using Index = typename I::Index;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < 2 * I::kChunk; i += I::kThreads) {
    const int slot = i % I::kChunk;
    const bool for_a = i < I::kChunk;
    const Index k = shared.k_begin + static_cast<Index>(chunk) * I::kChunk + static_cast<Index>(slot);
    const simt::Operand& operand = for_a ? p.operand_a : p.operand_b;
    (for_a ? shared.k.a : shared.k.b)[chunk & 1][slot] = simt::entry_or_poison<Index>(
        operand.inner, shared.k_radices, k, shared.k_end, Entry{0, 0}, operand.bounds.poison);
  }
}

// --- shared -> registers -> sums -------------------------------------------------------------------------------------

// To nearest, ties away from zero: half of TF32's last place is added, and the matrix units read what stands above.
// Infinities and NaNs stay what they are.
__device__ __forceinline__ std::uint32_t round_to_tf32(std::uint32_t bits) {
  constexpr std::uint32_t kHalfOfLastPlace = 1u << 12;
  return fabsf(__uint_as_float(bits)) < __int_as_float(0x7f800000) ? bits + kHalfOfLastPlace : bits;
}

__device__ __forceinline__ std::uint32_t load_shared_word(const unsigned char* tile, std::uint32_t offset) {
  return *reinterpret_cast<const std::uint32_t*>(tile + offset);
}

// The fragments of one step (32 bytes of k) of a warp's rows, in 8 rows x 16 bytes: words[i] are those of 16 rows,
// {rows 0-7, rows 8-15} x {first, second half of the step}, in the order that kRowsFirst says.
template <class I, class S, int kGroups, bool kRowsFirst>
struct Fragments {
  std::uint32_t words[kGroups][4];

  // `first` is the warp's first m or n.
  __device__ __forceinline__ void load(const unsigned char* tile, int first, int step) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    // Of the matrix j = lane / 8 whose rows' addresses this lane gives.
    const int high_rows = kRowsFirst ? lane >> 3 & 1 : lane >> 4;
    const int high_k = kRowsFirst ? lane >> 4 : lane >> 3 & 1;
    if constexpr (S::kPlainLoads) {
      const int g = lane >> 2;
      const int t = lane & 3;
      const std::uint32_t base = S::place(t, (first + g) >> 2) + static_cast<std::uint32_t>((g & 3) * 4);
#pragma unroll
      for (int i = 0; i < kGroups; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int rows_up = kRowsFirst ? j & 1 : j >> 1;
          const int k_up = kRowsFirst ? j >> 1 : j & 1;
          const auto chunks = static_cast<std::uint32_t>(4 * i + 2 * rows_up) << 4;
          words[i][j] = round_to_tf32(load_shared_word(
              tile, (base ^ chunks) + static_cast<std::uint32_t>((step * 8 + k_up * 4) * S::kRowBytes)));
        }
      }
    } else {
      const auto shared = static_cast<std::uint32_t>(__cvta_generic_to_shared(tile));
      if constexpr (S::kKMajor) {
        const std::uint32_t base = shared + S::place(first + (lane & 7) + 8 * high_rows, high_k);
#pragma unroll
        for (int i = 0; i < kGroups; ++i) {
          ptx::ldmatrix_x4((base ^ static_cast<std::uint32_t>(step << 5)) + static_cast<std::uint32_t>(i * 16 * 64),
                           words[i]);
        }
      } else {
        const std::uint32_t base = shared + S::place((lane & 7) + 8 * high_k, first / 8 + high_rows);
#pragma unroll
        for (int i = 0; i < kGroups; ++i) {
          ptx::ldmatrix_x4_trans(
              (base ^ static_cast<std::uint32_t>(2 * i << 4)) + static_cast<std::uint32_t>(step * 16 * S::kRowBytes),
              words[i]);
        }
      }
      if constexpr (S::kElement == 4) {
#pragma unroll
        for (int i = 0; i < kGroups; ++i) {
#pragma unroll
          for (int j = 0; j < 4; ++j) words[i][j] = round_to_tf32(words[i][j]);
        }
      }
    }
  }
};
template <class I>
using FragmentsOfA = Fragments<I, TileOfA<I>, I::kFragmentsM, true>;
template <class I>
using FragmentsOfB = Fragments<I, TileOfB<I>, I::kFragmentsN / 2, false>;

template <ElementType kType>
__device__ __forceinline__ void mma(float (&sums)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  if constexpr (kType == ElementType::f16)
    ptx::mma_m16n8k16_f16(sums, a, b0, b1);
  else if constexpr (kType == ElementType::bf16)
    ptx::mma_m16n8k16_bf16(sums, a, b0, b1);
  else
    ptx::mma_m16n8k8_tf32(sums, a, b0, b1);
}

template <class I>
using Sums = float[I::kFragmentsM][I::kFragmentsN][4];

template <class I>
__device__ __forceinline__ void multiply(const FragmentsOfA<I>& a, const FragmentsOfB<I>& b, Sums<I>& sums) {
#pragma unroll
  for (int i = 0; i < I::kFragmentsM; ++i) {
#pragma unroll
    for (int j = 0; j < I::kFragmentsN; ++j) {
      mma<I::kType>(sums[i][j], a.words[i], b.words[j / 2][j % 2 * 2], b.words[j / 2][j % 2 * 2 + 1]);
    }
  }
}

// Where this thread's sums lie in the block's tile.
template <class I>
struct Place {
  int m0, n0;  // of the warp

  __device__ __forceinline__ Place() {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    m0 = warp % I::kWarpsM * I::kWarpM;
    n0 = warp / I::kWarpsM * I::kWarpN;
  }
  __device__ __forceinline__ int m(int i, int half) const {
    return m0 + 16 * i + 8 * half + static_cast<int>(threadIdx.x) % 32 / 4;
  }
  // The first of two neighbours.
  __device__ __forceinline__ int n(int j) const { return n0 + 8 * j + static_cast<int>(threadIdx.x) % 4 * 2; }
};

// Multiplies the tiles of k [0, k_tiles) of the block's part into the sums.
template <class I>
__device__ __forceinline__ void reduce(const Params& p, std::uint32_t k_tiles, const Place<I>& place,
                                       typename I::Shared& shared, Sums<I>& sums) {
  constexpr int kSteps = kTileKBytes / 32;
  Loader<I, TileOfA<I>> loader_a(p.gemm.operand_a, shared.m, p.a.vector);
  Loader<I, TileOfB<I>> loader_b(p.gemm.operand_b, shared.n, p.b.vector);
#pragma unroll 1
  for (int s = 0; s < I::kStages - 1; ++s) {
    loader_a.start(shared.tiles.a[s], &shared.k.a[0][s * I::kBk]);
    loader_b.start(shared.tiles.b[s], &shared.k.b[0][s * I::kBk]);
    loader_a.finish(shared.tiles.a[s]);
    loader_b.finish(shared.tiles.b[s]);
    ptx::cp_async_commit_group();
  }
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

// --- epilogue --------------------------------------------------------------------------------------------------------

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

// --- the kernel ------------------------------------------------------------------------------------------------------

template <class I>
__device__ __forceinline__ void run(const Params& params, typename I::Shared& shared) {
  using Index = typename I::Index;
  const simt::Params& p = params.gemm;
  const simt::TilePosition at = simt::tile_position(p, blockIdx.x);
  simt::Geometry geometry;
  simt::set_geometry(p, at.residue_class, &geometry);
  if (at.m * I::kBm >= static_cast<Index>(geometry.m_count)) return;  // a class smaller than others
  const Index k_count = static_cast<Index>(geometry.k_count);
  const Index k_begin = min(at.split * static_cast<Index>(p.k_per_split), k_count);
  const Index k_end = k_begin + min(k_count - k_begin, static_cast<Index>(p.k_per_split));
  if (threadIdx.x == 0) {
    shared.k_radices = geometry.k;
    shared.k_begin = k_begin;
    shared.k_end = k_end;
  }
  simt::set_outer_entries<I>(p, geometry, at, shared);
  __syncthreads();
  set_entries_of_k<I>(p, 0, shared);
  set_entries_of_k<I>(p, 1, shared);
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
  if (k_begin < k_end) reduce<I>(params, (k_end - k_begin + I::kBk - 1) / I::kBk, place, shared, sums);

  if (p.splits > 1) {
    store_partial_sums<I>(p, place, sums);
  } else {
    // Again, rather than kept in registers all along.
    const simt::TilePosition there = simt::tile_position(p, blockIdx.x);
    simt::set_geometry(p, there.residue_class, &geometry);
    store_result<I>(p, geometry, there, place, sums, shared);
  }
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
  tile::allow_shared_memory<&implicit_gemm_sm80<I>>(static_cast<int>(sizeof(typename I::Shared)));
  tile::launch_kernel(&implicit_gemm_sm80<I>, {blocks, I::kThreads, sizeof(typename I::Shared)}, stream, params);
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

// Defined where its instances are, so that a file that only calls it does not compile the kernels.
template <ElementType kType>
void launch_type(int row, const Params& params, std::uint32_t blocks, CUstream_st* stream);

template <ElementType kType, std::size_t... kRows>
void launch_rows(int row, const Params& params, std::uint32_t blocks, CUstream_st* stream,
                 std::index_sequence<kRows...>) {
  const auto launch_row = [&]<int kRow>() {
    if constexpr (kType != ElementType::f32 && kTiles[kRow].halves_warps_n > 0) {
      if (needs_halves(params)) return launch_orientation<kType, kRow, true>(params, blocks, stream);
    }
    launch_orientation<kType, kRow, false>(params, blocks, stream);
  };
  ((row == static_cast<int>(kRows) ? launch_row.template operator()<static_cast<int>(kRows)>() : void()), ...);
}

}  // namespace gpudnn::kernels::sm80
