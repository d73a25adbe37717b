// Implicit-GEMM convolution for Hopper: warp-specialised, persistent, on wgmma and TMA.
//
// C[m, n] = sum over k of A[m, k] * B[k, n], as implicit_gemm_sm90.hpp tells for each direction.
//
// Data flow of a block, one per multiprocessor:
//   producer    thread 0 of warpgroup 0. For each work item and block of k it waits for an empty stage and starts the
//               copies that fill it: A by im2col boxes (pixels x 128 bytes of channels), B by filter boxes (forward and
//               data gradient) or im2col boxes (filter gradient). All land in rows of 128 bytes (64 where channels are
//               few), in the swizzle that wgmma reads. In a cluster each block fetches a share of B for all.
//   consumers   the other 2 or 3 warpgroups. They wait for a full stage, multiply it into their registers, and release
//               the stage before. A tile done, they blend, round and stage 64 x 128 bytes at a time in shared memory;
//               the copy engine takes them to C, or 16-byte stores do where C's rows are not even.
//
// Operands in shared memory. K-major: a row is an m (or n), its bytes are k. MN-major: a row is a k, 128 bytes of m (or
// n); wgmma transposes. Forward has both K-major, the data gradient B MN-major, the filter gradient both MN-major: so
// no tensor is ever transposed. TF32 has no MN-major form.
//
// Limits: channels of a group fill whole 16-byte vectors; 32-bit pixel counts; tensors packed along channels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <utility>

#include "kernels/conv/implicit_gemm_sm90.hpp"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/ptx/warpgroup.cuh"
#include "kernels/ptx/wgmma.cuh"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels::sm90 {

constexpr int kProducerRegisters = 40;

enum NamedBarrier : int { kStagingBarrier = 1 };  // and the next: one for each consumer

template <class Element, Direction kDir, int kShape>
struct Instance {
  using T = Element;
  static constexpr Direction kDirection = kDir;
  static constexpr TileShape kTile = kShapes[kShape];
  static constexpr int kBM = kTile.bm;
  static constexpr int kBN = kTile.bn;
  static constexpr int kStages = kTile.stages;
  static constexpr int kCluster = kTile.cluster;
  static constexpr bool kPingPong = kTile.ping_pong;
  static constexpr int kConsumers = kTile.consumers;  // warpgroups
  static constexpr int kThreads = 128 * (1 + kConsumers);
  // What the producer leaves, in the steps that a warpgroup can ask for.
  static constexpr int kConsumerRegisters = (65536 / 128 - kProducerRegisters) / kConsumers / 8 * 8 > 232
                                                ? 232
                                                : (65536 / 128 - kProducerRegisters) / kConsumers / 8 * 8;
  static constexpr bool kIsFilterGradient = kDir == Direction::filter_gradient;
  // TF32's data gradient gets its filter transposed beforehand.
  static constexpr bool kAIsMnMajor = kIsFilterGradient;
  static constexpr bool kBIsMnMajor = kDir != Direction::forward && sizeof(T) == 2;
  static constexpr int kRowElements = kRowBytes / static_cast<int>(sizeof(T));
  static constexpr int kKBytes = kTile.k_bytes;
  static constexpr int kBK = kIsFilterGradient ? kPixelsPerBlockOfK : kKBytes / static_cast<int>(sizeof(T));
  static constexpr int kInstructionK = 32 / static_cast<int>(sizeof(T));
  static constexpr int kRowBlocks = kPingPong ? kBM / 64 : 1;  // of 64 rows, of a warpgroup
  static constexpr int kABytes = kBM * kBK * static_cast<int>(sizeof(T));
  static constexpr int kBBytes = kBN * kBK * static_cast<int>(sizeof(T));
  static constexpr int kBoxBytes = kBK * kRowBytes;  // of an MN-major operand: 64 m or n, all k
  static constexpr int kTileWarps = kPingPong ? 4 : 4 * kConsumers;
  static_assert(kPingPong || kBM == 64 * kConsumers, "cooperating warpgroups take 64 rows each");
  static_assert(kRowBlocks * kBN / 2 + 64 <= kConsumerRegisters, "accumulators leave room for the rest");
  static_assert(kRowBlocks * kBN / 2 <= 128, "accumulators fit the registers");
};

template <class I>
struct alignas(1024) Shared {
  unsigned char a[I::kStages][I::kABytes];
  unsigned char b[I::kStages][I::kBBytes];
  unsigned char staging[I::kConsumers][2][64 * kRowBytes];
  std::uint64_t full[I::kStages];
  std::uint64_t empty[I::kStages];
  std::uint64_t fetched[I::kConsumers];  // ping-pong: the consumer has seen all of its tile's stages filled
};

// --- work ------------------------------------------------------------------------------------------------------------

// A tile of C and a share of its reduction.
struct Work {
  std::uint32_t residue_class, group, m, n, split, tile;
  std::uint32_t k_begin, k_end;  // blocks of k
};

