// Attention forward for Hopper in 8-bit floats: o = softmax(scale q k^T, masked) v, P in e4m3.
//
// The roles are those of flash_sm90_forward.cuh: a producer thread loads by TMA, each other warpgroup has 64 rows. What
// differs:
//   - Products of 8 bits take both operands with the summed dimension side by side. q and k lie so; v comes turned, by
//     a kernel before this one, which also changes the order of the keys in each 16: so a thread's elements of S, the
//     accumulator of the first product, are its elements of P, the left operand of the second one, without any
//     exchange; and the order of v's elements, so that a thread's sums are four neighbours of a row of o.
//   - A tile of keys is taken in two halves, h = 0, 1, 2 ... For each the scores are issued, then P v of half h - 1; a
//     warpgroup waits for the scores alone, and makes powers and P of half h from them in place. What hides products
//     behind exponentials is the other warpgroups, which take no turns: three of them up to head dimension 128, as many
//     as registers hold.
//   - P is rounded before its row's sum is known. It is 2^x, x = score - base; the greatest x is 4 where the base is
//     set, and the base stays until some x exceeds 4 + 4.75: P stays below e4m3's 448, numbers down to 2^-10 of the
//     maximum keep all bits, and warps seldom rescale their sums of o. A score that has a great share of its row moves
//     the base too, to be rounded exactly (set_limits). Where all scores of a tile count, no lane asks another for the
//     maximum: x are compared as integers, three at a time, which is right for those above 0.
//     The graph rounds p * scale_s, which differs by rounding alone where that does not leave e4m3's range.
//   - The greatest p of a row is 1 over its sum, so amax_s costs nothing for each score.
//   - The tiles that are left behind whole rounds, where they are not more than half of the blocks, go to two blocks
//     each, half of the keys to each (takes_other_half).
//   - A warpgroup whose rows are all beyond the last one makes nothing (pass), nor what a causal mask hides of the
//     second half of its first keys (pass_half). The producer works out where a tile lies, consumers read it.
// The file is long because the kernel's steps share its registers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cfloat>
#include <cstring>

#include "kernels/attention/attention_float8.cuh"
#include "kernels/attention/flash_float8_sm90.hpp"
#include "kernels/attention/flash_sm90_forward.cuh"
#include "kernels/ptx/cvt_f8.cuh"
#include "kernels/ptx/gpu_scope.cuh"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels::flash_sm90 {

template <int kDimQk_, int kDimV_, int kRows_, int kColumns_>
struct Float8Config {
  static constexpr int kDimQk = kDimQk_;
  static constexpr int kDimV = kDimV_;
  static constexpr int kRows = kRows_;
  static constexpr int kColumns = kColumns_;
  static constexpr int kHalf = kColumns / 2;
  static constexpr int kSteps = kHalf / 32;  // of P v
  static constexpr int kConsumers = kRows / 64;
  static constexpr int kThreads = (kConsumers + 1) * kWarpgroup;
  static constexpr int kQStages = kDimV <= 128 ? 2 : 1;  // what the tiles of keys leave room for
  static constexpr int kStages = kDimV <= 128 ? 3 : 2;
  static constexpr int kProducerRegisters = kConsumers == 2 ? 24 : 32;
  static constexpr int kConsumerRegisters = kConsumers == 2 ? 240 : 160;
  static constexpr int kPanelQk = flash_float8_panel(kDimQk);
  static constexpr int kPanelV = flash_float8_panel(kColumns);
  static constexpr int kQBytes = kRows * kDimQk;
  static constexpr int kKBytes = kColumns * kDimQk;
  static constexpr int kVBytes = kColumns * kDimV;
  static constexpr float kOffset = 4.0F;
  static constexpr float kSlack = 4.75F;
  static_assert(kHalf % 32 == 0 && kDimQk % 64 == 0 && kDimV % 64 == 0, "whole panels and steps");
};

// A tile as the producer hands it to the consumers, who are spared its divisions; of one behind the last the number.
struct NumberedTile {
  int number;
  ForwardTile tile;
};

template <class C>
struct Float8Shared {
  alignas(1024) unsigned char q[C::kQStages][C::kQBytes];
  alignas(1024) unsigned char k[C::kStages][C::kKBytes];
  alignas(1024) unsigned char v[C::kStages][C::kVBytes];
  std::uint64_t q_full[C::kQStages], q_empty[C::kQStages];
  std::uint64_t k_full[C::kStages], k_empty[C::kStages];
  std::uint64_t v_full[C::kStages], v_empty[C::kStages];
  std::uint64_t tile_full[2], tile_empty[2];
  NumberedTile tiles[2];
  std::uint32_t comes_first[C::kConsumers];
  float undone;   // what undoes the scales of P and v
  float scale_o;  // of the output
};

