// The producer of the Hopper pointwise convolution on planes: a warp that keeps the stages full through the copy
// engine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/conv1x1/conv1x1_nchw_sm90_work.cuh"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/tile/stage_ring.cuh"

namespace gpudnn::kernels::sm90::planes {

// The block's share of the filter, for planes that are summed from `summed` on.
template <class I>
__device__ __forceinline__ void load_filter(const Params& p, std::uint64_t* full, unsigned char* to,
                                            std::int32_t summed, std::int32_t written) {
  if constexpr (I::kAIsMnMajor) {
#pragma unroll
    for (int i = 0; i < I::kBM / I::kRowElements; ++i) {
      ptx::tma_tile_3d(to + i * I::kBoxBytes, &p.filter, full, written + i * I::kRowElements, summed, 0);
    }
  } else {
    ptx::tma_tile_3d(to, &p.filter, full, summed, written, 0);
  }
}

// What it brings. A K-major filter's box has no rows beyond those that there are, which TMA takes longer over.
template <class I>
__device__ __forceinline__ std::uint32_t filter_bytes(const Params& p) {
  constexpr std::uint32_t kMaxRows = I::kKind == Kind::across_tf32 ? I::kBN : I::kBM;
  return (I::kAIsMnMajor || p.out_planes > kMaxRows ? kMaxRows : p.out_planes) * kRowBytes;
}

// A stage is a block of planes: of the filter, and of each chunk of the image tensor.
template <class I>
__device__ __forceinline__ void produce_across(const Params& p, Shared<I>& shared, const Work& work, std::uint32_t rank,
                                               tile::PipelineState<I::kStages>* turn) {
  constexpr bool kPixelsAreRows = I::kKind == Kind::across_tf32;
  constexpr int kShare = I::kChunks / I::kCluster;  // that this block loads
  Chunk chunks[kShare];
#pragma unroll
  for (int i = 0; i < kShare; ++i) {
    chunks[i] =
        chunk_at<I>(p, (kPixelsAreRows ? work.m : work.n) * I::kChunks + rank * kShare + static_cast<std::uint32_t>(i));
  }
  const auto written = static_cast<std::int32_t>(kPixelsAreRows ? work.n * I::kBN : work.m * I::kBM);
  const std::uint32_t bytes = (kPixelsAreRows ? I::kABytes : I::kBBytes) + filter_bytes<I>(p);
  for (std::uint32_t k = work.k_begin; k < work.k_end; ++k) {
    const auto summed = static_cast<std::int32_t>(k * I::kBK);
    tile::wait(&shared.empty[turn->stage], turn->parity ^ 1);
    std::uint64_t* const full = &shared.full[turn->stage];
    if (threadIdx.x == 0) {
      unsigned char* const of_filter = kPixelsAreRows ? shared.b[turn->stage] : shared.a[turn->stage];
      unsigned char* const of_pixels = kPixelsAreRows ? shared.a[turn->stage] : shared.b[turn->stage];
      ptx::mbarrier_arrive_expect_tx(full, bytes);
#pragma unroll
      for (int i = 0; i < kShare; ++i) {
        if constexpr (I::kCluster > 1) {
          constexpr std::uint16_t kAll = 3;
          ptx::tma_tile_3d_multicast(of_pixels + (static_cast<int>(rank) * kShare + i) * I::kBoxBytes, &p.in, full,
                                     chunks[i].pixel, summed, chunks[i].image, kAll);
        } else {
          ptx::tma_tile_3d(of_pixels + i * I::kBoxBytes, &p.in, full, chunks[i].pixel, summed, chunks[i].image);
        }
      }
      load_filter<I>(p, full, of_filter, summed, written);
    }
    turn->next();
  }
}

// A stage is a chunk of pixels, of the planes of both tensors.
template <class I>
__device__ __forceinline__ void produce_along(const Params& p, Shared<I>& shared, const Work& work,
                                              tile::PipelineState<I::kStages>* turn) {
  constexpr int kBlockBytes = kBlock * kRowBytes;
  const auto row = static_cast<std::int32_t>(work.m * I::kBM);
  const auto column = static_cast<std::int32_t>(work.n * I::kBN);
  // Boxes have no planes beyond those that there are; those that would have none are not fetched.
  const auto boxes_of = [](std::uint32_t planes, std::uint32_t first, std::uint32_t rows) {
    const std::uint32_t left = planes - first;
    return ((left < rows ? left : rows) + kBlock - 1) / kBlock;
  };
  const std::uint32_t a_boxes = boxes_of(p.out_planes, work.m * I::kBM, I::kBM);
  const std::uint32_t b_boxes = boxes_of(p.in_planes, work.n * I::kBN, I::kBN);
  const std::uint32_t bytes = (a_boxes * (p.out_planes < kBlock ? p.out_planes : kBlock) +
                               b_boxes * (p.in_planes < kBlock ? p.in_planes : kBlock)) *
                              kRowBytes;
  for (std::uint32_t k = work.k_begin; k < work.k_end; ++k) {
    const Chunk chunk = chunk_at<I>(p, k);
    tile::wait(&shared.empty[turn->stage], turn->parity ^ 1);
    std::uint64_t* const full = &shared.full[turn->stage];
    if (threadIdx.x == 0) {
      ptx::mbarrier_arrive_expect_tx(full, bytes);
#pragma unroll
      for (int i = 0; i < I::kBM / kBlock; ++i) {
        if (static_cast<std::uint32_t>(i) >= a_boxes) break;
        ptx::tma_tile_3d(shared.a[turn->stage] + i * kBlockBytes, &p.out, full, chunk.pixel, row + i * kBlock,
                         chunk.image);
      }
#pragma unroll
      for (int i = 0; i < I::kBN / kBlock; ++i) {
        if (static_cast<std::uint32_t>(i) >= b_boxes) break;
        ptx::tma_tile_3d(shared.b[turn->stage] + i * kBlockBytes, &p.in, full, chunk.pixel, column + i * kBlock,
                         chunk.image);
      }
    }
    turn->next();
  }
}

// --- by threads ------------------------------------------------------------------------------------------------------

constexpr int kPiece = 8;  // bytes

// An image tensor in memory.
struct Planes {
  const char* data;
  std::int64_t plane, image;  // bytes from one to the next
  std::uint32_t planes;
};

// 64 planes x a chunk, as TMA would lay them down; what does not exist becomes zero. All 128 threads.
template <class I>
__device__ __forceinline__ void tma_box(const Params& p, const Planes& from, std::uint32_t first_plane,
                                        const Chunk& chunk, bool chunk_exists, unsigned char* to) {
  constexpr int kPieces = kRowBytes / kPiece;
  constexpr int kAtOnce = 128 / kPieces;
  const int byte = static_cast<int>(threadIdx.x) % kPieces * kPiece;
  const int first_row = static_cast<int>(threadIdx.x) / kPieces;
  const auto left =
      (static_cast<std::int64_t>(p.pixels) - chunk.pixel) * static_cast<std::int64_t>(sizeof(typename I::T));
  const bool bytes_exist = chunk_exists && byte < left;
  const char* source = from.data;
  if (bytes_exist) {
    source += chunk.image * from.image + (first_plane + static_cast<std::uint32_t>(first_row)) * from.plane +
              chunk.pixel * static_cast<std::int64_t>(sizeof(typename I::T)) + byte;
  }
  const std::uint32_t base = ptx::shared_address(to);
#pragma unroll
  for (int i = 0; i < kBlock / kAtOnce; ++i) {
    const int row = first_row + i * kAtOnce;
    const bool exists = bytes_exist && first_plane + static_cast<std::uint32_t>(row) < from.planes;
    const int at = row * kRowBytes + ((byte / 16 ^ (row & 7)) << 4) + byte % 16;
    ptx::cp_async<kPiece>(base + static_cast<std::uint32_t>(at), exists ? source + i * kAtOnce * from.plane : from.data,
                          exists ? kPiece : 0);
  }
}

// The image operands of a stage, number k of a work item.
template <class I>
__device__ __forceinline__ void copy_stage(const Params& p, Shared<I>& shared, const Work& work, std::uint32_t k,
                                           int stage) {
  const Planes in = {static_cast<const char*>(p.in_data), p.in_step[0], p.in_step[1], p.in_planes};
  if constexpr (I::kKind == Kind::along) {
    constexpr int kBlockBytes = kBlock * kRowBytes;
    const Planes out = {static_cast<const char*>(p.out_data), p.out_step[0], p.out_step[1], p.out_planes};
    const Chunk chunk = chunk_at<I>(p, k);
#pragma unroll 1  // the addresses of more than one box take more registers than there are
    for (int i = 0; i < I::kBM / kBlock; ++i) {
      tma_box<I>(p, out, work.m * I::kBM + static_cast<std::uint32_t>(i * kBlock), chunk, true,
                 shared.a[stage] + i * kBlockBytes);
    }
#pragma unroll 1
    for (int i = 0; i < I::kBN / kBlock; ++i) {
      tma_box<I>(p, in, work.n * I::kBN + static_cast<std::uint32_t>(i * kBlock), chunk, true,
                 shared.b[stage] + i * kBlockBytes);
    }
  } else {
    static_assert(I::kKind == Kind::along || I::kBK == kBlock, "a box has as many planes");
#pragma unroll 1
    for (int i = 0; i < I::kChunks; ++i) {
      const std::uint32_t index = work.n * I::kChunks + static_cast<std::uint32_t>(i);
      tma_box<I>(p, in, k * I::kBK, chunk_at<I>(p, index), index < p.chunks, shared.b[stage] + i * I::kBoxBytes);
    }
  }
}

// What a thread has copied it must make visible to wgmma before a stage counts as full, and its copies take a while: a
// stage is declared full when the next kLag ones have been started. The ring is deeper than that by the stage that the
// consumers work on and the one that they hold on to.
template <class I>
__device__ __forceinline__ void produce_by_threads(const Params& p, Shared<I>& shared) {
  constexpr int kLag = I::kStages - 3;
  tile::PipelineState<I::kStages> turn;
  tile::PipelineState<I::kStages> declared;
  int started = 0;
  const auto declare = [&] {
    ptx::fence_proxy_async();
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&shared.full[declared.stage]);
    declared.next();
  };
  const std::uint32_t works = p.works.divisor * p.splits;
  for (std::uint32_t index = blockIdx.x; index < works; index += gridDim.x) {
    const Work work = work_item<I>(p, index, 0);
    for (std::uint32_t k = work.k_begin; k < work.k_end; ++k) {
      tile::wait(&shared.empty[turn.stage], turn.parity ^ 1);
      if constexpr (I::kKind != Kind::along) {
        if (threadIdx.x == 0) {
          std::uint64_t* const full = &shared.full[turn.stage];
          ptx::mbarrier_arrive_expect_tx(full, filter_bytes<I>(p));
          load_filter<I>(p, full, shared.a[turn.stage], static_cast<std::int32_t>(k * I::kBK),
                         static_cast<std::int32_t>(work.m * I::kBM));
        }
        __syncwarp();
      }
      copy_stage<I>(p, shared, work, k, turn.stage);
      ptx::cp_async_commit_group();
      turn.next();
      if (started == kLag) {
        ptx::cp_async_wait_group<kLag>();
        declare();
      } else {
        ++started;
      }
    }
  }
  ptx::cp_async_wait_group<0>();
  for (; started > 0; --started) declare();
}

template <class I>
__device__ __forceinline__ void produce(const Params& p, Shared<I>& shared, std::uint32_t rank) {
  tile::PipelineState<I::kStages> turn;
  const std::uint32_t works = p.works.divisor * p.splits;
  for (std::uint32_t index = blockIdx.x / I::kCluster; index < works; index += gridDim.x / I::kCluster) {
    const Work work = work_item<I>(p, index, rank);
    if constexpr (I::kKind == Kind::along) {
      produce_along<I>(p, shared, work, &turn);
    } else {
      produce_across<I>(p, shared, work, rank, &turn);
    }
  }
}

}  // namespace gpudnn::kernels::sm90::planes
