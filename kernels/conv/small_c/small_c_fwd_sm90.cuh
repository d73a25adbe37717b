// Forward convolution of images with few channels for Hopper: y[pixel, filter] = sum over (r, s, c) of x[...] *
// w[filter, r, s, c] by wgmma, pixels from registers.
//
// A row of taps sees a contiguous run of (pixel, channel) in a row of an NHWC image: with 3 channels and 7 taps, 21
// elements in one piece. The reduction goes over the words (4 bytes: two halves or a float) of such runs, so no channel
// is padded. A pixel's words are no rows that wgmma could read in shared memory, but a thread of a fragment needs words
// alone: it loads them from the patch, wherever the pixel's window begins. The reduction's order is free, so a row of
// taps takes whole quads of words, the last one in part; two quads are a step of the instruction.
//
// With 16-bit elements a window may begin in the middle of a word. Then the filter lies one element later in its words.
// If stride * channels is odd, every second pixel's does: products are of even or of odd pixels alone, and there are
// two versions of the filter. Bits of a word that are no element of the window are cleared: a zero in the filter would
// not do, as the neighbour may be infinite.
//
// Data flow of a block, one per multiprocessor:
//   filter       packed at the start, kept for all tiles: for each quad a core matrix of 16 bytes a column, without a
//                swizzle. Columns are in an order such that a lane's sums of 32 filters (16 of floats) are 16 bytes of
//                y.
//   warpgroups   take tiles of up to some hundred pixels, each its own. One thread asks TMA for the patch
//   of
//                the tile after the next, when all have left the patch; zeros outside of the image come with it. For
//                64 pixels at a time: fragments by 4-byte loads, while products of those before are under way; sums go
//                to y from registers. With four warpgroups, others multiply meanwhile.
//
// Shared memory is as busy as the matrix units: for each 32 cycles of 64 x 64 x 16, 16 to read the filter, 16 for the
// fragments' words.
//
// Limits: one or two spatial dimensions, dilation 1, no groups; rows of x without gaps, of whole words; pixels and
// filters of y in whole 16-byte vectors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/conv/small_c/small_c_fwd_sm90_epilogue.cuh"
#include "kernels/conv/small_c/small_c_fwd_sm90_filter.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/ptx/wgmma_a_registers.cuh"
#include "kernels/tile/instances.hpp"
#include "kernels/tile/numeric.cuh"
#include "kernels/tile/stage_ring.cuh"

namespace gpudnn::kernels::small_c_fwd {

enum NamedBarrier : int { kFirstOfWarpgroups = 1 };

struct Barriers {
  std::uint64_t full[kMaxWarpgroups][kStages];
};
static_assert(sizeof(Barriers) <= kBarrierBytes, "the barriers' place");

// One thread: the patch of tile `index`, if there is one.
__device__ __forceinline__ void fetch_patch(const Params& p, std::uint32_t index, std::uint64_t* full,
                                            unsigned char* patch) {
  if (index >= p.tiles) return;
  const Tile tile = tile_at(p, index);
  ptx::mbarrier_arrive_expect_tx(full, p.load_bytes);
  ptx::tma_tile_3d(patch, &p.input, full, tile.tile_w * p.tile_words + p.corner_w,
                   tile.tile_h * p.tile_rows + p.corner_h, tile.n);
}

// --- products --------------------------------------------------------------------------------------------------------

// Where a thread finds the words of its two pixels of a unit, and what of a row's first and last quad belongs to it.
struct Windows {
  const unsigned char* pixel[2];
  std::uint32_t first_mask, last_mask;
};

__device__ __forceinline__ std::uint32_t shared_word(const unsigned char* address) {
  return *reinterpret_cast<const std::uint32_t*>(address);
}

// A reduction whose size is known: laid out as a whole, kChunk steps' words being loaded while as many are multiplied.
template <class T, int kN, int kQuads, int kRows>
__device__ __forceinline__ void multiply(const Params& p, const Windows& windows, std::uint64_t filter,
                                         float (&sum)[kN / 2]) {
  constexpr int kChunk = kN == 64 && sizeof(T) == 2 ? 6 : 3;  // where it gains, and leaves registers
  constexpr int kSteps = (kQuads * kRows + 1) / 2;
  constexpr bool kFirstIsPartial = kPerWord < T >> 1;
  std::uint32_t a[2][kChunk][4];
#pragma unroll
  for (int first = 0; first < kSteps; first += kChunk) {
    const int buffer = first / kChunk % 2;
    if (first >= 2 * kChunk) ptx::wgmma_wait_group<1>();
#pragma unroll
    for (int i = 0; i < 2 * kChunk; ++i) {
      const int quad = 2 * first + i;
      const int row = quad / kQuads;
      const int in_row = quad % kQuads;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        std::uint32_t word = 0;
        if (row < kRows) {
          word = shared_word(windows.pixel[h] + static_cast<std::uint32_t>(row) * p.pitch + in_row * kQuadBytes);
          if (kFirstIsPartial && in_row == 0) word &= windows.first_mask;
          if (in_row == kQuads - 1) word &= windows.last_mask;
        }
        a[buffer][i / 2][i % 2 * 2 + h] = word;
      }
    }
    ptx::wgmma_fence();
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      if (first + i < kSteps) {
        ptx::wgmma_a_registers<T, kN>(sum, a[buffer][i], filter + static_cast<std::uint64_t>((first + i) * 2 * kN));
      }
    }
    ptx::wgmma_commit_group();
  }
  ptx::wgmma_wait_group<0>();
}

