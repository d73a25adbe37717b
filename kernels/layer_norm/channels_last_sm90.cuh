// Group and instance normalization of channels-last tensors, forward and backward, where x (and dy) are read from
// memory once.
//
//   forward   y = (x - mean) * inverse * scale + bias, with mean and variance over the pixels and a group's channels
//   backward  g = dy * scale;  dx = inverse * (g - mean(g) - xhat * mean(g * xhat));
//             dscale = sum(dy * xhat);  dbias = sum(dy)
//
// A sample is one run of memory: pixels, each with its channels. A team of blocks has one sample at a time, each block
// a slice of its pixels. The warps of a block:
//
//   the first ones   have 16 bytes of channels a thread, and every `rows`-th pixel, in two passes.
//                    first: the chunks of the slice as they arrive; a thread gathers the moments (backward: sums) of
//                    its channels, those of a group are joined over the block, and posted in the workspace.
//                    second: what all slices have together is read, and y (dx) written from the chunks, whose room is
//                    free from then on
//   the filling one  brings chunks to shared memory by TMA, as soon as there is room
//   the joining one  has the groups of its block's number in the team, and those `members` further on: it waits for
//                    what the blocks post of a group, joins it in order, and posts what the second pass needs
//
// What is posted carries the number of its sample in each of its two words of 8 bytes, so no counter and no fence stand
// between those who post and those who read: a fence takes microseconds where stores are under way. A slot is used
// again only when all blocks have passed on from what was read there (see the numbers of slots below).
//
// Where two slices fit (`ahead`) the first pass of the next sample stands before the second pass of this one, so nobody
// waits for the joining. Where not even one does (not `held`) the chunks are read again for the second pass, last one
// first, as the L2 may still have them. All blocks must be resident at once when teams have several: the launch is
// cooperative then.
//
// Moments are gathered by batches of two pixels and joined by Chan's formula, those of threads and of blocks in two
// passes, so the mean's size costs no digits of the variance. Where the squares exceed the range of float (deviations
// above some 1e19), the sample is measured again with x scaled by 2^-80, and the groups that need it take what that
// gives, marked by the sign of `inverse`; so a finite sample never gives a NaN. dscale and dbias: each thread adds up
// its channels over all samples of its team; blocks leave a part each, and a second kernel adds those up in order.
//
// Longer than most files: the roles of a block's warps share its barriers and its workspace.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cooperative_groups.h>

#include "kernels/layer_norm/channels_last.hpp"
#include "kernels/layer_norm/row.cuh"
#include "kernels/layer_norm/rows.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/gpu_relaxed.cuh"
#include "kernels/tile/channel_reduce.cuh"
#include "kernels/tile/dynamic_shared.cuh"
#include "kernels/tile/stage_ring.cuh"

namespace gpudnn::kernels {

struct LayerNormLastStatistic {
  void* data;  // null: there is none
  tile::AnyType type;
  std::int64_t sample, group;  // strides
};

// Two numbers, each with the number of the sample that they belong to.
struct alignas(16) LayerNormLastPost {
  std::uint64_t words[2];
};

struct LayerNormLastArgs {
  const void* x;
  const void* dy;
  void* out;
  tile::AnyType out_type;
  bool out_as_x;
  bool rms;
  LayerNormParameter scale;
  LayerNormParameter bias;
  LayerNormLastStatistic mean;  // forward: written; backward: read
  LayerNormLastStatistic inverse;
  std::int64_t x_sample, dy_sample, out_sample;  // strides
  std::int64_t pixels;
  std::int32_t samples, groups, of_group, channels;
  tile::FastDivmod by_group;  // of a channel
  tile::FastDivmod by_entry;  // entries of a group in a row of entries
  bool packs_in_groups;       // no pack of 16 bytes has channels of two groups
  float epsilon;
  float one_over_count;         // 1 / elements of a set
  LayerNormLastPost* partials;  // [team][slot][member][group]
  LayerNormLastPost* totals;    // [team][slot][group]
  float* parameters;            // [block][dscale, dbias][channel], or null
  LayerNormLastCut cut;
};

struct LayerNormLastShared {
  std::uint64_t full[kLnLastMaxStages];
  std::uint64_t empty[kLnLastMaxStages];
  std::uint32_t again[2];  // odd or even sample: a group's squares are out of range
};
static_assert(sizeof(LayerNormLastShared) <= kLnLastHeader, "the cut leaves room for the barriers");

constexpr int kLnLastBarrier = 1;                             // of the threads that compute
constexpr int kLnLastAtOnce = (kLnLastMaxMembers + 31) / 32;  // members of a lane that joins

// The block's slice of each sample, in the order in which chunks come to shared memory.
struct LayerNormLastSlice {
  std::int64_t begin;  // pixel of the sample
  std::int32_t pixels;
  std::int32_t chunks;
};

// Brings chunks to the ring, one at each call, in the order in which the passes read them.
template <class T, bool kBackward>
struct LayerNormLastFiller {
  const LayerNormLastArgs& args;
  const LayerNormLastSlice& slice;
  LayerNormLastShared* shared;
  unsigned char* stages;
  std::int32_t sample;
  std::int32_t chunk = 0;
  bool back = false;               // the second pass of a slice that is not held
  tile::RingState state = {0, 1};  // an empty stage is free at first

