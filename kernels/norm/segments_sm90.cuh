// Normalization over segments (segments.hpp): everything that a block reads goes through its shared memory in
// asynchronous copies of 16 bytes, and what fits stays there between the two passes.
//
// The units of a group (16 bytes of each line's segment after the other) are dealt out round by round: unit u belongs
// to thread u % active of part (u / active) % parts, so all parts move through memory side by side. Where a group has
// several sets, `active` is a multiple of the segment's units, so a thread stays at one place of the segment, and its
// elements 0, 1, ... each stay in one set: a thread gathers by element, without a look at where it is.
//
// A thread copies, reads and overwrites only its own units, so no barrier stands in the passes. Rounds go in chunks.
// The chunks that a thread needs, in the order in which it needs them, are
//
//   first pass 0 .. n-1 | second pass n-1 .. 0 | first pass of the next group ...
//
// and the copy of the step that is `slots` steps ahead starts when a slot falls free. The last `slots` chunks of the
// first pass are the first of the second: they are still there and are not read again; of the others the last read come
// first, which the L2 may still have. With all chunks kept, forward reads x and writes y, backward reads x and dy and
// writes dx: 2 and 3 tensors, where two passes over memory take 3 and 5. Copies go on during the second pass.
//
// Moments: a thread takes its first element of each set as the origin of its deviations d, and gathers sum(d) and
// sum(d * d); its sum of squared deviations is then sum(d * d) - sum(d)^2 / n. The origin is one of the n elements, so
// sum(d)^2 / n is at most n times the result, and as a rule no larger than it: a mean far from zero costs nothing.
// Threads, parts of the block and blocks are joined by Chan's formula in a fixed order.
//
// The parts of a group meet in a cluster's shared memory, or, where a group is larger than a cluster holds, in global
// memory behind a barrier of the whole grid, which is launched cooperatively: one launch in all cases.
//
// In place works: a thread alone reads the units that it writes, and before it writes them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/norm/segments_join.cuh"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/tile/dynamic_shared.cuh"