// Step `k`, of 32 bytes, of a K-major operand in panels of kRows rows and kPanel bytes.
template <int kRows, int kPanel>
__device__ __forceinline__ std::uint64_t byte_step(std::uint64_t base, int k) {
  constexpr int kSteps = kPanel / 32;
  return base + static_cast<std::uint64_t>(k / kSteps * (kRows * kPanel / 16) + k % kSteps * 2);
}

// A K-major operand from row `row` on, a multiple of 8.
template <int kPanel>
__device__ __forceinline__ std::uint64_t byte_rows(const unsigned char* shared, int row) {
  return tile::operand_descriptor<kPanel>(shared, 0) + static_cast<std::uint64_t>(row * kPanel / 16);
}

constexpr float kLn2 = 0.69314718056F;

// A tile, or its first or second half of the keys.
template <class C>
__device__ __forceinline__ ForwardTile tile_or_half(const FlashFloat8Params& p, int number) {
  const int part = number - p.whole_tiles;
  if (part < 0) return forward_tile<C>(p, number);
  ForwardTile tile = forward_tile<C>(p, p.whole_tiles + part / 2);
  const int middle = (tile.first + tile.end) / 2;
  (part % 2 == 0 ? tile.first : tile.end) = middle;
  return tile;
}

template <class C>
__device__ __forceinline__ void produce_float8(const FlashFloat8Params& p, Float8Shared<C>& shared) {
  tile::PipelineState<C::kStages> k_turn, v_turn;
  tile::PipelineState<C::kQStages> q_turn;
  const auto load_k = [&](const ForwardTile& tile, int column_tile) {
    tile::wait(&shared.k_empty[k_turn.stage], k_turn.parity ^ 1);
    ptx::mbarrier_arrive_expect_tx(&shared.k_full[k_turn.stage], C::kKBytes);
#pragma unroll
    for (int panel = 0; panel < C::kDimQk / C::kPanelQk; ++panel) {
      ptx::tma_tile_5d(shared.k[k_turn.stage] + panel * C::kColumns * C::kPanelQk, &p.k, &shared.k_full[k_turn.stage],
                       panel * C::kPanelQk, column_tile * C::kColumns,
                       static_cast<int>(p.group_k.quotient(static_cast<std::uint32_t>(tile.head))), tile.batch, 0);
    }
    k_turn.next();
  };
  const auto load_v = [&](const ForwardTile& tile, int column_tile) {
    tile::wait(&shared.v_empty[v_turn.stage], v_turn.parity ^ 1);
    ptx::mbarrier_arrive_expect_tx(&shared.v_full[v_turn.stage], C::kVBytes);
#pragma unroll
    for (int panel = 0; panel < C::kColumns / C::kPanelV; ++panel) {
      ptx::tma_tile_5d(shared.v[v_turn.stage] + panel * C::kDimV * C::kPanelV, &p.v, &shared.v_full[v_turn.stage],
                       column_tile * C::kColumns + panel * C::kPanelV, 0,
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
    const ForwardTile tile = tile_or_half<C>(p, min(number, p.tiles - 1));
    shared.tiles[tile_turn.stage] = {number, tile};
    ptx::mbarrier_arrive(&shared.tile_full[tile_turn.stage]);
    tile_turn.next();
    if (number >= p.tiles) break;
    if (tile.end <= tile.first) continue;
    tile::wait(&shared.q_empty[q_turn.stage], q_turn.parity ^ 1);
    ptx::mbarrier_arrive_expect_tx(&shared.q_full[q_turn.stage], C::kQBytes);
#pragma unroll
    for (int panel = 0; panel < C::kDimQk / C::kPanelQk; ++panel) {
      ptx::tma_tile_5d(shared.q[q_turn.stage] + panel * C::kRows * C::kPanelQk, &p.q, &shared.q_full[q_turn.stage],
                       panel * C::kPanelQk, tile.row, tile.head, tile.batch, 0);
    }
    q_turn.next();
    load_k(tile, tile.end - 1);
    if (turn == 0) ptx::griddepcontrol_wait();  // v is turned
    for (int j = tile.end - 2; j >= tile.first; --j) {
      load_k(tile, j);
      load_v(tile, j + 1);
    }
    load_v(tile, tile.first);
  }
}

template <tile::AnyType kType>
__device__ __forceinline__ void store_four(unsigned char* row, int column, const float (&x)[4]) {
  if constexpr (kType == tile::AnyType::e4m3) {
    *reinterpret_cast<std::uint32_t*>(row + column) = pack_bytes<tile::Float8E4M3>(x[0], x[1], x[2], x[3]);
  } else if constexpr (kType == tile::AnyType::e5m2) {
    *reinterpret_cast<std::uint32_t*>(row + column) = pack_bytes<tile::Float8E5M2>(x[0], x[1], x[2], x[3]);
  } else if constexpr (kType == tile::AnyType::f16) {
    *reinterpret_cast<uint2*>(row + 2 * column) =
        make_uint2(pack_halves<tile::Half>(x[0], x[1]), pack_halves<tile::Half>(x[2], x[3]));
  } else if constexpr (kType == tile::AnyType::bf16) {
    *reinterpret_cast<uint2*>(row + 2 * column) =
        make_uint2(pack_halves<tile::BFloat16>(x[0], x[1]), pack_halves<tile::BFloat16>(x[2], x[3]));
  } else {
    *reinterpret_cast<float4*>(row + 4 * column) = make_float4(x[0], x[1], x[2], x[3]);
  }
}
__device__ __forceinline__ int bytes_of(tile::AnyType type) {
  return type == tile::AnyType::f32 ? 4 : type == tile::AnyType::f16 || type == tile::AnyType::bf16 ? 2 : 1;
}

template <class C>
class Float8Consumer {
  using T = tile::Float8E4M3;

 public:
  __device__ __forceinline__ Float8Consumer(const FlashFloat8Params& params, Float8Shared<C>& memory)
      : p(params),
        shared(memory),
        q_base(tile::operand_descriptor<C::kPanelQk>(
            memory.q[0] + __shfl_sync(0xffffffffu, place.warpgroup, 0) * 64 * C::kPanelQk, 0)) {
    scale_log2 = p.scale * number_or_one(p.numbers.scores[0]) * number_or_one(p.numbers.scores[1]) * kLog2E;
    sign = scale_log2 < 0.0F ? -1.0F : 1.0F;
  }

  __device__ __forceinline__ void run() {
    tile::PipelineState<2> tile_turn;
    while (true) {
      tile::wait(&shared.tile_full[tile_turn.stage], tile_turn.parity);
      const NumberedTile next = read_tile(&shared.tiles[tile_turn.stage], &shared.tile_empty[tile_turn.stage]);
      tile_turn.next();
      const int number = next.number;
      if (number >= p.tiles) break;
      tile = next.tile;
      if (tile.end <= tile.first) {
        write_nothing<C, unsigned char>(p, tile, bytes_of(p.o_type), kWarpgroup);
      } else {
        // Votes, here and in pass, as ptxas puts products in series where a branch might part a warp.
        const bool has_rows = __any_sync(0xffffffffu, tile.row + 64 * place.warpgroup < tile.sequence.length_q);
        if (has_rows) {
          multiply();
        } else {
          pass();
        }
        if (!has_rows || number < p.whole_tiles || takes_other_half((number - p.whole_tiles) / 2)) write();
      }
    }
    write_greatest(p.numbers.amax_s, amax_s);
    write_greatest(p.numbers.amax_o, amax_o);
  }

 private:
  // The lane that reads is the one that gives the place back. Without the barrier ptxas puts products in series.
  __device__ __forceinline__ NumberedTile read_tile(const NumberedTile* from, std::uint64_t* empty) {
    constexpr int kWords = sizeof(NumberedTile) / 4;
    int words[kWords] = {};
    if (place.lane == 0) {
      memcpy(words, from, sizeof(words));
      ptx::mbarrier_arrive(empty);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kWords; ++i) words[i] = __shfl_sync(0xffffffffu, words[i], 0);
    NumberedTile tile;
    memcpy(&tile, words, sizeof(tile));
    return tile;
  }

  __device__ __forceinline__ void release(std::uint64_t* barrier) {
    if (place.lane == 0) ptx::mbarrier_arrive(barrier);
  }

  __device__ __forceinline__ void open_group() {
    ptx::pin(out);
    ptx::pin(s);
    ptx::wgmma_fence();
  }
  // S = q k^T of a half of the stage of k.
  template <int kSide>
  __device__ __forceinline__ void issue_scores() {
    const std::uint64_t q_of_tile = q_base + static_cast<std::uint64_t>(q_turn.stage * (C::kQBytes / 16));
    const std::uint64_t k_base = byte_rows<C::kPanelQk>(shared.k[k_turn.stage], kSide * C::kHalf);
#pragma unroll
    for (int k = 0; k < C::kDimQk / 32; ++k) {
      ptx::wgmma_ss<T, T, C::kHalf>(s, byte_step<C::kRows, C::kPanelQk>(q_of_tile, k),
                                    byte_step<C::kColumns, C::kPanelQk>(k_base, k), k == 0 ? 0 : 1);
    }
  }
  // O += P v of a half of the stage of v.
  template <int kSide>
  __device__ __forceinline__ void issue_output() {
    const std::uint64_t v_base = tile::operand_descriptor<C::kPanelV>(shared.v[v_turn.stage], 0);
#pragma unroll
    for (int k = 0; k < C::kSteps; ++k) {
      ptx::wgmma_rs<T, T, C::kDimV>(out, weights[kSide][k],
                                    byte_step<C::kDimV, C::kPanelV>(v_base, kSide * C::kSteps + k), 1);
    }
  }

  // Scores, of the sign that they have in the softmax, and -inf for those that are hidden.
  __device__ __forceinline__ void hide(int first_of_half) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = tile.row + place.row() + 8 * half;
      const int begin = first_column(p.mask, tile.sequence, row) - first_of_half - place.column();
      const int end = end_column(p.mask, tile.sequence, row) - first_of_half - place.column();
#pragma unroll
      for (int i = 0; i < C::kHalf / 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& score = s[4 * i + 2 * half + e];
          score = 8 * i + e < end && 8 * i + e >= begin ? score * sign : -INFINITY;
        }
      }
    }
  }

  // The row's base grows by `moves_`, and so do what its sum is of and its limit.
  __device__ __forceinline__ void move_row(int half) {
    sum_[half] *= ptx::ex2_approx_ftz(-moves_[half]);
    limit_[half] = fmaxf(limit_[half] - moves_[half], C::kOffset);
  }
  // Scores to powers under the bases that a half wants, by the maxima of the rows; those that are hidden do not count.
  // Each power is of the score itself and the base, rounded once, however great both are.
  __device__ __forceinline__ void settle_by_maximum(int first_of_half) {
    hide(first_of_half);
    const float scale = fmaxf(fabsf(scale_log2), FLT_MIN);  // not 0 times infinity
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float top = s[2 * half];
#pragma unroll
      for (int i = 0; i < C::kHalf / 8; ++i) top = fmaxf(top, fmaxf(s[4 * i + 2 * half], s[4 * i + 2 * half + 1]));
      top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
      top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
      const bool is_first = top_[half] == -INFINITY;
      const float power = fmaf(top, scale, -base_[half]);
      const bool outgrows = is_first ? top != -INFINITY : power > limit_[half];
      const float base = outgrows ? base_[half] + (power - C::kOffset) : base_[half];
      moves_[half] = is_first ? 0.0F : base - base_[half];
      base_[half] = base;
      top_[half] = fmaxf(top_[half] - moves_[half], fmaf(top, scale, -base));
      move_row(half);
    }
    moves_any_ = __any_sync(0xffffffffu, moves_[0] != 0.0F || moves_[1] != 0.0F);
