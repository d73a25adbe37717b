// The SIMT implicit GEMM's instances, what they keep in shared memory, and the way of its operands: global memory to
// registers by one of four load modes, then to shared memory. See implicit_gemm_simt.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "kernels/conv/implicit_gemm/implicit_gemm_simt_entries.cuh"

namespace gpudnn::kernels::simt {

// A vector to shared memory (tile::store_pack is for global memory).
template <class Acc, int kVec>
__device__ __forceinline__ void store_shared(Acc* pointer, const tile::Pack<Acc, kVec>& pack) {
  typename tile::VectorOf<16>::type bits;
  static_assert(sizeof bits == sizeof pack, "a vector is 16 bytes");
  memcpy(&bits, &pack, sizeof bits);
  *reinterpret_cast<decltype(bits)*>(pointer) = bits;
}

// The load modes are fixed where an instance exists for them, else (kAnyMode) read from the parameters: the switch on
// them costs registers and instructions in the loop.
constexpr int kAnyMode = -1;

template <int kRow, int kModeOfA = kAnyMode, int kModeOfB = kAnyMode>
struct Instance {
  static constexpr int kModeA = kModeOfA;
  static constexpr int kModeB = kModeOfB;
  static constexpr TileRow kTile = kTiles[kRow];
  using T = typename ElementOf<kTile.type>::type;
  using Acc = tile::Compute<T>;
  using Index = std::conditional_t<kTile.wide, std::uint64_t, std::uint32_t>;

  static constexpr int kBm = kTile.bm;
  static constexpr int kBn = kTile.bn;
  static constexpr int kThreads = kTile.threads();
  static constexpr int kVec = 16 / sizeof(Acc);  // elements of a vector, in memory and in shared memory
  static constexpr int kChunk = kThreads / 2;    // half of the threads make A's entries, half B's
  static constexpr int kTilesPerChunk = kChunk / kTileK;
  // A thread's sums are groups of kVec x kVec, spread over the tile so that lanes read neighbouring vectors.
  static constexpr int kGroupsM = kTile.tm / kVec;
  static constexpr int kGroupsN = kTile.tn / kVec;
  static constexpr int kPartM = kBm / kGroupsM;
  static constexpr int kPartN = kBn / kGroupsN;
  static constexpr int kLanesM = kTile.lanes_m;
  static constexpr int kLanesN = 32 / kLanesM;
  static constexpr int kWarpsM = kPartM / (kLanesM * kVec);

  static_assert(kThreads % 32 == 0 && kChunk % kTileK == 0 && kTilesPerChunk >= 2, "chunks of whole tiles, made ahead");
  static_assert(kWarpsM * kLanesM * kVec == kPartM && kPartN % (kLanesN * kVec) == 0, "whole warps");
  static_assert(kWarpsM * (kPartN / (kLanesN * kVec)) * 32 == kThreads, "the warps cover the tile");

  struct Tiles {
    Acc a[2][kTileK][kBm + 4];  // padded so that the 8 k of a warp's k_scalar store fall into different banks
    Acc b[2][kTileK][kBn + 4];
  };
  struct Shared {
    union {
      Tiles tiles;
      Acc staged[kPartM * kPartN];  // the epilogue's epilogue
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
    Radices k_radices;
    Index k_begin;
    Index k_end;
  };
};

// A thread's share of one tile of an operand, on its way from global to shared memory in the type of the tensor.
template <class I, int kOuter>
struct Stage {
  using T = typename I::T;
  static constexpr int kThreads = I::kThreads;
  static constexpr int kVec = I::kVec;
  static constexpr int kScalars = (kOuter * kTileK + kThreads - 1) / kThreads;
  static constexpr int kVectors = (kOuter * kTileK + kThreads * kVec - 1) / (kThreads * kVec);
  static constexpr bool kPartialScalars = kOuter * kTileK % kThreads != 0;
  static constexpr bool kPartialVectors = kOuter * kTileK % (kThreads * kVec) != 0;
  // 16-bit elements of a vector stay in pairs until they are stored: taking them apart would wait for the load.
  using Slot = std::conditional_t<sizeof(T) == 2, std::uint32_t, T>;
  static constexpr int kVectorSlots = sizeof(T) == 2 ? kVec / 2 : kVec;
  Slot slot[kVectors * kVectorSlots > kScalars ? kVectors* kVectorSlots : kScalars];

