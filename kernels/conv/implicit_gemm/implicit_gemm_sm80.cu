// The launch of the mma.sync implicit GEMM: the instance of a row and type, and the reduction of a split one.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/implicit_gemm/implicit_gemm_sm80.cuh"

namespace gpudnn::kernels::sm80 {
namespace {

// Compiled for the same targets as the kernels, and small.
__global__ void target_of_this_build() {}

}  // namespace

template <>
void launch_type<ElementType::f16>(int, const Params&, std::uint32_t, CUstream_st*);
template <>
void launch_type<ElementType::bf16>(int, const Params&, std::uint32_t, CUstream_st*);
template <>
void launch_type<ElementType::f32>(int, const Params&, std::uint32_t, CUstream_st*);

// What counts is the target that the code was compiled for, not the device: an sm_80 that runs the intermediate form of
// sm_75 would run empty kernels.
bool available() {
  cudaFuncAttributes attributes = {};
  if (cudaFuncGetAttributes(&attributes, &target_of_this_build) != cudaSuccess) {
    (void)cudaGetLastError();
    return false;
  }
  return attributes.ptxVersion >= 80;
}

void launch(int row, ElementType type, const Params& params, std::uint32_t blocks, CUstream_st* stream) {
  switch (type) {
    case ElementType::f16:
      launch_type<ElementType::f16>(row, params, blocks, stream);
      break;
    case ElementType::bf16:
      launch_type<ElementType::bf16>(row, params, blocks, stream);
      break;
    default:
      launch_type<ElementType::f32>(row, params, blocks, stream);
      break;
  }
  if (params.gemm.splits <= 1) return;
  const TileRow& tile = kTiles[row];
  simt::reduce_partial_sums(type, tile.bm, tile.bn, params.gemm, blocks / params.gemm.splits, stream);
}

}  // namespace gpudnn::kernels::sm80