// n is fastest, so that blocks that run together share rows of A; splits are slowest, so that they share their pixels.
template <class I>
__device__ __forceinline__ Work work_item(const Params& p, std::uint32_t index, std::uint32_t rank) {
  Work work;
  std::uint32_t item = 0;
  work.split = p.works.divmod(index, &item);
  work.tile = item * I::kCluster + rank;
  work.residue_class = 0;
  while (work.residue_class + 1 < p.classes && item >= p.problem[work.residue_class + 1].first_work) {
    ++work.residue_class;
  }
  const DenseProblem& problem = p.problem[work.residue_class];
  std::uint32_t rest = p.n_tiles.divmod(item - problem.first_work, &work.n);
  std::uint32_t m_cluster = 0;
  work.group = problem.m_clusters.divmod(rest, &m_cluster);
  work.m = m_cluster * I::kCluster + rank;
  work.k_begin = min(work.split * problem.k_blocks_per_split, problem.k_blocks);
  work.k_end = min(work.k_begin + problem.k_blocks_per_split, problem.k_blocks);
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
    static_assert(I::kRowElements == 64, "chunks of 64 channels");
    const std::uint32_t index = work.n * (I::kBN / 64) + static_cast<std::uint32_t>(chunk);
    std::uint32_t channel = 0;
    std::uint32_t s = 0;
    std::uint32_t r = 0;
    const std::uint32_t tap = p.chunks_of_n.divmod(index, &channel);
    const std::uint32_t t = p.taps_of_n[1].divmod(p.taps_of_n[0].divmod(tap, &s), &r);
    const DenseProblem& problem = p.problem[0];
    const std::int32_t number = problem.first_tap + static_cast<std::int32_t>(s) * problem.tap_step[0] +
                                static_cast<std::int32_t>(r) * problem.tap_step[1] +
                                static_cast<std::int32_t>(t) * problem.tap_step[2];
    columns.first = static_cast<int>(channel) * 64;
    columns.valid = index < p.n_chunks ? static_cast<int>(p.n_count) - columns.first : 0;
    columns.offset = (static_cast<std::int64_t>(number) * p.n_count + columns.first) *
                     static_cast<std::int64_t>(sizeof(typename I::T));
    columns.x = columns.first;
    columns.y = number;
  } else {
    columns.first = static_cast<int>(work.n) * I::kBN + chunk * I::kRowElements;
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
    const DenseProblem& problem = p.problem[work.residue_class];
    if (m >= problem.pixels) return -1;
    if (even) return problem.c_base + static_cast<std::int64_t>(m) * step[0];
    const Pixel at = pixel_at(problem, m);
    return problem.c_base + at.w * step[0] + at.h * step[1] + at.d * step[2] + at.n * step[3];
  }
}

// --- producer --------------------------------------------------------------------------------------------------------

// The stages in turn; the parity flips at each round.
template <int kStages>
struct Turn {
  int stage = 0;
  std::uint32_t parity = 0;
  __device__ __forceinline__ void next() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
  __device__ __forceinline__ void skip(std::uint32_t count) {
    const std::uint32_t sum = static_cast<std::uint32_t>(stage) + count;
    parity ^= sum / kStages & 1u;
    stage = static_cast<int>(sum % kStages);
  }
};

__device__ __forceinline__ void wait(std::uint64_t* barrier, std::uint32_t parity) {
  while (!ptx::mbarrier_try_wait(barrier, parity)) {
  }
}

struct Window {
  std::int32_t w, h, d, n;
};
struct TapOffset {
  std::uint16_t w, h, d;
};

// An im2col box, to all blocks of the cluster if kMulticast.
template <bool kMulticast>
__device__ __forceinline__ void load_pixels(const Params& p, void* shared, const TensorMap& map, std::uint64_t* barrier,
                                            std::int32_t channel, const Window& at, const TapOffset& tap) {
  constexpr std::uint16_t kAll = 3;
  if (p.three_dimensional) {
    if constexpr (kMulticast) {
      ptx::tma_im2col_5d_multicast(shared, &map, barrier, channel, at.w, at.h, at.d, at.n, tap.w, tap.h, tap.d, kAll);
    } else {
      ptx::tma_im2col_5d(shared, &map, barrier, channel, at.w, at.h, at.d, at.n, tap.w, tap.h, tap.d);
    }
  } else {
    if constexpr (kMulticast) {
      ptx::tma_im2col_4d_multicast(shared, &map, barrier, channel, at.w, at.h, at.n, tap.w, tap.h, kAll);
    } else {
      ptx::tma_im2col_4d(shared, &map, barrier, channel, at.w, at.h, at.n, tap.w, tap.h);
    }
  }
}

__device__ __forceinline__ Window window_at(const Params& p, const DenseProblem& problem, std::uint32_t pixel) {
  const Pixel at = pixel_at(problem, pixel);
  return {static_cast<std::int32_t>(at.w) * p.stride[0] + problem.corner[0],
          static_cast<std::int32_t>(at.h) * p.stride[1] + problem.corner[1],
          static_cast<std::int32_t>(at.d) * p.stride[2] + problem.corner[2], static_cast<std::int32_t>(at.n)};
}

// The block's share of a stage of B, made of MN-major boxes: load(box, shared).
template <class I, class Load>
__device__ __forceinline__ void load_boxes_of_b(Shared<I>& shared, int stage, std::uint32_t rank, Load load) {
  constexpr int kBoxes = I::kBN / 64;
  constexpr int kShare = kBoxes / I::kCluster;
  static_assert(kBoxes % I::kCluster == 0, "blocks of a cluster fetch equal shares");
#pragma unroll
  for (int i = 0; i < kShare; ++i) {
    const int box = static_cast<int>(rank) * kShare + i;
    load(box, i, shared.b[stage] + box * I::kBoxBytes);
  }
}

