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

constexpr int kLnFinishThreads = 1024;
constexpr std::int64_t kLnFinishWide = 2048;  // columns from which a thread takes four side by side

// Adds up the parts of 32 * kWidth columns of dscale (blockIdx.y 0) or dbias (1): each of 32 warps every 32nd part,
// then the warps' sums in order.
template <int kWidth>
__global__ void __launch_bounds__(kLnFinishThreads) layer_norm_finish(const __grid_constant__ LayerNormFinish args) {
  constexpr int kWarps = kLnFinishThreads / 32;
  __shared__ float sums[kWidth][kWarps][33];
  const LayerNormTensor& out = blockIdx.y == 0 ? args.dscale : args.dbias;
  ptx::griddepcontrol_wait();
  if (out.data == nullptr) return;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * 32 * kWidth;
  const std::int64_t column = first + lane * kWidth;
  float sum[kWidth] = {};
  if (column < args.length) {
    const float* const from =
        args.partials + (static_cast<std::int64_t>(blockIdx.z) * args.parts * 2 + blockIdx.y) * args.length + column;
#pragma unroll 8
    for (int part = warp; part < args.parts; part += kWarps) {
      const auto pack = tile::load_pack<float, kWidth>(from + static_cast<std::int64_t>(part) * 2 * args.length);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sum[i] += pack.data[i];
    }
  }
#pragma unroll
  for (int i = 0; i < kWidth; ++i) sums[i][warp][lane] = sum[i];
  __syncthreads();
  const std::int64_t to = blockIdx.z * (blockIdx.y == 0 ? args.dscale_sample : args.dbias_sample);
  // Lane `lane` has what that warp left of the column of lane `warp`.
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const float whole = tile::warp_reduce(sums[i][lane][warp], tile::Sum{});
    const std::int64_t mine = first + warp * kWidth + i;
    if (lane == 0 && mine < args.length) tile::store_any(out.type, out.data, to + mine, whole);
  }
}

template <int kWidth>
void launch(const LayerNormFinish& args, cudaStream_t stream) {
  const auto columns = static_cast<unsigned>((args.length + 32 * kWidth - 1) / (32 * kWidth));
  cuda::launch_kernel(layer_norm_finish<kWidth>,
                      {.blocks = dim3(columns, 2, static_cast<unsigned>(args.samples)),
                       .threads = dim3(kLnFinishThreads),
                       .overlaps = cuda::waits_by_pdl<layer_norm_finish<kWidth>>()},
                      stream, args);
}

}  // namespace

void launch_layer_norm_finish(const LayerNormFinish& args, CUstream_st* stream) {
  if (args.length >= kLnFinishWide && args.length % 4 == 0) {
    launch<4>(args, stream);
  } else {
    launch<1>(args, stream);
  }
}

}  // namespace gpudnn::kernels
