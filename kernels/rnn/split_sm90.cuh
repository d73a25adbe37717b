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
//      adds the parts in the order of the ranks: always the same. A cluster may be one block.
//   4. It finishes its units, and publishes the states.
//
// A block with several tiles has two sets of 256 threads. Each goes through tiles of its own, with states, sums and
// barriers of its own: while one waits, the other works. What a unit needs beside its sums is loaded a turn ahead,
// behind the looks for states: a load waits for those that were begun before it.
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
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/fence_gpu.cuh"
#include "kernels/ptx/gpu_relaxed.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/st_shared.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/ptx/wgmma_shape.cuh"
#include "kernels/rnn/split.hpp"
#include "kernels/rnn/unit_sm90.cuh"
#include "kernels/tile/cluster.cuh"
#include "kernels/tile/dynamic_shared.cuh"
#include "kernels/tile/wgmma_operand.cuh"

namespace gpudnn::kernels {

// kGates: of the cell; G: gates of a unit among the rows.
template <class T, int kGates, int N, bool kBackward, bool kCluster>
struct RnnSplitBlock {
  using Unit = RnnUnit<RnnDeviceConvert<T>>;
  static constexpr int G = kBackward ? 1 : kGates;
  static constexpr int kColumnGates = kBackward ? kGates : 1;
  static constexpr int kSets = rnn_split_most_sets(N);
  static constexpr int kRows = kRnnSplitRows;
  static constexpr int kPanel = 64;  // columns of 128 bytes
  static constexpr int kElements = rnn_split_most_elements(N);
  static constexpr int kVectors = rnn_split_most_panels(N) * N * 8 / kRnnSplitThreads;  // of a thread, at most

  const RnnLayer& l;
  const RnnSplitShape& shape;
  const RnnDirection& d;
  int set;     // of the threads
  int thread;  // in the set
  int rank;
  int group;
  int part_rows;  // of the sums that a block of the cluster finishes
  int columns;    // of the block
  std::uint32_t tile_bytes;
  std::uint32_t wanted = 0;  // of the thread's vectors of states, those with columns of the block
  unsigned char* weights;
  unsigned char* states;
  float* received;       // kRows * N sums
  std::uint64_t* full;   // of the set: the sums of all ranks are there
  std::uint64_t* empty;  // of the set: all ranks have read theirs

