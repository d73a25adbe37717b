// c = alpha * reduce(a) + beta * c: any operation, any axes, any strides.
//
//   sum        x, |x| or x^2 added up; then divided by the number of elements, or the square root taken
//   product    x multiplied up, zeros skipped on request
//   extremum   the largest x or |x|; the smallest as the negated largest of -x; on request with its place
//
// Data flow: a is read once, 16 bytes a load where its memory allows it, reduce_loads loads in flight for each thread;
// partial results meet in registers, then in shuffles or shared memory, and where an output is cut into runs in the
// workspace, from which reduce_join makes the outputs. Every tree has a fixed shape: the same bits every time.
//
// Bytes: a and c once; the workspace is small beside them.
//
//   reduce_groups    outputs with few elements, which lie together: a group of lanes for each, several outputs at once
//   reduce_rows      the elements of an output lie together: a block walks along them
//   reduce_columns   neighbouring outputs lie together: threads stand side by side on them
//   reduce_join      adds up the runs
//
// Rows that begin or end in the middle of 16 bytes go in packs all the same (tile/line_nest.hpp).
//
// An extremum with its place: of equal elements the one with the lowest place wins. A place is the position in the
// order of the reduced loops, which the launcher leaves in the order of the dimensions.
//
// At the copy rate of an H200 a multiprocessor receives 18 bytes a cycle and issues 128 lanes: 16 bytes may cost a lane
// about 110 instructions. Eight 16-bit elements cost 17 as a plain sum and up to 40 otherwise.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/ptx/max_nan.cuh"
#include "kernels/reduce/reduce.hpp"
#include "kernels/tile/any_type.cuh"
#include "kernels/tile/line_steps.cuh"

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

// The usual rules over simple loops have instances of their own, a quarter as long: in a kernel of 25 microseconds it
// shows what it takes to fetch code and parameters at the start and at the end. Simple: lines that are not ragged, at
// most two loops over the elements and two over the outputs, an output of the input's type.
enum class ReduceKind { any, plain_sum, largest };

template <ReduceKind kKind>
__device__ __forceinline__ ReduceRule known_rule(ReduceRule rule) {
  if constexpr (kKind == ReduceKind::plain_sum) {
    rule.family = ReduceFamily::sum;
    rule.magnitude = rule.square = rule.root = false;
  }
  if constexpr (kKind == ReduceKind::largest) {
    rule.family = ReduceFamily::extremum;
    rule.nan_wins = false;
  }
  return rule;
}

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

// What is done with an element, settled outside of the loops.
enum class ReduceMode { plain_sum, sum, product, larger_number, larger_or_nan };

template <class C, ReduceMode kMode>
struct ReduceStep {
  // What an element counts as.
  static __device__ __forceinline__ C term(const ReduceRule& rule, C x) {
    if constexpr (kMode == ReduceMode::plain_sum) return x;
    if constexpr (kMode == ReduceMode::sum) {
      const C size = rule.magnitude ? fabs(x) : x;
      return size * (rule.square ? size : C(1));
    }
    if constexpr (kMode == ReduceMode::product) return rule.skip_zeros && x == C(0) ? C(1) : x;
    return rule_element(rule, x);
  }
  static __device__ __forceinline__ C join(C a, C b) {
    if constexpr (kMode == ReduceMode::product) return a * b;
    if constexpr (kMode == ReduceMode::larger_number) return larger_number(a, b);
    if constexpr (kMode == ReduceMode::larger_or_nan) return larger_or_nan(a, b);
    return a + b;
  }
  static __device__ __forceinline__ C fold(const ReduceRule& rule, C total, C x) {
    if constexpr (kMode == ReduceMode::sum) {
      const C size = rule.magnitude ? fabs(x) : x;
      return fma(size, rule.square ? size : C(1), total);
    }
    return join(total, term(rule, x));
  }
};

