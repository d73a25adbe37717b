// A whole sweep of one or two sequences in one launch: each step is a matrix-vector product with weights in registers.
// LSTM and GRU of half, bfloat16 and float, no projection. Hopper.
// SPDX-License-Identifier: Apache-2.0
//
// A warp owns four units of one lane (a direction of a layer) and all gates of them, over all steps: 16 rows of
// weights, of a GRU twelve. No barrier of the block stands in a step, and no sum leaves its warp: a warp waits for
// states, multiplies, finishes its units, and sends them to all blocks of its cluster.
//
// Sixteen bits: the rows are the operand of mma.sync with 16 rows, which stays in registers; the states are that with
// eight columns. Forward a column is a sequence. Backward a row is a gate of a unit and a column a gate of a sequence,
// and the sums of like gates are added: four of them are the gradient of h. Float: FMA. A lane has the four gates of a
// unit and every eighth vector of columns.
//
// The exchange in clusters: states go to the shared memory of each block in two buffers, and bring their bytes to a
// barrier there, as in `resident_sm90.cuh`. A warp that sends has read the states of the step before, so a buffer is
// written again only when all warps have read it.
//
// Without clusters, where a layer is too wide for one: two warps or four divide the columns of their units; states go
// through L2, in words that say themselves that they have come; threads of the block take them to shared memory.
//
// Lanes above the first may take their inputs within the launch, as in `resident_sm90.cuh`: the neighbour's words of
// the same step are multiplied before the wait for the own states. Where a block's registers do not hold the
// neighbour's weights beside its own, lanes of their own make these products: the next layer finds them as words in L2.
//
// A scheduler has one or two warps, so a step takes as long as its instructions follow each other: a lane has one gate
// of a unit of a sequence, and addresses are added to from step to step.
#pragma once

#include "core/launch/cached_query.hpp"
#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/rnn/gemv_block_sm90.cuh"
#include "kernels/rnn/gemv_unit_sm90.cuh"

namespace gpudnn::kernels {

template <class T, int G, int kOwn, int kAcross, int kWarps, bool kBackward, bool kCluster>
__global__ void __launch_bounds__(kWarps * 32, 1) rnn_gemv_sm90(const __grid_constant__ RnnResident p) {
  using Block = RnnGemvBlock<T, G, kOwn, kAcross, kWarps, kBackward, kCluster>;
  using Finisher = std::conditional_t<kBackward, RnnGemvBackward<T, G, Block>, RnnGemvForward<T, G, Block>>;
  // A lane's neighbour is dispatched before it.
  const int which = static_cast<int>(kBackward ? gridDim.z - 1 - blockIdx.z : blockIdx.z);
  Block block(p, which);
  const RnnLayer& l = p.layer;
  const RnnDirection& d = block.d;
  block.start();
  block.load_weights();

  const int steps = l.rows.steps;
  const bool falls = d.downwards != kBackward;
  const std::int64_t first_row = falls ? (steps - 1) * std::int64_t{block.batch} : 0;
  const std::int64_t rows_of_step = falls ? -block.batch : block.batch;
  if constexpr (Block::kPipes) {
    if (block.lane.multiplies) {
      block.make_products(first_row, rows_of_step);
      return;
    }
  }
  Finisher finisher(block, first_row, rows_of_step);
  RnnGemvStream<T> rows(block.rows_of(which), first_row, rows_of_step, block.row_elements(), 0);
  RnnGemvStream<const T> across_rows(block.across > 0 ? block.rows_of(block.lane.neighbour) : nullptr, first_row,
                                     rows_of_step, block.own, 0);
  const bool has_first = !kBackward && d.hx != nullptr;
  finisher.fetch(steps == 1);
  if (kAcross > 0 && block.across > 0) block.look_across(across_rows.at);
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    const bool goes_on = step + 1 < steps;
    if (block.part == 0) finisher.prepare();
    if (goes_on) finisher.fetch(step + 2 == steps);
    block.clear();
    if (kAcross > 0 && block.across > 0) {
      block.take_across(across_rows.at);
      across_rows.advance();
      if (goes_on) block.look_across(across_rows.at);
      block.multiply_across();
    }
    if (step > 0) block.wait(rows.at - rows.step + block.own_copy(), step);
    if (step > 0 || has_first) block.multiply_own(step);
    float total[Finisher::kSums];
    block.take_sums(total);
    if (block.part == 0) {
      const typename Block::Payload payload = block.gather(finisher.finish(total));
      if (kCluster && goes_on) block.send(step, payload);
      if (kCluster ? (kAcross > 0 || Block::kPipes) && block.lane.feeds : goes_on) {
        block.store_in_exchange(rows.at, payload);
      }
      finisher.store();
    }
    rows.advance();
  }
  if (block.part == 0) finisher.store_last();
}

