// A split sweep (`split_sm90.cuh`) in which a thread finishes units of the sums that it has itself: forward, and
// backward where its steps are shorter. Half, bfloat16 and, of cells with gates, float, no projection. Hopper.
// SPDX-License-Identifier: Apache-2.0
//
// Forward, of cells with gates, a block's 128 rows are the gates of 32 units, as two operands of 64 rows, so that all
// sums of a unit at a place lie in one thread; backward, and of plain networks, its 64 rows are units. The kParts
// blocks that divide the columns hold the same rows, and each finishes a part of the places: a thread sends its sums of
// the other places to the same thread of the other blocks, through distributed shared memory where they are a cluster
// of two, through L2 where they are four. No other thread of the block takes part.
//
// Weights of up to twice a block's shared memory (`split_wide_sm90.cuh`): the first half of them in registers, which
// wgmma takes from there, the others in shared memory. Gradients of 32 places have more states than the rest of shared
// memory takes: they are counted (`split_counted_sm90.cuh`).
//
// A set is one warpgroup, or two that divide the block's columns and then the places, or the units of a place, among
// themselves. One set of eight places holds its weights in registers and multiplies by mma.sync: shared memory brings
// them more slowly. Two sets with as many tiles multiply in turns, so that one does the rest of its step meanwhile;
// else they do everything at the same time, and wait for each other everywhere. Gradients of four blocks a column have
// four sets where a block has more than two tiles: their states come in halves, of which the second is looked for while
// the first is multiplied, and they take no turns.
//
// The columns of part q are those of a range of groups, all of whose blocks publish to the blocks of rank q. A block
// that has all sums of a step knows that every block has finished the step before: what is said of the exchange in
// `split_sm90.cuh` holds. Sums through L2 are words whose last bit says whose turn it is, in memory for two steps that
// goes round: a block that adds the sums of a step has states that all blocks have published when they had read the
// sums of two steps before. Nothing of it is set anew.
//
// Floats: a word is one unit, and a panel 32 columns. One set of two warpgroups holds the weights in registers; forward
// one, two or four blocks divide the columns and take 8, 16 or 32 places, backward two, four or eight. A factor is cut
// into a TF32 number and the rest, as in `resident_sm90.cuh`: a state where it is multiplied, a weight each time anew,
// as registers hold no more than the weights themselves.
//
// Longer than most files: all that a turn does shares the registers of one loop.
#pragma once

#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/ptx/fence_gpu.cuh"
#include "kernels/ptx/setmaxnreg.cuh"
#include "kernels/rnn/split_counted_sm90.cuh"
#include "kernels/tile/cluster.cuh"
#include "kernels/tile/dynamic_shared.cuh"

