// The filter gradient of the float convolution on bfloat16 tensor cores: dw[k][tap][c] = sum over pixels of
// dy[pixel][k] * x[pixel + tap][c], each factor the sum of three bfloat16 terms (bf16_terms.cuh).
//
// Data flow of a block, one per multiprocessor; a k tile is 32 pixels:
//   producer    warp 0, as in every direction: im2col boxes of 32 pixels x 32 floats of dy (A) and x (B).       -> full
//   splitters   warpgroup 1. A warp reads a box of x and writes its terms as bfloat16, rows of 64 channels: wgmma takes
//               16-bit operands with the reduction across rows, so nothing is transposed.                       ->
//               ready
//   consumers   the other one or two warpgroups, 64 filters each. Fragments of dy come by loads of 8 bytes, two
//   neighbouring
//               filters of a pixel; two pixels make a pair of k. They are split in registers while the
//               16 pixels before are multiplied.                                                      -> empty, drained
//
// B has four planes: x0, x1, x2, and x0 with a finite number where x is not finite, for the products with A's lower
// terms. Sums: each k tile's starts at zero and is added to the tile's in float, as in fp32_split_sm90.cuh.
//
// Shared memory, at 128 bytes a cycle, of a k tile of 128 x 128, which multiplies for 1536 cycles: B by wgmma 96 K,
// copies 32 K, fragments of A 16 K, the split of B 48 K: 1536 cycles. It is the limit together with the products.
//
// Registers: a consumer two sums of 64 and 32 of fragments, a splitter 8 floats and their terms.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/fp32_split/bf16_terms.cuh"
#include "kernels/conv/fp32_split/fp32_split_sm90.hpp"
#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_wgrad_tf32.cuh"
#include "kernels/ptx/wgmma_shape.cuh"

namespace gpudnn::kernels::fp32_split {

constexpr int kSplitterWarps = 4;
constexpr int kSplitterRegisters = 80;
constexpr int kTermStages = 3;
constexpr int kPixels = 32;  // of a k tile

template <int kShape>
struct Wgrad {
  using T = float;
  static constexpr Direction kDirection = Direction::filter_gradient;
  static constexpr sm90::TileShape kTile = kWgradShapes[kShape];
  static constexpr int kBM = kTile.bm;
  static constexpr int kBN = kTile.bn;
  static constexpr int kStages = kTile.stages;
  static constexpr int kCluster = 1;
  static constexpr int kConsumers = kTile.consumers;
  static constexpr bool kPingPong = false;
  static constexpr bool kClusterSplitK = false;
  static constexpr bool kIsFilterGradient = true;
  static constexpr bool kStreamK = false;
  static constexpr bool kSwapped = false;
  static constexpr int kThreads = 128 * (2 + kConsumers);
  static constexpr int kConsumerRegisters = kConsumers == 2 ? 192 : 232;
  static constexpr int kRowElements = sm90::kRowBytes / 4;
  static constexpr int kChunkElements = kRowElements;
  static constexpr bool kTransposesFilter = false;
  static constexpr int kBK = kPixels;
  static constexpr int kRowBlocks = 1;
  static constexpr int kBoxBytes = kPixels * sm90::kRowBytes;
  static constexpr int kABytes = kBM * sm90::kRowBytes;
  static constexpr int kBBytes = kBN * sm90::kRowBytes;
  static constexpr int kTermBytes = kBN / 64 * kBoxBytes;  // a box of 64 channels for two of floats
  static constexpr int kTileWarps = 4 * kConsumers;

  static __device__ __forceinline__ std::uint32_t row_of_fragment(std::uint32_t row_block, std::uint32_t thread,
                                                                  std::uint32_t half) {
    const auto warp = static_cast<int>(row_block * 4 + thread / 32);
    return static_cast<std::uint32_t>(
        sm90::wgrad_tf32::filter_of_fragment(1, warp, static_cast<int>(thread % 32), 0, static_cast<int>(half)));
  }

  static_assert(kTile.transposes && !kTile.ping_pong, "sums go to C from registers");
  static_assert(kBM == 64 * kConsumers && kBN == 32 * kSplitterWarps, "a box for each splitter");
};

}  // namespace gpudnn::kernels::fp32_split

namespace gpudnn::kernels::sm90 {

template <int kShape>
struct alignas(1024) Shared<fp32_split::Wgrad<kShape>> {
  using I = fp32_split::Wgrad<kShape>;
  unsigned char a[I::kStages][I::kABytes];
  unsigned char b[I::kStages][I::kBBytes];
  unsigned char terms[fp32_split::kTermStages][fp32_split::kPlanes][I::kTermBytes];
  std::uint64_t full[I::kStages];
  std::uint64_t empty[I::kStages];
  std::uint64_t ready[fp32_split::kTermStages];
  std::uint64_t drained[fp32_split::kTermStages];
};

}  // namespace gpudnn::kernels::sm90

