// A whole sweep of recurrent layers in one launch, the weights in registers: half, bfloat16 and float, no projection.
// Hopper.
// SPDX-License-Identifier: Apache-2.0
//
// A block owns kUnits units of one lane (a direction of a layer) and, over all steps, some of its places, kPlaces =
// 256 / kUnits of them at a time. Its sums are weights times states: the weights are the 16-row operand of mma.sync and
// stay in registers, the warps' WK groups dividing the summed index k; the states of kPlaces places are the other
// operand. Within 32 neighbours of k (of float 16) a lane of the warp takes the eight (four) from 8 (lane % 4) on, of
// both operands, so that 16 bytes of memory are the words of two products: the states go from L2 to the operand without
// shared memory.
//
// Float is multiplied as TF32 where the math type allows it. Elsewhere each factor is cut into the TF32 number that its
// upper bits are and the rest, and three products are added, lower ones first: all but the product of the rests. What
// is lost of w h is below 3 * 2^-20 |w h|.
//
// The exchange. h of a step, backward the gradients of the gates, lies in rows of its own, one for each row of the
// sweep, that begin with all bits set. A stored word never has all bits set (one float or two units of 16 bits; a NaN
// with that pattern is stored as another), so each word is its own message: whoever needs it reads it until it is
// there. No counter, no fence and no barrier stands between the block that stores and those that multiply, and a block
// waits for what it reads alone. Every row is written once in a launch; the memory is set again before the next.
//
// The WK parts of a sum meet in shared memory, in the order of k, and a thread finishes one unit at one place:
// always the same, so that c and what else only its own unit reads need no barrier. What it needs beside the sums is
// fetched before the wait.
//
// In clusters. Where the blocks of a lane and their places are one cluster, the states go to the shared memory of each
// of them instead, 16 bytes at a time, and bring their bytes to a barrier there: two buffers, each of which is written
// again only by blocks that have had the states of the step between from everybody, and so after everybody has read it.
// That takes 0.35 us a step for one place and 0.6 for 8 KiB, where L2 takes 0.8 and 0.85. Such a grid waits for nobody
// unless its layers follow each other, and then for blocks that were dispatched before.
//
// Lanes above the first may take their inputs within the launch: the words of the neighbour's rows of the same step are
// further columns of the product, and the layers go a step apart.
//
// Without clusters all blocks must be resident at once: the launch is cooperative, and is offered only where the
// kernel's own occupancy says that the grid fits.
//
// Longer than most files: products, exchange and what a thread finishes share the registers of one loop.
#pragma once

#include "core/launch/cached_query.hpp"
#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/ptx/gpu_relaxed.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/mma_sync.cuh"
#include "kernels/ptx/pin.cuh"
#include "kernels/ptx/st_async.cuh"
#include "kernels/rnn/resident.hpp"
#include "kernels/rnn/unit_sm90.cuh"
#include "kernels/tile/cluster.cuh"
#include "kernels/tile/dynamic_shared.cuh"