  __device__ __forceinline__ void set_scalar(int i, T value) {
    if constexpr (sizeof(T) == 2)
      slot[i] = tile::word_of<T>(value, value);
    else
      slot[i] = value;
  }
  __device__ __forceinline__ T scalar(int i) const {
    if constexpr (sizeof(T) == 2)
      return tile::half_of<T>(slot[i], 0);
    else
      return slot[i];
  }
  __device__ __forceinline__ void set_vector(int i, const tile::Pack<T, kVec>& pack) {
#pragma unroll
    for (int j = 0; j < kVectorSlots; ++j) {
      if constexpr (sizeof(T) == 2)
        slot[i * kVectorSlots + j] = pack.words[j];
      else
        slot[i * kVectorSlots + j] = pack.data[j];
    }
  }
  __device__ __forceinline__ T of_vector(int i, int j) const {
    if constexpr (sizeof(T) == 2)
      return tile::half_of<T>(slot[i * kVectorSlots + j / 2], j % 2);
    else
      return slot[i * kVectorSlots + j];
  }

  // Where piece i of this thread lies when pieces are dealt out with kFast of them along the fast direction.
  template <int kFast>
  static __device__ __forceinline__ void place(int i, int* fast, int* slow) {
    const int thread = static_cast<int>(threadIdx.x);
    if constexpr (kFast <= kThreads) {
      *fast = thread % kFast;
      *slow = thread / kFast + i * (kThreads / kFast);
    } else {
      *fast = thread + (i % (kFast / kThreads)) * kThreads;
      *slow = i / (kFast / kThreads);
    }
  }
};

// The pieces of this thread in a tile, each as visit(i, outer, k).
template <class S, int kOuter, class Visit>
__device__ __forceinline__ void for_each_scalar_along_outer(Visit&& visit) {
#pragma unroll
  for (int i = 0; i < S::kScalars; ++i) {
    int o, k;
    S::template place<kOuter>(i, &o, &k);
    if (!S::kPartialScalars || k < kTileK) visit(i, o, k);
  }
}
template <class S, int kOuter, class Visit>
__device__ __forceinline__ void for_each_scalar_along_k(Visit&& visit) {
#pragma unroll
  for (int i = 0; i < S::kScalars; ++i) {
    int o, k;
    S::template place<kTileK>(i, &k, &o);
    if (!S::kPartialScalars || o < kOuter) visit(i, o, k);
  }
}
template <class S, int kOuter, class Visit>
__device__ __forceinline__ void for_each_vector_along_outer(Visit&& visit) {
#pragma unroll
  for (int i = 0; i < S::kVectors; ++i) {
    int o, k;
    S::template place<kOuter / S::kVec>(i, &o, &k);
    if (!S::kPartialVectors || k < kTileK) visit(i, o * S::kVec, k);
  }
}
template <class S, int kOuter, class Visit>
__device__ __forceinline__ void for_each_vector_along_k(Visit&& visit) {
#pragma unroll
  for (int i = 0; i < S::kVectors; ++i) {
    int o, k;
    S::template place<kTileK / S::kVec>(i, &k, &o);
    if (!S::kPartialVectors || o < kOuter) visit(i, o, k * S::kVec);
  }
}

template <int kMode>
__device__ __forceinline__ LoadMode mode_or(LoadMode at_run_time) {
  return kMode == kAnyMode ? at_run_time : static_cast<LoadMode>(kMode);
}

// `outer` holds absolute addresses, `inner` offsets.
template <class I, int kOuter, int kMode>
__device__ __forceinline__ void load(Stage<I, kOuter>& stage, const Operand& operand, const Entry* outer,
                                     const Entry* inner) {
  using S = Stage<I, kOuter>;
  using T = typename I::T;
  constexpr int kVec = I::kVec;
  const auto scalar = [&](int i, int o, int k) {
    const Entry eo = outer[o];
    const Entry ek = inner[k];
    T v = tile::narrow<T>(0.0f);
    if (entry_in_bounds<I>(eo, ek, operand.bounds)) v = tile::load_constant(address<T>(eo, ek));
    stage.set_scalar(i, v);
  };
  const auto vector = [&](int i, int o, int k) {
    const Entry eo = outer[o];
    const Entry ek = inner[k];
    tile::Pack<T, kVec> v;
    v.fill(tile::narrow<T>(0.0f));
    if (entry_in_bounds<I>(eo, ek, operand.bounds)) v = tile::load_pack<T, kVec>(address<T>(eo, ek));
    stage.set_vector(i, v);
  };
  switch (mode_or<kMode>(operand.mode)) {
    case LoadMode::outer_scalar:
      for_each_scalar_along_outer<S, kOuter>(scalar);
      break;
    case LoadMode::outer_vector:
      for_each_vector_along_outer<S, kOuter>(vector);
      break;
    case LoadMode::k_scalar:
      for_each_scalar_along_k<S, kOuter>(scalar);
      break;
    case LoadMode::k_vector:
      for_each_vector_along_k<S, kOuter>(vector);
      break;
  }
}

template <class I, int kOuter, int kMode>
__device__ __forceinline__ void store(const Stage<I, kOuter>& stage, LoadMode mode,
                                      typename I::Acc (&shared)[kTileK][kOuter + 4]) {
  using S = Stage<I, kOuter>;
  using Acc = typename I::Acc;
  constexpr int kVec = I::kVec;
  const auto scalar = [&](int i, int o, int k) { shared[k][o] = tile::widen<Acc>(stage.scalar(i)); };
  const auto row_vector = [&](int i, int o, int k) {
    tile::Pack<Acc, kVec> pack;
#pragma unroll
    for (int j = 0; j < kVec; ++j) pack.data[j] = tile::widen<Acc>(stage.of_vector(i, j));
    store_shared<Acc, kVec>(&shared[k][o], pack);
  };
  const auto column_vector = [&](int i, int o, int k) {
#pragma unroll
    for (int j = 0; j < kVec; ++j) shared[k + j][o] = tile::widen<Acc>(stage.of_vector(i, j));
  };
  switch (mode_or<kMode>(mode)) {
    case LoadMode::outer_scalar:
      for_each_scalar_along_outer<S, kOuter>(scalar);
      break;
    case LoadMode::outer_vector:
      for_each_vector_along_outer<S, kOuter>(row_vector);
      break;
    case LoadMode::k_scalar:
      for_each_scalar_along_k<S, kOuter>(scalar);
      break;
    case LoadMode::k_vector:
      for_each_vector_along_k<S, kOuter>(column_vector);
      break;
  }
}

// Entries of k in chunk `chunk` of the block's part of the reduction.
template <class I>
__device__ __forceinline__ void set_k_entries(const Params& p, int chunk, typename I::Shared& shared) {
  using Index = typename I::Index;
  const int slot = static_cast<int>(threadIdx.x) % I::kChunk;
  const bool for_a = static_cast<int>(threadIdx.x) < I::kChunk;
  const Index k = shared.k_begin + static_cast<Index>(chunk) * I::kChunk + static_cast<Index>(slot);
  const Operand& operand = for_a ? p.operand_a : p.operand_b;
  (for_a ? shared.k.a : shared.k.b)[chunk & 1][slot] =
      entry_or_poison<Index>(operand.inner, shared.k_radices, k, shared.k_end, Entry{0, 0}, operand.bounds.poison);
}

}  // namespace gpudnn::kernels::simt
