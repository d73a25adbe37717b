// Softmax over long rows, held in shared memory: x is read once, y written once, and memory never waits for a
// reduction.
//
// A cluster takes rows in turn, each of its blocks the same part of every row. A block's parts pass through a ring of
// stages in shared memory that TMA fills, two rows ahead of the one that is reduced. A row takes two passes
// over its stage; between them its blocks must hear of each other's maxima and sums, and that time is filled with
// the next row's first pass:
//
//   first pass of row i + 1      each warp: maximum and sum over its elements (backward: the sum of y dy)
//   wait for row i               the totals of all warps of all blocks have arrived
//   tell row i + 1               each warp sends its totals to every block of the cluster
//   second pass of row i         each warp adds up all warps' totals of row i in one order, and writes y
//
// The block's last warp fills the stages: that of row i takes in row i + stages once all others have read it. Each
// thread says so for itself, here and when a stage is full: racecheck does not follow an arrival of one lane for its
// warp.
//
// Totals travel as asynchronous stores that a barrier of the receiver counts: an arrival that releases what was written
// before would first wait for the last row's results to reach memory. Two places are enough for them: those of row i +
// 2 go where those of row i stood, and who sends them has received row i + 1's, of which every warp told only after it
// had read row i's.
//
// In flight on a multiprocessor are two to three rows' parts, 50 to 130 KB; 40 KB are needed for the full rate.
// Elements before the first aligned pack of a row and after its last whole one go one each to the first threads of the
// first block, brought along by the filling warp. The output may be an input: a row is in shared memory before any of
// it is written.
//
// Forward in float the stage keeps the terms in place of the elements, exp(x - m) by the largest m of the thread's own,
// which the second pass multiplies by one factor: so an element costs one exponential of eight instructions, not two.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/softmax/row_split.hpp"
#include "kernels/softmax/softmax_math.cuh"
#include "kernels/tile/dynamic_shared.cuh"
#include "kernels/tile/stage_ring.cuh"

namespace gpudnn::kernels {

constexpr int kRingMostThreads = 512;  // that reduce; 32 more fill
constexpr int kRingMostStages = 4;
constexpr int kRingMostCluster = 16;
constexpr int kRingMostTotals = kRingMostCluster * kRingMostThreads / 32;
constexpr int kRingBatch = 4;  // packs that a thread takes from shared memory at once

// Forward in half precision terms are 2^(x log2 e - p), by the whole number p next to m log2 e, which costs an element
// one multiply-add where x - m and its product with log2 e cost two instructions: the sum x log2 e - p is rounded once,
// at the size of the result. The totals then hold p in place of m. (A bfloat16 may be too large for it.)
template <class T>
inline constexpr bool kRingPowers = std::is_same_v<T, tile::Half>;
constexpr float kRingLog2E = 1.44269504f;
template <class T>
inline constexpr float kRingLowest = kRingPowers<T> ? -65504.0f : kLowest<float>;  // the lowest finite element

// From the totals of a row to an element of the output where they hold powers.
struct RingPowers {
  float power;
  float scale;
  float log_sum;
  bool logarithm;

