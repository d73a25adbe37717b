// Instances of the Hopper matrix product: bf16 whose k tiles are summed in float, for the terms of floats.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul/gemm_sm90.cuh"

namespace gpudnn::kernels::matmul::sm90 {
namespace {

template <int kIndex, bool kIsPlain>
struct Promoted : gemm::sm90::Instance<tile::BFloat16, TileAt<kIndex>, kIsPlain> {
  static constexpr bool kPromotes = true;
};

// Null for a tile that has no registers for it.
template <int kIndex, bool kIsPlain>
constexpr LaunchTile launch_of_promoted_instance() {
  if constexpr (promotes_sums(kTiles[kIndex])) {
    return &gemm::sm90::launch_instance<Promoted<kIndex, kIsPlain>>;
  } else {
    return nullptr;
  }
}

}  // namespace

LaunchTile launch_of_promoted(int tile, bool plain) {
  return [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    static constexpr LaunchTile kPlain[] = {launch_of_promoted_instance<static_cast<int>(kIndex), true>()...};
    static constexpr LaunchTile kChain[] = {launch_of_promoted_instance<static_cast<int>(kIndex), false>()...};
    return (plain ? kPlain : kChain)[tile];
  }
  (std::make_index_sequence<kTileCount>());
}

}  // namespace gpudnn::kernels::matmul::sm90