namespace gpudnn::kernels {

template <class T>
__device__ __forceinline__ void rnn_resident_multiply(float (&sums)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                                      std::uint32_t b1, bool whole) {
  if constexpr (std::is_same_v<T, tile::Half>) {
    ptx::mma_m16n8k16_f16(sums, a, b0, b1);
  } else if constexpr (std::is_same_v<T, tile::BFloat16>) {
    ptx::mma_m16n8k16_bf16(sums, a, b0, b1);
  } else {
    const std::uint32_t upper[4] = {rnn_upper(a[0]), rnn_upper(a[1]), rnn_upper(a[2]), rnn_upper(a[3])};
    if (whole) {
      const std::uint32_t rest[4] = {rnn_rest(a[0]), rnn_rest(a[1]), rnn_rest(a[2]), rnn_rest(a[3])};
      ptx::mma_m16n8k8_tf32(sums, rest, rnn_upper(b0), rnn_upper(b1));
      ptx::mma_m16n8k8_tf32(sums, upper, rnn_rest(b0), rnn_rest(b1));
    }
    ptx::mma_m16n8k8_tf32(sums, upper, rnn_upper(b0), rnn_upper(b1));
  }
}

template <class T, int G, int U, int WM, int KS, bool kBackward, bool kCluster>
struct RnnResidentBlock {
  using Unit = RnnUnit<RnnDeviceConvert<T>>;
  static constexpr int kUnits = U;
  static constexpr int kPlaces = kRnnResidentThreads / U;
  static constexpr int kWarps = kRnnResidentThreads / 32;
  static constexpr int WK = kWarps / WM;
  static constexpr int MT = G * U / 16 / WM;  // tiles of 16 rows of a warp
  static constexpr int NT = kPlaces / 8;
  static constexpr int kVector = 16 / static_cast<int>(sizeof(T));
  // Vectors of states under way, of each eight places: as many as there are registers for. 32 KiB of a block keep L2
  // busy.
  static constexpr int kAtOnce = KS > 8 ? 2 : KS < 8 / NT ? KS : 8 / NT;
  static constexpr int kSumRow = G * U + 4;             // so that stores and loads meet no bank twice
  static constexpr int kSums = WK * kPlaces * kSumRow;  // of two buffers
  static constexpr int kSharedBytes = 2 * kSums * 4;
  static_assert(MT * WM * 16 == G * U && NT * 8 == kPlaces, "a warp multiplies whole tiles");

  static constexpr int kStatePadding = 64 / static_cast<int>(sizeof(T));  // so that 16-byte loads meet no bank twice

  const RnnResident& p;
  const RnnLayer& l;
  const RnnResidentLane& lane;
  const RnnDirection& d;
  int unit0;
  int own;     // columns of the lane's own exchange
  int across;  // and of the neighbour's
  const T* own_rows;
  const T* across_rows;
  T* states = nullptr;  // of a cluster: two buffers of kPlaces rows
  std::uint64_t* barriers = nullptr;
  unsigned published = 0;
  static constexpr int kBatches = (KS + kAtOnce - 1) / kAtOnce;
  static_assert(kBatches == 1 || kBatches % 2 == 0, "the next states' first batch has a place of its own");
  std::uint32_t weights[KS][MT][8];
  uint4 words[kBatches > 1 ? 2 : 1][kAtOnce][NT];

  __device__ __forceinline__ RnnResidentBlock(const RnnResident& args, int which)
      : p(args), l(args.layer), lane(args.lane[which]), d(lane.d) {
    unit0 = static_cast<int>(blockIdx.x) * U;
    own = static_cast<int>(rnn_exchange_row(p.cell, l.units, kBackward));
    across = lane.neighbour < 0 ? 0 : own;
    own_rows = rows_of(which);
    across_rows = rows_of(lane.neighbour < 0 ? which : lane.neighbour);
  }
  __device__ __forceinline__ T* rows_of(int which) const {
    return reinterpret_cast<T*>(static_cast<unsigned char*>(p.exchange) + which * p.lane_bytes);
  }
  // First of the lane's columns of the warp's k-th vectors.
  __device__ __forceinline__ static int column(int ks) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    return ((ks * WK + warp / WM) * 4 + static_cast<int>(threadIdx.x) % 4) * kVector;
  }