namespace gpudnn::kernels {

template <class T, int kGates, int N, int kParts, int kWarpgroups, RnnHeld kHeld, bool kBackward, int kSets>
__global__ void __launch_bounds__((kHeld != RnnHeld::none ? 1 : kSets) * kWarpgroups * kRnnDirectThreads +
                                      rnn_direct_counts(N, kHeld == RnnHeld::half, kBackward) * kRnnDirectThreads,
                                  1) rnn_split_direct_sm90(const __grid_constant__ RnnSplit p) {
  using Block = RnnDirectBlock<T, kGates, N, kParts, kWarpgroups, kHeld, kBackward, kSets>;
  using Unit = typename Block::Unit;
  using Finisher = std::conditional_t<kBackward, RnnBackwardUnit<T, kGates>, RnnForwardUnit<T, kGates>>;
  using Inputs = typename Finisher::Inputs;
  using Outputs = typename Finisher::Outputs;
  constexpr int kPlaces = Block::kPlaces;
  constexpr int kOwn = Block::kOwn;
  constexpr int kElements = kPlaces * kOwn;  // element e: place e / kOwn, unit e % kOwn
  constexpr int kThreads = Block::kThreads;
  constexpr int kStates = Block::kColumnGates;  // words of a unit at a place
  constexpr bool kCluster = kParts == 2;
  unsigned char* shared = tile::dynamic_shared();
  shared += (1024 - ptx::shared_address(shared) % 1024) % 1024;
  const int direction = static_cast<int>(blockIdx.z);
  Block block(p, direction, shared);
  const RnnLayer& l = p.layer;
  const RnnDirection& d = block.d;
  const RnnSplitShape& shape = p.shape;
  const int tid = block.thread;
  const bool odd = tid / 4 % 2 != 0;

  if constexpr (Block::kCounts) {
    block.start_ring();
    if (threadIdx.x >= kThreads) {
      ptx::setmaxnreg_dec<40>();
      run_rnn_direct_copies(p, block);
      return;
    }
    ptx::setmaxnreg_inc<232>();
  }
  if constexpr (kCluster) block.start_barriers();
  block.load_weights(p.vectors);
  ptx::fence_proxy_async();
  if constexpr (Block::kCounts) {
    block.meet();
  } else {
    tile::cluster_sync(kCluster ? kParts : 1);
  }
  if constexpr (kCluster) block.expect_sums();
  if constexpr (Block::kHoldsAll) block.hold();

  const bool downwards = d.downwards != kBackward;
  const int steps = l.rows.steps;
  const int slices = static_cast<int>(gridDim.y);
  const int slots = Block::kCounts ? kRnnCountedSlots : rnn_split_slots(p.period, steps);
  const int sum_slots = rnn_split_sum_slots(steps);
  const int first_tile = static_cast<int>(blockIdx.y) + block.set * slices;
  const int tile_step = shape.sets * slices;
  const int tiles = (shape.tiles - first_tile + tile_step - 1) / tile_step;
  int unit[kOwn];
#pragma unroll
  for (int u = 0; u < kOwn; ++u) unit[u] = block.group * Block::kUnits + block.unit_of(u);
  const Finisher finishers[2] = {Finisher(l, d, unit[0]), Finisher(l, d, unit[kOwn - 1])};
  int place_in_tile[kPlaces];
#pragma unroll
  for (int i = 0; i < kPlaces; ++i) place_in_tile[i] = block.place_at(i);
  // Of a tile in a slot of the exchange: what this block reads, and where the part lies of which its units are.
  const int groups_of_part = block.groups_of_part();
  const int own_part = block.own_part();
  const auto exchange = [&](int tile, int slot, int part) {
    const std::int64_t at = std::int64_t{direction * shape.tiles + tile} * slots + slot;
    return static_cast<unsigned char*>(p.exchange) + (at * kParts + part) * block.tile_bytes;
  };
  const auto stored_sums = [&](int tile, int number) {
    const std::int64_t at = std::int64_t{direction * shape.tiles + tile} * sum_slots + number % kRnnSplitSumSlots;
    return static_cast<std::uint32_t*>(p.sums) +
           (at * shape.groups + block.group) * (kParts * kParts * std::int64_t{Block::kPartWords});
  };
  const auto initial = [&](int place, int j) {
    return !kBackward && d.hx != nullptr && place < l.rows.batch && j < l.units
               ? Unit::load(d.hx, Unit::sequence_at(l.rows, place) * l.units + j)
               : 0.0f;
  };
  // Where this thread's words lie in the tile of the part: forward of pairs of places, of which the odd thread has the
  // second one; backward of both of its units, of which the odd thread has the second one.
  // A float is a word.
  constexpr bool kWhole = sizeof(T) == 4;
  constexpr bool kPairsUnits = kOwn == 2;
  constexpr int kWords = kWhole ? kElements : kPairsUnits ? kPlaces : (kPlaces + 1) / 2;
  int word_at[kWords];
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    int place;
    int j;
    if constexpr (kWhole) {
      place = place_in_tile[i / kOwn];
      j = block.unit_of(i % kOwn);
    } else {
      place = kPairsUnits || kPlaces == 1 ? place_in_tile[i] : place_in_tile[2 * i] + (odd ? 1 : 0);
      j = block.unit_of(odd ? 1 : 0) & ~1;
    }
    const int in_part = block.group % groups_of_part * (Block::kColumnGates * Block::kUnits);
    word_at[i] = Block::at(N, place, in_part + j) + j % Block::kVector16 * static_cast<int>(sizeof(T));
  }
  const bool stores = kWhole || kPairsUnits || kPlaces > 1 || !odd;
  constexpr int kGateBytes = Block::kUnits / Block::kPanel * (N * 128);  // from gate to gate, of gradients
  // values(e, gate)
  const auto publish = [&](unsigned char* to, const auto& values) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
#pragma unroll
      for (int g = 0; g < kStates; ++g) {
        std::uint32_t word;
        if constexpr (kWhole) {
          word = rnn_word_bits<T>(values(i, g));
        } else if constexpr (kPairsUnits) {
          word = Block::word_of(values(i * kOwn, g), values(i * kOwn + 1, g), odd);
        } else if constexpr (kPlaces > 1) {
          word = Block::word_of(values(2 * i, g), values(2 * i + 1, g), odd);
        } else {
          const std::uint32_t bits = rnn_word_bits<T>(values(0, g));
          word = bits | __shfl_xor_sync(0xffffffffu, bits, 4) << 16;
        }
        if (stores) ptx::st_relaxed_gpu(to + word_at[i] + g * kGateBytes, word);
      }
    }
  };
  const bool has_first = !kBackward && d.hx != nullptr;
  float* const first_kept = block.kept() + block.set * 0;
  constexpr int kKeptStep = kElements * kSets * kThreads;
  float* mine = first_kept;
  for (int tile = first_tile; tile < shape.tiles; tile += tile_step, mine += kKeptStep) {
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      const int place = tile * N + place_in_tile[e / kOwn];
      const int j = unit[e % kOwn];
      mine[e * kSets * kThreads] = place < l.rows.batch && j < l.units ? finishers[e % kOwn].first_kept(place) : 0.0f;
    }
    if (has_first) {
      publish(exchange(tile, 0, own_part),
              [&](int e, int) { return initial(tile * N + place_in_tile[e / kOwn], unit[e % kOwn]); });
    }
  }
  typename Block::Target target{};
  std::uint32_t release = 0;
  if constexpr (kCluster) {
    target = block.target();
    release = ptx::mapa(ptx::shared_address(block.empty), static_cast<unsigned>(1 - block.rank));
  }

  const int skipped = has_first ? 0 : tiles;
  int step = 0, tile = first_tile, slot = 0, until_clear = p.period;
  [[maybe_unused]] typename Block::Ring ring;
  // The last bit of a sum's word: memory of sums is set to all bits, of counted states to none.
  const auto turn_of = [&](int number) {
    return static_cast<unsigned>((number / kRnnSplitSumSlots + (Block::kCounts ? 1 : 0)) % 2);
  };
  int fetch_step = 0, fetch_tile = first_tile;
  mine = first_kept;
  RnnUnitStep s;
  RnnUnitStep fetched = rnn_unit_step(l.rows, d.downwards, kBackward, 0, d.continues);
  Inputs inputs[kElements];
  Inputs next[kElements];
  const auto works = [&](const RnnUnitStep& in, int of_tile, int e) {
    return of_tile * N + place_in_tile[e / kOwn] < in.rows && unit[e % kOwn] < l.units;
  };
  const auto fetch = [&]() {
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      if (works(fetched, fetch_tile, e)) {
        finishers[e % kOwn].fetch(fetched, fetch_tile * N + place_in_tile[e / kOwn], &next[e]);
      }
    }
  };
  const auto advance = [&]() {
    s = fetched;
#pragma unroll
    for (int e = 0; e < kElements; ++e) inputs[e] = next[e];
    fetch_tile += tile_step;
    if (fetch_tile < shape.tiles) return;
    fetch_tile = first_tile;
    if (++fetch_step < steps) fetched = rnn_unit_step(l.rows, d.downwards, kBackward, fetch_step, d.continues);
  };
  const int turns = steps * tiles;
  const int other_first = first_tile + (1 - 2 * block.set) * slices;
  const bool takes_turns =
      kSets == kRnnSplitSets && shape.sets > 1 && (shape.tiles - other_first + tile_step - 1) / tile_step == tiles;
  if (takes_turns && block.set == 1 && turns > skipped) ptx::barrier_arrive(3, kSets * kThreads);
  if (tiles > 0) fetch();
