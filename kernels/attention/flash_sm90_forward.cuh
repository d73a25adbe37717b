// Attention forward for Hopper: o = softmax(scale q k^T, masked) v in 16-bit types, with online softmax.
//
// A persistent block takes tiles of kRows rows of one head in an order in which the longest come first. One thread of
// the producer warpgroup loads q once a tile, and k and v tiles of kColumns rows through two rings of two stages, by
// TMA. Each of the consumer warpgroups has 64 rows: S = q k^T with both operands in shared memory; P from registers
// times v. S of the next tile is issued before P v of this one, so that softmax runs beside the tensor cores; and the
// warpgroups take turns to issue (ping-pong by named barriers), so that one computes softmax while another multiplies.
// Column tiles go from the last to the first: those that a bound or a length cuts are masked, the others are not.
//
// Rows of q, k, v beyond the tensor and elements beyond its head dimension are zeros by TMA; v beyond a sequence's
// length is cleared in shared memory, as 0 times a NaN is none. Scores are in units of log2: p = 2^(scale log2(e) (s -
// max)). ALiBi, and a bias that all rows share, have instances with one more step in the product of scores, whose
// operand of keys a warp of the producers writes. Limits: head dimensions multiples of 8 up to the instance's, strides
// multiples of 16 bytes. Which block makes a tile does not change a bit of it. The file is long because the kernel's
// steps share its registers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_added_step.cuh"
#include "kernels/attention/flash_far_scores.cuh"
#include "kernels/attention/flash_sm90_tile.cuh"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/ptx/setmaxnreg.cuh"
#include "kernels/ptx/stmatrix.cuh"
#include "kernels/ptx/wgmma_group_apart.cuh"
#include "kernels/tile/dynamic_shared.cuh"

