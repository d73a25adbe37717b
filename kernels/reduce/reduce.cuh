// c = alpha * reduce(a) + beta * c: any operation, any axes, any strides.
//
//   sum        x, |x| or x^2 added up; then divided by the number of elements, or the square root taken
//   product    x multiplied up, zeros skipped on request
//   extremum   the largest x or |x|; the smallest as the negated largest of -x; on request with its place
//
// Data flow: a is read once, 16 bytes a load where the tensor allows it, kReduceLoads loads in flight for each thread;
// partial results meet in registers, then in shuffles or shared memory, and where an output is cut into runs in the
// workspace, from which reduce_join makes the outputs. Every tree has a fixed shape: the same bits every time.
//
// Bytes: a and c once; the workspace of at most about 8 blocks for each multiprocessor is small beside them.
//
//   reduce_rows      the elements of an output lie together: threads walk along them
//   reduce_columns   neighbouring outputs lie together: threads stand side by side on them
//   reduce_join      adds up the runs
//
// An extremum with its place: of equal elements the one with the lowest place wins. A place is the position in the
// order of the reduced loops, which the launcher leaves in the order of the dimensions; so a thread, whose positions
// only grow, keeps what it has unless the new element is strictly better.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/ptx/max_nan.cuh"
#include "kernels/reduce/reduce.hpp"
#include "kernels/tile/any_type.cuh"

namespace gpudnn::kernels {

// Stands for an integer whose type is told at run time. They are folded in double: every sum below 2^53 is exact.
struct AnyInteger {};

template <class T>
using ReduceCompute = std::conditional_t<std::is_same_v<T, AnyInteger>, double, tile::Compute<T>>;

constexpr std::int64_t kNoPlace = -1;

template <class C>
struct Found {
  C value;
  std::int64_t place;  // kNoPlace: nothing was seen
};

__device__ __forceinline__ float larger_or_nan(float a, float b) { return ptx::max_nan(a, b); }
__device__ __forceinline__ double larger_or_nan(double a, double b) { return a != a || a > b ? a : b; }
__device__ __forceinline__ float larger_number(float a, float b) { return fmaxf(a, b); }
__device__ __forceinline__ double larger_number(double a, double b) { return fmax(a, b); }

template <class C>
__device__ __forceinline__ C rule_identity(const ReduceRule& rule) {
  if (rule.family == ReduceFamily::sum) return C(0);
  if (rule.family == ReduceFamily::product) return C(1);
  // Passing over NaN, nothing but NaN must give NaN.
  return rule.nan_wins ? -C(INFINITY) : C(NAN);
}

template <class C>
__device__ __forceinline__ C rule_element(const ReduceRule& rule, C x) {
  const C size = rule.magnitude ? fabs(x) : x;
  return rule.negate ? -size : size;
}

template <class C>
__device__ __forceinline__ C rule_join(const ReduceRule& rule, C a, C b) {
  if (rule.family == ReduceFamily::sum) return a + b;
  if (rule.family == ReduceFamily::product) return a * b;
  return rule.nan_wins ? larger_or_nan(a, b) : larger_number(a, b);
}

// total[i] = join(total[i], other[i]).
template <class C, int N>
__device__ __forceinline__ void rule_join_all(const ReduceRule& rule, C (&total)[N], const C (&other)[N]) {
  if (rule.family == ReduceFamily::sum) {
#pragma unroll
    for (int i = 0; i < N; ++i) total[i] += other[i];
  } else if (rule.family == ReduceFamily::product) {
#pragma unroll
    for (int i = 0; i < N; ++i) total[i] *= other[i];
  } else if (rule.nan_wins) {
#pragma unroll
    for (int i = 0; i < N; ++i) total[i] = larger_or_nan(total[i], other[i]);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) total[i] = larger_number(total[i], other[i]);
  }
}