template <class T, int G, int kOwn, int kAcross, int kWarps, bool kBackward, bool kCluster>
bool launch_rnn_gemv_block(const RnnResident& p, cudaStream_t stream) {
  using Block = RnnGemvBlock<T, G, kOwn, kAcross, kWarps, kBackward, kCluster>;
  constexpr auto kKernel = &rnn_gemv_sm90<T, G, kOwn, kAcross, kWarps, kBackward, kCluster>;
  constexpr unsigned kMaxBlocks = kCluster ? 16 : 1024 / Block::kUnits;
  const auto blocks = static_cast<unsigned>(rnn_exchange_units(p.layer.units) / Block::kUnits);
  if (blocks > kMaxBlocks || !p.vectors) return false;
  cuda::allow_shared_memory<kKernel>(Block::kSharedBytes);
  const cuda::LaunchConfig config = {.blocks = dim3(blocks, 1, static_cast<unsigned>(p.lanes)),
                                     .threads = dim3(Block::kThreads),
                                     .shared_bytes = static_cast<std::size_t>(Block::kSharedBytes),
                                     .cluster = dim3(kCluster ? blocks : 1),
                                     .cooperative = !kCluster};
  static int known[kMaxBlocks + 1][cuda::kDevicesKnown] = {};
  const int resident = cuda::cached_query(known[blocks], [&] {
    const void* const kernel = reinterpret_cast<const void*>(kKernel);
    int count = 0;
    if constexpr (kCluster) {
      cuda::LaunchConfig one = config;
      one.blocks = dim3(blocks);
      if (cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1) == cudaSuccess &&
          cuda::max_resident_clusters(kernel, one, &count) == cudaSuccess) {
        return count;
      }
    } else {
      int device = 0;
      int multiprocessors = 0;
      if (cudaOccupancyMaxActiveBlocksPerMultiprocessor(&count, kKernel, Block::kThreads, Block::kSharedBytes) ==
              cudaSuccess &&
          cudaGetDevice(&device) == cudaSuccess &&
          cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device) == cudaSuccess) {
        return count * multiprocessors / static_cast<int>(blocks);
      }
    }
    (void)cudaGetLastError();
    return 0;
  });
  if (p.lanes > resident) return false;
  cuda::launch_kernel(kKernel, config, stream, p);
  return true;
}

// Narrow blocks have a warp for each scheduler; layers of more than 256 units take the others.
template <class T, int G>
bool launch_rnn_gemv_cell(const RnnResident& p, cudaStream_t stream) {
  constexpr int kNarrow = 4;
  constexpr int kWide = 8;
  constexpr bool kFloats = sizeof(T) == 4;
  if (p.lanes > 1 && !p.pipes && (p.lane[0].neighbour >= 0 || p.lane[1].neighbour >= 0)) {
    if constexpr (G == 4) {
      constexpr int kMost = kFloats ? 4 : 8;
      return p.backward ? launch_rnn_gemv_block<T, G, kMost, kMost, kNarrow, true, true>(p, stream)
                        : launch_rnn_gemv_block<T, G, kMost, kMost, kNarrow, false, true>(p, stream);
    }
    return false;
  }
  if (p.in_clusters && p.layer.units <= 256) {
    return p.backward ? launch_rnn_gemv_block<T, G, 8, 0, kNarrow, true, true>(p, stream)
                      : launch_rnn_gemv_block<T, G, 8, 0, kNarrow, false, true>(p, stream);
  }
  if constexpr (!kFloats) {
    if (p.in_clusters) {
      return p.backward ? launch_rnn_gemv_block<T, G, 16, 0, kWide, true, true>(p, stream)
                        : launch_rnn_gemv_block<T, G, 16, 0, kWide, false, true>(p, stream);
    }
    if (p.backward) return launch_rnn_gemv_block<T, G, 16, 0, kWide, true, false>(p, stream);
    // Blocks of half the units where there is room for as many.
    return (p.lanes == 1 && launch_rnn_gemv_block<T, G, 8, 0, kWide, false, false>(p, stream)) ||
           launch_rnn_gemv_block<T, G, 16, 0, kWide, false, false>(p, stream);
  }
  return false;
}

template <class T>
bool launch_rnn_gemv_type(const RnnResident& p, cudaStream_t stream) {
  if (p.cell == RnnCell::lstm) return launch_rnn_gemv_cell<T, 4>(p, stream);
  if (p.cell == RnnCell::gru) return launch_rnn_gemv_cell<T, 3>(p, stream);
  return false;
}

}  // namespace gpudnn::kernels