namespace gpudnn::kernels::flash_sm90 {

template <class T, int kDimQk_, int kDimV_, int kRows_, int kColumns_, int kBlocks_, bool kAdds_ = false>
struct ForwardConfig {
  using Element = T;
  static constexpr int kDimQk = kDimQk_;
  static constexpr int kDimV = kDimV_;
  static constexpr int kRows = kRows_;
  static constexpr int kColumns = kColumns_;
  static constexpr int kBlocks = kBlocks_;  // of a multiprocessor
  static constexpr bool kAdds = kAdds_;     // ALiBi, or a bias that all rows share
  static constexpr int kConsumers = kRows / 64;
  // Alone, a block gives its producer's registers to the consumers, for which the producer is a warpgroup, the first.
  // Of several blocks the producer is a warp, the last.
  static constexpr bool kIsAlone = kBlocks == 1;
  static constexpr int kFirstConsumer = kIsAlone ? kWarpgroup : 0;
  static constexpr int kThreads = kConsumers * kWarpgroup + (kIsAlone ? kWarpgroup : 32);
  static constexpr int kStages = 2;
  static constexpr int kProducerRegisters = kConsumers == 3 ? 32 : kDimV > 128 ? 24 : 40;
  static constexpr int kConsumerRegisters = kConsumers == 3 ? 160 : kDimV > 128 ? 240 : 232;
  static constexpr bool kTakesTurns = kDimV <= 128 && kIsAlone;
  // Tiles that are less than a round may go to more blocks, a warpgroup each.
  static constexpr bool kSharesLast = kIsAlone && kConsumers > 1 && kDimQk <= 128 && !kAdds;
  // With as many products as o of 256 columns has, it pays to leave a maximum that has grown a little as it was:
  // probabilities stay below 2^slack, and nothing is rescaled.
  static constexpr bool kLeavesMaximum = kDimV > 128;
  // Panels of 64 columns come and go whole.
  static constexpr int kPanelsQk = (kDimQk + kPanelColumns - 1) / kPanelColumns;
  static constexpr int kPanelsV = (kDimV + kPanelColumns - 1) / kPanelColumns;
  static constexpr int kQBytes = kRows * kPanelsQk * kPanelBytes;
  static constexpr int kKBytes = kColumns * kPanelsQk * kPanelBytes;
  static constexpr int kVBytes = kColumns * kPanelsV * kPanelBytes;
  static constexpr int kOBytes = kRows * kPanelsV * kPanelBytes;
  static constexpr int kAddedRowBytes = kAdds ? kRows * AddedStep<T>::kRowBytes : 16;
  static constexpr int kAddedKeyBytes = kAdds ? kColumns * AddedStep<T>::kRowBytes : 16;
  static constexpr int kAddedBytes = kAdds ? kAddedRowBytes + kStages * kAddedKeyBytes : 0;
  static_assert(!kAdds || (kIsAlone && kDimV <= 128), "maxima are not left, and a warp of producers is there");
  // o is staged in memory of its own where there is room, else where q was.
  static constexpr bool kOInQ = kQBytes + kStages * (kKBytes + kVBytes) + kOBytes + kAddedBytes > 220 * 1024;
  // Of two stages, q of the next tile comes beside the products of this one.
  static constexpr int kQStages =
      !kOInQ && 2 * kQBytes + kStages * (kKBytes + kVBytes) + kOBytes + kAddedBytes <= 225 * 1024 / kBlocks - 1024 ? 2
                                                                                                                   : 1;
  static_assert(!kOInQ || kDimV <= kDimQk, "o fits where q was");
};

// A tile: the block's rows, and the column tiles that they see.
struct ForwardTile {
  int batch, head, row, first, end;  // column tiles [first, end)
  int only = -1;                     // the one warpgroup that makes its rows of the tile; -1: all do
  Sequence sequence;
};

template <class C>
struct ForwardShared {
  alignas(1024) unsigned char q[C::kQStages][C::kQBytes];
  alignas(1024) unsigned char k[C::kStages][C::kKBytes];
  alignas(1024) unsigned char v[C::kStages][C::kVBytes];
  alignas(1024) unsigned char o[C::kOInQ ? 1024 : C::kOBytes];
  alignas(C::kAdds ? 1024 : 16) unsigned char added_rows[C::kAddedRowBytes];
  alignas(C::kAdds ? 1024 : 16) unsigned char added_keys[C::kStages][C::kAddedKeyBytes];
  std::uint64_t q_full[C::kQStages], q_empty[C::kQStages];
  std::uint64_t k_full[C::kStages], k_empty[C::kStages];
  std::uint64_t v_full[C::kStages], v_empty[C::kStages];
  std::uint64_t added_full[C::kStages], added_empty[C::kStages];
  std::uint64_t tile_full[2], tile_empty[2];
  int tile_number[2];
};

enum ForwardBarrier { kTurn = 1, kConsumersMeet = 5, kWarpgroupMeets = 6 };

// The tile with this number.
template <class C>
__device__ __forceinline__ ForwardTile forward_tile(const FlashForwardParams& p, int number) {
  const FlashTilePlace place = place_of(p.sections, number);
  ForwardTile tile;
  tile.row = (p.row_tiles - 1 - place.tile) * C::kRows;
  tile.batch = place.batch;
  tile.head = place.head;
  tile.sequence = sequence_of(p.mask, tile.batch);
  const int end_row = min(tile.row + C::kRows, tile.sequence.length_q);
  const int first = first_column(p.mask, tile.sequence, tile.row);
  const int end = end_column(p.mask, tile.sequence, end_row - 1);
  tile.first = first / C::kColumns;
  tile.end = end_row <= tile.row || end <= first ? tile.first : (end + C::kColumns - 1) / C::kColumns;
  return tile;
}
// The same where the tiles behind the whole ones are of one warpgroup each.
template <class C>
__device__ __forceinline__ ForwardTile tile_or_part(const FlashForwardParams& p, int number) {
  const int part = C::kSharesLast ? number - p.whole_tiles : -1;
  ForwardTile tile = forward_tile<C>(p, part < 0 ? number : p.whole_tiles + part / C::kConsumers);
  if (part >= 0) tile.only = part % C::kConsumers;
  return tile;
}

// What a row's maximum and its sum of exponentials tell, where it is wanted.
__device__ __forceinline__ void write_row_values(const FlashForwardParams& p, const ForwardTile& tile, int row,
                                                 bool inside, float most, float sum) {
  if (row >= p.mask.length_q) return;
  const auto put = [&](const FlashRowValues& values, float value) {
    if (values.data == nullptr) return;
    values.data[tile.batch * values.strides[0] + tile.head * values.strides[1] + row * values.strides[2]] = value;
  };
  put(p.stats, inside && sum != 0.0F ? most + logf(sum) : -INFINITY);
  put(p.max, inside ? most : -INFINITY);
  put(p.sum_exp, inside ? sum : 0.0F);
}

// A tile whose rows see nothing: zeros, but where the sink has a share. By the consumers; an element of o is so many
// units.
template <class C, class Unit>
__device__ __forceinline__ void write_nothing(const FlashForwardParams& p, const ForwardTile& tile, int units,
                                              int first_consumer) {
  constexpr int kChunk = 16 / static_cast<int>(sizeof(Unit));
  const int rows = min(C::kRows, p.mask.length_q - tile.row);
  const int chunks = p.dim_v * units / kChunk;
  Unit* const o = static_cast<Unit*>(p.o_data) + (tile.batch * p.o_strides[0] + tile.head * p.o_strides[1]) * units;
  for (int i = static_cast<int>(threadIdx.x) - first_consumer; i < rows * chunks; i += C::kConsumers * kWarpgroup) {
    *reinterpret_cast<uint4*>(o + (tile.row + i / chunks) * p.o_strides[2] * units + i % chunks * kChunk) = uint4{};
  }
  for (int i = static_cast<int>(threadIdx.x) - first_consumer; i < rows; i += C::kConsumers * kWarpgroup) {
    const bool inside = tile.row + i < tile.sequence.length_q && p.sink != nullptr;
    write_row_values(p, tile, tile.row + i, inside, inside ? p.sink[tile.head] : -INFINITY, inside ? 1.0F : 0.0F);
  }
}

// The tile of a block's turn where tiles go round: every other time in the opposite order, as lengths fall.
__device__ __forceinline__ int tile_in_turn(int turn) {
  const int block = static_cast<int>(blockIdx.x);
  const int blocks = static_cast<int>(gridDim.x);
  return turn * blocks + (turn % 2 == 0 ? block : blocks - 1 - block);
}

template <class C>
__device__ __forceinline__ void produce(const FlashForwardParams& p, ForwardShared<C>& shared) {
  tile::PipelineState<C::kStages> k_turn, v_turn;
  tile::PipelineState<C::kQStages> q_turn;
  const auto load_k = [&](const ForwardTile& tile, int column_tile) {
    tile::wait(&shared.k_empty[k_turn.stage], k_turn.parity ^ 1);
    ptx::mbarrier_arrive_expect_tx(&shared.k_full[k_turn.stage], C::kKBytes);
#pragma unroll
    for (int panel = 0; panel < C::kPanelsQk; ++panel) {
      ptx::tma_tile_5d(shared.k[k_turn.stage] + panel * C::kColumns * kPanelBytes, &p.k, &shared.k_full[k_turn.stage],
                       panel * kPanelColumns, column_tile * C::kColumns,
                       static_cast<int>(p.group_k.quotient(static_cast<std::uint32_t>(tile.head))), tile.batch, 0);
    }
    k_turn.next();
  };
  const auto load_v = [&](const ForwardTile& tile, int column_tile) {
    tile::wait(&shared.v_empty[v_turn.stage], v_turn.parity ^ 1);
    ptx::mbarrier_arrive_expect_tx(&shared.v_full[v_turn.stage], C::kVBytes);
#pragma unroll
    for (int panel = 0; panel < C::kPanelsV; ++panel) {
      ptx::tma_tile_5d(shared.v[v_turn.stage] + panel * C::kColumns * kPanelBytes, &p.v, &shared.v_full[v_turn.stage],
                       panel * kPanelColumns, column_tile * C::kColumns,
                       static_cast<int>(p.group_v.quotient(static_cast<std::uint32_t>(tile.head))), tile.batch, 0);
    }
    v_turn.next();
  };
  tile::PipelineState<2> tile_turn;
  int number = static_cast<int>(blockIdx.x);
  for (int turn = 0;; ++turn) {
    // The first tile is the block's own; the following are handed out, or go round.
    if (turn > 0) {
      if (turn == 1) ptx::griddepcontrol_wait();  // the counter is set
      number = p.next_tile != nullptr ? static_cast<int>(gridDim.x) + atomicAdd(p.next_tile, 1) : tile_in_turn(turn);
    }
    tile::wait(&shared.tile_empty[tile_turn.stage], tile_turn.parity ^ 1);
    shared.tile_number[tile_turn.stage] = number;
    ptx::mbarrier_arrive(&shared.tile_full[tile_turn.stage]);
    tile_turn.next();
    if (number >= p.tiles) break;
    const ForwardTile tile = tile_or_part<C>(p, number);
    if (tile.end <= tile.first) continue;
    tile::wait(&shared.q_empty[q_turn.stage], q_turn.parity ^ 1);
    ptx::mbarrier_arrive_expect_tx(&shared.q_full[q_turn.stage], C::kQBytes);
#pragma unroll
    for (int panel = 0; panel < C::kPanelsQk; ++panel) {
      ptx::tma_tile_5d(shared.q[q_turn.stage] + panel * C::kRows * kPanelBytes, &p.q, &shared.q_full[q_turn.stage],
                       panel * kPanelColumns, tile.row, tile.head, tile.batch, 0);
    }
    q_turn.next();
    load_k(tile, tile.end - 1);
    for (int j = tile.end - 2; j >= tile.first; --j) {
      load_k(tile, j);
      load_v(tile, j + 1);
    }
    load_v(tile, tile.first);
  }
}

// A warp of the producers: the operand of keys of the step that adds bias, for each tile of keys that consumers take.
template <class C>
__device__ __forceinline__ void produce_added_keys(const FlashForwardParams& p, ForwardShared<C>& shared) {
  using T = typename C::Element;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  tile::PipelineState<2> tile_turn;
  tile::PipelineState<C::kStages> turn;
  while (true) {
    tile::wait(&shared.tile_full[tile_turn.stage], tile_turn.parity);
    const int read = lane == 0 ? shared.tile_number[tile_turn.stage] : 0;
    if (lane == 0) ptx::mbarrier_arrive(&shared.tile_empty[tile_turn.stage]);
    const int number = __shfl_sync(0xffffffffu, read, 0);
    tile_turn.next();
    if (number >= p.tiles) return;
    const ForwardTile tile = tile_or_part<C>(p, number);
    const auto* const bias =
        static_cast<const std::uint16_t*>(p.bias) + tile.batch * p.bias_strides[0] + tile.head * p.bias_strides[1];
    // Those of the next tile of keys are asked for before this one's are written.
    const auto load = [&](int j, std::uint16_t(&to)[C::kColumns / 32]) {
#pragma unroll
      for (int i = 0; i < C::kColumns / 32; ++i) {
        const int column = j * C::kColumns + 32 * i + lane;
        to[i] = j >= tile.first && column < tile.sequence.length_kv ? __ldg(bias + column * p.bias_strides[2]) : 0;
        if constexpr (!std::is_same_v<T, tile::Half>) to[i] = AddedStep<T>::cut(to[i], p.scale);
      }
    };
    std::uint16_t next[C::kColumns / 32];
    load(tile.end - 1, next);
    for (int j = tile.end - 1; j >= tile.first; --j) {
      std::uint16_t its[C::kColumns / 32];
#pragma unroll
      for (int i = 0; i < C::kColumns / 32; ++i) its[i] = next[i];
      load(j - 1, next);
      tile::wait(&shared.added_empty[turn.stage], turn.parity ^ 1);
#pragma unroll
      for (int i = 0; i < C::kColumns / 32; ++i) {
        AddedStep<T>::template write_key<C::kColumns>(shared.added_keys[turn.stage], 32 * i + lane, its[i]);
      }
      ptx::fence_proxy_async();
      __syncwarp();
      if (lane == 0) ptx::mbarrier_arrive(&shared.added_full[turn.stage]);
      turn.next();
    }
  }
}

template <class C>
class Consumer {
  using T = typename C::Element;