// The branches are the same for all threads, and outside the loop over the pack.
template <class C, int N>
__device__ __forceinline__ void rule_fold(const ReduceRule& rule, const C (&x)[N], C (&total)[N]) {
  if (rule.family == ReduceFamily::sum) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const C size = rule.magnitude ? fabs(x[i]) : x[i];
      total[i] = fma(size, rule.square ? size : C(1), total[i]);
    }
  } else if (rule.family == ReduceFamily::product) {
#pragma unroll
    for (int i = 0; i < N; ++i) total[i] *= rule.skip_zeros && x[i] == C(0) ? C(1) : x[i];
  } else if (rule.nan_wins) {
#pragma unroll
    for (int i = 0; i < N; ++i) total[i] = larger_or_nan(total[i], rule_element(rule, x[i]));
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) total[i] = larger_number(total[i], rule_element(rule, x[i]));
  }
}

// Of two elements, whether the new one is strictly better.
template <class C>
__device__ __forceinline__ bool rule_better(const ReduceRule& rule, C fresh, C kept) {
  return rule.nan_wins ? kept == kept && !(fresh <= kept) : fresh > kept || (kept != kept && fresh == fresh);
}

template <class C>
__device__ __forceinline__ Found<C> rule_join(const ReduceRule& rule, const Found<C>& a, const Found<C>& b) {
  if (b.place == kNoPlace) return a;
  if (a.place == kNoPlace || rule_better(rule, b.value, a.value)) return b;
  if (rule_better(rule, a.value, b.value)) return a;
  return a.place < b.place ? a : b;
}

template <class C, int N>
__device__ __forceinline__ void rule_join_all(const ReduceRule& rule, Found<C> (&total)[N],
                                              const Found<C> (&other)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) total[i] = rule_join(rule, total[i], other[i]);
}

// One from an array, in halves; N is a power of two.
template <class V, int N>
__device__ __forceinline__ V rule_join_within(const ReduceRule& rule, const V (&values)[N]) {
  if constexpr (N == 1) {
    return values[0];
  } else {
    V low[N / 2];
    V high[N / 2];
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      low[i] = values[i];
      high[i] = values[i + N / 2];
    }
    rule_join_all(rule, low, high);
    return rule_join_within(rule, low);
  }
}

// What a thread has folded so far: `Slots` running results of packs of N elements. The pair form has one slot where a
// pack belongs to one output.
template <class C, int N, bool kIndexed, bool kOneOutput>
struct Running {
  static constexpr int kSlots = N;
  C slots[N];
  __device__ __forceinline__ void start(const ReduceRule& rule) {
#pragma unroll
    for (int i = 0; i < N; ++i) slots[i] = rule_identity<C>(rule);
  }
  __device__ __forceinline__ void fold(const ReduceRule& rule, const C (&x)[N], std::int64_t) {
    rule_fold(rule, x, slots);
  }
};

template <class C, int N, bool kOneOutput>
struct Running<C, N, true, kOneOutput> {
  static constexpr int kSlots = kOneOutput ? 1 : N;
  Found<C> slots[kSlots];
  __device__ __forceinline__ void start(const ReduceRule& rule) {
#pragma unroll
    for (int i = 0; i < kSlots; ++i) slots[i] = {rule_identity<C>(rule), kNoPlace};
  }
  __device__ __forceinline__ void fold(const ReduceRule& rule, const C (&x)[N], std::int64_t place) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const C fresh = rule_element(rule, x[i]);
      Found<C>& kept = slots[kOneOutput ? 0 : i];
      if (kept.place == kNoPlace || rule_better(rule, fresh, kept.value))
        kept = {fresh, kOneOutput ? place + i : place};
    }
  }
};

template <class C>
struct ReduceOutput {
  tile::AnyType type;
  int index_bytes;
  void* c;
  void* indices;
  C alpha;
  C beta;

  __device__ __forceinline__ void store_value(const ReduceRule& rule, std::int64_t at, C total) const {
    if (rule.family == ReduceFamily::sum) {
      total /= static_cast<C>(rule.divisor);
      if (rule.root) total = sqrt(total);
    } else if (rule.negate) {
      total = -total;
    }
    C value = alpha * total;
    if (beta != C(0)) value += beta * tile::load_any<C>(type, c, at);
    tile::store_any<C>(type, c, at, value);
  }
  __device__ __forceinline__ void store(const ReduceRule& rule, std::int64_t at, std::int64_t, C total) const {
    store_value(rule, at, total);
  }
  __device__ __forceinline__ void store(const ReduceRule& rule, std::int64_t at, std::int64_t index_at,
                                        const Found<C>& best) const {
    store_value(rule, at, best.value);
    if (indices == nullptr) return;
    switch (index_bytes) {
      case 1:
        static_cast<std::uint8_t*>(indices)[index_at] = static_cast<std::uint8_t>(best.place);
        break;
      case 2:
        static_cast<std::uint16_t*>(indices)[index_at] = static_cast<std::uint16_t>(best.place);
        break;
      case 4:
        static_cast<std::uint32_t*>(indices)[index_at] = static_cast<std::uint32_t>(best.place);
        break;
      default:
        static_cast<std::int64_t*>(indices)[index_at] = best.place;
        break;
    }
  }
};

