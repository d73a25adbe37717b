// A whole sweep of a recurrent layer in one launch: half and bfloat16, no projection. Hopper.
// SPDX-License-Identifier: Apache-2.0
//
// A block owns 8 WN units of one direction and 16 WM places. Its rows of the recurrent matrix (of all gates; backward
// of the transpose) stay in shared memory over all steps. h of a step, backward the gradients of the gates, goes
// through device memory from the blocks that made it to those that multiply with it: blocks of the same places and
// direction, and no others, wait for each other. After its stores a block adds 1 to its group's counter with release
// semantics; a step begins when the counter, read with acquire semantics, tells that the whole group has finished the
// step before.
//
// Within a step, chunks of kChunk columns come by cp.async into a ring of slots, as many as fit; WK groups of warps
// divide each chunk. What a unit needs beside its product (cell.hpp) is fetched before the wait. Each element belongs
// to one thread for the whole sweep, so that states which only their own unit reads pass from step to step without a
// barrier.
//
// All blocks must be resident at once: the launch is cooperative, and is offered only where the kernel's own occupancy
// says that the grid fits.
#pragma once

#include "core/launch/cached_query.hpp"
#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/ptx/gpu_scope.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/mma_sync.cuh"
#include "kernels/rnn/persistent.hpp"
#include "kernels/rnn/step.cuh"
#include "kernels/tile/dynamic_shared.cuh"

namespace gpudnn::kernels {

template <class T>
__device__ __forceinline__ void rnn_multiply(float (&sums)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                             std::uint32_t b1) {
  if constexpr (std::is_same_v<T, tile::Half>) {
    ptx::mma_m16n8k16_f16(sums, a, b0, b1);
  } else {
    ptx::mma_m16n8k16_bf16(sums, a, b0, b1);
  }
}

__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

// Waits for the oldest of `slots` chunks under way.
__device__ __forceinline__ void wait_for_chunk(int slots) {
  switch (slots) {
    case 1:
      return ptx::cp_async_wait_group<0>();
    case 2:
      return ptx::cp_async_wait_group<1>();
    case 3:
      return ptx::cp_async_wait_group<2>();
    case 4:
      return ptx::cp_async_wait_group<3>();
    case 5:
      return ptx::cp_async_wait_group<4>();
    case 6:
      return ptx::cp_async_wait_group<5>();
    case 7:
      return ptx::cp_async_wait_group<6>();
    default:
      return ptx::cp_async_wait_group<7>();
  }
}

template <class T, int G, int WM, int WN, int WK>
struct RnnPersistentBlock {
  static constexpr int kPlaces = 16 * WM;
  static constexpr int kUnits = 8 * WN;
  static constexpr int kChunk = kRnnChunk;
  static constexpr int kSlotRow = kChunk + kRnnPadding;
  static constexpr int kSlot = kPlaces * kSlotRow;  // elements
  static constexpr int kSumColumns = G * kUnits + 2;
  static constexpr int kElements =
      kPlaces * kUnits / kRnnPersistentThreads > 0 ? kPlaces* kUnits / kRnnPersistentThreads : 1;  // of a thread

