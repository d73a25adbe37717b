// A block of a split sweep (`split_sm90.cuh`): the weights that it holds, and how states and sums come and go.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/gpu_relaxed.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/st_shared.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/ptx/wgmma_shape.cuh"
#include "kernels/rnn/split.hpp"
#include "kernels/rnn/unit_sm90.cuh"
#include "kernels/tile/wgmma_operand.cuh"

namespace gpudnn::kernels {

template <class T, int kGates, int N, int kSets>
struct RnnSplitBlock {
  static constexpr int kRows = kRnnSplitRows;
  static constexpr int kPanel = 64;  // columns of 128 bytes
  static constexpr int kElements = rnn_split_most_elements(N);
  static constexpr int kVectors = rnn_split_most_panels(N) * N * 8 / kRnnSplitThreads;  // of a thread, at most
  // Of them looked for together: registers of gradients leave room for half.
  static constexpr int kAtOnce = N == 32 && kSets > 1 ? kVectors / 2 : kVectors;

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
    columns = shape.groups * kGates * shape.owned;
    tile_bytes = static_cast<std::uint32_t>(shape.panels * N * 128);
    weights = shared;
    states = weights + shape.panels * kRows * 128 + set * static_cast<int>(tile_bytes);
    float* const all_received =
        reinterpret_cast<float*>(weights + shape.panels * kRows * 128 + shape.sets * tile_bytes);
    received = all_received + set * kRows * N;
    full = reinterpret_cast<std::uint64_t*>(all_received + shape.sets * kRows * N) + set;
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

  // Column k is a gate of a unit of a block of this rank.
  __device__ __forceinline__ const T* weight_at(int unit, int k) const {
    const int j = first_unit(k / (kGates * shape.owned), rank) + k % shape.owned;
    return static_cast<const T*>(d.recurrent_t) + (unit * std::int64_t{kGates} + k / shape.owned % kGates) * l.units +
           j;
  }
  __device__ __forceinline__ T weight(int unit, int k) const {
    const int j = first_unit(k / (kGates * shape.owned), rank) + k % shape.owned;
    return k >= columns || unit >= l.units || j >= l.units ? T{0} : *weight_at(unit, k);
  }
  __device__ __forceinline__ void load_weights(bool vectors) const {
    const int chunks = shape.panels * 8;
    for (int i = static_cast<int>(threadIdx.x); i < kRows * chunks; i += static_cast<int>(blockDim.x)) {
      const int row = i / chunks;
      const int k = i % chunks * 8;
      const bool is_there = row % part_rows < shape.owned;
      const int unit = is_there ? first_unit(group, row / part_rows) + row % shape.owned : l.units;
      uint4 words;
      if (shape.owned % 8 == 0) {
        const int j = first_unit(k / (kGates * shape.owned), rank) + k % shape.owned;
        words = rnn_vector(weight_at(unit, k), k < columns && unit < l.units ? l.units - j : 0, vectors);
      } else {
        std::uint32_t pairs[4];
#pragma unroll
        for (int pair = 0; pair < 4; ++pair) {
          pairs[pair] = weight(unit, k + 2 * pair).bits | std::uint32_t{weight(unit, k + 2 * pair + 1).bits} << 16;
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
      ptx::fence_mbarrier_init();
    }
  }
  // Sums may have come before: no phase ends without this arrival.
  __device__ __forceinline__ void expect_sums() const {
    if (thread == 0) ptx::mbarrier_arrive_expect_tx(full, received_bytes());
  }

  // States as they lie in the exchange, from `from` on: the same bytes as in shared memory.
  __device__ __forceinline__ void receive(const unsigned char* from) const {
    rnn_receive<kRnnSplitThreads, kVectors, kAtOnce>(from, thread, wanted, ptx::shared_address(states));
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
  // The sums of all parts, in the order of the ranks.
  __device__ __forceinline__ float take_sums(const float* from) const {
    float total = 0;
    if (shape.parts % 4 == 0) {
#pragma unroll 1
      for (int part = 0; part < shape.parts; part += 4) {
#pragma unroll
        for (int i = 0; i < 4; ++i) total += from[(part + i) * (N * part_rows)];
      }
      return total;
    }
#pragma unroll 1
    for (int part = 0; part < shape.parts; ++part) total += from[part * (N * part_rows)];
    return total;
  }

  // Where the unit of a thread lies in a tile of states, at place 0; places are a multiple of 8 apart.
  __device__ __forceinline__ int published_at(int place, int gate, int f) const {
    const int k = (group * kGates + gate) * shape.owned + f;
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

}  // namespace gpudnn::kernels
