// Group and instance normalization of channels-last tensors, forward and backward, where x (and dy) are read from
// memory once.
//
//   forward   y = (x - mean) * inverse * scale + bias, with mean and variance of the channels of a group over the
//   pixels backward  g = dy * scale;  dx = inverse * (g - mean(g) - xhat * mean(g * xhat));  dscale = sum(dy * xhat);
//             dbias = sum(dy)
//
// A sample is one run of memory: pixels, each with its channels. A team of blocks has one sample at a time, each block
// a slice of its pixels. The warps of a block:
//
//   the first ones   have 16 bytes of channels a thread, and every `rows`-th pixel. Of each sample there are two
//   passes.
//                    first: the chunks of the slice as they arrive; a thread gathers the moments (backward: sums) of
//                    its channels, those of a group are joined over the block, and left in the workspace.
//                    second: what all slices have together is read, and y (dx) written from the chunks, whose room is
//                    free from then on
//   the filling one  brings chunks to shared memory by TMA, as soon as there is room
//   the joining one  has the groups of its block's number in the team, and those `members` further on: it waits until
//                    all blocks have left their part of a sample, joins those in order, and tells all blocks
//
// Where two slices fit (`ahead`) the first pass of the next sample stands before the second pass of this one, so nobody
// waits for the joining. Where not even one does (not `held`) the chunks are read again for the second pass, last one
// first, as the L2 may still have them. All blocks must be resident at once when teams have several: the launch is
// cooperative then.
//
// Moments are gathered by batches of two pixels and joined by Chan's formula, so the mean's size costs no digits of the
// variance. Where the squares exceed the range of float (deviations above some 1e19), the sample is measured again with
// x scaled by 2^-80, and the groups that need it take what that gives, marked by the sign of `inverse`; so a
// finite sample never gives a NaN. dscale and dbias: each thread adds up its channels over all samples of its team;
// blocks leave a part each, and a second kernel adds those up in order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cooperative_groups.h>

#include "kernels/layer_norm/channels_last.hpp"
#include "kernels/layer_norm/row.cuh"
#include "kernels/layer_norm/rows.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/gpu_scope.cuh"
#include "kernels/tile/channel_reduce.cuh"
#include "kernels/tile/dynamic_shared.cuh"
#include "kernels/tile/stage_ring.cuh"

namespace gpudnn::kernels {

struct LayerNormLastStatistic {
  void* data;  // null: there is none
  tile::AnyType type;
  std::int64_t sample, group;  // strides
};

// Words of a team, of which no other is near.
struct alignas(128) LayerNormLastWords {
  // By attempt and odd or even sample: the blocks that left their part, and those that joined their groups, over all
  // samples. Second attempts are counted by the even words alone.
  std::uint32_t arrived[2][2];
  std::uint32_t told[2][2];
  std::uint32_t again[4];  // 1 + the last of every fourth sample that had a group whose squares were out of range
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
  double one_over_count;  // 1 / elements of a set
  LayerNormLastWords* words;
  float2* partials;   // [attempt][team][odd or even sample][member][group]
  float2* totals;     // [attempt][team][odd or even sample][group]
  float* parameters;  // [block][dscale, dbias][channel], or null
  LayerNormLastCut cut;
};

struct LayerNormLastShared {
  std::uint64_t full[kLnLastMaxStages];
  std::uint64_t empty[kLnLastMaxStages];
};
static_assert(sizeof(LayerNormLastShared) <= kLnLastHeader, "the cut leaves room for the barriers");

constexpr int kLnLastBarrier = 1;  // of the threads that compute

// What a group's elements give: the two numbers that are kept of it, and their joining.
template <bool kBackward>
struct LayerNormLastSum;
template <>
struct LayerNormLastSum<false> {
  using type = tile::Moments<float>;
  static __device__ __forceinline__ type of(float2 kept, float count) { return {count, kept.x, kept.y}; }
  static __device__ __forceinline__ float2 kept(const type& sum) { return {sum.mean, sum.squares}; }
};
template <>
struct LayerNormLastSum<true> {
  using type = tile::Totals<float>;
  static __device__ __forceinline__ type of(float2 kept, float) { return {kept.x, kept.y}; }
  static __device__ __forceinline__ float2 kept(const type& sum) { return {sum.first, sum.second}; }
};

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
  using Pack = tile::Pack<T, N>;
  using Sum = LayerNormLastSum<kBackward>;
  using Gathered = typename Sum::type;
  const LayerNormLastCut& cut = args.cut;
  unsigned char* const dynamic = tile::dynamic_shared();
  auto* const shared = reinterpret_cast<LayerNormLastShared*>(dynamic);
  auto* const entries = reinterpret_cast<float2*>(dynamic + kLnLastHeader);
  unsigned char* const stages = dynamic + kLnLastHeader + cut.entry_bytes;