  __device__ __forceinline__ bool next() {
    const LayerNormLastCut& cut = args.cut;
    if (sample >= args.samples) return false;
    constexpr int kTensors = kBackward ? 2 : 1;
    const std::int32_t tensor_bytes = cut.chunk_pixels * cut.packs * 16;
    const std::int32_t first = chunk * cut.chunk_pixels;
    const std::int32_t pixels = min(cut.chunk_pixels, slice.pixels - first);
    const auto bytes = static_cast<std::uint32_t>(pixels * cut.packs * 16);
    const std::int64_t at = (slice.begin + first) * args.channels;
    tile::wait(&shared->empty[state.stage], state.parity);
    std::uint64_t* const full = &shared->full[state.stage];
    unsigned char* const stage = stages + static_cast<std::int32_t>(state.stage) * tensor_bytes * kTensors;
    ptx::mbarrier_arrive_expect_tx(full, bytes * kTensors);
    ptx::bulk_copy(stage, static_cast<const T*>(args.x) + sample * args.x_sample + at, bytes, full);
    if constexpr (kBackward) {
      ptx::bulk_copy(stage + tensor_bytes, static_cast<const T*>(args.dy) + sample * args.dy_sample + at, bytes, full);
    }
    state.next(static_cast<std::uint32_t>(cut.stages));
    chunk += back ? -1 : 1;
    if (chunk == slice.chunks || chunk < 0) {
      if (back || cut.held) {
        sample += cut.teams;
        chunk = 0;
        back = false;
      } else {
        back = true;
        chunk = slice.chunks - 1;
      }
    }
    return true;
  }
};

// The moments of N channels over several pixels: all channels have the same count.
template <int N>
struct LayerNormLastMoments {
  float count = 0;
  float mean[N] = {};
  float squares[N] = {};

  // Packs of `held` pixels: where it is one, both are the same.
  template <class Pack>
  __device__ __forceinline__ void add(const Pack (&packs)[kLnLastFlight], int held, float factor) {
    static_assert(kLnLastFlight == 2, "a batch has one pixel or two");
    if (held == 0) return;
    const auto batch = static_cast<float>(held);
    const float all = count + batch;
    const float share = count > 0 ? tile::share_of(batch, all) : 1.0f;
    const float cross = count * share;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float first = tile::widen<float>(packs[0].get(i)) * factor;
      const float second = tile::widen<float>(packs[1].get(i)) * factor;
      const float apart = first - second;
      const float distance = (first + second) * 0.5f - mean[i];
      squares[i] += apart * 0.5f * apart;
      squares[i] += distance * cross * distance;
      mean[i] += distance * share;
    }
    count = all;
  }
};