template <class I>
__device__ __forceinline__ void produce_pixels_by_filters(const Params& p, Shared<I>& shared, const Work& work,
                                                          std::uint32_t rank, Turn<I::kStages>* turn) {
  const DenseProblem& problem = p.problem[work.residue_class];
  const Window window = window_at(p, problem, work.m * I::kBM);
  const auto first_channel = static_cast<std::int32_t>(work.group * p.a_channels);
  const auto first_filter = static_cast<std::int32_t>(work.group * p.b_channels);
  const auto n = static_cast<std::int32_t>(work.n * I::kBN);

  // k counts chunks of channels fastest, then s, r, t.
  std::uint32_t chunk = 0;
  std::uint32_t s = 0;
  std::uint32_t r = 0;
  std::uint32_t t = 0;
  if (work.k_begin > 0) {  // divisions that a tile of one block of k would wait for
    chunk = work.k_begin % p.channel_chunks;
    std::uint32_t tap = work.k_begin / p.channel_chunks;
    s = tap % problem.taps[0];
    tap /= problem.taps[0];
    r = tap % problem.taps[1];
    t = tap / problem.taps[1];
  }

  for (std::uint32_t k = work.k_begin; k < work.k_end; ++k) {
    wait(&shared.empty[turn->stage], turn->parity ^ 1);
    std::uint64_t* const full = &shared.full[turn->stage];
    ptx::mbarrier_arrive_expect_tx(full, I::kABytes + I::kBBytes);
    const auto channel = static_cast<std::int32_t>(chunk * I::kBK);
    const TapOffset offset = {static_cast<std::uint16_t>(s * static_cast<std::uint32_t>(p.tap_offset[0])),
                              static_cast<std::uint16_t>(r * static_cast<std::uint32_t>(p.tap_offset[1])),
                              static_cast<std::uint16_t>(t * static_cast<std::uint32_t>(p.tap_offset[2]))};
    load_pixels<false>(p, shared.a[turn->stage], p.a[work.residue_class], full, first_channel + channel, window,
                       offset);
    const std::int32_t filter_tap = problem.first_tap + static_cast<std::int32_t>(s) * problem.tap_step[0] +
                                    static_cast<std::int32_t>(r) * problem.tap_step[1] +
                                    static_cast<std::int32_t>(t) * problem.tap_step[2];
    if constexpr (I::kBIsMnMajor) {
      // Rows are filters, 64 channels long.
      load_boxes_of_b<I>(shared, turn->stage, rank, [&](int box, int, void* to) {
        if constexpr (I::kCluster > 1) {
          ptx::tma_tile_3d_multicast(to, &p.b, full, n + box * 64, filter_tap, first_filter + channel, 3);
        } else {
          ptx::tma_tile_3d(to, &p.b, full, n + box * 64, filter_tap, first_filter + channel);
        }
      });
    } else {
      constexpr int kShare = I::kBN / I::kCluster;
      const int row = static_cast<int>(rank) * kShare;
      void* const to = shared.b[turn->stage] + row * I::kKBytes;
      if constexpr (I::kCluster > 1) {
        ptx::tma_tile_3d_multicast(to, &p.b, full, channel, filter_tap, first_filter + n + row, 3);
      } else {
        ptx::tma_tile_3d(to, &p.b, full, channel, filter_tap, first_filter + n);
      }
    }
    turn->next();
    if (++chunk == p.channel_chunks) {
      chunk = 0;
      if (++s == problem.taps[0]) {
        s = 0;
        if (++r == problem.taps[1]) {
          r = 0;
          ++t;
        }
      }
    }
  }
}

template <class I>
__device__ __forceinline__ void produce_filters_by_taps(const Params& p, Shared<I>& shared, const Work& work,
                                                        std::uint32_t rank, Turn<I::kStages>* turn) {
  constexpr int kShare = I::kBN / 64 / I::kCluster;
  const DenseProblem& problem = p.problem[0];
  // What each box of B fetches does not depend on k.
  std::int32_t channel_of[kShare];
  TapOffset tap_of[kShare];
#pragma unroll
  for (int i = 0; i < kShare; ++i) {
    const std::uint32_t index = work.n * (I::kBN / 64) + rank * kShare + static_cast<std::uint32_t>(i);
    std::uint32_t chunk = 0;
    std::uint32_t s = 0;
    std::uint32_t r = 0;
    const std::uint32_t tap = p.chunks_of_n.divmod(index, &chunk);
    const std::uint32_t t = p.taps_of_n[1].divmod(p.taps_of_n[0].divmod(tap, &s), &r);
    const bool exists = index < p.n_chunks;
    channel_of[i] = static_cast<std::int32_t>(exists ? work.group * p.b_channels + chunk * 64 : p.b_channels_all);
    tap_of[i] = exists ? TapOffset{static_cast<std::uint16_t>(s * static_cast<std::uint32_t>(p.tap_offset[0])),
                                   static_cast<std::uint16_t>(r * static_cast<std::uint32_t>(p.tap_offset[1])),
                                   static_cast<std::uint16_t>(t * static_cast<std::uint32_t>(p.tap_offset[2]))}
                       : TapOffset{0, 0, 0};
  }
  const auto filter = static_cast<std::int32_t>(work.group * p.a_channels + work.m * I::kBM);

  for (std::uint32_t k = work.k_begin; k < work.k_end; ++k) {
    const Pixel pixel = pixel_at(problem, k * I::kBK);
    const Window of_y = {static_cast<std::int32_t>(pixel.w), static_cast<std::int32_t>(pixel.h),
                         static_cast<std::int32_t>(pixel.d), static_cast<std::int32_t>(pixel.n)};
    const Window of_x = {of_y.w * p.stride[0] + problem.corner[0], of_y.h * p.stride[1] + problem.corner[1],
                         of_y.d * p.stride[2] + problem.corner[2], of_y.n};
    wait(&shared.empty[turn->stage], turn->parity ^ 1);
    std::uint64_t* const full = &shared.full[turn->stage];
    ptx::mbarrier_arrive_expect_tx(full, I::kABytes + I::kBBytes);
#pragma unroll
    for (int i = 0; i < I::kBM / 64; ++i) {
      load_pixels<false>(p, shared.a[turn->stage] + i * I::kBoxBytes, p.a[0], full, filter + i * 64, of_y, {0, 0, 0});
    }
    load_boxes_of_b<I>(shared, turn->stage, rank, [&](int, int i, void* to) {
      load_pixels<(I::kCluster > 1)>(p, to, p.b, full, channel_of[i], of_x, tap_of[i]);
    });
    turn->next();
  }
}