 public:
  __device__ __forceinline__ Consumer(const FlashForwardParams& params, ForwardShared<C>& memory)
      : p(params),
        shared(memory),
        q_base(tile::operand_descriptor<128>(memory.q[0] + warpgroup() * 64 * kPanelBytes, 0)) {}

  __device__ __forceinline__ void run() {
    if (C::kTakesTurns && place.warpgroup == C::kConsumers - 1) ptx::barrier_arrive(kTurn, 2 * kWarpgroup);
    tile::PipelineState<2> tile_turn;
    while (true) {
      tile::wait(&shared.tile_full[tile_turn.stage], tile_turn.parity);
      // The lane that reads the number is the one that gives its place back.
      const int read = place.lane == 0 ? shared.tile_number[tile_turn.stage] : 0;
      release(&shared.tile_empty[tile_turn.stage]);
      const int number = __shfl_sync(0xffffffffu, read, 0);
      tile_turn.next();
      if (number >= p.tiles) break;
      tile = tile_or_part<C>(p, number);
      if (tile.end <= tile.first) {
        write_nothing<C, T>(p, tile, 1, C::kFirstConsumer);
      } else if (C::kSharesLast && is_of_other()) {
        pass_by();
      } else {
        multiply();
        write();
      }
    }
    // Copies out of shared memory end before the block does.
    ptx::bulk_wait_group_read<0>();
  }