  // Row `row` of the block's rows of weights, from column k on.
  __device__ __forceinline__ uint4 weight(int row, int k) const {
    const int padded = static_cast<int>(rnn_exchange_units(l.units));
    const T* from = static_cast<const T*>(k < own ? d.recurrent : d.across);
    if (kBackward && k < own) from = static_cast<const T*>(d.recurrent_t);
    const int at = k < own ? k : k - own;
    const int unit = unit0 + row % U;
    if (k >= own + across || unit >= l.units) return make_uint4(0, 0, 0, 0);
    const std::int64_t units = l.units;
    if constexpr (kBackward) {
      const int gate = at / padded;
      const int j = at % padded;
      return rnn_vector(from + (unit * std::int64_t{rnn_gates(p.cell)} + gate) * units + j, l.units - j, p.vectors);
    }
    return rnn_vector(from + (row / U * units + unit) * units + at, l.units - at, p.vectors);
  }
  __device__ __forceinline__ void load_weights() {
    const int wm = static_cast<int>(threadIdx.x) / 32 % WM;
    const int g = static_cast<int>(threadIdx.x) % 32 / 4;
#pragma unroll
    for (int ks = 0; ks < KS; ++ks) {
#pragma unroll
      for (int m = 0; m < MT; ++m) {
        const int row = (wm * MT + m) * 16 + g;
        const uint4 upper = weight(row, column(ks));
        const uint4 lower = weight(row + 8, column(ks));
        std::uint32_t(&w)[8] = weights[ks][m];
        w[0] = upper.x, w[1] = lower.x, w[2] = upper.y, w[3] = lower.y;
        w[4] = upper.z, w[5] = lower.z, w[6] = upper.w, w[7] = lower.w;
      }
    }
  }

  // Where the states of the warp's places lie in the exchange, at the columns of its first vector; 0: they come from
  // hx, or are zeros.
  struct Sources {
    std::int64_t own[NT];
    std::int64_t across[NT];
  };
  __device__ __forceinline__ Sources sources(const RnnUnitStep& s, int place0) const {
    Sources at;
#pragma unroll
    for (int n = 0; n < NT; ++n) {
      const int place = place0 + static_cast<int>(threadIdx.x) % 32 / 4 + 8 * n;
      at.own[n] = place < s.rows && place < s.previous_rows
                      ? address_of(own_rows + std::int64_t{s.previous_first + place} * own + column(0))
                      : 0;
      at.across[n] = place < s.rows && across > 0
                         ? address_of(across_rows + std::int64_t{s.first + place} * across + (column(0) - own))
                         : 0;
    }
    return at;
  }
  __device__ __forceinline__ static std::int64_t address_of(const T* from) {
    return reinterpret_cast<std::int64_t>(from);
  }
  __device__ __forceinline__ const void* source(const Sources& at, int ks, int n) const {
    const int k = column(ks);
    const std::int64_t first = k < own ? at.own[n] : k < own + across ? at.across[n] : 0;
    return first == 0 ? nullptr : reinterpret_cast<const void*>(first + ks * (WK * 4 * 16));  // NOLINT
  }
  __device__ __forceinline__ uint4 first_state(const RnnUnitStep& s, int place, int k) const {
    if (kBackward || d.hx == nullptr || place >= s.rows || k >= own) return make_uint4(0, 0, 0, 0);
    return rnn_vector(static_cast<const T*>(d.hx) + Unit::sequence_at(l.rows, place) * l.units + k, l.units - k,
                      p.vectors);
  }