  // The block's rows of the recurrent matrix, columns from `depth` on as zeros.
  __device__ __forceinline__ static void load_weights(const RnnFactors<T>& f, int unit0, int columns, T* weights) {
    const int vectors = columns / 8;
    for (int i = static_cast<int>(threadIdx.x); i < G * kUnits * vectors; i += kRnnPersistentThreads) {
      const int r = i / vectors;
      const int k = i % vectors * 8;
      const std::int64_t row = std::int64_t{r / kUnits} * f.columns + unit0 + r % kUnits;
      const bool there = k < f.depth;
      ptx::cp_async<16>(shared_address(weights + r * (columns + kRnnPadding) + k),
                        there ? f.b + row * f.depth + k : f.b, there ? 16 : 0);
    }
  }
  __device__ __forceinline__ static void load_chunk(const RnnLayer& l, const RnnFactors<T>& f, int place0, int chunk,
                                                    T* slot) {
    constexpr int kVectors = kChunk / 8;
    for (int i = static_cast<int>(threadIdx.x); i < kPlaces * kVectors; i += kRnnPersistentThreads) {
      const int r = i / kVectors;
      const int k = chunk * kChunk + i % kVectors * 8;
      const T* const row = k < f.depth ? rnn_row_of(l, f, place0 + r) : nullptr;
      const int at = k >= f.skip_from ? k + f.skip : k;
      ptx::cp_async<16>(shared_address(slot + r * kSlotRow + i % kVectors * 8), row != nullptr ? row + at : f.b,
                        row != nullptr ? 16 : 0);
    }
  }
  // Sums of a warp over its share of a chunk.
  __device__ __forceinline__ static void multiply_chunk(const T* slot, const T* weights, int columns, int chunk,
                                                        float (&sums)[G][4]) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int wm = warp % WM;
    const int wn = warp / WM % WN;
    const int wk = warp / (WM * WN);
    constexpr int kShare = kChunk / WK;
    const T* const a_row = slot + (16 * wm + lane % 16) * kSlotRow + wk * kShare + lane / 16 * 8;
    const T* const b_row =
        weights + (8 * wn + lane % 8) * (columns + kRnnPadding) + chunk * kChunk + wk * kShare + lane / 8 * 8;
#pragma unroll
    for (int k = 0; k < kShare; k += 32) {
      std::uint32_t a[2][4];
      ptx::ldmatrix_x4(shared_address(a_row + k), a[0]);
      ptx::ldmatrix_x4(shared_address(a_row + k + 16), a[1]);
#pragma unroll
      for (int g = 0; g < G; ++g) {
        std::uint32_t b[4];
        ptx::ldmatrix_x4(shared_address(b_row + g * kUnits * (columns + kRnnPadding) + k), b);
        rnn_multiply<T>(sums[g], a[0], b[0], b[1]);
        rnn_multiply<T>(sums[g], a[1], b[2], b[3]);
      }
    }
  }
  __device__ __forceinline__ static void leave_sums(const float (&sums)[G][4], float* meeting) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int row0 = warp / (WM * WN) * kPlaces + 16 * (warp % WM) + lane / 4;
    const int column0 = 8 * (warp / WM % WN) + lane % 4 * 2;
#pragma unroll
    for (int g = 0; g < G; ++g) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float* const to = meeting + (row0 + 8 * h) * kSumColumns + g * kUnits + column0;
        to[0] = sums[g][2 * h];
        to[1] = sums[g][2 * h + 1];
      }
    }
  }
  __device__ __forceinline__ static void take_sums(const float* meeting, int r, int j, float (&total)[G]) {
#pragma unroll
    for (int g = 0; g < G; ++g) total[g] = 0;
#pragma unroll
    for (int part = 0; part < WK; ++part) {
#pragma unroll
      for (int g = 0; g < G; ++g) total[g] += meeting[(part * kPlaces + r) * kSumColumns + g * kUnits + j];
    }
  }
};

template <class T, int G, int WM, int WN, int WK, bool kBackward>
__global__ void __launch_bounds__(kRnnPersistentThreads, 1)
    rnn_persistent_sm90(const __grid_constant__ RnnLayer l, const __grid_constant__ RnnPersistentShape shape,
                        std::uint32_t* flags) {
  using Block = RnnPersistentBlock<T, G, WM, WN, WK>;
  using Unit = RnnUnit<RnnDeviceConvert<T>>;
  const int direction = static_cast<int>(blockIdx.z);
  const RnnDirection& d = l.direction[direction];
  const int place0 = static_cast<int>(blockIdx.y) * Block::kPlaces;
  const int unit0 = static_cast<int>(blockIdx.x) * Block::kUnits;
  std::uint32_t* const counter = flags + (direction * gridDim.y + blockIdx.y) * kRnnFlagStride;
  constexpr RnnPart kPart = kBackward ? RnnPart::backward_cell : RnnPart::forward_cell;

  T* const weights = reinterpret_cast<T*>(tile::dynamic_shared());
  T* const slots = weights + G * Block::kUnits * (shape.columns + kRnnPadding);
  float* const meeting = reinterpret_cast<float*>(slots + shape.slots * Block::kSlot);
  const int chunks = shape.columns / Block::kChunk;
  Block::load_weights(rnn_factors<T>(l, d, kPart, RnnStep{}), unit0, shape.columns, weights);
  ptx::cp_async_commit_group();

  const auto offset = [&](std::int32_t t) {
    return l.rows.device_offsets != nullptr ? std::int64_t{l.rows.device_offsets[t]} : std::int64_t{t} * l.rows.batch;
  };
  const bool downwards = d.downwards != kBackward;
#pragma unroll 1
  for (std::int32_t i = 0; i < l.rows.steps; ++i) {
    const std::int32_t t = downwards ? l.rows.steps - 1 - i : i;
    const RnnStep s = rnn_step(l.rows, downwards, t, offset);
    const RnnFactors<T> f = rnn_factors<T>(l, d, kPart, s);
    typename Unit::Inputs in[Block::kElements];
    typename Unit::GradientInputs gradient[Block::kElements];
    RnnStep made;
    if constexpr (kBackward) made = rnn_step(l.rows, !downwards, t, offset);
#pragma unroll
    for (int e = 0; e < Block::kElements; ++e) {
      const int index = static_cast<int>(threadIdx.x) + e * kRnnPersistentThreads;
      const int place = place0 + index / Block::kUnits;
      const int j = unit0 + index % Block::kUnits;
      if (index >= Block::kPlaces * Block::kUnits || place >= s.rows) continue;
      if constexpr (kBackward) {
        gradient[e] = Unit::fetch_hidden(l, d, s, place, j);
        Unit::fetch_unit(l, d, s, made, place, j, &gradient[e]);
      } else {
        in[e] = Unit::fetch(l, d, s, place, j);
      }
    }
    if (i > 0) {
      if (threadIdx.x == 0) {
        const std::uint32_t wanted = static_cast<std::uint32_t>(i) * gridDim.x;
        while (ptx::ld_acquire_gpu(counter) < wanted) {
        }
      }
      __syncthreads();
    }

    float sums[G][4] = {};
    const bool multiplies = place0 < s.rows && (f.other != nullptr || place0 < f.a_places);
    if (multiplies) {
      for (int c = 0; c < shape.slots; ++c) {
        if (c < chunks) Block::load_chunk(l, f, place0, c, slots + c * Block::kSlot);
        ptx::cp_async_commit_group();
      }
#pragma unroll 1
      for (int c = 0; c < chunks; ++c) {
        wait_for_chunk(shape.slots);
        __syncthreads();
        Block::multiply_chunk(slots + c % shape.slots * Block::kSlot, weights, shape.columns, c, sums);
        if (const int next = c + shape.slots; next < chunks) {
          __syncthreads();
          Block::load_chunk(l, f, place0, next, slots + next % shape.slots * Block::kSlot);
        }
        ptx::cp_async_commit_group();
      }
    }
    Block::leave_sums(sums, meeting);
    __syncthreads();
#pragma unroll
    for (int e = 0; e < Block::kElements; ++e) {
      const int index = static_cast<int>(threadIdx.x) + e * kRnnPersistentThreads;
      const int r = index / Block::kUnits;
      const int j = index % Block::kUnits;
      if (index >= Block::kPlaces * Block::kUnits || place0 + r >= s.rows) continue;
      float total[G];
      Block::take_sums(meeting, r, j, total);
      if constexpr (kBackward) {
        const float dh = gradient[e].begins ? gradient[e].dh : gradient[e].dh + total[0];
        Unit::backward(l, d, s, place0 + r, unit0 + j, gradient[e], dh);
      } else {
        Unit::forward(l, d, s, place0 + r, unit0 + j, in[e], total);
      }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      ptx::red_release_gpu_add(counter, 1);
    }
  }
  ptx::cp_async_wait_group<0>();
}