template <class I>
__device__ __forceinline__ void produce(const Params& p, Shared<I>& shared, std::uint32_t rank) {
  Turn<I::kStages> turn;
  const std::uint32_t works = p.works.divisor * p.splits;
  for (std::uint32_t index = blockIdx.x / I::kCluster; index < works; index += gridDim.x / I::kCluster) {
    const Work work = work_item<I>(p, index, rank);
    if constexpr (I::kIsFilterGradient) {
      produce_filters_by_taps<I>(p, shared, work, rank, &turn);
    } else {
      produce_pixels_by_filters<I>(p, shared, work, rank, &turn);
    }
  }
}

// --- consumers -------------------------------------------------------------------------------------------------------

// wgmma's descriptor of an operand in rows of kBytes, swizzled over as many. `leading` is the distance of 64 m (or n)
// in an MN-major operand, unused in a K-major one.
template <int kBytes>
__device__ __forceinline__ std::uint64_t operand_descriptor(const void* shared, std::uint32_t leading) {
  static_assert(kBytes == 128 || kBytes == 64, "rows that TMA swizzles");
  constexpr std::uint64_t kSwizzle = std::uint64_t{kBytes == 128 ? 1 : 2} << 62;
  constexpr std::uint64_t kStrideOf8Rows = std::uint64_t{8 * kBytes >> 4} << 32;
  return kSwizzle | kStrideOf8Rows | static_cast<std::uint64_t>(leading >> 4) << 16 |
         static_cast<std::uint64_t>((ptx::shared_address(shared) & 0x3ffffu) >> 4);
}

// Multiplies one stage into the accumulators.
template <class I>
__device__ __forceinline__ void multiply_stage(const unsigned char* a, const unsigned char* b,
                                               float (&sum)[I::kRowBlocks][I::kBN / 2]) {
  constexpr int kSteps = I::kBK / I::kInstructionK;
  // 16 rows, or 32 bytes along a row; in units of 16 bytes.
  constexpr int kStepOfA = (I::kAIsMnMajor ? I::kInstructionK * kRowBytes : 32) >> 4;
  constexpr int kStepOfB = (I::kBIsMnMajor ? I::kInstructionK * kRowBytes : 32) >> 4;
  // 64 m further: the next box, or 64 rows.
  constexpr int kNextRows = (I::kAIsMnMajor ? I::kBoxBytes : 64 * I::kKBytes) >> 4;
  const std::uint64_t a0 =
      operand_descriptor < I::kAIsMnMajor ? kRowBytes : I::kKBytes > (a, I::kAIsMnMajor ? I::kBoxBytes : 16);
  const std::uint64_t b0 =
      operand_descriptor < I::kBIsMnMajor ? kRowBytes : I::kKBytes > (b, I::kBIsMnMajor ? I::kBoxBytes : 16);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (int block = 0; block < I::kRowBlocks; ++block) {
      ptx::wgmma<typename I::T, I::kBN, I::kAIsMnMajor, I::kBIsMnMajor>(
          sum[block], a0 + static_cast<std::uint64_t>(step * kStepOfA + block * kNextRows),
          b0 + static_cast<std::uint64_t>(step * kStepOfB));
    }
  }
}

template <class I>
__device__ __forceinline__ void release(Shared<I>& shared, int stage) {
  const unsigned lane = threadIdx.x % 32;
  if constexpr (I::kCluster > 1) {
    if (lane < I::kCluster) {
      ptx::mbarrier_arrive_cluster(ptx::mapa(ptx::shared_address(&shared.empty[stage]), lane));
    }
  } else {
    if (lane == 0) ptx::mbarrier_arrive(&shared.empty[stage]);
  }
}

// Tile number `sequence` of the block begins when the one before has seen its last stage filled: a wait for a phase of
// a barrier cannot tell it from the phase before the last. Each warp passes the turn, so that none is left a phase
// behind.
template <class I>
__device__ __forceinline__ void wait_for_turn(Shared<I>& shared, std::uint32_t sequence) {
  if (!I::kPingPong || sequence == 0) return;
  const std::uint32_t before = sequence - 1;
  wait(&shared.fetched[before % I::kConsumers], before / I::kConsumers & 1u);
}
template <class I>
__device__ __forceinline__ void pass_turn(Shared<I>& shared, int consumer) {
  if (I::kPingPong && threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&shared.fetched[consumer]);
}

template <class I>
__device__ __forceinline__ void clear(float (&sum)[I::kRowBlocks][I::kBN / 2]) {
#pragma unroll
  for (int block = 0; block < I::kRowBlocks; ++block) {
#pragma unroll
    for (int i = 0; i < I::kBN / 2; ++i) sum[block][i] = 0;
  }
}