  // In a cluster: begins to read the neighbour's words of a step.
  __device__ __forceinline__ void look_across(const Sources& at) {
    static_assert(!kCluster || kBatches == 1, "all vectors have a place");
#pragma unroll
    for (int ks = 0; ks < KS; ++ks) {
      if (column(ks) < own || column(ks) >= own + across) continue;
#pragma unroll
      for (int n = 0; n < NT; ++n) {
        const void* const from = source(at, ks, n);
        words[0][ks][n] = from != nullptr ? ptx::ld_relaxed_gpu_v4(from) : make_uint4(0, 0, 0, 0);
      }
    }
  }
  // What the cluster has published before this step, first the neighbour's words, which are there earlier.
  __device__ __forceinline__ void multiply_in_cluster(const Sources& at, float (&sums)[MT][NT][4]) {
    if (across > 0) {
#pragma unroll
      for (int ks = 0; ks < KS; ++ks) {
        if (column(ks) < own || column(ks) >= own + across) continue;
#pragma unroll
        for (int n = 0; n < NT; ++n) {
          if (const void* const from = source(at, ks, n); from != nullptr) {
            while (!rnn_is_there(words[0][ks][n])) words[0][ks][n] = ptx::ld_relaxed_gpu_v4(from);
          }
          __syncwarp();
          multiply_words(ks, n, words[0][ks][n], sums);
        }
      }
    }
    if (published > 0) {
      std::uint64_t* const barrier = barriers + (published - 1) % 2;
      while (!ptx::mbarrier_try_wait(barrier, (published - 1) / 2 % 2)) {
      }
      if (threadIdx.x == 0) ptx::mbarrier_arrive_expect_tx(barrier, state_bytes());
    }
    __syncwarp();
    const T* const now = states + (published + 1) % 2 * (kPlaces * (own + kStatePadding)) +
                         static_cast<int>(threadIdx.x) % 32 / 4 * (own + kStatePadding) + column(0);
    uint4 mine[KS][NT];
#pragma unroll
    for (int ks = 0; ks < KS; ++ks) {
      if (column(ks) >= own) continue;
#pragma unroll
      for (int n = 0; n < NT; ++n) {
        mine[ks][n] = *reinterpret_cast<const uint4*>(now + n * 8 * (own + kStatePadding) + ks * (WK * 4 * kVector));
      }
    }
#pragma unroll
    for (int ks = 0; ks < KS; ++ks) {
      if (column(ks) >= own) continue;
#pragma unroll
      for (int n = 0; n < NT; ++n) multiply_words(ks, n, mine[ks][n], sums);
    }
  }
  // What a place without a step yet publishes.
  __device__ __forceinline__ float initial(int place, int j) const {
    return !kBackward && d.hx != nullptr && place < l.rows.batch && j < l.units
               ? Unit::load(d.hx, Unit::sequence_at(l.rows, place) * l.units + j)
               : 0.0f;
  }
  __device__ __forceinline__ void multiply_words(int ks, int n, const uint4& w, float (&sums)[MT][NT][4]) {
#pragma unroll
    for (int m = 0; m < MT; ++m) {
      std::uint32_t(&a)[8] = weights[ks][m];
      if constexpr (sizeof(T) == 4) ptx::pin(a);  // else their parts are kept beside them
      const std::uint32_t lower[4] = {a[0], a[1], a[2], a[3]};
      const std::uint32_t upper[4] = {a[4], a[5], a[6], a[7]};
      rnn_resident_multiply<T>(sums[m][n], lower, w.x, w.y, p.whole);
      rnn_resident_multiply<T>(sums[m][n], upper, w.z, w.w, p.whole);
    }
  }
  __device__ __forceinline__ std::uint32_t state_bytes() const {
    return static_cast<std::uint32_t>(kPlaces * own * static_cast<int>(sizeof(T)));
  }
  __device__ __forceinline__ void start_cluster(float* after, int place0) {
    __shared__ std::uint64_t arrivals[2];
    barriers = arrivals;
    states = reinterpret_cast<T*>(after);
    if (threadIdx.x == 0) {
      for (int i = 0; i < 2; ++i) {
        ptx::mbarrier_init(barriers + i, 1);
        ptx::mbarrier_arrive_expect_tx(barriers + i, state_bytes());
      }
      ptx::fence_mbarrier_init();
    }
    // The buffer of the states before the first ones that are published.
    T* const first = states + kPlaces * (own + kStatePadding);
    for (int i = static_cast<int>(threadIdx.x); i < kPlaces * own; i += kRnnResidentThreads) {
      const int place = i / own;
      first[place * (own + kStatePadding) + i % own] = tile::narrow<T>(initial(place0 + place, i % own));
    }
    tile::cluster_sync(2);  // of all its blocks: the number says that there may be several
  }
  // The warp's values, a vector a lane, to all blocks of the cluster; all of its lanes come here. `at`: of the thread's
  // unit in a row.
  __device__ __forceinline__ void publish_in_cluster(int at, float value) {
    constexpr int kVectors = 32 / kVector;  // of a warp
    const int lane_id = static_cast<int>(threadIdx.x) % 32;
    const int first = lane_id % kVectors * kVector;  // lane with the first element of this lane's vector
    std::uint32_t words[4];
    if constexpr (sizeof(T) == 4) {
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = __shfl_sync(0xffffffffu, __float_as_uint(value), first + i);
    } else {
      const std::uint32_t bits = tile::narrow<T>(value).bits;
      const std::uint32_t pair = bits | __shfl_down_sync(0xffffffffu, bits, 1) << 16;
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = __shfl_sync(0xffffffffu, pair, first + 2 * i);
    }
    const int row = (static_cast<int>(threadIdx.x) - lane_id + first) / U;
    const int column_at = __shfl_sync(0xffffffffu, at, first);
    T* const to = states + published % 2 * (kPlaces * (own + kStatePadding)) + row * (own + kStatePadding) + column_at;
    const float4 vector = make_float4(__uint_as_float(words[0]), __uint_as_float(words[1]), __uint_as_float(words[2]),
                                      __uint_as_float(words[3]));
    const std::uint32_t address = ptx::shared_address(to);
    const std::uint32_t barrier = ptx::shared_address(barriers + published % 2);
    for (int rank = lane_id / kVectors; rank < static_cast<int>(gridDim.x); rank += 32 / kVectors) {
      const auto target = static_cast<std::uint32_t>(rank);
      ptx::st_async(ptx::mapa(address, target), vector, ptx::mapa(barrier, target));
    }
  }

