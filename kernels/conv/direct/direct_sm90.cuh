// Direct convolution for Hopper: filters larger than one tap, stride 1, few channels; wgmma on a patch of the image
// that is loaded once for all taps.
//
// With few channels an implicit GEMM is bound by its loads: it fetches each pixel once for each tap. Here a tile of
// tile_h x tile_w outputs loads the patch of the input that its windows cover, once, as one box of TMA (zeros outside
// of the image come with it). In shared memory the patch is a list of positions, `pitch` to a row, a position's
// channels being 128, 64 or 32 bytes in the swizzle of as many. Output (i, j) of the tile is position i * pitch + j,
// and its tap (r, s) reads the position r * pitch + s further: so the operand of a tap is the same list with another
// start, and one product takes N positions in order. Positions at the end of a row whose windows reach into the next
// row give sums that nobody stores.
//
// The product is D[m, position] += filter[m, k] * patch[k, position], m being 64 channels of the output: filter first,
// as then an instruction reads 2 KiB of filter and 32 N bytes of patch in N / 2 cycles; with positions first it would
// read as much for 32 cycles of work.
//
// Data flow of a block, one per multiprocessor:
//   filter      stays in shared memory for all tiles of the block, in 8 x 8 core matrices without a swizzle. The data
//               gradient's core matrices are transposed in place once.
//   producer    one thread of warp 0 starts the copies of patches: of each tile one for each depth of the filter and
//               each 128 bytes of channels.
//   consumers   two warpgroups take tiles in turn; one multiplies while the other stores. Sums are rounded, transposed
//               by stmatrix into rows of a pixel's channels, and stored as one box by TMA.
//
// f32 is cut to TF32 by TMA: see direct_sm90_filter_tf32.cuh and direct_sm90_epilogue_tf32.cuh.
//
// Limits: stride and dilation 1, 16-bit elements or f32, whole 16-byte vectors of channels on both sides, and a filter
// that leaves shared memory room for two patches. Groups of 16-bit elements only where patches and tiles are filled by
// a group's channels: those of another one would be multiplied by zeros, which does not make a zero of an infinity.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <utility>

#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/conv/direct/direct_sm90_epilogue.cuh"
#include "kernels/conv/direct/direct_sm90_epilogue_tf32.cuh"
#include "kernels/conv/direct/direct_sm90_filter.cuh"
#include "kernels/conv/direct/direct_sm90_filter_tf32.cuh"
#include "kernels/ptx/setmaxnreg.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/ptx/tma_tile_5d.cuh"
#include "kernels/ptx/wgmma_k_major.cuh"
#include "kernels/tile/stage_ring.cuh"