template <class I>
__device__ __forceinline__ void multiply(Shared<I>& shared, const Work& work, std::uint32_t sequence, int consumer,
                                         float (&sum)[I::kRowBlocks][I::kBN / 2], Turn<I::kStages>* turn) {
  clear<I>(sum);
  wait_for_turn<I>(shared, sequence);
  if (work.k_begin >= work.k_end) {
    pass_turn<I>(shared, consumer);
    return;
  }
  constexpr int kMyRows = I::kAIsMnMajor ? I::kBoxBytes : 64 * I::kKBytes;
  const int a_offset = I::kPingPong ? 0 : consumer * kMyRows;
  int previous = -1;
  for (std::uint32_t k = work.k_begin; k < work.k_end; ++k) {
    wait(&shared.full[turn->stage], turn->parity);
    if (k + 1 == work.k_end) pass_turn<I>(shared, consumer);
    ptx::wgmma_fence();
    multiply_stage<I>(shared.a[turn->stage] + a_offset, shared.b[turn->stage], sum);
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<1>();
    if (previous >= 0) release<I>(shared, previous);
    previous = turn->stage;
    turn->next();
  }
  ptx::wgmma_wait_group<0>();
  release<I>(shared, previous);
}

// --- epilogue --------------------------------------------------------------------------------------------------------

// Two neighbouring elements, as they lie in memory.
template <class T>
using PairBits = typename tile::VectorOf<2 * sizeof(T)>::type;

template <class T>
__device__ __forceinline__ PairBits<T> pack_pair(float low, float high) {
  const float values[2] = {low, high};
  const tile::Pack<T, 2> pack = tile::narrow_pack<T>(values);
  PairBits<T> bits;
  memcpy(&bits, &pack, sizeof bits);
  return bits;
}

template <class T>
__device__ __forceinline__ void add_pair(float scale, const PairBits<T>& addend, float* low, float* high) {
  tile::Pack<T, 2> pack;
  memcpy(&pack, &addend, sizeof pack);
  *low += scale * tile::widen<float>(pack.get(0));
  *high += scale * tile::widen<float>(pack.get(1));
}

__device__ __forceinline__ float rectify(const Params& p, float value) {
  const float positive = p.clipped ? fminf(fmaxf(value, 0.0f), p.ceiling) : fmaxf(value, 0.0f);
  return p.propagate_nan && value != value ? value : positive;
}

// Where 16 bytes number `vector` of a row of 128 lie in the staging area: spread over the banks.
__device__ __forceinline__ int staged(int row, int vector) { return row * kRowBytes + ((vector ^ (row & 7)) << 4); }

// Where the pair of columns 8 * group + 2 * (lane % 4) of a row lies there.
template <class T>
__device__ __forceinline__ PairBits<T>* staged_pair(unsigned char* staging, int row, int group, int lane) {
  const int byte = (8 * group + lane % 4 * 2) * static_cast<int>(sizeof(T));
  return reinterpret_cast<PairBits<T>*>(staging + staged(row, byte / 16) + byte % 16);
}

// Rounds the fragments of 64 rows x 128 bytes into the staging area.
template <class T>
__device__ __forceinline__ void stage_fragments(unsigned char* staging, int thread,
                                                const float (&v)[kRowBytes / sizeof(T) / 2]) {
  constexpr int kGroups = kRowBytes / static_cast<int>(sizeof(T)) / 8;
  const int lane = thread % 32;
  if constexpr (sizeof(T) == 2) {
    // Two groups of 8 columns at a time: lanes 0-7 and 8-15 give the rows of the first one, the others of the second.
    const int row = thread / 32 * 16 + lane % 16;
    const std::uint32_t base = ptx::shared_address(staging);
#pragma unroll
    for (int j = 0; j < kGroups; j += 2) {
      ptx::stmatrix_x4(base + static_cast<std::uint32_t>(staged(row, j + lane / 16)),
                       pack_pair<T>(v[4 * j], v[4 * j + 1]), pack_pair<T>(v[4 * j + 2], v[4 * j + 3]),
                       pack_pair<T>(v[4 * j + 4], v[4 * j + 5]), pack_pair<T>(v[4 * j + 6], v[4 * j + 7]));
    }
  } else {
    const int row = thread / 32 * 16 + lane / 4;
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
      *staged_pair<T>(staging, row, j, lane) = pack_pair<T>(v[4 * j], v[4 * j + 1]);
      *staged_pair<T>(staging, row + 8, j, lane) = pack_pair<T>(v[4 * j + 2], v[4 * j + 3]);
    }
  }
}