// The walk over the quads of a reduction of any size. Behind the last row there are quads of zeros.
struct Walk {
  std::uint32_t row = 0;
  std::uint32_t in_row = 0;
  std::uint32_t offset = 0;

  __device__ __forceinline__ void load(const Params& p, const Windows& windows, std::uint32_t (&a)[4]) {
#pragma unroll
    for (int quad = 0; quad < 2; ++quad) {
      const bool is_last = in_row + 1 == p.row_quads.divisor;
      std::uint32_t mask = in_row == 0 ? windows.first_mask : 0xffffffffu;
      mask = is_last ? mask & windows.last_mask : mask;
      mask = row < p.rows ? mask : 0;
#pragma unroll
      for (int h = 0; h < 2; ++h) a[quad * 2 + h] = shared_word(windows.pixel[h] + offset) & mask;
      offset += is_last ? p.pitch - in_row * kQuadBytes : kQuadBytes;
      in_row = is_last ? 0 : in_row + 1;
      row += is_last ? 1 : 0;
      offset = row < p.rows ? offset : 0;
    }
  }
};

template <class T, int kN>
__device__ __forceinline__ void multiply_any(const Params& p, const Windows& windows, std::uint64_t filter,
                                             float (&sum)[kN / 2]) {
  Walk walk;
  std::uint32_t left = p.quads.divisor / 4;
#pragma unroll 1
  do {
    std::uint32_t a[4];
    std::uint32_t b[4];
    walk.load(p, windows, a);
    ptx::wgmma_fence();
    ptx::wgmma_a_registers<T, kN>(sum, a, filter);
    ptx::wgmma_commit_group();
    walk.load(p, windows, b);
    ptx::wgmma_fence();
    ptx::wgmma_a_registers<T, kN>(sum, b, filter + 2 * kN);
    ptx::wgmma_commit_group();
    filter += 4 * kN;
    ptx::wgmma_wait_group<0>();
  } while (--left > 0);
}

template <class T, int kN>
__device__ __forceinline__ void multiply_unit(const Params& p, const Windows& windows, std::uint64_t filter,
                                              float (&sum)[kN / 2]) {
#pragma unroll
  for (float& each : sum) each = 0;
  if (p.taps == Taps::quads_3_rows_7) {
    multiply<T, kN, 3, 7>(p, windows, filter, sum);
  } else if (p.taps == Taps::quads_6_rows_7) {
    multiply<T, kN, 6, 7>(p, windows, filter, sum);
  } else if (p.taps == Taps::quads_2_rows_3) {
    multiply<T, kN, 2, 3>(p, windows, filter, sum);
  } else if (p.taps == Taps::quads_3_rows_3) {
    multiply<T, kN, 3, 3>(p, windows, filter, sum);
  } else if (p.taps == Taps::quads_1_rows_3) {
    multiply<T, kN, 1, 3>(p, windows, filter, sum);
  } else {
    multiply_any<T, kN>(p, windows, filter, sum);
  }
}

// --- tiles -----------------------------------------------------------------------------------------------------------