#pragma unroll
    for (int i = 0; i < C::kHalf / 2; ++i) x[i] = fmaf(s[i], scale, -base_[i / 2 % 2]);
  }
  // The same where each row has a base and all scores count. top_ is not negative then.
  __device__ __forceinline__ void settle_by_base() {
#pragma unroll
    for (int i = 0; i < C::kHalf / 2; ++i) x[i] = fmaf(s[i], scale_log2, -base_[i / 2 % 2]);
    int tops[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int chains[2] = {__float_as_int(top_[half]), __float_as_int(x[2 * half])};
#pragma unroll
      for (int i = 0; i < C::kHalf / 8; ++i) {
        chains[i % 2] =
            __vimax3_s32(chains[i % 2], __float_as_int(x[4 * i + 2 * half]), __float_as_int(x[4 * i + 2 * half + 1]));
      }
      tops[half] = max(chains[0], chains[1]);
      top_[half] = __int_as_float(tops[half]);
    }
    moves_any_ = __any_sync(0xffffffffu, tops[0] > __float_as_int(limit_[0]) || tops[1] > __float_as_int(limit_[1]));
    if (!moves_any_) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float top = fmaxf(top_[half], __shfl_xor_sync(0xffffffffu, top_[half], 1));
      top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
      const float base = top > limit_[half] ? base_[half] + (top - C::kOffset) : base_[half];
      moves_[half] = base - base_[half];
      base_[half] = base;
      top_[half] -= moves_[half];
      move_row(half);
    }