  __device__ __forceinline__ RnnSplitBlock(const RnnSplit& p, int direction, unsigned char* shared)
      : l(p.layer), shape(p.shape), d(p.layer.direction[direction]) {
    set = kSets == 1 ? 0 : __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / kRnnSplitThreads, 0);
    std::uint32_t in_set = threadIdx.x % kRnnSplitThreads;
    ptx::pin(in_set);  // kept, not worked out anew
    thread = static_cast<int>(in_set);
    rank = static_cast<int>(blockIdx.x) % shape.parts;
    group = static_cast<int>(blockIdx.x) / shape.parts;
    part_rows = kRows / shape.parts;
    columns = shape.groups * kColumnGates * shape.owned;
    tile_bytes = static_cast<std::uint32_t>(shape.panels * N * 128);
    weights = shared;
    states = weights + shape.panels * kRows * 128 + set * static_cast<int>(tile_bytes);
    float* const all_received =
        reinterpret_cast<float*>(weights + shape.panels * kRows * 128 + shape.sets * tile_bytes);
    received = all_received + (kCluster ? set * kRows * N : 0);
    full = reinterpret_cast<std::uint64_t*>(all_received + (kCluster ? shape.sets * kRows * N : 0)) + set;
    empty = full + kRnnSplitSets;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int index = thread + i * kRnnSplitThreads;
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
    const int of_group = k / (kColumnGates * shape.owned);
    const int column_gate = k / shape.owned % kColumnGates;
    const int j = first_unit(of_group, rank) + k % shape.owned;
    if (k >= columns || unit >= l.units || j >= l.units) return T{0};
    const std::int64_t units = l.units;
    if constexpr (kBackward) {
      return static_cast<const T*>(d.recurrent_t)[(unit * std::int64_t{kColumnGates} + column_gate) * units + j];
    }
    return static_cast<const T*>(d.recurrent)[(gate * units + unit) * units + j];
  }
  __device__ __forceinline__ void load_weights(bool vectors) const {
    const int chunks = shape.panels * 8;
    for (int i = static_cast<int>(threadIdx.x); i < kRows * chunks; i += static_cast<int>(blockDim.x)) {
      const int row = i / chunks;
      const int k = i % chunks * 8;
      const int gate = row % part_rows / shape.owned;
      const int unit = gate < G ? first_unit(group, row / part_rows) + row % shape.owned : l.units;
      uint4 words;
      if (shape.owned % 8 == 0) {
        const int j = first_unit(k / (kColumnGates * shape.owned), rank) + k % shape.owned;
        const std::int64_t units = l.units;
        const T* from = static_cast<const T*>(d.recurrent) + (gate * units + unit) * units + j;
        if constexpr (kBackward) {
          from = static_cast<const T*>(d.recurrent_t) +
                 (unit * std::int64_t{kColumnGates} + k / shape.owned % kColumnGates) * units + j;
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
    for (int i = thread * 16; i < static_cast<int>(tile_bytes); i += kRnnSplitThreads * 16) {
      *reinterpret_cast<uint4*>(states + i) = make_uint4(0, 0, 0, 0);
    }
  }
  __device__ __forceinline__ std::uint32_t received_bytes() const { return kRows * N * 4; }
  // Of the threads of the set alone.
  __device__ __forceinline__ void meet() const {
    if constexpr (kSets == 1) {
      __syncthreads();
    } else {
      ptx::barrier_sync(1 + set, kRnnSplitThreads);
    }
  }
  __device__ __forceinline__ void start_barriers() const {
    if (thread == 0) {
      ptx::mbarrier_init(full, 1);
      ptx::mbarrier_init(empty, static_cast<std::uint32_t>(shape.parts));
      ptx::mbarrier_arrive_expect_tx(full, received_bytes());
      ptx::fence_mbarrier_init();
    }
  }

  // States as they lie in the exchange, from `from` on: the same bytes as in shared memory.
  __device__ __forceinline__ void receive(const unsigned char* from) const {
    constexpr int kBytesApart = kRnnSplitThreads * 16;
    std::int64_t first = reinterpret_cast<std::int64_t>(from) + thread * 16;
    std::uint32_t to = ptx::shared_address(states) + static_cast<std::uint32_t>(thread) * 16;
    // Kept in registers: else they are worked out for each load anew.
    ptx::pin(&first);
    ptx::pin(to);
    uint4 words[kVectors];
    std::uint32_t missing = wanted;
#pragma unroll 1
    while (missing != 0) {
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        if (missing >> i & 1) {
          words[i] = ptx::ld_relaxed_gpu_v4(reinterpret_cast<const void*>(first + i * kBytesApart));  // NOLINT
        }
      }
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        const uint4& w = words[i];
        const bool is_there = w.x != kRnnNothing && w.y != kRnnNothing && w.z != kRnnNothing && w.w != kRnnNothing;
        if ((missing >> i & 1) == 0 || !is_there) continue;
        ptx::st_shared(to + i * kBytesApart, w);
        missing &= ~(1u << i);
      }
    }
    ptx::fence_proxy_async();
    meet();
  }

  __device__ __forceinline__ void start_products(float (&sums)[N / 2]) const {
    const int half = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128 % 2, 0);  // the same in a warp
    const std::uint64_t a0 = tile::operand_descriptor<128>(weights + half * 64 * 128, 0);
    const std::uint64_t b0 = tile::operand_descriptor<128>(states, 0);
#pragma unroll 1
    for (int panel = 0; panel < shape.panels; ++panel) {
      ptx::wgmma_fence();
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
  // Where the thread's sums go: the first pair, and the barrier, in the block that finishes the row.
  struct Target {
    std::uint32_t sums;
    std::uint32_t barrier;
  };
  __device__ __forceinline__ Target target(int lower) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row = thread / 32 * 16 + lane / 4 + 8 * lower;
    const auto its_rank = static_cast<std::uint32_t>(row / part_rows);
    const std::uint32_t sums = ptx::shared_address(received + sum_at(rank, lane % 4 * 2, row % part_rows));
    if (shape.parts == 1) return {sums, 0};  // no cluster
    return {ptx::mapa(sums, its_rank), ptx::mapa(ptx::shared_address(full), its_rank)};
  }
  __device__ __forceinline__ void send(const float (&sums)[N / 2], const Target (&targets)[2]) const {
#pragma unroll
    for (int lower = 0; lower < 2; ++lower) {
      const std::uint32_t to = targets[lower].sums;
      const auto block_bytes = static_cast<std::uint32_t>(part_rows * 32);
#pragma unroll
      for (int block = 0; block < N / 8; ++block) {
        const std::uint64_t pair = std::uint64_t{__float_as_uint(sums[4 * block + 2 * lower + 1])} << 32 |
                                   __float_as_uint(sums[4 * block + 2 * lower]);
        if (shape.parts == 1) {
          ptx::st_shared(to + static_cast<std::uint32_t>(block) * block_bytes, pair);
        } else {
          ptx::st_async(to + static_cast<std::uint32_t>(block) * block_bytes, pair, targets[lower].barrier);
        }
      }
    }
  }
  __device__ __forceinline__ static void wait(std::uint64_t* barrier, unsigned use) {
    while (!ptx::mbarrier_try_wait(barrier, use % 2)) {
    }
  }
  // The sums of all parts, in the order of the ranks. `at`: of the element's first gate in a buffer.
  __device__ __forceinline__ void take_sums(const float* from, const int (&at)[G], float (&total)[G]) const {
    if (shape.parts % 4 == 0) {
#pragma unroll 1
      for (int part = 0; part < shape.parts; part += 4) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
          for (int g = 0; g < G; ++g) total[g] += from[(part + i) * (N * part_rows) + at[g]];
        }
      }
      return;
    }
#pragma unroll 1
    for (int part = 0; part < shape.parts; ++part) {
#pragma unroll
      for (int g = 0; g < G; ++g) total[g] += from[part * (N * part_rows) + at[g]];
    }
  }

  // Without clusters the sums go through L2, a word each, and say themselves that they have come. A part is
  // [places][rows].
  __device__ __forceinline__ void store_sums(const float (&sums)[N / 2], std::uint32_t* parts_of_group) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int lower = 0; lower < 2; ++lower) {
      const int row = thread / 32 * 16 + lane / 4 + 8 * lower;
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
    for (int i = thread; i < kRows * N; i += kRnnSplitThreads) {
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
      const int place = thread / shape.owned + e * place_step;
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

  // Where the unit of a thread lies in a tile of states, at place 0; places are a multiple of 8 apart.
  __device__ __forceinline__ int published_at(int place, int gate, int f) const {
    const int k = (group * kColumnGates + gate) * shape.owned + f;
    return at(N, place, k) + k % 8 * 2;
  }
  // The even one of two threads stores both values; all threads of a warp come here.
  __device__ __forceinline__ static void publish(unsigned char* to, bool stores, float value) {
    std::uint32_t bits = tile::narrow<T>(value).bits;
    if (bits == 0xffffu) bits = 0x7fffu;
    const std::uint32_t next = __shfl_down_sync(0xffffffffu, bits, 1);
    if (stores) ptx::st_relaxed_gpu(to, bits | next << 16);
  }
};

template <class T, int kGates, int N, bool kBackward, bool kCluster>
__global__ void __launch_bounds__(rnn_split_most_sets(N) * kRnnSplitThreads, 1)
    rnn_split_sm90(const __grid_constant__ RnnSplit p) {
  using Block = RnnSplitBlock<T, kGates, N, kBackward, kCluster>;
  using Unit = typename Block::Unit;
  using Finisher = std::conditional_t<kBackward, RnnBackwardUnit<T, kGates>, RnnForwardUnit<T, kGates>>;
  using Inputs = typename Finisher::Inputs;
  constexpr int kElements = Block::kElements;
  constexpr int G = Block::G;
  constexpr int kColumnGates = Block::kColumnGates;
  unsigned char* shared = tile::dynamic_shared();
  shared += (1024 - ptx::shared_address(shared) % 1024) % 1024;
  const int direction = static_cast<int>(blockIdx.z);
  Block block(p, direction, shared);
  const RnnLayer& l = p.layer;
  const RnnDirection& d = block.d;
  const RnnSplitShape& shape = p.shape;
  const int tid = block.thread;
  float* const kept = reinterpret_cast<float*>(block.empty - block.set + kRnnSplitSets) + tid;

  if constexpr (kCluster) block.start_barriers();
  block.load_weights(p.vectors);
  ptx::fence_proxy_async();
  tile::cluster_sync(kCluster ? shape.parts : 1);

  const bool downwards = d.downwards != kBackward;
  const int steps = l.rows.steps;
  const int slices = static_cast<int>(gridDim.y);
  const int slots = rnn_split_slots(p.period, steps);
  // Of the set: its first tile, how far the next is, and how many there are.
  const int first_tile = static_cast<int>(blockIdx.y) + block.set * slices;
  const int tile_step = shape.sets * slices;
  const int tiles = (shape.tiles - first_tile + tile_step - 1) / tile_step;
  const int f = tid % shape.owned;
  const int r = tid / shape.owned;
  const int j = block.first_unit(block.group, block.rank) + f;
  const int place_step = kRnnSplitThreads / shape.owned;
  const Finisher finisher(l, d, j);
  // States of a tile in a slot of the exchange, and this rank.
  const auto exchange = [&](int tile, int slot) {
    const std::int64_t at = std::int64_t{direction * shape.tiles + tile} * slots + slot;
    return static_cast<unsigned char*>(p.exchange) + (at * shape.parts + block.rank) * block.tile_bytes;
  };
  // Sums in a slot without clusters, of this block's group.
  const auto stored_sums = [&](int tile, int slot) {
    const std::int64_t at = std::int64_t{direction * shape.tiles + tile} * slots + slot;
    return static_cast<std::uint32_t*>(p.sums) +
           (at * shape.groups + block.group) * (shape.parts * Block::kRows * std::int64_t{N});
  };
  // What a place without a step yet publishes.
  const auto initial = [&](int place) {
    return !kBackward && d.hx != nullptr && place < l.rows.batch && j < l.units
               ? Unit::load(d.hx, Unit::sequence_at(l.rows, place) * l.units + j)
               : 0.0f;
  };
  int published_at[kColumnGates];
#pragma unroll
  for (int g = 0; g < kColumnGates; ++g) published_at[g] = block.published_at(r, g, f);
  const auto stores = [&](int e) { return f % 2 == 0 && r + e * place_step < N; };
  // Columns beyond the last unit's that share a vector with it.
  if (block.group == shape.groups - 1 && block.columns % 8 != 0) {
    for (int tile = first_tile; tile < shape.tiles; tile += tile_step) {
      for (int slot = 0; slot < slots; ++slot) {
        for (int i = tid; i < N * 4; i += kRnnSplitThreads) {
          const int k = block.columns / 8 * 8 + i % 4 * 2;
          if (k >= block.columns) {
            ptx::st_relaxed_gpu(exchange(tile, slot) + Block::at(N, i / 4, k) + k % 8 * 2, 0);
          }
        }
      }
    }
  }
  const bool has_first = !kBackward && d.hx != nullptr;
  float* const first_kept = kept + block.set * kElements * kRnnSplitThreads;
  const int kept_step = shape.sets * kElements * kRnnSplitThreads;
  float* mine = first_kept;
  for (int tile = first_tile; tile < shape.tiles; tile += tile_step, mine += kept_step) {
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      const int place = tile * N + r + e * place_step;
      mine[e * kRnnSplitThreads] =
          r + e * place_step < N && place < l.rows.batch && j < l.units ? finisher.first_kept(place) : 0.0f;
      if (has_first) {
        Block::publish(exchange(tile, 0) + published_at[0] + e * place_step * 128, stores(e), initial(place));
      }
    }
  }
  typename Block::Target targets[2] = {};
  std::uint32_t release = 0;  // barriers that this thread tells of buffers that have been read
  int sum_at[G];
  if constexpr (kCluster) {
    targets[0] = block.target(0), targets[1] = block.target(1);
    if (shape.parts > 1)
      release = ptx::mapa(ptx::shared_address(block.empty), static_cast<unsigned>(tid % shape.parts));
  }
#pragma unroll
  for (int g = 0; g < G; ++g) sum_at[g] = block.sum_at(0, r % N, g * shape.owned + f);

  // A turn is a tile of a step.
  const int skipped = has_first ? 0 : tiles;  // turns without a product
  int step = 0, tile = first_tile, slot = 0, until_clear = p.period;
  int fetch_step = 0, fetch_tile = first_tile;
  mine = first_kept;
  RnnUnitStep s;
  RnnUnitStep fetched = rnn_unit_step(l.rows, d.downwards, kBackward, 0);
  Inputs inputs[kElements];
  Inputs next[kElements];
  const auto works = [&](const RnnUnitStep& in, int of_tile, int e) {
    const int in_tile = r + e * place_step;
    return in_tile < N && of_tile * N + in_tile < in.rows && j < l.units;
  };
  const auto fetch = [&]() {
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      if (works(fetched, fetch_tile, e)) finisher.fetch(fetched, fetch_tile * N + r + e * place_step, &next[e]);
    }
  };
  // What was fetched is what ends next.
  const auto advance = [&]() {
    s = fetched;
#pragma unroll
    for (int e = 0; e < kElements; ++e) inputs[e] = next[e];
    fetch_tile += tile_step;
    if (fetch_tile < shape.tiles) return;
    fetch_tile = first_tile;
    if (++fetch_step < steps) fetched = rnn_unit_step(l.rows, d.downwards, kBackward, fetch_step);
  };
  const int turns = steps * tiles;
  if (tiles > 0) fetch();
