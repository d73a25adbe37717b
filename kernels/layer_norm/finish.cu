// dscale and dbias of layer normalization: the parts that blocks left, added in order.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "core/launch/waits_by_pdl.hpp"
#include "kernels/layer_norm/finish.hpp"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/tile/any_type.cuh"
#include "kernels/tile/reduce.cuh"

namespace gpudnn::kernels {
namespace {

constexpr int kLnFinishColumns = 32;
constexpr int kLnFinishThreads = 1024;

// Adds up the parts of 32 columns of dscale (blockIdx.y 0) or dbias (1): each of 32 warps every 32nd part, then the
// warps' sums in order.
__global__ void __launch_bounds__(kLnFinishThreads) layer_norm_finish(const __grid_constant__ LayerNormFinish args) {
  __shared__ float sums[kLnFinishThreads / 32][kLnFinishColumns + 1];
  const LayerNormTensor& out = blockIdx.y == 0 ? args.dscale : args.dbias;
  ptx::griddepcontrol_wait();
  if (out.data == nullptr) return;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kLnFinishColumns + lane;
  float sum = 0;
  if (column < args.length) {
    const float* const from = args.partials + blockIdx.y * args.length + column;
#pragma unroll 8
    for (int part = warp; part < args.parts; part += 32) sum += from[static_cast<std::int64_t>(part) * 2 * args.length];
  }
  sums[warp][lane] = sum;
  __syncthreads();
  sum = tile::warp_reduce(sums[lane][warp], tile::Sum{});
  const std::int64_t mine = static_cast<std::int64_t>(blockIdx.x) * kLnFinishColumns + warp;
  if (lane == 0 && mine < args.length) tile::store_any(out.type, out.data, mine, sum);
}

}  // namespace

void launch_layer_norm_finish(const LayerNormFinish& args, CUstream_st* stream) {
  const auto columns = static_cast<unsigned>((args.length + kLnFinishColumns - 1) / kLnFinishColumns);
  cuda::launch_kernel(layer_norm_finish,
                      {.blocks = dim3(columns, 2),
                       .threads = dim3(kLnFinishThreads),
                       .overlaps = cuda::waits_by_pdl<layer_norm_finish>()},
                      stream, args);
}

}  // namespace gpudnn::kernels