  __device__ __forceinline__ RingPowers(const SoftmaxArgs<tile::Half>& args, float power_, float sum)
      : power(power_), scale(args.alpha), log_sum(0.0f), logarithm(args.logarithm) {
    if (logarithm) {
      log_sum = softmax_log<tile::Half>(sum);
    } else {
      scale = args.alpha / sum;
    }
  }
  __device__ __forceinline__ float exponential(float x) const {
    return scale * ptx::ex2_approx_ftz(fmaf(x, kRingLog2E, -power));
  }
  __device__ __forceinline__ float operator()(float x, float) const {
    if (!logarithm) return exponential(x);
    return scale * fmaf(fmaf(x, kRingLog2E, -power), 0.693147182f, -log_sum);
  }
};

struct RingShape {
  std::int32_t threads;  // that reduce, a multiple of 32
  std::int32_t stages;
  std::int32_t block_packs;  // of a row, for each block but the last
  std::int32_t stage_bytes;  // both inputs of a backward row
  bool keeps;                // the stage keeps the terms in place of the elements
};

// The packs of a thread in shared memory, kRingBatch loads at once and the rest one by one: body(its elements, pack).
// A load under a condition of its own would be waited for before the next.
// The first thread stands `lead` packs before the first.
template <class T, class Body>
__device__ __forceinline__ void for_each_ring_pack(const T* stage, std::int32_t packs, std::int32_t threads,
                                                   const Body& body, std::int32_t lead = 0) {
  constexpr int N = tile::kPackWidth<T>;
  auto first = static_cast<std::int32_t>(threadIdx.x) - lead;
  if (first < 0) first += threads;
#pragma unroll 1
  for (; first + (kRingBatch - 1) * threads < packs; first += kRingBatch * threads) {
    tile::Pack<T, N> held[kRingBatch];
#pragma unroll
    for (int k = 0; k < kRingBatch; ++k) held[k] = tile::load_pack<T, N>(stage + (first + k * threads) * N);
#pragma unroll
    for (int k = 0; k < kRingBatch; ++k) body(held[k], first + k * threads);
  }
#pragma unroll 1
  for (; first < packs; first += threads) body(tile::load_pack<T, N>(stage + first * N), first);
}

// With it warps write whole lines of 128 bytes, wherever a row begins.
__device__ __forceinline__ std::int32_t ring_lead(const void* out) {
  return static_cast<std::int32_t>(reinterpret_cast<std::uintptr_t>(out) / 16 % 8);
}

// What is known of the part of a row in a stage.
template <class T>
struct RingPart {
  T* row;                  // of the output
  T* out;                  // where the part's packs begin in it
  std::int64_t tail_from;  // element of the row
  std::int32_t packs;
  std::int32_t head, tail;  // elements outside of all packs, in the row's first block
  T singles_a[2 * tile::kPackWidth<T>], singles_b[2 * tile::kPackWidth<T>];  // those; the tail in the second half
};

// At the beginning of dynamic shared memory; the stages follow.
template <class T>
struct alignas(128) RingShared {
  std::uint64_t full[kRingMostStages];
  std::uint64_t empty[kRingMostStages];
  std::uint64_t told[2];
  MaxSum<float> totals[2][kRingMostTotals];  // of the rows in turn
  RingPart<T> parts[kRingMostStages];
};

// The one element of a thread.
template <class T>
struct RingSingle {
  tile::Pack<T, 1> a, b;
  T* out = nullptr;  // null where there is none