namespace gpudnn::kernels::fp32_split {

using sm90::Shared;
using sm90::Work;

// --- producer ------------------------------------------------------------------------------------------------------

// A batch's pixels are rows of matrices that hold those of all batches.
template <class I>
__device__ __forceinline__ void produce_batch(const WgradParams& params, Shared<I>& shared) {
  tile::PipelineState<I::kStages> turn;
  sm90::for_each_work<I>(params.gemm, [&](Work work) {
    const bool skips = (work.n + 1) * (I::kBN / I::kRowElements) > params.gemm.n_chunks;
    const std::uint32_t first = work.group * params.k_tiles_of_group;
    work.k_begin += first;
    work.k_end += first;
    if (skips) {
      sm90::produce_filters_by_taps<I, true, true>(params.gemm, shared, work, &turn);
    } else {
      sm90::produce_filters_by_taps<I, true, false>(params.gemm, shared, work, &turn);
    }
  });
}

// --- splitters -----------------------------------------------------------------------------------------------------

// 8 channels of a pixel: words of each plane.
__device__ __forceinline__ void split_channels(const float4& low, const float4& high, uint4 (&planes)[kPlanes]) {
  const float x[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
  std::uint32_t words[kPlanes][4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const Terms terms = terms_of_pair(x[2 * i], x[2 * i + 1]);
    words[0][i] = terms.top;
    words[1][i] = terms.middle;
    words[2][i] = terms.low;
    words[3][i] = terms.finite;
  }
#pragma unroll
  for (int plane = 0; plane < kPlanes; ++plane) {
    planes[plane] = make_uint4(words[plane][0], words[plane][1], words[plane][2], words[plane][3]);
  }
}

// A box of 32 pixels x 32 floats to half a box of 64 bfloat16. The 8 lanes that an access serves at once have pixels 4
// apart, and load the two halves of their 8 floats in turn: so they meet all banks, in loads and in stores.
template <class I>
__device__ __forceinline__ void split_box(const unsigned char* box, unsigned char* terms, int half, int lane) {
  const int octet = lane % 4;
  const int later = lane / 4 % 2;
#pragma unroll
  for (int i = 0; i < kPixels / 8; ++i) {
    const int row = 8 * i + lane / 8 + 4 * later;
    const float4 first = *reinterpret_cast<const float4*>(box + sm90::wgrad_tf32::swizzled(row, 2 * octet + later));
    const float4 second =
        *reinterpret_cast<const float4*>(box + sm90::wgrad_tf32::swizzled(row, 2 * octet + 1 - later));
    uint4 planes[kPlanes];
    split_channels(later != 0 ? second : first, later != 0 ? first : second, planes);
    unsigned char* const to = terms + sm90::wgrad_tf32::swizzled(row, half * 4 + octet);
#pragma unroll
    for (int plane = 0; plane < kPlanes; ++plane) *reinterpret_cast<uint4*>(to + plane * I::kTermBytes) = planes[plane];
  }
}

template <class I>
__device__ __forceinline__ void split(const sm90::Params& p, Shared<I>& shared) {
  const int warp = static_cast<int>(threadIdx.x % 128) / 32;
  const int lane = static_cast<int>(threadIdx.x % 32);
  tile::PipelineState<I::kStages> turn;
  tile::PipelineState<kTermStages> out;
  sm90::for_each_work<I>(p, [&](const Work& work) {
    const bool exists = work.n * kSplitterWarps + static_cast<std::uint32_t>(warp) < p.n_chunks;
    for (std::uint32_t k = work.k_begin; k < work.k_end; ++k) {
      tile::wait(&shared.full[turn.stage], turn.parity);
      tile::wait(&shared.drained[out.stage], out.parity ^ 1);
      if (exists) {
        split_box<I>(shared.b[turn.stage] + warp * I::kBoxBytes, shared.terms[out.stage][0] + warp / 2 * I::kBoxBytes,
                     warp % 2, lane);
        ptx::fence_proxy_async();  // wgmma reads what was written here
      }
      __syncwarp();
      if (lane == 0) {
        ptx::mbarrier_arrive(&shared.ready[out.stage]);
        ptx::mbarrier_arrive(&shared.empty[turn.stage]);
      }
      turn.next();
      out.next();
    }
  });
}

// --- consumers -----------------------------------------------------------------------------------------------------

struct WgradFragments {
  std::uint32_t top[4], finite[4], middle[4], low[4];
};

// `from`: the thread's two filters in the first and second pixel of its pairs, of the first 8 pixels.
using PixelPairs = float2[2][2];
__device__ __forceinline__ void load_pixels(const unsigned char* const (&from)[2], int step, PixelPairs& x) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int offset = (16 * step + 8 * half) * sm90::kRowBytes;
    x[half][0] = *reinterpret_cast<const float2*>(from[0] + offset);
    x[half][1] = *reinterpret_cast<const float2*>(from[1] + offset);
  }
}
__device__ __forceinline__ void split_pixels(const PixelPairs& x, WgradFragments* to) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const Terms terms[2] = {terms_of_pair(x[half][0].x, x[half][1].x), terms_of_pair(x[half][0].y, x[half][1].y)};
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      to->top[2 * half + row] = terms[row].top;
      to->finite[2 * half + row] = terms[row].finite;
      to->middle[2 * half + row] = terms[row].middle;
      to->low[2 * half + row] = terms[row].low;
    }
  }
}