namespace gpudnn::kernels {

// What a block keeps of a group's sets.
template <class V>
struct SegmentsShared {
  V block[2][kSegmentSets];  // of this block's part; two, as others may still read the last group's
  V whole[kSegmentSets];
  float mean[kSegmentSets];
  float factor[kSegmentSets];  // forward the slope; backward that of the gradient
  float offset[kSegmentSets];  // forward the bias
  float slope[kSegmentSets];   // backward
};

// At most `pending` of the thread's youngest groups of copies are under way; `pending` < kSegmentSlots.
__device__ __forceinline__ void wait_for_copies(int pending) {
  static_assert(kSegmentSlots == 7);
  if (pending == 6) {
    ptx::cp_async_wait_group<6>();
  } else if (pending >= 3) {
    ptx::cp_async_wait_group<3>();
  } else if (pending >= 1) {
    ptx::cp_async_wait_group<1>();
  } else {
    ptx::cp_async_wait_group<0>();
  }
}

template <class T, bool kBackward>
__global__ void __launch_bounds__(kSegmentThreads, 1)
    norm_segments(const __grid_constant__ NormArgs<T> args, const __grid_constant__ NormSegments segments) {
  using P = NormPack<T>;
  using V = std::conditional_t<kBackward, tile::Totals<float>, tile::Moments<float>>;
  constexpr int kWidth = P::kWidth;
  constexpr int kChunk = segment_chunk(kBackward);
  constexpr int kTensors = kBackward ? 2 : 1;
  auto& shared = *reinterpret_cast<SegmentsShared<V>*>(tile::dynamic_shared());
  const int threads = static_cast<int>(blockDim.x);
  const int thread = static_cast<int>(threadIdx.x);

  const int parts = args.parts;
  const bool grid = segments.grid != 0;
  // Grid: neighbouring blocks work on neighbouring groups of the same lines. Cluster: on the same group.
  const int at_once = segments.groups_at_once;
  const int part = grid ? static_cast<int>(blockIdx.x) / at_once : static_cast<int>(blockIdx.x) % parts;
  const int its_group = grid ? static_cast<int>(blockIdx.x) % at_once : static_cast<int>(blockIdx.x) / parts;
  const int turns = (static_cast<int>(segments.groups) + at_once - 1) / at_once;

  const int chunks = segment_chunks(segments, parts, kBackward);
  const int slots = min(chunks, kSegmentSlots);
  uint4* const memory = reinterpret_cast<uint4*>(tile::dynamic_shared() + sizeof(SegmentsShared<V>)) + thread;
  V* const scratch = reinterpret_cast<V*>(tile::dynamic_shared() + sizeof(SegmentsShared<V>) +
                                          static_cast<std::size_t>(slots) * kChunk * kTensors * threads * 16);

  SegmentPlace place;
  const std::uint32_t total = segments.lines * segments.units.divisor;
  place.first = static_cast<std::uint32_t>(part * segments.active + thread);
  place.stride = static_cast<std::uint32_t>(parts) * static_cast<std::uint32_t>(segments.active);
  place.position = thread % static_cast<int>(segments.units.divisor);
  const std::uint32_t chunk_stride = place.stride * kChunk;
  const auto limit_in = [&](int group) {
    if (group >= static_cast<int>(segments.groups) || thread >= segments.active) return 0u;
    const bool inside =
        group + 1 < static_cast<int>(segments.groups) || segments.sets == 1 || place.position < segments.last_units;
    return inside ? total : 0u;
  };
  const SegmentSets<kWidth> set_of(segments, place.position);
  // In packs from the tensor's begin, given where the group begins.
  const auto offset_of_unit = [&](std::uint32_t unit, std::uint32_t base) {
    std::uint32_t within;
    const std::uint32_t line = segments.units.divmod(unit, &within);
    return line * segments.line_packs + within + base;
  };
  const auto base_of = [&](int group) { return static_cast<std::uint32_t>(group) * segments.group_packs; };
  const auto mask_at = [&](std::uint32_t unit, int group) {
    std::uint32_t within;
    const std::uint32_t line = segments.units.divmod(unit, &within);
    return args.mask + static_cast<std::int64_t>(line) * segments.mask_line +
           static_cast<std::int64_t>(group) * segments.units.divisor + within;
  };
  const auto place_of = [&](int slot, int i, int tensor) {
    return memory + ((slot * kChunk + i) * kTensors + tensor) * threads;
  };
  const auto* const packs_of_x = reinterpret_cast<const uint4*>(args.x);
  auto* const packs_of_out = reinterpret_cast<uint4*>(args.out);
  const auto* const packs_of_side = reinterpret_cast<const uint4*>(args.side);
  // Starts the copies of the chunk whose first unit is `unit`.
  const auto copy_chunk = [&](std::uint32_t unit, std::uint32_t limit, std::uint32_t base, int slot) {
    auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(place_of(slot, 0, 0)));
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      if (unit < limit) {
        const std::uint32_t at = offset_of_unit(unit, base);
        ptx::cp_async<16>(to, packs_of_x + at, 16);
        if constexpr (kBackward)
          ptx::cp_async<16>(to + static_cast<std::uint32_t>(threads) * 16, packs_of_side + at, 16);
      }
      unit += place.stride;
      to += static_cast<std::uint32_t>(threads * kTensors) * 16;
    }
  };

  for (int chunk = 0; chunk < slots; ++chunk) {
    copy_chunk(place.first + static_cast<std::uint32_t>(chunk) * chunk_stride, limit_in(its_group), base_of(its_group),
               chunk);
    ptx::cp_async_commit_group();
  }
  bool flipped = false;
  for (int turn = 0; turn < turns; ++turn) {
    const int group = its_group + turn * at_once;
    const std::uint32_t limit = limit_in(group);
    const bool exists = group < static_cast<int>(segments.groups);
    const bool last = group + 1 == static_cast<int>(segments.groups);
    const int sets = !exists ? 0
                     : last  ? segments.last_units * kWidth / static_cast<int>(segments.per_set.divisor)
                             : segments.sets;
    const std::int64_t first_set = static_cast<std::int64_t>(group) * segments.sets;
    const std::uint32_t base = base_of(group);
    int slot = flipped ? slots - 1 : 0;
    const auto next_slot = [&](bool up) {
      if (up) {
        slot = slot + 1 == slots ? 0 : slot + 1;
      } else {
        slot = slot == 0 ? slots - 1 : slot - 1;
      }
    };
    std::uint32_t unit = place.first;  // of the chunk at hand, its first
    const std::uint32_t ahead = static_cast<std::uint32_t>(slots) * chunk_stride;

    if (kBackward && turn > 0) __syncthreads();  // all have what they need of the last group

    // What the sets' parameters are, asked for before they are needed.
    float scale = 0, bias = 0, given_mean = 0, given_deviation = 0, running_mean = 0, running_variance = 0;
    const std::int64_t at_params = (first_set + thread) * segments.params_step;
    const std::int64_t at_stats = (first_set + thread) * segments.stats_step;
    if (thread < sets) {
      scale = args.scale[at_params];
      if constexpr (kBackward) {
        given_mean = args.given_mean[at_stats];
        given_deviation = args.given_deviation[at_stats];
        shared.mean[thread] = given_mean;
      } else {
        bias = args.bias[at_params];
        if (part == 0 && args.running_mean != nullptr && args.factor != 1.0f) {
          running_mean = args.old_mean[at_stats];
          running_variance = args.old_variance[at_stats];
        }
      }
    }

    // First pass.
    V gathered[kWidth];
    if constexpr (!kBackward) {
      float origin[kWidth], sums[kWidth] = {}, squares[kWidth] = {};
#pragma unroll
      for (int i = 0; i < kWidth; ++i) origin[i] = 0;
      for (int chunk = 0; chunk < chunks; ++chunk) {
        wait_for_copies(slots - 1);
        uint4 bits[kChunk];
#pragma unroll
        for (int i = 0; i < kChunk; ++i) bits[i] = *place_of(slot, i, 0);
        if (chunk == 0) P::widen(bits[0], origin);
#pragma unroll
        for (int i = 0; i < kChunk; ++i) {
          if (unit + i * place.stride < limit) {
            float values[kWidth];
            P::widen(bits[i], values);
#pragma unroll
            for (int e = 0; e < kWidth; ++e) {
              const float distance = values[e] - origin[e];
              sums[e] += distance;
              squares[e] += distance * distance;
            }
          }
        }
        if (chunk + slots < chunks) copy_chunk(unit + ahead, limit, base, slot);
        ptx::cp_async_commit_group();
        unit += chunk_stride;
        next_slot(!flipped);
      }
      const std::uint32_t held = limit > place.first ? (limit - place.first + place.stride - 1) / place.stride : 0;
      const auto count = static_cast<float>(held);
      const float share = held > 0 ? 1.0f / count : 0.0f;
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        gathered[e] = {};
        if (held > 0) {
          const float drift = sums[e] * share;
          gathered[e].count = count;
          gathered[e].mean = origin[e] + drift;
          const float around = squares[e] - drift * sums[e];
          // Beyond the range of float both may be infinite, and their difference no number.
          gathered[e].squares = isinf(squares[e]) ? squares[e] : around < 0.0f ? 0.0f : around;
        }
      }
    } else {
      __syncthreads();
      float mean[kWidth];
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        mean[e] = shared.mean[set_of(e)];
        gathered[e] = {};
      }
      for (int chunk = 0; chunk < chunks; ++chunk) {
        unsigned bits_of_mask[kChunk];
        if (args.mask != nullptr) {
#pragma unroll
          for (int i = 0; i < kChunk; ++i) {
            const std::uint32_t its_unit = unit + i * place.stride;
            bits_of_mask[i] = its_unit < limit ? *mask_at(its_unit, group) : 0u;
          }
        }
        wait_for_copies(slots - 1);
        uint4 x[kChunk], g[kChunk];
#pragma unroll
        for (int i = 0; i < kChunk; ++i) {
          x[i] = *place_of(slot, i, 0);
          g[i] = *place_of(slot, i, 1);
          if (args.mask != nullptr) {
            P::mask(bits_of_mask[i], &g[i]);
            *place_of(slot, i, 1) = g[i];
          }
        }
#pragma unroll
        for (int i = 0; i < kChunk; ++i) {
          if (unit + i * place.stride < limit) {
            float values[kWidth], gradients[kWidth];
            P::widen(x[i], values);
            P::widen(g[i], gradients);
#pragma unroll
            for (int e = 0; e < kWidth; ++e) {
              gathered[e].first += gradients[e];
              gathered[e].second += gradients[e] * (values[e] - mean[e]);
            }
          }
        }
        if (chunk + slots < chunks) copy_chunk(unit + ahead, limit, base, slot);
        ptx::cp_async_commit_group();
        unit += chunk_stride;
        next_slot(!flipped);
      }
    }

    // The sets as a whole.
    V* const block = shared.block[turn % 2];
    join_block(segments, place, gathered, scratch, block);
    if (grid) {
      float2* const partials =
          exists ? reinterpret_cast<float2*>(args.partials) + static_cast<std::int64_t>(group) * parts * segments.sets
                 : nullptr;
      const int rounds = static_cast<int>((total + place.stride - 1) / place.stride);
      join_grid<kWidth>(segments, part, parts, rounds, partials, scratch, block, shared.whole);
    } else if (parts > 1) {
      tile::cluster_sync(parts);
    }
    if (thread < sets) {
      const V all = grid ? shared.whole[thread] : tile::column_over_cluster(block, thread, parts);
      if constexpr (!kBackward) {
        const float variance = all.squares / args.count;
        const float inverse = inverse_deviation(variance, args.epsilon);
        shared.mean[thread] = all.mean;
        shared.factor[thread] = scale * inverse;
        shared.offset[thread] = bias;
        if (part == 0) {
          const Statistics<float> statistics{all.mean, variance, inverse};
          keep_statistics(args, at_stats, statistics, running_mean, running_variance);
        }
      } else {
        BackwardFactors<float> factors;
        factors.set(given_mean, given_deviation, scale, all.first, all.second, args.inverse_count);
        shared.factor[thread] = args.alpha * factors.factor;
        shared.offset[thread] = factors.offset;
        shared.slope[thread] = factors.slope;
        if (part == 0) {
          keep_gradients(args, at_params, all.first, all.second, given_deviation);
        }
      }
    }
    __syncthreads();

    // Second pass.
    float mean[kWidth], factor[kWidth], offset[kWidth], slope[kWidth];
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      const int set = set_of(e);
      mean[e] = shared.mean[set];
      factor[e] = shared.factor[set];
      offset[e] = shared.offset[set];
      if constexpr (kBackward) slope[e] = shared.slope[set];
    }
    const bool plain = kBackward ? args.beta == 0.0f && args.dz == nullptr && args.mask == nullptr
                                 : args.beta == 0.0f && args.alpha == 1.0f && args.mask == nullptr;
    const auto normalize = [&](const uint4& x, const uint4& g, float(&values)[kWidth]) {
      P::widen(x, values);
      if constexpr (kBackward) {
        float gradients[kWidth];
        P::widen(g, gradients);
#pragma unroll
        for (int e = 0; e < kWidth; ++e) {
          values[e] = factor[e] * (gradients[e] - offset[e] - (values[e] - mean[e]) * slope[e]);
        }
      } else {
#pragma unroll
        for (int e = 0; e < kWidth; ++e) values[e] = (values[e] - mean[e]) * factor[e] + offset[e];
      }
    };
    const std::uint32_t next_limit = limit_in(group + at_once);
    const std::uint32_t next_base = base_of(group + at_once);
    for (int chunk = chunks - 1; chunk >= 0; --chunk) {
      wait_for_copies(slots - 1);
      unit -= chunk_stride;
      next_slot(flipped);
      if (plain) {
        uint4 x[kChunk], g[kChunk];  // forward: addends
#pragma unroll
        for (int i = 0; i < kChunk; ++i) {
          const std::uint32_t its_unit = unit + i * place.stride;
          if constexpr (kBackward) {
            g[i] = *place_of(slot, i, 1);
          } else if (args.side != nullptr && its_unit < limit) {
            g[i] = packs_of_side[offset_of_unit(its_unit, base)];
          }
          x[i] = *place_of(slot, i, 0);
        }
#pragma unroll
        for (int i = 0; i < kChunk; ++i) {
          const std::uint32_t its_unit = unit + i * place.stride;
          if (its_unit >= limit) break;
          float values[kWidth];
          normalize(x[i], g[i], values);
          if constexpr (!kBackward) {
            if (args.side != nullptr) {
              float addend[kWidth];
              P::widen(g[i], addend);
#pragma unroll
              for (int e = 0; e < kWidth; ++e) values[e] += addend[e];
            }
            activate_all(args, values);
          }
          ptx::st_global(packs_of_out + offset_of_unit(its_unit, base), P::narrow(values));
        }
      } else {
#pragma unroll 1
        for (int i = 0; i < kChunk; ++i) {
          const std::uint32_t its_unit = unit + i * place.stride;
          if (its_unit >= limit) break;
          uint4 g = {};
          if constexpr (kBackward) {
            g = *place_of(slot, i, 1);
            if (args.mask != nullptr && chunk < chunks - slots) P::mask(*mask_at(its_unit, group), &g);
          }
          float values[kWidth], old[kWidth] = {};
          normalize(*place_of(slot, i, 0), g, values);
          const std::int64_t at = static_cast<std::int64_t>(offset_of_unit(its_unit, base)) * kWidth;
          if (args.beta != 0.0f) P::widen(*reinterpret_cast<const uint4*>(args.out + at), old);
          if constexpr (kBackward) {
#pragma unroll
            for (int e = 0; e < kWidth; ++e) values[e] += args.beta * old[e];
            if (args.dz != nullptr) ptx::st_global(reinterpret_cast<uint4*>(args.dz + at), g);
          } else {
            float addend[kWidth] = {};
            if (args.side != nullptr) P::widen(*reinterpret_cast<const uint4*>(args.side + at), addend);
            unsigned bits = 0;
#pragma unroll
            for (int e = 0; e < kWidth; ++e) {
              bool passes = false;
              float value = args.side != nullptr ? values[e] + addend[e] : values[e];
              value = activate_normalized(args, value, &passes);
              if (passes) bits |= 1u << e;
              values[e] = args.alpha * value;
              if (args.beta != 0.0f) values[e] += args.beta * old[e];
            }
            if (args.mask != nullptr) *mask_at(its_unit, group) = static_cast<unsigned char>(bits);
          }
          ptx::st_global(reinterpret_cast<uint4*>(args.out + at), P::narrow(values));
        }
      }
      if (chunk >= slots) {
        copy_chunk(unit - ahead, limit, base, slot);
      } else if (next_limit != 0) {
        // Of the next group, whose order is flipped: there it is this slot.
        copy_chunk(place.first + static_cast<std::uint32_t>(slots - 1 - chunk) * chunk_stride, next_limit, next_base,
                   slot);
      }
      ptx::cp_async_commit_group();
    }
    flipped = !flipped;
  }
  if (!grid && parts > 1) tile::cluster_sync(parts);  // no block may leave while others read its part
}

}  // namespace gpudnn::kernels