  template <bool kBackward>
  __device__ __forceinline__ void take(const RingPart<T>& part) {
    constexpr int N = tile::kPackWidth<T>;
    const auto thread = static_cast<std::int32_t>(threadIdx.x);
    a.data[0] = tile::narrow<T>(kBackward ? 0.0f : -INFINITY);  // of no weight
    b.data[0] = tile::narrow<T>(0.0f);
    out = nullptr;
    if (thread < part.head) {
      out = part.row + thread;
    } else if (thread >= N && thread < N + part.tail) {
      out = part.row + part.tail_from + thread - N;
    }
    if (out == nullptr) return;
    a.data[0] = part.singles_a[thread];
    if (kBackward) b.data[0] = part.singles_b[thread];
  }
};

// What a sum is worth at another maximum, or power, `distance` above its own.
template <class T>
__device__ __forceinline__ float ring_rescale(float distance) {
  return kRingPowers<T> ? ptx::ex2_approx_ftz(distance) : softmax_exp<T>(distance);
}

// The sum of all lanes' sums, at the largest of their maxima. Backward has no maxima.
template <class T, bool kBackward>
__device__ __forceinline__ MaxSum<float> join_lanes(MaxSum<float> own) {
  MaxSum<float> joined;
  if constexpr (!kBackward) {
    joined.most = tile::warp_reduce(own.most, tile::Max{});
    if (own.most != joined.most) own.sum *= ring_rescale<T>(own.most - joined.most);
  }
  joined.sum = tile::warp_reduce(own.sum, tile::Sum{});
  return joined;
}

// The same over `count` totals, all warps of the cluster; each warp does it, in the same order.
template <class T, bool kBackward>
__device__ __forceinline__ MaxSum<float> join_totals(const MaxSum<float>* totals, int count) {
  constexpr int kAtOnce = 4;
  MaxSum<float> own;
  const auto lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll 1
  for (int first = lane; first < count; first += kAtOnce * 32) {
    MaxSum<float> held[kAtOnce];
    float most = own.most;
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (first + k * 32 < count) held[k] = totals[first + k * 32];
      most = tile::Max{}(most, held[k].most);
    }
    if (!kBackward && most != own.most) own.sum *= ring_rescale<T>(own.most - most);
    own.most = most;
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      own.sum += kBackward || held[k].most == most ? held[k].sum : held[k].sum * ring_rescale<T>(held[k].most - most);
    }
  }
  return join_lanes<T, kBackward>(own);
}

// What the warp knows of a row after its first pass. Forward in two sweeps over the stage, so that a thread's maximum
// is known before its first term.
template <class T>
__device__ __forceinline__ MaxSum<float> first_pass_forward(const T* a, std::int32_t packs, std::int32_t threads,
                                                            const RingSingle<T>& single) {
  constexpr int N = tile::kPackWidth<T>;
  using Pack = tile::Pack<T, N>;
  MaxSum<float> state;
  Pack largest;
  largest.fill(tile::narrow<T>(-INFINITY));
  for_each_ring_pack(a, packs, threads,
                     [&](const Pack& pack, std::int32_t) { largest = larger_of<T, N>(largest, pack); });
  float wide_largest[N];
  tile::widen_pack<float>(largest, wide_largest);
  const float one = tile::widen<float>(single.a.data[0]);
  state.most = tile::Max{}(kRingLowest<T>, one);
#pragma unroll
  for (int i = 0; i < N; ++i) state.most = tile::Max{}(state.most, wide_largest[i]);
  if constexpr (kRingPowers<T>) state.most = rintf(state.most * kRingLog2E);
  const auto term = [&](float x) {
    return kRingPowers<T> ? ptx::ex2_approx_ftz(fmaf(x, kRingLog2E, -state.most)) : softmax_exp<T>(x - state.most);
  };
  for_each_ring_pack(a, packs, threads, [&](const Pack& pack, std::int32_t) {
    float wide[N];
    tile::widen_pack<float>(pack, wide);
#pragma unroll
    for (int i = 0; i < N; ++i) state.sum += term(wide[i]);
  });
  state.sum += term(one);
  return join_lanes<T, false>(state);
}

template <class T>
__device__ __forceinline__ MaxSum<float> first_pass_backward(const T* a, const T* b, std::int32_t packs,
                                                             std::int32_t threads, const RingSingle<T>& single,
                                                             bool logarithm) {
  constexpr int N = tile::kPackWidth<T>;
  using Pack = tile::Pack<T, N>;
  MaxSum<float> state;
  for_each_ring_pack(a, packs, threads, [&](const Pack& pack, std::int32_t which) {
    float wide[N], gradient[N];
    tile::widen_pack<float>(pack, wide);
    tile::widen_pack<float>(tile::load_pack<T, N>(b + which * N), gradient);
#pragma unroll
    for (int i = 0; i < N; ++i) state.sum += SoftmaxBackward<T>::term(wide[i], gradient[i], logarithm);
  });
  state.sum +=
      SoftmaxBackward<T>::term(tile::widen<float>(single.a.data[0]), tile::widen<float>(single.b.data[0]), logarithm);
  return join_lanes<T, true>(state);
}