 private:
  // Instances that add are short of registers. There, as where there is one, the warpgroup is a number that the
  // compiler knows to be one for a warp, and of a descriptor the lower half alone advances, as no address carries:
  // descriptors stay in fewer registers. Elsewhere that gains nothing.
  [[nodiscard]] __device__ __forceinline__ int warpgroup() const {
    if constexpr (C::kConsumers == 1) return 0;
    return C::kAdds ? __shfl_sync(0xffffffffu, place.warpgroup, 0) : place.warpgroup;
  }
  static __device__ __forceinline__ std::uint64_t advance(std::uint64_t descriptor, std::uint64_t by) {
    if constexpr (!C::kAdds && C::kConsumers > 1) return descriptor + by;
    const std::uint32_t low = static_cast<std::uint32_t>(descriptor) + static_cast<std::uint32_t>(by);
    return (descriptor >> 32 << 32) | low;
  }
  __device__ __forceinline__ void ping_pong_wait() {
    if constexpr (C::kTakesTurns) ptx::barrier_sync(kTurn + place.warpgroup, 2 * kWarpgroup);
  }
  __device__ __forceinline__ void ping_pong_pass() {
    if constexpr (C::kTakesTurns) {
      ptx::barrier_arrive(kTurn + (place.warpgroup + 1) % C::kConsumers, 2 * kWarpgroup);
    }
  }
  __device__ __forceinline__ void release(std::uint64_t* barrier) {
    if (place.lane == 0) ptx::mbarrier_arrive(barrier);
  }

