// The multiplications of the Hopper pointwise convolution on planes that the implicit GEMM does not have: sums over
// planes in TF32. wgmma takes TF32 from shared memory only where the sum runs along rows; of the image tensor it runs
// across them. So pixels are the rows of the product, whose operand may come from registers, transposed by the order in
// which fragments are loaded: a load of 16 bytes brings a thread four neighbouring pixels of a plane, and these are its
// rows, in two products of 64 rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/conv1x1/conv1x1_nchw_sm90_work.cuh"
#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_multiply.cuh"

namespace gpudnn::kernels::sm90::planes {

constexpr int kStepsOfHalf = 2;  // of 8 planes, in half a block of them

using Fragments = std::uint32_t[kStepsOfHalf][2][4];

// `from`: for each half of the columns, the thread's place in the first 8 planes.
__device__ __forceinline__ void load_fragments(const unsigned char* const (&from)[2], int half, Fragments& to) {
#pragma unroll
  for (int step = 0; step < kStepsOfHalf; ++step) {
#pragma unroll
    for (int column_half = 0; column_half < 2; ++column_half) {
      const uint4 pixels =
          *reinterpret_cast<const uint4*>(from[column_half] + (half * kStepsOfHalf + step) * 8 * kRowBytes);
      to[step][0][2 * column_half] = pixels.x;
      to[step][0][2 * column_half + 1] = pixels.y;
      to[step][1][2 * column_half] = pixels.z;
      to[step][1][2 * column_half + 1] = pixels.w;
    }
  }
}

template <class I>
__device__ __forceinline__ void multiply_half(const Fragments& a, const unsigned char* b, int half,
                                              float (&sum)[2][I::kBN / 2]) {
  const std::uint64_t b0 = tile::operand_descriptor<kRowBytes>(b, 16);
  ptx::wgmma_fence();
#pragma unroll
  for (int step = 0; step < kStepsOfHalf; ++step) {
#pragma unroll
    for (int block = 0; block < 2; ++block) {
      ptx::wgmma_tf32_registers<I::kBN>(sum[block], a[step][block],
                                        b0 + static_cast<std::uint64_t>((half * kStepsOfHalf + step) * 32 >> 4));
    }
  }
  ptx::wgmma_commit_group();
}

// Half of a block of planes is loaded while the half before is multiplied.
template <class I>
__device__ __forceinline__ void multiply_tf32(Shared<I>& shared, const Work& work, std::uint32_t sequence, int consumer,
                                              float (&sum)[2][I::kBN / 2], tile::PipelineState<I::kStages>* turn) {
  clear<I>(sum);
  ping_pong_wait<I>(shared, sequence);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x % 128) / 32 + (I::kPingPong ? 0 : 4 * consumer);
  Fragments first;
  Fragments second;
  int previous = -1;
  for (std::uint32_t k = work.k_begin; k < work.k_end; ++k) {
    const unsigned char* const a = shared.a[turn->stage] + warp * kBoxBytes;
    const unsigned char* const b = shared.b[turn->stage];
    const unsigned char* const from[2] = {a + fragment_at(lane, 0), a + fragment_at(lane, 1)};
    tile::wait(&shared.full[turn->stage], turn->parity);
    if (k + 1 == work.k_end) ping_pong_pass<I>(shared, consumer);
    load_fragments(from, 0, first);
    multiply_half<I>(first, b, 0, sum);
    ptx::wgmma_wait_group<1>();  // the second half before is done, its registers are free
    if (previous >= 0) release<I>(shared, previous);
    load_fragments(from, 1, second);
    multiply_half<I>(second, b, 1, sum);
    ptx::wgmma_wait_group<1>();
    previous = turn->stage;
    turn->next();
  }
  ptx::wgmma_wait_group<0>();
  release<I>(shared, previous);
}

}  // namespace gpudnn::kernels::sm90::planes
