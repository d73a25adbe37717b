// The addend of the Hopper implicit GEMM's fused epilogue: it comes through the ring of stages. Behind a tile's k tiles
// the producer fills stages with the addend's boxes, laid out as C's in the staging area; the consumers add them to
// their sums and release the stages. So the addend is under way as early as the next tile's operands.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_work.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/tile/stage_ring.cuh"

namespace gpudnn::kernels::sm90 {

// Chunks of C that a consumer stores: kChunks of 64 rows each, or with swap-AB columns for all rows of the tile.
template <class I>
constexpr int kChunksOfRow = I::kSwapped ? 1 : I::kBN / I::kChunkElements;
template <class I>
constexpr int kChunksOfConsumer = I::kRowBlocks* kChunksOfRow<I>;

struct Box {
  ColumnChunk columns;
  std::int32_t row;
};
// Chunk number `number` of the tile.
template <class I>
__device__ __forceinline__ Box box_of_tile(const Params& p, const Work& work, int number) {
  const int block = number / kChunksOfRow<I>;
  return {column_chunk<I>(p, work, I::kSwapped ? block : number % kChunksOfRow<I>),
          static_cast<std::int32_t>(work.m * I::kRowsOfC) + (I::kSwapped ? 0 : block * 64)};
}
template <class I>
__device__ __forceinline__ int first_chunk(int consumer) {
  return I::kPingPong ? 0 : consumer * kChunksOfConsumer<I>;
}
template <class I>
__device__ __forceinline__ Box box_at(const Params& p, const Work& work, int consumer, int number) {
  return box_of_tile<I>(p, work, first_chunk<I>(consumer) + number);
}

// A stage holds so many chunks in the places of A and of B.
template <class I>
struct AddendStages {
  static constexpr int kChunks = kChunksOfConsumer<I> * (I::kPingPong ? 1 : I::kConsumers);
  static constexpr int kInA = I::kABytes / I::kAreaBytes;
  static constexpr int kInStage = kInA + I::kBBytes / I::kAreaBytes;
  static constexpr int kStages = (kChunks + kInStage - 1) / kInStage;
  // A ping-pong consumer that waits for them holds two stages.
  static_assert(kStages + 2 <= I::kStages, "the ring has room for the addend");
};
// Stages of a tile behind its k tiles.
template <class I>
__device__ __forceinline__ std::uint32_t addend_stages(const Params& p) {
  if constexpr (kHasFusedEpilogue<I> && !kIsBiasRelu<I>) {
    return p.adds_boxes ? AddendStages<I>::kStages : 0;
  } else {
    return 0;
  }
}

template <class I>
__device__ __forceinline__ unsigned char* addend_place(Shared<I>& shared, int stage, int number) {
  using Stages = AddendStages<I>;
  return number < Stages::kInA ? shared.a[stage] + number * I::kAreaBytes
                               : shared.b[stage] + (number - Stages::kInA) * I::kAreaBytes;
}

// The producer. Boxes that end outside of the tensor are filled with zeros.
template <class I>
__device__ __forceinline__ void produce_addend(const Params& p, Shared<I>& shared, const Work& work,
                                               tile::PipelineState<I::kStages>* turn) {
  using Stages = AddendStages<I>;
#pragma unroll 1
  for (int first = 0; first < Stages::kChunks; first += Stages::kInStage) {
    tile::wait(&shared.empty[turn->stage], turn->parity ^ 1);
    if (threadIdx.x == 0) {
      std::uint64_t* const full = &shared.full[turn->stage];
      const int count = min(Stages::kInStage, Stages::kChunks - first);
      ptx::mbarrier_arrive_expect_tx(full, static_cast<std::uint32_t>(count * I::kAreaBytes));
#pragma unroll 1
      for (int i = 0; i < count; ++i) {
        const Box box = box_of_tile<I>(p, work, first + i);
        ptx::tma_tile_3d(addend_place<I>(shared, turn->stage, i), &p.addend_map, full, box.columns.x, box.columns.y,
                         box.row);
      }
    }
    turn->next();
  }
}

// The stages that follow have come. Before a ping-pong consumer lets the next one multiply: a wait for a phase of a
// barrier cannot tell it from the phase before the last.
template <class I>
__device__ __forceinline__ void wait_for_addend(Shared<I>& shared, tile::PipelineState<I::kStages> turn) {
#pragma unroll 1
  for (int i = 0; i < AddendStages<I>::kStages; ++i, turn.next()) tile::wait(&shared.full[turn.stage], turn.parity);
}

}  // namespace gpudnn::kernels::sm90