#pragma unroll
    for (int i = 0; i < C::kHalf / 2; ++i) x[i] -= moves_[i / 2 % 2];
  }

  // The greatest powers that are rounded where the base stands. One that is a 32nd of what its row's sum will be, by
  // the columns of the halves so far, moves the base: so what has a great share is a power of two, which P has exactly.
  template <int kSide>
  __device__ __forceinline__ void set_limits(int column_tile) {
    const int first = column_tile * C::kColumns;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = tile.row + place.row() + 8 * half;
      const int begin = max(first_column(p.mask, tile.sequence, row), tile.first * C::kColumns);
      const int end = min(end_column(p.mask, tile.sequence, row), tile.end * C::kColumns);
      int seen = end - max(begin, first);
      if constexpr (kSide == 0) seen -= max(min(end, first + C::kColumns) - max(begin, first + C::kHalf), 0);
      float sum = sum_[half] + __shfl_xor_sync(0xffffffffu, sum_[half], 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      const float share = sum * static_cast<float>(end - begin) / static_cast<float>(32 * max(seen, 1));
      limit_[half] = fminf(fmaxf(__log2f(share), C::kOffset), C::kOffset + C::kSlack);
    }
  }

  // Powers to probabilities, their sums, and the left operand of P v: of 32 columns, the 8 of this thread in each row,
  // in the order of v's keys.
  template <int kSide>
  __device__ __forceinline__ void to_operand_bytes() {
#pragma unroll
    for (int k = 0; k < C::kSteps; ++k) {
#pragma unroll
      for (int i = 16 * k; i < 16 * k + 16; ++i) {
        x[i] = ptx::ex2_approx_ftz(x[i]);
        sum_[i / 2 % 2] += x[i];
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float* const four = x + 16 * k + 8 * (e / 2) + 2 * (e % 2);
        weights[kSide][k][e] = pack_bytes<tile::Float8E4M3>(four[0], four[1], four[4], four[5]);
      }
    }
  }

  // The sums of o come under the bases at hand.
  __device__ __forceinline__ void rescale() {
    if (!moves_any_) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float factor = ptx::ex2_approx_ftz(-moves_[half]);
#pragma unroll
      for (int i = 0; i < C::kDimV / 4; ++i) out[4 * (i / 2) + 2 * half + i % 2] *= factor;
    }
  }

  // Whether maxima are to be searched: a bound or a length cuts a column tile for any row of the block, or none before
  // it gave each row a base.
  __device__ __forceinline__ bool wants_maxima(int column_tile) const {
    const int first = column_tile * C::kColumns;
    const int last_row = min(tile.row + C::kRows, tile.sequence.length_q) - 1;
    return first + C::kColumns >= end_column(p.mask, tile.sequence, tile.row) ||
           first < first_column(p.mask, tile.sequence, last_row);
  }

  // Gives back the stages that P v of half h - 1 and the scores of half h were the last to read.
  template <int kSide, bool kIsFirst>
  __device__ __forceinline__ void release_stages() {
    if constexpr (kSide == 1) {
      release(&shared.k_empty[k_turn.stage]);
      k_turn.next();
    } else if constexpr (!kIsFirst) {
      release(&shared.v_empty[v_turn.stage]);
      v_turn.next();
    }
  }
  // Half h: P v of half h - 1 and its scores as one group, then its P.
  template <int kSide, bool kByMaximum, bool kIsFirst>
  __device__ __forceinline__ void half_step(int column_tile) {
    if constexpr (kSide == 0) tile::wait(&shared.k_full[k_turn.stage], k_turn.parity);
    if constexpr (kSide == 1) tile::wait(&shared.v_full[v_turn.stage], v_turn.parity);
    open_group();
    issue_scores<kSide>();
    ptx::wgmma_commit_group();
    if constexpr (!kIsFirst) issue_output<1 - kSide>();
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<1>();
    ptx::pin(s);
    if constexpr (kByMaximum) {
      settle_by_maximum(column_tile * C::kColumns + kSide * C::kHalf);
    } else {
      settle_by_base();
    }
    to_operand_bytes<kSide>();
    ptx::wgmma_wait_group<0>();
    ptx::pin(out);
    release_stages<kSide, kIsFirst>();
    rescale();
    if constexpr (kByMaximum) set_limits<kSide>(column_tile);
  }
  template <bool kByMaximum, bool kIsFirst>
  __device__ __forceinline__ void step(int column_tile) {
    half_step<0, kByMaximum, kIsFirst>(column_tile);
    half_step<1, kByMaximum, false>(column_tile);
  }

  // P v of the first half, and a P of 0 for the second one, which no row sees.
  __device__ __forceinline__ void pass_half() {
    tile::wait(&shared.v_full[v_turn.stage], v_turn.parity);
    open_group();
    issue_output<0>();
    ptx::wgmma_commit_group();
#pragma unroll
    for (int k = 0; k < C::kSteps; ++k) {
#pragma unroll
      for (int e = 0; e < 4; ++e) weights[1][k][e] = 0;
    }
    ptx::wgmma_wait_group<0>();
    ptx::pin(out);
    release_stages<1, false>();
  }

  // What a warpgroup does whose rows are all beyond the last one: it gives back what the others read.
  __device__ __forceinline__ void pass() {
    tile::wait(&shared.q_full[q_turn.stage], q_turn.parity);
    release(&shared.q_empty[q_turn.stage]);
    q_turn.next();
    for (int j = tile.end - 1; __any_sync(0xffffffffu, j >= tile.first); --j) {
      tile::wait(&shared.k_full[k_turn.stage], k_turn.parity);
      release(&shared.k_empty[k_turn.stage]);
      k_turn.next();
      tile::wait(&shared.v_full[v_turn.stage], v_turn.parity);
      release(&shared.v_empty[v_turn.stage]);
      v_turn.next();
    }
  }

  __device__ __forceinline__ void multiply() {
#pragma unroll
    for (int i = 0; i < C::kDimV / 2; ++i) out[i] = 0.0F;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      base_[half] = sum_[half] = 0.0F;
      top_[half] = -INFINITY;
      limit_[half] = C::kOffset + C::kSlack;
    }
    tile::wait(&shared.q_full[q_turn.stage], q_turn.parity);
    int j = tile.end - 1;
    half_step<0, true, true>(j);
    // The causal mask may hide all of the second half.
    const int last_row = min(tile.row + 64 * place.warpgroup + 64, tile.sequence.length_q) - 1;
    const bool sees = j * C::kColumns + C::kHalf < end_column(p.mask, tile.sequence, last_row);
    if (__any_sync(0xffffffffu, sees)) {
      half_step<1, true, false>(j);
    } else {
      pass_half();
    }
    --j;
    while (j >= tile.first) {
#pragma unroll 1
      for (; j >= tile.first && wants_maxima(j); --j) step<true, false>(j);
#pragma unroll 1
      for (; j >= tile.first && !wants_maxima(j); --j) step<false, false>(j);
    }
    release(&shared.q_empty[q_turn.stage]);
    q_turn.next();
    open_group();
    issue_output<1>();
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<0>();
    ptx::pin(out);
    release(&shared.v_empty[v_turn.stage]);
    v_turn.next();
  }

  // Of the two halves of a tile: the one that comes first leaves its sums, the other one adds them to its own and is
  // told so. The result is the same whichever it is.
  __device__ __forceinline__ bool takes_other_half(int shared_tile) {
    constexpr int kValues = C::kDimV / 2 + kFlashFloat8RowValues;
    const int index = shared_tile * C::kConsumers + place.warpgroup;
    const bool leads = threadIdx.x % kWarpgroup == 0;
    std::uint32_t* const turns = p.turns + 2 * index;
    float* const sums = p.sums + static_cast<std::int64_t>(index) * kValues * kWarpgroup + threadIdx.x % kWarpgroup;
    if (leads) shared.comes_first[place.warpgroup] = atomicAdd(turns, 1u);
    ptx::barrier_sync(kWarpgroupMeets + place.warpgroup, kWarpgroup);
    const bool comes_first = shared.comes_first[place.warpgroup] == 0;
    if (comes_first) {
#pragma unroll
      for (int i = 0; i < C::kDimV / 2; ++i) __stcg(sums + i * kWarpgroup, out[i]);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float* const row = sums + (C::kDimV / 2 + 3 * half) * kWarpgroup;
        __stcg(row, base_[half]), __stcg(row + kWarpgroup, top_[half]), __stcg(row + 2 * kWarpgroup, sum_[half]);
      }
      __threadfence();
      ptx::barrier_sync(kWarpgroupMeets + place.warpgroup, kWarpgroup);
      if (leads) ptx::st_release_gpu(turns + 1, 1);
      return false;
    }
    if (leads) {
      while (ptx::ld_acquire_gpu(turns + 1) == 0) {
      }
    }
    ptx::barrier_sync(kWarpgroupMeets + place.warpgroup, kWarpgroup);
    float mine[2], others[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float* const row = sums + (C::kDimV / 2 + 3 * half) * kWarpgroup;
      const float other_base = __ldcg(row);
      const float base = fmaxf(base_[half], other_base);
      mine[half] = ptx::ex2_approx_ftz(base_[half] - base);
      others[half] = ptx::ex2_approx_ftz(other_base - base);
      top_[half] = fmaxf(top_[half] + (base_[half] - base), __ldcg(row + kWarpgroup) + (other_base - base));
      sum_[half] = __fadd_rn(__fmul_rn(sum_[half], mine[half]), __fmul_rn(__ldcg(row + 2 * kWarpgroup), others[half]));
      base_[half] = base;
    }
