// A whole sweep of a recurrent layer in one launch, the recurrent matrix divided over the grid both ways: half and
// bfloat16, no projection. Hopper.
// SPDX-License-Identifier: Apache-2.0
//
// Sums are weights times states: h, backward the gradients of the gates. A cluster owns 128 rows of the weights (units,
// forward their gates); its blocks divide the summed index, so that a block holds a square of the matrix in shared
// memory over all steps, and takes in a part of the states alone. A step of a block, for a tile of kPlaces places:
//
//   1. The states of its columns come from L2, from one block of each cluster: the one with its own rank. They are
//      words that say themselves that they have come (below), and go to shared memory as an operand of wgmma.
//   2. wgmma: D[128 rows, kPlaces] = weights * states.
//   3. Each block of the cluster gets the sums of the rows that it finishes, by st.async into its shared memory, and
//   adds
//      the parts in the order of the ranks: always the same.
//   4. It finishes its units, and publishes the states.
//
// The columns of a block are the units that blocks of its rank finish, so the blocks of one rank exchange states among
// themselves, and all of them have read the states of a step before one of them has those of the next.
//
// The exchange. A word of 32 bits, two units, never has all bits set (a NaN with that pattern is stored as another),
// and its place is set to all bits before: whoever needs it reads it until it is there. Memory for rnn_split_slots
// steps goes round. Once in a period P of steps, at the end of step i, a block sets its own words of the steps i + P +
// 1 to i + 2 P: whoever reads has finished with what lay there, of step i - 2 or before. A fence in each thread at the
// same step orders these stores before the words that follow, and, in the threads that have seen those, before they
// look there; it goes while the next words are on their way. Places without a sequence at the step publish too: what
// they begin with, or zeros.
//
// Where the grid does not fit as clusters, its blocks are none, and the sums of 3 go through L2 as the states do.
//
// All blocks must be resident at once: the launch is cooperative, and is offered only where the device's occupancy
// says that the grid fits.
#pragma once

#include "core/launch/cached_query.hpp"
#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/ptx/fence_gpu.cuh"
#include "kernels/ptx/gpu_relaxed.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/ptx/wgmma_shape.cuh"
#include "kernels/rnn/split.hpp"
#include "kernels/rnn/unit_sm90.cuh"
#include "kernels/tile/cluster.cuh"
#include "kernels/tile/dynamic_shared.cuh"
#include "kernels/tile/wgmma_operand.cuh"

namespace gpudnn::kernels {

// G: gates of a unit among the rows.
template <class T, int G, int N, bool kBackward, bool kCluster>
struct RnnSplitBlock {
  using Unit = RnnUnit<RnnDeviceConvert<T>>;
  static constexpr int kRows = kRnnSplitRows;
  static constexpr int kPanel = 64;                                                     // columns of 128 bytes
  static constexpr int kElements = (16 * N + kRnnSplitThreads - 1) / kRnnSplitThreads;  // of a thread, at most
  static constexpr int kVectors = rnn_split_most_panels(N) * N * 8 / kRnnSplitThreads;  // of a thread, at most

  const RnnLayer& l;
  const RnnSplitShape& shape;
  const RnnDirection& d;
  int rank;
  int group;
  int part_rows;  // of the sums that a block of the cluster finishes
  int column_gates;
  int columns;  // of the block
  std::uint32_t tile_bytes;
  std::uint32_t wanted = 0;  // of the thread's vectors of states, those with columns of the block
  unsigned char* weights;
  unsigned char* states;
  float* received;       // two buffers of kRows * N
  std::uint64_t* full;   // of the buffers: the sums of all ranks are there
  std::uint64_t* empty;  // of the buffers of all ranks: they have been read
  unsigned uses[2] = {};