#pragma unroll 1
  for (int turn = 0; turn < turns; ++turn) {
    advance();
    // What gradients need beside the sums is worked out while states are on their way.
    std::conditional_t<kBackward, typename RnnBackwardUnit<T, kGates>::Prepared, int> prepared[kElements] = {};
    if constexpr (kBackward) {
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        if (!works(s, tile, e)) continue;
        prepared[e] =
            finishers[e % kOwn].prepare(s, tile * N + place_in_tile[e / kOwn], inputs[e], mine[e * kSets * kThreads]);
      }
    }
    const int next_slot = slot + 1 == slots ? 0 : slot + 1;
    const int product = turn - skipped;
    const int number = has_first ? step : step - 1;
    float own[Block::kPartSums] = {};
    if (product >= 0) {
      typename Block::Sums sums;
      if constexpr (!Block::kHalves && !Block::kCounts) block.receive(exchange(tile, slot, block.rank));
      if (takes_turns) ptx::barrier_sync(3 + block.set, kSets * kThreads);
      if constexpr (Block::kHalves) {
        block.multiply_halves(exchange(tile, slot, block.rank), sums);
      } else if constexpr (Block::kCounts) {
        block.multiply_ring(ring, sums);
      } else if constexpr (Block::kHoldsAll) {
        block.multiply_held(sums);
      } else {
        block.start_products(sums);
      }
      if constexpr (kCluster) {
        if (product > 0) Block::wait(block.empty, static_cast<unsigned>(product) - 1);
      }
      if constexpr (!Block::kHoldsAll && !Block::kCounts) {
        ptx::wgmma_wait_group<0>();
        Block::pin(sums);
      }
      if (takes_turns && (block.set == 0 || turn + 1 < turns)) {
        ptx::barrier_arrive(4 - block.set, kSets * kThreads);
      }
      typename Block::Halves halves;
      block.meet_halves(sums, halves);
      if constexpr (kCluster) block.send(halves, target);
      if constexpr (kParts > 2) {
        block.store_sums(halves, stored_sums(tile, number), turn_of(number));
      }
      block.own_sums(halves, own);
    }
    if (fetch_step < steps) fetch();
    if (product >= 0) {
      if constexpr (kCluster) {
        Block::wait(block.full, static_cast<unsigned>(product));
        block.expect_sums();
        block.add_received(own);
      }
      if constexpr (kParts > 2) {
        block.add_stored(stored_sums(tile, number), turn_of(number), own);
      }
    }
    Outputs out[kElements] = {};
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      const int place = tile * N + place_in_tile[e / kOwn];
      float total[Block::kRowGates];
