// A whole sweep of the gradients of a recurrent layer with gates in one launch, the recurrent matrix divided over the
// grid both ways: half and bfloat16, no projection. Hopper. `split_direct_sm90.cuh` has the forward sweeps, and the
// shapes whose steps are shorter there.
// SPDX-License-Identifier: Apache-2.0
//
// Sums are weights times states, the gradients of the gates. A cluster owns 128 rows of the weights (units); its blocks
// divide the summed index, so that a block holds a square of the matrix in shared memory over all steps, and takes in a
// part of the states alone. A step of a block, for a tile of kPlaces places:
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
// look there; it goes while the next words are on their way. Places without a sequence at the step publish too: zeros.
//
// All blocks must be resident at once: the launch is cooperative, and is offered only where the device's occupancy
// says that the grid fits.
#pragma once

#include "core/launch/cached_query.hpp"
#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/ptx/fence_gpu.cuh"
#include "kernels/rnn/split_block_sm90.cuh"
#include "kernels/tile/cluster.cuh"
#include "kernels/tile/dynamic_shared.cuh"

namespace gpudnn::kernels {

template <class T, int kGates, int N, int kSets>
__global__ void __launch_bounds__(kSets* kRnnSplitThreads, 1) rnn_split_sm90(const __grid_constant__ RnnSplit p) {
  using Block = RnnSplitBlock<T, kGates, N, kSets>;
  using Finisher = RnnBackwardUnit<T, kGates>;
  using Inputs = typename Finisher::Inputs;
  constexpr int kElements = Block::kElements;
  // Shared memory has no room for `kept` where two sets have 32 places each.
  constexpr int kKeptTiles = rnn_split_kept_tiles(N, kSets);
  constexpr bool kFetchesLate = kKeptTiles > 0;  // registers hold what one turn finishes alone
  unsigned char* shared = tile::dynamic_shared();
  shared += (1024 - ptx::shared_address(shared) % 1024) % 1024;
  const int direction = static_cast<int>(blockIdx.z);
  Block block(p, direction, shared);
  const RnnLayer& l = p.layer;
  const RnnDirection& d = block.d;
  const RnnSplitShape& shape = p.shape;
  const int tid = block.thread;
  float* const kept = reinterpret_cast<float*>(block.empty - block.set + kRnnSplitSets) + tid;

  block.start_barriers();
  block.load_weights(p.vectors);
  ptx::fence_proxy_async();
  tile::cluster_sync(shape.parts);
  block.expect_sums();

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
  int published_at[kGates];
#pragma unroll
  for (int g = 0; g < kGates; ++g) published_at[g] = block.published_at(r, g, f);
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
  float* const first_kept = kept + block.set * kElements * kRnnSplitThreads;
  const int kept_step = shape.sets * kElements * kRnnSplitThreads;
  float* mine = first_kept;
  float kept_here[kKeptTiles > 0 ? kKeptTiles : 1][kElements] = {};
  for (int tile = first_tile; tile < shape.tiles; tile += tile_step, mine += kept_step) {
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      const int place = tile * N + r + e * place_step;
      const float first =
          r + e * place_step < N && place < l.rows.batch && j < l.units ? finisher.first_kept(place) : 0.0f;
      if constexpr (kKeptTiles > 0) {
        (tile == first_tile ? kept_here[0][e] : kept_here[kKeptTiles - 1][e]) = first;
      } else {
        mine[e * kRnnSplitThreads] = first;
      }
    }
  }
  typename Block::Target targets[2] = {};
  std::uint32_t release = 0;  // barriers that this thread tells of buffers that have been read
  targets[0] = block.target(0), targets[1] = block.target(1);
  if (shape.parts > 1) release = ptx::mapa(ptx::shared_address(block.empty), static_cast<unsigned>(tid % shape.parts));
  const int sum_at = block.sum_at(0, r % N, f);

  // A turn is a tile of a step.
  int step = 0, tile = first_tile, slot = 0, until_clear = p.period;
  int fetch_step = 0, fetch_tile = first_tile;
  mine = first_kept;
  RnnUnitStep s;
  RnnUnitStep fetched = rnn_unit_step(l.rows, d.downwards, true, 0, d.continues);
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
    if (++fetch_step < steps) fetched = rnn_unit_step(l.rows, d.downwards, true, fetch_step, d.continues);
  };
  const int turns = steps * tiles;
  if (tiles > 0) fetch();