// The products with lower terms, which are small.
template <class I>
__device__ __forceinline__ void multiply_lower_terms(const WgradFragments& a, std::uint64_t b, int scale_d,
                                                     float (&sum)[I::kBN / 2]) {
  using B = tile::BFloat16;
  constexpr std::uint64_t kTerm = I::kTermBytes >> 4;
  ptx::wgmma_rs<B, B, I::kBN, ptx::Major::mn>(sum, a.finite, b + 2 * kTerm, scale_d);
  ptx::wgmma_rs<B, B, I::kBN, ptx::Major::mn>(sum, a.middle, b + kTerm);
  ptx::wgmma_rs<B, B, I::kBN, ptx::Major::mn>(sum, a.low, b + 3 * kTerm);
  ptx::wgmma_rs<B, B, I::kBN, ptx::Major::mn>(sum, a.finite, b + kTerm);
  ptx::wgmma_rs<B, B, I::kBN, ptx::Major::mn>(sum, a.middle, b + 3 * kTerm);
}

// The turns of a consumer in both rings.
template <class I>
struct Turns {
  tile::PipelineState<I::kStages> floats;
  tile::PipelineState<kTermStages> terms;
};

template <class I>
__device__ __forceinline__ void multiply_work(Shared<I>& shared, const Work& work, const int (&offset)[2],
                                              float (&sum)[1][I::kBN / 2], Turns<I>* turns) {
  constexpr std::uint64_t kSecondStep = 16 * sm90::kRowBytes >> 4;
  sm90::clear<I>(sum);
  if (work.k_begin >= work.k_end) return;
  float part[I::kBN / 2];
  WgradFragments fragments[2];
  PixelPairs first;
  PixelPairs second;
  const auto load = [&](int stage, int step, PixelPairs& x) {
    const unsigned char* const from[2] = {shared.a[stage] + offset[0], shared.a[stage] + offset[1]};
    load_pixels(from, step, x);
  };
  tile::wait(&shared.full[turns->floats.stage], turns->floats.parity);
  load(turns->floats.stage, 0, first);
  for (std::uint32_t k = work.k_begin; k < work.k_end; ++k) {
    const int stage = turns->floats.stage;
    const int terms = turns->terms.stage;
    tile::wait(&shared.ready[terms], turns->terms.parity);
    const std::uint64_t b = tile::operand_descriptor<sm90::kRowBytes>(shared.terms[terms][0], I::kBoxBytes);
    split_pixels(first, &fragments[0]);
    load(stage, 1, second);
    ptx::wgmma_fence();
    multiply_lower_terms<I>(fragments[0], b, 0, part);
    ptx::wgmma_commit_group();
    split_pixels(second, &fragments[1]);
    ptx::wgmma_fence();
    multiply_lower_terms<I>(fragments[1], b + kSecondStep, 1, part);
    ptx::wgmma_rs<tile::BFloat16, tile::BFloat16, I::kBN, ptx::Major::mn>(part, fragments[0].top, b);
    ptx::wgmma_rs<tile::BFloat16, tile::BFloat16, I::kBN, ptx::Major::mn>(part, fragments[1].top, b + kSecondStep);
    ptx::wgmma_commit_group();
    turns->floats.next();
    turns->terms.next();
    if (k + 1 < work.k_end) tile::wait(&shared.full[turns->floats.stage], turns->floats.parity);
    load(turns->floats.stage, 0, first);  // behind the last k tile whatever the stage holds, which nobody uses
    ptx::wgmma_wait_group<0>();
    sm90::release<I>(shared, stage);
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&shared.drained[terms]);
#pragma unroll
    for (int i = 0; i < I::kBN / 2; ++i) sum[0][i] += part[i];
  }
}

