// The launch of planes_held_sm90.cuh. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/tile/any_type.hpp"
#include "kernels/tile/loop_nest.hpp"

struct CUstream_st;

namespace gpudnn::kernels {

struct LayerNormPlaneArgs;

constexpr int kLnHeldLeast = 32;  // packs of a plane, which a warp takes at once

// How a set of so many pieces of `piece_packs` packs is held: by a cluster; 0: it does not fit.
struct LayerNormHeld {
  int cluster = 0;
  int pieces = 0;  // of a block
};
[[nodiscard]] LayerNormHeld layer_norm_held(std::int64_t pieces, int piece_packs);
void launch_layer_norm_planes_held(const LayerNormHeld& held, tile::AnyType type, const LayerNormPlaneArgs& args,
                                   const tile::LoopNest<6>& sets, CUstream_st* stream);

}  // namespace gpudnn::kernels
