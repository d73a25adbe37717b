// The launch of the mma.sync implicit GEMM: the instance of a row and type, and the reduction of a split one.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include "kernels/conv/implicit_gemm/implicit_gemm_sm80.hpp"

namespace gpudnn::kernels::sm80 {
namespace {

// Compiled for the same targets as the kernels, and small.
__global__ void target_of_this_build() {}

template <ElementType kType>
void launch_type(int row, const Params& params, std::uint32_t blocks, CUstream_st* stream) {
  switch (part_of_row(row)) {
    case 0:
      return launch_part<kType, 0>(row, params, blocks, stream);
    case 1:
      return launch_part<kType, 1>(row, params, blocks, stream);
    default:
      return launch_part<kType, 2>(row, params, blocks, stream);
  }
}

}  // namespace

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