  __device__ __forceinline__ RnnSplitBlock(const RnnSplit& p, int direction, unsigned char* shared)
      : l(p.layer), shape(p.shape), d(p.layer.direction[direction]) {
    rank = static_cast<int>(blockIdx.x) % shape.parts;
    group = static_cast<int>(blockIdx.x) / shape.parts;
    part_rows = kRows / shape.parts;
    column_gates = kBackward ? rnn_gates(l.cell) : 1;
    columns = shape.groups * column_gates * shape.owned;
    tile_bytes = static_cast<std::uint32_t>(shape.panels * N * 128);
    weights = shared;
    states = weights + shape.panels * kRows * 128;
    received = reinterpret_cast<float*>(states + tile_bytes);
    full = reinterpret_cast<std::uint64_t*>(received + (kCluster ? 2 * kRows * N : 0));
    empty = full + 2;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int index = static_cast<int>(threadIdx.x) + i * kRnnSplitThreads;
      const int k = index / (N * 8) * kPanel + (index % 8 ^ index / 8 % 8) * 8;
      if (index / (N * 8) < shape.panels && k < columns) wanted |= 1u << i;
    }
  }
  __device__ __forceinline__ int first_unit(int of_group, int of_rank) const {
    return (of_group * shape.parts + of_rank) * shape.owned;
  }
  // Where eight columns from column k on of a row lie in a tile of `rows` rows: panels of rows of 128 bytes, swizzled
  // as wgmma reads them.
  __device__ __forceinline__ static int at(int rows, int row, int k) {
    return (k / kPanel * rows + row) * 128 + (k % kPanel / 8 ^ row % 8) * 16;
  }

  // Column k is a unit of a block of this rank, and backward a gate.
  __device__ __forceinline__ T weight(int unit, int gate, int k) const {
    const int of_group = k / (column_gates * shape.owned);
    const int column_gate = k / shape.owned % column_gates;
    const int j = first_unit(of_group, rank) + k % shape.owned;
    if (k >= columns || unit >= l.units || j >= l.units) return T{0};
    const std::int64_t units = l.units;
    if constexpr (kBackward) {
      return static_cast<const T*>(d.recurrent_t)[(unit * std::int64_t{column_gates} + column_gate) * units + j];
    }
    return static_cast<const T*>(d.recurrent)[(gate * units + unit) * units + j];
  }
  __device__ __forceinline__ void load_weights(bool vectors) const {
    const int chunks = shape.panels * 8;
    for (int i = static_cast<int>(threadIdx.x); i < kRows * chunks; i += kRnnSplitThreads) {
      const int row = i / chunks;
      const int k = i % chunks * 8;
      const int gate = row % part_rows / shape.owned;
      const int unit = gate < G ? first_unit(group, row / part_rows) + row % shape.owned : l.units;
      uint4 words;
      if (shape.owned % 8 == 0) {
        const int j = first_unit(k / (column_gates * shape.owned), rank) + k % shape.owned;
        const std::int64_t units = l.units;
        const T* from = static_cast<const T*>(d.recurrent) + (gate * units + unit) * units + j;
        if constexpr (kBackward) {
          from = static_cast<const T*>(d.recurrent_t) +
                 (unit * std::int64_t{column_gates} + k / shape.owned % column_gates) * units + j;
        }
        words = rnn_vector(from, k < columns && unit < l.units ? l.units - j : 0, vectors);
      } else {
        std::uint32_t pairs[4];
#pragma unroll
        for (int pair = 0; pair < 4; ++pair) {
          pairs[pair] = weight(unit, gate, k + 2 * pair).bits | std::uint32_t{weight(unit, gate, k + 2 * pair + 1).bits}
                                                                    << 16;
        }
        words = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
      }
      *reinterpret_cast<uint4*>(weights + at(kRows, row, k)) = words;
    }
    for (int i = static_cast<int>(threadIdx.x) * 16; i < static_cast<int>(tile_bytes); i += kRnnSplitThreads * 16) {
      *reinterpret_cast<uint4*>(states + i) = make_uint4(0, 0, 0, 0);
    }
  }
  __device__ __forceinline__ std::uint32_t received_bytes() const { return kRows * N * 4; }
  __device__ __forceinline__ void start_barriers() const {
    if (threadIdx.x == 0) {
      for (int i = 0; i < 2; ++i) {
        ptx::mbarrier_init(full + i, 1);
        ptx::mbarrier_init(empty + i, static_cast<std::uint32_t>(shape.parts));
        ptx::mbarrier_arrive_expect_tx(full + i, received_bytes());
      }
      ptx::fence_mbarrier_init();
    }
  }

