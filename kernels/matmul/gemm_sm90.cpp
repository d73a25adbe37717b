// The launch of the Hopper matrix product: from the type to the file that has its instances.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul/gemm_sm90.hpp"

#include "kernels/tile/element_type.hpp"

namespace gpudnn::kernels::matmul::sm90 {

void launch_gemm_sm90(const GemmPlan& plan, CUstream_st* stream) {
  Params p = plan.params;
  const Epilogue& e = p.epilogue;
  const bool is_plain = e.beta == 0 && e.bias.data == nullptr && e.activation.mode == Activation::identity &&
                        e.scale_d == nullptr && e.amax == nullptr;
  using gemm::sm90::Store;
  const bool halves = p.stores_boxes && p.splits == 2 && gemm::sm90::exchanges_halves(kTiles[plan.tile]);
  p.store = halves ? Store::halves : p.stores_boxes && p.splits == 1 ? Store::boxes : Store::rows;
  const bool adds = e.bias.data == nullptr && e.activation.mode == Activation::identity && e.scale_d == nullptr &&
                    e.amax == nullptr && (e.beta == 0 || (e.c.type == e.d.type && e.c.n_stride == 1));
  const bool lines = adds && p.store == Store::rows && p.splits == 1 && !e.d.vectors && e.d.n_stride == 1 &&
                     element_bytes(e.d.type) == 2 && element_bytes(plan.element_type) == 2 && !p.promotes;
  if (lines && gemm::sm90::stores_lines(kTiles[plan.tile])) p.store = Store::lines;
  LaunchTile launch = nullptr;
  switch (plan.element_type) {
    case Element::f16:
      launch = launch_of<tile::Half>(plan.tile, is_plain);
      break;
    case Element::bf16:
      launch = p.promotes ? launch_of_promoted(plan.tile, is_plain) : launch_of<tile::BFloat16>(plan.tile, is_plain);
      break;
    case Element::f32:
      launch = launch_of<float>(plan.tile, is_plain);
      break;
    default:
      launch = launch_of<tile::Float8E4M3>(plan.tile, is_plain);
      break;
  }
  launch(p, plan.blocks, plan.cluster, stream);
}

}  // namespace gpudnn::kernels::matmul::sm90