// Calls f with the ReduceStep of the rule. The branches are the same for all threads.
template <class C, class F>
__device__ __forceinline__ void with_step(const ReduceRule& rule, F&& f) {
  if (rule.family == ReduceFamily::sum) {
    if (rule.magnitude || rule.square) {
      f(ReduceStep<C, ReduceMode::sum>{});
    } else {
      f(ReduceStep<C, ReduceMode::plain_sum>{});
    }
  } else if (rule.family == ReduceFamily::product) {
    f(ReduceStep<C, ReduceMode::product>{});
  } else if (rule.nan_wins) {
    f(ReduceStep<C, ReduceMode::larger_or_nan>{});
  } else {
    f(ReduceStep<C, ReduceMode::larger_number>{});
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

// One from an array, in halves; N is a power of two.
template <class Step, class C, int N>
__device__ __forceinline__ C join_within(const C (&values)[N]) {
  if constexpr (N == 1) {
    return values[0];
  } else {
    C low[N / 2];
#pragma unroll
    for (int i = 0; i < N / 2; ++i) low[i] = Step::join(values[i], values[i + N / 2]);
    return join_within<Step>(low);
  }
}

// The best of a pack. Its places only grow, so one is kept unless the next is strictly better.
template <class C, int N>
__device__ __forceinline__ Found<C> best_within(const ReduceRule& rule, const C (&values)[N], std::int64_t place) {
  C best = rule_element(rule, values[0]);
  int at = 0;
#pragma unroll
  for (int i = 1; i < N; ++i) {
    const C fresh = rule_element(rule, values[i]);
    if (rule_better(rule, fresh, best)) {
      best = fresh;
      at = i;
    }
  }
  return {best, place + at};
}

template <class V, class C>
__device__ __forceinline__ V nothing_seen(const ReduceRule& rule) {
  if constexpr (std::is_same_v<V, C>) {
    return rule_identity<C>(rule);
  } else {
    return {rule_identity<C>(rule), kNoPlace};
  }
}

template <class C>
struct ReduceOutput {
  tile::AnyType type;
  int index_bytes;
  void* c;
  void* indices;
  C alpha;
  C beta;

  __device__ __forceinline__ C finished(const ReduceRule& rule, C total) const {
    if (rule.family == ReduceFamily::sum) {
      if (rule.divisor != 1) total /= static_cast<C>(rule.divisor);
      return rule.root ? sqrt(total) : total;
    }
    return rule.negate ? -total : total;
  }
  __device__ __forceinline__ void store_value(const ReduceRule& rule, std::int64_t at, C total) const {
    C value = alpha * finished(rule, total);
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

// In the order in which a kernel needs it (tile/line_nest.hpp).
template <class T>
struct ReduceArgs {
  using C = ReduceCompute<T>;
  const T* a;
  void* partials;         // null: no splits
  std::int64_t chunk;     // steps of a split
  std::uint32_t outputs;  // columns: packs of them
  std::uint32_t lanes;
  std::uint32_t depth;         // groups: the binary logarithm of the packs of a row that a lane takes at once
  tile::AnyType in_type;       // of AnyInteger
  bool kept_nested;            // more than two loops over the outputs
  tile::FastDivmod kept_fast;  // the fastest of them
  std::int64_t kept_steps[3];  // its steps; columns: from pack to pack
  std::int64_t kept_slow[3];   // the other's
  ReduceRule rule;
  ReduceOutput<C> output;
  tile::LineNest reduced;  // groups and rows: in packs
  tile::LoopNest<3> kept;  // columns: of packs

  template <ReduceKind kKind>
  __device__ __forceinline__ std::int64_t kept_offset(int tensor, std::uint32_t index) const {
    if (kKind == ReduceKind::any && kept_nested) return kept.offset_in(tensor, index);
    const std::uint32_t slow = kept_fast.divmod(index, &index);
    return index * kept_steps[tensor] + slow * kept_slow[tensor];
  }
  template <ReduceKind kKind>
  __device__ __forceinline__ void store(const ReduceRule& known, std::uint32_t index, std::uint32_t in_pack, int width,
                                        const auto& total) const {
    const std::int64_t at = kept_offset<kKind>(1, index) + in_pack * (kept_steps[1] / width);
    if constexpr (kKind == ReduceKind::any) {
      output.store(known, at, kept_offset<kKind>(2, index) + in_pack * (kept_steps[2] / width), total);
    } else {
      T* const target = static_cast<T*>(output.c) + at;
      C value = output.alpha * output.finished(known, total);
      if (output.beta != C(0)) value += output.beta * tile::widen<C>(*target);
      *target = tile::narrow<T>(value);
    }
  }
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
  tile::Pack<T, N> pack = {};
  __device__ __forceinline__ void load(tile::AnyType, const T* a, std::int64_t at) {
    pack = tile::load_pack<T, N>(a + at);
  }
  __device__ __forceinline__ void widen(ReduceCompute<T> (&values)[N]) const {
    tile::widen_pack<ReduceCompute<T>>(pack, values);
  }
};
template <>
struct Loaded<AnyInteger, 1> {
  double value = 0;
  __device__ __forceinline__ void load(tile::AnyType type, const AnyInteger* a, std::int64_t at) {
    value = tile::load_any<double>(type, a, at);
  }
  __device__ __forceinline__ void widen(double (&values)[1]) const { values[0] = value; }
};

// totals[u] joined with pack u; or all with totals[0].
template <class T, int N, int U, class V, int kTotals>
__device__ __forceinline__ void fold_packs(const ReduceRule& rule, const Loaded<T, N> (&loaded)[U],
                                           const tile::LineSteps<U>& steps, std::int64_t place, V (&totals)[kTotals]) {
  using C = ReduceCompute<T>;
  static_assert(kTotals == 1 || kTotals == U, "a total for each pack, or one for all");
  if constexpr (std::is_same_v<V, C>) {
    with_step<C>(rule, [&]<class Step>(Step) {
#pragma unroll
      for (int u = 0; u < U; ++u) {
        if ((steps.inside >> u & 1u) == 0) continue;
        C values[N];
        loaded[u].widen(values);
#pragma unroll
        for (int i = 0; i < N; ++i) values[i] = Step::term(rule, values[i]);
        C& total = totals[kTotals == 1 ? 0 : u];
        total = Step::join(total, join_within<Step>(values));
      }
    });
  } else {
#pragma unroll
    for (int u = 0; u < U; ++u) {
      if ((steps.inside >> u & 1u) == 0) continue;
      C values[N];
      loaded[u].widen(values);
      V& total = totals[kTotals == 1 ? 0 : u];
      total = rule_join(rule, total, best_within(rule, values, place + steps.place[u]));
    }
  }
}

// One element by itself.
template <class T, class V>
__device__ __forceinline__ void fold_element(const ReduceRule& rule, T x, std::int64_t place, V* total) {
  using C = ReduceCompute<T>;
  if constexpr (std::is_same_v<V, C>) {
    with_step<C>(rule, [&]<class Step>(Step) { *total = Step::fold(rule, *total, tile::widen<C>(x)); });
  } else {
    *total = rule_join(rule, *total, V{rule_element(rule, tile::widen<C>(x)), place});
  }
}

// Calls body(base, first, end, place) for the parts of this block's split in each window: from step `first` on, below
// `end`; `place` is that of the window's first element.
template <ReduceKind kKind, class T, class Body>
__device__ __forceinline__ void for_each_window(const ReduceArgs<T>& args, std::uint32_t lane, Body&& body) {
  const tile::LineNest& reduced = args.reduced;
  if constexpr (kKind != ReduceKind::any) {
    const auto count = static_cast<std::uint32_t>(reduced.count);
    const std::uint32_t low = blockIdx.y * static_cast<std::uint32_t>(args.chunk);
    const std::uint32_t high = low + static_cast<std::uint32_t>(args.chunk);
    return body(0, low + lane, high < count ? high : count, 0);
  }
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.y) * args.chunk;
  const std::int64_t end = begin + args.chunk < reduced.count ? begin + args.chunk : reduced.count;
  std::int64_t base = 0;
#pragma unroll 1
  for (std::uint32_t window = 0; base < end; ++window, base += reduced.window) {
    if (base + reduced.window <= begin) continue;
    const auto low = static_cast<std::uint32_t>(begin > base ? begin - base : 0);
    const auto high = static_cast<std::uint32_t>(end - base < reduced.window ? end - base : reduced.window);
    const std::int64_t from = reduced.windows.count > 1 ? reduced.windows.offset_in(0, window) : 0;
    body(from, low + lane, high, static_cast<std::int64_t>(window) * reduced.lines * reduced.length);
  }
}

// Blocks: x over outputs, y over splits.
template <class T, int N, bool kIndexed, ReduceKind kKind>
__global__ void __launch_bounds__(kReduceRowThreads, kReduceRowBlocks)
    reduce_rows(const __grid_constant__ ReduceArgs<T> args) {
  using C = ReduceCompute<T>;
  using V = std::conditional_t<kIndexed, Found<C>, C>;
  const ReduceRule rule = known_rule<kKind>(args.rule);
  constexpr int U = kReduceLoads;
  constexpr int kWarps = kReduceRowThreads / 32;
  __shared__ V scratch[kWarps];
  const std::uint32_t output = blockIdx.x;
  const T* const a = element_at(args.in_type, args.a, args.template kept_offset<kKind>(0, output));
  V totals[1] = {nothing_seen<V, C>(rule)};
  for_each_window<kKind>(
      args, threadIdx.x, [&](std::int64_t from, std::uint32_t first, std::uint32_t end, std::int64_t place) {
        const T* const base = element_at(args.in_type, a, from);
#pragma unroll 1
        for (; first < end; first += kReduceRowThreads * U) {
          const auto steps =
              tile::line_steps<T, N, U, kKind != ReduceKind::any>(args.reduced, base, first, kReduceRowThreads, end);
          Loaded<T, N> loaded[U];
#pragma unroll
          for (int u = 0; u < U; ++u) {
            if ((steps.inside >> u & 1u) != 0) loaded[u].load(args.in_type, base, steps.offset[u]);
          }
          fold_packs(rule, loaded, steps, place, totals);
        }
      });
  if constexpr (N > 1 && kKind == ReduceKind::any) {
    if (args.reduced.ragged) {
      const std::uint32_t edges = tile::line_edges<N>(args.reduced);
      const std::uint32_t share = (edges + gridDim.y - 1) / gridDim.y;
      const std::uint32_t begin = blockIdx.y * share;
      const std::uint32_t end = begin + share < edges ? begin + share : edges;
#pragma unroll 2
      for (std::uint32_t i = begin + threadIdx.x; i < end; i += kReduceRowThreads) {
        const tile::LineEdge edge = tile::line_edge<T, N>(args.reduced, a, i);
        if (edge.inside) fold_element(rule, a[edge.offset], edge.place, &totals[0]);
      }
    }
  }
  V total = lanes_join(rule, totals[0], 32);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = total;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  total = threadIdx.x < kWarps ? scratch[threadIdx.x] : nothing_seen<V, C>(rule);
  total = lanes_join(rule, total, kWarps);
  if (threadIdx.x != 0) return;
  if (args.partials != nullptr) {
    static_cast<V*>(args.partials)[static_cast<std::int64_t>(blockIdx.y) * args.outputs + output] = total;
  } else {
    args.template store<kKind>(rule, output, 0, 1, total);
  }
}

// `lanes` lanes (a power of two up to 32) stand on a row. Of the loads that a lane has in flight, 2^depth go to one row
// and the others to the rows of as many further groups of outputs; only rows of one load after another take more
// rounds.
template <class T, int N, bool kIndexed, ReduceKind kKind>
__global__ void __launch_bounds__(kReduceThreads, kKind == ReduceKind::any ? kReduceBlocks : kReduceSimpleGroupBlocks)
    reduce_groups(const __grid_constant__ ReduceArgs<T> args) {
  using C = ReduceCompute<T>;
  using V = std::conditional_t<kIndexed, Found<C>, C>;
  const ReduceRule rule = known_rule<kKind>(args.rule);
  constexpr unsigned U = kReduceLoads;
  const tile::LineNest& reduced = args.reduced;
  const std::uint32_t lanes = args.lanes;
  const std::uint32_t lane = threadIdx.x & (lanes - 1);
  const std::uint32_t groups = kReduceThreads / lanes;
  const std::uint32_t rows = U >> args.depth;  // of a group
  const std::uint32_t in_row = (1u << args.depth) - 1;
  const std::uint32_t first = blockIdx.x * (groups * rows) + threadIdx.x / lanes;
  std::int64_t row[U];
#pragma unroll
  for (unsigned u = 0; u < U; ++u) row[u] = args.template kept_offset<kKind>(0, first + (u >> args.depth) * groups);
  V totals[U];
#pragma unroll
  for (unsigned u = 0; u < U; ++u) totals[u] = nothing_seen<V, C>(rule);
  const auto count = static_cast<std::uint32_t>(reduced.count);
#pragma unroll 1
  for (std::uint32_t base = lane; base < count; base += lanes << args.depth) {
    tile::LineSteps<static_cast<int>(U)> steps;
    Loaded<T, N> loaded[U];
#pragma unroll
    for (unsigned u = 0; u < U; ++u) {
      const std::uint32_t end = first + (u >> args.depth) * groups < args.outputs ? count : 0;
      const auto step = tile::line_steps<T, N, 1, kKind != ReduceKind::any>(
          reduced, element_at(args.in_type, args.a, row[u]), base + (u & in_row) * lanes, 0, end);
      steps.inside |= step.inside << u;
      steps.offset[u] = row[u] + step.offset[0];
      steps.place[u] = step.place[0];
    }
#pragma unroll
    for (unsigned u = 0; u < U; ++u) {
      if ((steps.inside >> u & 1u) != 0) loaded[u].load(args.in_type, args.a, steps.offset[u]);
    }
    fold_packs(rule, loaded, steps, 0, totals);
  }
  if constexpr (N > 1 && kKind == ReduceKind::any) {
    if (reduced.ragged) {
      const std::uint32_t edges = tile::line_edges<N>(reduced);
#pragma unroll 1
      for (std::uint32_t which = lane; which < edges; which += lanes) {
        T x[U];
        tile::LineEdge edge[U];
#pragma unroll
        for (unsigned u = 0; u < U; ++u) {
          edge[u] = tile::line_edge<T, N>(reduced, args.a + row[u], which);
          edge[u].inside = edge[u].inside && (u & in_row) == 0 && first + (u >> args.depth) * groups < args.outputs;
          if (edge[u].inside) x[u] = args.a[row[u] + edge[u].offset];
        }
#pragma unroll
        for (unsigned u = 0; u < U; ++u) {
          if (edge[u].inside) fold_element(rule, x[u], edge[u].place, &totals[u]);
        }
      }
    }
  }
  // The loads of one row, then the lanes of its group.
#pragma unroll
  for (unsigned u = 1; u < U; u *= 2) {
    if (u > in_row) break;
#pragma unroll
    for (unsigned i = 0; i < U; i += 2 * u) totals[i] = rule_join(rule, totals[i], totals[i + u]);
  }
#pragma unroll 1
  for (std::uint32_t step = lanes / 2; step > 0; step /= 2) {
#pragma unroll
    for (unsigned u = 0; u < U; ++u) {
      if ((u & in_row) == 0) totals[u] = rule_join(rule, totals[u], shuffle_xor(totals[u], step));
    }
  }
#pragma unroll 1
  for (std::uint32_t i = lane; i < rows; i += lanes) {
    V total = totals[0];
#pragma unroll
    for (unsigned u = 1; u < U; ++u) {
      if (i << args.depth == u) total = totals[u];
    }
    const std::uint32_t output = first + i * groups;
    if (output < args.outputs) {
      args.template store<kKind>(rule, output, 0, 1, total);
    }
  }
}

// The grid of reduce_rows; a block has `lanes` packs of outputs.
template <class T, int N, bool kIndexed, ReduceKind kKind>
__global__ void __launch_bounds__(kReduceThreads, kKind == ReduceKind::any ? kReduceBlocks : kReduceSimpleBlocks)
    reduce_columns(const __grid_constant__ ReduceArgs<T> args) {
  using C = ReduceCompute<T>;
  using V = std::conditional_t<kIndexed, Found<C>, C>;
  const ReduceRule rule = known_rule<kKind>(args.rule);
  constexpr int U = kReduceLoads;
  // A stretch between the elements of a pack that keeps the lanes that read them in different banks.
  constexpr int kPitch = kReduceThreads + (32 / N > 1 ? 32 / N : 1);
  __shared__ V results[N][kPitch];
  const std::uint32_t lanes = args.lanes;
  const std::uint32_t lane = threadIdx.x & (lanes - 1);
  const std::uint32_t first_pack = blockIdx.x * lanes;
  const bool exists = first_pack + lane < args.outputs;
  const T* const a =
      element_at(args.in_type, args.a, args.template kept_offset<kKind>(0, exists ? first_pack + lane : 0));
  V totals[N];
#pragma unroll
  for (int i = 0; i < N; ++i) totals[i] = nothing_seen<V, C>(rule);
  for_each_window<kKind>(
      args, threadIdx.x / lanes, [&](std::int64_t from, std::uint32_t first, std::uint32_t end, std::int64_t place) {
        const T* const base = element_at(args.in_type, a, from);
        const std::uint32_t rows = kReduceThreads / lanes;
#pragma unroll 1
        for (; exists && first < end; first += rows * U) {
          const auto steps = tile::line_steps<T, 1, U, kKind != ReduceKind::any>(args.reduced, base, first, rows, end);
          Loaded<T, N> loaded[U];
#pragma unroll
          for (int u = 0; u < U; ++u) {
            if ((steps.inside >> u & 1u) != 0) loaded[u].load(args.in_type, base, steps.offset[u]);
          }
          if constexpr (kIndexed) {
#pragma unroll
            for (int u = 0; u < U; ++u) {
              if ((steps.inside >> u & 1u) == 0) continue;
              C values[N];
              loaded[u].widen(values);
#pragma unroll
              for (int i = 0; i < N; ++i) {  // places only grow
                const C fresh = rule_element(rule, values[i]);
                if (totals[i].place == kNoPlace || rule_better(rule, fresh, totals[i].value)) {
                  totals[i] = {fresh, place + steps.place[u]};
                }
              }
            }
          } else {
            with_step<C>(rule, [&]<class Step>(Step) {
#pragma unroll
              for (int u = 0; u < U; ++u) {
                if ((steps.inside >> u & 1u) == 0) continue;
                C values[N];
                loaded[u].widen(values);
#pragma unroll
                for (int i = 0; i < N; ++i) totals[i] = Step::fold(rule, totals[i], values[i]);
              }
            });
          }
        }
      });
  // Rows of one warp meet in shuffles, the rest in shared memory.
#pragma unroll 1
  for (std::uint32_t step = lanes; step < 32; step *= 2) {
#pragma unroll
    for (int i = 0; i < N; ++i) totals[i] = rule_join(rule, totals[i], shuffle_xor(totals[i], step));
  }
  const std::uint32_t parts = lanes < 32 ? kReduceThreads / 32 : kReduceThreads / lanes;
  if (lanes >= 32 || threadIdx.x % 32 < lanes) {
    const std::uint32_t slot = lanes < 32 ? threadIdx.x / 32 * lanes + lane : threadIdx.x;
#pragma unroll
    for (int i = 0; i < N; ++i) results[i][slot] = totals[i];
  }
  __syncthreads();
  // One thread for each output of the tile, neighbours on neighbours.
#pragma unroll 1
  for (std::uint32_t slot = threadIdx.x; slot < lanes * N; slot += kReduceThreads) {
    const std::uint32_t pack = first_pack + slot / N;
    if (pack >= args.outputs) break;
    V total = results[slot % N][slot / N];
#pragma unroll 1
    for (std::uint32_t part = 1; part < parts; ++part) {
      total = rule_join(rule, total, results[slot % N][part * lanes + slot / N]);
    }
    if (args.partials != nullptr) {
      static_cast<V*>(args.partials)[(static_cast<std::int64_t>(blockIdx.y) * args.outputs + pack) * N + slot % N] =
          total;
      continue;
    }
    args.template store<kKind>(rule, pack, slot % N, N, total);
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
