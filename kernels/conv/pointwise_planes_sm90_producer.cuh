// The producer of the Hopper pointwise convolution on planes: a warp that keeps the stages full through the copy
// engine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/pointwise_planes_sm90_work.cuh"
#include "kernels/ptx/keep.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/tile/stage_ring.cuh"

namespace gpudnn::kernels::sm90::planes {

// Whoever reads parameters in order waits for one line after the other, so each idle warp fetches one.
template <class I>
__device__ __forceinline__ void fetch_parameters(const Params& p, unsigned warp) {
  constexpr unsigned kLine = 64;
  constexpr unsigned kLines = (offsetof(Params, in) + kLine - 1) / kLine;
  const auto* const words = reinterpret_cast<const std::uint32_t*>(&p);
  for (unsigned i = warp; i < kLines; i += I::kThreads / 32 - 1) ptx::keep(words[i * (kLine / 4)]);
}

// A stage is a block of planes: of the filter, and of each chunk of the image tensor.
template <class I>
__device__ __forceinline__ void produce_across(const Params& p, Shared<I>& shared, const Work& work,
                                               tile::Turn<I::kStages>* turn) {
  constexpr bool kPixelsAreRows = I::kKind == Kind::across_tf32;
  Chunk chunks[I::kChunks];
#pragma unroll
  for (int i = 0; i < I::kChunks; ++i) {
    chunks[i] = chunk_at<I>(p, (kPixelsAreRows ? work.m : work.n) * I::kChunks + static_cast<std::uint32_t>(i));
  }
  const auto written = static_cast<std::int32_t>(kPixelsAreRows ? work.n * I::kBN : work.m * I::kBM);
  for (std::uint32_t k = work.k_begin; k < work.k_end; ++k) {
    const auto summed = static_cast<std::int32_t>(k * I::kBK);
    tile::wait(&shared.empty[turn->stage], turn->parity ^ 1);
    std::uint64_t* const full = &shared.full[turn->stage];
    if (threadIdx.x == 0) {
      unsigned char* const of_filter = kPixelsAreRows ? shared.b[turn->stage] : shared.a[turn->stage];
      unsigned char* const of_pixels = kPixelsAreRows ? shared.a[turn->stage] : shared.b[turn->stage];
      ptx::mbarrier_arrive_expect_tx(full, I::kABytes + I::kBBytes);
#pragma unroll
      for (int i = 0; i < I::kChunks; ++i) {
        ptx::tma_tile_3d(of_pixels + i * I::kBoxBytes, &p.in, full, chunks[i].pixel, summed, chunks[i].image);
      }
      if constexpr (I::kAIsMnMajor) {
#pragma unroll
        for (int i = 0; i < I::kBM / I::kRowElements; ++i) {
          ptx::tma_tile_3d(of_filter + i * I::kBoxBytes, &p.filter, full, written + i * I::kRowElements, summed, 0);
        }
      } else {
        ptx::tma_tile_3d(of_filter, &p.filter, full, summed, written, 0);
      }
    }
    turn->next();
  }
}

// A stage is a chunk of pixels, of the planes of both tensors.
template <class I>
__device__ __forceinline__ void produce_along(const Params& p, Shared<I>& shared, const Work& work,
                                              tile::Turn<I::kStages>* turn) {
  constexpr int kBlockBytes = kBlock * kRowBytes;
  const auto row = static_cast<std::int32_t>(work.m * I::kBM);
  const auto column = static_cast<std::int32_t>(work.n * I::kBN);
  for (std::uint32_t k = work.k_begin; k < work.k_end; ++k) {
    const Chunk chunk = chunk_at<I>(p, k);
    tile::wait(&shared.empty[turn->stage], turn->parity ^ 1);
    std::uint64_t* const full = &shared.full[turn->stage];
    if (threadIdx.x == 0) {
      ptx::mbarrier_arrive_expect_tx(full, I::kABytes + I::kBBytes);
#pragma unroll
      for (int i = 0; i < I::kBM / kBlock; ++i) {
        ptx::tma_tile_3d(shared.a[turn->stage] + i * kBlockBytes, &p.out, full, chunk.pixel, row + i * kBlock,
                         chunk.image);
      }
#pragma unroll
      for (int i = 0; i < I::kBN / kBlock; ++i) {
        ptx::tma_tile_3d(shared.b[turn->stage] + i * kBlockBytes, &p.in, full, chunk.pixel, column + i * kBlock,
                         chunk.image);
      }
    }
    turn->next();
  }
}

template <class I>
__device__ __forceinline__ void produce(const Params& p, Shared<I>& shared) {
  tile::Turn<I::kStages> turn;
  const std::uint32_t works = p.works.divisor * p.splits;
  for (std::uint32_t index = blockIdx.x; index < works; index += gridDim.x) {
    const Work work = work_item<I>(p, index);
    if constexpr (I::kKind == Kind::along) {
      produce_along<I>(p, shared, work, &turn);
    } else {
      produce_across<I>(p, shared, work, &turn);
    }
  }
}

}  // namespace gpudnn::kernels::sm90::planes