  // S = q k^T of the next stage of k.
  __device__ __forceinline__ void issue_scores(float (&s)[C::kColumns / 2]) {
    const std::uint64_t k_base = tile::operand_descriptor<128>(shared.k[k_turn.stage], 0);
    const std::uint64_t q_stage = advance(q_base, static_cast<std::uint32_t>(q_turn.stage) * (C::kQBytes >> 4));
    ptx::pin(s);
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < C::kDimQk / 16; ++k) {
      ptx::wgmma_ss<T, T, C::kColumns>(s, advance(q_stage, k_major_step<C::kRows>(0, k)),
                                       advance(k_base, k_major_step<C::kColumns>(0, k)), k == 0 ? 0 : 1);
    }
    if constexpr (C::kAdds) {
      ptx::wgmma_ss<T, T, C::kColumns>(s, tile::operand_descriptor<64>(added_rows(), 0),
                                       tile::operand_descriptor<64>(shared.added_keys[added_turn.stage], 0), 1);
    }
    ptx::wgmma_commit_group();
  }
  __device__ __forceinline__ unsigned char* added_rows() const {
    return shared.added_rows + place.warpgroup * 64 * AddedStep<T>::kRowBytes;
  }
  // k of the next stage is there, and what is added beside it.
  __device__ __forceinline__ void wait_for_keys() {
    tile::wait(&shared.k_full[k_turn.stage], k_turn.parity);
    if constexpr (C::kAdds) {
      if (p.bias != nullptr) tile::wait(&shared.added_full[added_turn.stage], added_turn.parity);
    }
  }
  __device__ __forceinline__ void release_keys() {
    release(&shared.k_empty[k_turn.stage]);
    k_turn.next();
    if constexpr (C::kAdds) {
      if (p.bias == nullptr) return;  // the columns' places stay
      release(&shared.added_empty[added_turn.stage]);
      added_turn.next();
    }
  }
  // This tile's rows of the operand; its slope.
  __device__ __forceinline__ void write_added_rows() {
    slope = p.alibi_slopes != nullptr ? p.alibi_slopes[tile.head] * p.slope_scale : 0.0F;
    if (place.lane < 16) AddedStep<T>::write_row(added_rows(), place.warp * 16 + place.lane, slope, p.bias_parts);
    ptx::fence_proxy_async();
    ptx::barrier_sync(kWarpgroupMeets + place.warpgroup, kWarpgroup);
  }
  // What the products of a slope that the type does not hold left out.
  __device__ __forceinline__ void add_large_slope(float (&s)[C::kColumns / 2]) const {
    if (AddedStep<T>::holds(slope)) return;
#pragma unroll
    for (int i = 0; i < C::kColumns / 2; ++i) {
      s[i] = fmaf(slope, static_cast<float>(i / 4 * 8 + i % 2 - C::kColumns / 2 + place.column()), s[i]);
    }
  }
  // ALiBi of the tile's middle, which all scores of the row have beside what products add for the other columns.
  __device__ __forceinline__ float beside_scores(int half, int first_of_tile) const {
    if constexpr (!C::kAdds) return 0.0F;
    return slope * static_cast<float>(first_of_tile + C::kColumns / 2 - (tile.row + place.row() + 8 * half));
  }

