// The matrix product by mma.sync: Ampere and later, any strides.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/matmul/gemm_params.hpp"

namespace gpudnn::kernels::matmul {

struct GemmSm80Tile {
  const char* name;
  int m;
  int n;
};
constexpr GemmSm80Tile kGemmSm80Tiles[] = {{"bm128_bn128", 128, 128}, {"bm64_bn64", 64, 64}};
constexpr int kGemmSm80TileCount = 2;
constexpr int kGemmSm80DepthBytes = 64;  // of a k tile

// Whether this build's code for the current device has the instructions.
[[nodiscard]] bool gemm_sm80_available();

// Here an operand's `vectors` stands for 16 bytes that are one aligned copy. Clears amax, where there is one, and
// launches. A failure stays with the runtime.
void launch_gemm_sm80(const GemmParams& params, int tile, cudaStream_t stream);

}  // namespace gpudnn::kernels::matmul