#pragma unroll 1
  for (int turn = 0; turn < turns; ++turn) {
    advance();
    const int product = turn - tiles;  // the first step has none
    if (product >= 0) {
      block.receive(exchange(tile, slot));
      float sums[N / 2];
      block.start_products(sums);
      if (product > 0 && shape.parts > 1) Block::wait(block.empty, static_cast<unsigned>(product) - 1);
      ptx::wgmma_wait_group<0>();
      ptx::pin(sums);
      block.send(sums, targets);
    }
    // What the next turn finishes is on its way while this one waits.
    if (!kFetchesLate && fetch_step < steps) fetch();
    const int next_slot = slot + 1 == slots ? 0 : slot + 1;
    float total[kElements][1] = {};
    if (product >= 0) {
      if (shape.parts == 1) {
        block.meet();
      } else {
        Block::wait(block.full, static_cast<unsigned>(product));
        block.expect_sums();
      }
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        if (r + e * place_step < N) {
          total[e][0] = block.take_sums(block.received + e * place_step * block.part_rows + sum_at);
        }
      }
    }
    unsigned char* const to = exchange(tile, next_slot);
    typename Finisher::Outputs out[kElements] = {};
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      const int place = tile * N + r + e * place_step;
      if (works(s, tile, e)) {
        if constexpr (kKeptTiles > 0) {
          float& first = kept_here[0][e];
          float& other = kept_here[kKeptTiles - 1][e];
          float value = tile == first_tile ? first : other;
          out[e] = finisher.finish(s, place, inputs[e], total[e], &value);
          (tile == first_tile ? first : other) = value;
        } else {
          out[e] = finisher.finish(s, place, inputs[e], total[e], mine + e * kRnnSplitThreads);
        }
      }
      if (step + 1 == steps) continue;
      unsigned char* const at = to + e * place_step * 128;
#pragma unroll
      for (int g = 0; g < kGates; ++g) {
        Block::publish(at + published_at[g], stores(e), out[e].slot[kGates == 3 && g == 2 ? 3 : g]);
      }
    }
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      if (works(s, tile, e)) finisher.store(s, tile * N + r + e * place_step, out[e]);
    }
    if (kFetchesLate && fetch_step < steps) fetch();
    block.meet();  // the states of this turn have been multiplied, and its sums taken
    if (product >= 0 && shape.parts > 1 && tid < shape.parts) ptx::mbarrier_arrive_cluster(release);
    if (until_clear == 0) {
      int cleared = slot + p.period + 1;
      if (cleared >= slots) cleared -= slots;
      for (int data = step + p.period + 1; data <= step + 2 * p.period && data < steps; ++data) {
#pragma unroll
        for (int e = 0; e < kElements; ++e) {
#pragma unroll
          for (int g = 0; g < kGates; ++g) {
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
  tile::cluster_sync(shape.parts);  // no block leaves before the last word for it has come
}

// Clusters that are resident with all of a multiprocessor's shared memory, whatever the instance.
template <class T>
void rnn_split_resident_type(int (&clusters)[kRnnSplitClusterSizes]) {
  constexpr auto kKernel = &rnn_split_sm90<T, 4, 8, kRnnSplitSets>;
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

template <class T, int kGates, int N, int kSets>
bool launch_rnn_split_block(const RnnSplit& p, cudaStream_t stream) {
  constexpr auto kKernel = &rnn_split_sm90<T, kGates, N, kSets>;
  cuda::allow_shared_memory<kKernel>(kRnnSplitShared);
  const auto parts = static_cast<unsigned>(p.shape.parts);
  if (parts > 8 && cudaFuncSetAttribute(reinterpret_cast<const void*>(kKernel),
                                        cudaFuncAttributeNonPortableClusterSizeAllowed, 1) != cudaSuccess) {
    return false;
  }
  return cuda::launch_kernel(
             kKernel,
             {.blocks = dim3(parts * static_cast<unsigned>(p.shape.groups), static_cast<unsigned>(p.shape.slices),
                             static_cast<unsigned>(p.layer.directions)),
              .threads = dim3(static_cast<unsigned>(p.shape.sets) * kRnnSplitThreads),
              .shared_bytes = kRnnSplitShared,
              .cluster = dim3(parts),
              .cooperative = true},
             stream, p) == cudaSuccess;
}

template <class T, int kGates>
bool launch_rnn_split_gates(const RnnSplit& p, cudaStream_t stream) {
  switch (p.shape.places) {
    case 8:
      return launch_rnn_split_block<T, kGates, 8, kRnnSplitSets>(p, stream);
    case 16:
      return launch_rnn_split_block<T, kGates, 16, kRnnSplitSets>(p, stream);
    default:  // what has one tile keeps its registers
      return p.shape.sets == 1 ? launch_rnn_split_block<T, kGates, 32, 1>(p, stream)
                               : launch_rnn_split_block<T, kGates, 32, kRnnSplitSets>(p, stream);
  }
}

template <class T>
bool launch_rnn_split_type(const RnnSplit& p, cudaStream_t stream) {
  return rnn_gates(p.layer.cell) == 4 ? launch_rnn_split_gates<T, 4>(p, stream)
                                      : launch_rnn_split_gates<T, 3>(p, stream);
}

}  // namespace gpudnn::kernels