#pragma unroll
      for (int g = 0; g < Block::kRowGates; ++g) total[g] = own[Block::kRowsAreUnits ? e : e * 4 + g];
      float* const kept = mine + e * kSets * kThreads;
      if constexpr (kBackward) {
        if (works(s, tile, e)) out[e] = Finisher::finish(prepared[e], total[0], kept);
      } else if (works(s, tile, e)) {
        out[e] = finishers[e % kOwn].finish(s, place, inputs[e], total, kept);
      } else if (downwards) {
        out[e].hidden = initial(place, unit[e % kOwn]);
      }
    }
    if (step + 1 < steps) {
      publish(exchange(tile, next_slot, own_part), [&](int e, int g) {
        if constexpr (kBackward) {
          return out[e].slot[kGates == 3 && g == 2 ? 3 : g];
        } else {
          return out[e].hidden;
        }
      });
      if constexpr (Block::kCounts) {
        ptx::barrier_sync(kRnnCounterThere, kThreads + 32);
        ptx::barrier_arrive(kRnnPublished, kThreads + 32);
      }
    }
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      if (works(s, tile, e)) finishers[e % kOwn].store(s, tile * N + place_in_tile[e / kOwn], out[e]);
    }
    block.meet();  // the states of this turn have been multiplied, and its sums taken
    if (kCluster && product >= 0 && tid == 0) ptx::mbarrier_arrive_cluster(release);
    if (!Block::kCounts && until_clear == 0) {
      int cleared = slot + p.period + 1;
      if (cleared >= slots) cleared -= slots;
      for (int data = step + p.period + 1; data <= step + 2 * p.period && data < steps; ++data) {
        unsigned char* const to = exchange(tile, cleared, own_part);
#pragma unroll
        for (int i = 0; i < kWords; ++i) {
#pragma unroll
          for (int g = 0; g < kStates; ++g) {
            if (stores) ptx::st_relaxed_gpu(to + word_at[i] + g * kGateBytes, kRnnNothing);
          }
        }
        if (++cleared == slots) cleared = 0;
      }
      ptx::fence_acq_rel_gpu();
    }
    tile += tile_step;
    mine += kKeptStep;
    if (tile >= shape.tiles) {
      tile = first_tile;
      mine = first_kept;
      ++step;
      slot = next_slot;
      until_clear = until_clear == 0 ? p.period - 1 : until_clear - 1;
    }
  }
  if constexpr (kCluster) tile::cluster_sync(kParts);  // no block leaves before the last word for it has come
}

template <class T, int kGates, int N, int kParts, int kWarpgroups, RnnHeld kHeld, bool kBackward,
          int kSets = kRnnSplitSets>
