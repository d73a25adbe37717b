// Softmax over rows: the elements of a group lie one after the other.
//
// A row belongs to half a warp, a warp, a block, or a cluster of blocks, whichever holds it in registers: then x is
// read once and y written once. Two things keep enough bytes in flight: a thread holds at least two packs, and a block
// no more than 32 KB, so that several share a multiprocessor and one loads while another computes. A longer row is read
// twice: once for the maximum and the sum, together, and once to write (kPacks = 0). Memory moves in packs of 16 bytes;
// the elements before the first aligned pack and after the last whole one go one each to the first threads, so a row
// may begin anywhere (as every row of odd length but the first does). All of a row's elements that a thread writes it
// has read itself: the output may be an input.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/softmax/row_split.hpp"
#include "kernels/softmax/softmax_math.cuh"
#include "kernels/tile/cluster.cuh"

namespace gpudnn::kernels {

constexpr int kWarpRowsThreads = 128;

template <class C>
struct RowShared {
  C scratch[2][32];
  C partial[2];
};

// The reduction over the lanes, or the block, that share the row. `use` (0 or 1) names the shared memory: each use
// once.
template <int kLanes, class C, class Op>
__device__ __forceinline__ C row_reduce(C value, C identity, Op op, RowShared<C>* shared, int use) {
  if constexpr (kLanes > 0) {
    return tile::warp_reduce<kLanes>(value, op);
  } else {
    return tile::block_reduce(value, identity, op, shared->scratch[use]);
  }
}

// From the totals of the cluster's blocks to those of the row. All blocks meet once. Each warp fetches all totals at
// once, a lane for each block; every lane ends with the same bits, because sums and maxima commute.
template <class C>
__device__ __forceinline__ C of_rank(C* mine, int rank, int blocks, C otherwise) {
  return rank < blocks ? *tile::cluster_shared(mine, rank, blocks) : otherwise;
}
template <class C>
__device__ __forceinline__ C join_sums(C sum, RowShared<C>* shared, int blocks) {
  if (threadIdx.x == 0) shared->partial[1] = sum;
  tile::cluster_sync(blocks);
  return tile::warp_reduce(of_rank(&shared->partial[1], static_cast<int>(threadIdx.x % 32), blocks, C(0)), tile::Sum{});
}
template <class T, class C>
__device__ __forceinline__ void join_states(MaxSum<C>* state, RowShared<C>* shared, int blocks) {
  if (threadIdx.x == 0) {
    shared->partial[0] = state->most;
    shared->partial[1] = state->sum;
  }
  tile::cluster_sync(blocks);
  const int rank = static_cast<int>(threadIdx.x % 32);
  const C most = of_rank(&shared->partial[0], rank, blocks, kLowest<C>);
  const C sum = of_rank(&shared->partial[1], rank, blocks, C(0));
  state->most = tile::warp_reduce(most, tile::Max{});
  state->sum = tile::warp_reduce(rank < blocks ? sum * softmax_exp<T>(most - state->most) : C(0), tile::Sum{});
}

template <class T, int kPacks, int kLanes, bool kBackward>
__global__ void __launch_bounds__(kLanes > 0 ? kWarpRowsThreads : 1024)
    softmax_rows(SoftmaxArgs<T> args, tile::LoopNest<3> rows) {
  using C = tile::Compute<T>;
  constexpr int N = tile::kPackWidth<T>;
  constexpr int kHeld = kPacks > 0 ? kPacks : 4;  // packs in registers; of a longer row, those in flight
  using Pack = tile::Pack<T, N>;
  using Index = std::conditional_t<(kPacks > 0), std::int32_t, std::int64_t>;  // a row in registers is short
  __shared__ RowShared<C> shared;

  int blocks = 1;
  std::uint32_t row;
  Index thread, threads;
  bool there = true;
  if constexpr (kLanes > 0) {
    row = blockIdx.x * (kWarpRowsThreads / kLanes) + threadIdx.x / kLanes;
    thread = static_cast<Index>(threadIdx.x % kLanes);
    threads = kLanes;
    there = row < rows.count;  // if not, the lanes stay: the warp's shuffles count on them
    if (!there) row = 0;
  } else {
    const tile::ClusterPlace place = tile::cluster_place(args.cluster);
    if (place.rank >= place.blocks) return;
    blocks = place.blocks;
    row = blockIdx.x / static_cast<unsigned>(args.cluster);
    thread = static_cast<Index>(place.rank) * static_cast<Index>(blockDim.x) + static_cast<Index>(threadIdx.x);
    threads = static_cast<Index>(blocks) * static_cast<Index>(blockDim.x);
  }
  std::int64_t offset[3];
  rows.offsets(row, offset);
  const T* const a = args.a + offset[0];
  const T* const b = args.b + offset[1];
  T* const out = args.out + offset[2];
  const int skew = static_cast<int>(reinterpret_cast<std::uintptr_t>(a) / sizeof(T) % N);
  const RowSplit split(args.length, skew, N);
  const auto packs = static_cast<Index>(there ? split.packs : 0);
  const auto single = static_cast<Index>(there ? split.single(thread, N) : -1);
  const T* const a_packs = a + split.head;
  const T* const b_packs = b + split.head;

  // What is read: packs and the single element. Elements that are not there count as -infinity, or 0 backward.
  Pack held_a[kHeld], held_b[kHeld];
  tile::Pack<T, 1> single_a, single_b;
  single_a.data[0] = tile::narrow<T>(C(kBackward ? 0 : -INFINITY));
  single_b.data[0] = tile::narrow<T>(C(0));
  if (single >= 0) {
    single_a.data[0] = a[single];
    if (kBackward) single_b.data[0] = b[single];
  }
  MaxSum<C> state;
  C sum = C(0);

  // First pass.
  const auto load = [&](Index first) {
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      const Index pack = first + k * threads;
      if (pack < packs) {
        held_a[k] = tile::load_pack<T, N>(a_packs + pack * N);
        if (kBackward) held_b[k] = tile::load_pack<T, N>(b_packs + pack * N);
      }
    }
  };
  const auto dot = [&]<int kCount>(const tile::Pack<T, kCount>& pack_a, const tile::Pack<T, kCount>& pack_b) {
    C wide_a[kCount], wide_b[kCount];
    tile::widen_pack<C>(pack_a, wide_a);
    tile::widen_pack<C>(pack_b, wide_b);
#pragma unroll
    for (int i = 0; i < kCount; ++i) sum += SoftmaxBackward<T>::term(wide_a[i], wide_b[i], args.logarithm);
  };
  const auto with_values = [&](Index first, const auto& body) {
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      if (first + k * threads < packs) {
        C values[N];
        tile::widen_pack<C>(held_a[k], values);
        body(values);
      }
    }
  };
  const C single_value = tile::widen<C>(single_a.data[0]);

  if constexpr (kPacks > 0) {
    load(thread);
    if constexpr (kBackward) {
#pragma unroll
      for (int k = 0; k < kHeld; ++k) {
        if (thread + k * threads < packs) dot(held_a[k], held_b[k]);
      }
    } else {
      state.most = tile::Max{}(state.most, single_value);
      with_values(thread, [&](const C(&values)[N]) {
#pragma unroll
        for (int i = 0; i < N; ++i) state.most = tile::Max{}(state.most, values[i]);
      });
      state.most = row_reduce<kLanes>(state.most, kLowest<C>, tile::Max{}, &shared, 0);
      state.sum = softmax_exp<T>(single_value - state.most);
      with_values(thread, [&](const C(&values)[N]) {
#pragma unroll
        for (int i = 0; i < N; ++i) state.sum += softmax_exp<T>(values[i] - state.most);
      });
    }
  } else {
    for (Index first = thread; first < packs; first += kHeld * threads) {
      load(first);
      if constexpr (kBackward) {
#pragma unroll
        for (int k = 0; k < kHeld; ++k) {
          if (first + k * threads < packs) dot(held_a[k], held_b[k]);
        }
      } else {
        with_values(first, [&](const C(&values)[N]) { take_in<T>(values, &state); });
      }
    }
    if constexpr (!kBackward) {
      const C one[1] = {single_value};
      take_in<T>(one, &state);
      const C most = row_reduce<kLanes>(state.most, kLowest<C>, tile::Max{}, &shared, 0);
      if (most != state.most) state.sum *= softmax_exp<T>(state.most - most);
      state.most = most;
    }
  }
  if constexpr (kBackward) {
    dot(single_a, single_b);
    sum = row_reduce<kLanes>(sum, C(0), tile::Sum{}, &shared, 1);
    if (blocks > 1) sum = join_sums(sum, &shared, blocks);
  } else {
    state.sum = row_reduce<kLanes>(state.sum, C(0), tile::Sum{}, &shared, 1);
    if (blocks > 1) join_states<T>(&state, &shared, blocks);
  }

  // Second pass.
  const auto write = [&](const auto& finish) {
    if (single >= 0) finish_pack<T, 1>(finish, single_a, single_b, args.beta, out + single);
    T* const out_packs = out + split.head;
    for (Index first = thread; first < packs; first += kHeld * threads) {
      if constexpr (kPacks == 0) load(first);
#pragma unroll
      for (int k = 0; k < kHeld; ++k) {
        const Index pack = first + k * threads;
        if (pack < packs) finish_pack<T, N>(finish, held_a[k], held_b[k], args.beta, out_packs + pack * N);
      }
      if constexpr (kPacks > 0) break;
    }
  };
  if constexpr (kBackward) {
    write(SoftmaxBackward<T>(args, sum));
  } else {
    write(SoftmaxForward<T>(args, state.most, state.sum));
  }
  if constexpr (kLanes == 0) {
    if (blocks > 1) tile::cluster_sync(blocks);  // no block may leave while its partial results are being read
  }
}

}  // namespace gpudnn::kernels
