// The instances of the Hopper matrix product: kernels/gemm/sm90/kernel.cuh with the tiles of gemm_sm90.hpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "kernels/gemm/sm90/kernel.cuh"
#include "kernels/matmul/gemm_sm90.hpp"

namespace gpudnn::kernels::matmul::sm90 {

template <int kIndex>
struct TileAt {
  static constexpr TileShape value = kTiles[kIndex];
};

// Null for a tile that the type or epilogue does not have.
template <class T, int kIndex, bool kPlain>
constexpr LaunchTile launch_of_instance() {
  if constexpr (is_plain_tile(kTiles[kIndex]) && (sizeof(T) != 2 || !kPlain)) {
    return nullptr;
  } else {
    return &gemm::sm90::launch_instance<gemm::sm90::Instance<T, TileAt<kIndex>, kPlain>>;
  }
}

template <class T>
LaunchTile launch_of(int tile, bool plain) {
  return [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    static constexpr LaunchTile kPlain[] = {launch_of_instance<T, static_cast<int>(kIndex), true>()...};
    static constexpr LaunchTile kChain[] = {launch_of_instance<T, static_cast<int>(kIndex), false>()...};
    return (plain ? kPlain : kChain)[tile];
  }
  (std::make_index_sequence<kTileCount>());
}

}  // namespace gpudnn::kernels::matmul::sm90