  // Begins to read the `batch`-th vectors of the states of a step.
  __device__ __forceinline__ void look(const Sources& at, int batch) {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int ks = batch * kAtOnce + i;
      if (ks >= KS) continue;
#pragma unroll
      for (int n = 0; n < NT; ++n) {
        const void* const from = source(at, ks, n);
        if (from != nullptr) words[batch % 2][i][n] = ptx::ld_relaxed_gpu_v4(from);
      }
    }
  }
  // Sums of the warp, over its share of k, for the places from place0 on, of whose states the first batch is looked
  // for.
  __device__ __forceinline__ void multiply(const RnnUnitStep& s, const Sources& at, int place0,
                                           float (&sums)[MT][NT][4]) {
    const int mine = place0 + static_cast<int>(threadIdx.x) % 32 / 4;
#pragma unroll
    for (int batch = 0; batch < kBatches; ++batch) {
      if (batch + 1 < kBatches) look(at, batch + 1);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int ks = batch * kAtOnce + i;
        if (ks >= KS || column(ks) >= own + across) continue;
#pragma unroll
        for (int n = 0; n < NT; ++n) {
          uint4& w = words[batch % 2][i][n];
          if (const void* const from = source(at, ks, n); from != nullptr) {
            while (!rnn_is_there(w)) w = ptx::ld_relaxed_gpu_v4(from);
          } else {
            w = first_state(s, mine + 8 * n, column(ks));
          }
          __syncwarp();
          multiply_words(ks, n, w, sums);
        }
      }
    }
  }
  __device__ __forceinline__ static void leave_sums(const float (&sums)[MT][NT][4], float* meeting) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int g = static_cast<int>(threadIdx.x) % 32 / 4;
    const int t = static_cast<int>(threadIdx.x) % 4;
    float* const to = meeting + (warp / WM * kPlaces + 2 * t) * kSumRow + warp % WM * MT * 16 + g;