  // States as they lie in the exchange, from `from` on: the same bytes as in shared memory. What has not come is looked
  // for again all at once: a look takes as long for many as for one.
  __device__ __forceinline__ void receive(const unsigned char* from) const {
    const auto at_thread = [&](int i) { return (static_cast<int>(threadIdx.x) + i * kRnnSplitThreads) * 16; };
    uint4 words[kVectors];
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      if (wanted >> i & 1) words[i] = ptx::ld_relaxed_gpu_v4(from + at_thread(i));
    }
    bool looks;
    do {
      looks = false;
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        uint4& w = words[i];
        if ((wanted >> i & 1) == 0) continue;
        if (w.x != kRnnNothing && w.y != kRnnNothing && w.z != kRnnNothing && w.w != kRnnNothing) continue;
        w = ptx::ld_relaxed_gpu_v4(from + at_thread(i));
        looks = true;
      }
    } while (looks);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      if (wanted >> i & 1) *reinterpret_cast<uint4*>(states + at_thread(i)) = words[i];
    }
    ptx::fence_proxy_async();
    __syncthreads();
  }

  __device__ __forceinline__ void start_products(float (&sums)[N / 2]) const {
    const int half = static_cast<int>(threadIdx.x) / 128;
    const std::uint64_t a0 = tile::operand_descriptor<128>(weights + half * 64 * 128, 0);
    const std::uint64_t b0 = tile::operand_descriptor<128>(states, 0);
    ptx::wgmma_fence();
#pragma unroll 1
    for (int panel = 0; panel < shape.panels; ++panel) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        ptx::wgmma_ss<T, T, N>(sums, a0 + static_cast<unsigned>(panel * kRows * 8 + k * 2),
                               b0 + static_cast<unsigned>(panel * N * 8 + k * 2), panel + k);
      }
    }
    ptx::wgmma_commit_group();
  }
  // A part's sums lie in blocks of eight places: [rank][places / 8][row][8], pairs of places moved about so that
  // neither stores nor loads meet a bank twice.
  __device__ __forceinline__ int sum_at(int from_rank, int place, int row) const {
    return ((from_rank * (N / 8) + place / 8) * part_rows + row) * 8 + ((place % 8 / 2 ^ row / 4 % 4) * 2 + place % 2);
  }
  // Into the buffer `which` of each rank, once all ranks have read what was there.
  __device__ __forceinline__ void send(const float (&sums)[N / 2], int which) const {
    if (uses[which] > 0) wait(empty + which, uses[which] - 1);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const std::uint32_t buffer = ptx::shared_address(received + which * (kRows * N));
    const std::uint32_t barrier = ptx::shared_address(full + which);
#pragma unroll
    for (int lower = 0; lower < 2; ++lower) {
      const int row = static_cast<int>(threadIdx.x) / 32 * 16 + lane / 4 + 8 * lower;
      const auto target = static_cast<std::uint32_t>(row / part_rows);
      const std::uint32_t at_target = ptx::mapa(buffer, target);
      const std::uint32_t its_barrier = ptx::mapa(barrier, target);
#pragma unroll
      for (int block = 0; block < N / 8; ++block) {
        const int to = sum_at(rank, 8 * block + lane % 4 * 2, row % part_rows);
        const std::uint64_t pair = std::uint64_t{__float_as_uint(sums[4 * block + 2 * lower + 1])} << 32 |
                                   __float_as_uint(sums[4 * block + 2 * lower]);
        ptx::st_async(at_target + static_cast<std::uint32_t>(to) * 4, pair, its_barrier);
      }
    }
  }
  __device__ __forceinline__ static void wait(std::uint64_t* barrier, unsigned use) {
    while (!ptx::mbarrier_try_wait_acquire_cluster(barrier, use % 2)) {
    }
  }
  // Waits until the parts of all ranks are there.
  __device__ __forceinline__ const float* wait_for_sums(int which) {
    wait(full + which, uses[which]);
    if (threadIdx.x == 0) ptx::mbarrier_arrive_expect_tx(full + which, received_bytes());
    return received + which * (kRows * N);
  }
  // All threads of the block have taken their sums.
  __device__ __forceinline__ void release_sums(int which) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < shape.parts) {
      ptx::mbarrier_arrive_cluster(ptx::mapa(ptx::shared_address(empty + which), threadIdx.x));
    }
    ++uses[which];
  }
  __device__ __forceinline__ void take_sums(const float* from, int place, int f, float (&total)[G]) const {
    int at_part[G];
#pragma unroll
    for (int g = 0; g < G; ++g) at_part[g] = sum_at(0, place, g * shape.owned + f);
#pragma unroll 8
    for (int part = 0; part < shape.parts; ++part) {
#pragma unroll
      for (int g = 0; g < G; ++g) total[g] += from[part * (N * part_rows) + at_part[g]];
    }
  }

  // Without clusters the sums go through L2, a word each, and say themselves that they have come. A part is
  // [places][rows].
  __device__ __forceinline__ void store_sums(const float (&sums)[N / 2], std::uint32_t* parts_of_group) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int lower = 0; lower < 2; ++lower) {
      const int row = static_cast<int>(threadIdx.x) / 32 * 16 + lane / 4 + 8 * lower;
      std::uint32_t* const to = parts_of_group + (row / part_rows * shape.parts + rank) * (N * part_rows) +
                                row % part_rows + lane % 4 * 2 * part_rows;
#pragma unroll
      for (int block = 0; block < N / 8; ++block) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const std::uint32_t bits = __float_as_uint(sums[4 * block + 2 * lower + i]);
          ptx::st_relaxed_gpu(to + (8 * block + i) * part_rows, bits == kRnnNothing ? 0x7fffffffu : bits);
        }
      }
    }
  }
  __device__ __forceinline__ void clear_sums(std::uint32_t* parts_of_group) const {
    for (int i = static_cast<int>(threadIdx.x); i < kRows * N; i += kRnnSplitThreads) {
      const int part = i / (N * part_rows);
      ptx::st_relaxed_gpu(parts_of_group + (part * shape.parts + rank) * (N * part_rows) + i % (N * part_rows),
                          kRnnNothing);
    }
  }
  __device__ __forceinline__ void take_stored_sums(const std::uint32_t* parts_of_group, int f, int place_step,
                                                   float (&total)[kElements][G]) const {
    const std::uint32_t* const from = parts_of_group + rank * shape.parts * (N * part_rows) + f;
    std::uint32_t words[kElements][kRnnSplitParts][G];
    const auto word_at = [&](int e, int part, int g) {
      const int place = static_cast<int>(threadIdx.x) / shape.owned + e * place_step;
      return from + part * (N * part_rows) + (place < N ? place : 0) * part_rows + g * shape.owned;
    };
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
#pragma unroll
      for (int part = 0; part < kRnnSplitParts; ++part) {
#pragma unroll
        for (int g = 0; g < G; ++g) words[e][part][g] = ptx::ld_relaxed_gpu(word_at(e, part, g));
      }
    }
    bool looks;
    do {
      looks = false;
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
#pragma unroll
        for (int part = 0; part < kRnnSplitParts; ++part) {
#pragma unroll
          for (int g = 0; g < G; ++g) {
            if (words[e][part][g] != kRnnNothing) continue;
            words[e][part][g] = ptx::ld_relaxed_gpu(word_at(e, part, g));
            looks = true;
          }
        }
      }
    } while (looks);
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
#pragma unroll
      for (int part = 0; part < kRnnSplitParts; ++part) {
#pragma unroll
        for (int g = 0; g < G; ++g) total[e][g] += __uint_as_float(words[e][part][g]);
      }
    }
  }

  // The even one of two threads stores both values; all threads of a warp come here.
  __device__ __forceinline__ void publish(unsigned char* to, bool there, int place, int gate, int f,
                                          float value) const {
    std::uint32_t bits = tile::narrow<T>(value).bits;
    if (bits == 0xffffu) bits = 0x7fffu;
    const std::uint32_t next = __shfl_down_sync(0xffffffffu, bits, 1);
    const int k = (group * column_gates + gate) * shape.owned + f;
    if (there && f % 2 == 0) ptx::st_relaxed_gpu(to + at(N, place, k) + k % 8 * 2, bits | next << 16);
  }
  __device__ __forceinline__ void clear(unsigned char* to, int place, int f) const {
    for (int gate = 0; gate < column_gates; ++gate) {
      const int k = (group * column_gates + gate) * shape.owned + f;
      ptx::st_relaxed_gpu(to + at(N, place, k) + k % 8 * 2, kRnnNothing);
    }
  }
};