// The same forward where the stage keeps the terms: exp(x - *most), by the largest of the thread's own elements.
__device__ __forceinline__ MaxSum<float> first_pass_keeping(float* a, std::int32_t packs, std::int32_t threads,
                                                            std::int32_t lead, const RingSingle<float>& single,
                                                            float* most) {
  constexpr int N = tile::kPackWidth<float>;
  using Pack = tile::Pack<float, N>;
  MaxSum<float> state;
  for_each_ring_pack(
      a, packs, threads,
      [&](const Pack& pack, std::int32_t) {
#pragma unroll
        for (int i = 0; i < N; ++i) state.most = tile::Max{}(state.most, pack.data[i]);
      },
      lead);
  state.most = tile::Max{}(state.most, single.a.data[0]);
  for_each_ring_pack(
      a, packs, threads,
      [&](const Pack& pack, std::int32_t which) {
        Pack terms;
#pragma unroll
        for (int i = 0; i < N; ++i) {
          terms.data[i] = softmax_exp<float>(pack.data[i] - state.most);
          state.sum += terms.data[i];
        }
        *reinterpret_cast<Pack*>(a + which * N) = terms;
      },
      lead);
  state.sum += softmax_exp<float>(single.a.data[0] - state.most);
  *most = state.most;
  return join_lanes<float, false>(state);
}

// The filling warp: the stages in turn, each once all who reduce have left it.
template <class T, bool kBackward>
__device__ __forceinline__ void fill_ring(const SoftmaxArgs<T>& args, const tile::LoopNest<3>& rows,
                                          const RingShape& shape, RingShared<T>* shared, unsigned char* stages,
                                          std::uint32_t first_row, std::uint32_t step, int rank) {
  constexpr int N = tile::kPackWidth<T>;
  const auto lane = static_cast<std::int32_t>(threadIdx.x % 32);
  int stage = 0;
  std::uint32_t parity = 1;  // nothing to wait for in the first round
  for (std::uint32_t row = first_row; row < rows.count; row += step) {
    std::int64_t offset[3];
    rows.offsets(row, offset);
    const T* const a = args.a + offset[0];
    const T* const b = args.b + offset[1];
    const RowSplit split(args.length, static_cast<int>(reinterpret_cast<std::uintptr_t>(a) / sizeof(T) % N), N);
    const std::int32_t before = rank * shape.block_packs;
    const std::int32_t packs = max(min(static_cast<std::int32_t>(split.packs) - before, shape.block_packs), 0);
    const std::int64_t first = split.head + static_cast<std::int64_t>(before) * N;
    const auto bytes = static_cast<std::uint32_t>(packs) * 16;
    RingPart<T>* const part = &shared->parts[stage];
    tile::wait(&shared->empty[stage], parity);
    if (lane == 0) {
      if (bytes > 0) {
        T* const to = reinterpret_cast<T*>(stages + stage * shape.stage_bytes);
        ptx::bulk_copy(to, a + first, bytes, &shared->full[stage]);
        if (kBackward) ptx::bulk_copy(to + shape.block_packs * N, b + first, bytes, &shared->full[stage]);
      }
      part->row = args.out + offset[2];
      part->out = args.out + offset[2] + first;
      part->tail_from = split.head + split.packs * N;
      part->packs = packs;
      part->head = rank == 0 ? static_cast<std::int32_t>(split.head) : 0;
      part->tail = rank == 0 ? static_cast<std::int32_t>(split.tail) : 0;
    }
    const auto single = rank == 0 ? split.single(lane, N) : -1;
    if (single >= 0) {
      part->singles_a[lane] = a[single];
      if (kBackward) part->singles_b[lane] = b[single];
    }
    if (lane == 0) {
      ptx::mbarrier_arrive_expect_tx(&shared->full[stage], bytes * (kBackward ? 2 : 1));
    } else {
      ptx::mbarrier_arrive(&shared->full[stage]);
    }
    if (++stage == shape.stages) {
      stage = 0;
      parity ^= 1;
    }
  }
}

