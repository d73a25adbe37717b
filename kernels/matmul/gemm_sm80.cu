// The launch of the matrix product by mma.sync, by the operands' type.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "kernels/matmul/gemm_sm80.hpp"
#include "kernels/tile/element_type.hpp"

namespace gpudnn::kernels::matmul {
namespace {

// Compiled for the same targets as the kernels, and small.
__global__ void target_of_this_build() {}

}  // namespace

template <class T, class C>
void launch_gemm_sm80_type(const GemmParams& params, int row, unsigned blocks, cudaStream_t stream);

// What counts is the target that the code was compiled for, not the device: an sm_80 that runs the intermediate form of
// sm_75 would run empty kernels.
bool gemm_sm80_available() {
  cudaFuncAttributes attributes = {};
  if (cudaFuncGetAttributes(&attributes, &target_of_this_build) != cudaSuccess) {
    (void)cudaGetLastError();
    return false;
  }
  return attributes.ptxVersion >= 80;
}

void launch_gemm_sm80(const GemmParams& params, int row, cudaStream_t stream) {
  if (params.amax != nullptr) (void)cudaMemsetAsync(params.amax, 0, sizeof(float), stream);
  const GemmSm80Tile& shape = kGemmSm80Tiles[row];
  const std::int64_t tiles =
      params.batches * ((params.m + shape.m - 1) / shape.m) * ((params.n + shape.n - 1) / shape.n);
  // Beyond so many each block makes several.
  constexpr std::int64_t kMaxBlocks = std::int64_t{1} << 30;
  const auto blocks = static_cast<unsigned>(tiles < kMaxBlocks ? tiles : kMaxBlocks);
  switch (params.a.type) {
    case Element::f16:
      return launch_gemm_sm80_type<tile::Half, float>(params, row, blocks, stream);
    case Element::bf16:
      return launch_gemm_sm80_type<tile::BFloat16, float>(params, row, blocks, stream);
    case Element::i8:
      return launch_gemm_sm80_type<std::int8_t, std::int32_t>(params, row, blocks, stream);
    default:
      return launch_gemm_sm80_type<float, float>(params, row, blocks, stream);
  }
}

}  // namespace gpudnn::kernels::matmul
