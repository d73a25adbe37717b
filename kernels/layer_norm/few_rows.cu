// dscale = sum over the rows of dy * xhat;  dbias = sum over the rows of dy, where rows are few: a block has 8 packs of
// 16 bytes of columns, its threads every 32nd row of them, and what they have is added in order.
//
// It reads what the kernel that makes dx reads, at the same time and mostly from L2, and needs nothing of that kernel.
// So it is launched to begin beside it, and waits for it at its end alone: what is launched behind this one finds dx
// written.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "core/launch/waits_by_pdl.hpp"
#include "kernels/layer_norm/few_rows.hpp"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/tile/any_type.cuh"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels {
namespace {

constexpr int kLanes = 8;
constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kAtOnce = kThreads / kLanes;  // rows

template <class T>
__global__ void __launch_bounds__(kThreads) layer_norm_few_rows(const __grid_constant__ LayerNormFewRows args) {
  constexpr int N = tile::kPackWidth<T>;
  constexpr int kColumns = kLanes * N;
  __shared__ float sums[2][kWarps][kColumns];
  const auto thread = static_cast<int>(threadIdx.x);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kColumns;
  const std::int64_t column = first + thread % kLanes * N;
  float dscale[N] = {};
  float dbias[N] = {};
  if (column < args.length) {
    const T* const x = static_cast<const T*>(args.x) + column;
    const T* const dy = static_cast<const T*>(args.dy) + column;
#pragma unroll 4
    for (int row = thread / kLanes; row < args.rows; row += kAtOnce) {
      float values[N], gradients[N];
      tile::widen_pack<float>(tile::load_pack<T, N>(x + row * args.x_row), values);
      tile::widen_pack<float>(tile::load_pack<T, N>(dy + row * args.dy_row), gradients);
      const float mean =
          args.mean.data == nullptr ? 0.0f : tile::load_any<float>(args.mean.type, args.mean.data, row * args.mean_row);
      const float inverse = tile::load_any<float>(args.inverse.type, args.inverse.data, row * args.inverse_row);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        dbias[i] += gradients[i];
        dscale[i] += gradients[i] * ((values[i] - mean) * inverse);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < N; ++i) {
#pragma unroll
    for (int lanes = kLanes; lanes < 32; lanes *= 2) {
      dscale[i] += __shfl_xor_sync(0xffffffffu, dscale[i], lanes);
      dbias[i] += __shfl_xor_sync(0xffffffffu, dbias[i], lanes);
    }
    if (thread % 32 < kLanes) {
      sums[0][thread / 32][thread % kLanes * N + i] = dscale[i];
      sums[1][thread / 32][thread % kLanes * N + i] = dbias[i];
    }
  }
  __syncthreads();
  if (thread < 2 * kColumns && first + thread % kColumns < args.length) {
    const int which = thread / kColumns;
    float whole = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) whole += sums[which][warp][thread % kColumns];
    const LayerNormTensor& out = which == 0 ? args.dscale : args.dbias;
    if (out.data != nullptr) tile::store_any(out.type, out.data, first + thread % kColumns, whole);
  }
  ptx::griddepcontrol_wait();
}

template <class T>
void launch(const LayerNormFewRows& args, cudaStream_t stream) {
  constexpr int kColumns = kLanes * tile::kPackWidth<T>;
  cuda::launch_kernel(layer_norm_few_rows<T>,
                      {.blocks = dim3(static_cast<unsigned>((args.length + kColumns - 1) / kColumns)),
                       .threads = dim3(kThreads),
                       .overlaps = cuda::waits_by_pdl<layer_norm_few_rows<T>>()},
                      stream, args);
}

}  // namespace

void launch_layer_norm_few_rows(const LayerNormFewRows& args, CUstream_st* stream) {
  switch (args.type) {
    case tile::AnyType::f16:
      return launch<tile::Half>(args, stream);
    case tile::AnyType::bf16:
      return launch<tile::BFloat16>(args, stream);
    default:
      return launch<float>(args, stream);
  }
}

}  // namespace gpudnn::kernels
