// Normalization where the run of contiguous elements lies across sets (NHWC: the channels of a pixel; per activation:
// the elements of an image).
//
// A block takes a tile of `lanes` units of 8 neighbouring sets and a part of the rows (pixels, images): thread
// (lane, row) reads unit `lane` of every (parts * rows)-th row, so that a warp reads runs of lanes * 16 bytes or more.
// A thread gathers its 8 sets over its rows; lanes of a warp, warps of the block and blocks of the cluster join what
// they have in a fixed order.
//
// Stage `whole`: the blocks that share a tile are a cluster, and the work is one launch; what fits stays in shared
// memory between the passes (see rows.cuh). It suits small tensors and many sets. A large NHWC tensor of few channels
// would leave most multiprocessors idle, so it goes in three launches: `partial` over all blocks that the device holds,
// the joining of the partials, and `apply`, which goes through memory backwards as the L2 still has the end. Then
// forward moves 3 tensors less what the L2 kept, backward 5.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/norm/unit.cuh"
#include "kernels/tile/dynamic_shared.cuh"

namespace gpudnn::kernels {

constexpr int kNormMostLanes = 32;
constexpr int kNormMostColumns = kNormMostLanes * kUnit;

template <class C>
struct NormColumnsShared {
  union {
    tile::Moments<C> moments[kNormColumnsThreads / 32 * kNormMostColumns];
    tile::Totals<C> totals[kNormColumnsThreads / 32 * kNormMostColumns];
  } scratch;
  tile::Moments<C> block_moments[kNormMostColumns];
  tile::Totals<C> block_totals[kNormMostColumns];
  C mean[kNormMostColumns];  // of the whole set, and 1 / sqrt(variance + epsilon)
  C inverse[kNormMostColumns];
  tile::Totals<C> totals[kNormMostColumns];
};
template <class C>
inline constexpr int kNormColumnsSharedBytes = (static_cast<int>(sizeof(NormColumnsShared<C>)) + 15) / 16 * 16;

// The moments of 8 sets over several rows: all sets have the same count.
template <class C>
struct ColumnMoments {
  C count = C(0);
  C mean[kUnit] = {};
  C squares[kUnit] = {};

