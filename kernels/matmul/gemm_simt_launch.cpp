// The launch of the general matrix product, by the operands' type.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "kernels/matmul/gemm_simt.hpp"
#include "kernels/tile/element_type.hpp"

namespace gpudnn::kernels::matmul {

struct Byte;
template <class T, class C>
void launch_gemm_simt_type(const GemmParams& params, int row, unsigned blocks, cudaStream_t stream);

void launch_gemm_simt(const GemmParams& params, int tile, cudaStream_t stream) {
  if (params.amax != nullptr) (void)cudaMemsetAsync(params.amax, 0, sizeof(float), stream);
  const GemmSimtTile& shape = kGemmSimtTiles[tile];
  const std::int64_t tiles =
      params.batches * ((params.m + shape.m - 1) / shape.m) * ((params.n + shape.n - 1) / shape.n);
  // Beyond so many each block makes several.
  constexpr std::int64_t kMaxBlocks = std::int64_t{1} << 30;
  const auto blocks = static_cast<unsigned>(std::min(tiles, kMaxBlocks));
  switch (params.a.type) {
    case Element::f64:
      return launch_gemm_simt_type<double, double>(params, tile, blocks, stream);
    case Element::f16:
      return launch_gemm_simt_type<tile::Half, float>(params, tile, blocks, stream);
    case Element::bf16:
      return launch_gemm_simt_type<tile::BFloat16, float>(params, tile, blocks, stream);
    case Element::i8:
      return launch_gemm_simt_type<std::int8_t, std::int32_t>(params, tile, blocks, stream);
    case Element::e4m3:
    case Element::e5m2:
      return launch_gemm_simt_type<Byte, float>(params, tile, blocks, stream);
    default:
      return launch_gemm_simt_type<float, float>(params, tile, blocks, stream);
  }
}

}  // namespace gpudnn::kernels::matmul
