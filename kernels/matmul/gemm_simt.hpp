// The general matrix product kernel: any strides, any types, any GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/matmul/gemm_params.hpp"

namespace gpudnn::kernels::matmul {

struct GemmSimtTile {
  const char* name;
  int m;
  int n;
};
constexpr GemmSimtTile kGemmSimtTiles[] = {{"bm128_bn128", 128, 128}, {"bm64_bn64", 64, 64}, {"bm16_bn64", 16, 64}};
constexpr int kGemmSimtTileCount = 3;
constexpr int kGemmSimtDepth = 16;  // of a k tile

// Whether operands of the type have the tile: 128 x 128 is for those whose sums leave registers for it.
constexpr bool gemm_simt_has(Element type, int tile) {
  return tile > 0 || type == Element::f32 || type == Element::f16 || type == Element::bf16;
}

// Clears amax, where there is one, and launches. A failure stays with the runtime.
void launch_gemm_simt(const GemmParams& params, int tile, cudaStream_t stream);

}  // namespace gpudnn::kernels::matmul