namespace gpudnn::kernels::direct {

constexpr int kThreads = 128 * (1 + kConsumers);
constexpr int kProducerRegisters = 40;
constexpr int kConsumerRegisters = 232;

struct Barriers {
  std::uint64_t full[kMaxStages];
  std::uint64_t empty[kMaxStages];
  std::uint64_t turn[kConsumers];          // the consumer has started its tile's last product
  std::uint64_t filter[kMaxFilterBlocks];  // of f32: these k have arrived, of all taps
  std::uint64_t addend[kConsumers];        // of 16 bits: it has come into the consumer's staging area
};
static_assert(sizeof(Barriers) <= kBarrierBytes, "the barriers' place");

// The patches in turn. Their number is known at launch only.
struct PatchState {
  std::uint32_t stage = 0;
  std::uint32_t parity = 0;
  __device__ __forceinline__ void next(const FastDivmod& stages) {
    if (++stage == stages.divisor) {
      stage = 0;
      parity ^= 1;
    }
  }
  __device__ __forceinline__ void skip(std::uint32_t count, const FastDivmod& stages) {
    parity ^= stages.divmod(stage + count, &stage) & 1u;
  }
};

// The block's share: tiles first, first + step ... of one part of a group's output channels.
struct Share {
  std::uint32_t row_block, group, first, step;
};
__device__ __forceinline__ Share share_of_block(const Params& p) {
  Share share;
  share.first = p.row_blocks.divmod(blockIdx.x, &share.row_block);
  share.group = p.group_parts.divmod(share.row_block, &share.row_block);
  share.step = p.row_blocks.quotient(gridDim.x);
  return share;
}

__device__ __forceinline__ void produce(const Params& p, Barriers& barriers, unsigned char* patches) {
  const Share share = share_of_block(p);
  const std::uint32_t first_channel = share.group * p.group_channels;
  PatchState turn;
  for (std::uint32_t index = share.first; index < p.tiles; index += share.step) {
    const Tile tile = tile_at(p, index);
    for (std::uint32_t t = 0; t < p.taps[2]; ++t) {
      for (std::uint32_t block = 0; block < p.channel_blocks; ++block) {
        tile::wait(&barriers.empty[turn.stage], turn.parity ^ 1);
        if (threadIdx.x == 0) {
          std::uint64_t* const full = &barriers.full[turn.stage];
          ptx::mbarrier_arrive_expect_tx(full, p.load_bytes);
          ptx::tma_tile_5d(patches + turn.stage * p.stage_bytes, &p.input, full,
                           static_cast<std::int32_t>(first_channel + block * p.block_channels), tile.w + p.corner[0],
                           tile.h + p.corner[1], tile.d + p.corner[2] + static_cast<std::int32_t>(t), tile.n);
        }
        turn.next(p.stages);
      }
    }
  }
}

// In units of 16 bytes: what descriptors count in.
struct Steps {
  std::uint32_t filter;      // 32 bytes of k
  std::uint32_t filter_tap;  // a tap
  std::uint32_t position;
  std::uint32_t row;  // of positions
};
template <class I>
__device__ __forceinline__ Steps steps_of(const Params& p) {
  const std::uint32_t position = p.position_bytes / 16;
  if constexpr (I::kIsTf32) return {2, p.k_blocks * (kFilterBlockBytes / 16), position, p.pitch.divisor * position};
  return {p.m_octets * 16, p.k_octets * p.m_octets * 8, position, p.pitch.divisor * position};
}
// The filter's place of step number `step` along k.
template <class I>
__device__ __forceinline__ std::uint32_t filter_step(const Params& p, std::uint32_t step) {
  if constexpr (I::kIsTf32) return step / 4 * (kFilterBlockBytes / 16) + step % 4 * 2;
  return step * p.m_octets * 16;
}

// One tap, kSteps times 32 bytes of channels.
template <class I, int kSteps>
__device__ __forceinline__ void multiply_tap(const Steps& by, std::uint64_t filter, std::uint64_t patch,
                                             float (&sum)[I::kBlocks][I::kN / 2]) {
#pragma unroll
  for (std::uint32_t step = 0; step < kSteps; ++step) {
    if constexpr (I::kFilterFirst) {
      ptx::wgmma_k_major<typename I::T, I::kN>(sum[0], filter + step * by.filter, patch + step * 2);
    } else {
#pragma unroll
      for (std::uint32_t i = 0; i < I::kBlocks; ++i) {
        ptx::wgmma_k_major<typename I::T, I::kN>(sum[i], patch + step * 2 + i * 64 * by.position,
                                                 filter + step * by.filter);
      }
    }
  }
}

// 3 x 3 taps. Between rows of a loop the products pause for some 40 cycles, so there is none where that is not too much
// code.
template <class I, int kSteps>
__device__ __forceinline__ void multiply_3x3(const Steps& by, std::uint64_t filter, std::uint64_t patch,
                                             float (&sum)[I::kBlocks][I::kN / 2]) {
  constexpr std::uint32_t kRows = I::kFilterFirst ? 3 : 1;
#pragma unroll 1
  for (std::uint32_t first = 0; first < 3; first += kRows) {
    ptx::wgmma_fence();
#pragma unroll
    for (std::uint32_t r = 0; r < kRows; ++r) {
#pragma unroll
      for (std::uint32_t s = 0; s < 3; ++s) {
        multiply_tap<I, kSteps>(by, filter + (3 * r + s) * by.filter_tap, patch + r * by.row + s * by.position, sum);
      }
    }
    filter += 3 * by.filter_tap;
    patch += by.row;
  }
  ptx::wgmma_commit_group();
}

// Any taps. Rows of taps differ by selection, not by branches: in nested loops the compiler waits for each product.
template <class I, int kSteps>
__device__ __forceinline__ void multiply_taps(const Params& p, const Steps& by, std::uint64_t filter,
                                              std::uint64_t patch, float (&sum)[I::kBlocks][I::kN / 2]) {
  const std::uint32_t next_row = by.row - (p.taps[0] - 1) * by.position;
  std::uint32_t s = 0;
  std::uint32_t left = p.taps[0] * p.taps[1];
#pragma unroll 1
  do {
    ptx::wgmma_fence();
    multiply_tap<I, kSteps>(by, filter, patch, sum);
    const bool row_ends = ++s == p.taps[0];
    filter += by.filter_tap;
    patch += row_ends ? next_row : by.position;
    s = row_ends ? 0 : s;
  } while (--left > 0);
  ptx::wgmma_commit_group();
}

// One patch: all taps of a depth, `steps` times 32 bytes of channels.
template <class I>
__device__ __forceinline__ void multiply_patch(const Params& p, std::uint64_t filter, std::uint64_t patch,
                                               std::uint32_t steps, float (&sum)[I::kBlocks][I::kN / 2]) {
  const Steps by = steps_of<I>(p);
  const bool is_3x3 = p.taps[0] == 3 && p.taps[1] == 3;
  if (is_3x3 && steps == 4) {
    multiply_3x3<I, 4>(by, filter, patch, sum);
  } else if (is_3x3 && steps == 2) {
    multiply_3x3<I, 2>(by, filter, patch, sum);
  } else if (is_3x3 && steps == 1) {
    multiply_3x3<I, 1>(by, filter, patch, sum);
  } else if (steps == 4) {
    multiply_taps<I, 4>(p, by, filter, patch, sum);
  } else if (steps == 3) {
    multiply_taps<I, 3>(p, by, filter, patch, sum);
  } else if (steps == 2) {
    multiply_taps<I, 2>(p, by, filter, patch, sum);
  } else {
    multiply_taps<I, 1>(p, by, filter, patch, sum);
  }
}

__device__ __forceinline__ void release(Barriers& barriers, std::uint32_t stage) {
  if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&barriers.empty[stage]);
}