template <class T, int G, int N, bool kBackward, bool kCluster>
__global__ void __launch_bounds__(kRnnSplitThreads, 1) rnn_split_sm90(const __grid_constant__ RnnSplit p) {
  using Block = RnnSplitBlock<T, G, N, kBackward, kCluster>;
  using Unit = typename Block::Unit;
  using Finisher = std::conditional_t<kBackward, RnnBackwardFinisher<T>, RnnForwardFinisher<T, G>>;
  constexpr int kElements = Block::kElements;
  unsigned char* shared = tile::dynamic_shared();
  shared += (1024 - ptx::shared_address(shared) % 1024) % 1024;
  const int direction = static_cast<int>(blockIdx.z);
  Block block(p, direction, shared);
  const RnnLayer& l = p.layer;
  const RnnDirection& d = block.d;
  const RnnSplitShape& shape = p.shape;
  const int tid = static_cast<int>(threadIdx.x);
  float* const kept = reinterpret_cast<float*>(block.empty + 2) + tid;

  if constexpr (kCluster) block.start_barriers();
  block.load_weights(p.vectors);
  ptx::fence_proxy_async();
  tile::cluster_sync(kCluster ? 2 : 1);  // of all its blocks: the number says that there are several

  const auto offset = [&](std::int32_t t) {
    return l.rows.device_offsets != nullptr ? std::int64_t{l.rows.device_offsets[t]} : std::int64_t{t} * l.rows.batch;
  };
  const bool downwards = d.downwards != kBackward;
  const int steps = l.rows.steps;
  const int slices = static_cast<int>(gridDim.y);
  const int slots = rnn_split_slots(p.period, steps);
  const int f = tid % shape.owned;
  const int j = block.first_unit(block.group, block.rank) + f;
  const int place_step = kRnnSplitThreads / shape.owned;
  const Finisher finisher(l, d, j);
  // States with the number `data`, those that step `data` multiplies with, of a tile and this rank.
  const auto exchange = [&](int tile, int data) {
    const std::int64_t at = std::int64_t{direction * shape.tiles + tile} * slots + data % slots;
    return static_cast<unsigned char*>(p.exchange) + (at * shape.parts + block.rank) * block.tile_bytes;
  };
  // Sums of a step without clusters, of this block's group.
  const auto stored_sums = [&](int tile, int step) {
    const std::int64_t at = std::int64_t{direction * shape.tiles + tile} * slots + step % slots;
    return static_cast<std::uint32_t*>(p.sums) +
           (at * shape.groups + block.group) * (shape.parts * Block::kRows * std::int64_t{N});
  };
  // What a place without a step yet publishes.
  const auto initial = [&](int place) {
    return !kBackward && d.hx != nullptr && place < l.rows.batch && j < l.units
               ? Unit::load(d.hx, Unit::sequence_at(l.rows, place) * l.units + j)
               : 0.0f;
  };
  // Columns beyond the last unit's that share a vector with it.
  if (block.group == shape.groups - 1 && block.columns % 8 != 0) {
    for (int tile = static_cast<int>(blockIdx.y); tile < shape.tiles; tile += slices) {
      for (int data = 0; data < slots; ++data) {
        for (int i = tid; i < N * 4; i += kRnnSplitThreads) {
          const int k = block.columns / 8 * 8 + i % 4 * 2;
          if (k >= block.columns) ptx::st_relaxed_gpu(exchange(tile, data) + Block::at(N, i / 4, k) + k % 8 * 2, 0);
        }
      }
    }
  }
  const bool has_first = !kBackward && d.hx != nullptr;
  if (has_first) {
    for (int tile = static_cast<int>(blockIdx.y); tile < shape.tiles; tile += slices) {
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        const int r = tid / shape.owned + e * place_step;
        block.publish(exchange(tile, 0), r < N, r, 0, f, initial(tile * N + r));
      }
    }
  }

  using Inputs = typename Finisher::Inputs;