// kPlain: the sums are the result. The registers and the code of all else would make such a call slower.
template <class T, int kN, bool kPlain>
__device__ __forceinline__ void do_tile(const Params& p, const Tile& tile, const unsigned char* patch,
                                        std::uint64_t filter, const Lane& lane, const float* bias) {
#pragma unroll 1
  for (std::uint32_t number = 0; number < p.units; ++number) {
    const Unit unit = unit_at(p, number);
    if (tile.h + unit.row >= p.out_h) break;
    const bool is_shifted = kPerWord<T> > 1 && unit.shift != 0;
    Windows windows;
#pragma unroll
    for (int half = 0; half < 2; ++half) windows.pixel[half] = patch + lane.window[half] + unit.bytes;
    windows.first_mask = is_shifted ? lane.first_mask[1] : lane.first_mask[0];
    windows.last_mask = is_shifted ? lane.last_mask[1] : lane.last_mask[0];
    const std::uint32_t version = p.by_parity && is_shifted ? p.version_bytes >> 4 : 0;
    float sum[kN / 2];
    if constexpr (kPlain) {
      multiply_unit<T, kN>(p, windows, filter + version, sum);
      store_sums<T, kN, gemm::PairRelu::none>(p, tile, unit, lane, sum);
      continue;
    }
    [[maybe_unused]] Addends<T, kN> addends = {};
    // Floats' would not leave the products their registers.
    constexpr bool kFetchesAhead = sizeof(T) == 2;
    const bool adds = p.is_common && p.addend_scale != 0.0f;
    if (kFetchesAhead && adds) load_addends<T, kN>(p, tile, unit, lane, &addends);
    multiply_unit<T, kN>(p, windows, filter + version, sum);
    if (!kFetchesAhead && adds) load_addends<T, kN>(p, tile, unit, lane, &addends);
    if (p.is_common) combine_sums<T, kN>(p, addends, bias, sum);
    if (!p.is_common) {
      store_unit<T, kN>(p, tile, unit, lane, bias, sum);
    } else if (p.has_curve) {
      store_sums<T, kN, gemm::PairRelu::none>(p, tile, unit, lane, sum);
    } else if constexpr (sizeof(T) == 2) {
      gemm::with_pair_relu(p.activation, [&](auto relu) { store_sums<T, kN, relu()>(p, tile, unit, lane, sum); });
    }
  }
}

template <class T, int kN, int kWarpgroups, bool kPlain>
__global__ void __launch_bounds__(128 * kWarpgroups, 1) small_c_fwd_sm90(const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) unsigned char shared[];
  auto& barriers = *reinterpret_cast<Barriers*>(shared);
  // Told to the compiler to be the same in all lanes: else it takes the loops for divergent ones, and waits for each
  // product.
  const std::uint32_t group = static_cast<std::uint32_t>(__shfl_sync(0xffffffffu, threadIdx.x / 128, 0));
  const bool fetches = threadIdx.x % 128 == 0;
  std::uint32_t row_block = 0;
  const std::uint32_t slot = p.row_blocks.divmod(blockIdx.x, &row_block);
  const std::uint32_t slots = p.row_blocks.quotient(gridDim.x);
  const std::uint32_t step = slots * kWarpgroups;
  std::uint32_t index = slot + slots * group;
  unsigned char* const patches = shared + kBarrierBytes + group * kStages * p.stage_bytes;
  std::uint64_t* const full = barriers.full[group];
  if (fetches) {
    for (int stage = 0; stage < kStages; ++stage) ptx::mbarrier_init(&full[stage], 1);
    ptx::fence_mbarrier_init();
    for (std::uint32_t stage = 0; stage < kStages; ++stage) {
      fetch_patch(p, index + stage * step, &full[stage], patches + stage * p.stage_bytes);
    }
  }
  const std::uint32_t first_filter = row_block * kN;
  pack_filter<T, kN, 128 * kWarpgroups>(p, first_filter, shared);
  ptx::fence_proxy_async();  // wgmma reads through the asynchronous proxy
  __syncthreads();
  const std::uint64_t filter = filter_descriptor<kN>(shared + p.filter_offset);
  const auto* const bias = reinterpret_cast<const float*>(shared + p.bias_offset);

  const Lane lane = lane_of_thread<T>(p, first_filter);

  tile::PipelineState<kStages> turn;
#pragma unroll 1
  for (; index < p.tiles; index += step) {
    unsigned char* const patch = patches + static_cast<std::uint32_t>(turn.stage) * p.stage_bytes;
    tile::wait(&full[turn.stage], turn.parity);
    do_tile<T, kN, kPlain>(p, tile_at(p, index), patch, filter, lane, bias);
    ptx::barrier_sync(kFirstOfWarpgroups + static_cast<int>(group), 128);  // all have left the patch
    if (fetches) fetch_patch(p, index + kStages * step, &full[turn.stage], patch);
    turn.next();
  }
}

template <class T, int kShape, bool kPlain>
void launch_instance(const Params& params, std::uint32_t blocks, CUstream_st* stream) {
  if constexpr (!kPlain) {
    if (params.is_plain) return launch_instance<T, kShape, true>(params, blocks, stream);
  }
  constexpr Shape shape = kShapes[kShape];
  constexpr auto kKernel = &small_c_fwd_sm90<T, shape.filters, shape.warpgroups, kPlain>;
  cuda::allow_shared_memory<kKernel>(cuda::kAllThatABlockMayHave);
  cuda::launch_kernel(kKernel, {blocks, 128 * shape.warpgroups, params.shared_bytes}, stream, params);
}

template <class T>
LaunchShape launch_of(int shape) {
  return tile::entry_at<kShapeCount>(
      shape, [](auto instance) -> LaunchShape { return &launch_instance<T, instance(), false>; });
}

}  // namespace gpudnn::kernels::small_c_fwd
