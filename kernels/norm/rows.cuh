// Normalization where the run of contiguous elements belongs to one set (NCHW: a channel's pixels of one image).
//
// Stage `whole`: the blocks of a cluster share a set. In the first pass each thread reads its units, keeps as many as
// fit in shared memory and gathers their moments (backward: the sums); the block and then the cluster join them; the
// second pass makes the outputs from shared memory, and from global memory what did not fit, the last units read first
// as the L2 still has them. So with everything kept, forward reads x and writes y, backward reads x and dy and writes
// dx: 2 and 3 tensors, where two passes over memory take 3 and 5.
//
// Stages `partial` and `apply` are the two passes as launches of their own, for few sets of many elements; between them
// launch_norm_finish joins the partials. `apply` alone is inference.
//
// A pass reads its inputs before it writes in their place, and a thread writes only what it alone has read: y may be x,
// dx may be dy or x, dz may be dy. Unit u of the set belongs to thread u % (blocks * threads), in round
// u / (blocks * threads), so that all blocks move through memory side by side.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/norm/unit.cuh"
#include "kernels/tile/dynamic_shared.cuh"

namespace gpudnn::kernels {

template <class C>
struct NormRowsShared {
  tile::Moments<C> moments[kNormRowsThreads / 32];
  tile::Totals<C> totals[kNormRowsThreads / 32];
  tile::Moments<C> block_moments;
  tile::Totals<C> block_totals;
};
template <class C>
inline constexpr int kNormRowsSharedBytes = (static_cast<int>(sizeof(NormRowsShared<C>)) + 15) / 16 * 16;

// The moments of the elements of several units (the first `held` exist), merged into `moments`.
template <int kCount, class T, class C>
__device__ __forceinline__ void add_moments(const Unit<T> (&units)[kCount], const int (&valid)[kCount],
                                            tile::GatheredMoments<C>* moments) {
  tile::Moments<C> batch;
#pragma unroll
  for (int u = 0; u < kCount; ++u) {
    C values[kUnit];
    widen_unit(units[u], values);
    C sum = C(0);
#pragma unroll
    for (int i = 0; i < kUnit; ++i) sum += values[i];  // zeros beyond the valid ones
    batch.mean += sum;
    batch.count += static_cast<C>(valid[u]);
  }
  if (batch.count == C(0)) return;
  batch.mean *= tile::share_of(C(1), batch.count);
#pragma unroll
  for (int u = 0; u < kCount; ++u) {
    C values[kUnit];
    widen_unit(units[u], values);
    C squares = C(0);
#pragma unroll
    for (int i = 0; i < kUnit; ++i) {
      const C distance = i < valid[u] ? values[i] - batch.mean : C(0);
      squares += distance * distance;
    }
    batch.squares += squares;
  }
  moments->merge(batch);
}

template <class T, bool kBackward, bool kElements>
__global__ void __launch_bounds__(kNormRowsThreads, kElements ? 1 : 2)
    norm_rows(const __grid_constant__ NormArgs<T> args, const __grid_constant__ NormWalk walk) {
  using C = tile::Compute<T>;
  constexpr int kFlight = kUnitsInFlight<T, 64, kBackward, kElements>;
  auto& shared = *reinterpret_cast<NormRowsShared<C>*>(tile::dynamic_shared());
  UnitCache<T> cache{reinterpret_cast<uint4*>(tile::dynamic_shared() + kNormRowsSharedBytes<C>), kBackward ? 2 : 1};
  const bool whole = args.stage == NormStage::whole;

  // Who shares the set. `apply` goes through the blocks in the opposite order, for the L2's sake.
  int part, parts;
  std::uint32_t set;
  if (whole) {
    const tile::ClusterPlace place = tile::cluster_place(args.parts);
    if (place.rank >= place.blocks) return;
    part = place.rank;
    parts = place.blocks;
    set = blockIdx.x / static_cast<unsigned>(args.parts);
  } else {
    const unsigned block = args.stage == NormStage::apply ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
    parts = args.parts;
    part = static_cast<int>(block % static_cast<unsigned>(parts));
    set = block / static_cast<unsigned>(parts);
  }
  const std::uint32_t total = walk.line_units();
  const std::uint32_t stride = static_cast<std::uint32_t>(parts) * blockDim.x;
  const std::uint32_t start = static_cast<std::uint32_t>(part) * blockDim.x + threadIdx.x;
  const int rounds = static_cast<int>((total + stride - 1) / stride);
  const int cached = whole ? args.cached : 0;

  const auto of_set = [&](auto* base, int slot) {
    if (base == nullptr) return base;
    return moved<kElements>(base, offset_of<!kElements>(walk.cross, slot, set), args.bytes);
  };
  const T* const x = of_set(args.x, kSlotX);
  const T* const side = of_set(args.side, kSlotSide);
  T* const out = of_set(args.out, kSlotOut);
  const std::int64_t at_params = offset_of<!kElements>(walk.cross, kSlotParams, set);
  const std::int64_t at_stats = offset_of<!kElements>(walk.cross, kSlotStats, set);
  const std::int64_t sets = walk.sets();

  const auto load = [&](const T* base, int slot, const NormUnit& unit) {
    const T* const line = moved<kElements>(base, line_start<!kElements>(walk, slot, unit), args.bytes);
    return load_unit<kElements>(args, line, walk, slot, unit);
  };
  const auto store = [&](T* base, int slot, const NormUnit& unit, const Unit<T>& values) {
    T* const line = moved<kElements>(base, line_start<!kElements>(walk, slot, unit), args.bytes);
    store_unit<kElements>(args, line, walk, slot, unit, values);
  };
  const auto unit_of = [&](int round) { return static_cast<std::uint32_t>(round) * stride + start; };
  const auto masked_gradient = [&](const NormUnit& unit) {
    Unit<T> g = load(side, kSlotSide, unit);
    if (args.mask != nullptr) apply_mask(args.mask[mask_byte(walk, unit, set)], &g);
    return g;
  };

  // First pass: the batch's moments.
  C mean, inverse;
  if (args.given_mean != nullptr) {
    mean = args.given_mean[at_stats];
    const C deviation = args.given_deviation[at_stats];
    inverse = kBackward ? deviation : given_inverse(args, deviation);
  } else if (args.stage == NormStage::apply || (kBackward && args.stage == NormStage::partial)) {
    mean = args.results[set];
    inverse = args.results[sets + set];
  } else {
    tile::GatheredMoments<C> gathered;
    for (int first = 0; first < rounds; first += kFlight) {
      Unit<T> units[kFlight];
      int valid[kFlight];
#pragma unroll
      for (int u = 0; u < kFlight; ++u) {
        valid[u] = 0;
        units[u].clear();
        if (unit_of(first + u) < total) {
          const NormUnit unit(walk, unit_of(first + u));
          valid[u] = unit.valid;
          units[u] = load(x, kSlotX, unit);
        }
      }
#pragma unroll
      for (int u = 0; u < kFlight; ++u) {
        if (first + u < cached) cache.put(first + u, 0, units[u]);
      }
      add_moments(units, valid, &gathered);
    }
    tile::Moments<C> moments = gathered.sum;
    tile::rows_reduce(moments, shared.moments, &shared.block_moments);
    if (args.stage == NormStage::partial) {
      if (threadIdx.x == 0) {
        C* const mine = args.partials + static_cast<std::int64_t>(part) * 3 * sets + set;
        mine[0] = shared.block_moments.count;
        mine[sets] = shared.block_moments.mean;
        mine[2 * sets] = shared.block_moments.squares;
      }
      return;
    }
    moments = tile::rows_over_cluster(&shared.block_moments, parts);
    mean = moments.mean;
    const C variance = moments.squares / args.count;
    inverse = inverse_deviation(variance, args.epsilon);
    if (!kBackward && part == 0 && threadIdx.x == 0) keep_statistics(args, at_stats, mean, variance, inverse);
  }

  if constexpr (!kBackward) {
    ForwardFactors<C> factors;
    factors.set(mean, inverse, args.scale[at_params], args.bias[at_params]);
    for (int first = (rounds - 1) / kFlight * kFlight; first >= 0; first -= kFlight) {
      Unit<T> units[kFlight];
#pragma unroll
      for (int u = 0; u < kFlight; ++u) {
        if (unit_of(first + u) < total) {
          units[u] = first + u < cached ? cache.get(first + u, 0) : load(x, kSlotX, NormUnit(walk, unit_of(first + u)));
        }
      }
#pragma unroll
      for (int u = 0; u < kFlight; ++u) {
        if (unit_of(first + u) >= total) break;
        const NormUnit unit(walk, unit_of(first + u));
        C values[kUnit], addend[kUnit], old[kUnit];
        widen_unit(units[u], values);
        if (args.side != nullptr) widen_unit(load(side, kSlotSide, unit), addend);
        if (args.beta != C(0)) widen_unit(load(out, kSlotOut, unit), old);
        unsigned bits = 0;
#pragma unroll
        for (int i = 0; i < kUnit; ++i) {
          C value = factors(values[i]);
          if (args.side != nullptr) value += addend[i];
          bool passes = false;
          value = activate_normalized(args, value, &passes);
          if (passes && i < unit.valid) bits |= 1u << i;
          values[i] = args.alpha * value;
          if (args.beta != C(0)) values[i] += args.beta * old[i];
        }
        if (args.mask != nullptr) args.mask[mask_byte(walk, unit, set)] = static_cast<unsigned char>(bits);
        store(out, kSlotOut, unit, narrow_unit<T>(values));
      }
    }
  } else {
    // The sums of g and of g * (x - mean).
    const bool x_is_cached = args.given_mean == nullptr;
    tile::Totals<C> totals;
    if (args.stage == NormStage::apply) {
      totals.first = args.results[2 * sets + set];
      totals.second = args.results[3 * sets + set];
    } else {
      for (int first = 0; first < rounds; first += kFlight) {
        Unit<T> units[kFlight], gradients[kFlight];
#pragma unroll
        for (int u = 0; u < kFlight; ++u) {
          units[u].clear();
          gradients[u].clear();
          if (unit_of(first + u) < total) {
            const NormUnit unit(walk, unit_of(first + u));
            units[u] = x_is_cached && first + u < cached ? cache.get(first + u, 0) : load(x, kSlotX, unit);
            gradients[u] = masked_gradient(unit);
          }
        }
#pragma unroll
        for (int u = 0; u < kFlight; ++u) {
          if (first + u < cached) {
            if (!x_is_cached) cache.put(first + u, 0, units[u]);
            cache.put(first + u, 1, gradients[u]);
          }
          C values[kUnit], g[kUnit];
          widen_unit(units[u], values);
          widen_unit(gradients[u], g);
          tile::Totals<C> of_unit;
#pragma unroll
          for (int i = 0; i < kUnit; ++i) {  // g is 0 beyond the valid ones
            of_unit.first += g[i];
            of_unit.second += g[i] * (values[i] - mean);
          }
          totals.merge(of_unit);
        }
      }
      tile::rows_reduce(totals, shared.totals, &shared.block_totals);
      if (args.stage == NormStage::partial) {
        if (threadIdx.x == 0) {
          C* const mine = args.partials + static_cast<std::int64_t>(part) * 2 * sets + set;
          mine[0] = shared.block_totals.first;
          mine[sets] = shared.block_totals.second;
        }
        return;
      }
      totals = tile::rows_over_cluster(&shared.block_totals, parts);
      if (part == 0 && threadIdx.x == 0) keep_gradients(args, at_params, totals.first, totals.second, inverse);
    }
    BackwardFactors<C> factors;
    factors.set(mean, inverse, args.scale[at_params], totals.first, totals.second, args.inverse_count);
    T* const dz = of_set(args.dz, kSlotDz);
    for (int first = (rounds - 1) / kFlight * kFlight; first >= 0; first -= kFlight) {
      Unit<T> units[kFlight], gradients[kFlight];
#pragma unroll
      for (int u = 0; u < kFlight; ++u) {
        if (unit_of(first + u) < total) {
          const NormUnit unit(walk, unit_of(first + u));
          const bool kept = first + u < cached;
          units[u] = kept ? cache.get(first + u, 0) : load(x, kSlotX, unit);
          gradients[u] = kept ? cache.get(first + u, 1) : masked_gradient(unit);
        }
      }
#pragma unroll
      for (int u = 0; u < kFlight; ++u) {
        if (unit_of(first + u) >= total) break;
        const NormUnit unit(walk, unit_of(first + u));
        C values[kUnit], g[kUnit], old[kUnit];
        widen_unit(units[u], values);
        widen_unit(gradients[u], g);
        if (args.beta != C(0)) widen_unit(load(out, kSlotOut, unit), old);
#pragma unroll
        for (int i = 0; i < kUnit; ++i) {
          values[i] = args.alpha * factors(values[i], g[i]);
          if (args.beta != C(0)) values[i] += args.beta * old[i];
        }
        if (dz != nullptr) store(dz, kSlotDz, unit, gradients[u]);
        store(out, kSlotOut, unit, narrow_unit<T>(values));
      }
    }
  }
  if (whole && parts > 1) tile::cluster_sync(parts);  // no block may leave while others read its part
}

}  // namespace gpudnn::kernels