template <class T, int G, int WM, int WN, int WK, bool kBackward>
bool launch_rnn_persistent_block(const RnnLayer& layer, const RnnPersistentShape& shape, std::uint32_t* flags,
                                 cudaStream_t stream) {
  constexpr auto kKernel = &rnn_persistent_sm90<T, G, WM, WN, WK, kBackward>;
  cuda::allow_shared_memory<kKernel>(kRnnPersistentShared);
  // A block takes a multiprocessor for itself: with all of its shared memory, so the answer holds for every shape.
  static int known[cuda::kDevicesKnown] = {};
  const int resident = cuda::cached_query(known, [] {
    int blocks = 0;
    int device = 0;
    int multiprocessors = 0;
    if (cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kKernel, kRnnPersistentThreads, kRnnPersistentShared) !=
            cudaSuccess ||
        cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess) {
      (void)cudaGetLastError();
      return 0;
    }
    return blocks * multiprocessors;
  });
  const dim3 blocks(static_cast<unsigned>(layer.units / (8 * WN)),
                    static_cast<unsigned>((layer.rows.batch + 16 * WM - 1) / (16 * WM)),
                    static_cast<unsigned>(layer.directions));
  if (static_cast<std::int64_t>(blocks.x) * blocks.y * blocks.z > resident) return false;
  cuda::launch_kernel(kKernel,
                      {.blocks = blocks,
                       .threads = dim3(kRnnPersistentThreads),
                       .shared_bytes = static_cast<std::size_t>(shape.shared_bytes),
                       .cooperative = true},
                      stream, layer, shape, flags);
  return true;
}

template <class T, int G, bool kBackward>
bool launch_rnn_persistent_gates(const RnnLayer& layer, const RnnPersistentShape& shape, std::uint32_t* flags,
                                 cudaStream_t stream) {
  switch (shape.block) {
    case 0:
      return launch_rnn_persistent_block<T, G, 1, 2, 4, kBackward>(layer, shape, flags, stream);
    case 1:
      return launch_rnn_persistent_block<T, G, 2, 2, 2, kBackward>(layer, shape, flags, stream);
    case 2:
      return launch_rnn_persistent_block<T, G, 4, 2, 1, kBackward>(layer, shape, flags, stream);
    case 3:
      return launch_rnn_persistent_block<T, G, 1, 4, 2, kBackward>(layer, shape, flags, stream);
    default:
      return false;
  }
}

template <class T>
bool launch_rnn_persistent_type(const RnnLayer& layer, const RnnPersistentShape& shape, bool backward,
                                std::uint32_t* flags, cudaStream_t stream) {
  if (backward) return launch_rnn_persistent_gates<T, 1, true>(layer, shape, flags, stream);
  switch (rnn_gates(layer.cell)) {
    case 4:
      return launch_rnn_persistent_gates<T, 4, false>(layer, shape, flags, stream);
    case 3:
      return launch_rnn_persistent_gates<T, 3, false>(layer, shape, flags, stream);
    default:
      return launch_rnn_persistent_gates<T, 1, false>(layer, shape, flags, stream);
  }
}

}  // namespace gpudnn::kernels