template <class T, bool kBackward>
__global__ void __launch_bounds__(kRingMostThreads + 32, 1)
    softmax_ring(SoftmaxArgs<T> args, tile::LoopNest<3> rows, RingShape shape) {
  constexpr int N = tile::kPackWidth<T>;
  unsigned char* const dynamic = tile::dynamic_shared();
  auto* const shared = reinterpret_cast<RingShared<T>*>(dynamic);
  unsigned char* const stages = dynamic + sizeof(RingShared<T>);
  const int cluster = args.cluster;
  const int rank = static_cast<int>(blockIdx.x) % cluster;
  const int warps = shape.threads / 32;
  const auto warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const std::uint32_t step = gridDim.x / static_cast<unsigned>(cluster);
  const std::uint32_t first_row = blockIdx.x / static_cast<unsigned>(cluster);
  const std::uint32_t count = (rows.count - first_row + step - 1) / step;  // of this cluster's rows
  const auto expect_totals = [&](std::uint32_t i) {
    ptx::mbarrier_arrive_expect_tx(&shared->told[i & 1],
                                   static_cast<std::uint32_t>(cluster * warps * sizeof(MaxSum<float>)));
  };
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < shape.stages; ++stage) {
      ptx::mbarrier_init(&shared->full[stage], 32);
      ptx::mbarrier_init(&shared->empty[stage], static_cast<std::uint32_t>(shape.threads));
    }
    for (std::uint64_t& barrier : shared->told) ptx::mbarrier_init(&barrier, 1);
    ptx::fence_mbarrier_init();
    for (std::uint32_t i = 0; i < 2; ++i) expect_totals(i);
  }
  // All blocks run, and each barrier is ready.
  __syncwarp();
  ptx::cluster_arrive();
  ptx::cluster_wait();
  if (warp == warps) {
    fill_ring<T, kBackward>(args, rows, shape, shared, stages, first_row, step, rank);
    return;
  }

  const std::int32_t b_begin = shape.block_packs * N;  // of the second input in a stage
  const auto stage_of = [&](int stage) { return reinterpret_cast<T*>(stages + stage * shape.stage_bytes); };
  constexpr bool kCanKeep = !kBackward && std::is_same_v<T, float>;
  RingSingle<T> single;  // of the row that was read last
  float largest = 0.0f;  // of the thread's elements in it, where terms are kept
  // One row ahead of what is written: stage and parity of the row that is read first.
  int ahead = 0;
  std::uint32_t ahead_parity = 0;
  const auto read = [&]() {
    tile::wait(&shared->full[ahead], ahead_parity);
    const RingPart<T>& part = shared->parts[ahead];
    single.template take<kBackward>(part);
    T* const a = stage_of(ahead);
    MaxSum<float> state;
    if constexpr (kCanKeep) {
      if (shape.keeps) state = first_pass_keeping(a, part.packs, shape.threads, ring_lead(part.out), single, &largest);
    }
    if (!kCanKeep || !shape.keeps) {
      if constexpr (kBackward) {
        state = first_pass_backward<T>(a, a + b_begin, part.packs, shape.threads, single, args.logarithm);
      } else {
        state = first_pass_forward<T>(a, part.packs, shape.threads, single);
      }
    }
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
      ptx::st_async(ptx::mapa(ptx::shared_address(&shared->totals[i & 1][rank * warps + warp]), lane), bits,
                    ptx::mapa(ptx::shared_address(&shared->told[i & 1]), lane));
    }
    __syncwarp();
  };

  int stage = 0;
  tell(0, read());
  for (std::uint32_t i = 0; i < count; ++i) {
    const RingSingle<T> own = single;
    const float own_largest = largest;
    MaxSum<float> next;
    if (i + 1 < count) next = read();
    tile::wait(&shared->told[i & 1], i >> 1 & 1);
    if (threadIdx.x == 0 && i + 2 < count) expect_totals(i + 2);
    const MaxSum<float> total = join_totals<T, kBackward>(shared->totals[i & 1], cluster * warps);
    if (i + 1 < count) tell(i + 1, next);

    const T* const a = stage_of(stage);
    const auto write = [&](const auto& finish) {
      T* const out = shared->parts[stage].out;
      const std::int32_t packs = shared->parts[stage].packs;
#pragma unroll(kBackward ? 4 : 1)
      for (auto pack = static_cast<std::int32_t>(threadIdx.x); pack < packs; pack += shape.threads) {
        const tile::Pack<T, N> held_a = tile::load_pack<T, N>(a + pack * N);
        const tile::Pack<T, N> held_b = kBackward ? tile::load_pack<T, N>(a + b_begin + pack * N) : held_a;
        finish_pack<T, N>(finish, held_a, held_b, args.beta, out + pack * N);
      }
      if (own.out != nullptr) finish_pack<T, 1>(finish, own.a, own.b, args.beta, own.out);
    };
    const auto write_kept = [&](const SoftmaxForward<T>& finish, float factor) {
      if constexpr (kCanKeep) {
        T* const out = shared->parts[stage].out;
        for_each_ring_pack(
            a, shared->parts[stage].packs, shape.threads,
            [&](const tile::Pack<T, N>& terms, std::int32_t pack) {
              const auto scaled = [&](float term, float) { return factor * term; };
              finish_pack<T, N>(scaled, terms, terms, args.beta, out + pack * N);
            },
            ring_lead(out));
        if (own.out != nullptr) finish_pack<T, 1>(finish, own.a, own.b, args.beta, own.out);
        ptx::fence_proxy_async();  // the copies that fill the stage next come after the terms
      }
    };
    // The usual case, where nothing is asked for each pack.
    const auto write_plain = [&](const auto& finish) {
      T* const out = shared->parts[stage].out;
      for_each_ring_pack(
          a, shared->parts[stage].packs, shape.threads,
          [&](const tile::Pack<T, N>& held, std::int32_t pack) {
            float wide[N], result[N];
            tile::widen_pack<float>(held, wide);
#pragma unroll
            for (int i = 0; i < N; ++i) result[i] = finish(wide[i]);
            tile::store_pack<T, N>(out + pack * N, tile::narrow_pack<T>(result));
          },
          ring_lead(out));
    };
    if constexpr (kBackward) {
      write(SoftmaxBackward<T>(args, total.sum));
    } else if constexpr (kRingPowers<T>) {
      const RingPowers finish(args, total.most, total.sum);
      if (!args.logarithm && args.beta == 0.0f) {
        write_plain([&](float x) { return finish.exponential(x); });
        if (own.out != nullptr) finish_pack<T, 1>(finish, own.a, own.b, 0.0f, own.out);
      } else {
        write(finish);
      }
    } else if (sizeof(T) == 2 && !args.logarithm && args.alpha > 0.0f && args.beta == 0.0f) {
      const SoftmaxFolded<T> finish(args, total.most, total.sum);
      write_plain([&](float x) { return finish(x, 0.0f); });
      if (own.out != nullptr) finish_pack<T, 1>(finish, own.a, own.b, 0.0f, own.out);
    } else {
      const SoftmaxForward<T> finish(args, total.most, total.sum);
      if (kCanKeep && shape.keeps) {
        write_kept(finish, finish.scale * softmax_exp<T>(own_largest - total.most));
      } else {
        write(finish);
      }
    }
    ptx::mbarrier_arrive(&shared->empty[stage]);
    if (++stage == shape.stages) stage = 0;
  }
}

}  // namespace gpudnn::kernels