#pragma unroll
    for (int i = 0; i < C::kDimV / 2; ++i) {
      const float other = __fmul_rn(__ldcg(sums + i * kWarpgroup), others[i / 2 % 2]);
      out[i] = __fadd_rn(__fmul_rn(out[i], mine[i / 2 % 2]), other);
    }
    return true;
  }

  // Each row's sum over its four lanes, with the sink; the row's values out, by a lane each; what the output is
  // multiplied by.
  __device__ __forceinline__ void finish_rows(float (&factors)[2]) {
    float most[2], sum[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float top = fmaxf(top_[half], __shfl_xor_sync(0xffffffffu, top_[half], 1));
      top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
      // From the base to the greatest score itself.
      const float to_top = top == -INFINITY ? 0.0F : ptx::ex2_approx_ftz(-top);
      sum[half] = sum_[half] * to_top;
      sum[half] += __shfl_xor_sync(0xffffffffu, sum[half], 1);
      sum[half] += __shfl_xor_sync(0xffffffffu, sum[half], 2);
      most[half] = (base_[half] + top) * kLn2;
      factors[half] = to_top * shared.undone;
    }
    float factor[2] = {1.0F, 1.0F};
    if (p.sink != nullptr) {
      const float sink = p.sink[tile.head];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float greater = fmaxf(most[half], sink);
        factor[half] = expf(most[half] - greater);
        sum[half] = sum[half] * factor[half] + expf(sink - greater);
        most[half] = greater;
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // The row's greatest probability. Sums are 0 or at least 1, so the quotient is within 2 units of its last place.
      const float greatest = sum[half] == 0.0F ? 0.0F : __fdividef(factor[half], sum[half]);
      if (tile.row + place.row() + 8 * half < tile.sequence.length_q) amax_s = max(amax_s, __float_as_uint(greatest));
      factors[half] *= greatest;
    }
    const bool second = place.lane % 4 == 1;
    const int row = tile.row + place.row() + (second ? 8 : 0);
    if (place.lane % 4 < 2) {
      write_row_values(p, tile, row, row < tile.sequence.length_q, second ? most[1] : most[0],
                       second ? sum[1] : sum[0]);
    }
  }

  // The sums of o to what is stored. The type is asked for once, not for each four elements.
  __device__ __forceinline__ void write() {
    float factors[2];
    finish_rows(factors);
    const float scale_o = shared.scale_o;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const bool inside = tile.row + place.row() + 8 * half < tile.sequence.length_q;
#pragma unroll
      for (int i = 0; i < C::kDimV / 4; ++i) {
        float& value = out[4 * (i / 2) + 2 * half + i % 2];
        value = inside ? value * factors[half] : 0.0F;
        amax_o = max(amax_o, __float_as_uint(value) & 0x7fffffffu);
        value *= scale_o;
      }
    }
    switch (p.o_type) {
      case tile::AnyType::e4m3:
        return store_rows<tile::AnyType::e4m3>();
      case tile::AnyType::e5m2:
        return store_rows<tile::AnyType::e5m2>();
      case tile::AnyType::f16:
        return store_rows<tile::AnyType::f16>();
      case tile::AnyType::bf16:
        return store_rows<tile::AnyType::bf16>();
      default:
        return store_rows<tile::AnyType::f32>();
    }
  }
  template <tile::AnyType kType>
  __device__ __forceinline__ void store_rows() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = tile.row + place.row() + 8 * half;
      if (row >= p.mask.length_q) continue;
      unsigned char* const to =
          static_cast<unsigned char*>(p.o_data) +
          (tile.batch * p.o_strides[0] + tile.head * p.o_strides[1] + row * p.o_strides[2]) * bytes_of(kType);