#pragma unroll 1
  for (int turn = 0; turn < turns; ++turn) {
    advance();
    const int product = turn - skipped;
    if (product >= 0) {
      block.receive(exchange(tile, slot));
      float sums[N / 2];
      block.start_products(sums);
      if constexpr (kCluster) {
        if (product > 0 && shape.parts > 1) Block::wait(block.empty, static_cast<unsigned>(product) - 1);
      }
      ptx::wgmma_wait_group<0>();
      ptx::pin(sums);
      if constexpr (kCluster) {
        block.send(sums, targets);
      } else {
        block.store_sums(sums, stored_sums(tile, slot));
      }
    }
    // What the next turn finishes is on its way while this one waits.
    if (fetch_step < steps) fetch();
    const int next_slot = slot + 1 == slots ? 0 : slot + 1;
    float total[kElements][G] = {};
    if (product >= 0) {
      if constexpr (kCluster) {
        if (shape.parts == 1) {
          block.meet();
        } else {
          Block::wait(block.full, static_cast<unsigned>(product));
          if (tid == 0) ptx::mbarrier_arrive_expect_tx(block.full, block.received_bytes());
        }
#pragma unroll
        for (int e = 0; e < kElements; ++e) {
          if (r + e * place_step < N) {
            block.take_sums(block.received + e * place_step * block.part_rows, sum_at, total[e]);
          }
        }
      } else {
        block.take_stored_sums(stored_sums(tile, slot), f, place_step, total);
      }
    }
    unsigned char* const to = exchange(tile, next_slot);
    typename Finisher::Outputs out[kElements] = {};
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      const int place = tile * N + r + e * place_step;
      if (works(s, tile, e)) {
        out[e] = finisher.finish(s, place, inputs[e], total[e], mine + e * kRnnSplitThreads);
      } else if constexpr (!kBackward) {
        if (downwards) out[e].hidden = initial(place);
      }
      if (step + 1 == steps) continue;
      unsigned char* const at = to + e * place_step * 128;
      if constexpr (kBackward) {
#pragma unroll
        for (int g = 0; g < kColumnGates; ++g) {
          Block::publish(at + published_at[g], stores(e), out[e].slot[kGates == 3 && g == 2 ? 3 : g]);
        }
      } else {
        Block::publish(at + published_at[0], stores(e), out[e].hidden);
      }
    }
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      if (works(s, tile, e)) finisher.store(s, tile * N + r + e * place_step, out[e]);
    }
    block.meet();  // the states of this turn have been multiplied, and its sums taken
    if (kCluster && product >= 0 && shape.parts > 1 && tid < shape.parts) ptx::mbarrier_arrive_cluster(release);
    if (until_clear == 0) {
      int cleared = slot + p.period + 1;
      if (cleared >= slots) cleared -= slots;
      for (int data = step + p.period + 1; data <= step + 2 * p.period && data < steps; ++data) {
        if constexpr (!kCluster) block.clear_sums(stored_sums(tile, cleared));
#pragma unroll
        for (int e = 0; e < kElements; ++e) {
#pragma unroll
          for (int g = 0; g < kColumnGates; ++g) {
            if (stores(e)) {
              ptx::st_relaxed_gpu(exchange(tile, cleared) + published_at[g] + e * place_step * 128, kRnnNothing);
            }
          }
        }
        if (++cleared == slots) cleared = 0;
      }
      ptx::fence_acq_rel_gpu();
    }
    tile += tile_step;
    mine += kept_step;
    if (tile >= shape.tiles) {
      tile = first_tile;
      mine = first_kept;
      ++step;
      slot = next_slot;
      until_clear = until_clear == 0 ? p.period - 1 : until_clear - 1;
    }
  }
  if constexpr (kCluster) tile::cluster_sync(shape.parts);  // no block leaves before the last word for it has come
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
      const cuda::LaunchConfig config = cuda::clusters_of(1, 1 << i, kRnnSplitSets * kRnnSplitThreads, kRnnSplitShared);
      const bool knows =
          i == 0 ? cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kKernel, kRnnSplitSets * kRnnSplitThreads,
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