#pragma unroll 1
  for (std::int32_t i = 0; i < steps; ++i) {
    const std::int32_t t = downwards ? steps - 1 - i : i;
    const RnnStep s = rnn_step(l.rows, downwards, t, offset);
    RnnStep made;
    if constexpr (kBackward) made = rnn_step(l.rows, !downwards, t, offset);
    const bool multiplies = i > 0 || has_first;

    const auto begin = [&](int tile, int which, Inputs(&inputs)[kElements]) {
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        const int place = tile * N + tid / shape.owned + e * place_step;
        if (place < s.rows && place < (tile + 1) * N && j < l.units) finisher.fetch(s, made, place, &inputs[e]);
      }
      if (!multiplies) return;
      block.receive(exchange(tile, i));
      float sums[N / 2];
      block.start_products(sums);
      ptx::wgmma_wait_group<0>();
      ptx::pin(sums);
      if constexpr (kCluster) {
        block.send(sums, which);
      } else {
        block.store_sums(sums, stored_sums(tile, i));
      }
      __syncthreads();  // the states have been read
    };
    const auto end = [&](int tile, int which, int round, Inputs(&inputs)[kElements]) {
      float total[kElements][G] = {};
      if (!kCluster && multiplies) block.take_stored_sums(stored_sums(tile, i), f, place_step, total);
      if (kCluster && multiplies) {
        const float* const from = block.wait_for_sums(which);
#pragma unroll
        for (int e = 0; e < kElements; ++e) {
          const int r = tid / shape.owned + e * place_step;
          if (r < N) block.take_sums(from, r, f, total[e]);
        }
        block.release_sums(which);
      }
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        const int r = tid / shape.owned + e * place_step;
        const int place = tile * N + r;
        const bool there = r < N;
        const bool finishes = there && place < s.rows && j < l.units;
        float* const mine = kept + (round * kElements + e) * kRnnSplitThreads;
        unsigned char* const to = exchange(tile, i + 1);
        if constexpr (kBackward) {
          typename Unit::Gradients out{};
          if (finishes) out = finisher.finish(s, made, place, &inputs[e], total[e], mine, false);
          if (i + 1 < steps) {
            const bool gru = l.cell == RnnCell::gru;
#pragma unroll
            for (int g = 0; g < 4; ++g) {
              if (g < block.column_gates) block.publish(to, there, r, g, f, gru && g == 2 ? out.slot[3] : out.slot[g]);
            }
          }
          if (finishes) Unit::store_gradients(l, d, s, place, j, out);
        } else {
          typename Unit::Outputs out{};
          if (finishes) {
            out = finisher.finish(s, made, place, &inputs[e], total[e], mine, false);
          } else if (downwards) {
            out.hidden = initial(place);
          }
          if (i + 1 < steps) block.publish(to, there, r, 0, f, out.hidden);
          if (finishes) Unit::store_unit(l, d, s, place, j, out);
        }
      }
      if (i == 0 || i % p.period != 0) return;
      for (int data = i + p.period + 1; data <= i + 2 * p.period && data < steps; ++data) {
        if constexpr (!kCluster) block.clear_sums(stored_sums(tile, data));
        for (int r = tid / shape.owned; r < N; r += place_step) {
          if (f % 2 == 0) block.clear(exchange(tile, data), r, f);
        }
      }
      ptx::fence_acq_rel_gpu();
    };
    // Two tiles at a time: one is multiplied while the other one's sums are on their way.
    int round = 0;