// The loops over the elements of an output, in windows that 31 bits can index: almost always one.
struct ReduceElements {
  tile::LoopNest<1> within;
  tile::LoopNest<1> windows;
  std::int64_t window = 1;  // elements (packs) of one
  std::int64_t count = 1;   // of all
};

template <class T>
struct ReduceArgs {
  using C = ReduceCompute<T>;
  const T* a;
  tile::AnyType in_type;  // of AnyInteger
  void* partials;         // null: no splits
  ReduceRule rule;
  ReduceOutput<C> output;
  tile::LoopNest<3> kept;  // columns: of packs
  ReduceElements reduced;  // rows: of packs
  std::uint32_t outputs;   // columns: packs of them
  std::int64_t chunk;      // elements (packs) of a split
  std::uint32_t lanes;
};

template <class C>
__device__ __forceinline__ C shuffle_xor(C value, std::uint32_t step) {
  return __shfl_xor_sync(0xffffffffu, value, step);
}
template <class C>
__device__ __forceinline__ Found<C> shuffle_xor(const Found<C>& found, std::uint32_t step) {
  return {__shfl_xor_sync(0xffffffffu, found.value, step), __shfl_xor_sync(0xffffffffu, found.place, step)};
}

// Every lane gets the result over its group of `lanes` neighbours.
template <class V>
__device__ __forceinline__ V lanes_join(const ReduceRule& rule, V value, std::uint32_t lanes) {
#pragma unroll 1
  for (std::uint32_t step = lanes / 2; step > 0; step /= 2) value = rule_join(rule, value, shuffle_xor(value, step));
  return value;
}

// Element `at` of a tensor; integers have a size that is told at run time.
template <class T>
__device__ __forceinline__ const T* element_at(tile::AnyType, const T* a, std::int64_t at) {
  return a + at;
}
__device__ __forceinline__ const AnyInteger* element_at(tile::AnyType type, const AnyInteger* a, std::int64_t at) {
  return reinterpret_cast<const AnyInteger*>(reinterpret_cast<const char*>(a) + at * tile::any_type_bytes(type));
}

// What one load brings.
template <class T, int N>
struct Loaded {
  tile::Pack<T, N> pack;
  __device__ __forceinline__ void load(tile::AnyType, const T* a, std::int64_t at) {
    pack = tile::load_pack<T, N>(a + at);
  }
  __device__ __forceinline__ void widen(ReduceCompute<T> (&values)[N]) const {
    tile::widen_pack<ReduceCompute<T>>(pack, values);
  }
};
template <>
struct Loaded<AnyInteger, 1> {
  double value;
  __device__ __forceinline__ void load(tile::AnyType type, const AnyInteger* a, std::int64_t at) {
    value = tile::load_any<double>(type, a, at);
  }
  __device__ __forceinline__ void widen(double (&values)[1]) const { values[0] = value; }
};

// Folds every `step`-th of the elements of this block's split, from the `lane`-th on. A place counts single elements.
template <class T, int N, bool kIndexed, bool kOneOutput>
__device__ __forceinline__ void fold_run(const ReduceArgs<T>& args, const T* a, std::uint32_t lane, std::uint32_t step,
                                         Running<ReduceCompute<T>, N, kIndexed, kOneOutput>* running) {
  using C = ReduceCompute<T>;
  constexpr int kPlaces = kOneOutput ? N : 1;
  const ReduceElements& reduced = args.reduced;
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.y) * args.chunk;
  const std::int64_t end = begin + args.chunk < reduced.count ? begin + args.chunk : reduced.count;
  running->start(args.rule);
  std::int64_t base = 0;