// 64 rows x 128 bytes of C, from the fragments of a warpgroup through the staging area to rows in memory:
// alpha * sum + addend_scale * addend + bias, and the activation. Steps that a call does not need cost one branch.
template <class I>
__device__ __forceinline__ void store_chunk(const Params& p, const Work& work, unsigned char* staging, int barrier,
                                            const float* sum, const ColumnChunk& columns, std::uint32_t m,
                                            const std::int64_t (&row)[4], const std::int64_t (&addend_row)[4]) {
  using T = typename I::T;
  constexpr int kGroups = I::kRowElements / 8;
  constexpr int kPerVector = 16 / static_cast<int>(sizeof(T));
  const int thread = static_cast<int>(threadIdx.x % 128);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int my_vector = thread % 8;
  const bool my_vector_exists = my_vector * kPerVector < columns.valid;
  float v[4 * kGroups];
#pragma unroll
  for (int i = 0; i < 4 * kGroups; ++i) v[i] = p.alpha * sum[i];
  if (p.stores_boxes) {  // the copy engine has to be done with the area
    if (thread == 0) ptx::bulk_wait_group_read<1>();
    ptx::barrier_sync(barrier, 128);
  }
  if (p.addend_scale != 0.0f) {
    // In by rows, out by fragments.
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (!my_vector_exists || addend_row[i] < 0) continue;
      const auto* const from = reinterpret_cast<const uint4*>(static_cast<const char*>(p.addend) + addend_row[i] +
                                                              columns.offset + my_vector * 16);
      *reinterpret_cast<uint4*>(staging + staged(thread / 8 + 16 * i, my_vector)) = *from;
    }
    ptx::barrier_sync(barrier, 128);
    const int my_row = thread / 32 * 16 + lane / 4;
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
      add_pair<T>(p.addend_scale, *staged_pair<T>(staging, my_row, j, lane), &v[4 * j], &v[4 * j + 1]);
      add_pair<T>(p.addend_scale, *staged_pair<T>(staging, my_row + 8, j, lane), &v[4 * j + 2], &v[4 * j + 3]);
    }
    ptx::barrier_sync(barrier, 128);
  }
  if (p.has_bias) {
    const int first = lane % 4 * 2;
    const char* bias = static_cast<const char*>(p.bias) +
                       (static_cast<std::int64_t>(work.group) * p.group_columns + columns.first + first) * p.bias_step;
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
      if (8 * j + first >= columns.valid) continue;
      const float low = tile::widen<float>(*reinterpret_cast<const T*>(bias + 8 * j * p.bias_step));
      const float high = tile::widen<float>(*reinterpret_cast<const T*>(bias + (8 * j + 1) * p.bias_step));
      v[4 * j] += low;
      v[4 * j + 1] += high;
      v[4 * j + 2] += low;
      v[4 * j + 3] += high;
    }
  }
  if (p.relu) {
#pragma unroll
    for (int i = 0; i < 4 * kGroups; ++i) v[i] = rectify(p, v[i]);
  }
  stage_fragments<T>(staging, thread, v);
  if (p.stores_boxes) {
    ptx::fence_proxy_async();
    ptx::barrier_sync(barrier, 128);
    if (thread == 0) {
      ptx::tma_store_tile_3d(&p.c_map, staging, columns.x, columns.y, static_cast<std::int32_t>(m));
      ptx::bulk_commit_group();
    }
    return;
  }
  ptx::barrier_sync(barrier, 128);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (!my_vector_exists || row[i] < 0) continue;
    const uint4 bits = *reinterpret_cast<const uint4*>(staging + staged(thread / 8 + 16 * i, my_vector));
    ptx::st_global(reinterpret_cast<uint4*>(static_cast<char*>(p.c) + row[i] + columns.offset + my_vector * 16), bits);
  }
}

template <class I>
__device__ __forceinline__ void store(const Params& p, Shared<I>& shared, const Work& work, int consumer,
                                      const float (&sum)[I::kRowBlocks][I::kBN / 2], int* area) {
  const int thread = static_cast<int>(threadIdx.x % 128);
#pragma unroll
  for (int block = 0; block < I::kRowBlocks; ++block) {
    const int row_block = I::kPingPong ? block : consumer;
    const std::uint32_t first = work.m * I::kBM + static_cast<std::uint32_t>(row_block * 64);
    const std::uint32_t box_row = I::kIsFilterGradient ? work.group * p.group_columns + first : first;
    std::int64_t row[4] = {};
    std::int64_t addend_row[4] = {};
    if (!p.stores_boxes || p.addend_scale != 0.0f) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const std::uint32_t m = first + static_cast<std::uint32_t>(thread / 8 + 16 * i);
        row[i] = row_offset<I>(p, work, m, p.c_step, p.c_is_even);
        if (p.addend_scale != 0.0f) addend_row[i] = row_offset<I>(p, work, m, p.addend_step, p.addend_is_even);
      }
    }
#pragma unroll
    for (int chunk = 0; chunk < I::kBN / I::kRowElements; ++chunk) {
      const ColumnChunk columns = column_chunk<I>(p, work, chunk);
      if (columns.valid <= 0) break;
      // Two areas in turn: who writes to one has passed the barrier that its last readers reached.
      store_chunk<I>(p, work, shared.staging[consumer][*area], kStagingBarrier + consumer,
                     &sum[block][chunk * I::kRowElements / 2], columns, box_row, row, addend_row);
      *area ^= 1;
    }
  }
}

// Partial sums keep the order of the fragments: four of a thread together, then the threads of a warpgroup.
template <class I>
__device__ __forceinline__ void store_partials(const Params& p, const Work& work, int consumer,
                                               const float (&sum)[I::kRowBlocks][I::kBN / 2]) {
  const std::size_t tile = static_cast<std::size_t>(work.split) * p.works.divisor * I::kCluster + work.tile;
  auto* const quads = reinterpret_cast<float4*>(p.partials + tile * (I::kBM * I::kBN)) + threadIdx.x % 128;
#pragma unroll
  for (int block = 0; block < I::kRowBlocks; ++block) {
    const int row_block = I::kPingPong ? block : consumer;
#pragma unroll
    for (int j = 0; j < I::kBN / 8; ++j) {
      quads[(row_block * (I::kBN / 8) + j) * 128] =
          make_float4(sum[block][4 * j], sum[block][4 * j + 1], sum[block][4 * j + 2], sum[block][4 * j + 3]);
    }
  }
}

