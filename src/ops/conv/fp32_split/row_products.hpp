// What the launchers of Winograd's and the Fourier convolution on Hopper have in common: the product of rows by
// fp32_split's kernels, its tensor maps and its addresses in the workspace. A Launch has `direction` and the offsets of
// the workspace's parts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/fp32_split/row_batches.hpp"
#include "ops/conv/implicit_gemm/implicit_gemm_maps.hpp"
#include "ops/conv/sm90_launch.hpp"

namespace gpudnn::conv {

// `terms`: where forward and the data gradient have the filter's.
template <class Boxes>
[[nodiscard]] bool encode_row_product(Direction direction, const Boxes& terms, Sm90Plan* plan) {
  constexpr MapElement kFloats = {.type = tile::ElementType::f32, .rounds_to_tf32 = false};
  kernels::sm90::Params& p = plan->params;
  bool encoded = encode_pixels(plan->a[0], false, kFloats, &p.a[0]);
  if (direction == Direction::wgrad) return encode_pixels(plan->b, false, kFloats, &p.b) && encoded;
  encoded = encode_rows(terms, tile::ElementType::bf16, &p.b) && encoded;
  return encode_filter(plan->c, kFloats, &p.c_map) && encoded;
}

// The product's parameters with the addresses of a call.
template <class Launch>
[[nodiscard]] Status set_row_addresses(const LaunchSite& site, const Launch& l, const PartsOfWorkspace& workspace,
                                       kernels::sm90::Params* p) {
  const bool is_wgrad = l.direction == Direction::wgrad;
  p->c = workspace.floats(l.product_at);
  p->addend = p->c;
  const void* const a = workspace.floats(is_wgrad ? l.filter_at : l.data_at);
  const void* const b = workspace.floats(is_wgrad ? l.data_at : l.filter_at);
  const bool replaced = cuda::with_context(site.device.ordinal, [&] {
    return cuda::replace_address(&p->a[0], a) && cuda::replace_address(&p->b, b) &&
           (is_wgrad || cuda::replace_address(&p->c_map, p->c));
  });
  GPUDNN_REQUIRE(replaced, GPUDNN_STATUS_BAD_PARAM,
                 "the driver refused the address of the workspace, which must be a multiple of 16 bytes");
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::conv
