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
//   reduce_groups    outputs with few elements, which lie together: a group of lanes for each, several outputs at once;
//                    by the usual rules one at once, everything loaded before anything is used (short.cuh)
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

#include "kernels/reduce/rule.cuh"
#include "kernels/tile/cluster.cuh"
#include "kernels/tile/line_steps.cuh"
#include "kernels/tile/mailboxes.cuh"

namespace gpudnn::kernels {

// Blocks of a cluster. Code for an older target knows of no clusters: there a cluster's first block works alone.
constexpr int kReduceCluster = 8;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr bool kHasClusters = false;
#else
constexpr bool kHasClusters = true;
#endif

// In the order in which a kernel needs it (tile/line_nest.hpp).
template <class T>
struct ReduceArgs {
  using C = ReduceCompute<T>;
  const T* a;
  void* partials;         // null: no splits, or posted or clustered ones
  tile::MailboxKey key;   // rows: not zero where splits meet in a slot
  std::int64_t chunk;     // steps of a split
  std::uint32_t outputs;  // columns: packs of them
  std::uint32_t lanes;
  std::uint32_t depth;         // groups: the binary logarithm of the packs of a row that a lane takes at once
  tile::AnyType in_type;       // of AnyInteger
  bool clustered;              // columns: the splits are a cluster
  bool stores_packs;           // columns: a thread alone has the outputs of a pack, and they are a pack too
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
    if constexpr (kKind != ReduceKind::any) {
      return index * static_cast<std::uint32_t>(kept_steps[tensor]) +
             slow * static_cast<std::uint32_t>(kept_slow[tensor]);
    }
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
    tile::widen_words<ReduceCompute<T>>(pack, values);
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
    const bool whole = !kHasClusters && args.clustered;
    const std::uint32_t low = blockIdx.y * static_cast<std::uint32_t>(args.chunk);
    const std::uint32_t high = whole ? count : low + static_cast<std::uint32_t>(args.chunk);
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

// The runs of a few outputs meet in a slot of tile/mailboxes.cuh, in place of the workspace and a second kernel.
constexpr std::int64_t kReducePosts = 1024;
static __device__ tile::Mailboxes<kReducePosts * sizeof(float)> reduce_slots;
template <ReduceKind kKind, class V>
inline constexpr bool kPostsRows = kKind != ReduceKind::any&& std::is_same_v<V, float>;

// The end of reduce_rows where that is so. `of_warps` is what the block's warps found, `seen` what mailbox_glance
// saw; `found` has room for all posts.
template <class T, ReduceKind kKind>
__device__ __forceinline__ void reduce_posted(const ReduceArgs<T>& args, const ReduceRule& rule, const float* of_warps,
                                              tile::MailboxKey seen, float* found) {
  constexpr std::uint32_t kWarps = kReduceRowThreads / 32;
  const bool collects = tile::grid_block_is_last();
  const std::uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp > 0 && !collects) return;
  const unsigned slot = tile::mailbox_find(args.key, seen);
  void* const words = reduce_slots.words[slot];  // [output][split]
  const std::uint32_t splits = gridDim.y;
  if (warp == 0) {
    const float total = lanes_join(rule, lane < kWarps ? of_warps[lane] : rule_identity<float>(rule), kWarps);
    if (lane == 0) tile::grid_post(words, blockIdx.x * splits + blockIdx.y, total);
  }
  if (!collects) return;
#pragma unroll 1
  for (std::uint32_t i = threadIdx.x; i < args.outputs * splits; i += kReduceRowThreads) {
    float value[1];
    tile::grid_collect(words, i, 1, i + 1, value);
    found[i] = value[0];
  }
  __syncthreads();
  if (threadIdx.x == kReduceRowThreads - 1) tile::mailbox_leave(slot);
#pragma unroll 1
  for (std::uint32_t output = warp; output < args.outputs; output += kWarps) {
    float total = rule_identity<float>(rule);
#pragma unroll 1
    for (std::uint32_t i = lane; i < splits; i += 32) total = rule_join(rule, total, found[output * splits + i]);
    total = lanes_join(rule, total, 32);
    if (lane == 0) args.template store<kKind>(rule, output, 0, 1, total);
  }
}

// Blocks: x over outputs, y over splits.
template <class T, int N, bool kIndexed, ReduceKind kKind>
__global__ void __launch_bounds__(kReduceRowThreads,
                                  kKind == ReduceKind::any ? kReduceRowBlocks : kReduceSimpleRowBlocks)
    reduce_rows(const __grid_constant__ ReduceArgs<T> args) {
  using C = ReduceCompute<T>;
  using V = std::conditional_t<kIndexed, Found<C>, C>;
  const ReduceRule rule = known_rule<kKind>(args.rule);
  constexpr int U = kReduceLoads;
  constexpr int kWarps = kReduceRowThreads / 32;
  constexpr bool posts = kPostsRows<kKind, V>;
  __shared__ V scratch[kWarps];
  __shared__ float found[posts ? kReducePosts : 1];
  const std::uint32_t output = blockIdx.x;
  if constexpr (posts) {
    if (args.key != 0 && blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) tile::mailbox_take(args.key);
  }
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
  tile::MailboxKey seen = 0;
  if constexpr (posts) {
    if (args.key != 0) seen = tile::mailbox_glance(args.key);
  }
  V total = lanes_join(rule, totals[0], 32);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = total;
  __syncthreads();
  if constexpr (posts) {
    if (args.key != 0) return reduce_posted<T, kKind>(args, rule, scratch, seen, found);
  }
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
template <class T, int N, bool kIndexed>
__global__ void __launch_bounds__(kReduceThreads, kReduceBlocks)
    reduce_groups(const __grid_constant__ ReduceArgs<T> args) {
  using C = ReduceCompute<T>;
  using V = std::conditional_t<kIndexed, Found<C>, C>;
  constexpr ReduceKind kKind = ReduceKind::any;
  const ReduceRule rule = args.rule;
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
      const auto step = tile::line_steps<T, N, 1>(reduced, element_at(args.in_type, args.a, row[u]),
                                                  base + (u & in_row) * lanes, 0, end);
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
  if constexpr (N > 1) {
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

// Short rows that lie one behind the other: a block takes `depth` whole rows of `lanes` packs each as one stretch, so
// that no lane stands idle and nothing is worked out for a row; what each pack came to meets in shared memory, where a
// thread joins a row.
template <class T, int N, ReduceKind kKind>
__global__ void __launch_bounds__(kReduceThreads, kReduceRunBlocks)
    reduce_runs(const __grid_constant__ ReduceArgs<T> args) {
  using C = ReduceCompute<T>;
  constexpr int U = kReduceLoads;
  __shared__ C found[kReduceRunPacks + kReduceRunPacks / 2];
  const ReduceRule rule = known_rule<kKind>(args.rule);
  const std::uint32_t packs = args.lanes, pitch = packs | 1u;  // rows begin in different banks
  const std::uint32_t first = blockIdx.x * args.depth;
  const std::uint32_t rows = min(args.depth, args.outputs - first);
  const T* const a = args.a + static_cast<std::int64_t>(first) * packs * N;
  tile::LineSteps<U> steps;
  Loaded<T, N> loaded[U];
#pragma unroll
  for (int u = 0; u < U; ++u) {
    const std::uint32_t at = threadIdx.x + u * kReduceThreads;
    steps.place[u] = 0;
    if (at >= rows * packs) continue;
    steps.inside |= 1u << u;
    loaded[u].load(args.in_type, a, at * N);
  }
  C totals[U];
#pragma unroll
  for (C& total : totals) total = rule_identity<C>(rule);
  fold_packs(rule, loaded, steps, 0, totals);
#pragma unroll
  for (int u = 0; u < U; ++u) {
    std::uint32_t at = 0;
    const std::uint32_t row = args.reduced.steps.divmod(threadIdx.x + u * kReduceThreads, &at);
    if ((steps.inside >> u & 1u) != 0) found[row * pitch + at] = totals[u];
  }
  __syncthreads();
#pragma unroll 1
  for (std::uint32_t row = threadIdx.x; row < rows; row += kReduceThreads) {
    C total = found[row * pitch];
#pragma unroll 4
    for (std::uint32_t i = 1; i < packs; ++i) total = rule_join(rule, total, found[row * pitch + i]);
    args.template store<kKind>(rule, first + row, 0, 1, total);
  }
}

// The grid of reduce_rows; a block has `lanes` packs of outputs. Up to 8 splits are a cluster.
template <class T, int N, bool kIndexed, ReduceKind kKind>
__global__ void __launch_bounds__(kReduceThreads, kKind == ReduceKind::any || kKind == ReduceKind::plain_sum
                                                      ? kReduceBlocks
                                                      : kReduceSimpleBlocks)
    reduce_columns(const __grid_constant__ ReduceArgs<T> args) {
  using C = ReduceCompute<T>;
  using V = std::conditional_t<kIndexed, Found<C>, C>;
  const ReduceRule rule = known_rule<kKind>(args.rule);
  constexpr int U = kKind == ReduceKind::plain_sum ? kReduceColumnLoads : kReduceLoads;
  constexpr bool kClusters = kKind != ReduceKind::any && std::is_same_v<V, float>;
  // A stretch between the elements of a pack that keeps the lanes that read them in different banks.
  constexpr int kPitch = kReduceThreads + (32 / N > 1 ? 32 / N : 1);
  __shared__ V results[N][kPitch];
  const std::uint32_t lanes = args.lanes;
  const std::uint32_t lane = threadIdx.x & (lanes - 1);
  const std::uint32_t first_pack = blockIdx.x * lanes;
  const bool exists = first_pack + lane < args.outputs;
  if (kClusters && args.clustered && !kHasClusters && blockIdx.y > 0) return;
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
  if constexpr (kKind == ReduceKind::plain_sum && std::is_same_v<V, float>) {
    if (args.stores_packs) {
      if (exists) {
        float values[N];
#pragma unroll
        for (int i = 0; i < N; ++i) values[i] = args.output.alpha * args.output.finished(rule, totals[i]);
        T* const c = static_cast<T*>(args.output.c) + args.template kept_offset<kKind>(1, first_pack + lane);
        tile::store_pack<T, N>(c, tile::narrow_pack<T>(values));
      }
      return;
    }
  }
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
    if constexpr (kClusters) {
      if (args.clustered && kHasClusters) {
        results[slot % N][slot / N] = total;  // where this thread alone has read
        continue;
      }
    }
    if (args.partials != nullptr) {
      static_cast<V*>(args.partials)[(static_cast<std::int64_t>(blockIdx.y) * args.outputs + pack) * N + slot % N] =
          total;
      continue;
    }
    args.template store<kKind>(rule, pack, slot % N, N, total);
  }
  if constexpr (kClusters) {
    if (!args.clustered || !kHasClusters) return;
    // The first block of the cluster joins what all have: the splits of its outputs.
    const auto blocks = static_cast<int>(gridDim.y);
    tile::cluster_sync(blocks);
    if (blockIdx.y == 0) {
#pragma unroll 1
      for (std::uint32_t slot = threadIdx.x; slot < lanes * N; slot += kReduceThreads) {
        if (first_pack + slot / N >= args.outputs) break;
        V* const mine = &results[slot % N][slot / N];
        V found[kReduceCluster];
#pragma unroll
        for (int i = 1; i < kReduceCluster; ++i) {
          if (i < blocks) found[i] = *tile::cluster_shared(mine, i, blocks);
        }
        V total = *mine;
#pragma unroll
        for (int i = 1; i < kReduceCluster; ++i) {
          if (i < blocks) total = rule_join(rule, total, found[i]);
        }
        args.template store<kKind>(rule, first_pack + slot / N, slot % N, N, total);
      }
    }
    tile::cluster_sync(blocks);  // no block may leave while it is read
  }
}

}  // namespace gpudnn::kernels