#pragma unroll 1
  for (std::uint32_t window = 0; base < end; ++window, base += reduced.window) {
    if (base + reduced.window <= begin) continue;
    const auto low = static_cast<std::uint32_t>(begin > base ? begin - base : 0);
    const auto high = static_cast<std::uint32_t>(end - base < reduced.window ? end - base : reduced.window);
    std::int64_t from[1];
    reduced.windows.offsets(window, from);
    // At most 2^31 - 2^20 elements a window, so an index that ran past the end by a round still fits 32 bits.
#pragma unroll 1
    for (std::uint32_t first = low + lane; first < high; first += step * kReduceLoads) {
      std::uint32_t index[kReduceLoads];
      std::int64_t offset[kReduceLoads][1];
#pragma unroll
      for (int u = 0; u < kReduceLoads; ++u) index[u] = first + u * step;
      reduced.within.template offsets_of<kReduceLoads>(index, offset);
      Loaded<T, N> loaded[kReduceLoads];
#pragma unroll
      for (int u = 0; u < kReduceLoads; ++u) {
        if (first + u * step < high) loaded[u].load(args.in_type, a, from[0] + offset[u][0]);
      }
#pragma unroll
      for (int u = 0; u < kReduceLoads; ++u) {
        if (first + u * step < high) {
          C values[N];
          loaded[u].widen(values);
          running->fold(args.rule, values, (base + (first + u * step)) * kPlaces);
        }
      }
    }
  }
}

// Blocks: x over outputs, y over splits.
template <class T, int N, bool kIndexed>
__global__ void __launch_bounds__(kReduceThreads) reduce_rows(const __grid_constant__ ReduceArgs<T> args) {
  using C = ReduceCompute<T>;
  using V = std::conditional_t<kIndexed, Found<C>, C>;
  constexpr int kWarps = kReduceThreads / 32;
  __shared__ V scratch[kWarps];
  const std::uint32_t lanes = args.lanes;
  const std::uint32_t lane = threadIdx.x & (lanes - 1);
  const std::uint32_t groups = kReduceThreads / lanes;
#pragma unroll 1
  for (std::uint32_t first = blockIdx.x * groups; first < args.outputs; first += gridDim.x * groups) {
    const std::uint32_t output = first + threadIdx.x / lanes;
    const bool inside = output < args.outputs;
    std::int64_t at[3];
    args.kept.offsets(inside ? output : 0, at);  // a thread without an output helps in the shuffles
    Running<C, N, kIndexed, true> running;
    fold_run(args, element_at(args.in_type, args.a, at[0]), lane, lanes, &running);
    V total = lanes_join(args.rule, rule_join_within(args.rule, running.slots), lanes < 32 ? lanes : 32);
    if (lanes > 32) {
      if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = total;
      __syncthreads();
      total = scratch[0];
#pragma unroll 1
      for (int warp = 1; warp < kWarps; ++warp) total = rule_join(args.rule, total, scratch[warp]);
      __syncthreads();  // the next round may write
    }
    if (lane == 0 && inside) {
      if (args.partials != nullptr) {
        static_cast<V*>(args.partials)[static_cast<std::int64_t>(blockIdx.y) * args.outputs + output] = total;
      } else {
        args.output.store(args.rule, at[1], at[2], total);
      }
    }
  }
}