// A thread has both parts of a filter as neighbouring rows, both of a channel as neighbouring columns.
template <class I>
__device__ __forceinline__ void store_complex(const sm90::Params& p, const Work& work, int consumer,
                                              const float (&sum)[1][I::kBN / 2]) {
  constexpr int kGroups = I::kRowElements / 8;  // of 8 columns, in a chunk
  const std::uint32_t thread = threadIdx.x % 128;
  const int pair = static_cast<int>(thread % 4 * 2);
  const std::uint32_t m = work.m * I::kBM + I::row_of_fragment(static_cast<std::uint32_t>(consumer), thread, 0);
  const std::int64_t row = sm90::row_offset<I>(p, work, m, p.c_step, true);
  if (row < 0) return;
#pragma unroll
  for (int chunk = 0; chunk < I::kBN / I::kRowElements; ++chunk) {
    const sm90::ColumnChunk columns = sm90::column_chunk<I>(p, work, chunk);
    if (columns.valid <= 0) break;
    char* const to = static_cast<char*>(p.c) + row / 2 + columns.offset + pair * static_cast<int>(sizeof(float));
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
      if (8 * j + pair >= columns.valid) continue;
      const float* const v = &sum[0][4 * (chunk * kGroups + j)];
      float2 number = {v[0] + v[3], v[1] - v[2]};
      auto* const at = reinterpret_cast<float2*>(to + 8 * j * static_cast<int>(sizeof(float)));
      if (p.addend_scale != 0.0f) {
        number.x += at->x;
        number.y += at->y;
      }
      *at = number;
    }
  }
}

template <class I>
__device__ __forceinline__ void consume_wgrad(const WgradParams& params, Shared<I>& shared, int consumer) {
  const sm90::Params& p = params.gemm;
  const int warp = consumer * 4 + static_cast<int>(threadIdx.x % 128) / 32;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int filter = sm90::wgrad_tf32::filter_of_fragment(1, warp, lane, 0, 0);
  int offset[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    offset[i] =
        filter / 32 * I::kBoxBytes + sm90::wgrad_tf32::swizzled(lane % 4 * 2 + i, filter % 32 / 4) + filter % 4 * 4;
  }
  Turns<I> turns;
  sm90::for_each_work<I>(p, [&](const Work& work) {
    float sum[1][I::kBN / 2];
    multiply_work<I>(shared, work, offset, sum, &turns);
    if (p.splits > 1) {
      sm90::store_partials<I>(p, work, consumer, sum);
    } else if (params.is_complex) {
      store_complex<I>(p, work, consumer, sum);
    } else {
      sm90::store_sums<I>(p, work, consumer, sum);
    }
  });
}

template <class I>
__device__ __forceinline__ void make_wgrad_barriers(const sm90::Params& p, Shared<I>& shared) {
  if (threadIdx.x != 0) return;
  ptx::prefetch_tensormap(&p.a[0]);
  ptx::prefetch_tensormap(&p.b);
#pragma unroll 1
  for (int stage = 0; stage < I::kStages; ++stage) {
    ptx::mbarrier_init(&shared.full[stage], 1);
    ptx::mbarrier_init(&shared.empty[stage], I::kTileWarps + kSplitterWarps);
  }
#pragma unroll 1
  for (int stage = 0; stage < kTermStages; ++stage) {
    ptx::mbarrier_init(&shared.ready[stage], kSplitterWarps);
    ptx::mbarrier_init(&shared.drained[stage], I::kTileWarps);
  }
  ptx::fence_mbarrier_init();
}

template <class I>
__global__ void __launch_bounds__(I::kThreads, 1) fp32_split_wgrad_sm90(const __grid_constant__ WgradParams params) {
  extern __shared__ __align__(1024) unsigned char raw[];
  auto& shared = *reinterpret_cast<Shared<I>*>(raw);
  const sm90::Params& p = params.gemm;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  make_wgrad_barriers<I>(p, shared);
  __syncthreads();
  if (warp < 4) {
    ptx::setmaxnreg_dec<sm90::kProducerRegisters>();
    if (warp == 0) {
      if (params.k_tiles_of_group > 0) {
        produce_batch<I>(params, shared);
      } else {
        sm90::produce<I>(p, shared);
      }
    }
  } else if (warp < 4 + kSplitterWarps) {
    ptx::setmaxnreg_dec<kSplitterRegisters>();
    split<I>(p, shared);
  } else {
    if ((ptx::shared_address(raw) & 1023u) != 0) __trap();  // the swizzle counts on it
    ptx::setmaxnreg_inc<I::kConsumerRegisters>();
    consume_wgrad<I>(params, shared, warp / 4 - 2);
  }
}

}  // namespace gpudnn::kernels::fp32_split