#pragma unroll 1
    for (int tile = static_cast<int>(blockIdx.y); tile < shape.tiles; tile += 2 * slices, round += 2) {
      const int other = tile + slices;
      Inputs inputs[2][kElements];
      begin(tile, 0, inputs[0]);
      if (other < shape.tiles) begin(other, 1, inputs[1]);
      end(tile, 0, round, inputs[0]);
      if (other < shape.tiles) end(other, 1, round + 1, inputs[1]);
    }
  }
  if constexpr (kCluster) tile::cluster_sync(2);  // no block leaves before the last word for it has come
}

// Clusters that are resident with all of a multiprocessor's shared memory, whatever the instance.
template <class T>
void rnn_split_resident_type(int (&clusters)[kRnnSplitClusterSizes]) {
  constexpr auto kKernel = &rnn_split_sm90<T, 1, 8, true, true>;
  const void* const kernel = reinterpret_cast<const void*>(kKernel);
  static int known[kRnnSplitClusterSizes][cuda::kDevicesKnown] = {};
  cuda::allow_shared_memory<kKernel>(kRnnSplitShared);
  for (int i = 0; i < kRnnSplitClusterSizes; ++i) {
    clusters[i] = cuda::cached_query(known[i], [&] {
      int resident = 0;
      int device = 0;
      int multiprocessors = 1;
      const cuda::LaunchConfig config = cuda::clusters_of(1, 1 << i, kRnnSplitThreads, kRnnSplitShared);
      const bool knows =
          i == 0 ? cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kKernel, kRnnSplitThreads,
                                                                 kRnnSplitShared) == cudaSuccess &&
                       cudaGetDevice(&device) == cudaSuccess &&
                       cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device) == cudaSuccess
                 : cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1) == cudaSuccess &&
                       cuda::max_resident_clusters(kernel, config, &resident) == cudaSuccess;
      if (!knows) (void)cudaGetLastError();
      return knows ? resident * multiprocessors : 0;
    });
  }
}