#pragma unroll
      for (int i = 0; i < C::kDimV / 16; ++i) {
        if (16 * i >= p.dim_v) break;
        const float* const two = out + 8 * i + 2 * half;
        store_four<kType>(to, 16 * i + place.lane % 4 * 4, {two[0], two[1], two[4], two[5]});
      }
    }
  }

  // Bits of numbers that are not negative are in the numbers' order, with NaN above all.
  __device__ __forceinline__ void write_greatest(float* to, std::uint32_t bits) {
    if (to == nullptr) return;
#pragma unroll
    for (int lane = 16; lane > 0; lane /= 2) bits = max(bits, __shfl_xor_sync(0xffffffffu, bits, lane));
    if (place.lane == 0) atomicMax(reinterpret_cast<unsigned int*>(to), bits);
  }

  const FlashFloat8Params& p;
  Float8Shared<C>& shared;
  FragmentPlace place;
  const std::uint64_t q_base;
  ForwardTile tile;
  tile::PipelineState<C::kStages> k_turn, v_turn;
  tile::PipelineState<C::kQStages> q_turn;
  std::uint32_t amax_s = 0;
  std::uint32_t amax_o = 0;
  float scale_log2;  // of scores to powers
  float sign;        // its
  float out[C::kDimV / 2];
  float s[C::kHalf / 2];                   // scores, which the tensor cores write
  float x[C::kHalf / 2];                   // powers of a half, then probabilities
  std::uint32_t weights[2][C::kSteps][4];  // of both halves
  float base_[2];                          // in log2
  float top_[2];                           // the greatest powers that this thread saw
  float sum_[2];
  float limit_[2];  // of powers, beyond which the base moves
  float moves_[2];  // what bases grew by, and the sums of o have not seen
  bool moves_any_;  // of the warp
};