#pragma unroll
    for (int m = 0; m < MT; ++m) {
#pragma unroll
      for (int n = 0; n < NT; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) to[(8 * n + i % 2) * kSumRow + 16 * m + i / 2 * 8] = sums[m][n][i];
      }
    }
  }
  __device__ __forceinline__ static void take_sums(const float* meeting, int r, int j, float (&total)[G]) {
#pragma unroll
    for (int g = 0; g < G; ++g) total[g] = 0;
#pragma unroll
    for (int part = 0; part < WK; ++part) {
#pragma unroll
      for (int g = 0; g < G; ++g) total[g] += meeting[(part * kPlaces + r) * kSumRow + g * U + j];
    }
  }
  // 16 bits: the even one of two lanes stores both values. All lanes of the warp come here.
  __device__ __forceinline__ void publish(const RnnUnitStep& s, int place, int at, float value) const {
    T* const to =
        const_cast<T*>(own_rows) + std::int64_t{s.first + place} * own + at;  // NOLINT: the launch's own memory
    const std::uint32_t bits = rnn_word_bits<T>(value);
    if constexpr (sizeof(T) == 4) {
      if (place < s.rows) ptx::st_relaxed_gpu(to, bits);
    } else {
      const std::uint32_t next = __shfl_down_sync(0xffffffffu, bits, 1);
      if (threadIdx.x % 2 == 0 && place < s.rows) ptx::st_relaxed_gpu(to, bits | next << 16);
    }
  }
};

template <class T, int G, int U, int WM, int KS, bool kBackward, bool kCluster>
__global__ void __launch_bounds__(kRnnResidentThreads, 1) rnn_resident_sm90(const __grid_constant__ RnnResident p) {
  using Block = RnnResidentBlock<T, G, U, WM, KS, kBackward, kCluster>;
  using Unit = typename Block::Unit;
  using Finisher = std::conditional_t<kBackward, RnnBackwardUnit<T, 0>, RnnForwardUnit<T, G>>;
  // A lane's neighbour is dispatched before it.
  const int which = static_cast<int>(kBackward ? gridDim.z - 1 - blockIdx.z : blockIdx.z);
  Block block(p, which);
  const RnnLayer& l = p.layer;
  const RnnDirection& d = block.d;
  float* const meeting = reinterpret_cast<float*>(tile::dynamic_shared());
  float* const kept = meeting + 2 * Block::kSums + threadIdx.x;  // of a round: kRnnResidentThreads values
  const int first_place = static_cast<int>(blockIdx.y) * Block::kPlaces;
  if constexpr (kCluster) block.start_cluster(meeting + 2 * Block::kSums + kRnnResidentThreads, first_place);
  block.load_weights();

  const bool downwards = d.downwards != kBackward;
  const int r = static_cast<int>(threadIdx.x) / U;
  const int j = block.unit0 + static_cast<int>(threadIdx.x) % U;
  const int padded = static_cast<int>(rnn_exchange_units(l.units));
  const int places = static_cast<int>(gridDim.y) * Block::kPlaces;
  const Finisher finisher(l, d, j);
  for (int round = 0; first_place + round * places < l.rows.batch; ++round) {
    const int place = first_place + round * places + r;
    if (place < l.rows.batch && j < l.units) kept[round * kRnnResidentThreads] = finisher.first_kept(place);
  }
  using Inputs = typename Finisher::Inputs;
  // Turns are the rounds of places of the steps that the block has places of.
  RnnUnitStep s;
  RnnUnitStep after;
  int step = -1;
  const auto next_step = [&]() {
    do {
      ++step;
      after = step < l.rows.steps ? rnn_unit_step(l.rows, d.downwards, kBackward, step) : RnnUnitStep{};
    } while (step < l.rows.steps && first_place >= after.rows);
  };
  int place0 = first_place;
  int round = 0;
  Inputs inputs;
  Inputs next;
  typename Block::Sources at;
  const auto fetch = [&](const RnnUnitStep& of, int from) {
    if (from + r < of.rows && j < l.units) finisher.fetch(of, from + r, &next);
  };
  next_step();
  s = after;
  fetch(s, place0);
  if constexpr (kCluster) {
    at = block.sources(s, place0);
    block.look_across(at);
  } else {
    at = block.sources(s, place0);
    block.look(at, 0);
  }
  next_step();
  unsigned turn = 0;
#pragma unroll 1
  while (s.rows > 0) {
    inputs = next;
    const int place = place0 + r;
    const bool finishes = place < s.rows && j < l.units;
    const bool same = place0 + places < s.rows;
    float sums[Block::MT][Block::NT][4] = {};
    if constexpr (kCluster) {
      block.multiply_in_cluster(at, sums);
    } else {
      block.multiply(s, at, place0, sums);
    }
    // What the next turn needs, behind no load that waits and before the next states are looked for.
    if (same) {
      fetch(s, place0 + places);
    } else {
      fetch(after, first_place);
    }
    if constexpr (kCluster) {
      if (block.across > 0) {
        at = block.sources(after, first_place);
        block.look_across(at);
      }
    } else {
      at = same ? block.sources(s, place0 + places) : block.sources(after, first_place);
      block.look(at, 0);
    }
    float* const here = meeting + turn++ % 2 * Block::kSums;
    Block::leave_sums(sums, here);
    __syncthreads();
    float total[G];
    Block::take_sums(here, r, j - block.unit0, total);
    // Of a cluster, whose places are one round: whether its next step is to come.
    const bool goes_on = after.rows > 0;
    const auto publish = [&](int column, float value) {
      if constexpr (kCluster) {
        if (goes_on) block.publish_in_cluster(column, value);
      }
      if (!kCluster || block.lane.feeds) block.publish(s, place, column, value);
    };
    float* const mine = kept + round * kRnnResidentThreads;
    typename Finisher::Outputs out{};
    if (finishes) {
      out = finisher.finish(s, place, inputs, total, mine, block.across > 0);
    } else if constexpr (kCluster && !kBackward) {
      if (downwards) out.hidden = block.initial(place, j);
    }
    if constexpr (kBackward) {
      const bool gru = p.cell == RnnCell::gru;
#pragma unroll
      for (int g = 0; g < 4; ++g) {
        if (g < rnn_gates(p.cell)) publish(g * padded + j, gru && g == 2 ? out.slot[3] : out.slot[g]);
      }
    } else {
      publish(j, out.hidden);
    }
    if (finishes) finisher.store(s, place, out);
    if (kCluster && goes_on) ++block.published;
    if (same) {
      place0 += places;
      ++round;
      continue;
    }
    place0 = first_place;
    round = 0;
    s = after;
    next_step();
  }
}