template <class T, int G, int N, bool kBackward, bool kCluster>
bool launch_rnn_split_block(const RnnSplit& p, cudaStream_t stream) {
  constexpr auto kKernel = &rnn_split_sm90<T, G, N, kBackward, kCluster>;
  cuda::allow_shared_memory<kKernel>(kRnnSplitShared);
  const auto parts = static_cast<unsigned>(p.shape.parts);
  if (kCluster && parts > 8 &&
      cudaFuncSetAttribute(reinterpret_cast<const void*>(kKernel), cudaFuncAttributeNonPortableClusterSizeAllowed, 1) !=
          cudaSuccess) {
    return false;
  }
  return cuda::launch_kernel(
             kKernel,
             {.blocks = dim3(parts * static_cast<unsigned>(p.shape.groups), static_cast<unsigned>(p.shape.slices),
                             static_cast<unsigned>(p.layer.directions)),
              .threads = dim3(kRnnSplitThreads),
              .shared_bytes = kRnnSplitShared,
              .cluster = dim3(kCluster ? parts : 1),
              .cooperative = true},
             stream, p) == cudaSuccess;
}

template <class T, int G, bool kBackward>
bool launch_rnn_split_gates(const RnnSplit& p, cudaStream_t stream) {
  if constexpr (G == 1) {
    if (!p.shape.in_clusters) return launch_rnn_split_block<T, G, 32, kBackward, false>(p, stream);
  }
  switch (p.shape.places) {
    case 8:
      return launch_rnn_split_block<T, G, 8, kBackward, true>(p, stream);
    case 16:
      return launch_rnn_split_block<T, G, 16, kBackward, true>(p, stream);
    case 24:
      return launch_rnn_split_block<T, G, 24, kBackward, true>(p, stream);
    case 32:
      return launch_rnn_split_block<T, G, 32, kBackward, true>(p, stream);
    case 48:
      return launch_rnn_split_block<T, G, 48, kBackward, true>(p, stream);
    default:
      return false;
  }
}

template <class T>
bool launch_rnn_split_type(const RnnSplit& p, bool backward, cudaStream_t stream) {
  if (backward) return launch_rnn_split_gates<T, 1, true>(p, stream);
  switch (rnn_gates(p.layer.cell)) {
    case 4:
      return launch_rnn_split_gates<T, 4, false>(p, stream);
    case 3:
      return launch_rnn_split_gates<T, 3, false>(p, stream);
    default:
      return launch_rnn_split_gates<T, 1, false>(p, stream);
  }
}

}  // namespace gpudnn::kernels
