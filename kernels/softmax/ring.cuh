// Softmax over long rows, held in shared memory: x is read once, y written once, and memory never waits for a
// reduction.
//
// A cluster takes rows in turn, each of its blocks the same part of every row. A block's parts pass through a ring of
// stages in shared memory that the copy engine fills, two rows ahead of the one that is reduced. A row takes two passes
// over its stage; between them its blocks must hear of each other's maxima and sums, and that time is filled with
// the next row's first pass:
//
//   first pass of row i + 1      each warp: maximum and sum over its elements (backward: the sum of y dy)
//   wait for row i               the totals of all warps of all blocks have arrived
//   tell row i + 1               each warp sends its totals to every block of the cluster
//   second pass of row i         each warp adds up all warps' totals of row i in one order, and writes y
//   refill                       the stage of row i takes in row i + stages
//
// Totals travel as asynchronous stores that a barrier of the receiver counts: an arrival that releases what was written
// before would first wait for the last row's results to reach memory. Two places are enough for them: those of row i +
// 2 go where those of row i stood, and who sends them has received row i + 1's, of which every warp told only after it
// had read row i's.
//
// In flight on a multiprocessor are two to three rows' parts, 50 to 130 KB; 40 KB are needed for the full rate.
// Elements before the first aligned pack of a row and after its last whole one go one each to the first threads of the
// first block, fetched a row ahead. The output may be an input: a row is in shared memory before any of it is written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/softmax/row_split.hpp"
#include "kernels/softmax/softmax_math.cuh"
#include "kernels/tile/dynamic_shared.cuh"
#include "kernels/tile/stage_ring.cuh"

namespace gpudnn::kernels {

constexpr int kRingThreads = 256;  // each row costs a warp some 200 instructions beside its elements: few warps
constexpr int kRingWarps = kRingThreads / 32;
constexpr int kRingMostStages = 4;
constexpr int kRingMostCluster = 16;
constexpr int kRingBatch = 4;  // packs that a thread takes from shared memory at once

struct RingShape {
  std::int32_t stages;
  std::int32_t block_packs;  // of a row, for each block but the last
  std::int32_t stage_bytes;  // both inputs of a backward row
};

// At the beginning of dynamic shared memory; the stages follow.
struct alignas(128) RingShared {
  std::uint64_t full[kRingMostStages];
  std::uint64_t empty[kRingMostStages];
  std::uint64_t told[2];
  MaxSum<float> totals[2][kRingMostCluster * kRingWarps];  // of the rows in turn
  struct {
    void* out;  // of the part's first pack
    std::int32_t packs;
  } parts[kRingMostStages];
};

// A block's part of a row.
template <class T>
struct RingPart {
  const T* a;  // the row
  const T* b;
  T* out;
  std::int64_t first;  // element of the row with which the part begins
  std::int32_t packs;
  std::int32_t single;  // of the row's first block: the thread's element outside of all packs, or -1

  __device__ __forceinline__ RingPart(const SoftmaxArgs<T>& args, const tile::LoopNest<3>& rows, const RingShape& shape,
                                      std::uint32_t row, int rank) {
    constexpr int N = tile::kPackWidth<T>;
    std::int64_t offset[3];
    rows.offsets(row, offset);
    a = args.a + offset[0];
    b = args.b + offset[1];
    out = args.out + offset[2];
    const RowSplit split(args.length, static_cast<int>(reinterpret_cast<std::uintptr_t>(a) / sizeof(T) % N), N);
    const std::int32_t before = rank * shape.block_packs;
    first = split.head + static_cast<std::int64_t>(before) * N;
    packs = max(min(static_cast<std::int32_t>(split.packs) - before, shape.block_packs), 0);
    single = rank == 0 ? static_cast<std::int32_t>(split.single(threadIdx.x, N)) : -1;
  }
};

// The one element of a thread.
template <class T>
struct RingSingle {
  tile::Pack<T, 1> a, b;
  T* out;  // null where there is none