template <class I>
__device__ __forceinline__ void consume(const Params& p, Shared<I>& shared, std::uint32_t rank, int consumer) {
  Turn<I::kStages> turn;
  const std::uint32_t works = p.works.divisor * p.splits;
  std::uint32_t sequence = 0;
  int area = 0;
  for (std::uint32_t index = blockIdx.x / I::kCluster; index < works; index += gridDim.x / I::kCluster, ++sequence) {
    const Work work = work_item<I>(p, index, rank);
    if (I::kPingPong && sequence % I::kConsumers != static_cast<std::uint32_t>(consumer)) {
      turn.skip(work.k_end - work.k_begin);
      continue;
    }
    float sum[I::kRowBlocks][I::kBN / 2];
    multiply<I>(shared, work, sequence, consumer, sum, &turn);
    if (p.splits > 1) {
      store_partials<I>(p, work, consumer, sum);
    } else {
      store<I>(p, shared, work, consumer, sum, &area);
    }
  }
  // The copy engine reads the staging area until then.
  if (threadIdx.x % 128 == 0) ptx::bulk_wait_group_read<0>();
}

// --- kernels ---------------------------------------------------------------------------------------------------------

template <class I>
__device__ __forceinline__ void cluster_sync() {
  if constexpr (I::kCluster > 1) {
    ptx::cluster_arrive();
    ptx::cluster_wait();
  } else {
    __syncthreads();
  }
}

template <class I>
__global__ void __launch_bounds__(I::kThreads, 1) implicit_gemm_sm90(const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) unsigned char raw[];
  auto& shared = *reinterpret_cast<Shared<I>*>(raw);
  if ((ptx::shared_address(raw) & 1023u) != 0) __trap();  // the swizzle counts on it
  const int warpgroup = static_cast<int>(threadIdx.x) / 128;
  const std::uint32_t rank = I::kCluster > 1 ? ptx::cluster_ctarank() : 0;
  if (threadIdx.x == 32) {
    ptx::prefetch_tensormap(&p.b);
    for (std::uint32_t i = 0; i < p.classes; ++i) ptx::prefetch_tensormap(&p.a[i]);
  }
  if (threadIdx.x < I::kStages) {
    ptx::mbarrier_init(&shared.full[threadIdx.x], 1);
    ptx::mbarrier_init(&shared.empty[threadIdx.x], I::kTileWarps * I::kCluster);
    if (threadIdx.x < I::kConsumers) ptx::mbarrier_init(&shared.fetched[threadIdx.x], 4);
    ptx::fence_mbarrier_init();
  }
  cluster_sync<I>();
  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<kProducerRegisters>();
    if (threadIdx.x == 0) produce<I>(p, shared, rank);
  } else {
    ptx::setmaxnreg_inc<I::kConsumerRegisters>();
    consume<I>(p, shared, rank, warpgroup - 1);
  }
  // No block leaves while another may still signal its barriers or write its shared memory.
  if constexpr (I::kCluster > 1) {
    __syncwarp();
    cluster_sync<I>();
  }
}

constexpr int kReduceThreads = 256;

// Joins the splits in order: a thread sums four neighbours of a fragment over every `lanes`-th split, and the lanes of
// an element add up as a tree.
template <class I>
__global__ void __launch_bounds__(kReduceThreads) reduce_splits(const __grid_constant__ Params p, int lanes) {
  using T = typename I::T;
  __shared__ float4 partial[kReduceThreads];
  constexpr std::uint32_t kTileQuads = I::kBM * I::kBN / 4;
  const int columns = kReduceThreads / lanes;
  const int column = static_cast<int>(threadIdx.x) % columns;
  const int lane = static_cast<int>(threadIdx.x) / columns;
  const std::uint32_t tiles = p.works.divisor * I::kCluster;
  const std::size_t count = static_cast<std::size_t>(tiles) * kTileQuads;
  const std::size_t quad =
      static_cast<std::size_t>(blockIdx.x) * static_cast<std::size_t>(columns) + static_cast<std::size_t>(column);
  float4 sum = make_float4(0, 0, 0, 0);
  if (quad < count) {
    const auto* const first = reinterpret_cast<const float4*>(p.partials) + quad;
#pragma unroll 8
    for (auto s = static_cast<std::uint32_t>(lane); s < p.splits; s += static_cast<std::uint32_t>(lanes)) {
      const float4 part = first[s * count];
      sum.x += part.x;
      sum.y += part.y;
      sum.z += part.z;
      sum.w += part.w;
    }
  }
  partial[threadIdx.x] = sum;
  for (int half = lanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (lane < half) {
      const float4 other = partial[threadIdx.x + static_cast<unsigned>(half * columns)];
      sum.x += other.x;
      sum.y += other.y;
      sum.z += other.z;
      sum.w += other.w;
      partial[threadIdx.x] = sum;
    }
  }
  if (lane != 0 || quad >= count) return;

  const auto tile = static_cast<std::uint32_t>(quad / kTileQuads);
  const auto inside = static_cast<std::uint32_t>(quad % kTileQuads);
  const std::uint32_t thread = inside % 128;
  const std::uint32_t group_of_8 = inside / 128 % (I::kBN / 8);
  const std::uint32_t row_block = inside / 128 / (I::kBN / 8);
  const Work work = work_item<I>(p, tile / I::kCluster, tile % I::kCluster);
  constexpr std::uint32_t kGroups = I::kRowElements / 8;
  const ColumnChunk columns_here = column_chunk<I>(p, work, static_cast<int>(group_of_8 / kGroups));
  const int column_inside = static_cast<int>(group_of_8 % kGroups * 8 + thread % 4 * 2);
  if (column_inside >= columns_here.valid) return;
  const std::uint32_t m = work.m * I::kBM + row_block * 64 + thread / 32 * 16 + thread % 32 / 4;
  const char* const bias =
      static_cast<const char*>(p.bias) +
      (static_cast<std::int64_t>(work.group) * p.group_columns + columns_here.first + column_inside) * p.bias_step;
#pragma unroll
  for (std::uint32_t half = 0; half < 2; ++half) {
    const std::int64_t row = row_offset<I>(p, work, m + 8 * half, p.c_step, p.c_is_even);
    if (row < 0) continue;
    const std::int64_t offset = columns_here.offset + column_inside * static_cast<std::int64_t>(sizeof(T));
    float low = p.alpha * (half == 0 ? sum.x : sum.z);
    float high = p.alpha * (half == 0 ? sum.y : sum.w);
    if (p.addend_scale != 0.0f) {
      const std::int64_t addend_row = row_offset<I>(p, work, m + 8 * half, p.addend_step, p.addend_is_even);
      add_pair<T>(p.addend_scale,
                  *reinterpret_cast<const PairBits<T>*>(static_cast<const char*>(p.addend) + addend_row + offset), &low,
                  &high);
    }
    if (p.has_bias) {
      low += tile::widen<float>(*reinterpret_cast<const T*>(bias));
      high += tile::widen<float>(*reinterpret_cast<const T*>(bias + p.bias_step));
    }
    if (p.relu) {
      low = rectify(p, low);
      high = rectify(p, high);
    }
    *reinterpret_cast<PairBits<T>*>(static_cast<char*>(p.c) + row + offset) = pack_pair<T>(low, high);
  }
}