// Tile number `sequence` of the block begins when the other consumer has started its last product: so that the two do
// not share the matrix units, then the epilogue; and because a wait for a phase of a barrier cannot tell it from the
// phase before the last. Each warp passes the turn, so that none is left a phase behind.
template <class I>
__device__ __forceinline__ void multiply_tile(const Params& p, Barriers& barriers, const unsigned char* patches,
                                              std::uint64_t filter, std::uint32_t sequence, PatchState* turn,
                                              float (&sum)[I::kBlocks][I::kN / 2]) {
#pragma unroll
  for (int i = 0; i < I::kBlocks * I::kN / 2; ++i) sum[i / (I::kN / 2)][i % (I::kN / 2)] = 0;
  if (sequence > 0) tile::wait(&barriers.turn[(sequence - 1) % kConsumers], (sequence - 1) / kConsumers & 1u);
  const std::uint32_t depth_step = p.taps[0] * p.taps[1] * steps_of<I>(p).filter_tap;
  const std::uint32_t count = p.taps[2] * p.channel_blocks;
  std::uint64_t of_depth = filter;
  std::uint32_t block = 0;
  std::uint32_t previous = 0;
  std::uint32_t i = 0;
  do {
    tile::wait(&barriers.full[turn->stage], turn->parity);
    const std::uint64_t patch =
        p.patch_descriptor |
        static_cast<std::uint64_t>((ptx::shared_address(patches + turn->stage * p.stage_bytes) & 0x3ffffu) >> 4);
    const bool is_last_block = block + 1 == p.channel_blocks;
    const std::uint32_t first_step = block * p.block_steps;
    if constexpr (I::kIsTf32) tile::wait(&barriers.filter[first_step / 4], 0);
    multiply_patch<I>(p, of_depth + filter_step<I>(p, first_step), patch, is_last_block ? p.last_steps : p.block_steps,
                      sum);
    if (i > 0) {
      ptx::wgmma_wait_group<1>();
      release(barriers, previous);
    }
    previous = turn->stage;
    turn->next(p.stages);
    block = is_last_block ? 0 : block + 1;
    if (is_last_block) of_depth += depth_step;
  } while (++i < count);
  if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&barriers.turn[sequence % kConsumers]);
  ptx::wgmma_wait_group<0>();
  release(barriers, previous);
}

// The block's filter, ready for products.
template <class I>
__device__ __forceinline__ std::uint64_t await_filter(const Params& p, Barriers& barriers, const Share& share,
                                                      unsigned char* filter) {
  if constexpr (I::kIsTf32) {
    if (p.transposed) transpose_filter(p, filter, barriers.filter, kFilterBarrier);
    return filter_descriptor_tf32(filter);
  } else {
    load_filter(p, share.group, share.row_block, filter);
    return filter_descriptor(p, filter);
  }
}