  const auto thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int threads = cut.threads;
  const int members = cut.members;
  const int joiners = min(members, args.groups);  // blocks that have groups to join
  const auto team = static_cast<int>(blockIdx.x) / members;
  const int member = static_cast<int>(blockIdx.x) % members;
  const auto slice_of = [&](int of) {
    LayerNormLastSlice slice;
    slice.begin = of * cut.slice;
    slice.pixels = static_cast<std::int32_t>(min(cut.slice, args.pixels - slice.begin));
    slice.chunks = (slice.pixels + cut.chunk_pixels - 1) / cut.chunk_pixels;
    return slice;
  };
  const LayerNormLastSlice slice = slice_of(member);
  LayerNormLastWords* const words = args.words + team;

  if (thread == threads) {
    for (int stage = 0; stage < cut.stages; ++stage) {
      ptx::mbarrier_init(&shared->full[stage], 1);
      ptx::mbarrier_init(&shared->empty[stage], static_cast<std::uint32_t>(threads / 32));
    }
    ptx::fence_mbarrier_init();
  }
  LayerNormLastFiller<T, kBackward> filler{args, slice, shared, stages, team};
  if (thread == threads) {
    // The barriers are ready for this thread, and the first chunks need no one else.
    for (int stage = 0; stage < cut.stages && filler.next(); ++stage) {
    }
    if (member == 0) {
      *words = {};
      __threadfence();
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
  const auto free_stage = [&](std::uint32_t stage) {
    __syncwarp();
    if (lane == 0) ptx::mbarrier_arrive(&shared->empty[stage]);
  };
  // Slots of the workspace.
  const auto totals_of = [&](int attempt, int turn) {
    return args.totals + ((attempt * cut.teams + team) * 2 + (turn & 1)) * static_cast<std::int64_t>(args.groups);
  };
  const auto partials_of = [&](int attempt, int turn, int of) {
    return args.partials +
           (((attempt * cut.teams + team) * 2 + (turn & 1)) * static_cast<std::int64_t>(members) + of) * args.groups;
  };
  // body(group, whether there is one) for the groups of the thread's lanes, all lanes of a warp alike.
  const auto for_groups = [&](const auto& body) {
    const int at_once = threads / lanes;
    for (int first = 0; first < args.groups; first += at_once) {
      const int group = first + thread / lanes;
      body(group, group < args.groups);
    }
  };
  const auto over_lanes = [&](Gathered* sum) {
#pragma unroll 1
    for (int step = lanes / 2; step > 0; step /= 2) sum->merge(sum->shuffled(step));
  };

  std::uint32_t redone = 0;  // second attempts
  // The words of a sample's attempt, and how often they will have been used with it. No block leaves its part of sample
  // i + 2 before it has read what was joined of sample i, so odd and even ones are enough. A joining warp may look for
  // a second attempt of sample i as late as those of others join sample i + 2, but not i + 4.
  const auto word_of = [&](int attempt, int turn) { return attempt == 0 ? turn & 1 : 0; };
  const auto uses_of = [&](int attempt, int turn) {
    return (attempt == 0 ? static_cast<std::uint32_t>(turn) / 2 : redone) + 1;
  };
  const auto wait_for = [&](const std::uint32_t* word, std::uint32_t value) {
    while (static_cast<std::int32_t>(ptx::ld_acquire_gpu(word) - value) < 0) {
    }
  };
  // By one thread, for others that meet it.
  const auto wait_arrived = [&](int attempt, int turn) {
    wait_for(&words->arrived[attempt][word_of(attempt, turn)],
             uses_of(attempt, turn) * static_cast<std::uint32_t>(members));
  };
  const auto wait_joined = [&](int attempt, int turn) {
    wait_for(&words->told[attempt][word_of(attempt, turn)],
             uses_of(attempt, turn) * static_cast<std::uint32_t>(joiners));
  };
  const auto needs_second = [&](int turn) {
    return __ldcg(&words->again[turn & 3]) == static_cast<std::uint32_t>(turn) + 1;
  };
  const auto tell_joined = [&](int attempt, int turn) {
    __threadfence();
    ptx::red_release_gpu_add(&words->told[attempt][word_of(attempt, turn)], 1);
  };

  // What all slices have of a group together, for the second pass. By one thread.
  const auto keep = [&](int attempt, int turn, int group, const Gathered& sum, std::int32_t sample) {
    float2* const total = totals_of(attempt, turn) + group;
    const auto over = static_cast<float>(args.one_over_count);
    if constexpr (kBackward) {
      __stcg(total, make_float2(sum.first * over, sum.second * over));
    } else {
      float mean = sum.mean;
      float variance = sum.squares * over;
      if (args.rms) {
        variance += mean * mean;
        mean = 0;
      }
      const bool fits = variance <= kLnGreatest;
      const float factor = attempt == 0 ? 1.0f : kLnDown;
      float inverse = rsqrtf(variance + args.epsilon * (factor * factor));
      float2 result = make_float2(mean, attempt == 0 ? inverse : -inverse);
      if (kMayExceed && attempt == 0 && !fits) {
        result.y = 0;  // to be had from the second attempt
        __stcg(&words->again[turn & 3], static_cast<std::uint32_t>(turn) + 1);
      }
      if (kMayExceed && attempt == 1) {
        // The other groups keep what the first attempt gave: small values vanish when they are scaled.
        const float2 before = __ldcg(totals_of(0, turn) + group);
        if (before.y > 0) {
          result = before;
          mean = before.x;
          inverse = before.y;
        } else {
          mean *= kLnUp;
          inverse *= kLnDown;
        }
      }
      __stcg(total, result);
      if (args.mean.data != nullptr)
        tile::store_any(args.mean.type, args.mean.data, sample * args.mean.sample + group * args.mean.group, mean);
      if (args.inverse.data != nullptr) {
        tile::store_any(args.inverse.type, args.inverse.data, sample * args.inverse.sample + group * args.inverse.group,
                        inverse);
      }
    }
  };

  // The joining warp.
  if (thread >= threads) {
    if (thread / 32 == threads / 32 || members == 1 || member >= joiners) return;
    const auto join = [&](int attempt, int turn, std::int32_t sample) {
      if (lane == 0) wait_arrived(attempt, turn);
      __syncwarp();
      for (int group = member; group < args.groups; group += members) {
        Gathered sum{};
#pragma unroll 4
        for (int of = lane; of < members; of += 32) {
          const float elements = static_cast<float>(slice_of(of).pixels) * static_cast<float>(args.of_group);
          sum.merge(Sum::of(__ldcg(partials_of(attempt, turn, of) + group), elements));
        }
#pragma unroll 1
        for (int step = 16; step > 0; step /= 2) sum.merge(sum.shuffled(step));
        if (lane == 0) keep(attempt, turn, group, sum, sample);
      }
      if (lane == 0) tell_joined(attempt, turn);
      __syncwarp();
    };
    int turn = 0;
    for (std::int32_t sample = team; sample < args.samples; sample += cut.teams, ++turn) {
      join(0, turn, sample);
      if constexpr (kMayExceed) {
        if (lane == 0) wait_joined(0, turn);
        __syncwarp();
        if (!needs_second(turn)) continue;
        join(1, turn, sample);
        ++redone;
      }
    }
    return;
  }

  // Joins what the block's threads left in `entries`, and passes it on.
  const auto pass_on = [&](int attempt, int turn, std::int32_t sample) {
    meet();
    for_groups([&](int group, bool there) {
      Gathered sum{};
      if (there) {
        const int count = cut.rows * of_entry;
        for (int e = thread % lanes; e < count; e += lanes) {
          std::uint32_t within;
          const auto of_row = static_cast<int>(args.by_entry.divmod(static_cast<std::uint32_t>(e), &within));
          const int pixels = (slice.pixels - of_row + cut.rows - 1) / cut.rows;
          const float elements = static_cast<float>(pixels > 0 ? pixels : 0) * static_cast<float>(N / wide);
          sum.merge(Sum::of(entries[of_row * entry_row + group * of_entry + static_cast<int>(within)], elements));
        }
      }
      over_lanes(&sum);
      if (there && thread % lanes == 0) {
        if (members > 1) {
          __stcg(partials_of(attempt, turn, member) + group, Sum::kept(sum));
        } else {
          keep(attempt, turn, group, sum, sample);
        }
      }
    });
    meet();
    if (thread != 0) return;
    if (members > 1) {
      __threadfence();
      ptx::red_release_gpu_add(&words->arrived[attempt][word_of(attempt, turn)], 1);
    } else {
      tell_joined(attempt, turn);
    }
  };
  const auto leave_moments = [&](const LayerNormLastMoments<N>& gathered) {
    if (!active) return;
    if (args.packs_in_groups) {
      tile::Moments<float> sum = {gathered.count, gathered.mean[0], gathered.squares[0]};
#pragma unroll
      for (int i = 1; i < N; ++i) sum.merge({gathered.count, gathered.mean[i], gathered.squares[i]});
      entries[row * cut.packs + pack] = make_float2(sum.mean, sum.squares);
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

  tile::RingState arriving;
  tile::RingState leaving;  // the second pass over slices that are held
  const auto first_pass = [&](int turn, std::int32_t sample) {
    if constexpr (kBackward) {
      float mean[N], inverse[N], sum[N] = {}, product[N] = {};
#pragma unroll
      for (int i = 0; i < N; ++i) {
        mean[i] = inverse[i] = 0;
        if (!active) continue;
        const int group = group_of(i);
        if (args.mean.data != nullptr)
          mean[i] = load_one(args.mean.type, args.mean.data, sample * args.mean.sample + group * args.mean.group);
        inverse[i] =
            load_one(args.inverse.type, args.inverse.data, sample * args.inverse.sample + group * args.inverse.group);
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
        if (!cut.held) free_stage(arriving.stage);
        gathered.add(packs, held, 1.0f);
        arriving.next(static_cast<std::uint32_t>(cut.stages));
      }
      leave_moments(gathered);
    }
    pass_on(0, turn, sample);
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
    pass_on(1, turn, sample);
    if (thread == 0) wait_joined(1, turn);
    meet();
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
    int attempt = 0;
    if (thread == 0) wait_joined(0, turn);
    meet();
    if constexpr (kMayExceed) {
      if (needs_second(turn)) {
        second_attempt(turn, sample);
        attempt = 1;
      }
    }
    const float2* const totals = totals_of(attempt, turn);
    if constexpr (kBackward) {
      load_scale();
      float mean[N], weight[N], slope[N], shift[N];
#pragma unroll
      for (int i = 0; i < N; ++i) {
        mean[i] = weight[i] = slope[i] = shift[i] = 0;
        if (!active) continue;
        const int group = group_of(i);
        if (args.mean.data != nullptr)
          mean[i] = load_one(args.mean.type, args.mean.data, sample * args.mean.sample + group * args.mean.group);
        const float inverse =
            load_one(args.inverse.type, args.inverse.data, sample * args.inverse.sample + group * args.inverse.group);
        const float2 means = __ldcg(totals + group);  // of g and of g * xhat
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
        const float2 total = __ldcg(totals + group_of(i));
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
      if (kMayExceed && attempt == 1) {
        write([&](float x, int i) { return (x * factor[i] - mean[i]) * weight[i] + bias[i]; });
      } else {
        write([&](float x, int i) { return (x - mean[i]) * weight[i] + bias[i]; });
      }
    }
  };

  int turn = 0;
  if (cut.ahead && team < args.samples) first_pass(0, team);
  for (std::int32_t sample = team; sample < args.samples; sample += cut.teams, ++turn) {
    if (!cut.ahead) {
      first_pass(turn, sample);
    } else if (sample + cut.teams < args.samples) {
      first_pass(turn + 1, sample + cut.teams);
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