template <class T, int G, int U, int WM, int KS, bool kBackward>
bool launch_rnn_resident_cluster(const RnnResident& p, cudaStream_t stream) {
  using Block = RnnResidentBlock<T, G, U, WM, KS, kBackward, true>;
  constexpr auto kKernel = &rnn_resident_sm90<T, G, U, WM, KS, kBackward, true>;
  constexpr unsigned kMaxBlocks = 16;
  const auto row = rnn_exchange_row(p.cell, p.layer.units, kBackward) + Block::kStatePadding;
  const auto bytes = static_cast<std::size_t>(Block::kSharedBytes + kRnnResidentThreads * 4 +
                                              2 * Block::kPlaces * row * std::int64_t{sizeof(T)});
  const auto size = static_cast<unsigned>(p.shape.groups);
  const auto tiles = static_cast<unsigned>((p.layer.rows.batch + Block::kPlaces - 1) / Block::kPlaces);
  const cuda::LaunchConfig config = {.blocks = dim3(size, tiles, static_cast<unsigned>(p.lanes)),
                                     .threads = dim3(kRnnResidentThreads),
                                     .shared_bytes = bytes,
                                     .cluster = dim3(size)};
  if (size > kMaxBlocks || bytes > kRnnResidentShared) return false;
  cuda::allow_shared_memory<kKernel>(kRnnResidentShared);
  static int known[kMaxBlocks + 1][cuda::kDevicesKnown] = {};
  const int resident = cuda::cached_query(known[size], [&] {
    int clusters = 0;
    const void* const kernel = reinterpret_cast<const void*>(kKernel);
    cuda::LaunchConfig one = config;
    one.blocks = dim3(size);
    one.shared_bytes = kRnnResidentShared;
    if (cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1) != cudaSuccess ||
        cuda::max_resident_clusters(kernel, one, &clusters) != cudaSuccess) {
      (void)cudaGetLastError();
      return 0;
    }
    return clusters;
  });
  if (static_cast<std::int64_t>(tiles) * p.lanes > resident) return false;
  cuda::launch_kernel(kKernel, config, stream, p);
  return true;
}

