// The last step of the sums by channel: a block adds up the rows of totals of 8 channels, always in the same order.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/conv/implicit_gemm/implicit_gemm_sm90.hpp"
#include "kernels/ptx/griddepcontrol.cuh"

namespace gpudnn::kernels::sm90 {
namespace {

constexpr unsigned kSumThreads = 256;
constexpr unsigned kChannels = 8;           // of a block: 64 bytes of a row
constexpr unsigned kLanes = kChannels / 2;  // threads of a row: two channels each
constexpr unsigned kRows = kSumThreads / kLanes;

// Of two neighbouring channels.
__device__ __forceinline__ void add_to(float4* sum, const float4& other) {
  sum->x += other.x;
  sum->y += other.y;
  sum->z += other.z;
  sum->w += other.w;
}

__global__ void __launch_bounds__(kSumThreads)
    finish_sums(const ChannelTotal* totals, std::uint32_t rows, std::uint32_t channels, float* sum, float* squares) {
  __shared__ float4 of_warps[kSumThreads / 32][kLanes];
  const unsigned lane = threadIdx.x % kLanes;
  const ChannelTotal* const mine = totals + blockIdx.x * kChannels + 2 * lane;
  ptx::griddepcontrol_wait();
  float4 total = make_float4(0, 0, 0, 0);
#pragma unroll 8
  for (std::uint32_t row = threadIdx.x / kLanes; row < rows; row += kRows) {
    add_to(&total, *reinterpret_cast<const float4*>(mine + static_cast<std::size_t>(row) * channels));
  }
#pragma unroll
  for (unsigned step = kLanes; step < 32; step *= 2) {
    add_to(&total, make_float4(__shfl_xor_sync(~0u, total.x, step), __shfl_xor_sync(~0u, total.y, step),
                               __shfl_xor_sync(~0u, total.z, step), __shfl_xor_sync(~0u, total.w, step)));
  }
  if (threadIdx.x % 32 < kLanes) of_warps[threadIdx.x / 32][lane] = total;
  __syncthreads();
  if (threadIdx.x >= kLanes) return;
  for (unsigned warp = 1; warp < kSumThreads / 32; ++warp) add_to(&total, of_warps[warp][lane]);
  const unsigned channel = blockIdx.x * kChannels + 2 * lane;
  if (sum != nullptr) {
    sum[channel] = total.x;
    sum[channel + 1] = total.z;
  }
  if (squares != nullptr) {
    squares[channel] = total.y;
    squares[channel + 1] = total.w;
  }
}

}  // namespace

void launch_finish_sums(const ChannelTotal* totals, std::uint32_t rows, std::uint32_t channels, float* sum,
                        float* squares, CUstream_st* stream) {
  const cuda::LaunchConfig config = {.blocks = channels / kChannels, .threads = kSumThreads, .overlaps = true};
  cuda::launch_kernel(&finish_sums, config, stream, totals, rows, channels, sum, squares);
}

}  // namespace gpudnn::kernels::sm90
