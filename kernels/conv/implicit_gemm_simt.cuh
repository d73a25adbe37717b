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
// as in a convolution of the padded image. With the classes of a strided data gradient as columns the same holds for
// the taps that a class lacks: an infinite or NaN dy also reaches pixels of the blocks that it touches but whose taps
// miss it.
//
// Longer than most files: the phases of one kernel share its types.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iterator>
#include <utility>

#include "kernels/activation/activation.cuh"
#include "kernels/conv/implicit_gemm_simt.hpp"
#include "kernels/tile/launch.hpp"
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
      Acc staged[kPartM * kPartN];  // the epilogue's way out
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

// --- loads -----------------------------------------------------------------------------------------------------------

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
    if (entry_in_bounds<I>(eo, ek, operand.bounds)) v = __ldg(address<T>(eo, ek));
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

// --- epilogue --------------------------------------------------------------------------------------------------------

// The scalars in the accumulator's type, converted once.
template <class Acc>
struct Scalars {
  Acc alpha, beta, alpha2, coef;
  __device__ __forceinline__ explicit Scalars(const Params& p)
      : alpha(static_cast<Acc>(p.alpha)),
        beta(static_cast<Acc>(p.beta)),
        alpha2(static_cast<Acc>(p.alpha2)),
        coef(static_cast<Acc>(p.activation_coef)) {}
};

// Finishes kWidth neighbours: alpha * sum + beta * c, or the fused form. Neither c nor z is read unless it counts.
template <class T, int kWidth, class Acc>
__device__ __forceinline__ void finish_and_store(const Params& p, const Scalars<Acc>& scalars, const Acc (&sum)[kWidth],
                                                 T* c, const char* z, const char* bias, std::int64_t bias_step) {
  Acc v[kWidth];
#pragma unroll
  for (int j = 0; j < kWidth; ++j) v[j] = scalars.alpha * sum[j];
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
    for (int j = 0; j < kWidth; ++j) v[j] += tile::widen<Acc>(*reinterpret_cast<const T*>(bias + j * bias_step));
  }
  if (p.activation >= 0) {
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      v[j] = activate<T>(static_cast<ActivationMode>(p.activation), v[j], scalars.coef, p.propagate_nan);
    }
  }
  tile::store_pack<T, kWidth>(c, tile::narrow_pack<T>(v));
}

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

// From shared to global memory, lanes along memory. Other kernels have a StagedPart of their own.
template <class I, class Part>
__device__ __forceinline__ void finish_part(const Params& p, const Scalars<typename I::Acc>& scalars,
                                            const typename I::Shared& shared, const Part& part, std::int64_t first_bias,
                                            int part_m, int part_n) {
  using T = typename I::T;
  using Acc = typename I::Acc;
  constexpr int kVec = I::kVec;
  const bool vectors = p.store_vectors;
  const int step = vectors ? kVec : 1;
  const int shift = 31 - __clz(part.width);
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
    const char* const bias = static_cast<const char*>(p.bias) + (first_bias + n) * p.bias_step;
    if (vectors) {
      Acc sum[kVec];
      tile::widen_pack<Acc>(tile::load_pack<Acc, kVec>(staged), sum);
      finish_and_store<T, kVec>(p, scalars, sum, c, z, bias, part.m_fast ? 0 : p.bias_step);
    } else {
      const Acc sum[1] = {*staged};
      finish_and_store<T, 1>(p, scalars, sum, c, z, bias, 0);
    }
  }
}

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

// Entries of C (absolute addresses) and addresses of z for the block's m and n, in place of those of A and B.
template <class I>
__device__ __forceinline__ void set_output_entries(const Params& p, const Geometry& geometry, const TilePosition& at,
                                                   typename I::Shared& shared) {
  using Index = typename I::Index;
  const Output& c = p.output;
  Entry base = c.base;
  base.offset += reinterpret_cast<std::int64_t>(p.c) + at.group * c.group_step + geometry.c_base;
  for (int i = static_cast<int>(threadIdx.x); i < I::kBm; i += I::kThreads) {
    const Index m = static_cast<Index>(at.m) * I::kBm + static_cast<Index>(i);
    shared.m[i] =
        entry_or_poison<Index>(c.m, geometry.m, m, static_cast<Index>(geometry.m_count), base, c.bounds.poison);
    if (p.has_z) {
      const Entry z = {reinterpret_cast<std::int64_t>(p.z) + p.addend.base.offset + at.group * p.addend.group_step, 0};
      shared.z.m[i] = evaluate(p.addend.m, digits(geometry.m, m), z).offset;
    }
  }
  for (int i = static_cast<int>(threadIdx.x); i < I::kBn; i += I::kThreads) {
    const Index n = static_cast<Index>(at.n) * I::kBn + static_cast<Index>(i);
    shared.n[i] = entry_or_poison<Index>(c.n, p.n, n, static_cast<Index>(p.n_count), Entry{0, 0}, c.bounds.poison);
    if (p.has_z) shared.z.n[i] = evaluate(p.addend.n, digits(p.n, n), Entry{0, 0}).offset;
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
  const std::int64_t first_bias =
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
    finish_part<I>(p, scalars, shared, part, first_bias, q / I::kGroupsN * I::kPartM, q % I::kGroupsN * I::kPartN);
    __syncthreads();
  }
}

// --- the kernel ------------------------------------------------------------------------------------------------------

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

template <class I>
__device__ __forceinline__ void set_outer_entries(const Params& p, const Geometry& geometry, const TilePosition& at,
                                                  typename I::Shared& shared) {
  using Index = typename I::Index;
  Entry a = p.operand_a.base;
  a.offset += reinterpret_cast<std::int64_t>(p.a) + at.group * p.operand_a.group_step + geometry.a_base.offset;
  a.coord += geometry.a_base.coord;
  for (int i = static_cast<int>(threadIdx.x); i < I::kBm; i += I::kThreads) {
    shared.m[i] =
        entry_or_poison<Index>(p.operand_a.outer, geometry.m, static_cast<Index>(at.m) * I::kBm + static_cast<Index>(i),
                               static_cast<Index>(geometry.m_count), a, p.operand_a.bounds.poison);
  }
  Entry b = p.operand_b.base;
  b.offset += reinterpret_cast<std::int64_t>(p.b) + at.group * p.operand_b.group_step + geometry.b_base;
  for (int i = static_cast<int>(threadIdx.x); i < I::kBn; i += I::kThreads) {
    shared.n[i] =
        entry_or_poison<Index>(p.operand_b.outer, p.n, static_cast<Index>(at.n) * I::kBn + static_cast<Index>(i),
                               static_cast<Index>(p.n_count), b, p.operand_b.bounds.poison);
  }
}

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
  set_geometry(p, at.residue_class, &geometry);
  if (static_cast<Index>(at.m) * I::kBm >= static_cast<Index>(geometry.m_count)) return;  // a class smaller than others
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
    set_geometry(p, there.residue_class, &geometry);
    store_result<I>(p, geometry, there, sums, m0, n0, shared);
  }
}

// --- the second half of a split reduction ----------------------------------------------------------------------------

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
  set_geometry(p, at.residue_class, &geometry);
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
  const char* const bias =
      static_cast<const char*>(p.bias) +
      (static_cast<std::int64_t>(at.group) * p.n_count + static_cast<std::int64_t>(n)) * p.bias_step;
  const Acc sums[1] = {sum};
  finish_and_store<T, 1>(p, Scalars<Acc>(p), sums, to, z, bias, 0);
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
