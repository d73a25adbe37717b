// The instances of the batched product and their launch.
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "core/launch/launch.hpp"
#include "kernels/conv/winograd/batched_product_simt.cuh"

namespace gpudnn::kernels::winograd {
namespace {

template <std::size_t... kRows>
void launch_row(int row, const BatchedProduct& product, std::uint32_t blocks, CUstream_st* stream,
                std::index_sequence<kRows...>) {
  ((row == static_cast<int>(kRows) &&
    (cuda::launch_kernel(batched_product_simt<static_cast<int>(kRows)>,
                         {.blocks = dim3(blocks), .threads = dim3(kProductTiles[kRows].threads())}, stream, product),
     true)) ||
   ...);
}

}  // namespace

void launch_product(int row, const BatchedProduct& product, std::uint32_t blocks, CUstream_st* stream) {
  launch_row(row, product, blocks, stream, std::make_index_sequence<kProductTileCount>());
}

}  // namespace gpudnn::kernels::winograd
