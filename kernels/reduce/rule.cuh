// What happens to an element, to two results that meet, and to the total of an output.
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

// The usual rules over simple loops have instances of their own, a quarter as long: in a kernel of 25 microseconds it
// shows what it takes to fetch code and parameters at the start and at the end. Simple: lines that are not ragged, at
// most two loops over the elements and two over the outputs, an output of the input's type, offsets of 31 bits.
enum class ReduceKind { any, plain_sum, sum, largest };

template <ReduceKind kKind>
__device__ __forceinline__ ReduceRule known_rule(ReduceRule rule) {
  if constexpr (kKind == ReduceKind::plain_sum) {
    rule.family = ReduceFamily::sum;
    rule.magnitude = rule.square = rule.root = false;
  }
  if constexpr (kKind == ReduceKind::sum) rule.family = ReduceFamily::sum;
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

}  // namespace gpudnn::kernels
