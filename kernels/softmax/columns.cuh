// Softmax over columns: neighbouring groups lie side by side (channel mode of NCHW: a group is a pixel's
// channels).
//
// A block takes a tile of `lanes` packs of neighbouring groups. Thread (lane, row) holds the elements row, row + rows,
// ... of its pack's groups: kPacks of them in registers, so x is read once and y written once; longer groups are read
// twice (kPacks = 0). A load of 8 lanes is a run of 128 bytes. The rows' maxima and sums meet in shared memory, always
// in the same order. All that a thread writes it has read itself: the output may be an input.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/softmax/softmax_math.cuh"

namespace gpudnn::kernels {

// The block's shape and the way through the tensors. `lanes` is a power of two from 4 to 256.
struct ColumnTiles {
  std::int32_t lanes = 0;
  std::int32_t rows = 0;
  std::int64_t step[3] = {};  // from an element of a group to the next: a, b, out
  tile::LoopNest<3> packs;    // all packs of groups, as one nest
  std::int32_t multiprocessors = 1;
};

// Threads of a block: single elements take larger blocks, so that the groups of a block are a run of 64 bytes and more.
template <int N>
inline constexpr int kColumnThreads = N == 1 ? 512 : 256;
// Values in shared memory: N for each thread, the columns' rows 4 further apart, and a result for each column.
template <int N>
inline constexpr int kColumnScratch = kColumnThreads<N>*(N + 2);

// The reduction over the rows of each lane's N groups, for every thread; all in shared memory, as shuffles would move
// N values at each of their steps. Neighbouring threads each add up N rows of a column, then meet. The rows' distance
// lets them read from different banks. What comes out has passed through `finish`, once for each column.
template <int N, class C, class Op, class Finish>
__device__ __forceinline__ void column_reduce(C (&values)[N], Op op, int lanes, C* scratch, const Finish& finish) {
  const auto thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int columns = lanes * N, pitch = columns + 4, rows = threads / lanes;
  C* const own = scratch + thread % lanes * N;
#pragma unroll
  for (int i = 0; i < N; ++i) own[thread / lanes * pitch + i] = values[i];
  __syncthreads();
  if (columns <= threads) {
    C* const results = scratch + rows * pitch;
    const int parts = threads / columns;  // N rows each
    const C* const from = scratch + thread % parts * pitch + thread / parts;
    C value = from[0];
#pragma unroll
    for (int j = 1; j < N; ++j) value = op(value, from[j * parts * pitch]);
    for (int step = 1; step < parts; step *= 2) value = op(value, __shfl_xor_sync(0xffffffffu, value, step));
    if (thread % parts == 0) results[thread / parts] = finish(value);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = results[thread % lanes * N + i];
    return;  // whoever writes next meets the others before these results are written again
  }
#pragma unroll
  for (int i = 0; i < N; ++i) values[i] = own[i];
  for (int row = 1; row < rows; ++row) {
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = op(values[i], own[row * pitch + i]);
  }
#pragma unroll
  for (int i = 0; i < N; ++i) values[i] = finish(values[i]);
  __syncthreads();
}

// Blocks that should share a multiprocessor: with 64 registers a thread four do, with a few more only three.
template <class T, int N, int kPacks>
inline constexpr int kColumnBlocks = N > 1 && kPacks == 4 && sizeof(T) < 8 ? 4 : 0;

template <class T, int N, int kPacks, bool kBackward>
__global__ void __launch_bounds__(kColumnThreads<N>, kColumnBlocks<T, N, kPacks>)
    softmax_columns(SoftmaxArgs<T> args, ColumnTiles tiles) {
  using C = tile::Compute<T>;
  using Pack = tile::Pack<T, N>;
  // Forward, whether the terms stay in registers, so that each costs one exponential: where instructions are short.
  constexpr bool kKeeps = !kBackward && sizeof(T) == 2 && kPacks > 0 && kPacks * N * sizeof(C) <= 128;
  constexpr int kHeld = kPacks > 0 ? kPacks : 4;  // packs in registers; of longer groups, those in flight
  alignas(16) __shared__ C scratch[kColumnScratch<N>];
  const int lane = static_cast<int>(threadIdx.x) % tiles.lanes;
  const int row = static_cast<int>(threadIdx.x) / tiles.lanes;
  const std::uint32_t pack = blockIdx.x * tiles.lanes + lane;
  const bool inside = pack < tiles.packs.count;
  std::int64_t offset[3];
  tiles.packs.offsets(inside ? pack : 0, offset);
  const T* const a = args.a + offset[0];
  const T* const b = args.b + offset[1];
  const int length = inside ? static_cast<int>(args.length) : 0;

  Pack held_a[kHeld], held_b[kHeld];
  const auto load = [&](int first) {
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      const int element = first + k * tiles.rows;
      if (element < length) {
        held_a[k] = tile::load_pack<T, N>(a + element * tiles.step[0]);
        if (kBackward) held_b[k] = tile::load_pack<T, N>(b + element * tiles.step[1]);
      }
    }
  };
  C most[N], sum[N];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    most[i] = kLowest<C>;
    sum[i] = C(0);
  }
  // The packs in registers, widened, one after the other.
  const auto for_each_held = [&](int first, const auto& body) {
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      if (first + k * tiles.rows < length) {
        C wide_a[N], wide_b[N];
        tile::widen_pack<C>(held_a[k], wide_a);
        if (kBackward) tile::widen_pack<C>(held_b[k], wide_b);
#pragma unroll
        for (int i = 0; i < N; ++i) body(i, wide_a[i], wide_b[i]);
      }
    }
  };
  // What body(i, x) makes of the elements.
  C kept[kKeeps ? kHeld : 1][N];
  const auto keep = [&](const auto& body) {
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      if (row + k * tiles.rows < length) {
        C wide[N];
        tile::widen_pack<C>(held_a[k], wide);
#pragma unroll
        for (int i = 0; i < N; ++i) kept[kKeeps ? k : 0][i] = body(i, wide[i]);
      }
    }
  };
  const auto add_kept = [&](const auto& term) {
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      if (row + k * tiles.rows < length) {
#pragma unroll
        for (int i = 0; i < N; ++i) sum[i] += term(kept[kKeeps ? k : 0][i]);
      }
    }
  };
  const auto as_it_is = [](C value) { return value; };
  const auto add_term = [&](int i, C y, C dy) { sum[i] += SoftmaxBackward<T>::term(y, dy, args.logarithm); };

  // First pass.
  if constexpr (kPacks > 0) {
    load(row);
    if constexpr (kBackward) {
      for_each_held(row, add_term);
    } else {
      Pack largest;
      largest.fill(tile::narrow<T>(C(-INFINITY)));
#pragma unroll
      for (int k = 0; k < kHeld; ++k) {
        if (row + k * tiles.rows < length) largest = larger_of<T, N>(largest, held_a[k]);
      }
      C wide[N];
      tile::widen_pack<C>(largest, wide);
#pragma unroll
      for (int i = 0; i < N; ++i) most[i] = tile::Max{}(most[i], wide[i]);
      column_reduce<N>(most, tile::Max{}, tiles.lanes, scratch, as_it_is);
      if constexpr (kKeeps) {
        // The sums come when the packs are done with: together they would not fit into the registers.
        if (args.logarithm) {
          keep([&](int i, C x) { return x - most[i]; });
          add_kept([](C shifted) { return softmax_exp<T>(shifted); });
        } else {
          keep([&](int i, C x) { return softmax_exp<T>(x - most[i]); });
          add_kept([](C term) { return term; });
        }
      } else {
        for_each_held(row, [&](int i, C x, C) { sum[i] += softmax_exp<T>(x - most[i]); });
      }
    }
  } else {
    for (int first = row; first < length; first += kHeld * tiles.rows) {
      load(first);
      if constexpr (kBackward) {
        for_each_held(first, add_term);
      } else {
        for_each_held(first, [&](int i, C x, C) {
          const C larger = tile::Max{}(most[i], x);
          sum[i] = sum[i] * softmax_exp<T>(most[i] - larger) + softmax_exp<T>(x - larger);
          most[i] = larger;
        });
      }
    }
    if constexpr (!kBackward) {
      C own[N];
#pragma unroll
      for (int i = 0; i < N; ++i) own[i] = most[i];
      column_reduce<N>(most, tile::Max{}, tiles.lanes, scratch, as_it_is);
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] *= softmax_exp<T>(own[i] - most[i]);
    }
  }
  // Forward, the sums turn into what the second pass multiplies or subtracts.
  column_reduce<N>(sum, tile::Sum{}, tiles.lanes, scratch, [&](C total) {
    if constexpr (kBackward) return total;
    return args.logarithm ? softmax_log<T>(total) : args.alpha / total;
  });

  // Second pass. The output's place is worked out here, where registers are free again.
  T* const out = args.out + tiles.packs.offset_in(2, inside ? pack : 0);
  for (int first = row; first < length; first += kHeld * tiles.rows) {
    if constexpr (kPacks == 0) load(first);
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      const int element = first + k * tiles.rows;
      if (element >= length) break;
      T* const target = out + element * tiles.step[2];
      C wide_a[N], wide_b[N], result[N];
      if (!kKeeps) tile::widen_pack<C>(held_a[k], wide_a);
      if (kBackward) tile::widen_pack<C>(held_b[k], wide_b);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        if constexpr (kKeeps) {
          const C value = kept[k][i];
          result[i] = args.logarithm ? args.alpha * (value - sum[i]) : value * sum[i];
        } else if constexpr (kBackward) {
          const C y = wide_a[i], dy = wide_b[i];
          result[i] = args.alpha * (args.logarithm ? dy - softmax_exp<T>(y) * sum[i] : y * (dy - sum[i]));
        } else {
          const C shifted = wide_a[i] - most[i];
          result[i] = args.logarithm ? args.alpha * (shifted - sum[i]) : sum[i] * softmax_exp<T>(shifted);
        }
      }
      if (args.beta != C(0)) {
        C old[N];
        tile::widen_pack<C>(tile::load_pack<T, N>(target), old);
#pragma unroll
        for (int i = 0; i < N; ++i) result[i] += args.beta * old[i];
      }
      tile::store_pack<T, N>(target, tile::narrow_pack<T>(result));
    }
    if constexpr (kPacks > 0) break;
  }
}

}  // namespace gpudnn::kernels