// The same grid; a block has `lanes` packs of outputs.
template <class T, int N, bool kIndexed>
__global__ void __launch_bounds__(kReduceThreads) reduce_columns(const __grid_constant__ ReduceArgs<T> args) {
  using C = ReduceCompute<T>;
  using V = std::conditional_t<kIndexed, Found<C>, C>;
  __shared__ V results[N][kReduceThreads];  // in the end the first `lanes` of each hold the block's results
  const std::uint32_t lanes = args.lanes;
  const std::uint32_t lane = threadIdx.x & (lanes - 1);
  const std::uint32_t row = threadIdx.x / lanes;
  const std::uint32_t rows = kReduceThreads / lanes;
#pragma unroll 1
  for (std::uint32_t first = blockIdx.x * lanes; first < args.outputs; first += gridDim.x * lanes) {
    const bool inside = first + lane < args.outputs;
    std::int64_t at[3];
    args.kept.offsets(inside ? first + lane : 0, at);
    Running<C, N, kIndexed, false> running;
    fold_run(args, element_at(args.in_type, args.a, at[0]), row, rows, &running);
#pragma unroll
    for (int i = 0; i < N; ++i) results[i][threadIdx.x] = running.slots[i];
    __syncthreads();
#pragma unroll 1
    for (std::uint32_t half = rows / 2; half > 0; half /= 2) {
      if (row < half) {
        V other[N];
#pragma unroll
        for (int i = 0; i < N; ++i) other[i] = results[i][threadIdx.x + half * lanes];
        rule_join_all(args.rule, running.slots, other);
#pragma unroll
        for (int i = 0; i < N; ++i) results[i][threadIdx.x] = running.slots[i];
      }
      __syncthreads();
    }
    // One thread for each output of the tile, neighbours on neighbours.
#pragma unroll 1
    for (std::uint32_t slot = threadIdx.x; slot < lanes * N; slot += kReduceThreads) {
      const std::uint32_t pack = first + slot / N;
      if (pack >= args.outputs) break;
      const V total = results[slot % N][slot / N];
      if (args.partials != nullptr) {
        static_cast<V*>(args.partials)[(static_cast<std::int64_t>(blockIdx.y) * args.outputs + pack) * N + slot % N] =
            total;
        continue;
      }
      args.kept.offsets(pack, at);
      // The loop over packs steps N elements.
      args.output.store(args.rule, at[1] + slot % N * (args.kept.strides[1][0] / N),
                        at[2] + slot % N * (args.kept.strides[2][0] / N), total);
    }
    __syncthreads();
  }
}

template <class C>
struct ReduceJoinArgs {
  const void* partials;
  ReduceRule rule;
  ReduceOutput<C> output;
  tile::LoopNest<3> kept;  // of elements
  std::uint32_t outputs;
  std::uint32_t splits;
  std::uint32_t lanes;
};

// `lanes` threads stand on neighbouring outputs; the rows of the block share the splits.
template <class C, bool kIndexed>
__global__ void __launch_bounds__(kReduceJoinThreads) reduce_join(const __grid_constant__ ReduceJoinArgs<C> args) {
  using V = std::conditional_t<kIndexed, Found<C>, C>;
  constexpr int kLoads = 8;
  __shared__ V results[kReduceJoinThreads];
  const std::uint32_t lanes = args.lanes;
  const std::uint32_t row = threadIdx.x / lanes;
  const std::uint32_t rows = kReduceJoinThreads / lanes;
  const V* const partials = static_cast<const V*>(args.partials);
#pragma unroll 1
  for (std::uint32_t first = blockIdx.x * lanes; first < args.outputs; first += gridDim.x * lanes) {
    const std::uint32_t output = first + (threadIdx.x & (lanes - 1));
    V total;
    if constexpr (kIndexed) {
      total = {rule_identity<C>(args.rule), kNoPlace};
    } else {
      total = rule_identity<C>(args.rule);
    }
#pragma unroll 1
    for (std::uint32_t split = row; output < args.outputs && split < args.splits; split += rows * kLoads) {
      V loaded[kLoads];
#pragma unroll
      for (int u = 0; u < kLoads; ++u) {
        if (split + u * rows < args.splits)
          loaded[u] = partials[static_cast<std::int64_t>(split + u * rows) * args.outputs + output];
      }
#pragma unroll
      for (int u = 0; u < kLoads; ++u) {
        if (split + u * rows < args.splits) total = rule_join(args.rule, total, loaded[u]);
      }
    }
    results[threadIdx.x] = total;
    __syncthreads();
#pragma unroll 1
    for (std::uint32_t half = rows / 2; half > 0; half /= 2) {
      if (row < half) {
        results[threadIdx.x] = rule_join(args.rule, results[threadIdx.x], results[threadIdx.x + half * lanes]);
      }
      __syncthreads();
    }
    if (row == 0 && output < args.outputs) {
      std::int64_t at[3];
      args.kept.offsets(output, at);
      args.output.store(args.rule, at[1], at[2], results[threadIdx.x]);
    }
    __syncthreads();
  }
}

}  // namespace gpudnn::kernels
