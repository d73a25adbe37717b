// The Hopper implicit GEMM: its instances, their shared memory, and what a work item is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/implicit_gemm/implicit_gemm_sm90.hpp"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/cluster.cuh"

namespace gpudnn::kernels::sm90 {

constexpr int kProducerRegisters = 40;

enum NamedBarrier : int { kStagingBarrier = 1 };  // and the next: one for each consumer

template <class Element, Direction kDir, int kShape, Epilogue kOnly = Epilogue::any>
struct Instance {
  using T = Element;
  static constexpr Direction kDirection = kDir;
  static constexpr TileShape kTile = kShapes[kShape];
  static constexpr int kBM = kTile.bm;
  static constexpr int kBN = kTile.bn;
  static constexpr int kStages = kTile.stages;
  static constexpr int kCluster = 1;  // blocks that share loads: conv1x1_nchw_sm90 has such instances
  // A filter gradient has a tile for each block: no other one's multiplications could hide the epilogue of one.
  static constexpr bool kPingPong = kTile.ping_pong && !(kDir == Direction::filter_gradient && kTile.bm == 128);
  static constexpr bool kClusterSplitK = kTile.cluster_split_k;
  static constexpr int kConsumers = kPingPong == kTile.ping_pong ? kTile.consumers : 2;  // warpgroups
  static constexpr int kThreads = 128 * (1 + kConsumers);
  // What the producer leaves, in the steps that a warpgroup can ask for.
  static constexpr int kConsumerRegisters = (65536 / 128 - kProducerRegisters) / kConsumers / 8 * 8 > 232
                                                ? 232
                                                : (65536 / 128 - kProducerRegisters) / kConsumers / 8 * 8;
  static constexpr bool kIsFilterGradient = kDir == Direction::filter_gradient;
  static constexpr bool kSwapped = kTile.swap_ab;
  static constexpr bool kStreamK = kIsFilterGradient && sizeof(T) == 2 && is_stream_k_elsewhere(kShape);
  static constexpr Epilogue kEpilogue = kOnly;
  static_assert(has_epilogue(kTile, kDir, sizeof(T), kOnly));
  static constexpr bool kFusedEpilogue = kOnly != Epilogue::plain && has_fused_epilogue(kTile, kDir, sizeof(T));
  static constexpr int kRowsOfC = kTile.rows_of_c();
  static constexpr int kColumnsOfC = kTile.columns_of_c();
  // TF32's data gradient gets its filter transposed beforehand.
  static constexpr bool kTransposesFilter = kDir == Direction::data_gradient && sizeof(T) == 4;
  static constexpr bool kFilterIsMnMajor = kDir == Direction::data_gradient && sizeof(T) == 2;
  static constexpr bool kAIsMnMajor = kIsFilterGradient || (kSwapped && kFilterIsMnMajor);
  static constexpr bool kBIsMnMajor = kIsFilterGradient || (!kSwapped && kFilterIsMnMajor);
  static constexpr int kRowElements = kRowBytes / static_cast<int>(sizeof(T));
  static constexpr int kChunkBytes = chunk_bytes(kTile);  // of C on its epilogue
  static constexpr int kChunkElements = kChunkBytes / static_cast<int>(sizeof(T));
  static constexpr int kKBytes = kTile.k_bytes;
  static constexpr int kBK = kIsFilterGradient ? kRowElements : kKBytes / static_cast<int>(sizeof(T));
  static constexpr int kInstructionK = 32 / static_cast<int>(sizeof(T));
  static constexpr int kRowBlocks = kBM / 64 / (kPingPong ? 1 : kConsumers);  // of 64 rows, of a warpgroup
  static constexpr int kABytes = kBM * kBK * static_cast<int>(sizeof(T));
  static constexpr int kBBytes = kBN * kBK * static_cast<int>(sizeof(T));
  static constexpr int kBoxBytes = kBK * kRowBytes;  // of an MN-major operand: 64 m or n, all k
  // Of the fragments' rows: the row of the tile that a thread of a warpgroup holds in the upper (0) or lower (1) half
  // of a pair, in the block of 64 rows that is number row_block of the tile.
  static __device__ __forceinline__ std::uint32_t row_of_fragment(std::uint32_t row_block, std::uint32_t thread,
                                                                  std::uint32_t half) {
    return row_block * 64 + thread / 32 * 16 + thread % 32 / 4 + half * 8;
  }
  static constexpr int kAreaBytes = (kSwapped ? kBN : 64) * kChunkBytes;  // of C on its epilogue
  // Those that stage a box together: TF32's boxes of 32 turned columns are of two warps.
  static constexpr unsigned kThreadsOfBox = kSwapped && sizeof(T) == 4 ? 64 : 128;
  static constexpr int kTileWarps = kPingPong ? 4 : 4 * kConsumers;
  static_assert(!kClusterSplitK || !kPingPong, "all consumers share the tile");
  static_assert(kBM == 64 * kRowBlocks * (kPingPong ? 1 : kConsumers), "warpgroups take blocks of 64 rows");
  static_assert(!kSwapped || !kPingPong, "consumers share the tile");
  static_assert(kRowBlocks * kBN / 2 + 64 <= kConsumerRegisters, "accumulators leave room for the rest");
  static_assert(kRowBlocks * kBN / 2 <= 160, "accumulators fit the registers");
};

// Whether implicit_gemm_sm90_fused.cuh stands in the instance.
template <class I>
constexpr bool kHasFusedEpilogue = [] {
  if constexpr (requires { I::kFusedEpilogue; }) {
    return I::kFusedEpilogue;
  } else {
    return false;
  }
}();

template <class I>
constexpr Epilogue kEpilogueOf = [] {
  if constexpr (requires { I::kEpilogue; }) {
    return I::kEpilogue;
  } else {
    return Epilogue::any;
  }
}();
template <class I>
constexpr bool kIsPlain = kEpilogueOf<I> == Epilogue::plain;
template <class I>
constexpr bool kIsBiasRelu = kEpilogueOf<I> == Epilogue::bias_relu;

template <class I>
struct alignas(1024) Shared {
  unsigned char a[I::kStages][I::kABytes];
  unsigned char b[I::kStages][I::kBBytes];
  unsigned char staging[I::kConsumers][2][I::kAreaBytes];
  float bias[I::kConsumers][kHasFusedEpilogue<I> ? I::kBN : 2];  // of the consumer's tile
  std::uint64_t full[I::kStages];
  std::uint64_t empty[I::kStages];
  std::uint64_t fetched[I::kConsumers];  // ping-pong: the consumer has seen all of its tile's stages filled
  std::uint64_t paired[I::kConsumers];   // the sums of the other block of a pair have come
};

// The start: the barriers in shared memory are made, in a cluster those of all its blocks, because one block signals
// all. Blocks that join their sums signal each other at the end only, and wait there (meet_cluster).
template <class I>
__device__ __forceinline__ void start_together() {
  if constexpr (I::kCluster > 1) {
    ptx::cluster_arrive();
    ptx::cluster_wait();
  } else {
    if constexpr (I::kClusterSplitK) ptx::cluster_arrive_relaxed();
    __syncthreads();
  }
}
template <class I>
__device__ __forceinline__ void meet_cluster() {
  if constexpr (I::kClusterSplitK) {
    __syncwarp();
    ptx::cluster_wait();
  }
}

// Once more, all threads of all its blocks: what they wrote to shared memory before is seen after.
__device__ __forceinline__ void meet_cluster_again() {
  __syncwarp();
  ptx::cluster_arrive();
  ptx::cluster_wait();
}

// The block's work items: the first one, the end, and how far it is to the next. Blocks that join their sums have one
// item each: a cluster has the splits of a tile. A helper has those tiles that its share touches. All of it in
// arithmetic that the compiler keeps the same for all lanes: a division, or a loop that ends by a product, makes the
// loads' loop slower by a sixth.
template <class I>
__device__ __forceinline__ bool is_fixup_cta(const Params& p) {
  return I::kStreamK && blockIdx.x < p.fixup_ctas;
}
template <class I>
__device__ __forceinline__ std::uint32_t first_index(const Params& p) {
  if constexpr (I::kClusterSplitK) return blockIdx.x % p.splits * p.works.divisor + blockIdx.x / p.splits;
  if constexpr (!I::kStreamK) return blockIdx.x;
  return is_fixup_cta<I>(p) ? p.fixup.quotient(blockIdx.x * p.fixup_quantum) : blockIdx.x - p.fixup_ctas;
}
template <class I>
__device__ __forceinline__ std::uint32_t end_index(const Params& p) {
  const std::uint32_t works = p.works.divisor * p.splits;
  if constexpr (!I::kStreamK) return works;
  const std::uint32_t fixup = p.fixup.divisor;
  const std::uint32_t end = min((blockIdx.x + 1) * p.fixup_quantum, works * fixup) + fixup - 1;
  return is_fixup_cta<I>(p) ? p.fixup.quotient(end) : works;
}
template <class I>
__device__ __forceinline__ std::uint32_t next_index(const Params& p, std::uint32_t index) {
  return index + (is_fixup_cta<I>(p) ? 1 : gridDim.x);
}

// A tile of C and a share of its reduction.
struct Work {
  std::uint32_t stride_phase, group, m, n, split, tile;
  std::uint32_t k_begin, k_end;  // k tiles
};

// n is fastest, so that blocks that run together share rows of A; splits are slowest, so that they share their pixels.
template <class I>
__device__ __forceinline__ Work work_item(const Params& p, std::uint32_t index) {
  Work work;
  work.split = p.works.divmod(index, &work.tile);
  work.stride_phase = 0;
  std::uint32_t inside = 0;  // number of the tile in its phase
  if (!I::kIsFilterGradient && p.turn > 0) {
    std::uint32_t rest = 0;
    const std::uint32_t first = p.works_of_raster_group.divmod(work.tile, &rest) * p.turn;
    const std::uint32_t width = min(p.turn, p.tiles_of_class - first);
    while (rest >= width) {
      rest -= width;
      ++work.stride_phase;
    }
    inside = first + rest;
  } else {
    while (!I::kIsFilterGradient && work.stride_phase + 1 < p.phases &&
           work.tile >= p.problem[work.stride_phase + 1].first_work) {
      ++work.stride_phase;
    }
    inside = work.tile - p.problem[work.stride_phase].first_work;
  }
  const DenseProblem& problem = p.problem[work.stride_phase];
  if (I::kIsFilterGradient && p.m_is_fastest) {
    work.group = p.n_tiles.divmod(problem.m_tiles.divmod(inside, &work.m), &work.n);
  } else {
    work.group = problem.m_tiles.divmod(p.n_tiles.divmod(inside, &work.n), &work.m);
  }
  work.k_begin = min(work.split * problem.k_blocks_per_split, problem.k_blocks);
  work.k_end = min(work.k_begin + problem.k_blocks_per_split, problem.k_blocks);
  if constexpr (I::kStreamK) {
    if (p.fixup_ctas > 0) {
      work.k_end -= p.fixup.divisor;
      if (is_fixup_cta<I>(p)) {
        const std::uint32_t base = work.tile * p.fixup.divisor;
        const std::uint32_t begin = max(blockIdx.x * p.fixup_quantum, base) - base;
        work.k_begin = work.k_end + begin;
        work.k_end += min((blockIdx.x + 1) * p.fixup_quantum - base, p.fixup.divisor);
        work.split = begin > 0 ? 1 : 0;  // of a tile's two pieces at most
      }
    }
  }
  return work;
}

struct Pixel {
  std::uint32_t w, h, d, n;
};
__device__ __forceinline__ Pixel pixel_at(const DenseProblem& problem, std::uint32_t index) {
  Pixel pixel;
  index = problem.extent[0].divmod(index, &pixel.w);
  index = problem.extent[1].divmod(index, &pixel.h);
  pixel.n = problem.extent[2].divmod(index, &pixel.d);
  return pixel;
}

// 128 bytes of columns of C.
struct ColumnChunk {
  std::int64_t offset;  // bytes
  int valid;            // columns that exist; may be negative
  int first;            // number of the first column
  std::int32_t x, y;    // coordinates in C's tensor map
};
template <class I>
__device__ __forceinline__ ColumnChunk column_chunk(const Params& p, const Work& work, int chunk) {
  ColumnChunk columns;
  if constexpr (I::kIsFilterGradient) {
    const std::uint32_t index = work.n * (I::kBN / I::kRowElements) + static_cast<std::uint32_t>(chunk);
    std::uint32_t channel = 0;
    std::uint32_t s = 0;
    std::uint32_t r = 0;
    const std::uint32_t tap = p.chunks_of_n.divmod(index, &channel);
    const std::uint32_t t = p.taps_of_n[1].divmod(p.taps_of_n[0].divmod(tap, &s), &r);
    const DenseProblem& problem = p.problem[0];
    const std::int32_t number = problem.first_tap + static_cast<std::int32_t>(s) * problem.tap_step[0] +
                                static_cast<std::int32_t>(r) * problem.tap_step[1] +
                                static_cast<std::int32_t>(t) * problem.tap_step[2];
    columns.first = static_cast<int>(channel) * I::kRowElements;
    columns.valid = index < p.n_chunks ? static_cast<int>(p.n_count) - columns.first : 0;
    columns.offset = (static_cast<std::int64_t>(number) * p.n_count + columns.first) *
                     static_cast<std::int64_t>(sizeof(typename I::T));
    columns.x = columns.first;
    columns.y = number;
  } else {
    columns.first = static_cast<int>(work.n) * I::kColumnsOfC + chunk * I::kChunkElements;
    columns.valid = static_cast<int>(p.n_count) - columns.first;
    columns.offset = (static_cast<std::int64_t>(work.group) * p.group_columns + columns.first) *
                     static_cast<std::int64_t>(sizeof(typename I::T));
    columns.x = static_cast<std::int32_t>(work.group * p.group_columns) + columns.first;
    columns.y = 0;
  }
  return columns;
}

// Bytes from the tensor's start to row m of the work's group; negative where there is no such row. `even`: all pixels
// are step[0] apart.
template <class I>
__device__ __forceinline__ std::int64_t row_offset(const Params& p, const Work& work, std::uint32_t m,
                                                   const std::int64_t (&step)[4], bool even) {
  if constexpr (I::kIsFilterGradient) {
    if (m >= p.m_count) return -1;
    return static_cast<std::int64_t>(work.group * p.group_columns + m) * step[0];
  } else {
    const DenseProblem& problem = p.problem[work.stride_phase];
    if (m >= problem.pixels) return -1;
    if (even) return problem.c_base + static_cast<std::int64_t>(m) * step[0];
    const Pixel at = pixel_at(problem, m);
    return problem.c_base + at.w * step[0] + at.h * step[1] + at.d * step[2] + at.n * step[3];
  }
}

}  // namespace gpudnn::kernels::sm90