  template <bool kBackward>
  __device__ __forceinline__ void none() {
    a.data[0] = tile::narrow<T>(kBackward ? 0.0f : -INFINITY);  // of no weight
    b.data[0] = tile::narrow<T>(0.0f);
    out = nullptr;
  }
  template <bool kBackward>
  __device__ __forceinline__ void load(const RingPart<T>& part) {
    none<kBackward>();
    if (part.single < 0) return;
    a.data[0] = part.a[part.single];
    if (kBackward) b.data[0] = part.b[part.single];
    out = part.out + part.single;
  }
};

// The sum of all lanes' sums, at the largest of their maxima.
template <class T>
__device__ __forceinline__ MaxSum<float> join_lanes(const MaxSum<float>& own) {
  MaxSum<float> joined;
  joined.most = tile::warp_reduce(own.most, tile::Max{});
  joined.sum = own.most != joined.most ? own.sum * softmax_exp<T>(own.most - joined.most) : own.sum;
  joined.sum = tile::warp_reduce(joined.sum, tile::Sum{});
  return joined;
}

// The same over `count` totals, all warps of the cluster; each warp does it, in the same order.
template <class T>
__device__ __forceinline__ MaxSum<float> join_totals(const MaxSum<float>* totals, int count) {
  MaxSum<float> own;
  const auto lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll 1
  for (int i = lane; i < count; i += 32) own.most = tile::Max{}(own.most, totals[i].most);
#pragma unroll 1
  for (int i = lane; i < count; i += 32) {
    own.sum += totals[i].most != own.most ? totals[i].sum * softmax_exp<T>(totals[i].most - own.most) : totals[i].sum;
  }
  return join_lanes<T>(own);
}

// What the warp knows of a row after its first pass.
template <class T, bool kBackward>
__device__ __forceinline__ MaxSum<float> first_pass(const T* a, const T* b, std::int32_t packs,
                                                    const RingSingle<T>& single, bool logarithm) {
  constexpr int N = tile::kPackWidth<T>;
  MaxSum<float> state;
  for (auto first = static_cast<std::int32_t>(threadIdx.x); first < packs; first += kRingBatch * kRingThreads) {
    tile::Pack<T, N> held[kRingBatch];
    float most = state.most;
#pragma unroll
    for (int k = 0; k < kRingBatch; ++k) {
      const std::int32_t pack = first + k * kRingThreads;
      if (pack >= packs) break;
      held[k] = tile::load_pack<T, N>(a + pack * N);
      float wide[N];
      tile::widen_pack<float>(held[k], wide);
      if constexpr (kBackward) {
        float gradient[N];
        tile::widen_pack<float>(tile::load_pack<T, N>(b + pack * N), gradient);
#pragma unroll
        for (int i = 0; i < N; ++i) state.sum += SoftmaxBackward<T>::term(wide[i], gradient[i], logarithm);
      } else {
#pragma unroll
        for (int i = 0; i < N; ++i) most = tile::Max{}(most, wide[i]);
      }
    }
    if constexpr (!kBackward) {
      if (most != state.most) state.sum *= softmax_exp<T>(state.most - most);
      state.most = most;
#pragma unroll
      for (int k = 0; k < kRingBatch; ++k) {
        if (first + k * kRingThreads >= packs) break;
        float wide[N];
        tile::widen_pack<float>(held[k], wide);
#pragma unroll
        for (int i = 0; i < N; ++i) state.sum += softmax_exp<T>(wide[i] - most);
      }
    }
  }
  const float one[1] = {tile::widen<float>(single.a.data[0])};
  if constexpr (kBackward) {
    state.sum += SoftmaxBackward<T>::term(one[0], tile::widen<float>(single.b.data[0]), logarithm);
  } else {
    take_in<T>(one, &state);
  }
  return join_lanes<T>(state);
}

template <class T, bool kBackward>
__global__ void __launch_bounds__(kRingThreads, 2)
    softmax_ring(SoftmaxArgs<T> args, tile::LoopNest<3> rows, RingShape shape) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  constexpr int N = tile::kPackWidth<T>;
  unsigned char* const dynamic = tile::dynamic_shared();
  auto* const shared = reinterpret_cast<RingShared*>(dynamic);
  const auto stage_of = [&](int stage) {
    return reinterpret_cast<T*>(dynamic + sizeof(RingShared) + stage * shape.stage_bytes);
  };
  const int cluster = args.cluster;
  const int rank = static_cast<int>(blockIdx.x) % cluster;
  const auto warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const std::uint32_t step = gridDim.x / static_cast<unsigned>(cluster);
  const std::uint32_t first_row = blockIdx.x / static_cast<unsigned>(cluster);
  const std::uint32_t count = (rows.count - first_row + step - 1) / step;  // of this cluster's rows
  const auto part_of = [&](std::uint32_t i) { return RingPart<T>(args, rows, shape, first_row + i * step, rank); };
  const std::int32_t b_begin = shape.block_packs * N;  // of the second input in a stage
  const auto fill = [&](std::uint32_t i, int stage) {
    const RingPart<T> part = part_of(i);
    const auto bytes = static_cast<std::uint32_t>(part.packs) * 16;
    shared->parts[stage] = {part.out + part.first, part.packs};
    ptx::mbarrier_arrive_expect_tx(&shared->full[stage], bytes * (kBackward ? 2 : 1));
    if (bytes == 0) return;
    ptx::bulk_copy(stage_of(stage), part.a + part.first, bytes, &shared->full[stage]);
    if (kBackward) ptx::bulk_copy(stage_of(stage) + b_begin, part.b + part.first, bytes, &shared->full[stage]);
  };
  const auto expect_totals = [&](std::uint32_t i) {
    ptx::mbarrier_arrive_expect_tx(&shared->told[i & 1],
                                   static_cast<std::uint32_t>(cluster * kRingWarps * sizeof(MaxSum<float>)));
  };
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < shape.stages; ++stage) {
      ptx::mbarrier_init(&shared->full[stage], 1);
      ptx::mbarrier_init(&shared->empty[stage], kRingWarps);
    }
    for (std::uint64_t& barrier : shared->told) ptx::mbarrier_init(&barrier, 1);
    ptx::fence_mbarrier_init();
    for (std::uint32_t i = 0; i < 2; ++i) expect_totals(i);
    for (int stage = 0; stage < shape.stages; ++stage) {
      if (static_cast<std::uint32_t>(stage) < count) fill(stage, stage);
    }
  }
  // All blocks run, and each barrier is ready.
  __syncwarp();
  ptx::cluster_arrive();
  ptx::cluster_wait();

  const bool has_singles = rank == 0 && warp == 0;
  RingSingle<T> single, next_single;
  next_single.template none<kBackward>();
  if (has_singles) next_single.template load<kBackward>(part_of(0));
  // One row ahead of what is written: stage and parity of the row that is read first.
  int ahead = 0;
  std::uint32_t ahead_parity = 0;
  const auto read = [&](std::uint32_t i) {
    single = next_single;
    if (has_singles && i + 1 < count) next_single.template load<kBackward>(part_of(i + 1));
    tile::wait(&shared->full[ahead], ahead_parity);
    const T* const a = stage_of(ahead);
    const MaxSum<float> state =
        first_pass<T, kBackward>(a, a + b_begin, shared->parts[ahead].packs, single, args.logarithm);
    if (++ahead == shape.stages) {
      ahead = 0;
      ahead_parity ^= 1;
    }
    return state;
  };
  const auto tell = [&](std::uint32_t i, const MaxSum<float>& state) {
    if (lane < cluster) {
      std::uint64_t bits;
      static_assert(sizeof bits == sizeof state, "a total travels in one store");
      memcpy(&bits, &state, sizeof bits);
      ptx::st_async(ptx::mapa(ptx::shared_address(&shared->totals[i & 1][rank * kRingWarps + warp]), lane), bits,
                    ptx::mapa(ptx::shared_address(&shared->told[i & 1]), lane));
    }
    __syncwarp();
  };

  int stage = 0;
  std::uint32_t parity = 0;
  tell(0, read(0));
  for (std::uint32_t i = 0; i < count; ++i) {
    const RingSingle<T> own = single;
    MaxSum<float> next;
    if (i + 1 < count) next = read(i + 1);
    tile::wait(&shared->told[i & 1], i >> 1 & 1);
    if (threadIdx.x == 0 && i + 2 < count) expect_totals(i + 2);
    const MaxSum<float> total = join_totals<T>(shared->totals[i & 1], cluster * kRingWarps);
    if (i + 1 < count) tell(i + 1, next);

    const T* const a = stage_of(stage);
    const auto write = [&](const auto& finish) {
      T* const out = static_cast<T*>(shared->parts[stage].out);
      const std::int32_t packs = shared->parts[stage].packs;
#pragma unroll 4
      for (auto pack = static_cast<std::int32_t>(threadIdx.x); pack < packs; pack += kRingThreads) {
        const tile::Pack<T, N> held_a = tile::load_pack<T, N>(a + pack * N);
        const tile::Pack<T, N> held_b = kBackward ? tile::load_pack<T, N>(a + b_begin + pack * N) : held_a;
        finish_pack<T, N>(finish, held_a, held_b, args.beta, out + pack * N);
      }
      if (own.out != nullptr) finish_pack<T, 1>(finish, own.a, own.b, args.beta, own.out);
    };
    if constexpr (kBackward) {
      write(SoftmaxBackward<T>(args, total.sum));
    } else {
      write(SoftmaxForward<T>(args, total.most, total.sum));
    }
    __syncwarp();
    if (lane == 0) ptx::mbarrier_arrive(&shared->empty[stage]);
    if (threadIdx.x == 0 && i + shape.stages < count) {
      tile::wait(&shared->empty[stage], parity);
      fill(i + shape.stages, stage);
    }
    __syncwarp();
    if (++stage == shape.stages) {
      stage = 0;
      parity ^= 1;
    }
  }
#else
  __trap();  // launched only where softmax_ring_fits says that this code is for sm_90 or later
#endif
}

}  // namespace gpudnn::kernels