  template <int kCount, class T>
  __device__ __forceinline__ void add(const Unit<T> (&units)[kCount], int held) {
    if (held == 0) return;
    const C batch = static_cast<C>(held);
    const C all = count + batch;
    const C share = tile::share_of(batch, all);
    const C one_of_batch = C(1) / batch;
    const C cross = count * share;
    C sums[kUnit] = {};
#pragma unroll
    for (int u = 0; u < kCount; ++u) {
#pragma unroll
      for (int i = 0; i < kUnit; ++i) sums[i] += tile::widen<C>(units[u].get(i));  // zeros beyond `held`
    }
#pragma unroll
    for (int i = 0; i < kUnit; ++i) {
      const C batch_mean = sums[i] * one_of_batch;
      C of_batch = C(0);
#pragma unroll
      for (int u = 0; u < kCount; ++u) {
        const C distance = u < held ? tile::widen<C>(units[u].get(i)) - batch_mean : C(0);
        of_batch += distance * distance;
      }
      const C distance = batch_mean - mean[i];
      squares[i] += count > C(0) ? of_batch + distance * distance * cross : of_batch;
      mean[i] = count > C(0) ? mean[i] + distance * share : batch_mean;
    }
    count = all;
  }
};

template <class T, bool kBackward, bool kElements>
__global__ void __launch_bounds__(kNormColumnsThreads, kElements ? 1 : 2)
    norm_columns(const __grid_constant__ NormArgs<T> args, const __grid_constant__ NormWalk walk) {
  using C = tile::Compute<T>;
  constexpr int kFlight = kUnitsInFlight < T, sizeof(T) == 2 ? 128 : 64, kBackward, kElements > ;
  auto& shared = *reinterpret_cast<NormColumnsShared<C>*>(tile::dynamic_shared());
  UnitCache<T> cache{reinterpret_cast<uint4*>(tile::dynamic_shared() + kNormColumnsSharedBytes<C>), kBackward ? 2 : 1};
  const bool whole = args.stage == NormStage::whole;

  int part, parts;
  std::uint32_t tile_number;
  if (whole) {
    const tile::ClusterPlace place = tile::cluster_place(args.parts);
    if (place.rank >= place.blocks) return;
    part = place.rank;
    parts = place.blocks;
    tile_number = blockIdx.x / static_cast<unsigned>(args.parts);
  } else {
    // Neighbouring blocks work on neighbouring tiles of the same rows.
    const unsigned block = args.stage == NormStage::apply ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
    parts = args.parts;
    const unsigned tiles = gridDim.x / static_cast<unsigned>(parts);
    part = static_cast<int>(block / tiles);
    tile_number = block % tiles;
  }
  const int lane = static_cast<int>(threadIdx.x) % args.lanes;
  const int row = static_cast<int>(threadIdx.x) / args.lanes;
  const int rows = static_cast<int>(blockDim.x) / args.lanes;
  const std::uint32_t unit_number = tile_number * static_cast<unsigned>(args.lanes) + static_cast<unsigned>(lane);
  const bool inside = unit_number < walk.line_units();
  const NormUnit unit(walk, inside ? unit_number : 0);
  const std::uint32_t count = inside ? walk.cross.count : 0;
  const std::uint32_t stride = static_cast<std::uint32_t>(parts) * static_cast<std::uint32_t>(rows);
  const std::uint32_t start = static_cast<std::uint32_t>(part * rows + row);
  const int rounds = static_cast<int>((walk.cross.count + stride - 1) / stride);
  const int cached = whole ? args.cached : 0;
  const int channels = args.lanes * kUnit;
  const std::int64_t sets = walk.sets();

  // The thread's line in each tensor.
  const auto of_line = [&](auto* base, int slot) {
    if (base == nullptr) return base;
    return moved<kElements>(base, line_start<!kElements>(walk, slot, unit), args.bytes);
  };
  const T* const x = of_line(args.x, kSlotX);
  const T* const side = of_line(args.side, kSlotSide);
  T* const out = of_line(args.out, kSlotOut);

  const auto row_of = [&](int round) { return static_cast<std::uint32_t>(round) * stride + start; };
  const auto load = [&](const T* base, NormSlot slot, std::uint32_t at) {
    const T* const line = moved<kElements>(base, offset_of<!kElements>(walk.cross, slot, at), args.bytes);
    return load_unit<kElements>(args, line, walk, slot, unit);
  };
  const auto store = [&](T* base, NormSlot slot, std::uint32_t at, const Unit<T>& values) {
    T* const line = moved<kElements>(base, offset_of<!kElements>(walk.cross, slot, at), args.bytes);
    store_unit<kElements>(args, line, walk, slot, unit, values);
  };
  const auto masked_gradient = [&](std::uint32_t at) {
    Unit<T> g = load(side, kSlotSide, at);
    if (args.mask != nullptr) apply_mask(args.mask[mask_byte(walk, unit, at)], &g);
    return g;
  };
  // Calls body(channel of the tile, set) for the tile's sets, a thread each.
  const auto for_each_set = [&](const auto& body) {
    for (int channel = static_cast<int>(threadIdx.x); channel < channels; channel += static_cast<int>(blockDim.x)) {
      const std::uint32_t its_unit =
          tile_number * static_cast<unsigned>(args.lanes) + static_cast<unsigned>(channel / kUnit);
      if (its_unit >= walk.line_units()) continue;
      const NormUnit place(walk, its_unit);
      if (channel % kUnit < place.valid) body(channel, column_set(walk, place, channel % kUnit));
    }
  };

  // First pass: the batch's moments, or where they come from.
  const bool given = args.given_mean != nullptr;
  const bool from_results = !given && (args.stage == NormStage::apply || (kBackward && !whole));
  if (given || from_results) {
    for_each_set([&](int channel, std::int64_t set) {
      if (given) {
        const std::int64_t at = set_offset(walk, kSlotStats, set);
        const C deviation = args.given_deviation[at];
        shared.mean[channel] = args.given_mean[at];
        shared.inverse[channel] = kBackward ? deviation : given_inverse(args, deviation);
      } else {
        shared.mean[channel] = args.results[set];
        shared.inverse[channel] = args.results[sets + set];
      }
    });
  } else {
    ColumnMoments<C> gathered;
    for (int first = 0; first < rounds; first += kFlight) {
      Unit<T> units[kFlight];
      int held = 0;
#pragma unroll
      for (int u = 0; u < kFlight; ++u) {
        units[u].clear();
        if (row_of(first + u) < count) {
          units[u] = load(x, kSlotX, row_of(first + u));
          held = u + 1;
        }
      }
#pragma unroll
      for (int u = 0; u < kFlight; ++u) {
        if (first + u < cached) cache.put(first + u, 0, units[u]);
      }
      gathered.add(units, held);
    }
    tile::Moments<C> moments[kUnit];
#pragma unroll
    for (int i = 0; i < kUnit; ++i) moments[i] = {gathered.count, gathered.mean[i], gathered.squares[i]};
    tile::columns_reduce(moments, args.lanes, shared.scratch.moments, shared.block_moments);
    if (args.stage == NormStage::partial) {
      for_each_set([&](int channel, std::int64_t set) {
        const tile::Moments<C> mine = shared.block_moments[channel];
        C* const target = args.partials + static_cast<std::int64_t>(part) * 3 * sets + set;
        target[0] = mine.count;
        target[sets] = mine.mean;
        target[2 * sets] = mine.squares;
      });
      return;
    }
    if (parts > 1) tile::cluster_sync(parts);
    for_each_set([&](int channel, std::int64_t set) {
      const tile::Moments<C> all = tile::column_over_cluster(shared.block_moments, channel, parts);
      const C variance = all.squares / args.count;
      const C inverse = inverse_deviation(variance, args.epsilon);
      shared.mean[channel] = all.mean;
      shared.inverse[channel] = inverse;
      if (!kBackward && part == 0) {
        keep_statistics(args, set_offset(walk, kSlotStats, set), all.mean, variance, inverse);
      }
    });
  }
  __syncthreads();

  if constexpr (!kBackward) {
    ForwardFactors<C> factors[kUnit];
#pragma unroll
    for (int i = 0; i < kUnit; ++i) {
      if (inside && i < unit.valid) {
        const std::int64_t at =
            line_start<!kElements>(walk, kSlotParams, unit) + element_in_line(walk, kSlotParams, unit, i);
        const int channel = lane * kUnit + i;
        factors[i].set(shared.mean[channel], shared.inverse[channel], args.scale[at], args.bias[at]);
      } else {
        factors[i] = {};
      }
    }
    for (int first = (rounds - 1) / kFlight * kFlight; first >= 0; first -= kFlight) {
      Unit<T> units[kFlight];
#pragma unroll
      for (int u = 0; u < kFlight; ++u) {
        if (row_of(first + u) < count) {
          units[u] = first + u < cached ? cache.get(first + u, 0) : load(x, kSlotX, row_of(first + u));
        }
      }
#pragma unroll
      for (int u = 0; u < kFlight; ++u) {
        const std::uint32_t at = row_of(first + u);
        if (at >= count) break;
        C values[kUnit], addend[kUnit], old[kUnit];
        widen_unit(units[u], values);
        if (args.side != nullptr) widen_unit(load(side, kSlotSide, at), addend);
        if (args.beta != C(0)) widen_unit(load(out, kSlotOut, at), old);
        unsigned bits = 0;
#pragma unroll
        for (int i = 0; i < kUnit; ++i) {
          C value = factors[i](values[i]);
          if (args.side != nullptr) value += addend[i];
          bool passes = false;
          value = activate_normalized(args, value, &passes);
          if (passes && i < unit.valid) bits |= 1u << i;
          values[i] = args.alpha * value;
          if (args.beta != C(0)) values[i] += args.beta * old[i];
        }
        if (args.mask != nullptr) args.mask[mask_byte(walk, unit, at)] = static_cast<unsigned char>(bits);
        store(out, kSlotOut, at, narrow_unit<T>(values));
      }
    }
  } else {
    const bool x_is_cached = !given;
    if (args.stage == NormStage::apply) {
      for_each_set([&](int channel, std::int64_t set) {
        shared.totals[channel] = {args.results[2 * sets + set], args.results[3 * sets + set]};
      });
    } else {
      C mean[kUnit];
      tile::Totals<C> totals[kUnit];
#pragma unroll
      for (int i = 0; i < kUnit; ++i) mean[i] = inside && i < unit.valid ? shared.mean[lane * kUnit + i] : C(0);
      for (int first = 0; first < rounds; first += kFlight) {
        Unit<T> units[kFlight], gradients[kFlight];
#pragma unroll
        for (int u = 0; u < kFlight; ++u) {
          units[u].clear();
          gradients[u].clear();
          if (row_of(first + u) < count) {
            units[u] = x_is_cached && first + u < cached ? cache.get(first + u, 0) : load(x, kSlotX, row_of(first + u));
            gradients[u] = masked_gradient(row_of(first + u));
          }
        }
#pragma unroll
        for (int u = 0; u < kFlight; ++u) {
          if (first + u < cached) {
            if (!x_is_cached) cache.put(first + u, 0, units[u]);
            cache.put(first + u, 1, gradients[u]);
          }
#pragma unroll
          for (int i = 0; i < kUnit; ++i) {
            const C g = tile::widen<C>(gradients[u].get(i));
            totals[i].first += g;
            totals[i].second += g * (tile::widen<C>(units[u].get(i)) - mean[i]);
          }
        }
      }
      tile::columns_reduce(totals, args.lanes, shared.scratch.totals, shared.block_totals);
      if (args.stage == NormStage::partial) {
        for_each_set([&](int channel, std::int64_t set) {
          C* const target = args.partials + static_cast<std::int64_t>(part) * 2 * sets + set;
          target[0] = shared.block_totals[channel].first;
          target[sets] = shared.block_totals[channel].second;
        });
        return;
      }
      if (parts > 1) tile::cluster_sync(parts);
      for_each_set([&](int channel, std::int64_t set) {
        const tile::Totals<C> all = tile::column_over_cluster(shared.block_totals, channel, parts);
        shared.totals[channel] = all;
        if (part == 0) {
          keep_gradients(args, set_offset(walk, kSlotParams, set), all.first, all.second, shared.inverse[channel]);
        }
      });
    }
    __syncthreads();
    T* const dz = of_line(args.dz, kSlotDz);
    BackwardFactors<C> factors[kUnit];
#pragma unroll
    for (int i = 0; i < kUnit; ++i) {
      factors[i] = {};
      if (inside && i < unit.valid) {
        const std::int64_t at =
            line_start<!kElements>(walk, kSlotParams, unit) + element_in_line(walk, kSlotParams, unit, i);
        const int channel = lane * kUnit + i;
        const tile::Totals<C> totals = shared.totals[channel];
        factors[i].set(shared.mean[channel], shared.inverse[channel], args.scale[at], totals.first, totals.second,
                       args.inverse_count);
      }
    }
    for (int first = (rounds - 1) / kFlight * kFlight; first >= 0; first -= kFlight) {
      Unit<T> units[kFlight], gradients[kFlight];
#pragma unroll
      for (int u = 0; u < kFlight; ++u) {
        if (row_of(first + u) < count) {
          const bool kept = first + u < cached;
          units[u] = kept ? cache.get(first + u, 0) : load(x, kSlotX, row_of(first + u));
          gradients[u] = kept ? cache.get(first + u, 1) : masked_gradient(row_of(first + u));
        }
      }
#pragma unroll
      for (int u = 0; u < kFlight; ++u) {
        const std::uint32_t at = row_of(first + u);
        if (at >= count) break;
        C values[kUnit], g[kUnit], old[kUnit];
        widen_unit(units[u], values);
        widen_unit(gradients[u], g);
        if (args.beta != C(0)) widen_unit(load(out, kSlotOut, at), old);
#pragma unroll
        for (int i = 0; i < kUnit; ++i) {
          values[i] = args.alpha * factors[i](values[i], g[i]);
          if (args.beta != C(0)) values[i] += args.beta * old[i];
        }
        if (dz != nullptr) store(dz, kSlotDz, at, gradients[u]);
        store(out, kSlotOut, at, narrow_unit<T>(values));
      }
    }
  }
  if (whole && parts > 1) tile::cluster_sync(parts);  // no block may leave while others read its part
}

}  // namespace gpudnn::kernels
