// The launch of the mma.sync implicit GEMM: the instance of a row and type, and the reduction of a split one.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/implicit_gemm_sm80.cuh"

namespace gpudnn::kernels::sm80 {
namespace {

// Compiled for the same targets as the kernels, and small.
__global__ void target_of_this_build() {}

}  // namespace

template <>
void launch_oriented<ElementType::f16, true>(int, const Params&, std::uint32_t, CUstream_st*);
template <>
void launch_oriented<ElementType::f16, false>(int, const Params&, std::uint32_t, CUstream_st*);
template <>
void launch_oriented<ElementType::bf16, true>(int, const Params&, std::uint32_t, CUstream_st*);
template <>
void launch_oriented<ElementType::bf16, false>(int, const Params&, std::uint32_t, CUstream_st*);
template <>
void launch_oriented<ElementType::f32, true>(int, const Params&, std::uint32_t, CUstream_st*);
template <>
void launch_oriented<ElementType::f32, false>(int, const Params&, std::uint32_t, CUstream_st*);

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
  const auto launch_type = [&]<ElementType kType>() {
    (params.a.k_major ? &launch_oriented<kType, true> : &launch_oriented<kType, false>)(row, params, blocks, stream);
  };
  switch (type) {
    case ElementType::f16:
      launch_type.template operator()<ElementType::f16>();
      break;
    case ElementType::bf16:
      launch_type.template operator()<ElementType::bf16>();
      break;
    default:
      launch_type.template operator()<ElementType::f32>();
      break;
  }
  if (params.gemm.splits <= 1) return;
  const TileRow& tile = kTiles[row];
  simt::reduce_partial_sums(type, tile.bm, tile.bn, params.gemm, blocks / params.gemm.splits, stream);
}

}  // namespace gpudnn::kernels::sm80