  // O += P v of the next stage of v.
  __device__ __forceinline__ void issue_output() {
    const std::uint64_t v_base = tile::operand_descriptor<128>(shared.v[v_turn.stage], C::kColumns * kPanelBytes);
    ptx::pin(out);
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < C::kColumns / 16; ++k) {
      ptx::wgmma_rs<T, T, C::kDimV, ptx::Major::mn>(out, weights[k], advance(v_base, mn_major_step(0, k)), 1);
    }
    ptx::wgmma_commit_group();
  }

  __device__ __forceinline__ void hide(int first_of_tile, float (&s)[C::kColumns / 2]) {
    const auto hide_unless = [&](auto column_of, auto is_visible) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int from = column_of(tile.row + place.row() + 8 * half) - first_of_tile - place.column();
#pragma unroll
        for (int i = 0; i < C::kColumns / 8; ++i) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            float& score = s[4 * i + 2 * half + e];
            score = is_visible(8 * i + e, from) ? score : -INFINITY;
          }
        }
      }
    };
    hide_unless([&](int row) { return end_column(p.mask, tile.sequence, row); },
                [](int column, int end) { return column < end; });
    if (!p.mask.has_left) return;
    hide_unless([&](int row) { return first_column(p.mask, tile.sequence, row); },
                [](int column, int first) { return column >= first; });
  }

  // Scores to probabilities under the new maximum; `corrections` is what was summed before is multiplied by.
  template <bool kMasked>
  __device__ __forceinline__ void softmax(bool cut, int column_tile, float (&s)[C::kColumns / 2],
                                          float (&corrections)[2]) {
    if (p.negates) {
#pragma unroll
      for (int i = 0; i < C::kColumns / 2; ++i) s[i] = -s[i];
    }
    if constexpr (C::kAdds) add_large_slope(s);
    if constexpr (kMasked) {
      if (cut) hide(column_tile * C::kColumns, s);
    }
    if constexpr (C::kAdds) return added_softmax(column_tile, s, corrections);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = fmaxf(s[2 * half], s[2 * half + 1]);
#pragma unroll
      for (int i = 1; i < C::kColumns / 8; ++i) most = fmaxf(most, fmaxf(s[4 * i + 2 * half], s[4 * i + 2 * half + 1]));
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
      // Kept in units of log2, as it is rounded: what was summed loses nothing from one maximum to the next. Rounded
      // up, no exponent is above 0, however great scores are.
      float top = fmaxf(most_[half], __fmul_ru(most, p.scale_log2));
      const bool stays = C::kLeavesMaximum && top - most_[half] <= p.slack;
      if (stays) top = most_[half];
      const float base = top == -INFINITY ? 0.0F : top;
      corrections[half] = stays ? 1.0F : ptx::ex2_approx_ftz(most_[half] - base);
      most_[half] = top;
      float sum = 0.0F;
#pragma unroll
      for (int i = 0; i < C::kColumns / 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& score = s[4 * i + 2 * half + e];
          score = ptx::ex2_approx_ftz(fmaf(score, p.scale_log2, -base));
          sum += score;
        }
      }
      sum_[half] = fmaf(sum_[half], corrections[half], sum);
    }
  }

  // The same with what is beside the scores; maxima are in units of scores.
  __device__ __forceinline__ void added_softmax(int column_tile, float (&s)[C::kColumns / 2], float (&corrections)[2]) {
    float bases[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float beside = beside_scores(half, column_tile * C::kColumns);
      float most = -INFINITY;
#pragma unroll
      for (int i = 0; i < C::kColumns / 8; ++i) most = fmaxf(most, fmaxf(s[4 * i + 2 * half], s[4 * i + 2 * half + 1]));
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
      most = fmaxf(most_[half], most + beside);
      bases[half] = most == -INFINITY ? 0.0F : most - beside;
      // Of a maximum that stays, 1 it is exactly where what is beside it is large.
      corrections[half] = ptx::ex2_approx_ftz(most == -INFINITY ? 0.0F : (most_[half] - most) * p.scale_log2);
      most_[half] = most;
    }
    // Biases of bf16 may be far beyond scores.
    if constexpr (!std::is_same_v<T, tile::Half>) subtract_far<C::kColumns>(p.scale_log2, bases, s);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float base = bases[half] * p.scale_log2;
      float sum = 0.0F;
#pragma unroll
      for (int i = 0; i < C::kColumns / 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& score = s[4 * i + 2 * half + e];
          score = ptx::ex2_approx_ftz(fmaf(score, p.scale_log2, -base));
          sum += score;
        }
      }
      sum_[half] = fmaf(sum_[half], corrections[half], sum);
    }
  }

  // Whether a bound or a length cuts a column tile for any row of the block.
  __device__ __forceinline__ bool is_cut(int column_tile) const {
    const int first = column_tile * C::kColumns;
    const int last_row = min(tile.row + C::kRows, tile.sequence.length_q) - 1;
    return first + C::kColumns > end_column(p.mask, tile.sequence, tile.row) ||
           first < first_column(p.mask, tile.sequence, last_row);
  }

  // Clears v beyond the sequence's length in the first stage of a tile, which is the only one that has such rows.
  __device__ __forceinline__ void clear_beyond_length() {
    const int rows = tile.sequence.length_kv - (tile.end - 1) * C::kColumns;
    if (p.mask.lengths_kv == nullptr || rows >= C::kColumns || tile.sequence.length_kv == p.mask.length_kv) return;
    tile::wait(&shared.v_full[v_turn.stage], v_turn.parity);
    constexpr int kChunks = C::kDimV / 8;
    for (int i = static_cast<int>(threadIdx.x) - C::kFirstConsumer; i < (C::kColumns - rows) * kChunks;
         i += C::kConsumers * kWarpgroup) {
      const std::uint32_t offset = swizzled_chunk<C::kColumns>(rows + i / kChunks, i % kChunks);
      *reinterpret_cast<uint4*>(shared.v[v_turn.stage] + offset) = uint4{};
    }
    ptx::fence_proxy_async();
    ptx::barrier_sync(kConsumersMeet, C::kConsumers * kWarpgroup);
  }

  template <bool kMasked>
  __device__ __forceinline__ void step(int column_tile) {
    float s[C::kColumns / 2];
    wait_for_keys();
    ping_pong_wait();
    issue_scores(s);
    tile::wait(&shared.v_full[v_turn.stage], v_turn.parity);
    issue_output();
    ping_pong_pass();
    ptx::wgmma_wait_group<1>();
    ptx::pin(s);
    release_keys();
    float corrections[2];
    softmax<kMasked>(true, column_tile, s, corrections);
    if constexpr (C::kTakesTurns) {
      ptx::wgmma_wait_group<0>();
      ptx::pin(out);
      release(&shared.v_empty[v_turn.stage]);
      v_turn.next();
      to_operand<T, C::kColumns>(s, weights);
#pragma unroll
      for (int i = 0; i < C::kDimV / 2; ++i) out[i] *= corrections[i / 2 % 2];
      return;
    }
    // On both sides of a branch, the wait stays behind the softmax. All warps of the grid take the same side, as PTX
    // wants of a wait. Where warpgroups take turns that gains nothing.
    if (p.negates) {
      ptx::wgmma_wait_group_apart<0>();
    } else {
      ptx::wgmma_wait_group<0>();
    }
    ptx::pin(out);
    if (!__all_sync(0xffffffffu, corrections[0] == 1.0F && corrections[1] == 1.0F)) {
#pragma unroll
      for (int i = 0; i < C::kDimV / 2; ++i) out[i] *= corrections[i / 2 % 2];
    }
    release(&shared.v_empty[v_turn.stage]);
    v_turn.next();
    to_operand<T, C::kColumns>(s, weights);
  }

  __device__ __forceinline__ void multiply() {
#pragma unroll
    for (int i = 0; i < C::kDimV / 2; ++i) out[i] = 0.0F;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      most_[half] = -INFINITY;
      sum_[half] = 0.0F;
    }
    if constexpr (C::kAdds) write_added_rows();
    tile::wait(&shared.q_full[q_turn.stage], q_turn.parity);
    {
      float s[C::kColumns / 2];
      float corrections[2];
      wait_for_keys();
      ping_pong_wait();
      issue_scores(s);
      ping_pong_pass();
      ptx::wgmma_wait_group<0>();
      ptx::pin(s);
      release_keys();
      clear_beyond_length();
      softmax<true>(is_cut(tile.end - 1), tile.end - 1, s, corrections);
      to_operand<T, C::kColumns>(s, weights);
    }
    int j = tile.end - 2;
    while (j >= tile.first) {
#pragma unroll 1
      for (; j >= tile.first && is_cut(j); --j) step<true>(j);
#pragma unroll 1
      for (; j >= tile.first && !is_cut(j); --j) step<false>(j);
    }
    if constexpr (!C::kOInQ) release(&shared.q_empty[q_turn.stage]);
    q_turn.next();
    tile::wait(&shared.v_full[v_turn.stage], v_turn.parity);
    issue_output();
    ptx::wgmma_wait_group<0>();
    ptx::pin(out);
    release(&shared.v_empty[v_turn.stage]);
    v_turn.next();
  }

  // Whether the tile is another warpgroup's. By a vote, as where consumers begin.
  [[nodiscard]] __device__ __forceinline__ bool is_of_other() const {
    return __all_sync(0xffffffffu, tile.only >= 0 && tile.only != place.warpgroup);
  }
  // What the others do in a tile of one: they give back what it reads, and take their turns.
  __device__ __forceinline__ void pass_by() {
    tile::wait(&shared.q_full[q_turn.stage], q_turn.parity);
#pragma unroll 1
    for (int j = tile.first; j < tile.end; ++j) {
      wait_for_keys();
      ping_pong_wait();
      ping_pong_pass();
      release_keys();
      tile::wait(&shared.v_full[v_turn.stage], v_turn.parity);
      release(&shared.v_empty[v_turn.stage]);
      v_turn.next();
    }
    static_assert(!C::kSharesLast || !C::kOInQ, "q is given back once it is read");
    release(&shared.q_empty[q_turn.stage]);
    q_turn.next();
  }

  // Of the keys that the row sees: its maximum, where all of them were cut.
  __device__ __forceinline__ float greatest_bias(int row) const {
    const auto* const bias =
        static_cast<const T*>(p.bias) + tile.batch * p.bias_strides[0] + tile.head * p.bias_strides[1];
    float most = -INFINITY;
    for (int key = first_column(p.mask, tile.sequence, row); key < end_column(p.mask, tile.sequence, row); ++key) {
      most = fmaxf(most, tile::widen<float>(bias[key * p.bias_strides[2]]));
    }
    return most;
  }

  // Each row's sum over its four lanes, with the sink; the row's values out; what the output is multiplied by.
  __device__ __forceinline__ void finish_rows(float (&factors)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = tile.row + place.row() + 8 * half;
      const bool inside = row < tile.sequence.length_q;
      float sum = sum_[half];
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      float most = most_[half] == -INFINITY ? -INFINITY : most_[half] * (C::kAdds ? p.scale : kLn2);
      if constexpr (C::kAdds && !std::is_same_v<T, tile::Half>) {
        if (p.bias != nullptr && AddedStep<T>::may_be_cut(most, p.scale)) most = greatest_bias(row);
      }
      float factor = 1.0F;
      if (p.sink != nullptr) {
        const float sink = p.sink[tile.head];
        const float greater = fmaxf(most, sink);
        factor = expf(most - greater);
        sum = sum * factor + expf(sink - greater);
        most = greater;
      }
      factors[half] = sum == 0.0F ? 0.0F : factor / sum;
      if (place.lane % 4 == 0) write_row_values(p, tile, row, inside, most, sum);
    }
  }

  __device__ __forceinline__ void write() {
    float factors[2];
    finish_rows(factors);
    const bool inside[2] = {tile.row + place.row() < tile.sequence.length_q,
                            tile.row + place.row() + 8 < tile.sequence.length_q};
#pragma unroll
    for (int i = 0; i < C::kDimV / 2; ++i) out[i] = inside[i / 2 % 2] ? out[i] * factors[i / 2 % 2] : 0.0F;
    unsigned char* const staging = (C::kOInQ ? shared.q[0] : shared.o) + place.warpgroup * 64 * kPanelBytes;
    const int meets = kWarpgroupMeets + place.warpgroup;
    const bool leads = static_cast<int>(threadIdx.x) % kWarpgroup == 0;
    if constexpr (!C::kOInQ) {
      if (leads) ptx::bulk_wait_group_read<0>();
    }
    ptx::barrier_sync(meets, kWarpgroup);
    const std::uint32_t base = ptx::shared_address(staging);
    const int row = place.warp * 16 + place.lane / 8 % 2 * 8 + place.lane % 8;
#pragma unroll
    for (int i = 0; i < C::kDimV / 16; ++i) {
      ptx::stmatrix_x4(base + swizzled_chunk<C::kRows>(row, 2 * i + place.lane / 16),
                       pack_halves<T>(out[8 * i], out[8 * i + 1]), pack_halves<T>(out[8 * i + 2], out[8 * i + 3]),
                       pack_halves<T>(out[8 * i + 4], out[8 * i + 5]), pack_halves<T>(out[8 * i + 6], out[8 * i + 7]));
    }
    ptx::fence_proxy_async();
    ptx::barrier_sync(meets, kWarpgroup);
    if (leads) {
#pragma unroll
      for (int panel = 0; panel < C::kPanelsV; ++panel) {
        ptx::tma_store_tile_5d(&p.o, staging + panel * C::kRows * kPanelBytes, panel * kPanelColumns,
                               tile.row + place.warpgroup * 64, tile.head, tile.batch, 0);
      }
      ptx::bulk_commit_group();
      if constexpr (C::kOInQ) {
        ptx::bulk_wait_group_read<0>();
        ptx::mbarrier_arrive(&shared.q_empty[0]);
      }
    }
  }

  const FlashForwardParams& p;
  ForwardShared<C>& shared;
  FragmentPlace place{C::kFirstConsumer};
  const std::uint64_t q_base;
  ForwardTile tile;
  tile::PipelineState<C::kStages> k_turn, v_turn, added_turn;
  tile::PipelineState<C::kQStages> q_turn;
  float slope;  // in units of scores before the scale
  float out[C::kDimV / 2];
  std::uint32_t weights[C::kColumns / 16][4];
  float most_[2];
  float sum_[2];
};