template <class C>
__global__ void __launch_bounds__(C::kThreads, 1)
    flash_float8_forward_sm90(const __grid_constant__ FlashFloat8Params p) {
  unsigned char* const memory = tile::dynamic_shared();
  const std::uint32_t skipped = (1024 - ptx::shared_address(memory) % 1024) % 1024;
  auto& shared = *reinterpret_cast<Float8Shared<C>*>(memory + skipped);
  if (threadIdx.x == 0) {
    constexpr std::uint32_t kWarps = 4 * C::kConsumers;
    for (int i = 0; i < C::kQStages; ++i) {
      ptx::mbarrier_init(&shared.q_full[i], 1);
      ptx::mbarrier_init(&shared.q_empty[i], kWarps);
    }
    for (int i = 0; i < 2; ++i) {
      ptx::mbarrier_init(&shared.tile_full[i], 1);
      ptx::mbarrier_init(&shared.tile_empty[i], kWarps);
    }
    for (int i = 0; i < C::kStages; ++i) {
      ptx::mbarrier_init(&shared.k_full[i], 1);
      ptx::mbarrier_init(&shared.k_empty[i], kWarps);
      ptx::mbarrier_init(&shared.v_full[i], 1);
      ptx::mbarrier_init(&shared.v_empty[i], kWarps);
    }
    ptx::fence_mbarrier_init();
    const AttentionFloat8& n = p.numbers;
    shared.undone = number_or_one(n.output[0]) * number_or_one(n.output[1]) * number_or_one(n.scale_s);
    shared.scale_o = number_or_one(n.scale_o);
  }
  __syncthreads();
  if (threadIdx.x < kWarpgroup) {
    ptx::setmaxnreg_dec<C::kProducerRegisters>();
    if (threadIdx.x == 0) produce_float8<C>(p, shared);
  } else {
    ptx::setmaxnreg_inc<C::kConsumerRegisters>();
    Float8Consumer<C>(p, shared).run();
  }
}

}  // namespace gpudnn::kernels::flash_sm90