bool launch_rnn_direct_block(const RnnSplit& p, cudaStream_t stream) {
  constexpr auto kKernel = &rnn_split_direct_sm90<T, kGates, N, kParts, kWarpgroups, kHeld, kBackward, kSets>;
  cuda::allow_shared_memory<kKernel>(kRnnSplitShared);
  return cuda::launch_kernel(
             kKernel,
             {.blocks = dim3(static_cast<unsigned>(kParts * p.shape.groups), static_cast<unsigned>(p.shape.slices),
                             static_cast<unsigned>(p.layer.directions)),
              .threads = dim3(static_cast<unsigned>(p.shape.sets) * kWarpgroups * kRnnDirectThreads +
                              (rnn_direct_counts(N, kHeld == RnnHeld::half, kBackward) ? kRnnDirectThreads : 0)),
              .shared_bytes = kRnnSplitShared,
              .cluster = dim3(kParts == 2 ? 2 : 1),
              .cooperative = true},
             stream, p) == cudaSuccess;
}

// The shapes of `rnn_split_shape` that are direct. Floats: one set, whose weights are in registers.
template <int kGates, bool kBackward>
bool launch_rnn_direct_floats(const RnnSplit& p, cudaStream_t stream) {
  constexpr int kLeast = kBackward ? 2 : 1;
  if constexpr (kGates == 1) {
    return false;
  } else {
    switch (p.shape.places) {
      case 8:
        return launch_rnn_direct_block<float, kGates, 8, kLeast, 2, RnnHeld::all, kBackward>(p, stream);
      case 16:
        return launch_rnn_direct_block<float, kGates, 16, 2 * kLeast, 2, RnnHeld::all, kBackward>(p, stream);
      default:
        return launch_rnn_direct_block<float, kGates, 32, 4 * kLeast, 2, RnnHeld::all, kBackward>(p, stream);
    }
  }
}
template <class T, int kGates, bool kBackward>
bool launch_rnn_direct_gates(const RnnSplit& p, cudaStream_t stream) {
  // One set of few places holds its weights in registers.
  constexpr int kHeldParts = kBackward ? 2 : 1;
  if constexpr (kGates > 1) {
    if (p.shape.parts == kHeldParts && p.shape.places == 8) {
      return p.shape.sets == 1
                 ? launch_rnn_direct_block<T, kGates, 8, kHeldParts, 2, RnnHeld::all, kBackward>(p, stream)
                 : launch_rnn_direct_block<T, kGates, 8, kHeldParts, 2, RnnHeld::none, kBackward>(p, stream);
    }
    if constexpr (kBackward) {
      if (p.shape.sets > kRnnSplitSets) {
        return launch_rnn_direct_block<T, kGates, 16, 4, 1, RnnHeld::none, kBackward, kRnnDirectSets>(p, stream);
      }
      return launch_rnn_direct_block<T, kGates, 16, 4, 1, RnnHeld::none, kBackward>(p, stream);
    } else {
      return p.shape.places == 16 ? launch_rnn_direct_block<T, kGates, 16, 2, 2, RnnHeld::none, kBackward>(p, stream)
                                  : launch_rnn_direct_block<T, kGates, 32, 2, 1, RnnHeld::none, kBackward>(p, stream);
    }
  } else {
    return p.shape.parts == 1 ? launch_rnn_direct_block<T, kGates, 8, 1, 2, RnnHeld::none, kBackward>(p, stream)
                              : launch_rnn_direct_block<T, kGates, 16, 2, 2, RnnHeld::none, kBackward>(p, stream);
  }
}
template <class T, bool kBackward>
bool launch_rnn_direct_pass(const RnnSplit& p, cudaStream_t stream) {
  const auto launch = [&]<int kGates>(std::integral_constant<int, kGates>) {
    if constexpr (sizeof(T) == 4) {
      return launch_rnn_direct_floats<kGates, kBackward>(p, stream);
    } else {
      return launch_rnn_direct_gates<T, kGates, kBackward>(p, stream);
    }
  };
  switch (rnn_gates(p.layer.cell)) {
    case 4:
      return launch(std::integral_constant<int, 4>());
    case 3:
      return launch(std::integral_constant<int, 3>());
    default:
      return launch(std::integral_constant<int, 1>());
  }
}
template <class T>
bool launch_rnn_direct_type(const RnnSplit& p, bool backward, cudaStream_t stream) {
  return backward ? launch_rnn_direct_pass<T, true>(p, stream) : launch_rnn_direct_pass<T, false>(p, stream);
}

}  // namespace gpudnn::kernels