template <class I>
__device__ __forceinline__ void consume(const Params& p, Barriers& barriers, unsigned char* shared, int consumer) {
  const Share share = share_of_block(p);
  const std::uint64_t filter = await_filter<I>(p, barriers, share, shared + p.filter_offset);
  const unsigned char* const patches = shared + kBarrierBytes;
  const auto channels = [&] {
    if constexpr (I::kIsTf32) {
      return channel_pair_of_thread(p, share.row_block);
    } else {
      return channels_of_thread<I>(p, share.group, share.row_block);
    }
  }();
  PatchState turn;
  std::uint32_t sequence = 0;
  for (std::uint32_t index = share.first; index < p.tiles; index += share.step, ++sequence) {
    if (sequence % kConsumers != static_cast<std::uint32_t>(consumer)) {
      turn.skip(p.taps[2] * p.channel_blocks, p.stages);
      continue;
    }
    float sum[I::kBlocks][I::kN / 2];
    [[maybe_unused]] unsigned char* const staging =
        shared + p.staging_offset + static_cast<std::uint32_t>(consumer) * p.staging_bytes;
    if constexpr (!I::kIsTf32) {
      if (p.is_common && p.addend_scale != 0.0f && threadIdx.x % 128 == 0) {
        fetch_addend_box<I>(p, tile_at(p, index), channels, staging, &barriers.addend[consumer]);
      }
    }
    multiply_tile<I>(p, barriers, patches, filter, sequence, &turn, sum);
    if constexpr (I::kIsTf32) {
      store_tile_tf32<I>(p, tile_at(p, index), channels, sum[0]);
    } else {
      if (p.is_common && p.addend_scale != 0.0f) {
        tile::wait(&barriers.addend[consumer], sequence / kConsumers & 1u);
      }
      store_tile<I>(p, tile_at(p, index), channels, staging, kStagingBarrier + consumer, sum);
    }
  }
  if constexpr (!I::kIsTf32) {
    if (threadIdx.x % 128 == 0) ptx::bulk_wait_group_read<0>();  // TMA reads the staging area until then
  }
}

template <class I>
__device__ __forceinline__ void make_barriers(const Params& p, Barriers& barriers) {
  const unsigned lane = threadIdx.x;
  if (lane == 0) {
    ptx::prefetch_tensormap(&p.input);
    ptx::prefetch_tensormap(I::kIsTf32 ? &p.filter_map : &p.output);
  }
  if (lane < kMaxStages) {
    ptx::mbarrier_init(&barriers.full[lane], 1);
    ptx::mbarrier_init(&barriers.empty[lane], 4);
    if (lane < kConsumers) {
      ptx::mbarrier_init(&barriers.turn[lane], 4);
      ptx::mbarrier_init(&barriers.addend[lane], 1);
    }
  }
  if (I::kIsTf32 && lane < kMaxFilterBlocks) ptx::mbarrier_init(&barriers.filter[lane], 1);
  ptx::fence_mbarrier_init();
}

template <class I>
__global__ void __launch_bounds__(kThreads, 1) direct_sm90(const __grid_constant__ Params p) {
  extern __shared__ __align__(kAlignment) unsigned char shared[];
  auto& barriers = *reinterpret_cast<Barriers*>(shared);
  // Told to the compiler to be the same in all lanes: else it takes the consumers' loops for divergent ones, and waits
  // for each product.
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp == 0) make_barriers<I>(p, barriers);
  __syncthreads();
  if (warp < 4) {
    ptx::setmaxnreg_dec<kProducerRegisters>();
    if (warp == 0) produce(p, barriers, shared + kBarrierBytes);
    if constexpr (I::kIsTf32) {
      if (warp == 1 && threadIdx.x % 32 == 0) {
        fetch_filter(p, share_of_block(p).row_block, shared + p.filter_offset, barriers.filter);
      }
    }
  } else {
    if ((ptx::shared_address(shared) & (kAlignment - 1)) != 0) __trap();  // the swizzle counts on it
    ptx::setmaxnreg_inc<kConsumerRegisters>();
    consume<I>(p, barriers, shared, warp / 4 - 1);
  }
}

template <class I>
void launch_instance(const Params& params, std::uint32_t blocks, CUstream_st* stream) {
  cuda::allow_shared_memory<&direct_sm90<I>>(cuda::kAllThatABlockMayHave);
  cuda::launch_kernel(&direct_sm90<I>, {blocks, kThreads, params.shared_bytes}, stream, params);
}

template <class T, int kShape>
constexpr LaunchShape launch_if_built() {
  using I = Instance<T, kShape>;
  if constexpr (I::kIsTf32 && !kShapes[kShape].for_f32) {
    return nullptr;
  } else {
    return &launch_instance<I>;
  }
}

template <class T>
LaunchShape launch_of(int shape) {
  return [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    static constexpr LaunchShape kLaunches[] = {launch_if_built<T, static_cast<int>(kIndex)>()...};
    return kLaunches[shape];
  }
  (std::make_index_sequence<kShapeCount>());
}

}  // namespace gpudnn::kernels::direct