// --- launch ----------------------------------------------------------------------------------------------------------

// Lanes that share an element: enough threads to fill a device while splits last.
inline int lanes_of_reduction(std::size_t quads, std::uint32_t splits) {
  constexpr std::size_t kThreadsToFill = std::size_t{1} << 17;
  constexpr int kMost = 64;
  int lanes = 1;
  while (lanes < kMost && static_cast<std::uint32_t>(2 * lanes) <= splits &&
         quads * static_cast<std::size_t>(lanes) < kThreadsToFill) {
    lanes *= 2;
  }
  return lanes;
}

template <class I>
void launch_instance(const Params& params, std::uint32_t blocks, int device, CUstream_st* stream) {
  constexpr int kBytes = static_cast<int>(sizeof(Shared<I>));
  static_assert(kBytes <= 227 * 1024, "shared memory of a block");
  // Once for each device: the call costs more than the rest of the launch's preparation.
  static std::atomic<std::uint64_t> prepared{0};
  const std::uint64_t bit = std::uint64_t{1} << (device % 64);
  if ((prepared.load(std::memory_order_relaxed) & bit) == 0 || device >= 64) {
    (void)cudaFuncSetAttribute(&implicit_gemm_sm90<I>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    prepared.fetch_or(bit, std::memory_order_relaxed);
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(I::kThreads);
  config.dynamicSmemBytes = kBytes;
  config.stream = stream;
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = I::kCluster;
  attribute.val.clusterDim.y = 1;
  attribute.val.clusterDim.z = 1;
  config.attrs = &attribute;
  config.numAttrs = I::kCluster > 1 ? 1 : 0;
  // A failure stays with the runtime until cudaGetLastError, as with any launch.
  (void)cudaLaunchKernelEx(&config, &implicit_gemm_sm90<I>, params);
  if (params.splits <= 1) return;
  const std::size_t quads =
      static_cast<std::size_t>(params.works.divisor) * I::kCluster * static_cast<std::size_t>(I::kBM * I::kBN / 4);
  const int lanes = lanes_of_reduction(quads, params.splits);
  const auto columns = static_cast<std::size_t>(kReduceThreads / lanes);
  reduce_splits<I>
      <<<static_cast<unsigned>((quads + columns - 1) / columns), kReduceThreads, 0, stream>>>(params, lanes);
}

using LaunchShape = void (*)(const Params& params, std::uint32_t blocks, int device, CUstream_st* stream);

// Defined where its instances are, so that a file that only calls it does not compile the kernels.
template <class T, Direction kDirection>
LaunchShape launch_of(int shape);

// Null for a shape that the direction does not have.
template <class T, Direction kDirection, int kShape>
constexpr LaunchShape launch_of_instance() {
  if constexpr (kDirection == Direction::filter_gradient && kShapes[kShape].k_bytes != kRowBytes) {
    return nullptr;
  } else {
    return &launch_instance<Instance<T, kDirection, kShape>>;
  }
}

#define GPUDNN_SM90_INSTANCES(T, DIRECTION)                                                                         \
  template <>                                                                                                       \
  LaunchShape launch_of<T, DIRECTION>(int shape) {                                                                  \
    return [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {                                             \
      static constexpr LaunchShape kLaunches[] = {launch_of_instance<T, DIRECTION, static_cast<int>(kIndex)>()...}; \
      return kLaunches[shape];                                                                                      \
    }                                                                                                               \
    (std::make_index_sequence<kShapeCount>());                                                                      \
  }

}  // namespace gpudnn::kernels::sm90