template <class T, int G, int U, int WM, int KS, bool kBackward>
bool launch_rnn_resident_block(const RnnResident& p, cudaStream_t stream) {
  using Block = RnnResidentBlock<T, G, U, WM, KS, kBackward, false>;
  constexpr auto kKernel = &rnn_resident_sm90<T, G, U, WM, KS, kBackward, false>;
  constexpr int kMaxShared = Block::kSharedBytes + kRnnResidentRounds * kRnnResidentThreads * 4;
  cuda::allow_shared_memory<kKernel>(kMaxShared);
  static int known[cuda::kDevicesKnown] = {};
  const int resident = cuda::cached_query(known, [] {
    int blocks = 0;
    int device = 0;
    int multiprocessors = 0;
    if (cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kKernel, kRnnResidentThreads, kMaxShared) !=
            cudaSuccess ||
        cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess) {
      (void)cudaGetLastError();
      return 0;
    }
    return blocks * multiprocessors;
  });
  const dim3 blocks(static_cast<unsigned>(p.shape.groups), static_cast<unsigned>(p.shape.tiles),
                    static_cast<unsigned>(p.lanes));
  if (static_cast<std::int64_t>(blocks.x) * blocks.y * blocks.z > resident) return false;
  cuda::launch_kernel(
      kKernel,
      {.blocks = blocks,
       .threads = dim3(kRnnResidentThreads),
       .shared_bytes = static_cast<std::size_t>(Block::kSharedBytes + p.shape.rounds * kRnnResidentThreads * 4),
       .cooperative = true},
      stream, p);
  return true;
}

// The rows of `rnn_resident_shape` as instances.
template <class T>
bool launch_rnn_resident_type(const RnnResident& p, cudaStream_t stream) {
  const bool wide = p.shape.units == 32;
  if (p.in_clusters) {
    if (p.backward) return wide && launch_rnn_resident_cluster<T, 1, 32, 1, 8, true>(p, stream);
    if (p.cell == RnnCell::lstm) return wide && launch_rnn_resident_cluster<T, 4, 32, 2, 4, false>(p, stream);
    if (p.cell == RnnCell::gru) return wide && launch_rnn_resident_cluster<T, 3, 32, 2, 5, false>(p, stream);
    return false;
  }
  if (p.backward) {
    return wide ? launch_rnn_resident_block<T, 1, 32, 1, 8, true>(p, stream)
                : launch_rnn_resident_block<T, 1, 16, 1, 16, true>(p, stream);
  }
  switch (rnn_gates(p.cell)) {
    case 4:
      return wide ? launch_rnn_resident_block<T, 4, 32, 2, 4, false>(p, stream)
                  : launch_rnn_resident_block<T, 4, 16, 1, 4, false>(p, stream);
    case 3:
      return wide ? launch_rnn_resident_block<T, 3, 32, 2, 5, false>(p, stream)
                  : launch_rnn_resident_block<T, 3, 16, 1, 5, false>(p, stream);
    default:
      return wide && launch_rnn_resident_block<T, 1, 32, 1, 8, false>(p, stream);
  }
}

}  // namespace gpudnn::kernels