template <class T, bool kBackward>
__global__ void __launch_bounds__(kLnLastThreads + 64, 2)
    layer_norm_channels_last(const __grid_constant__ LayerNormLastArgs args) {
  constexpr int N = tile::kPackWidth<T>;
  constexpr int kTensors = kBackward ? 2 : 1;
  constexpr bool kMayExceed = !kBackward && !std::is_same_v<T, tile::Half>;  // squares of halves always fit
  // No block posts its part of sample i + 2 before it has read the totals of sample i, so two slots of partials are
  // enough. A joining warp may look for a second attempt of sample i as late as others post totals of i + 2, but not of
  // i + 4. Second attempts have a slot of their own.
  constexpr int kPartials = kMayExceed ? 3 : 2;
  constexpr int kTotals = kMayExceed ? 5 : 4;
  static_assert(kTotals <= kLnLastTotals && kPartials <= kLnLastPartials, "the workspace has room for the slots");
  using Pack = tile::Pack<T, N>;
  const LayerNormLastCut& cut = args.cut;
  unsigned char* const dynamic = tile::dynamic_shared();
  auto* const shared = reinterpret_cast<LayerNormLastShared*>(dynamic);
  auto* const entries = reinterpret_cast<float2*>(dynamic + kLnLastHeader);
  auto* const group_totals = reinterpret_cast<float2*>(dynamic + kLnLastHeader + cut.entry_bytes);
  auto* const statistics = group_totals + args.groups;  // of three samples: mean and inverse of each group
  unsigned char* const stages = dynamic + kLnLastHeader + cut.entry_bytes + cut.group_bytes;

  const auto thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int threads = cut.threads;
  const int members = cut.members;
  const auto team = static_cast<int>(blockIdx.x) / members;
  const int member = static_cast<int>(blockIdx.x) % members;
  const auto pixels_of = [&](int of) {
    return static_cast<std::int32_t>(min(cut.slice, args.pixels - of * cut.slice));
  };
  LayerNormLastSlice slice;
  slice.begin = member * cut.slice;
  slice.pixels = pixels_of(member);
  slice.chunks = (slice.pixels + cut.chunk_pixels - 1) / cut.chunk_pixels;

  // Slots of the workspace. `turn` numbers the samples of the team, `redone` their second attempts.
  std::uint32_t redone = 0;
  const auto partial_at = [&](int slot, int of) {
    return args.partials + ((static_cast<std::int64_t>(team) * kLnLastPartials + slot) * members + of) * args.groups;
  };
  const auto total_at = [&](int slot) {
    return args.totals + (static_cast<std::int64_t>(team) * kLnLastTotals + slot) * args.groups;
  };
  const auto partial_slot = [](bool second, int turn) { return second ? 2 : turn & 1; };
  const auto total_slot = [](bool second, int turn) { return second ? 4 : turn & 3; };
  // The lowest bit of a total's tag says that a second attempt is needed.
  const auto tag_of = [&](bool second, int turn) {
    return 2 * ((second ? redone : static_cast<std::uint32_t>(turn)) + 1);
  };
  const auto post = [](LayerNormLastPost* to, float2 values, std::uint32_t tag) {
    const std::uint64_t high = static_cast<std::uint64_t>(tag) << 32;
    ptx::st_relaxed_gpu_v2(to, make_ulonglong2(high | __float_as_uint(values.x), high | __float_as_uint(values.y)));
  };
  const auto is_tagged = [](const ulonglong2& words, std::uint32_t tag) {
    return (static_cast<std::uint32_t>(words.x >> 32) & ~1u) == tag &&
           (static_cast<std::uint32_t>(words.y >> 32) & ~1u) == tag;
  };
  const auto values_of = [](const ulonglong2& words) {
    return make_float2(__uint_as_float(static_cast<std::uint32_t>(words.x)),
                       __uint_as_float(static_cast<std::uint32_t>(words.y)));
  };

  if (thread == threads) {
    for (int stage = 0; stage < cut.stages; ++stage) {
      ptx::mbarrier_init(&shared->full[stage], 1);
      ptx::mbarrier_init(&shared->empty[stage], static_cast<std::uint32_t>(threads / 32));
    }
    ptx::fence_mbarrier_init();
    shared->again[0] = shared->again[1] = 0;
  }
  LayerNormLastFiller<T, kBackward> filler{args, slice, shared, stages, team};
  if (thread == threads) {
    // The barriers are ready for this thread, and the first chunks need no one else.
    for (int stage = 0; stage < cut.stages && filler.next(); ++stage) {
    }
  } else if (thread < threads) {
    for (int group = thread; group < args.groups; group += threads) {
      if (members > 1) {
        for (int slot = 0; slot < kPartials; ++slot) post(partial_at(slot, member) + group, make_float2(0, 0), 0);
      }
      for (int slot = member; slot < kTotals; slot += members) post(total_at(slot) + group, make_float2(0, 0), 0);
    }
  }
  if (members > 1) {
    cooperative_groups::this_grid().sync();
  } else {
    __syncthreads();
  }
  if (thread == threads) {
    while (filler.next()) {
    }
  }

  // What all slices have of a group together, posted for the second pass. By one thread.
  const auto keep = [&](bool second, int turn, int group, float2 sum, std::int32_t sample) {
    LayerNormLastPost* const total = total_at(total_slot(second, turn)) + group;
    const std::uint32_t tag = tag_of(second, turn);
    if constexpr (kBackward) {
      post(total, make_float2(sum.x * args.one_over_count, sum.y * args.one_over_count), tag);
    } else {
      float mean = sum.x;
      float variance = sum.y * args.one_over_count;
      if (args.rms) {
        variance += mean * mean;
        mean = 0;
      }
      const float factor = second ? kLnDown : 1.0f;
      float inverse = rsqrtf(variance + args.epsilon * (factor * factor));
      float2 result = make_float2(mean, second ? -inverse : inverse);
      bool again = false;
      if constexpr (kMayExceed) {
        if (second) {
          // The other groups keep what the first attempt gave: small values vanish when they are scaled.
          const float2 before = values_of(ptx::ld_relaxed_gpu_v2(total_at(total_slot(false, turn)) + group));
          if (before.y > 0) {
            result = before;
            mean = before.x;
            inverse = before.y;
          } else {
            mean *= kLnUp;
            inverse *= kLnDown;
          }
        } else if (!(variance <= kLnGreatest)) {
          result.y = 0;  // to be had from the second attempt
          again = true;
        }
      }
      post(total, result, again ? tag + 1 : tag);
      if (again) return;
      if (args.mean.data != nullptr)
        tile::store_any(args.mean.type, args.mean.data, sample * args.mean.sample + group * args.mean.group, mean);
      if (args.inverse.data != nullptr) {
        tile::store_any(args.inverse.type, args.inverse.data, sample * args.inverse.sample + group * args.inverse.group,
                        inverse);
      }
    }
  };
  // Parts of a group, by lanes of which each has some: for_parts(body) calls body(values, elements) for the lane's own.
  // Backward their sums; forward the mean of all, and the sum of squared deviations from it, each by its own pass.
  const auto joined = [&](int lanes, float one_over, const auto& for_parts) {
    const auto over_lanes = [lanes](float value) {
#pragma unroll 1
      for (int step = lanes / 2; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
      return value;
    };
    float first = 0, second = 0;
    if constexpr (kBackward) {
      for_parts([&](float2 values, float) {
        first += values.x;
        second += values.y;
      });
      first = over_lanes(first);
    } else {
      for_parts([&](float2 values, float elements) { first += values.x * elements; });
      first = over_lanes(first) * one_over;
      for_parts([&](float2 values, float elements) {
        const float distance = values.x - first;
        second += values.y + distance * distance * elements;
      });
    }
    return make_float2(first, over_lanes(second));
  };

  // The joining warp.
  if (thread >= threads) {
    if (thread / 32 == threads / 32 || members == 1 || member >= args.groups) return;
    constexpr int kFlight = 3;  // reads under way
    static_assert(kLnLastAtOnce % kFlight == 0, "members of a lane are read by as many at a time");
    const auto join = [&](bool second, int turn, std::int32_t sample) {
      const std::uint32_t tag = tag_of(second, turn);
      for (int group = member; group < args.groups; group += members) {
        float2 values[kLnLastAtOnce];
        const LayerNormLastPost* const from = partial_at(partial_slot(second, turn), lane) + group;
        const std::int64_t step = std::int64_t{32} * args.groups;
#pragma unroll
        for (int first = 0; first < kLnLastAtOnce; first += kFlight) {
          ulonglong2 words[kFlight];
#pragma unroll
          for (int k = 0; k < kFlight; ++k)
            if (lane + 32 * (first + k) < members) words[k] = ptx::ld_relaxed_gpu_v2(from + (first + k) * step);
#pragma unroll
          for (int k = 0; k < kFlight; ++k) {
            if (lane + 32 * (first + k) < members) {
              while (!is_tagged(words[k], tag)) words[k] = ptx::ld_relaxed_gpu_v2(from + (first + k) * step);
              values[first + k] = values_of(words[k]);
            }
          }
        }
        __syncwarp();
        const float2 sum = joined(32, args.one_over_count, [&](const auto& body) {
#pragma unroll
          for (int k = 0; k < kLnLastAtOnce; ++k) {
            const int of = lane + 32 * k;
            if (of < members) body(values[k], static_cast<float>(pixels_of(of)) * static_cast<float>(args.of_group));
          }
        });
        if (lane == 0) keep(second, turn, group, sum, sample);
        __syncwarp();
      }
    };
    // Whether a group of the sample needs a second attempt.
    const auto needs_second = [&](int turn) {
      bool needs = false;
      for (int group = lane; group < args.groups; group += 32) {
        ulonglong2 words;
        do {
          words = ptx::ld_relaxed_gpu_v2(total_at(total_slot(false, turn)) + group);
        } while (!is_tagged(words, tag_of(false, turn)));
        needs = needs || (words.x >> 32 & 1) != 0;
      }
      return __any_sync(0xffffffffu, needs);
    };
    int turn = 0;
    for (std::int32_t sample = team; sample < args.samples; sample += cut.teams, ++turn) {
      join(false, turn, sample);
      if constexpr (kMayExceed) {
        if (needs_second(turn)) {
          join(true, turn, sample);
          ++redone;
        }
      }
    }
    return;
  }

  // The thread's channels and pixels.
  const int pack = thread % cut.packs;
  const int row = thread / cut.packs;
  const bool active = row < cut.rows;
  const int channel = pack * N;
  const auto group_of = [&](int i) {
    return static_cast<int>(args.by_group.quotient(static_cast<std::uint32_t>(channel + i)));
  };
  // Entries of a row of threads: one for each pack, or for each channel.
  const int wide = args.packs_in_groups ? 1 : N;
  const auto of_entry = static_cast<int>(args.by_entry.divisor);
  const int entry_row = cut.packs * wide;
  int lanes = 32;  // that join a group
  while (lanes > 1 && lanes * args.groups > threads) lanes /= 2;

  const auto meet = [&] { ptx::barrier_sync(kLnLastBarrier, threads); };
  const auto stage_pack = [&](std::uint32_t stage, int tensor, int u) {
    const int at = (static_cast<int>(stage) * kTensors + tensor) * cut.chunk_pixels + row + u * cut.rows;
    return tile::load_pack<T, N>(reinterpret_cast<const T*>(stages) + (at * cut.packs + pack) * N);
  };
  const auto held_of = [&](int chunk) {  // pixels of the thread in a chunk
    const int left = slice.pixels - chunk * cut.chunk_pixels - row;
    return !active || left <= 0 ? 0 : left <= cut.rows ? 1 : 2;
  };
  // After what was read there has been used: the copy that comes next must not overtake the reads.
  const auto free_stage = [&](std::uint32_t stage) {
    __syncwarp();
    if (lane == 0) ptx::mbarrier_arrive(&shared->empty[stage]);
  };

  // Joins what the block's threads left in `entries`, and posts it.
  const float one_over_slice = 1.0f / (static_cast<float>(slice.pixels) * static_cast<float>(args.of_group));
  const auto pass_on = [&](bool second, int turn, std::int32_t sample) {
    meet();
    const int count = cut.rows * of_entry;
    for (int first = 0; first < args.groups; first += threads / lanes) {  // all lanes of a warp alike
      const int group = first + thread / lanes;
      const bool there = group < args.groups;
      const float2 sum = joined(lanes, one_over_slice, [&](const auto& body) {
        for (int e = there ? thread % lanes : count; e < count; e += lanes) {
          std::uint32_t within;
          const auto of_row = static_cast<int>(args.by_entry.divmod(static_cast<std::uint32_t>(e), &within));
          const int pixels = (slice.pixels - of_row + cut.rows - 1) / cut.rows;
          body(entries[of_row * entry_row + group * of_entry + static_cast<int>(within)],
               static_cast<float>(pixels * (N / wide)));
        }
      });
      if (there && thread % lanes == 0) {
        if (members > 1) {
          post(partial_at(partial_slot(second, turn), member) + group, sum, tag_of(second, turn));
        } else {
          keep(second, turn, group, sum, sample);
        }
      }
    }
  };
  // Reads the totals of a sample to shared memory, for all threads; whether a second attempt is needed.
  const auto read_totals = [&](bool second, int turn) {
    const std::uint32_t tag = tag_of(second, turn);
    for (int group = thread; group < args.groups; group += threads) {
      ulonglong2 words;
      do {
        words = ptx::ld_relaxed_gpu_v2(total_at(total_slot(second, turn)) + group);
      } while (!is_tagged(words, tag));
      group_totals[group] = values_of(words);
      if (kMayExceed && (words.x >> 32 & 1) != 0) shared->again[turn & 1] = 1;
    }
    meet();
    if constexpr (kMayExceed) {
      // The other one was read before this meeting, and is not written before the next one.
      if (thread == 0) shared->again[(turn + 1) & 1] = 0;
      return !second && shared->again[turn & 1] != 0;
    } else {
      return false;
    }
  };
  const auto leave_moments = [&](const LayerNormLastMoments<N>& gathered) {
    if (!active) return;
    if (args.packs_in_groups) {
      // All channels have the same count.
      float mean = 0, squares = 0;
#pragma unroll
      for (int i = 0; i < N; ++i) mean += gathered.mean[i] * (1.0f / N);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float distance = gathered.mean[i] - mean;
        squares += gathered.squares[i] + distance * distance * gathered.count;
      }
      entries[row * cut.packs + pack] = make_float2(mean, squares);
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i)
        entries[row * args.channels + channel + i] = make_float2(gathered.mean[i], gathered.squares[i]);
    }
  };

  float dscale[N] = {};
  float dbias[N] = {};
  float scale[N];
  const auto load_scale = [&] {
    fill(scale, 1.0f);
    if (active && args.scale.data != nullptr) load_parameters(args.scale, channel, scale);
  };
  // Backward: mean and inverse of a group.
  const auto statistics_of = [&](std::int32_t sample, int group) {
    float2 both = make_float2(0, 0);
    if (args.mean.data != nullptr)
      both.x = load_one(args.mean.type, args.mean.data, sample * args.mean.sample + group * args.mean.group);
    both.y = load_one(args.inverse.type, args.inverse.data, sample * args.inverse.sample + group * args.inverse.group);
    return both;
  };
  // They are asked for a sample ahead, where a thread has one of them at most.
  float2 coming = make_float2(0, 0);
  if (kBackward && cut.copies_statistics && thread < args.groups) coming = statistics_of(team, thread);
  // The three slots in turn: a slow thread may still read that of two samples before.
  int newest = 0, oldest = 0;
  const auto next_slot = [](int slot) { return slot == 2 ? 0 : slot + 1; };

  tile::RingState arriving;
  tile::RingState leaving;  // the second pass over slices that are held
  const auto first_pass = [&](int turn, std::int32_t sample) {
    if constexpr (kBackward) {
      float mean[N], inverse[N], sum[N] = {}, product[N] = {};
      float2* const mine = statistics + newest * args.groups;
      newest = next_slot(newest);
      if (cut.copies_statistics) {
        if (thread < args.groups) {
          mine[thread] = coming;
          if (sample + cut.teams < args.samples) coming = statistics_of(sample + cut.teams, thread);
        }
        meet();
      }
#pragma unroll
      for (int i = 0; i < N; ++i) {
        mean[i] = inverse[i] = 0;
        if (!active) continue;
        const float2 both = cut.copies_statistics ? mine[group_of(i)] : statistics_of(sample, group_of(i));
        mean[i] = both.x;
        inverse[i] = both.y;
      }
      for (int chunk = 0; chunk < slice.chunks; ++chunk) {
        tile::wait(&shared->full[arriving.stage], arriving.parity);
        const int held = held_of(chunk);
#pragma unroll
        for (int u = 0; u < kLnLastFlight; ++u) {
          if (u >= held) break;
          float x[N], dy[N];
          tile::widen_pack<float>(stage_pack(arriving.stage, 0, u), x);
          tile::widen_pack<float>(stage_pack(arriving.stage, 1, u), dy);
#pragma unroll
          for (int i = 0; i < N; ++i) {
            sum[i] += dy[i];
            product[i] += dy[i] * ((x[i] - mean[i]) * inverse[i]);
          }
        }
        if (!cut.held) free_stage(arriving.stage);
        arriving.next(static_cast<std::uint32_t>(cut.stages));
      }
      load_scale();
      float2 whole = make_float2(0, 0);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        dscale[i] += product[i];
        dbias[i] += sum[i];
        const float2 entry = make_float2(sum[i] * scale[i], product[i] * scale[i]);
        if (active && !args.packs_in_groups) entries[row * args.channels + channel + i] = entry;
        whole.x += entry.x;
        whole.y += entry.y;
      }
      if (active && args.packs_in_groups) entries[row * cut.packs + pack] = whole;
    } else {
      LayerNormLastMoments<N> gathered;
      for (int chunk = 0; chunk < slice.chunks; ++chunk) {
        tile::wait(&shared->full[arriving.stage], arriving.parity);
        const int held = held_of(chunk);
        Pack packs[kLnLastFlight];
#pragma unroll
        for (int u = 0; u < kLnLastFlight; ++u) packs[u] = stage_pack(arriving.stage, 0, u < held ? u : 0);
        gathered.add(packs, held, 1.0f);
        if (!cut.held) free_stage(arriving.stage);
        arriving.next(static_cast<std::uint32_t>(cut.stages));
      }
      leave_moments(gathered);
    }
    pass_on(false, turn, sample);
  };

  // The first pass again, with x from memory, and scaled.
  const auto second_attempt = [&](int turn, std::int32_t sample) {
    LayerNormLastMoments<N> gathered;
    const T* const x = static_cast<const T*>(args.x) + sample * args.x_sample + slice.begin * args.channels + channel;
    for (int chunk = 0; chunk < slice.chunks; ++chunk) {
      const int held = held_of(chunk);
      Pack packs[kLnLastFlight];
#pragma unroll
      for (int u = 0; u < kLnLastFlight; ++u) {
        const std::int64_t at = held == 0 ? 0 : chunk * cut.chunk_pixels + row + (u < held ? u * cut.rows : 0);
        packs[u] = tile::load_pack<T, N>(x + at * args.channels);
      }
      gathered.add(packs, held, kLnDown);
    }
    leave_moments(gathered);
    pass_on(true, turn, sample);
    (void)read_totals(true, turn);
    ++redone;
  };

  // body(stage, chunk) for the chunks of the second pass.
  const auto second_chunks = [&](const auto& body) {
    for (int k = 0; k < slice.chunks; ++k) {
      if (cut.held) {
        body(leaving.stage, k);
        free_stage(leaving.stage);
        leaving.next(static_cast<std::uint32_t>(cut.stages));
      } else {
        tile::wait(&shared->full[arriving.stage], arriving.parity);
        body(arriving.stage, slice.chunks - 1 - k);
        free_stage(arriving.stage);
        arriving.next(static_cast<std::uint32_t>(cut.stages));
      }
    }
  };
  const auto out_at = [&](std::int32_t sample, int chunk, int u) {
    const std::int64_t pixel = slice.begin + chunk * cut.chunk_pixels + row + u * cut.rows;
    return sample * args.out_sample + pixel * args.channels + channel;
  };

  const auto second_pass = [&](int turn, std::int32_t sample) {
    const bool again = read_totals(false, turn);
    if constexpr (kMayExceed) {
      if (again) second_attempt(turn, sample);
    }
    if constexpr (kBackward) {
      load_scale();
      float mean[N], weight[N], slope[N], shift[N];
      const float2* const mine = statistics + oldest * args.groups;
      oldest = next_slot(oldest);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        mean[i] = weight[i] = slope[i] = shift[i] = 0;
        if (!active) continue;
        const int group = group_of(i);
        const float2 both = cut.copies_statistics ? mine[group] : statistics_of(sample, group);
        const float2 means = group_totals[group];  // of g and of g * xhat
        const float inverse = both.y;
        mean[i] = both.x;
        weight[i] = scale[i] * inverse;
        slope[i] = -inverse * (inverse * means.y);
        shift[i] = args.rms ? 0 : -inverse * means.x;
      }
      second_chunks([&](std::uint32_t stage, int chunk) {
        const int held = held_of(chunk);
#pragma unroll
        for (int u = 0; u < kLnLastFlight; ++u) {
          if (u >= held) break;
          float x[N], dy[N];
          tile::widen_pack<float>(stage_pack(stage, 0, u), x);
          tile::widen_pack<float>(stage_pack(stage, 1, u), dy);
#pragma unroll
          for (int i = 0; i < N; ++i) x[i] = dy[i] * weight[i] + ((x[i] - mean[i]) * slope[i] + shift[i]);
          tile::store_pack(static_cast<T*>(args.out) + out_at(sample, chunk, u), tile::narrow_pack<T>(x));
        }
      });
    } else {
      load_scale();
      float mean[N], weight[N], bias[N], factor[N];
      fill(bias, 0.0f);
      if (active && args.bias.data != nullptr) load_parameters(args.bias, channel, bias);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        mean[i] = weight[i] = 0;
        factor[i] = 1;
        if (!active) continue;
        const float2 total = group_totals[group_of(i)];
        mean[i] = total.x;
        weight[i] = fabsf(total.y) * scale[i];
        if (kMayExceed && total.y < 0) factor[i] = kLnDown;
      }
      const auto write = [&](const auto& normalized) {
        second_chunks([&](std::uint32_t stage, int chunk) {
          const int held = held_of(chunk);
#pragma unroll
          for (int u = 0; u < kLnLastFlight; ++u) {
            if (u >= held) break;
            float x[N];
            tile::widen_pack<float>(stage_pack(stage, 0, u), x);
#pragma unroll
            for (int i = 0; i < N; ++i) x[i] = normalized(x[i], i);
            store_values<T>(args.out_type, args.out_as_x, args.out, out_at(sample, chunk, u), x);
          }
        });
      };
      if (kMayExceed && again) {
        write([&](float x, int i) { return (x * factor[i] - mean[i]) * weight[i] + bias[i]; });
      } else {
        write([&](float x, int i) { return (x - mean[i]) * weight[i] + bias[i]; });
      }
    }
  };

  int turn = 0;
  if (cut.ahead && team < args.samples) {
    first_pass(0, team);
    meet();  // the entries are read; later the second pass of another sample stands between
  }
  for (std::int32_t sample = team; sample < args.samples; sample += cut.teams, ++turn) {
    if (!cut.ahead) {
      first_pass(turn, sample);
    } else if (sample + cut.teams < args.samples) {
      first_pass(turn + 1, sample + cut.teams);
    } else {
      meet();  // the totals of the sample before are read
    }
    second_pass(turn, sample);
  }

  if (!kBackward || args.parameters == nullptr) return;
  meet();  // the entries were read
  if (active) {
#pragma unroll
    for (int i = 0; i < N; ++i) entries[row * args.channels + channel + i] = make_float2(dscale[i], dbias[i]);
  }
  meet();
  float* const mine = args.parameters + static_cast<std::int64_t>(blockIdx.x) * 2 * args.channels;
  for (int c = thread; c < args.channels; c += threads) {
    float2 sum = make_float2(0, 0);
    for (int r = 0; r < cut.rows; ++r) {
      const float2 part = entries[r * args.channels + c];
      sum.x += part.x;
      sum.y += part.y;
    }
    mine[c] = sum.x;
    mine[args.channels + c] = sum.y;
  }
}

}  // namespace gpudnn::kernels
