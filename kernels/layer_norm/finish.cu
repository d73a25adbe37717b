// dscale and dbias of layer normalization: the parts that blocks left, added in order.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "core/launch/waits_by_pdl.hpp"
#include "kernels/layer_norm/finish.hpp"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/tile/any_type.cuh"

namespace gpudnn::kernels {
namespace {

// Adds up the parts of kLanes * kWidth columns of dscale (blockIdx.y 0) or dbias (1) of a sample: kLanes threads side
// by side, each with kWidth columns of every so manieth part, then what those left, in order.
template <int kLanes, int kWidth, int kWarps>
__global__ void __launch_bounds__(kWarps * 32) layer_norm_finish(const __grid_constant__ LayerNormFinish args) {
  constexpr int kColumns = kLanes * kWidth;
  constexpr int kAtOnce = kWarps * 32 / kLanes;  // parts
  __shared__ float sums[kWarps][kColumns];
  const LayerNormTensor& out = blockIdx.y == 0 ? args.dscale : args.dbias;
  ptx::griddepcontrol_wait();
  if (out.data == nullptr) return;
  const auto thread = static_cast<int>(threadIdx.x);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kColumns;
  const std::int64_t column = first + thread % kLanes * kWidth;
  float sum[kWidth] = {};
  if (column < args.length) {
    const float* const from =
        args.partials + (static_cast<std::int64_t>(blockIdx.z) * args.parts * 2 + blockIdx.y) * args.length + column;
#pragma unroll 8
    for (int part = thread / kLanes; part < args.parts; part += kAtOnce) {
      const auto pack = tile::load_pack<float, kWidth>(from + static_cast<std::int64_t>(part) * 2 * args.length);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sum[i] += pack.data[i];
    }
  }
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
#pragma unroll
    for (int lanes = kLanes; lanes < 32; lanes *= 2) sum[i] += __shfl_xor_sync(0xffffffffu, sum[i], lanes);
    if (thread % 32 < kLanes) sums[thread / 32][thread % kLanes * kWidth + i] = sum[i];
  }
  __syncthreads();
  if (thread >= kColumns || first + thread >= args.length) return;
  float whole = 0;
#pragma unroll 8
  for (int warp = 0; warp < kWarps; ++warp) whole += sums[warp][thread];
  const std::int64_t to = blockIdx.z * (blockIdx.y == 0 ? args.dscale_sample : args.dbias_sample);
  tile::store_any(out.type, out.data, to + first + thread, whole);
}

template <int kLanes, int kWidth, int kWarps>
void launch(const LayerNormFinish& args, cudaStream_t stream) {
  constexpr int kColumns = kLanes * kWidth;
  const auto columns = static_cast<unsigned>((args.length + kColumns - 1) / kColumns);
  cuda::launch_kernel(layer_norm_finish<kLanes, kWidth, kWarps>,
                      {.blocks = dim3(columns, 2, static_cast<unsigned>(args.samples)),
                       .threads = dim3(kWarps * 32),
                       .overlaps = cuda::waits_by_pdl<layer_norm_finish<kLanes, kWidth, kWarps>>()},
                      stream, args);
}

}  // namespace

// Few columns: runs of 32 bytes, so that there are blocks for many multiprocessors. Many columns and few parts: small
// blocks, which all run at once.
void launch_layer_norm_finish(const LayerNormFinish& args, CUstream_st* stream) {
  const std::int64_t columns = args.length * args.samples;
  if (args.length % 4 != 0 || columns < 4096) {
    launch<8, 1, 32>(args, stream);
  } else if (args.parts <= 128 && columns >= 16384) {
    launch<32, 4, 8>(args, stream);
  } else {
    launch<32, 4, 32>(args, stream);
  }
}

}  // namespace gpudnn::kernels
