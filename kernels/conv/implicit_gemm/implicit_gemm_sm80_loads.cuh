// The mma.sync implicit GEMM's instances, what they keep in shared memory, and the way of its operands there: by
// cp.async, or through registers where 16-bit elements lie at odd places. See implicit_gemm_sm80.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "kernels/conv/implicit_gemm/implicit_gemm_sm80_entries.cuh"
#include "kernels/ptx/cp_async.cuh"

namespace gpudnn::kernels::sm80 {

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
    Work work;
  };
  static_assert(sizeof(Shared) <= 99 * 1024, "a block of the smallest sm_80 and later has 99 KiB");
};

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
  // The place `rows` further down from one in a row below `rows_at_once`, a power of two of which `rows` is a multiple:
  // no carry meets the bits that chunks are exchanged by. Mostly a constant step.
  static __device__ __forceinline__ std::uint32_t place_below(std::uint32_t place, int rows) {
    return (place ^ static_cast<std::uint32_t>(exchange(rows) << 4)) + static_cast<std::uint32_t>(rows * kRowBytes);
  }
};

template <class I>
using TileOfA = SharedTile<I, I::kBm, I::kAKMajor>;
template <class I>
using TileOfB = SharedTile<I, I::kBn, I::kBKMajor>;

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
  const std::uint32_t first = S::place(first_row, byte >> 4) + static_cast<std::uint32_t>(byte & 15);
  // Entries are read some at a time: no read passes a copy, so that each alone would wait for its own.
  constexpr int kBatch = kCopies < 4 ? kCopies : 4;
  static_assert(kCopies % kBatch == 0, "whole batches");
#pragma unroll 1
  for (int i = 0; i < kCopies; i += kBatch) {
    Entry at[kBatch];
#pragma unroll
    for (int j = 0; j < kBatch; ++j) at[j] = slow[first_row + (i + j) * kRowsAtOnce];
    const std::uint32_t first_of_batch = tile + S::place_below(first, i * kRowsAtOnce);
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      ptx::cp_async<kVector>(S::place_below(first_of_batch, j * kRowsAtOnce),
                             reinterpret_cast<const void*>(column.offset + at[j].offset),
                             inside<I>(column, at[j], bounds) ? kVector : 0);
    }
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
    const std::uint32_t first = S::place(first_row, byte >> 4) + static_cast<std::uint32_t>(byte & 15);
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const std::uint32_t word = __byte_perm(low[i], high[i], 0x5410);
      *reinterpret_cast<std::uint32_t*>(tile + S::place_below(first, i * kRowsAtOnce)) = word;
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

}  // namespace gpudnn::kernels::sm80