template <class C>
__global__ void __launch_bounds__(C::kThreads, C::kBlocks)
    flash_forward_sm90(const __grid_constant__ FlashForwardParams p) {
  unsigned char* const memory = tile::dynamic_shared();
  const std::uint32_t skipped = (1024 - ptx::shared_address(memory) % 1024) % 1024;
  auto& shared = *reinterpret_cast<ForwardShared<C>*>(memory + skipped);
  if (threadIdx.x == 0) {
    constexpr std::uint32_t kWarps = 4 * C::kConsumers;
    for (int i = 0; i < C::kQStages; ++i) {
      ptx::mbarrier_init(&shared.q_full[i], 1);
      ptx::mbarrier_init(&shared.q_empty[i], C::kOInQ ? C::kConsumers : kWarps);
    }
    for (int i = 0; i < 2; ++i) {
      ptx::mbarrier_init(&shared.tile_full[i], 1);
      ptx::mbarrier_init(&shared.tile_empty[i], kWarps + (C::kAdds && p.bias != nullptr ? 1 : 0));
    }
    for (int i = 0; i < C::kStages; ++i) {
      ptx::mbarrier_init(&shared.k_full[i], 1);
      ptx::mbarrier_init(&shared.k_empty[i], kWarps);
      ptx::mbarrier_init(&shared.v_full[i], 1);
      ptx::mbarrier_init(&shared.v_empty[i], kWarps);
      ptx::mbarrier_init(&shared.added_full[i], 1);
      ptx::mbarrier_init(&shared.added_empty[i], kWarps);
    }
    ptx::fence_mbarrier_init();
  }
  if constexpr (C::kAdds) {
    if (p.bias == nullptr && threadIdx.x < C::kColumns) {
      const auto column = static_cast<int>(threadIdx.x);
      AddedStep<typename C::Element>::template write_key<C::kColumns>(shared.added_keys[0], column, 0);
      ptx::fence_proxy_async();
    }
  }
  __syncthreads();
  if constexpr (!C::kIsAlone) {
    // A vote: the compiler then knows that all lanes go the same way, and keeps the stages in registers of the warp.
    if (__all_sync(0xffffffffu, threadIdx.x < C::kConsumers * kWarpgroup)) {
      Consumer<C>(p, shared).run();
    } else if (threadIdx.x == C::kConsumers * kWarpgroup) {
      produce<C>(p, shared);
    }
  } else if (threadIdx.x < kWarpgroup) {
    ptx::setmaxnreg_dec<C::kProducerRegisters>();
    if (threadIdx.x == 0) produce<C>(p, shared);
    if constexpr (C::kAdds) {
      if (threadIdx.x / 32 == 1 && p.bias != nullptr) produce_added_keys<C>(p, shared);
    }
  } else {
    ptx::setmaxnreg_inc<C::kConsumerRegisters>();
    Consumer<C>(p, shared).run();
  }
}

}  // namespace gpudnn::kernels::flash_sm90