template <class T, int kGates, int N, bool kBackward, bool kCluster>
bool launch_rnn_split_block(const RnnSplit& p, cudaStream_t stream) {
  constexpr auto kKernel = &rnn_split_sm90<T, kGates, N, kBackward, kCluster>;
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
              .threads = dim3(static_cast<unsigned>(p.shape.sets) * kRnnSplitThreads),
              .shared_bytes = kRnnSplitShared,
              .cluster = dim3(kCluster ? parts : 1),
              .cooperative = true},
             stream, p) == cudaSuccess;
}

template <class T, int kGates, bool kBackward>
bool launch_rnn_split_gates(const RnnSplit& p, cudaStream_t stream) {
  if constexpr (kBackward || kGates == 1) {
    if (!p.shape.in_clusters) return launch_rnn_split_block<T, kGates, 32, kBackward, false>(p, stream);
  }
  switch (p.shape.places) {
    case 8:
      return launch_rnn_split_block<T, kGates, 8, kBackward, true>(p, stream);
    case 16:
      return launch_rnn_split_block<T, kGates, 16, kBackward, true>(p, stream);
    case 32:
      return launch_rnn_split_block<T, kGates, 32, kBackward, true>(p, stream);
    default:
      return false;
  }
}

template <class T, bool kBackward>
bool launch_rnn_split_pass(const RnnSplit& p, cudaStream_t stream) {
  switch (rnn_gates(p.layer.cell)) {
    case 4:
      return launch_rnn_split_gates<T, 4, kBackward>(p, stream);
    case 3:
      return launch_rnn_split_gates<T, 3, kBackward>(p, stream);
    default:
      return launch_rnn_split_gates<T, 1, kBackward>(p, stream);
  }
}

template <class T>
bool launch_rnn_split_type(const RnnSplit& p, bool backward, cudaStream_t stream) {
  return backward ? launch_rnn_split_pass<T, true>(p, stream) : launch_rnn_split_pass<T, false>(p, stream);
}

}  // namespace gpudnn::kernels
